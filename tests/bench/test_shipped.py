"""What the shipped models are chosen by shares no sentence with what they learn from, however it is spelled."""

import gzip
import hashlib
from pathlib import Path
from random import Random

import pytest
from bench.everyday import FOLDER, everyday_pairs, everyday_rows, holds, number_rows
from bench.shipped import (
    AGAINST,
    HELD_OUT,
    cut,
    held_out,
    keys,
    new_pairs,
    read_pairs,
    table,
    with_license,
    write_pairs,
)
from bench.shipped_pairs import chinese_numeral, english_numeral, filled
from tests.corpora import corpus


def test_a_sentence_is_known_whatever_its_script_case_width_spacing_and_punctuation() -> None:
    assert keys(("湯姆說：「ＡＢ」！", 'Tom said: "A B".')) == keys(("汤姆说 ab", "tom said AB"))
    assert keys(("妳總是穿著黑衣服。", "Black")) == keys(("你总是穿着黑衣服", "black."))
    assert keys(("我有1个。", "One")) != keys(("我有2个。", "One"))


def test_only_pairs_whose_sentences_stand_nowhere_else_are_held_out() -> None:
    alone = [(f"句子{n}", f"sentence {n}") for n in range(40)]
    doubled = [("同样", "same one"), ("同樣。", "same two"), ("另一", "same other"), ("再一", "Same other!")]
    training, valid = held_out([*doubled, *alone], 10)
    assert len(valid) == 10 and set(valid) <= set(alone)
    assert sorted([*training, *valid]) == sorted([*doubled, *alone])
    assert not {key for pair in training for key in keys(pair)} & {key for pair in valid for key in keys(pair)}


def test_the_pairs_held_out_do_not_depend_on_the_order_of_the_file() -> None:
    pairs = [(f"句子{n}", f"sentence {n}") for n in range(40)]
    assert set(held_out(pairs, 10)[1]) == set(held_out(pairs[::-1], 10)[1])


def test_the_pairs_drawn_stay_those_that_the_shipped_models_were_chosen_by(tmp_path: Path) -> None:
    pairs = read_pairs(corpus("tatoeba-zh-en/train.tsv"))
    drawn = tmp_path / "valid.tsv"
    write_pairs(drawn, held_out(pairs, HELD_OUT)[1])
    assert hashlib.sha256(drawn.read_bytes()).hexdigest().startswith("75a68077d11cedde")  # as in their cards


def test_no_part_of_the_cut_has_a_sentence_that_is_scored(tmp_path: Path) -> None:
    known = {"valid": ("她總是穿著黑色的衣服。", "Always black."), "test": ("他很忙。", "He is busy.")}
    for folder in ("tatoeba-zh-en", "zh-en-50k"):
        (tmp_path / folder).mkdir()
    for part, pair in known.items():
        write_pairs(tmp_path / f"zh-en-50k/{part}.tsv", [pair])
        with gzip.open(tmp_path / f"zh-en-50k/{part}.attribution.tsv.gz", "wt", encoding="utf-8") as file:
            file.write("source\tby\ntatoeba\tsomebody\n")
    twice = [("再见。", "Goodbye."), ("再見。", "See you.")]
    scored = [
        ("她总是穿着黑色的衣服", "She wears black."),
        ("她总是穿着黑色的衣服。", "In black."),
        ("忙。", "He is busy!"),
    ]
    write_pairs(tmp_path / "tatoeba-zh-en/train.tsv", [*twice, *scored, ("你好。", "Hello.")])
    cut(tmp_path, tmp_path)
    assert read_pairs(tmp_path / "train.tsv") == twice
    assert read_pairs(tmp_path / "valid.tsv") == [("你好。", "Hello.")]
    assert read_pairs(tmp_path / "tatoeba.zh-en.tsv") == [known["valid"]]


def test_of_what_a_model_wrote_only_new_pairs_without_held_out_sentences_are_kept() -> None:
    known, valid = [("你好。", "Hello.")], [("再见。", "Goodbye.")]
    new = ("你好。", "Hi there.")
    written = [("你好", "hello"), new, ("你好！", "Hi, there!"), ("拜拜。", "Goodbye!"), ("再見", "See you.")]
    assert new_pairs(written, known, valid) == [new]


def test_few_sentences_of_the_everyday_test_are_made_by_patterns_and_none_is_kept() -> None:
    tested = {key for pair in everyday_pairs() for key in keys(pair)} - {0}
    patterns = [line.split("\t") for line in (FOLDER / "patterns.tsv").read_text(encoding="utf-8").splitlines()]
    made = list(filled(2000, Random(3)))
    assert len(made) > 2000 and all("{" not in zh + en for zh, en in made)
    known = [pair for pair in made if not tested.isdisjoint(keys(pair))]
    assert len(known) < 40  # which bench.shipped_pairs leaves out
    assert len(everyday_rows("zh-en")) == len(everyday_rows("en-zh")) == 150
    assert len(number_rows("zh-en")) == len(number_rows("en-zh")) == 240 and len(patterns) > 500


@pytest.mark.parametrize(
    "text, must, is_held",
    [
        ("I have 57 books.", "57;book", True),
        ("I have 157 books.", "57", False),
        ("There are 12,345 views.", "12345", True),
        ("Hi, nice to meet you.", "hello|hi;meet|know", True),
        ("我的号码是5", "号码;4", False),
    ],
)
def test_a_translation_has_one_of_the_alternatives_of_each_group(text: str, must: str, is_held: bool) -> None:
    assert holds(text, must) is is_held


def test_numerals_of_both_languages() -> None:
    names = {2: "二", 10: "十", 15: "十五", 40: "四十", 105: "一百零五", 250: "两百五十", 2030: "两千零三十"}
    assert {n: chinese_numeral(n) for n in names} == names and chinese_numeral(2, counting=True) == "两"
    assert english_numeral(342) == "three hundred and forty-two" and english_numeral(1005) == "one thousand and five"


def test_the_card_says_license_and_sources() -> None:
    for sources in ("these files", "these files and models"):
        card = (
            f"---\nlicense: unknown\n---\n## Data\nThe license of the weights follows from {sources}; put it into the "
        )
        card += "header before you pass the model on.\n"
        written = with_license(card, (140, 239))
        assert "license: cc-by-2.0-fr\n" in written and "tatoeba.org" in written and "unknown" not in written
        assert "sentences 140 have" in written and "digits 239 are" in written
        assert written.count("https://creativecommons.org/licenses/by/2.0/fr/") == 2 and "follows" not in written


def test_a_run_of_another_recipe_stands_in_the_table_without_a_size_and_with_a_word_about_it() -> None:
    scores = {name: {"value": 36.75, "signature": f"{name}|nrefs:1"} for name in ("sacrebleu", "chrf")}
    about = {
        "date": "2026-11-22",
        "commit": "abc",
        "processor": "a processor",
        "device": "cpu",
        "seconds": 9.5,
        "scores": scores,
    }
    shipped = {"model": "zh-en", "bytes": 11_700_000, "parameters": 5, "target_tokens": 7, **about}
    other = {**shipped, "model": "zh-en-50k (zh-en)", "bytes": None, "device": "a GPU"}
    for language in ("en", "zh"):
        written = table([shipped, other], language)
        assert "| `zh-en` | 11.7 | 5 | 7 | 36.75 | 36.75 | 9.5 |" in written
        assert "| `zh-en-50k (zh-en)` | – |" in written
        assert "a processor" in written and "a GPU" in written
        assert AGAINST[language] in written and "`sacrebleu|nrefs:1`" in written
        assert AGAINST[language] not in table([shipped], language)
