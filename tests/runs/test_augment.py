"""Pairs that a model makes: on the right sides, without what teaches nothing, the same after every stop."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import untrained, without_bytes

from weft.config import resolve
from weft.errors import CorpusError, ProblemsError, Stopped, UsageError, WeftError
from weft.folders.model_folder import save_model
from weft.folders.recipes import TranslationRecipe
from weft.runs import augment
from weft.runs.augment import Made, distill, from_text
from weft.translating.loading import load_translator
from weft.translating.translation import Translation
from weft.translating.translator import Translator

back_translate, self_train = partial(from_text, "back-translation"), partial(from_text, "self-training")
SENTENCES = [f"我有{number}{thing}。" for number in "一两三四" for thing in ("个苹果", "个杯子", "本书", "只猫")]


@pytest.fixture
def model(distinct_model: Path) -> Path:
    """A folder with a model of random weights, whose answers are long and various, and spelled in no bytes."""
    return distinct_model


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "mono.zh").write_text("".join(f"{sentence}\n" for sentence in SENTENCES), encoding="utf-8")
    return tmp_path / "mono.zh"


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def answers(model: Path | Translator, texts: Sequence[str] = SENTENCES, **decoding: Any) -> list[str]:
    translator = model if isinstance(model, Translator) else load_translator(model)
    return [translation.text for translation in translator.translate(texts, **decoding)]


# Which side is which


def test_back_translation_puts_what_the_model_wrote_on_the_source_side(model: Path, text: Path) -> None:
    made = back_translate(model, text, text.with_name("bt.tsv"), max_ratio=99)
    assert made == Made(texts=16, pairs=16, left_out={})
    expected = [[answer, sentence] for answer, sentence in zip(answers(model), SENTENCES, strict=True)]
    assert rows(text.with_name("bt.tsv")) == [["en", "zh"], *expected]


def test_a_card_that_somebody_wrote_in_another_encoding_is_read_as_far_as_it_goes(
    model: Path, text: Path, tmp_path: Path
) -> None:
    shutil.copytree(model, tmp_path / "copy")
    (tmp_path / "copy" / "README.md").write_bytes(b"---\n---\n caf\xe9\n")
    self_train(tmp_path / "copy", text, tmp_path / "st.tsv", max_ratio=99)
    assert (tmp_path / "st.tsv").exists()


def test_self_training_puts_it_on_the_target_side(model: Path, text: Path) -> None:
    self_train(model, text, text.with_name("st.tsv"), max_ratio=99)
    expected = [[sentence, answer] for answer, sentence in zip(answers(model), SENTENCES, strict=True)]
    assert rows(text.with_name("st.tsv")) == [["zh", "en"], *expected]


def test_distillation_puts_it_in_the_place_of_the_targets(model: Path, tmp_path: Path) -> None:
    pairs = "".join(f"{sentence}\tsomething else\n" for sentence in SENTENCES)
    (tmp_path / "train.tsv").write_text(f"zh\ten\n{pairs}", encoding="utf-8")
    distill([model], tmp_path / "train.tsv", tmp_path / "kd.tsv", max_ratio=99)
    expected = [[sentence, answer] for answer, sentence in zip(answers(model), SENTENCES, strict=True)]
    assert rows(tmp_path / "kd.tsv") == [["zh", "en"], *expected]


def test_a_file_that_is_read_by_other_rules_gives_another_distillation(model: Path, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("zh\ten\n你 好\tHi\n我有\tI have\n", encoding="utf-8")
    distill([model], tmp_path / "train.tsv", tmp_path / "kd.tsv", max_ratio=99)
    with pytest.raises(UsageError, match="read: was"):
        distill([model], tmp_path / "train.tsv", tmp_path / "kd.tsv", max_ratio=99, overrides=["data.detokenize=true"])


@pytest.mark.parametrize("column", [None, "Chinese"])
def test_text_may_be_a_column(model: Path, text: Path, column: str | None) -> None:
    table = text.with_name("mono.tsv")
    cells = "".join(f"{number}\t{sentence}\n" for number, sentence in enumerate(SENTENCES))
    table.write_text(f"id\t{column or 'zh'}\n{cells}", encoding="utf-8")
    self_train(model, table, text.with_name("from-table.tsv"), column=column, max_ratio=99)
    self_train(model, text, text.with_name("from-lines.tsv"), max_ratio=99)
    assert rows(text.with_name("from-table.tsv")) == rows(text.with_name("from-lines.tsv"))


def test_a_tab_in_the_text_is_no_column_in_the_table(model: Path, text: Path) -> None:
    text.write_text("我有\t一本书。\n", encoding="utf-8")
    self_train(model, text, text.with_name("st.tsv"), max_ratio=99)
    assert [row[0] for row in rows(text.with_name("st.tsv"))] == ["zh", "我有 一本书。"]
    text.write_text("12\t34\n", encoding="utf-8")
    self_train(model, text, text.with_name("st2.tsv"), max_ratio=99)
    assert rows(text.with_name("st2.tsv"))[1:] == [["12 34", "12 34"]]


@pytest.mark.parametrize(
    ("line", "pairs", "warnings"),
    [("I have an apple.", 4, ["12 of the first 16 texts"]), ("我有一个苹果。", 16, []), ("123 -- 4", 16, [])],
)
def test_text_that_is_mostly_in_another_language_is_named_and_left_out(
    model: Path, text: Path, line: str, pairs: int, warnings: list[str]
) -> None:
    text.write_text("".join(f"{sentence}\n" for sentence in ["", *SENTENCES[:4], *[line] * 12]), encoding="utf-8")
    said = list[str]()
    assert self_train(model, text, text.with_name("st.tsv"), max_ratio=99, say=said.append).pairs == pairs
    assert said[:-1] == [f"{warning} of {text} do not look like zh, which the model reads" for warning in warnings]


# What is left out


def test_what_would_teach_nothing_is_left_out_and_counted(
    model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "我有一本书。": "I have a book.",
        "书": "",
        "OK,  Tom": "ok, tom",  # a copy but for case and white space
        "2024-05-17": "2024-05-17",  # its own translation
        "三只猫": "three ca\ufffd",  # bytes that spell no character, as samples write them
        "两只\ufffd": "two \ufffd",  # here the text has it too
        "梨": "one two three four five six seven",
        "我有两个苹果，三个杯子，四本书，五只猫。": "I",
    }
    monkeypatch.setattr(
        Translator, "translate", lambda self, texts: [Translation(text, given[text], 0.0, 0.0) for text in texts]
    )
    text.write_text("".join(f"{line}\n" for line in [*given, "", " \u3000", "书" * 400]), encoding="utf-8")
    made = self_train(model, text, text.with_name("st.tsv"), max_ratio=2.5)
    kept = ("我有一本书。", "2024-05-17", "两只\ufffd")
    assert rows(text.with_name("st.tsv"))[1:] == [[source, given[source]] for source in kept]
    reasons = {"without an answer": 1, "broken": 1, "copied": 1, "of unequal lengths": 2, "empty": 2, "too long": 1}
    assert made == Made(11, 3, made.left_out) and made.left_out == reasons
    known = json.loads(text.with_name("st.tsv.json").read_text(encoding="utf-8"))
    assert known["state"] == {"texts": 11, "pairs": 3, "left_out": reasons}


def test_lengths_are_unequal_beyond_the_ratio_and_five_pieces(
    model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [len(ids) for ids in load_translator(model).model.vocabularies["source"].encode(["书 书 书"])]
    most = 2 * lengths[0] + 5
    text.write_text("书 书 书\n", encoding="utf-8")
    for pieces, pairs in ((most, 1), (most + 1, 0)):
        monkeypatch.setattr(
            Translator, "translate", lambda self, texts, n=pieces: [Translation(texts[0], "龘" * n, 0.0, 0.0)]
        )
        monkeypatch.setattr(
            "weft.text.sentencepiece_model.SentencePieceTokenizer.encode",
            lambda self, texts: [[5] * (lengths[0] if text.startswith("书") else len(text)) for text in texts],
        )
        output = text.with_name(f"st-{pieces}.tsv")
        if pairs:
            assert self_train(model, text, output, max_ratio=2.0).pairs == pairs
        else:
            with pytest.raises(WeftError, match="0 pairs of 1 texts; left out: 1 of unequal lengths"):
                self_train(model, text, output, max_ratio=2.0)
            assert not [path for path in text.parent.iterdir() if output.name in path.name]  # its name is free again


# Stopped and gone on with


@pytest.fixture
def in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augment, "TEXTS_AT_ONCE", 3)
    monkeypatch.setattr(augment, "SECONDS_BETWEEN_MESSAGES", 0.0)


@pytest.mark.usefixtures("in_small_chunks")
@pytest.mark.parametrize("overrides", [[], ["decoding.method=sample"]], ids=["beam", "sample"])
def test_a_work_that_died_goes_on_to_the_same_pairs(
    model: Path, text: Path, overrides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = text.with_name("whole.tsv"), text.with_name("parts.tsv")
    back_translate(model, text, whole, max_ratio=2.5, overrides=overrides)

    class Killed(BaseException):
        pass

    translate, calls = Translator.translate, 0

    def dying(self: Translator, texts: Sequence[str]) -> list[Translation]:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise Killed
        return translate(self, texts)

    monkeypatch.setattr(Translator, "translate", dying)
    deaths = 0
    while not parts.exists():
        try:
            back_translate(model, text, parts, max_ratio=2.5, overrides=overrides)
        except Killed:
            deaths += 1
            assert not parts.exists()
    assert deaths == 2
    assert parts.read_bytes() == whole.read_bytes()
    states = [json.loads(path.with_name(f"{path.name}.json").read_text(encoding="utf-8")) for path in (whole, parts)]
    assert states[0] == states[1]


@pytest.mark.usefixtures("in_small_chunks")
def test_a_signal_stops_it_behind_the_chunk_and_the_same_call_goes_on(model: Path, text: Path) -> None:
    said: list[str] = []

    def say(message: str) -> None:
        said.append(message)
        if message.startswith("6 of 16 texts"):
            os.kill(os.getpid(), signal.SIGTERM)

    output = text.with_name("st.tsv")
    with pytest.raises(Stopped, match="stopped after text 6 of 16; the same command continues from here"):
        self_train(model, text, output, max_ratio=99, say=say)
    said.clear()
    assert self_train(model, text, output, max_ratio=99, say=said.append).pairs == 16
    assert said[0] == "continuing after text 6 of 16"
    assert len(rows(output)) == 17


def test_a_finished_file_says_so_and_stays_as_it_is(model: Path, text: Path) -> None:
    output, said = text.with_name("st.tsv"), list[str]()
    first = self_train(model, text, output, max_ratio=99)
    before = output.read_bytes(), output.stat().st_mtime_ns
    assert self_train(model, text, output, max_ratio=99, say=said.append) == first
    assert said == [f"{output} is finished: 16 pairs of 16 texts; left out: none"]
    assert (output.read_bytes(), output.stat().st_mtime_ns) == before


def test_another_model_text_or_setting_is_another_file(tiny_run: Path, model: Path, text: Path) -> None:
    output, other_text = text.with_name("st.tsv"), text.with_name("other.zh")
    self_train(model, text, output, max_ratio=99)
    other_text.write_text("我有一个梨。\n", encoding="utf-8")
    calls: dict[str, Callable[[], object]] = {
        "max_ratio: was 99, is 2.0": lambda: self_train(model, text, output, max_ratio=2.0),
        "decoding.beam_size: was 3, is 2": lambda: self_train(
            model, text, output, max_ratio=99, overrides=["decoding.beam_size=2"]
        ),
        "texts: was": lambda: self_train(model, other_text, output, max_ratio=99),
        "models: was": lambda: self_train(tiny_run / "run", text, output, max_ratio=99),
        "method: was 'self-training', is 'back-translation'": lambda: back_translate(model, text, output, max_ratio=99),
    }
    for says, call in calls.items():
        with pytest.raises(UsageError) as caught:
            call()
        assert says in str(caught.value)


def test_a_model_that_moved_is_the_same_model(model: Path, text: Path, tmp_path: Path) -> None:
    first = self_train(model, text, text.with_name("st.tsv"), max_ratio=99)
    moved = shutil.copytree(model, tmp_path / "moved")
    assert self_train(moved, text, text.with_name("st.tsv"), max_ratio=99) == first


# Samples


def test_samples_are_a_function_of_the_seed(model: Path, text: Path) -> None:
    def sampled(seed: int, name: str) -> list[list[str]]:
        overrides = ["decoding.method=sample", f"decoding.sampling_seed={seed}"]
        back_translate(model, text, text.with_name(name), max_ratio=99, overrides=overrides)
        return rows(text.with_name(name))

    assert sampled(1, "a.tsv") == sampled(1, "b.tsv") != sampled(2, "c.tsv")


def test_a_sample_does_not_depend_on_what_else_is_translated(model: Path) -> None:
    translator = load_translator(model)
    together = answers(translator, method="sample")
    assert [answers(translator, [text], method="sample")[0] for text in SENTENCES] == together
    assert answers(translator, SENTENCES[::-1], method="sample", batch_tokens=30) == together[::-1]


# Several teachers


def test_what_one_of_the_teachers_cannot_read_is_too_long(tiny_run: Path, model: Path, text: Path) -> None:
    other, table = text.parent / "other", text.with_name("train.tsv")
    few = {"model.positions": "learned", "model.max_positions": 12, "data.max_length": 10}
    other.mkdir()
    second = untrained(tiny_run / "run", few)
    without_bytes(second)
    save_model(other, second, card="")
    table.write_text(f"zh\ten\n{SENTENCES[0]}\tx\n{SENTENCES[0] * 3}\ty\n", encoding="utf-8")
    made = distill([model, other], table, text.with_name("kd.tsv"), max_ratio=99)
    assert made == Made(texts=2, pairs=1, left_out={"too long": 1})


def test_a_teacher_twice_is_that_teacher(model: Path) -> None:
    translator, again = load_translator(model), load_translator(model)
    ensemble = Translator(translator.model, others=[again.model])
    assert answers(ensemble) == answers(translator)
    assert answers(ensemble, method="greedy") == answers(translator, method="greedy")


def test_teachers_with_different_vocabularies_or_languages_are_refused(model: Path, random_model: Any) -> None:
    stranger = load_translator(model).model
    stranger.vocabularies = dict.fromkeys(("source", "target"), stranger.vocabularies["source"])
    with pytest.raises(ProblemsError, match=r"model 2 +has another target vocabulary than the first"):
        Translator(load_translator(model).model, others=[stranger])
    data = {"source": "zh", "target": "fr", "train": ["train.tsv"], "valid": ["valid.tsv"]}
    random_model.resolved = resolve({"data": data}, TranslationRecipe, "French")
    with pytest.raises(ProblemsError, match=r"model 3 +has the target language fr, the first has en"):
        Translator(load_translator(model).model, others=[load_translator(model).model, random_model])


# What is refused


@pytest.mark.parametrize("folder", ["run", "run/checkpoints/step-2"])
def test_what_a_model_was_validated_on_is_refused_under_any_name(tiny_run: Path, tmp_path: Path, folder: str) -> None:
    (tmp_path / "innocent.tsv").write_bytes((tiny_run / "valid.tsv").read_bytes())
    for work in (
        lambda: distill([tiny_run / folder], tmp_path / "innocent.tsv", tmp_path / "kd.tsv", max_ratio=99),
        lambda: self_train(tiny_run / folder, tmp_path / "innocent.tsv", tmp_path / "st.tsv", max_ratio=99),
        lambda: back_translate(tiny_run / folder, tmp_path / "innocent.tsv", tmp_path / "bt.tsv", max_ratio=99),
    ):
        with pytest.raises(UsageError, match=r"innocent\.tsv is what the model .* was validated on \(valid\.tsv\)"):
            work()
    assert [path.name for path in tmp_path.iterdir()] == ["innocent.tsv"]


def test_the_training_data_themselves_may_be_distilled(tiny_run: Path, tmp_path: Path) -> None:
    made = distill([tiny_run / "run"], tiny_run / "train.tsv", tmp_path / "kd.tsv", max_ratio=99)
    assert made.texts == 42


def test_texts_are_no_pairs_and_only_one_file_is_asked_for(model: Path, text: Path) -> None:
    with pytest.raises(CorpusError, match="give one file with a column for each language, not text files"):
        distill([model], text, text.with_name("kd.tsv"), max_ratio=99)


def test_text_that_is_not_there_is_named(model: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"mono\.zh"):
        self_train(model, tmp_path / "mono.zh", tmp_path / "st.tsv", max_ratio=99)


@pytest.mark.parametrize("name", ["none.txt", "none.tsv"])
def test_an_empty_file_is_told_so(model: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(CorpusError, match="is empty"):
        self_train(model, tmp_path / name, tmp_path / "st.tsv", max_ratio=99)
