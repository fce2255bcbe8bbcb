"""A translation memory: what it finds is what comparing with every sentence finds, only sooner."""

import pickle
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import CorpusError, UsageError
from weft.folders.model_folder import TranslationModel
from weft.text.normalization import normalize
from weft.translating.loading import load_translator
from weft.translating.memory import Match, Pattern, Remembered, TranslationMemory, as_memory, read_memory
from weft.translating.passages import PassageTranslator
from weft.translating.translation import Translation
from weft.translating.translator import Translator

Tokens = list[str]

WORDS = ["the", "a", "black", "cat", "dog", "sleeps", "runs", "on", "under", "mat", "house", ",", ".", "very"]
PAIRS = [
    ("我有一个苹果。", "I have an apple."),
    ("我有两个苹果。", "I have two apples."),
    ("书包", "bag"),
    ("书包", "satchel"),
]


@pytest.fixture
def memory() -> TranslationMemory:
    return TranslationMemory(PAIRS, ("zh", "en"), normalize)


def edit_distance(left: Tokens, right: Tokens) -> int:
    """The twin: the whole table, a row at a time (Wagner and Fischer 1974)."""
    row = list(range(len(right) + 1))
    for place, token in enumerate(left, start=1):
        before, row = row, [place]
        for other, own in enumerate(right, start=1):
            row.append(min(before[other] + 1, row[-1] + 1, before[other - 1] + (token != own)))
    return row[-1]


@settings(max_examples=300)
@given(st.lists(st.sampled_from("abcd"), max_size=80), st.lists(st.sampled_from("abcde"), max_size=80))
def test_the_edit_distance_is_that_of_the_whole_table(left: Tokens, right: Tokens) -> None:
    assert Pattern(left).distance(right) == edit_distance(left, right)


def by_brute_force(memory: TranslationMemory, text: str, best: int, least: float) -> list[Match]:
    """The twin: the text compared with every sentence."""
    tokens = memory.tokens_of(text)
    scored = []
    for number, (key, of_key) in enumerate(memory.units.items()):
        others = memory.tokens_of(key)
        similarity = 1 - edit_distance(tokens, others) / max(len(tokens), len(others))
        if similarity >= least:
            scored += [(-similarity, number, Match(one.source, one.target, similarity)) for one in of_key]
    return [match for *_, match in sorted(scored, key=lambda one: one[:2])][:best]


@pytest.mark.parametrize("languages", [("en", "zh"), ("zh", "en")])
def test_the_index_finds_what_a_look_at_every_sentence_finds(languages: tuple[str, str]) -> None:
    draw = random.Random(3)
    joined = "" if languages[0] == "zh" else " "
    sentences = [joined.join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(200)]
    memory = TranslationMemory([(s, f"{number}") for number, s in enumerate(sentences)], languages, normalize)
    found = 0
    for least in (0.1, 0.5, 0.7, 1.0):
        for text in [*draw.sample(sentences, 4), *(joined.join(draw.choices(WORDS, k=6)) for _ in range(6))]:
            for best in (1, 3, 50):
                matches = memory.similar(text, best=best, least=least)
                assert matches == by_brute_force(memory, text, best, least)
                found += len(matches)
    assert found > 200


def test_of_many_sentences_hardly_one_has_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(4)
    vocabulary = [f"w{number}" for number in range(1000)]
    weights = [1 / (number + 1) for number in range(1000)]  # as words of a language are: a few are everywhere
    sentences = [" ".join(draw.choices(vocabulary, weights, k=draw.randint(5, 20))) for _ in range(5000)]
    memory = TranslationMemory([(sentence, "x") for sentence in sentences], ("en", "zh"), normalize)
    compared: list[Tokens] = []
    distance = Pattern.distance
    monkeypatch.setattr(Pattern, "distance", lambda self, other: compared.append(other) or distance(self, other))
    for text in sentences[:50]:
        assert memory.similar(" ".join([*text.split()[:-1], "new"]))[0].similarity >= 0.7
    assert len(compared) < 50 * 5000 / 100


def test_exact_is_what_the_model_reads_as_the_same(random_model: TranslationModel) -> None:
    memory = TranslationMemory(PAIRS, ("zh", "en"), random_model.vocabularies["source"].normalize)
    assert [match.target for match in memory.exact(" 書包\u3000")] == ["bag", "satchel"]
    assert memory.exact("书") == [] == memory.exact("")
    assert memory.similar("書包")[0] == Match("书包", "bag", 1.0)
    assert len(memory) == 3


def test_similar_sentences_come_with_how_similar_they_are(memory: TranslationMemory) -> None:
    one, two = memory.similar("我有三个苹果。")
    assert (one.target, two.target) == ("I have an apple.", "I have two apples.")
    assert one.similarity == two.similarity == pytest.approx(6 / 7)
    assert memory.similar("我有三个苹果。", least=0.9) == [] == memory.similar(" ")
    assert [match.similarity for match in memory.similar("我有两个苹果。", best=1)] == [1.0]


def test_a_sentence_as_similar_as_is_asked_for_is_found() -> None:
    memory = TranslationMemory([("a b c d e f g h i j", "x")], ("en", "zh"), str)
    (match,) = memory.similar("a 1 2 3 4 5 6 7 8 9", least=0.1)  # in floating point 1 - 9 / 10 is less than that
    assert match.similarity == pytest.approx(0.1)


def test_the_same_sentences_in_another_order_are_the_same_memory(memory: TranslationMemory) -> None:
    by_source = sorted(PAIRS, key=lambda pair: normalize(pair[0]), reverse=True)  # a stable order
    assert by_source != PAIRS and TranslationMemory(by_source, ("zh", "en"), normalize).digest == memory.digest
    assert TranslationMemory(PAIRS[1:], ("zh", "en"), normalize).digest != memory.digest


def test_of_two_translations_the_first_counts_so_their_order_makes_another_memory() -> None:
    pairs = [("你好。", "Hello."), ("你好。", "Hi.")]
    first, second = (TranslationMemory(order, ("zh", "en"), normalize) for order in (pairs, pairs[::-1]))
    assert first.exact("你好。")[0].target != second.exact("你好。")[0].target and first.digest != second.digest


def test_a_memory_can_be_sent_to_another_process(random_model: TranslationModel) -> None:
    memory = TranslationMemory(PAIRS, ("zh", "en"), random_model.vocabularies["source"].normalize)
    assert pickle.loads(pickle.dumps(memory)).exact("書包") == memory.exact("书包")  # noqa: S301 (our own)


# Files


def test_the_same_memory_comes_from_each_kind_of_file(tmp_path: Path, memory: TranslationMemory) -> None:
    rows = "".join(f"{target}\tx\t{source}\n" for source, target in PAIRS)
    (tmp_path / "a.tsv").write_text(f"en\tnote\tzh\n{rows}", encoding="utf-8")
    objects = "".join(f'{{"zh": "{source}", "en": "{target}"}}\n' for source, target in PAIRS)
    (tmp_path / "a.jsonl").write_text(objects, encoding="utf-8")
    units = "".join(
        f'<tu><tuv xml:lang="zh-CN"><seg>{source}</seg></tuv><tuv xml:lang="en"><seg>{target}</seg></tuv></tu>'
        for source, target in PAIRS
    )
    (tmp_path / "a.TMX").write_text(f"<tmx><header/><body>{units}</body></tmx>", encoding="utf-8")
    (tmp_path / "a.csv").write_text("zh,en\n" + "".join(f'"{s}","{t}"\n' for s, t in PAIRS), encoding="utf-8")
    for name in ("a.tsv", "a.jsonl", "a.TMX", "a.csv"):
        assert read_memory(tmp_path / name, ("zh", "en"), normalize).digest == memory.digest


def test_every_row_that_is_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("zh\ten\n书包\n\tbag\n书包\t \n".encode() + b"\xff\tx\n")
    with pytest.raises(CorpusError) as raised:
        read_memory(tmp_path / "a.tsv", ("zh", "en"), normalize)
    assert sorted(problem.where for problem in raised.value.problems) == ["line 2", "line 3", "line 4", "line 5"]
    assert "the zh side is empty" in str(raised.value) and "the en side is empty" in str(raised.value)
    (tmp_path / "empty.tsv").write_text("zh\ten\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="holds no pair of sentences"):
        read_memory(tmp_path / "empty.tsv", ("zh", "en"), normalize)
    (tmp_path / "b.tsv").write_text("de\ten\nHund\tdog\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="its header has to name the two languages"):
        read_memory(tmp_path / "b.tsv", ("zh", "en"), normalize)


def test_a_memory_may_be_a_dict_a_file_or_one_that_was_read(tmp_path: Path, memory: TranslationMemory) -> None:
    (tmp_path / "a.tsv").write_text("zh\ten\n" + "".join(f"{s}\t{t}\n" for s, t in PAIRS), encoding="utf-8")
    as_dict = {"我有一个苹果。": "I have an apple.", "我有两个苹果。": "I have two apples.", "书包": ["bag", "satchel"]}
    assert as_memory(memory, ("zh", "en"), normalize) is memory
    for pairs in (tmp_path / "a.tsv", str(tmp_path / "a.tsv"), as_dict):
        assert as_memory(pairs, ("zh", "en"), normalize).digest == memory.digest


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (TranslationMemory(PAIRS, ("zh", "en"), normalize), "the memory is for zh -> en, the model for en -> zh"),
        ({"cat": []}, "a sentence has an empty side: 'cat': []"),
        ({" ": "猫"}, "a sentence has an empty side: ' ': '猫'"),
    ],
)
def test_what_is_not_a_memory_for_a_model_is_refused(pairs: Remembered, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        as_memory(pairs, ("en", "zh"), normalize)


# Translating with one


def test_what_the_memory_holds_is_translated_as_there_and_all_else_as_ever(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    memory = TranslationMemory(PAIRS, ("zh", "en"), random_model.vocabularies["source"].normalize)
    texts = ["我有一个苹果。", "你好。", "書包"]
    found = translator.translate(texts, memory=memory)
    assert found == [
        Translation(texts[0], "I have an apple.", 0.0, 0.0),
        translator.translate(texts[1:2])[0],
        Translation("書包", "bag", 0.0, 0.0),
    ]
    assert translator.translate(["书包", "你好。"], memory={"书包": ["bag", "satchel"]}) == [
        Translation("书包", "bag", 0.0, 0.0),
        found[1],
    ]
    assert list(translator.stream("书包", memory={"书包": "bag"})) == ["bag"]
    several = translator.translate_n_best(texts, 2, memory=memory, beam_size=3)
    assert [translation.text for translation in several[2]] == ["bag", "satchel"]
    assert several[1] == translator.translate_n_best(texts[1:2], 2, beam_size=3)[0]


def test_two_that_are_one_text_in_the_script_are_given_once_and_no_answer_of_the_model_beside_them() -> None:
    memory = {"x": ["我有书。", "我有書。", "书。"]}
    (found,) = load_translator("en-zh").translate_n_best(["x"], 2, memory=memory, script="traditional")
    assert [translation.text for translation in found] == ["我有書。", "書。"]


def test_of_a_passage_the_whole_counts_before_its_sentences(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    whole = "我来了。书包。"
    pairs = [(whole, "I came. The bag."), ("书包。", "The bag.")]
    memory = TranslationMemory(pairs, ("zh", "en"), random_model.vocabularies["source"].normalize)
    passages = PassageTranslator(translator, "always", memory=memory)
    assert passages.translate([whole])[0].text == "I came. The bag."
    assert passages.translate(["你好。书包。"])[0].text.endswith(" The bag.")
    shown = PassageTranslator(translator, "always", memory=memory, memory_use="show")
    assert shown.translate([whole]) == PassageTranslator(translator, "always").translate([whole])
