"""What else could stand at a place: different words, each with the translation that continues from it."""

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import untrained
from tests.evaluating.test_explanation import log_prob_by_steps

from weft.config import changed
from weft.errors import UsageError
from weft.folders.finding import find_model
from weft.folders.model_folder import Learned, TranslationModel, load_model
from weft.text.kinds import pieces_of, train_tokenizer
from weft.translating import alternatives
from weft.translating.alternatives import complete, find_beginnings, which_begin_words
from weft.translating.arguments import changed_decoding
from weft.translating.batches import encode_prefixes, encode_sources
from weft.translating.loading import load_translator
from weft.translating.translator import Translator

TEXT = "我有一个苹果。"


@pytest.fixture
def translator(tiny_run: Path) -> Translator:
    return load_translator(tiny_run / "run")


@pytest.mark.parametrize("prefix", ["", "I", "I have", "I have one apples."])
@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_the_first_is_at_least_as_good_as_how_the_prefix_is_gone_on_with_anyway(
    wordy_model: TranslationModel, prefix: str, method: str
) -> None:
    translator = Translator(wordy_model)
    found = translator.alternatives(TEXT, prefix, 4, method=method, max_length_extra=9)
    (plain,) = translator.translate([TEXT], prefixes=[prefix], method=method, max_length_extra=9)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True) and scores[0] >= plain.score - 1e-4
    assert found[0].score > plain.score + 1e-4 or found[0].text == plain.text


def test_alternatives_are_different_words_and_their_translations_go_on_with_them(
    wordy_model: TranslationModel,
) -> None:
    found = Translator(wordy_model).alternatives(TEXT, "I have", 6, max_length_extra=9)
    assert len(found) == 6 == len({one.word for one in found})
    for one in found:
        rest = one.text.removeprefix("I have")
        assert rest != one.text and rest.strip().startswith(one.word)


def test_where_a_translation_may_end_that_is_an_alternative_without_a_word(translator: Translator) -> None:
    found = translator.alternatives(TEXT, "I have one apples.", 5)
    (ended,) = [one for one in found if not one.word]
    assert ended.text == "I have one apples."
    (read,) = encode_sources(translator.model, [TEXT])
    (written,) = translator.model.vocabularies["target"].encode([ended.text])
    total = sum(log_prob_by_steps(translator.model, read.tolist(), written))
    assert ended.log_prob == pytest.approx(total, abs=1e-3)


def test_a_batch_is_as_large_as_the_settings_say_and_the_alternatives_are_the_same(
    wordy_model: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator(wordy_model)
    sizes: list[int] = []
    start = translator._start

    def counted(read, indices, rows):
        sizes.append(len(indices) * rows * int(read[0].lengths[0]))
        return start(read, indices, rows)

    monkeypatch.setattr(translator, "_start", counted)
    whole = translator.alternatives(TEXT, "I", 5, max_length_extra=4)
    in_one, sizes[:] = sizes[1], []
    found = translator.alternatives(TEXT, "I", 5, max_length_extra=4, batch_tokens=in_one // 3)
    assert len(sizes) > 3 and max(sizes[1:]) <= in_one // 3
    assert [one.text for one in found] == [one.text for one in whole]


def test_an_ensemble_has_alternatives_too(random_model: TranslationModel, tiny_run: Path) -> None:
    both = Translator(random_model, others=[load_model(find_model(tiny_run / "run"))])
    found = both.alternatives(TEXT, "I", 3)
    assert len(found) == 3 and all(math.isfinite(one.log_prob) for one in found)


def test_the_rules_of_the_search_hold_for_the_words(random_model: TranslationModel) -> None:
    found = Translator(random_model).alternatives(TEXT, "", 8, min_length=1)
    assert all(one.word for one in found)


def test_behind_a_beginning_that_leaves_few_positions_words_are_as_long_as_these(
    tiny_run: Path,
) -> None:
    few = {"model.positions": "learned", "model.max_positions": 16, "data.max_length": 14}
    model = untrained(tiny_run / "run", few)
    translator, encode = Translator(model), model.vocabularies["target"].encode
    lengths = set()
    for letters in range(1, 16):
        prefix = "I" + "s" * letters
        length = len(encode([prefix])[0])
        if length < 15:  # <s> takes a position
            lengths.add(length)
            assert translator.alternatives("苹果", prefix, 5, max_length_extra=30)
        else:
            with pytest.raises(UsageError, match="the model can write 15"):
                translator.alternatives("苹果", prefix, 5)
    assert lengths >= {12, 13, 14}


def test_what_is_raised_after_a_step_ends_it_wherever_it_is(wordy_model: TranslationModel) -> None:
    translator = Translator(wordy_model)
    config = changed_decoding(translator.decoding, {"max_length_extra": 9})
    taken: list[None] = []

    def steps_up_to(most: float) -> int:
        def after_step() -> None:
            taken.append(None)
            if len(taken) == most:
                raise InterruptedError

        taken.clear()
        with suppress(InterruptedError):
            _, beginnings = find_beginnings(translator, TEXT, "I have", 3, config, after_step)
            complete(translator, TEXT, beginnings, config, after_step)
        return len(taken)

    steps = steps_up_to(math.inf)
    assert steps > 10
    assert [steps_up_to(most) for most in (1, 3, steps // 2, steps - 1)] == [1, 3, steps // 2, steps - 1]


def test_a_text_without_a_visible_character_has_none(translator: Translator) -> None:
    assert translator.alternatives(" \t", "I") == []


def test_pieces_begin_words_where_a_space_or_a_sign_does(translator: Translator) -> None:
    pieces = pieces_of(translator.model.vocabularies["target"], "bpe")
    begins = dict(zip(pieces, which_begin_words(translator), strict=True))
    assert begins["▁I"] and begins["."] and not begins["s"]
    assert not any(begins[special] for special in ("<pad>", "<s>", "</s>"))


def test_a_piece_that_begins_with_a_vowel_sign_continues_a_word(translator: Translator, monkeypatch: Any) -> None:
    monkeypatch.setattr(alternatives, "pieces_of", lambda tokenizer, kind: ["▁क", "ित", "ำ", "a", "。"])
    assert which_begin_words(translator) == [True, False, False, False, True]


def test_a_beginning_that_the_vocabulary_cannot_spell_is_refused() -> None:
    tokenizer, _ = train_tokenizer(["I have an apple."], kind="words", vocab_size=30, language="en")
    for begun in ("I have", "", "I ⁇ have"):
        assert encode_prefixes(tokenizer, [begun]) == tokenizer.encode([begun])
    with pytest.raises(UsageError, match="the beginning 'I had' cannot be written with the pieces"):
        encode_prefixes(tokenizer, ["I have", "I had"])


def test_of_chinese_the_words_are_those_that_one_reads(random_model: TranslationModel) -> None:
    pytest.importorskip("rjieba")
    resolved = changed(random_model.resolved, {"data.source": "en", "data.target": "zh"}, "a test")
    source, target = (random_model.vocabularies[side] for side in ("target", "source"))
    turned = Learned(resolved, random_model.network, {"source": source, "target": target})
    found = Translator(turned).alternatives("I have one apple.", "我有", 5, max_length_extra=9)
    assert len({one.word for one in found}) == len(found) > 1
    for one in found:
        assert one.text.startswith("我有") and one.text.removeprefix("我有").strip().startswith(one.word)


@pytest.mark.parametrize(
    ("best", "decoding", "says"),
    [
        (0, {}, "from 1 to 64, found 0"),
        (65, {}, "from 1 to 64, found 65"),
        (5, {"method": "sample"}, 'found decoding.method = "sample"'),
        (5, {"method": "mbr"}, 'found decoding.method = "mbr"'),
    ],
)
def test_what_cannot_be_is_refused(translator: Translator, best: int, decoding: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        translator.alternatives(TEXT, "I", best, **decoding)
    with pytest.raises(UsageError, match="4,096"):
        translator.alternatives(TEXT, "I have " * 3000)


def test_to_demand_the_prefix_with_a_word_finds_the_translation_of_that_alternative(
    wordy_model: TranslationModel,
) -> None:
    translator = Translator(wordy_model)
    found = translator.alternatives(TEXT, "I have", 8, max_length_extra=9)
    demanded = translator.translate(
        [TEXT] * len(found), prefixes=[f"I have {one.word}" for one in found], max_length_extra=9
    )
    pairs = [(one, other) for one, other in zip(found, demanded, strict=True) if one.text == other.text]
    assert pairs  # the others spell the word in other pieces than the vocabulary does
    for one, other in pairs:
        assert (one.score, one.log_prob) == pytest.approx((other.score, other.log_prob), abs=1e-4)
