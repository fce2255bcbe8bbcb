"""From clean pairs to a store: in the order of the files, by any number of processes, and joined across pieces."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.corpora import write_tsv

from weft.data.corpus import DataConfig, TrainingCorpus
from weft.data.encoding import tag_ids
from weft.data.preparation import CleanCorpus, clean
from weft.data.store import PAIR, Store, StoreWriter, open_store
from weft.data.storing import Encoder, Stored, store_pairs
from weft.data.workers import workers
from weft.text.characters import CharacterTokenizer, train_characters
from weft.text.words import train_words

PAIRS = [("猫" * (1 + n % 5) + "狗" * (n % 3), " ".join(["cat"] * (1 + n % 4))) for n in range(40)]


@pytest.fixture(scope="module")
def tokenizer() -> CharacterTokenizer:
    return train_characters(["猫狗", "cat dog"], vocab_size=300, language="en", tags=["<bt>"])[0]


@pytest.fixture
def corpus(tmp_path: Path) -> CleanCorpus:
    """The first 30 pairs in a.tsv, the rest in b.tsv, which has a tag and a weight."""
    for name, pairs in (("a.tsv", PAIRS[:30]), ("b.tsv", PAIRS[30:])):
        write_tsv(tmp_path / name, pairs)
    train = ("a.tsv", TrainingCorpus(path="b.tsv", weight=2, tag="<bt>"))
    config = DataConfig(source="zh", target="en", train=train, valid=("x",))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return clean(config.train, config, None, tmp_path, scratch)


def encoder(tokenizer: CharacterTokenizer, max_length: int = 20, joining: float = 0.0) -> Encoder:
    (tag,) = tag_ids(tokenizer, "<bt>")
    return Encoder(tokenizer, tokenizer, ((), (tag,)), ("zh", "en"), max_length=max_length, joining=joining)


def stored(
    corpus: CleanCorpus, encoder: Encoder, folder: Path, *, at_once: int = 10_000, processes: int = 1
) -> tuple[Store, Stored]:
    with StoreWriter(folder, PAIR, largest_id=299, depends_on={}) as writer, workers(processes) as each:
        account = store_pairs(corpus.pieces(at_once), corpus.entries, encoder, writer, each)
    return open_store(folder), account


def texts(store: Store, tokenizer: CharacterTokenizer) -> list[tuple[str, str]]:
    sides = (
        [side[pair].tolist() for pair in range(len(store))]
        for side in (store.columns["source"], store.columns["target"])
    )
    sources, targets = map(tokenizer.decode, sides)
    return list(zip(sources, targets, strict=True))


def test_a_store_holds_all_pairs_in_order_with_lines_tags_and_weights(
    corpus: CleanCorpus, tokenizer: CharacterTokenizer, tmp_path: Path
) -> None:
    store, account = stored(corpus, encoder(tokenizer), tmp_path / "store")
    assert texts(store, tokenizer) == PAIRS and account.pairs == 40
    assert [(part.pairs, part.file, part.weight, part.tag) for part in store.parts] == [
        (30, "a.tsv", 1, None),
        (10, "b.tsv", 2, "<bt>"),
    ]
    assert store.origin(29) == ("a.tsv", 31) and store.origin(30) == ("b.tsv", 2)
    assert [store.columns["source"][pair][0] == tokenizer.tag_id("<bt>") for pair in (29, 30)] == [False, True]


@pytest.mark.parametrize(("at_once", "processes"), [(7, 1), (3, 2)])
@pytest.mark.parametrize("joining", [0.0, 0.5])
def test_the_store_depends_neither_on_the_pieces_nor_on_the_processes(
    corpus: CleanCorpus, tokenizer: CharacterTokenizer, tmp_path: Path, at_once: int, processes: int, joining: float
) -> None:
    whole, _ = stored(corpus, encoder(tokenizer, joining=joining), tmp_path / "whole")
    pieces, _ = stored(
        corpus, encoder(tokenizer, joining=joining), tmp_path / "pieces", at_once=at_once, processes=processes
    )
    assert sorted(texts(pieces, tokenizer)) == sorted(texts(whole, tokenizer))
    if not joining:
        assert np.array_equal(pieces.columns["source"].ids, whole.columns["source"].ids) and np.array_equal(
            pieces.lines, whole.lines
        )


def test_pairs_that_are_too_long_are_left_out_and_counted(
    corpus: CleanCorpus, tokenizer: CharacterTokenizer, tmp_path: Path
) -> None:
    store, account = stored(corpus, encoder(tokenizer, max_length=7), tmp_path / "store")
    short = [pair for pair in PAIRS if len(pair[1]) <= 7]
    assert texts(store, tokenizer) == short
    assert (account.pairs, account.too_long) == (len(short), 40 - len(short))


def test_with_joining_1_each_pair_stands_alone_and_with_the_next_one_of_its_file(
    corpus: CleanCorpus, tokenizer: CharacterTokenizer, tmp_path: Path
) -> None:
    store, account = stored(corpus, encoder(tokenizer, max_length=50, joining=1.0), tmp_path / "store", at_once=8)
    joined = [
        (first[0] + second[0], f"{first[1]} {second[1]}")
        for part in (PAIRS[:30], PAIRS[30:])
        for first, second in pairwise(part)
    ]
    assert sorted(texts(store, tokenizer)) == sorted([*PAIRS, *joined])
    assert (account.pairs, account.joined) == (40 + 38, 38)
    tagged = [store.columns["source"][pair][0] == tokenizer.tag_id("<bt>") for pair in range(len(store))]
    assert sum(tagged) == 10 + 9


@pytest.mark.parametrize("joining", [0.0, 1.0])
def test_unknown_words_are_counted_over_all_pieces(corpus: CleanCorpus, tmp_path: Path, joining: float) -> None:
    words = train_words(["cat"], vocab_size=5, language="en")[0]
    encoder = Encoder(words, words, ((), ()), ("zh", "en"), max_length=20, joining=joining)
    _, account = stored(corpus, encoder, tmp_path / "store", at_once=9)
    assert account.unknown[1].tolist() == [0, sum(len(en.split()) for _, en in PAIRS)]
    assert account.unknown[0][0] == account.unknown[0][1] >= 40


def test_a_text_is_cut_once_to_be_stored_and_to_be_counted(
    corpus: CleanCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = train_words(["cat"], vocab_size=5, language="en")[0]
    encode, cut = words.encode, []
    monkeypatch.setattr(words, "encode", lambda texts: encode([cut.append(text) or text for text in texts]))
    stored(corpus, Encoder(words, words, ((), ()), ("zh", "en"), max_length=20), tmp_path / "store", at_once=9)
    assert sorted(cut) == sorted(text for pair in PAIRS for text in pair)
