"""Forced scoring: the whole translation at once says the same as the search's steps, one piece after the other."""

import math
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch
from tests.evaluating.test_explanation import log_prob_by_steps

from weft.data.corpus import ParallelText
from weft.data.sentences import Sentences
from weft.errors import UsageError
from weft.evaluating.forced import TOKENS_AT_ONCE, batches, force, score_pairs
from weft.folders.model_folder import TranslationModel
from weft.translating.batches import computing_in, encode_sources
from weft.translating.translator import Translator

SOURCES = ["你好。", "他在学校。", "她今天很高兴，我们也很高兴。", "谢谢"]
TARGETS = ["Hello.", "He is at school.", "", "Thanks a lot, and a very long way of saying it."]


def by_steps(model: TranslationModel, source: str, target: str) -> list[float]:
    """The twin: the step function of the search, fed with the pieces of the translation."""
    (read,), (written,) = encode_sources(model, [source]), model.vocabularies["target"].encode([target])
    return log_prob_by_steps(model, read.tolist(), written)


def test_each_piece_has_the_log_probability_of_the_searchs_step(random_model: TranslationModel) -> None:
    for given in force(Translator(random_model), SOURCES, TARGETS):
        expected = by_steps(random_model, given.source, given.target)
        assert given.log_probs == pytest.approx(expected, abs=1e-4)
        assert given.log_prob == pytest.approx(sum(expected), abs=1e-3)
        assert given.pieces == (*random_model.vocabularies["target"].pieces(given.target), "</s>")


def test_who_scores_changes_no_precision_while_another_computes(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    with ThreadPoolExecutor(1) as other:
        with computing_in(random_model.network, torch.bfloat16):
            scored = other.submit(force, translator, SOURCES, TARGETS)
            wait([scored], timeout=0.5)
            assert random_model.network.compute_dtype == torch.bfloat16 and not scored.done()
        assert len(scored.result()) == len(SOURCES)
    assert random_model.network.compute_dtype == torch.float32


def test_of_an_ensemble_it_is_the_mean_of_the_probabilities(random_model: TranslationModel, tiny_run) -> None:
    from weft.folders.finding import find_model
    from weft.folders.model_folder import load_model

    other = load_model(find_model(tiny_run / "run"))
    both = force(Translator(random_model, others=[other]), SOURCES[:1], TARGETS[:1])[0]
    one, two = (by_steps(model, SOURCES[0], TARGETS[0]) for model in (random_model, other))
    expected = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(one, two, strict=True)]
    assert both.log_probs == pytest.approx(expected, abs=1e-4)


def test_a_long_source_among_short_translations_makes_no_large_batch() -> None:
    written, read = Sentences([[1] * 3] * 1000), Sentences([[1] * 500, *[[1] * 4] * 999])
    found = list(batches(written, [read]))
    assert sorted(index for indices in found for index in indices.tolist()) == list(range(1000))
    assert all(len(indices) * int(read.lengths[indices].max()) <= TOKENS_AT_ONCE for indices in found)


def test_no_pairs_have_no_probabilities(random_model: TranslationModel) -> None:
    assert force(Translator(random_model), [], []) == []


def test_unequal_numbers_are_refused(random_model: TranslationModel) -> None:
    with pytest.raises(UsageError, match="4 sources and 3 translations"):
        force(Translator(random_model), SOURCES, TARGETS[:3])


def test_of_a_data_set_the_perplexity_is_that_of_all_its_pieces(random_model: TranslationModel) -> None:
    pairs = ParallelText(SOURCES, [(target, "another") for target in TARGETS], {"valid.tsv": "0" * 64})
    found = score_pairs(Translator(random_model), pairs)
    log_probs = [log_prob for pair in found.translations for log_prob in pair.log_probs]
    assert found.pieces == len(log_probs)
    assert found.perplexity == pytest.approx(math.exp(-sum(log_probs) / len(log_probs)))
    content = found.as_dict()
    assert content["sentences"][1]["log_probs"] == found.translations[1].log_probs
    assert content["sentences"][1]["log_prob_per_piece"] == pytest.approx(
        found.translations[1].log_prob / len(found.translations[1].pieces)
    )
    header, *rows = found.rows()
    assert header == ("source", "target", "log_prob", "pieces", "log_prob_per_piece")
    assert [row[:2] for row in rows] == list(zip(SOURCES, TARGETS, strict=True))


def test_a_model_that_gives_every_piece_the_same_has_the_size_of_its_vocabulary_as_perplexity(
    random_model: TranslationModel,
) -> None:
    with torch.no_grad():
        random_model.network.output.weight.zero_()
    pairs = ParallelText(SOURCES, [(target,) for target in TARGETS], {"valid.tsv": "0" * 64})
    vocab_size = random_model.vocabularies["target"].vocab_size
    assert score_pairs(Translator(random_model), pairs).perplexity == pytest.approx(vocab_size, rel=1e-4)
