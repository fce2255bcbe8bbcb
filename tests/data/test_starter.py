"""The starter corpus: what it promises about its size, its splits and its two languages, and how it is written."""

import os
import re
from collections import Counter
from random import Random

import pytest
from typer.testing import CliRunner

from weft.cli import corpus as cli
from weft.data import starter
from weft.data.starter_lexicon import Word, chinese_number, english_number, plural, verb_forms
from weft.data.starter_templates import POOLS, TEMPLATES
from weft.errors import UsageError


@pytest.fixture(scope="module")
def corpus():
    return starter.generate()


@pytest.fixture(scope="module")
def pairs(corpus):
    return [*corpus.train, *corpus.valid, *corpus.test]


@pytest.fixture(scope="module")
def splits():
    return starter.split(1)


def test_it_holds_20000_pairs_to_train_on_and_500_each_to_validate_and_test(corpus):
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [20_000, 500, 500]


def test_no_two_sentences_are_alike_on_either_side_after_normalization(pairs):
    for side in zip(*pairs, strict=True):
        assert len({starter.plain(sentence) for sentence in side}) == len(pairs)


def test_a_seed_always_gives_the_same_corpus_and_another_seed_another(corpus):
    assert starter.generate(1) == corpus
    assert starter.generate(2).train != corpus.train


def test_every_seed_gives_full_splits():
    assert {tuple(map(len, starter.split(seed))) for seed in (2, 99)} == {(20_000, 500, 500)}


def test_one_chinese_sentence_has_one_english_translation_in_whatever_is_drawn():
    random, english = Random(7), {}
    for template in TEMPLATES * 150:
        sentence = starter.compose(template, random)
        if sentence:
            assert english.setdefault(sentence.zh, sentence.en) == sentence.en


def test_every_template_makes_sentences():
    random = Random(3)
    for template in TEMPLATES:
        assert any(starter.compose(template, random) for _ in range(100)), template.zh


def test_every_template_and_word_form_that_is_held_out_stands_in_train(splits):
    train, *held_out = splits
    counts = Counter(part for sentence in train for part in sentence.parts)
    assert all(counts[part] >= 3 for split in held_out for sentence in split for part in sentence.parts)


def test_every_word_and_character_that_is_held_out_stands_in_train(corpus):
    known = {token for pair in corpus.train for token in _tokens(*pair)}
    assert all(known.issuperset(_tokens(*pair)) for pair in [*corpus.valid, *corpus.test])


def test_many_held_out_sentences_hold_a_pairing_that_train_never_shows(splits):
    train, *held_out = splits
    seen = {pairing for sentence in train for pairing in sentence.pairings}
    assert all(sum(bool(sentence.pairings - seen) for sentence in split) >= 100 for split in held_out)


def test_it_has_over_200_templates_and_over_500_words():
    assert len({template.zh for template in TEMPLATES}) > 200
    words: set[Word] = {word for pool in POOLS.values() for word in pool}
    assert len({word.zh[""] for word in words}) > 500


def test_chinese_sentences_are_3_to_25_characters_and_punctuated_as_chinese(pairs):
    for chinese, _ in pairs:
        assert 3 <= len(chinese) <= 25
        assert re.fullmatch(r"[\u4e00-\u9fff，]+[。？]", chinese), chinese


def test_english_sentences_start_with_a_capital_and_end_as_the_chinese_do(pairs):
    for chinese, english in pairs:
        assert re.fullmatch(r"[A-Z][A-Za-z',. -]*(?:[a-z']|TV)[.?]", english), english
        assert english.endswith("?") == chinese.endswith("？")
        assert "  " not in english


def test_the_article_is_an_before_a_vowel_sound_and_a_before_others(pairs):
    vowel_sound = re.compile(r"[aeiou](?!ni[vf]|seful|ne\b)|hour", re.IGNORECASE)
    for _, english in pairs:
        for article, following in re.findall(r"(?<!')\b([Aa]n?) (\w+)", english):
            assert (article.lower() == "an") == bool(vowel_sound.match(following)), english


def test_a_measured_two_is_liang_and_every_noun_has_its_measure_word(pairs):
    text = "\n".join(chinese for chinese, _ in pairs)
    assert not re.search(r"(?<![十百千零])二[本只辆件杯瓶张条个次]", text)
    assert not re.search(r"一个(书(?!包)|猫|牛奶|茶|衬衫|裤子|雨伞|自行车)", text)


def test_verbs_agree_with_their_subjects(pairs):
    for _, english in pairs:
        assert not re.search(r"^(He|She|[A-Z][a-z]+oming) (like|want|have|do|are|am|don't|aren't)\b", english), english
        assert not re.search(r"^(I|We|They) (likes|wants|has|does|is|doesn't|isn't)\b", english), english


SAMPLES = [  # of seed 1; whoever changes a word or a template draws new ones and checks them
    ("她花十块钱买了一本杂志。", "She bought a magazine for ten yuan."),
    ("孩子们比玛丽高。", "The children are taller than Mary."),
    ("你们会游泳吗？", "Can you swim?"),
    ("她弟弟正在打扫房间。", "Her younger brother is cleaning the room."),
    ("老师还没喝完这杯水。", "The teacher hasn't finished drinking this glass of water yet."),
    ("因为今天早上下雪了，所以他没去书店。", "Because it snowed this morning, he didn't go to the bookstore."),
    ("如果明天上午下雨，李女士就不去书店了。", "If it rains tomorrow morning, Ms. Li won't go to the bookstore."),
    ("请把票放在书架上。", "Please put the ticket on the bookshelf."),
    ("她今年三十一岁。", "She is thirty-one years old."),
    ("他叔叔起得比老师晚。", "His uncle gets up later than the teacher."),
    ("如果你头疼，就应该多吃水果。", "If you have a headache, you should eat more fruit."),
    ("这盏灯多少钱？", "How much is this lamp?"),
    ("学生们的包昨天晚上被偷了。", "The students' bag was stolen last night."),
    ("他一个星期开两次会。", "He has a meeting twice a week."),
    ("这个橙子又新鲜又好吃。", "This orange is both fresh and tasty."),
    ("我们有两只猫。", "We have two cats."),
    ("我们明天一起锻炼身体吧。", "Let's exercise together tomorrow."),
    ("她弟弟到家的时候，他爸爸正在弹钢琴。", "When her younger brother got home, his father was playing the piano."),
    ("会议快要开始了。", "The meeting is about to start."),
    ("宾馆附近有医院吗？", "Is there a hospital near the hotel?"),
    ("这杯橙汁不但新鲜，而且甜。", "This glass of orange juice is not only fresh but also sweet."),
    ("从大学到博物馆走路要四十分钟。", "It takes forty minutes to walk from the university to the museum."),
]


@pytest.mark.parametrize("pair", SAMPLES, ids=lambda pair: pair[1])
def test_pairs_checked_by_hand_are_there(pair, pairs):
    assert pair in pairs


def test_numbers_are_read_out_in_both_languages():
    numbers = (7, 10, 12, 20, 45, 105, 110, 250, 1200, 2005)
    assert [chinese_number(n) for n in numbers] == (
        ["七", "十", "十二", "二十", "四十五", "一百零五", "一百一十", "二百五十", "一千二百", "两千零五"]
    )
    assert [english_number(n) for n in (7, 12, 45, 105, 1200)] == (
        ["seven", "twelve", "forty-five", "one hundred and five", "one thousand two hundred"]
    )


def test_english_words_are_inflected():
    assert [plural(noun) for noun in ("book", "watch", "dictionary", "sheep", "toy")] == (
        ["books", "watches", "dictionaries", "sheep", "toys"]
    )
    forms = ("now3", "past3", "done", "ing")
    assert [verb_forms("write a letter")[form] for form in forms] == (
        ["writes a letter", "wrote a letter", "written a letter", "writing a letter"]
    )
    assert [verb_forms("study")[form] for form in forms] == ["studies", "studied", "studied", "studying"]
    assert [verb_forms("swim")[form] for form in forms] == ["swims", "swam", "swum", "swimming"]


def test_the_files_hold_the_pairs_under_a_header_and_say_that_they_are_synthetic(tmp_path, corpus):
    assert starter.write(tmp_path / "new" / "starter") == corpus
    folder = tmp_path / "new" / "starter"
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "test.tsv", "train.tsv", "valid.tsv"]
    for name, pairs in (("train", corpus.train), ("valid", corpus.valid), ("test", corpus.test)):
        header, *rows = (folder / f"{name}.tsv").read_bytes().decode("utf-8").removesuffix("\n").split("\n")
        assert header == "zh\ten"
        assert [tuple(row.split("\t")) for row in rows] == pairs
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "synthetic" in readme and "Apache-2.0" in readme


def test_files_that_are_right_already_are_left_alone_and_others_replaced_where_that_is_said(tmp_path):
    starter.write(tmp_path)
    (tmp_path / "valid.tsv").write_text("cut sho")
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    starter.write(tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir() if path.stat().st_mtime > 0] == ["valid.tsv"]
    assert (tmp_path / "valid.tsv").read_text(encoding="utf-8").startswith("zh\ten\n")


def test_files_with_another_content_are_not_replaced_unless_that_is_said(tmp_path):
    (tmp_path / "train.tsv").write_text("mine")
    with pytest.raises(
        UsageError, match=r"holds train\.tsv with another content; .* by --output, or replace it by --force"
    ):
        starter.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train.tsv"]
    starter.write(tmp_path, force=True)
    assert len((tmp_path / "train.tsv").read_text(encoding="utf-8").splitlines()) == 20_001


def test_the_command_writes_the_corpus_and_reports_on_stderr_alone(tmp_path):
    result = CliRunner().invoke(cli.app, ["get", "starter", "--output", str(tmp_path / "there"), "--seed", "2"])
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "20,000 pairs" in result.stderr
    assert (tmp_path / "there" / "train.tsv").is_file()


def test_the_command_lists_the_corpora_on_stdout():
    result = CliRunner().invoke(cli.app, ["list"])
    assert result.stdout.startswith("starter  ")


def test_an_unknown_name_is_refused_with_the_near_one():
    result = CliRunner().invoke(cli.app, ["get", "stater"])
    assert isinstance(result.exception, UsageError)
    assert "did you mean `starter`" in str(result.exception)


def _tokens(chinese: str, english: str) -> set[str]:
    return {*chinese, *re.findall(r"[\w']+", english)}
