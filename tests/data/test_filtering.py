"""Noise that models learned from the corpus find: each kind by its statistic, and none by its own text."""

import random
from pathlib import Path

import numpy as np
import pytest
from tests.corpora import write_tsv

from weft.data.cleaning import CleaningConfig
from weft.data.corpus import DataConfig, ParallelText
from weft.data.filtering import SHARES, NoiseFilter, Numbers, Side
from weft.data.keys import keys_of
from weft.data.preparation import HeldOut, clean
from weft.errors import CorpusError
from weft.text.vocabulary import BEGIN_ID

SUBJECTS = {"我": "I", "他": "he", "你": "you", "她": "she", "我们": "we", "他们": "they"}
VERBS = {"看见": "saw", "喜欢": "liked", "买了": "bought", "画了": "drew", "需要": "needed"}
THINGS = {"苹果": "apples", "书": "books", "鱼": "fish", "车": "cars", "花": "flowers", "狗": "dogs", "山": "hills"}
PLACES = {"在家": "at home", "在学校": "at school", "在城里": "in town", "昨天": "yesterday"}


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        (s, a), (v, b), (t, c), (p, d) = (draw.choice([*of.items()]) for of in (SUBJECTS, VERBS, THINGS, PLACES))
        found.append((f"{s}{p}{v}{t}。", f"{a} {b} {c} {d} ."))
    return found


def sides(pairs: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [source for source, _ in pairs], [target for _, target in pairs]


@pytest.fixture(scope="module")
def learned() -> NoiseFilter:
    return NoiseFilter.learn(sides(sentences(3000, 1)), sides(sentences(600, 2)), 0.04, 0.01)


@pytest.mark.parametrize(
    ("pair", "rule", "statistic"),
    [
        (("我昨天看见苹果。", "they drew hills at school ."), "dual_cross_entropy", "dual"),
        (("我昨天看见苹果。", "I saw"), "cross_entropy", "end"),
        (("我昨天", "I saw apples yesterday ."), "cross_entropy", "end"),
        (("我昨天看见苹果。", ". yesterday saw I apples"), "cross_entropy", "target order"),
        (("我昨天看见苹果。", "I sqw axples yesxerdaq ."), "cross_entropy", "target characters"),
        (("央行下调存款准备金率。", "The reserve ratio was cut by the central bank ."), "cross_entropy", "domain"),
    ],
)
def test_each_kind_of_noise_is_found_by_its_statistic(
    learned: NoiseFilter, pair: tuple[str, str], rule: str, statistic: str
) -> None:
    whole = ("我昨天看见苹果。", "I saw apples yesterday .")
    rows, halves = sides([whole, pair]), np.zeros(2, np.int64)
    assert learned.judge(rows, halves)[rule].tolist() == [False, True]
    found = learned.statistics(rows, halves)[statistic]
    assert found[0] <= learned.limits[rule][statistic] < found[1]


def test_few_other_pairs_are_lost(learned: NoiseFilter) -> None:
    pairs = sides(sentences(1000, 3))
    masks = learned.judge(pairs, np.arange(1000) % 2)
    assert masks["cross_entropy"].mean() < 0.08 and masks["dual_cross_entropy"].mean() < 0.03
    assert sum(SHARES.values()) == pytest.approx(1)


def test_a_text_is_not_judged_by_the_model_that_has_read_it() -> None:
    texts = ["a a a", "b b b"] * 50 + ["a a a", "x y z"]  # the last one is in the second half alone
    side = Side(texts, ["a a a"] * 10)
    first, second = side.statistics(["x y z"], np.array([0])), side.statistics(["x y z"], np.array([1]))
    assert first["characters"] < second["characters"]


def test_means_are_of_each_text_and_count_its_end() -> None:
    numbers = Numbers.of(["ab", "", "a"], {"a": 4, "b": 5})
    assert numbers.ids.tolist() == [2, 4, 5, 3, 2, 3, 2, 4, 3]
    assert numbers.means(np.array([0, 1, 2, 6, 0, 5, 0, 1, 3.0])).tolist() == [3, 5, 2]


def test_cleaning_removes_what_is_found_and_says_by_which_rule(tmp_path: Path) -> None:
    pairs = sentences(1500, 1)
    pairs[3] = ("央行下调存款准备金率。", "The reserve ratio was cut by the central bank .")
    write_tsv(tmp_path / "train.tsv", pairs)
    config = DataConfig(source="zh", target="en", train=("train.tsv",), valid=("valid.tsv",))
    rules = CleaningConfig(cross_entropy=0.04, dual_cross_entropy=0.01, duplicates=False, leaks=False)
    source, target = sides(sentences(400, 2))
    trusted = ParallelText(source, [(text,) for text in target], {})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    held_out = HeldOut.of([pairs[3][0], pairs[4][0]], [pairs[3][1]])
    corpus = clean(config.train, config, rules, tmp_path, scratch, held_out=held_out, trusted=trusted)
    kept = [line for piece in corpus.pieces() for line in piece.lines]
    assert 5 not in kept and len(kept) == len(corpus) > 1300
    assert sum(corpus.removed.counts.values()) == 1500 - len(corpus)
    assert 5 in [example.line for rule in corpus.removed.examples for example in corpus.removed.examples[rule]]
    assert corpus.leaks.sources == {*keys_of([pairs[4][0]]).tolist()} and not corpus.leaks.targets
    few = ParallelText(source[:50], [(text,) for text in target[:50]], {})
    with pytest.raises(CorpusError, match="have 50 pairs"):
        clean(config.train, config, rules, tmp_path, scratch, trusted=few)
    (tmp_path / "train.tsv").write_text("zh\ten\n我有苹果。\tI have apples .\n", encoding="utf-8")
    assert len(clean(config.train, config, rules, tmp_path, scratch, trusted=trusted)) == 1


def test_the_mean_of_a_text_does_not_depend_on_its_place_in_a_piece() -> None:
    numbers = Numbers.of([["a"] * 180] * 10_000, {"a": 4})
    nats = np.where(numbers.ids == BEGIN_ID, 0.0, 1.0789).astype(np.float32)
    means = numbers.means(nats)
    assert float(means.max() - means.min()) < 1e-6
