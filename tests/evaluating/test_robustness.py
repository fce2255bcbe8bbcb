"""Noise on the sources: a model that is derailed loses what it got wrong, and one that is not loses nothing."""

import pytest
from tests.evaluating import test_faults

from weft.data.corpus import ParallelText
from weft.evaluating.evaluation import EvaluatedSet
from weft.evaluating.robustness import (
    JOINED,
    UnderNoise,
    complete,
    in_twos,
    measure_noise,
    noise_table,
    without_greeting,
)
from weft.metrics.score import Scores
from weft.metrics.translation import chrf, sacre_bleu
from weft.translating.translation import Translation

ENGLISH = dict(zip(test_faults.SOURCES, test_faults.REFERENCES, strict=True))
del ENGLISH["你好！"]  # a greeting itself
SOURCES, REFERENCES = list(ENGLISH), list(ENGLISH.values())


def answer(text: str, greets: bool) -> str:
    """What stands in ENGLISH, alone or joined, behind a greeting only where it greets, and else nothing."""
    if greets and text.startswith("你好，"):
        rest = answer(text.removeprefix("你好，"), greets)
        return f"Hello, {rest[:1].lower()}{rest[1:]}"
    parts = [part for part in text.replace("。", "。\n").replace("？", "？\n").split("\n") if part]
    return " ".join(filter(None, (ENGLISH.get(part, "") for part in parts)))


def measure(greets: bool, longest: int = 99) -> tuple[dict[str, UnderNoise], EvaluatedSet]:
    pairs = ParallelText(SOURCES, [(reference,) for reference in REFERENCES], {"test.tsv": "0" * 64})
    scores = Scores(5, (sacre_bleu(REFERENCES, [REFERENCES], "en"), chrf(REFERENCES, [REFERENCES])))
    clean = EvaluatedSet(
        data=pairs.sha256,
        decoding={"method": "greedy"},
        seed=1,
        scores=scores,
        seconds=1.0,
        parameters=1,
        translations=[Translation(source, ENGLISH[source], 0.0, 0.0) for source in SOURCES],
        references=[REFERENCES],
        languages=("zh", "en"),
        requirements=[],
    )
    found = measure_noise(
        lambda texts: [answer(text, greets) for text in texts],
        lambda texts: [len(text) <= longest for text in texts],
        pairs,
        clean,
    )
    return {one.kind: one for one in found}, clean


def test_a_greeting_costs_nothing_where_the_rest_is_translated_all_the_same() -> None:
    found, _ = measure(greets=True)
    assert found["greeting before"].loss("chrf") == pytest.approx(0.0)
    assert found["greeting before"].faulty == 0.0


def test_a_greeting_that_derails_costs_everything() -> None:
    found, _ = measure(greets=False)
    lost = found["greeting before"]
    assert lost.loss("sacrebleu") == pytest.approx(100.0) and lost.loss("chrf") == 100.0
    assert lost.faulty == 1.0 and lost.example == ("你好，我有三个苹果。", "")


def test_joined_sentences_are_held_against_joined_references() -> None:
    found, _ = measure(greets=True)
    assert found[JOINED].changed == 2 and found[JOINED].loss("chrf") == pytest.approx(0.0)


def test_a_kind_that_changes_nothing_is_left_out() -> None:
    assert "casing" not in measure(greets=True)[0]  # there is no letter with two cases


def test_the_table_begins_with_the_clean_scores_and_names_the_worst_sentence() -> None:
    found, clean = measure(greets=False)
    table = noise_table(list(found.values()), clean)
    assert [row[0] for row in table.rows] == ["none", *found]
    rows = {row[0]: row for row in table.rows}
    assert rows["greeting before"] == ("greeting before", "5", "0.00", "-100.00", "0.00", "-100.00", "100.0%")
    assert "lost most by greeting before: 你好，我有三个苹果。 → (nothing)" in table.notes


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Hello, where do you work?", "en", "Where do you work?"),
        ("Hello! I am here.", "en-US", "I am here."),
        ("Where is it, hi?", "en", "Where is it?"),
        ("I have an apple. Hello.", "en", "I have an apple."),
        ("Hello.", "en", "Hello."),
        ("Hilly roads", "en", "Hilly roads"),
        ("Hi-tech is good.", "en", "Hi-tech is good."),
        ("Hey Jude is a song.", "en", "Hey Jude is a song."),
        ("He said hi.", "en", "He said hi."),
        ("你好吗？", "zh", "你好吗？"),
        ("你好，我在这里。", "zh", "我在这里。"),
        ("我在这里，你好。", "zh", "我在这里。"),
        ("你好。", "zh", "你好。"),
        ("哈囉，我在這裡。", "zh-TW", "我在這裡。"),
        ("我在這裡，哈嘍。", "zh-TW", "我在這裡。"),
        ("Hallo, wo ist es?", "de", "Hallo, wo ist es?"),
    ],
)
def test_a_greeting_is_taken_off_and_nothing_else(text: str, language: str, expected: str) -> None:
    assert without_greeting(text, "", language) == expected


@pytest.mark.parametrize(
    ("text", "clean", "expected"),
    [
        ("Hello, Tom, hello.", "Hello, Tom.", "Hello, Tom."),
        ("Hello, hello, Tom.", "Hello, Tom.", "Hello, Tom."),
        ("Hello, Tom.", "Hello, Tom.", "Hello, Tom."),
        ("Hello, how are you, Tom?", "How are you, Tom?", "How are you, Tom?"),
        ("Hello, I have three.", "I have three.", "I have three."),
    ],
)
def test_the_greeting_of_the_sentence_itself_stays(text: str, clean: str, expected: str) -> None:
    assert without_greeting(text, clean, "en") == expected


def test_what_noise_makes_too_long_is_left_out_and_counted() -> None:
    found, clean = measure(greets=True, longest=9)  # a greeting makes three characters more
    assert "greeting before" in found and found["typos"].too_long == 0
    greeted = found["greeting before"]
    assert (greeted.changed, greeted.too_long) == (1, 4)
    assert greeted.loss("chrf") == pytest.approx(0.0) and greeted.as_dict()["too_long"] == greeted.too_long
    assert JOINED not in found  # nothing of it can be read
    table = noise_table(list(found.values()), clean)
    assert "too long for the model by greeting before, left out: 4" in table.notes


def test_the_last_of_an_odd_number_stays_alone() -> None:
    assert in_twos(["a", "b", "c"], "en") == ["a b", "c"]


def test_a_missing_reference_is_filled_with_the_one_that_there_is() -> None:
    assert complete([["a", ""], ["", "b"]]) == [["a", "b"], ["a", "b"]]
