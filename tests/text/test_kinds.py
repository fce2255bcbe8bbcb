"""What all kinds of tokenizers keep: text comes back, no text becomes a special id, and files are read or refused."""

import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.encoding import tag_ids
from weft.errors import CorpusError, ModelError, UsageError, WeftError
from weft.text.chinese import Script
from weft.text.kinds import KINDS, Kind, load_tokenizer, pieces_of, read_tokenizer, train_tokenizer
from weft.text.normalization import Normalization
from weft.text.punctuation import Punctuation
from weft.text.sentencepiece_model import SentencePieceTokenizer
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import BEGIN_ID, END_ID, MOST_TOKENS, PADDING_ID, SPECIAL_PIECES, UNKNOWN_ID

SPELLING_ALL: tuple[Kind, ...] = ("bpe", "unigram", "characters")
LISTS: tuple[Kind, ...] = ("wordpiece", "characters", "words", "whitespace")
NEVER_OF_TEXT = {PADDING_ID, BEGIN_ID, END_ID}
ANY_TEXT = st.text(st.characters(exclude_categories=()))


def train(kind: Kind, texts: list[str], vocab_size: int = 500) -> Tokenizer:
    return train_tokenizer(texts, kind=kind, vocab_size=vocab_size, language="zh+en", tags=["<bt>"])[0]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(kind: Kind, corpus: list[str]) -> Tokenizer:
    return train(kind, corpus)


@pytest.fixture(scope="module")
def knowing(strange_strings: list[str], corpus: list[str]) -> dict[Kind, Tokenizer]:
    """Tokenizers that have seen all of the strange strings, so that they know each character and word in them."""
    texts = [*strange_strings, *corpus]
    return {
        kind: train_tokenizer(texts, kind=kind, vocab_size=60_000, language="en", tags=["<bt>"])[0] for kind in LISTS
    }


@pytest.fixture(scope="module")
def unifying(kind: Kind, corpus: list[str]) -> dict[Punctuation, Tokenizer]:
    """A tokenizer for each form of punctuation, trained on texts in all of them."""
    texts = [*corpus, *["Tom said: «so»...", "他说:「好」……", "他说：“好。”"] * 40]
    forms: tuple[Punctuation, ...] = ("ascii", "chinese")
    return {
        form: train_tokenizer(texts, kind=kind, vocab_size=500, language="zh+en", punctuation=form)[0] for form in forms
    }


def test_it_is_what_the_seam_asks_for(tokenizer: Tokenizer, kind: Kind) -> None:
    assert isinstance(tokenizer, Tokenizer)
    assert tokenizer.ids_of(pieces_of(tokenizer, kind)) == list(range(tokenizer.vocab_size))


# Text and back


def has_lost_nothing(tokenizer: Tokenizer, texts: list[str]) -> bool:
    return tokenizer.decode(tokenizer.encode(texts)) == [tokenizer.normalize(text) for text in texts]


@pytest.mark.parametrize("spelling", SPELLING_ALL)
def test_any_text_comes_back(corpus: list[str], strange_strings: list[str], spelling: Kind) -> None:
    assert has_lost_nothing(train(spelling, corpus), strange_strings)


@pytest.mark.parametrize("listing", LISTS)
def test_any_text_comes_back_whose_words_are_all_known(
    knowing: dict[Kind, Tokenizer], strange_strings: list[str], listing: Kind
) -> None:
    assert not any(UNKNOWN_ID in ids for ids in knowing[listing].encode(strange_strings))
    assert has_lost_nothing(knowing[listing], strange_strings)


@given(text=ANY_TEXT)
def test_a_text_comes_back_or_some_of_it_was_unknown(tokenizer: Tokenizer, kind: Kind, text: str) -> None:
    (ids,) = tokenizer.encode([text])
    unknown = UNKNOWN_ID in ids
    assert tokenizer.decode([ids]) == [tokenizer.normalize(text)] or (unknown and kind not in SPELLING_ALL)


@given(text=ANY_TEXT)
def test_normalizing_twice_is_normalizing_once(tokenizer: Tokenizer, text: str) -> None:
    normalized = tokenizer.normalize(text)
    assert tokenizer.normalize(normalized) == normalized
    assert tokenizer.encode([normalized]) == tokenizer.encode([text])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_strange_strings(
    tokenizer: Tokenizer, kind: Kind, hundred_thousand_strange_strings: list[str]
) -> None:
    texts = hundred_thousand_strange_strings
    ids = tokenizer.encode(texts)
    normalized = [tokenizer.normalize(text) for text in texts]
    lost = [
        text
        for text, back, sentence in zip(normalized, tokenizer.decode(ids), ids, strict=True)
        if text != back and (kind in SPELLING_ALL or UNKNOWN_ID not in sentence)
    ]
    assert lost == []
    assert [text for text in normalized if tokenizer.normalize(text) != text] == []
    assert not NEVER_OF_TEXT.intersection(i for sentence in ids for i in sentence)


@pytest.mark.parametrize("punctuation", ["ascii", "chinese"])
@given(text=st.text("汉字Tom1 ,.:;!?'\"()-，。：；！？“”‘’（）「」«»…—`@&/", max_size=20) | ANY_TEXT)
def test_a_text_comes_back_with_its_punctuation_in_one_form(
    unifying: dict[Punctuation, Tokenizer], kind: Kind, punctuation: Punctuation, text: str
) -> None:
    tokenizer = unifying[punctuation]
    normalized = tokenizer.normalize(text)
    assert tokenizer.normalize(normalized) == normalized
    (ids,) = tokenizer.encode([text])
    assert tokenizer.encode([normalized]) == [ids]
    assert tokenizer.decode([ids]) == [normalized] or (UNKNOWN_ID in ids and kind not in SPELLING_ALL)


def test_ways_of_writing_a_sign_are_the_same_ids_and_learned_as_one(
    unifying: dict[Punctuation, Tokenizer], kind: Kind
) -> None:
    if kind == "whitespace":
        pytest.skip("these sentences are single words of it, not seen in training")
    chinese = unifying["chinese"].encode(["他说:「好...」", "他说：“好……”", '他说: "好。。。"'])
    assert chinese[0] == chinese[1] == chinese[2] and UNKNOWN_ID not in chinese[0]
    ascii_ = unifying["ascii"].encode(["Tom said “so”…", 'Tom said "so"...'])
    assert ascii_[0] == ascii_[1] and UNKNOWN_ID not in ascii_[0]
    assert unifying["chinese"].ids_of(["「", "」"]) == [None, None]


CHINESE_TEXT = "汤姆有三个苹果。“好！”玛丽说：（书）"


def test_chinese_comes_back_without_stray_spaces(kind: Kind, corpus: list[str]) -> None:
    tokenizer = train(kind, [*corpus, *[CHINESE_TEXT] * 20])
    assert tokenizer.decode(tokenizer.encode([CHINESE_TEXT])) == [CHINESE_TEXT]


# Special ids


@pytest.mark.parametrize(
    "text",
    [
        *SPECIAL_PIECES,
        *("a</s>b", "<s>你好</s>", "\u2581</s>", "</s></s >", "[CLS] [SEP]", "[PAD][UNK]", "[MASK]"),
        *("<bt>", "a<bt>b <bt>", "<bt> is text here", "\u2581<bt><bt>", "<0x00>", "<0x41>"),
    ],
)
def test_text_that_spells_a_special_piece_never_becomes_its_id(tokenizer: Tokenizer, text: str) -> None:
    (ids,) = tokenizer.encode([text])
    assert ids and not {*NEVER_OF_TEXT, tokenizer.tag_id("<bt>")} & set(ids)


@given(text=ANY_TEXT)
def test_no_text_becomes_a_special_id(tokenizer: Tokenizer, text: str) -> None:
    (ids,) = tokenizer.encode([text])
    assert not {*NEVER_OF_TEXT, tokenizer.tag_id("<bt>")} & set(ids)


def test_special_ids_and_tags_decode_to_nothing(tokenizer: Tokenizer) -> None:
    (ids,) = tokenizer.encode(["Tom said"])
    (tag,) = tag_ids(tokenizer, "<bt>")
    assert tokenizer.decode([[BEGIN_ID, tag, *ids, END_ID, PADDING_ID]]) == tokenizer.decode([ids])
    assert tokenizer.decode([[], [PADDING_ID]]) == ["", ""]


def test_an_unknown_piece_reads_as_a_double_question_mark(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([[UNKNOWN_ID]])[0].strip() == "\u2047"


@pytest.mark.parametrize("other", ["<pt>", *SPECIAL_PIECES, "<0x41>", "Tom", "▁Tom", "汤", ""])
def test_nothing_else_is_a_tag(tokenizer: Tokenizer, other: str) -> None:
    assert tokenizer.tag_id(other) is None


# Pieces


def test_pieces_are_the_ids_in_words(tokenizer: Tokenizer, corpus: list[str]) -> None:
    for text in [*corpus[::50], "龘 🙂 x", ""]:
        pieces = tokenizer.pieces(text)
        assert tokenizer.ids_of(pieces) == tokenizer.encode([text])[0]
        assert not any(" " in piece for piece in pieces)


def test_a_string_that_is_no_piece_has_no_id(tokenizer: Tokenizer) -> None:
    assert tokenizer.ids_of(["no piece", "<unk>"]) == [None, UNKNOWN_ID]


# Training


def test_training_in_another_process_gives_the_same_bytes(tmp_path: Path, corpus: list[str]) -> None:
    texts = [text for text in corpus if "<" not in text and "[" not in text]
    (tmp_path / "texts").write_text("\n".join(texts), encoding="utf-8")
    program = f"""
from pathlib import Path
from weft.text.kinds import KINDS, train_tokenizer
place = Path({str(tmp_path)!r})
texts = (place / "texts").read_text(encoding="utf-8").split("\\n")
for kind in KINDS:
    tokenizer, _ = train_tokenizer(texts, kind=kind, vocab_size=400, language="zh+en")
    (place / kind).write_bytes(tokenizer.model)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    for which in KINDS:
        ours, _ = train_tokenizer(texts, kind=which, vocab_size=400, language="zh+en")
        assert ours.model == (tmp_path / which).read_bytes()
        again, _ = train_tokenizer(list(texts), kind=which, vocab_size=400, language="zh+en")
        assert again.model == ours.model


def test_a_vocabulary_that_the_corpus_cannot_fill_is_made_smaller_and_says_so(kind: Kind, corpus: list[str]) -> None:
    tokenizer, message = train_tokenizer(corpus, kind=kind, vocab_size=9000, language="zh")
    assert tokenizer.vocab_size < 9000
    assert message == f"zh: vocabulary of {tokenizer.vocab_size:,} pieces instead of 9,000: the corpus supports no more"


def test_tags_may_make_a_vocabulary_larger_but_never_fail(kind: Kind, corpus: list[str]) -> None:
    tags = [f"<t{number}>" for number in range(300)]
    made, message = train_tokenizer(corpus, kind=kind, vocab_size=270, language="zh", tags=tags)
    assert message is not None and all(made.tag_id(tag) is not None for tag in tags)


def test_another_kind_is_refused_with_those_that_there_are() -> None:
    says = "there is no tokenizer of the kind word; there are bpe, unigram, wordpiece, characters, words"
    with pytest.raises(UsageError, match=says):
        train_tokenizer(["我"], kind="word", vocab_size=300, language="zh")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=says):
        read_tokenizer(b"", Path("vocab.txt"), kind="word", language="zh")  # type: ignore[arg-type]


def test_what_is_no_string_is_no_text(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match="a text has to be a string, found NoneType"):
        tokenizer.encode(["我", None])  # type: ignore[list-item]


@pytest.mark.parametrize("texts", [[], [""], ["\x00", " "]], ids=["none", "an empty one", "only controls"])
def test_a_corpus_without_any_text_is_named(kind: Kind, texts: list[str]) -> None:
    with pytest.raises(CorpusError, match=r"zh +holds nothing to learn pieces from"):
        train_tokenizer(texts, kind=kind, vocab_size=300, language="zh")


# Files


def test_one_string_is_no_list_of_its_characters(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match=r"encode takes a list of texts, found one string; write \[text\]"):
        tokenizer.encode("我有一个梨。")
    if isinstance(tokenizer, SentencePieceTokenizer):
        with pytest.raises(UsageError, match="sample takes a list of texts"):
            tokenizer.sample("我有", [1, 2], 0.1)


def test_a_tokenizer_can_be_sent_to_another_process(tokenizer: Tokenizer) -> None:
    texts = ["我有三个苹果。", "Tom said 3 龘"]
    assert pickle.loads(pickle.dumps(tokenizer)).encode(texts) == tokenizer.encode(texts)  # noqa: S301 (our own)


@pytest.mark.parametrize(
    ("normalization", "punctuation", "script"), [("nfc", "keep", "keep"), ("nfkc", "chinese", "simplified")]
)
def test_what_is_read_from_the_file_is_what_was_trained(
    kind: Kind,
    corpus: list[str],
    tmp_path: Path,
    normalization: Normalization,
    punctuation: Punctuation,
    script: Script,
) -> None:
    trained, _ = train_tokenizer(
        corpus,
        kind=kind,
        vocab_size=500,
        language="zh",
        normalization=normalization,
        punctuation=punctuation,
        script=script,
    )
    path = tmp_path / f"tokenizer{KINDS[kind].suffix}"
    path.write_bytes(trained.model)
    loaded = load_tokenizer(
        path, kind=kind, language="zh", normalization=normalization, punctuation=punctuation, script=script
    )
    texts = ["湯姆,「ＨＡＳ」 2 apples。", *corpus[:5]]
    assert loaded.encode(texts) == trained.encode(texts)
    assert loaded.normalize(texts[0]) == trained.normalize(texts[0])
    assert (loaded.vocab_size, loaded.model) == (trained.vocab_size, trained.model)


SOUND = "".join(f"{token}\n" for token in (*SPECIAL_PIECES, *(f"<0x{byte:02X}>" for byte in range(256)), "a", "b"))


@pytest.mark.parametrize("listing", LISTS)
@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        pytest.param(b"", "the file", "is empty", id="empty"),
        pytest.param(b"a\nb\n", "line 1", "must be <pad>", id="no special pieces"),
        pytest.param(SOUND.replace("<s>\n", "").encode(), "line 3", "must be <s>", id="one special piece less"),
        pytest.param(SOUND.encode() + b"a\n", "line 263", "repeats line 261", id="twice"),
        pytest.param(SOUND.encode() + b"\nc\n", "line 263", "is empty", id="an empty line"),
        pytest.param(SOUND.encode() + b"c d\n", "line 263", "holds a space", id="a space"),
        pytest.param(SOUND.encode() + b"c\x1b[2J\n", "line 263", "control character", id="what steers a terminal"),
        pytest.param(SOUND.encode() + b"\xff\n", "line 263", "is not UTF-8", id="no text"),
        pytest.param(SOUND.encode() + b"x" * 5000, "line 263", "has 5,000 characters", id="a long token"),
        pytest.param(b"x\n" * (MOST_TOKENS + 1), "the file", "has 262,145 lines", id="too many"),
    ],
)
def test_a_spoiled_vocabulary_is_refused_by_file_and_line(
    tmp_path: Path, listing: Kind, content: bytes, where: str, what: str
) -> None:
    path = tmp_path / "spoiled.txt"
    path.write_bytes(content)
    with pytest.raises(ModelError) as refused:
        load_tokenizer(path, kind=listing, language="en")
    assert str(path) in str(refused.value)
    assert any(problem.where == where and what in problem.what for problem in refused.value.problems)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ModelError, match="has 3 problems"):
        read_tokenizer(SOUND.encode() + b"a\n\nc d\n", Path("v.txt"), kind="words", language="en")


def test_a_file_that_is_not_there_is_named(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere.* cannot be read: No such file"):
        load_tokenizer(tmp_path / "nowhere", kind=kind, language="en")


def test_lines_of_a_vocabulary_may_end_as_on_windows() -> None:
    windows = read_tokenizer(SOUND.replace("\n", "\r\n").encode(), Path("v.txt"), kind="characters", language="en")
    assert windows.model == SOUND.encode()


@pytest.mark.parametrize("listing", LISTS)
def test_whatever_the_bytes_of_a_vocabulary_are_the_worst_they_do_is_earn_an_error(listing: Kind) -> None:
    rng = random.Random(1)
    for _ in range(300):
        spoiled = bytearray(SOUND.encode())
        for _ in range(rng.choice([1, 2, 8])):
            at = rng.randrange(len(spoiled))
            spoiled[at : at + rng.choice([0, 1, 1, 5])] = rng.choice(
                [rng.randbytes(1), b"\n", b"##", b"</s>\n", b"\xe2\x96\x81", b"", b"[MASK]"]
            )
        try:
            tokenizer = read_tokenizer(bytes(spoiled), Path("v.txt"), kind=listing, language="en")
        except WeftError:
            continue
        (ids,) = tokenizer.encode(["ab </s> <pad> 我 c [MASK]"])
        assert not NEVER_OF_TEXT & set(ids)
        tokenizer.decode([range(tokenizer.vocab_size)])


@pytest.mark.parametrize(
    ("which", "library", "extra"), [("words", "rjieba", "zh"), ("wordpiece", "tokenizers", "tokenizers")]
)
def test_a_library_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, which: Kind, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(WeftError, match=rf"install it with: pip install '\.\[{extra}\]'"):
        train_tokenizer(["你好"], kind=which, vocab_size=300, language="zh")
