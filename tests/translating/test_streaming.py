"""A translation that is shown while it is searched for: the parts are those of the answer, and none is taken back."""

from pathlib import Path
from typing import Any

import pytest
import torch

from weft.errors import UsageError
from weft.folders.finding import find_model
from weft.folders.model_folder import TranslationModel, load_model
from weft.translating.glossary import Glossary
from weft.translating.loading import load_translator
from weft.translating.memory import TranslationMemory
from weft.translating.translator import Translator

TEXTS = ["我有一个苹果。", "他们两个朋友的书包里有三个问题，我也有。", "书包", "abc ü 龘"]
METHODS: list[dict[str, Any]] = [
    {"method": "greedy"},
    {"method": "beam", "beam_size": 4},
    {"method": "beam", "beam_size": 4, "stopping": "first-k", "no_repeat_ngram": 2},
    {"method": "beam", "beam_size": 4, "diverse_groups": 2},
    {"method": "sample", "sampling_seed": 5},
    {"method": "mbr", "mbr_candidates": 20},
    {"method": "greedy", "precision": "bf16"},
]


@pytest.fixture(params=["wordy", "distinct"])
def translator(request: pytest.FixtureRequest, distinct_model: Path, wordy_model: TranslationModel) -> Translator:
    return Translator(wordy_model) if request.param == "wordy" else load_translator(distinct_model)


@pytest.mark.parametrize("decoding", METHODS, ids=lambda decoding: "-".join(map(str, decoding.values())))
def test_the_parts_of_a_stream_are_the_translation(translator: Translator, decoding: dict[str, Any]) -> None:
    together = [translation.text for translation in translator.translate(TEXTS[1:3], **decoding)]
    assert together[0] != together[1]
    for text, whole in zip(TEXTS[1:3], together, strict=True):
        parts = list(translator.stream(text, **decoding))
        assert "".join(parts) == whole and all(parts)


def test_so_they_are_under_a_glossary_behind_a_prefix_and_of_an_ensemble(
    random_model: TranslationModel, tiny_run: Path
) -> None:
    translator = Translator(random_model, others=[load_model(find_model(tiny_run / "run"))])
    glossary = Glossary([("书包", "bag")], ("zh", "en"))
    wishes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"glossary": glossary}, {"glossary": glossary}),
        ({"prefix": "She is"}, {"prefixes": ["She is"]}),
    ]
    for streamed, translated in wishes:
        parts = list(translator.stream(TEXTS[1], max_length_extra=8, **streamed))
        assert "".join(parts) == translator.translate([TEXTS[1]], max_length_extra=8, **translated)[0].text


def test_greedy_search_streams_word_by_word(wordy_model: TranslationModel) -> None:
    parts = list(Translator(wordy_model).stream(TEXTS[1], method="greedy", max_length_extra=30))
    assert len(parts) > 3
    assert all(part.startswith(" ") and " " not in part[1:] for part in parts[1:-1])


def test_beam_search_gives_the_beginning_before_the_end(wordy_model: TranslationModel) -> None:
    stream = Translator(wordy_model).stream
    assert max(len(list(stream(text, beam_size=2, max_length_extra=30))) for text in TEXTS) > 1


class Counting(Translator):
    """Counts the steps that its model takes."""

    steps = 0

    def _start(self, read: Any, indices: Any, rows: int) -> Any:
        state, longest = super()._start(read, indices, rows)
        step = state.step

        def counted(tokens: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return step(tokens)

        state.step = counted  # type: ignore[method-assign]
        return state, longest


@pytest.mark.parametrize("decoding", [{"method": "greedy"}, {"method": "beam", "beam_size": 2}], ids=str)
def test_the_first_part_comes_early_and_closing_the_stream_ends_the_search(
    wordy_model: TranslationModel, decoding: dict[str, Any]
) -> None:
    translator = Counting(wordy_model)
    stream = translator.stream(TEXTS[1], max_length_extra=150, min_length=150, **decoding)
    next(stream)
    taken = translator.steps
    assert taken < 75
    stream.close()
    assert list(stream) == [] and translator.steps == taken
    list(translator.stream(TEXTS[1], max_length_extra=150, min_length=150, **decoding))
    assert translator.steps > taken + 150


def test_between_two_parts_the_model_computes_as_before(wordy_model: TranslationModel) -> None:
    translator = Translator(wordy_model)
    stream = translator.stream(TEXTS[1], method="greedy", precision="bf16")
    next(stream)
    assert wordy_model.network.compute_dtype == torch.float32 and not torch.is_inference_mode_enabled()


def test_a_sentence_of_the_memory_and_an_empty_one_are_given_at_once(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    memory = TranslationMemory([("书包", "schoolbag")], ("zh", "en"), random_model.vocabularies["source"].normalize)
    assert list(translator.stream("書包 ", memory=memory)) == ["schoolbag"]
    assert list(translator.stream(" \t")) == []


@pytest.mark.parametrize("asked", [{"memory": {"我": "I"}}, {"glossary": {"我": "I"}}, {"prefix": "I"}, {}], ids=str)
@pytest.mark.parametrize("text", ["我", ""])
def test_every_stream_can_be_closed(random_model: TranslationModel, text: str, asked: dict[str, Any]) -> None:
    stream = Translator(random_model).stream(text, **asked)
    stream.close()
    assert list(stream) == []


def test_what_cannot_be_streamed_is_refused_before_the_first_part(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    with pytest.raises(UsageError, match="method"):
        translator.stream("我", method="none")
    with pytest.raises(UsageError, match="4,096"):
        translator.stream("我有一个苹果。" * 5000)
