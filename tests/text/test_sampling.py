"""Subword regularization: cuts drawn at random are those of the papers, and a function of text and seed alone."""

import math
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

from weft.text.sentencepiece_model import SentencePieceTokenizer, train_sentencepiece

Kind = Literal["bpe", "unigram"]
AMOUNTS: dict[Kind, float] = {"bpe": 0.3, "unigram": 0.4}
DRAWN = 3000
WORDS = ["abab", "abba", "baab", "aabb", "ab", "ba"]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest, corpus: list[str]) -> SentencePieceTokenizer:
    return train_sentencepiece(corpus, kind=request.param, vocab_size=420, language="zh")[0]


def tiny(kind: Kind) -> SentencePieceTokenizer:
    """Few pieces of two letters."""
    return train_sentencepiece(WORDS * 9, kind=kind, vocab_size=274, language="en")[0]


def test_the_same_text_and_seed_give_the_same_ids_in_any_order(
    tokenizer: SentencePieceTokenizer, corpus: list[str]
) -> None:
    texts, seeds, amount = corpus[::7], list(range(len(corpus[::7]))), AMOUNTS[tokenizer.kind]
    ids = tokenizer.sample(texts, seeds, amount)
    assert tokenizer.sample(texts[::-1], seeds[::-1], amount) == ids[::-1]
    assert tokenizer.sample(texts[3:5], seeds[3:5], amount) == ids[3:5]
    assert ids != tokenizer.encode(texts)
    assert tokenizer.decode(ids) == [tokenizer.normalize(text) for text in texts]


def test_so_they_do_in_another_thread_and_another_process(
    tokenizer: SentencePieceTokenizer, tmp_path: Path, corpus: list[str]
) -> None:
    text, amount = corpus[-1], AMOUNTS[tokenizer.kind]
    seeds = [5, 0, 2**32 - 1, 2**63]
    ids = tokenizer.sample([text] * 4, seeds, amount)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda seed: tokenizer.sample([text], [seed], amount)[0], seeds * 20)) == ids * 20
    (tmp_path / "t.model").write_bytes(tokenizer.model)
    program = f"""
from pathlib import Path
from weft.text.sentencepiece_model import SentencePieceTokenizer
tokenizer = SentencePieceTokenizer(Path({str(tmp_path / "t.model")!r}).read_bytes(), kind={tokenizer.kind!r})
print(tokenizer.sample([{text!r}] * 4, {seeds}, {amount}))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == f"{ids}\n"


def test_another_seed_is_another_cut(tokenizer: SentencePieceTokenizer, corpus: list[str]) -> None:
    cuts = tokenizer.sample([corpus[-1]] * 50, range(50), AMOUNTS[tokenizer.kind])
    assert len({tuple(cut) for cut in cuts}) > 5


def test_no_text_is_no_id(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.sample(["", " \n"], [1, 2], AMOUNTS[tokenizer.kind]) == [[], []]


def test_without_dropout_it_is_the_librarys_own_bpe(corpus: list[str], strange_strings: list[str]) -> None:
    tokenizer = train_sentencepiece(corpus, kind="bpe", vocab_size=420, language="zh")[0]
    texts = [*corpus, *strange_strings]
    assert tokenizer.sample(texts, range(len(texts)), 0.0) == tokenizer.encode(texts)


def test_full_dropout_leaves_characters(corpus: list[str]) -> None:
    tokenizer = train_sentencepiece(corpus, kind="bpe", vocab_size=420, language="zh")[0]
    (ids,) = tokenizer.sample(["Tom said 汤姆有三个苹果。"], [1], 1.0)
    assert ids == tokenizer.ids_of(list("▁Tom▁said▁汤姆有三个苹果。"))


def test_whatever_is_drawn_reads_as_the_text_and_holds_no_special_id(
    tokenizer: SentencePieceTokenizer, strange_strings: list[str]
) -> None:
    ids = tokenizer.sample(strange_strings, range(len(strange_strings)), AMOUNTS[tokenizer.kind])
    assert tokenizer.decode(ids) == [tokenizer.normalize(text) for text in strange_strings]
    assert not {0, 1, 2, 3} & {i for sentence in ids for i in sentence}


def test_a_large_alpha_draws_the_cut_that_the_library_finds_most_probable(
    corpus: list[str], strange_strings: list[str]
) -> None:
    tokenizer = train_sentencepiece(corpus, kind="unigram", vocab_size=420, language="zh")[0]
    texts = [*corpus, *strange_strings]
    best = tokenizer.encode(texts)
    drawn = {alpha: tokenizer.sample(texts, range(len(texts)), alpha) for alpha in (0.0, 0.5, 1e4)}
    same = {alpha: sum(map(list.__eq__, ids, best)) / len(texts) for alpha, ids in drawn.items()}
    assert same[0.0] < same[0.5] < 0.97 and same[1e4] > 0.99  # two cuts may be equally probable


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("amount", [-0.1, math.nan, math.inf])
def test_an_amount_that_means_nothing_is_refused(kind: Kind, amount: float) -> None:
    with pytest.raises(ValueError, match="amount"):
        tiny(kind).sample(["ab"], [1], amount)


# Probabilities


@pytest.mark.parametrize("text", ["abab", "abbaab"])
@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_unigram_cuts_are_as_frequent_as_the_exponential_of_alpha_times_their_score(text: str, alpha: float) -> None:
    tokenizer = tiny("unigram")
    weights = {cut: math.exp(alpha * score) for cut, score in all_cuts(tokenizer, f"▁{text}")}
    total = sum(weights.values())
    assert len(weights) > 5
    is_as_frequent(tokenizer, text, alpha, {cut: weight / total for cut, weight in weights.items()})


def all_cuts(tokenizer: SentencePieceTokenizer, text: str) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every way to write the text in pieces, with the sum of their log-probabilities."""
    if not text:
        yield (), 0.0
    for length in range(1, len(text) + 1):
        (piece,) = tokenizer.ids_of([text[:length]])
        if piece is not None:
            for rest, score in all_cuts(tokenizer, text[length:]):
                yield (piece, *rest), tokenizer._processor.get_score(piece) + score


@pytest.mark.parametrize("text", ["abab", "aabba"])
@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_bpe_dropout_leaves_each_possible_merge_out_with_its_probability_in_each_step(
    text: str, dropout: float
) -> None:
    tokenizer = tiny("bpe")
    probabilities: dict[tuple[int, ...], float] = defaultdict(float)
    for cut, probability in merged(tokenizer, tuple(f"▁{text}"), dropout):
        probabilities[known(tokenizer, cut)] += probability
    assert len(probabilities) > 3
    is_as_frequent(tokenizer, text, dropout, probabilities)


def merged(
    tokenizer: SentencePieceTokenizer, symbols: tuple[str, ...], dropout: float
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every cut that the merges lead to with its probability: the best candidate is merged unless it is left out, the
    second best unless both are, and so on; all left out, the cut stays as it is."""
    candidates = []
    for place in range(len(symbols) - 1):
        (piece,) = tokenizer.ids_of([symbols[place] + symbols[place + 1]])
        if piece is not None:
            candidates.append((-tokenizer._processor.get_score(piece), place))
    yield symbols, dropout ** len(candidates)
    for rank, (_, place) in enumerate(sorted(candidates)):
        together = (*symbols[:place], symbols[place] + symbols[place + 1], *symbols[place + 2 :])
        for cut, probability in merged(tokenizer, together, dropout):
            yield cut, dropout**rank * (1 - dropout) * probability


def known(tokenizer: SentencePieceTokenizer, cut: Sequence[str]) -> tuple[int, ...]:
    return tuple(i for i in tokenizer.ids_of(cut) if i is not None)


def is_as_frequent(
    tokenizer: SentencePieceTokenizer, text: str, amount: float, probabilities: dict[tuple[int, ...], float]
) -> None:
    """The drawn cuts are possible ones, each within five standard deviations of its probability."""
    drawn = Counter(map(tuple, tokenizer.sample([text] * DRAWN, range(DRAWN), amount)))
    assert sum(probabilities.values()) == pytest.approx(1)
    assert drawn.keys() <= probabilities.keys()
    for cut, probability in probabilities.items():
        deviation = math.sqrt(DRAWN * probability * (1 - probability)) + 1
        assert abs(drawn[cut] - DRAWN * probability) < 5 * deviation, tokenizer._processor.id_to_piece(list(cut))
