"""Neighbors and the plane of embeddings, against embeddings that are known."""

from pathlib import Path

import pytest
import torch

from weft.errors import UsageError
from weft.evaluating.embeddings import examine_embeddings, is_word, nearest, plain, plane
from weft.folders.model_folder import load_model
from weft.text.kinds import pieces_of
from weft.translating.translator import Translator


def test_the_plane_is_that_of_the_eigenvectors_of_the_covariance() -> None:
    x = torch.randn(30, 5, dtype=torch.float64) * torch.tensor([3.0, 2.0, 1.0, 0.5, 0.1], dtype=torch.float64)
    points, shares = plane(x)
    values, vectors = torch.linalg.eigh(torch.cov(x.T))
    assert shares == pytest.approx([float(value / values.sum()) for value in values.flip(0)[:2]])
    ours = torch.tensor(points, dtype=torch.float64)
    theirs = (x - x.mean(0)) @ vectors.flip(1)[:, :2]
    torch.testing.assert_close(ours.abs(), theirs.abs())
    assert all(axis[axis.abs().argmax()] > 0 for axis in ours.T)


def test_neighbors_are_sorted_by_cosine_and_the_word_itself_is_not_among_them() -> None:
    weight = torch.tensor([[1.0, 0.0], [2.0, 0.2], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.1]])
    found = nearest(weight, [0], [0, 1, 2, 3, 4], ["▁cat", "cats", "▁dog", "▁car", "cat"])
    assert [word for word, _ in found] == ["cats", "dog", "car"]
    assert [cosine for _, cosine in found] == pytest.approx([0.995, 0.0, -1.0], abs=1e-3)


def test_only_pieces_with_letters_are_shown_and_the_most_frequent_first(distinct_model: Path) -> None:
    translator = Translator(load_model(distinct_model))
    found = examine_embeddings(translator, [], "target", ["I have seven apples."] * 3 + ["I have a cup."])
    assert all(any(map(str.isalpha, name)) for name in found.points) and "<s>" not in found.points
    assert next(iter(found.points)) == "I" and found.ranked_by == "most frequent pieces"
    assert len(found.points) <= 200 and 0 < sum(found.explained) <= 1
    assert all(len(line) <= 80 for line in found.table().text().splitlines())
    network, pieces = translator.model.network, pieces_of(translator.model.vocabularies["target"], "bpe")
    weight = network.target_embedding.weight.detach()
    among = [number for number, piece in enumerate(pieces) if is_word(piece)]
    centered = weight - weight[among].mean(0)
    (word, near), *_ = found.neighbors.items()
    own = [centered[number] for number, piece in enumerate(pieces) if plain(piece) == word and piece.startswith("▁")]
    cosines = {plain(pieces[n]): float(torch.cosine_similarity(centered[n], own[0], dim=0)) for n in reversed(among)}
    assert max((value, name) for name, value in cosines.items() if name != word)[1] == near[0][0]


def test_a_word_that_has_no_piece_is_refused(distinct_model: Path) -> None:
    translator = Translator(load_model(distinct_model))
    with pytest.raises(UsageError, match="the source vocabulary has no piece of  ; --side"):
        examine_embeddings(translator, [" "], "source")
