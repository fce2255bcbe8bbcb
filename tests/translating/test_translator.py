"""Strings in, strings out: each answer depends on its own text alone, whatever the text is."""

import copy
import io
import math
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from weft.config import changed
from weft.errors import UsageError
from weft.folders.kinds import build_seq2seq
from weft.folders.model_folder import Learned, TranslationModel, load_model
from weft.text.kinds import train_tokenizer
from weft.translating.arguments import checked_phrases, checked_prefixes, checked_texts
from weft.translating.glossary import Glossary
from weft.translating.loading import load_translator
from weft.translating.translation import Translation
from weft.translating.translator import Translator

WORDS = ["我", "有", "一个", "两", "苹果", "杯子", "朋友", "书包", "问题", "梨", "。", " ", "，", "abc", "ü", "龘"]
GREEDY: dict[str, Any] = {"method": "greedy"}
BEAM: dict[str, Any] = {"method": "beam", "beam_size": 3}
SAMPLE: dict[str, Any] = {"method": "sample", "top_p": 0.9}
MBR: dict[str, Any] = {"method": "mbr", "mbr_candidates": 4}
MBR_OF_6: dict[str, Any] = {"method": "mbr", "mbr_candidates": 6}


@pytest.fixture(params=["random", "trained"])
def translator(request: pytest.FixtureRequest, tiny_run: Path, random_model: TranslationModel) -> Translator:
    return Translator(random_model) if request.param == "random" else load_translator(tiny_run / "run")


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of torch's threads for the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def same(left: list[Translation], right: list[Translation]) -> bool:
    return all(
        (a.source, a.text) == (b.source, b.text)
        and abs(a.score - b.score) < 1e-4
        and abs(a.log_prob - b.log_prob) < 1e-3
        for a, b in zip(left, right, strict=True)
    )


# What else is translated in the same call


@pytest.mark.parametrize("decoding", [GREEDY, BEAM, SAMPLE, MBR], ids=["greedy", "beam", "sample", "mbr"])
def test_an_answer_does_not_depend_on_what_else_is_translated_with_it(
    translator: Translator, decoding: dict[str, Any]
) -> None:
    draw = random.Random(5)
    texts = ["".join(draw.choices(WORDS, k=draw.choice([1, 2, 3, 5, 8]))) for _ in range(30)]
    together = translator.translate(texts, **decoding)
    alone = [translator.translate([text], **decoding)[0] for text in texts]
    assert [translation.source for translation in together] == texts
    assert same(together, alone)
    assert same(translator.translate(texts[::-1], batch_tokens=100, **decoding), alone[::-1])
    assert len({translation.text for translation in alone}) > 5
    assert len({round(one.log_prob, 2) for one in alone}) > 23  # so that two that change places are seen


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("decoding", [GREEDY, BEAM, SAMPLE], ids=["greedy", "beam", "sample"])
def test_two_batches_side_by_side_are_translated_as_one_after_the_other(
    translator: Translator, decoding: dict[str, Any], precision: str, threads: Callable[[int], None]
) -> None:
    draw = random.Random(6)
    texts = ["".join(draw.choices(WORDS, k=draw.choice([1, 2, 3, 5, 8]))) for _ in range(25)]
    found = {}
    for number in (1, 3):
        threads(number)
        assert translator.searches_at_once() == min(number, 2)
        found[number] = translator.translate(texts, batch_tokens=100, precision=precision, **decoding)
        assert torch.get_num_threads() == number
    assert same(found[3], found[1])
    assert len({round(one.log_prob, 2) for one in found[1]}) > 15  # so that two that change places are seen


def test_what_a_step_raises_ends_all_searches(translator: Translator, threads: Callable[[int], None]) -> None:
    threads(2)
    steps, last = 0, -1

    def after_step() -> None:
        nonlocal steps
        steps += 1
        if steps == last:
            raise KeyboardInterrupt

    texts = ["我有一个苹果。"] * 50
    translator.translate_n_best(texts, 1, batch_tokens=20, after_step=after_step)
    whole, steps, last = steps, 0, 3
    with pytest.raises(KeyboardInterrupt):
        translator.translate_n_best(texts, 1, batch_tokens=20, after_step=after_step)
    assert whole > 100 and steps < whole / 3  # the other search ends after the step that it is in
    assert torch.get_num_threads() == 2


# Texts of every kind


@pytest.mark.parametrize("decoding", [GREEDY, BEAM, MBR], ids=["greedy", "beam", "mbr"])
def test_a_text_without_a_visible_character_is_translated_by_nothing(
    translator: Translator, decoding: dict[str, Any]
) -> None:
    blank = ["", " ", "\t\n", "\u3000", "\u2028", "\x00\ufeff", "\u200b", "\u00ad \u200e"]
    found = translator.translate([*blank, "我"], **decoding)
    assert found[:-1] == [Translation(text, "", 0.0, 0.0) for text in blank]
    assert found[-1].log_prob < 0
    assert translator.translate(blank, **decoding) == found[:-1]
    assert translator.translate([], **decoding) == []


def test_a_translation_is_one_line_whatever_bytes_the_model_writes(random_model: TranslationModel) -> None:
    class EveryByte:
        """Spells an answer as a model does that falls back to bytes and chooses badly."""

        def decode(self, ids: object) -> list[str]:
            return ["a\nb\r\u2028\tc\x1b[31m\x00\u3000 d\x85\n"]

    random_model.vocabularies = {**random_model.vocabularies, "target": EveryByte()}  # type: ignore[dict-item]
    assert Translator(random_model).translate(["我"])[0].text == "a b c[31m d"


@pytest.mark.parametrize("text", ["</s>", "<s>我</s>", "<pad>", "<unk>", "<0x0A>", "我▁有", "\ud800", "e\u0301", "🙂"])
def test_special_text_is_text(translator: Translator, text: str) -> None:
    plain, special = translator.translate(["我有", f"我{text}有"], **GREEDY)
    assert special.source == f"我{text}有"
    assert special.log_prob != plain.log_prob


def test_a_very_long_text_is_answered_and_read_to_its_end(translator: Translator) -> None:
    text = "我有一个苹果。两个朋友" * 182
    assert len(text) > 2000
    whole, other_end = translator.translate([text, f"{text[:-1]}梨"], max_length_ratio=0.01, **GREEDY)
    assert whole.text and whole.log_prob != other_end.log_prob


def test_a_text_too_long_for_memory_is_refused_in_words(translator: Translator) -> None:
    with pytest.raises(UsageError, match=r"text 2 has .* pieces, more than the 4,096 .* split it into sentences"):
        translator.translate(["我", "我有一个苹果。" * 5000])


# Several answers


@pytest.mark.parametrize(
    ("model", "text", "best"),
    [
        ("en-zh", "Hello.", 8),
        ("en-zh", "Yes.", 8),
        ("en-zh", "Thank you.", 5),
        ("en-zh", "OK!", 4),
        ("zh-en", "好。", 8),
        ("zh-en", "你好。", 6),
        ("zh-en", "他会C++。", 4),
    ],
)
def test_the_texts_of_several_answers_differ_and_the_first_stays(model: str, text: str, best: int) -> None:
    from weft.folders.finding import find_model

    translator = Translator(load_model(find_model(model)), torch.device("cpu"))
    (found,) = translator.translate_n_best([text], best, beam_size=best)
    assert len({one.text for one in found}) == len(found) == best
    assert found[0].text == translator.translate([text], beam_size=best)[0].text
    assert [one.score for one in found[1:]] == sorted((one.score for one in found[1:]), reverse=True)


def test_several_answers_come_best_first_and_begin_with_the_only_one(translator: Translator) -> None:
    texts = ["我有一个苹果。", "", "书包"]
    found = translator.translate_n_best(texts, 4, beam_size=5)
    assert [len(answers) for answers in found] == [4, 1, 4]
    for answers in found:
        assert answers[1:] == sorted(answers[1:], key=lambda answer: -answer.score)
    assert same([answers[0] for answers in found], translator.translate(texts, beam_size=5))
    assert [len(answers) for answers in translator.translate_n_best(["我"], 9, beam_size=2)] == [2]
    assert [len(answers) for answers in translator.translate_n_best(["我"], 9, **GREEDY)] == [1]
    with pytest.raises(UsageError, match="a number of translations from 1, found 0"):
        translator.translate_n_best(["我"], 0)


def test_several_samples_begin_with_those_of_fewer(translator: Translator) -> None:
    texts = ["我有一个苹果。", "书包", "我有一个苹果。"]
    found = translator.translate_n_best(texts, 40, **SAMPLE)
    assert [len(samples) for samples in found] == [40, 40, 40] and found[0] == found[2]
    assert len({sample.text for sample in found[0]}) > 2
    for count in (1, 3, 19):  # 19: more than are drawn together, and no multiple of anything
        fewer = translator.translate_n_best(texts, count, **SAMPLE)
        assert all(same(few, many[:count]) for few, many in zip(fewer, found, strict=True))


# Minimum Bayes risk


@pytest.mark.parametrize(("utility", "metric"), [("chrf", CHRF()), ("bleu", BLEU(effective_order=True))])
def test_minimum_bayes_risk_chooses_the_sample_that_sacrebleu_finds_nearest_to_all(
    translator: Translator, utility: str, metric: CHRF | BLEU
) -> None:
    texts = ["我有一个苹果。", "书包"]
    samples = translator.translate_n_best(texts, 6, method="sample")
    for answer, drawn in zip(translator.translate(texts, mbr_utility=utility, **MBR_OF_6), samples, strict=True):
        gains = {
            hypothesis.text: sum(metric.sentence_score(hypothesis.text, [other.text]).score for other in drawn) / 6
            for hypothesis in drawn
        }
        assert answer.score == pytest.approx(max(gains.values()))
        assert gains[answer.text] == pytest.approx(answer.score)
        assert any(same([answer], [replace(sample, score=answer.score)]) for sample in drawn)


def test_minimum_bayes_risk_over_a_beam_weighs_by_probability(translator: Translator) -> None:
    beam = translator.translate_n_best(["我有一个苹果。"], 4, beam_size=4)[0]
    found = translator.translate_n_best(["我有一个苹果。"], 4, method="mbr", mbr_from="beam", beam_size=4)[0]
    weights = {answer.text: math.exp(answer.log_prob) for answer in beam}
    for answer in found:
        gains = [CHRF().sentence_score(answer.text, [other.text]).score * weights[other.text] for other in beam]
        assert answer.score == pytest.approx(sum(gains) / sum(weights.values()), abs=1e-3)
    assert found == sorted(found, key=lambda answer: -answer.score)


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_the_fast_form_of_minimum_bayes_risk_is_the_full_one_where_candidates_are_few(
    translator: Translator, utility: str
) -> None:
    def answers(form: str) -> list[Translation]:
        return translator.translate(["我有一个苹果。", "书包"], mbr_form=form, mbr_utility=utility, **MBR_OF_6)

    assert answers("fast") == answers("full")


# What is refused


def test_one_string_is_not_taken_for_a_list_of_characters(translator: Translator) -> None:
    with pytest.raises(UsageError, match=r"found one string; write \[text\]"):
        translator.translate("你好")


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(UsageError, match="text 2 is not a string: found NoneType"):
        checked_texts(["我", None])


def test_a_translator_says_what_it_is(translator: Translator, distinct_model: Path) -> None:
    assert repr(translator) == "<weft.Translator: zh -> en, on cpu>"
    several = Translator(translator.model, others=[load_model(distinct_model)])
    assert repr(several).startswith("<weft.Translator of 2 models: zh -> en")


@pytest.mark.parametrize(
    ("decoding", "says"),
    [
        ({"beam": 3}, "beam: unknown key; did you mean `beam_size`"),
        ({"beam_size": 0}, "beam_size: must be at least 1, found 0"),
        ({"beam_size": "3"}, "beam_size: expected a whole number"),
        ({"method": "sampling"}, "method"),
        ({"top_p": 0.0, "epsilon": 1.0}, "top_p.*epsilon"),
        ({"method": "mbr", "mbr_from": "beam", "beam_size": 1}, "settings: beam_size: must be at least 2"),
        ({"beam": 3, "length_penalty": "none", "stopping": 1}, "beam.*stopping|stopping.*beam"),
    ],
)
def test_settings_of_the_search_that_cannot_be_are_named(
    translator: Translator, decoding: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        translator.translate(["我"], **decoding)


def test_settings_of_one_call_do_not_stay(translator: Translator) -> None:
    before = translator.decoding
    translator.translate(["我"], method="greedy", max_length_extra=1)
    assert translator.decoding is before


# ---- a glossary, a prefix, a precision ----


def test_terms_of_a_glossary_appear_and_no_other_sentence_changes(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    texts = ["他在学校。", "你好。", "我的猫在学校。"]
    glossary = Glossary([("学校", "school"), ("猫", "black cat")], ("zh", "en"))
    plain = translator.translate(texts, max_length_extra=8)
    found = translator.translate(texts, glossary=glossary, max_length_extra=8)
    assert same(found[1:2], plain[1:2])
    assert "school" in found[0].text and "school" in found[2].text and "black cat" in found[2].text
    assert found == translator.translate(texts, glossary={"学校": "school", "猫": "black cat"}, max_length_extra=8)
    assert "school" in "".join(translator.stream(texts[0], glossary={"学校": ["school"]}, max_length_extra=8))
    made = translator.as_glossary({"学校": ["school"]})
    assert "school" in translator.translate(texts[:1], glossary=made, max_length_extra=8)[0].text
    assert "school" not in plain[0].text  # else the test would show nothing


def test_a_term_is_found_in_either_chinese_script(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    for text, term in (("他在學校。", "学校"), ("他在学校。", "學校")):
        found = translator.translate([text], glossary=Glossary([(term, "school")], ("zh", "en")), max_length_extra=8)
        assert "school" in found[0].text


def test_phrases_appear_in_the_translation_of_their_text_and_change_no_other(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    texts, phrases = ["他在学校。", "你好。", "我的猫。"], [["school", "a cat"], [], ["black"]]
    plain = translator.translate(texts, max_length_extra=12)
    found = translator.translate(texts, phrases=phrases, max_length_extra=12)
    assert all(phrase in t.text for t, wanted in zip(found, phrases, strict=True) for phrase in wanted)
    assert same(found[1:2], plain[1:2]) and "school" not in plain[0].text
    with pytest.raises(UsageError, match="phrases of 1 texts for 3"):
        translator.translate(texts, phrases=[["school"]])
    with pytest.raises(UsageError, match="give one list per text"):
        translator.translate(texts, phrases=["school", "cat", "dog"])
    with pytest.raises(UsageError, match=r"terms and phrases need decoding\.method"):
        translator.translate(texts, phrases=phrases, method="greedy")


def test_a_model_of_characters_writes_a_phrase_as_a_word_wherever_it_stands(random_model: TranslationModel) -> None:
    tokenizer, _ = train_tokenizer(["a cat camping"] * 9, kind="characters", vocab_size=300, language="en")
    resolved = changed(random_model.resolved, {"tokenizer.kind": "characters"}, "a test")
    source = random_model.vocabularies["source"]
    torch.manual_seed(3)  # other weights may write <pad> behind the phrase, which nobody sees and which ends a word
    network = build_seq2seq(resolved.recipe, source.vocab_size, tokenizer.vocab_size).eval()
    translator = Translator(Learned(resolved, network, {"source": source, "target": tokenizer}))
    texts = ["他在学校。", "你好。", "我的猫。"]
    for prefix in ("", "acat", "cat", "a cata", "a cat"):
        found = translator.translate(texts, phrases=[["cat"]] * 3, prefixes=[prefix] * 3, max_length_extra=20)
        assert all(re.search(r"(?<![A-Za-z0-9])cat(?![A-Za-z0-9])", each.text) for each in found)


@pytest.mark.parametrize("as_given", [iter, np.array, tuple])
def test_prefixes_and_phrases_are_lists_of_any_kind_or_none(as_given) -> None:
    texts, prefixes, phrases = ["他在学校。", "你好。"], ["She is", ""], [["a cat"], ["I"]]
    assert checked_prefixes(as_given(prefixes), texts) == prefixes
    assert checked_phrases((as_given(of_text) for of_text in phrases), texts) == phrases
    assert checked_prefixes(None, texts) == checked_phrases(None, texts) == []


@pytest.mark.parametrize("texts", [None, 5, {"a": "b"}])
def test_what_is_not_a_list_is_not_a_list_of_texts(texts) -> None:
    with pytest.raises(UsageError, match=f"takes a list of texts, found {type(texts).__name__}"):
        checked_texts(texts)


def test_one_string_is_not_a_list_of_prefixes(random_model: TranslationModel) -> None:
    with pytest.raises(UsageError, match="prefixes must be a list with one per text, not a string"):
        Translator(random_model).translate(["我爱你。", "你好。"], prefixes="Th")


def test_translations_begin_with_their_prefixes(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    prefixes = ["She is", "", "Hello"]
    found = translator.translate(["他在学校。", "你好。", "谢谢。"], prefixes=prefixes, method="greedy")
    assert [t.text.startswith(prefix) for t, prefix in zip(found, prefixes, strict=True)] == [True] * 3
    assert found[1] == translator.translate(["你好。"], method="greedy")[0]
    with pytest.raises(UsageError, match="1 prefixes for 2 texts"):
        translator.translate(["a", "b"], prefixes=["c"])


def test_bf16_translates_nearly_as_fp32(tiny_run: Path) -> None:
    translator = load_translator(tiny_run / "run")
    texts = ["他在学校。", "你好。", "我的猫在学校。"]
    exact, rounded = (translator.translate(texts, precision=precision) for precision in ("fp32", "bf16"))
    assert translator.model.network.compute_dtype == torch.float32
    for one, other in zip(exact, rounded, strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=0.3)
    assert exact != rounded


# What a loss is made of


@pytest.mark.parametrize("as_two_translators", [False, True])
def test_two_threads_that_want_other_precisions_of_one_model_get_what_each_asked_for(
    tiny_run: Path, as_two_translators: bool
) -> None:
    translator = load_translator(tiny_run / "run")
    translators = {"fp32": translator, "bf16": Translator(translator.model) if as_two_translators else translator}
    texts = ["我有两个苹果。", "她比我高。"]
    alone = {precision: translator.translate(texts, precision=precision) for precision in ("fp32", "bf16")}
    assert alone["fp32"] != alone["bf16"]
    found: list[tuple[str, list[Translation]]] = []

    def ask(precision: str) -> None:
        found.extend((precision, translators[precision].translate(texts, precision=precision)) for _ in range(10))

    threads = [threading.Thread(target=ask, args=(precision,)) for precision in ("fp32", "bf16") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40 and all(answers == alone[precision] for precision, answers in found)


@pytest.mark.parametrize("texts", [["我有两个苹果。"], ["我有两个苹果。"] * 200], ids=["one batch", "two"])
def test_the_precision_is_that_of_the_settings_whatever_the_program_around_has_cast(
    random_model: TranslationModel, texts: list[str]
) -> None:
    translator = Translator(random_model)
    expected = translator.translate(texts, precision="fp32", batch_tokens=1000)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert translator.translate(texts, precision="fp32", batch_tokens=1000) == expected
        assert torch.is_autocast_enabled("cpu")


def test_nothing_is_dropped_of_a_translation_while_the_model_is_trained(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    expected = translator.translate(["我有两个苹果。"])
    random_model.network.train()
    random_model.network.encoder_norm.eval()
    assert translator.translate(["我有两个苹果。"]) == expected
    assert random_model.network.training and random_model.network.decoder.training
    assert not random_model.network.encoder_norm.training


def saved_and_read(translator: Translator) -> Translator:
    file = io.BytesIO()
    torch.save(translator, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, saved_and_read])
def test_a_translator_that_has_translated_can_be_copied_and_saved(random_model: TranslationModel, copied) -> None:
    translator = Translator(random_model)
    expected = translator.translate(["我有两个苹果。"])
    other = copied(translator)
    assert other.translate(["我有两个苹果。"]) == expected
    with torch.no_grad():
        other.model.network.output.weight.zero_()
    other.repack()
    assert other.translate(["我有两个苹果。"]) != expected == translator.translate(["我有两个苹果。"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_process_that_is_forked_after_loading_translates_as_its_parent(tiny_run: Path) -> None:
    program = f"""
import multiprocessing
from weft.translating.loading import load_translator
for texts in (["你好。"], ["我有两个苹果。", "她比我高。"] * 200):  # one batch, two
    translator = load_translator({str(tiny_run / "run")!r})
    def translate(_):
        return [translation.text for translation in translator.translate(texts, batch_tokens=2000)]
    expected = translate(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(translate, range(2)) == [expected] * 2
"""
    threads = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", program], check=True, env=threads, timeout=60)
