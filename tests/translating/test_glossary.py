"""Glossaries: which terms of a text are found, and the pieces in which their translations may appear."""

import re
from pathlib import Path
from typing import Any

import pytest

from weft import load
from weft.decoding.constraints import PhraseConstraints
from weft.decoding.demands import Demands
from weft.errors import CorpusError, UsageError
from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.text.kinds import Kind, train_tokenizer
from weft.text.vocabulary import END_ID
from weft.translating.glossary import (
    Glossary,
    as_glossary,
    constraint_of,
    joins_of,
    phrases_of,
    read_glossary,
    signed_words,
    space_of,
)

ENGLISH = Glossary([("cat", "猫"), ("black cat", "黑猫"), ("Cat", "猫咪"), ("New  York", "纽约")], ("en", "zh"))
CHINESE = Glossary([("北京", "Beijing"), ("北京大学", "Peking University"), ("猫", "cat")], ("zh", "en"))

TEXTS = ["我喜欢黑猫。", "纽约的猫很多。", "猫在睡觉，狗在跑。", "他养了一只黑猫和一只狗。"] * 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A cat sleeps.", ["cat"]),
        ("A black cat and a CAT.", ["black cat", "cat"]),
        ("concatenated cats", []),
        ("a cat, a cat", ["cat"]),
        ("in new   york", ["new york"]),
        ("", []),
    ],
)
def test_terms_of_a_spaced_language_are_found_as_words_the_longest_first(text: str, expected: list[str]) -> None:
    assert [term.source for term in ENGLISH.found_in(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("他在北京大学读书。", ["北京大学"]), ("北京的猫", ["北京", "猫"]), ("北京大学在北京", ["北京大学", "北京"])],
)
def test_terms_of_chinese_are_found_anywhere(text: str, expected: list[str]) -> None:
    assert [term.source for term in CHINESE.found_in(text)] == expected


def test_of_terms_that_overlap_the_longest_counts_wherever_it_begins() -> None:
    glossary = Glossary([("大学", "university"), ("学生会", "student union"), ("学", "study")], ("zh", "en"))
    assert [term.source for term in glossary.found_in("大学生会大学")] == ["学生会", "大学"]
    names = Glossary([("new york", "纽约"), ("york city council", "约克市议会"), ("new", "新")], ("en", "zh"))
    assert [term.source for term in names.found_in("A New York city council")] == ["new", "york city council"]
    assert names.found_in("renew york") == []


def test_a_text_may_hold_any_number_of_terms() -> None:
    glossary = Glossary([("的", "of"), ("我", "I"), ("我的", "my")], ("zh", "en"))
    assert [term.source for term in glossary.found_in("的" * 4000)] == ["的"]
    assert [term.source for term in glossary.found_in("的我" * 2000)] == ["的", "我的", "我"]


def test_a_term_of_which_a_normalization_leaves_nothing_is_found_nowhere() -> None:
    glossary = Glossary([("\x01", "X"), ("猫", "cat")], ("zh", "en")).normalized(lambda text: text.strip("\x01"))
    assert glossary.found_in("你好") == [] and [term.source for term in glossary.found_in("猫")] == ["猫"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我在MAIN街住。", []),
        ("他有AIDS。", []),
        ("他研究AI。", ["ai"]),
        ("用AI写的", ["ai"]),
        ("第13章", []),
        ("第3章", ["3"]),
    ],
)
def test_latin_words_and_numbers_are_whole_words_among_chinese_too(text: str, expected: list[str]) -> None:
    glossary = Glossary([("AI", "artificial intelligence"), ("3", "three"), ("写", "write")], ("zh", "en"))
    assert [term.source for term in glossary.found_in(text) if term.source != "写"] == expected


def test_terms_of_thai_are_found_anywhere() -> None:
    glossary = Glossary([("แมว", "cat")], ("th", "en"))
    assert [term.source for term in glossary.found_in("ฉันรักแมวของฉัน")] == ["แมว"]


def test_vowel_signs_belong_to_their_word() -> None:
    glossary = Glossary([("कम", "less")], ("hi", "en"))
    assert glossary.found_in("कमी है") == [] and [term.source for term in glossary.found_in("कम है")] == ["कम"]
    texts = ["कमी है और कम काम", "मीना की किताब"] * 9
    tokenizer, _ = train_tokenizer(texts, kind="characters", vocab_size=300, language="hi")
    joins = joins_of(tokenizer, "characters", "hi")
    assert {tokenizer.encode(["की"])[0][-1], tokenizer.encode(["म"])[0][-1]} <= joins.later & joins.earlier


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_in_chinese_words_go_on_between_latin_letters_alone(kind: Kind) -> None:
    tokenizer, _ = train_tokenizer(["他研究AI，住在MAIN街。"] * 9, kind=kind, vocab_size=300, language="zh")
    joins = joins_of(tokenizer, kind, "zh")
    inside, han, behind_a_space = (tokenizer.encode([text])[0] for text in ("街N", "街", "街 N"))
    assert inside[-1] in joins.later & joins.earlier and not {*han} & (joins.later | joins.earlier)
    assert behind_a_space[len(han)] not in joins.later


def test_a_term_with_several_lines_has_several_translations_to_choose_from() -> None:
    assert ENGLISH.found_in("the cat")[0].targets == ("猫", "猫咪")


def test_an_empty_glossary_finds_nothing() -> None:
    assert Glossary([], ("zh", "en")).found_in("猫") == []


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters"])
def test_phrases_are_written_as_the_term_wherever_it_stands(kind: Kind) -> None:
    tokenizer, _ = train_tokenizer(TEXTS, kind=kind, vocab_size=300, language="zh")
    phrases = phrases_of("黑猫", tokenizer, "zh")
    for phrase in phrases:
        assert tokenizer.decode([phrase])[0].strip() == "黑猫"
    before = tokenizer.encode(["我喜欢。"])[0]
    assert "我喜欢。黑猫" in [tokenizer.decode([[*before, *phrase]])[0] for phrase in phrases]


def test_in_a_spaced_language_a_term_begins_a_word() -> None:
    tokenizer, _ = train_tokenizer(
        ["a black cat sleeps", "the cat runs"] * 9, kind="bpe", vocab_size=290, language="en"
    )
    (phrase,) = phrases_of("cat", tokenizer, "en")
    assert tokenizer.decode([[*tokenizer.encode(["the"])[0], *phrase]]) == ["the cat"]


def test_in_a_spaced_language_signs_may_follow_a_word_without_a_space() -> None:
    tokenizer, _ = train_tokenizer(["the cat sleeps. it runs."] * 9, kind="bpe", vocab_size=290, language="en")
    written = {tokenizer.decode([[*tokenizer.encode(["the cat"])[0], *p]])[0] for p in phrases_of(".", tokenizer, "en")}
    assert written == {"the cat.", "the cat ."}


def test_among_characters_of_a_spaced_language_a_term_begins_behind_a_space() -> None:
    tokenizer, _ = train_tokenizer(["a black cat sleeps"] * 9, kind="characters", vocab_size=290, language="en")
    (phrase,) = phrases_of("cat", tokenizer, "en")
    assert phrase[:1] == space_of(tokenizer, "en") and tokenizer.decode([phrase]) == [" cat"]
    pieces, _ = train_tokenizer(["a black cat sleeps"] * 9, kind="bpe", vocab_size=290, language="en")
    assert space_of(pieces, "en") == () == space_of(tokenizer, "zh")


def test_one_constraint_has_the_phrases_of_all_translations() -> None:
    tokenizer, _ = train_tokenizer(TEXTS, kind="characters", vocab_size=300, language="zh")
    constraint = constraint_of(("猫", "狗", "猫"), tokenizer, "zh")
    assert {tokenizer.decode([phrase])[0] for phrase in constraint} == {"猫", "狗"}


def test_a_term_that_the_vocabulary_lacks_is_refused() -> None:
    pytest.importorskip("rjieba")
    tokenizer, _ = train_tokenizer(TEXTS, kind="words", vocab_size=50, language="zh")
    with pytest.raises(UsageError, match="'鲸鱼' cannot be written with the pieces"):
        phrases_of("鲸鱼", tokenizer, "zh")


def test_terms_whose_quotation_marks_depend_on_what_stands_before_are_refused() -> None:
    pytest.importorskip("tokenizers")
    texts = ["He said \"titanic\" and rock 'n' roll."] * 5
    of_pieces = train_tokenizer(texts, kind="wordpiece", vocab_size=200, language="en")[0]
    of_bytes = train_tokenizer(texts, kind="bpe", vocab_size=300, language="en")[0]
    glossary = Glossary([("a", '"titanic"'), ("b", "titanic"), ("c", "rock 'n' roll")], ("zh", "en"))
    assert glossary.unspellable(of_pieces) == ['"titanic"', "rock 'n' roll"]
    assert glossary.unspellable(of_bytes) == []


def test_a_glossary_is_read_from_a_file_whose_columns_are_the_languages(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("en\tnote\tzh\nBeijing\tcity\t北京\nUN\t\t联合国\n", encoding="utf-8")
    glossary = read_glossary(tmp_path / "terms.tsv", ("zh", "en"))
    assert [term.targets for term in glossary.found_in("北京和联合国")] == [("Beijing",), ("UN",)]


def test_a_glossary_may_be_a_dict_a_file_or_one_that_was_read(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("zh\ten\n天\tsky\n地\tearth\n地\tground\n")
    read = read_glossary(tmp_path / "terms.tsv", ("zh", "en"))
    assert as_glossary(read, ("zh", "en")) is read
    for given in (tmp_path / "terms.tsv", str(tmp_path / "terms.tsv"), {"地": ["earth", "ground"], "天": "sky"}):
        found = as_glossary(given, ("zh", "en"))
        assert found is not None and found.digest == read.digest
    assert as_glossary(None, ("zh", "en")) is None


@pytest.mark.parametrize(
    ("term", "text", "language", "is_found"),
    [
        ("C++", "他会C++。", "zh", True),
        ("C++", "他会C++11。", "zh", True),
        ("C++", "he knows C++11", "en", True),
        ("C++", "he knows VC++", "en", False),
        (".NET", "in .NET and", "en", True),
        (".NET", "ASP.NET", "en", True),
        ("C", "C++", "en", True),  # a word ends at what is no letter
        ("C", "Car", "en", False),
        ("ABC公司", "在ＡＢＣ公司工作", "zh", True),
        ("２０２４年", "2024年", "zh", True),
        ("O'Brien", "Mr O’Brien said", "en", True),
        ("rock ’n’ roll", "rock 'n' roll", "en", True),
        ("e-mail", "an e‑mail", "en", True),
        ("T–shirt", "a T-shirt", "en", True),
        ("e-mail", "an email", "en", False),
    ],
)
def test_a_term_ends_at_what_it_ends_with_and_its_forms_are_one(
    term: str, text: str, language: str, is_found: bool
) -> None:
    glossary = Glossary([(term, "x")], (language, "de"))
    assert bool(glossary.found_in(text)) is is_found


def test_terms_of_another_glossary_go_first() -> None:
    both = Glossary([("a", "1"), ("b", "2")], ("en", "de")).replaced_by(Glossary([("B", "3")], ("en", "de")))
    assert {term.source: term.targets for term in both.terms.values()} == {"a": ("1",), "b": ("3",)}


@pytest.mark.parametrize("name", ["terms.tbx", "terms.tmx", "terms.csv", "terms.jsonl", "terms.tsv"])
def test_the_same_terms_come_from_each_kind_of_file(tmp_path: Path, name: str) -> None:
    sides = (("zh", "苹果"), ("en", "apple"))
    units = {
        "tbx": "".join(f'<langSet xml:lang="{code}"><tig><term>{text}</term></tig></langSet>' for code, text in sides),
        "tmx": "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in sides),
    }
    contents = {
        "tbx": f"<martif><text><body><termEntry>{units['tbx']}</termEntry></body></text></martif>",
        "tmx": f"<tmx><header/><body><tu>{units['tmx']}</tu></body></tmx>",
        "csv": "zh,en\n苹果,apple\n",
        "jsonl": '{"zh": "苹果", "en": "apple"}\n',
        "tsv": "zh\ten\n苹果\tapple\n",
    }
    (tmp_path / name).write_text(contents[name.partition(".")[2]], encoding="utf-8")
    assert read_glossary(tmp_path / name, ("zh", "en")).digest == Glossary([("苹果", "apple")], ("zh", "en")).digest


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (CHINESE, "the glossary is for zh -> en, the model for en -> zh"),
        ([("cat", "猫")], "is a dict of terms, the path of a file or a Glossary, found list"),
        ({"cat": 1}, "a term and its translations are strings, found 'cat': 1"),
        ({"cat": ["猫", None]}, "are strings, found 'cat': ['猫', None]"),
        ({1: "猫"}, "are strings, found 1: '猫'"),
        ({"cat": []}, "a term has an empty side: 'cat': []"),
        ({" ": "猫"}, "a term has an empty side: ' ': '猫'"),
        ({"cat": ["猫", ""]}, "a term has an empty side: 'cat': ['猫', '']"),
    ],
)
def test_what_is_not_a_glossary_for_a_model_is_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        as_glossary(given, ("en", "zh"))


def test_every_line_of_a_glossary_that_is_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("zh\ten\n北京\n\tcat\n猫\t \n", encoding="utf-8")
    with pytest.raises(CorpusError) as raised:
        read_glossary(tmp_path / "terms.tsv", ("zh", "en"))
    assert [problem.where for problem in raised.value.problems] == ["line 2", "line 3", "line 4"]
    (tmp_path / "other.tsv").write_text("de\ten\nHund\tdog\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="its header has to name the two languages"):
        read_glossary(tmp_path / "other.tsv", ("zh", "en"))


@pytest.mark.parametrize(
    ("terms", "text", "met"),
    [
        (["北京", "AI"], "他在北京AI公司工作。", {0, 1}),
        (["北京"], "他在北京2008年。", {0}),
        (["C++"], "他会C++。", {0}),
        (["C++"], "他会C++11。", set()),
        (["AI"], "他在MAIN街。", set()),
    ],
)
def test_a_term_of_han_ends_wherever_it_stands_and_a_word_of_letters_and_signs_does_not(
    terms: list[str], text: str, met: set[int]
) -> None:
    tokenizer = load_model(find_model("en-zh")).vocabularies["target"]
    constraints = [constraint_of([term], tokenizer, "zh") for term in terms]
    other = [constraint_of([term], tokenizer, "zh") for term in ("C++", "京AI", "他")]  # of another text of the call
    signed = signed_words([constraints, other], tokenizer, "zh")
    demands = Demands((), [constraints, other], joins_of(tokenizer, "bpe", "zh"), (), signed)
    searched, found = PhraseConstraints.of(constraints, demands), frozenset[int]()
    tokens = (*tokenizer.encode([text])[0], END_ID)
    for place in range(1, len(tokens)):
        found = searched.after(tokens[:place], found, following=tokens[place]).met
    assert found == met


def test_a_term_that_ends_with_a_full_stop_keeps_it_at_the_end_of_an_answer() -> None:
    translator = load("zh-en")
    (found,) = translator.translate(["他住在第五大道"], glossary={"第五大道": "5th Ave."})
    assert "5th Ave." in found.text
    (begun,) = translator.translate(["你好"], prefixes=["Hello."])
    assert begun.text.startswith("Hello.")


def test_a_glossary_that_is_no_table_is_told_what_one_is(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("猫\tcat\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="a glossary is a TSV, CSV or JSONL that names both languages in its header"):
        read_glossary(tmp_path / "terms.txt", ("zh", "en"))
