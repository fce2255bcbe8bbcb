"""Forced scoring: the whole translation at once says the same as the search's steps, one piece after the other."""

import math

import pytest
import torch

from weft.errors import UsageError
from weft.tasks.forced import force
from weft.tasks.model_folder import TranslationModel
from weft.tasks.translation import Translator, encode_sources
from weft.text.vocabulary import BEGIN_ID, END_ID

SOURCES = ["你好。", "他在学校。", "她今天很高兴，我们也很高兴。", "谢谢"]
TARGETS = ["Hello.", "He is at school.", "", "Thanks a lot, and a very long way of saying it."]


def by_steps(model: TranslationModel, source: str, target: str) -> list[float]:
    """The twin: the step function of the search, fed with the pieces of the translation."""
    ids = torch.from_numpy(encode_sources(model, [source])[0]).long()[None]
    state = model.model.start(ids)
    log_probs, newest = [], BEGIN_ID
    with torch.inference_mode():
        for token in [*model.target_tokenizer.encode([target])[0], END_ID]:
            log_probs.append(float(state.step(torch.tensor([newest]))[0, token]))
            newest = token
    return log_probs


def test_each_piece_has_the_log_probability_of_the_searchs_step(random_model: TranslationModel) -> None:
    for given in force(Translator(random_model), SOURCES, TARGETS):
        expected = by_steps(random_model, given.source, given.target)
        assert given.log_probs == pytest.approx(expected, abs=1e-4)
        assert given.log_prob == pytest.approx(sum(expected), abs=1e-3)
        assert given.pieces == (*random_model.target_tokenizer.pieces(given.target), "</s>")


def test_of_an_ensemble_it_is_the_mean_of_the_probabilities(random_model: TranslationModel, tiny_run) -> None:
    from weft.tasks.model_folder import find_model, load_model

    other = load_model(find_model(tiny_run / "run"))
    both = force(Translator(random_model, others=[other]), SOURCES[:1], TARGETS[:1])[0]
    one, two = (by_steps(model, SOURCES[0], TARGETS[0]) for model in (random_model, other))
    expected = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(one, two, strict=True)]
    assert both.log_probs == pytest.approx(expected, abs=1e-4)


def test_no_pairs_have_no_probabilities(random_model: TranslationModel) -> None:
    assert force(Translator(random_model), [], []) == []


def test_unequal_numbers_are_refused(random_model: TranslationModel) -> None:
    with pytest.raises(UsageError, match="4 sources and 3 translations"):
        force(Translator(random_model), SOURCES, TARGETS[:3])
