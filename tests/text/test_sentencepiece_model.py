"""Pieces and back: no text is lost, none becomes a special id, and training is a function of its input."""

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import CorpusError, ModelError
from weft.text.kinds import load_tokenizer
from weft.text.sentencepiece_model import SentencePieceTokenizer, train_sentencepiece
from weft.text.tokenizer import Tokenizer
from weft.text.tokenizer_config import TokenizerConfig, choose_scripts
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID, SPECIAL_PIECES, UNKNOWN_ID

Kind = Literal["bpe", "unigram"]
KINDS: tuple[Kind, ...] = ("bpe", "unigram")
SPECIALS = ["</s>", "<s>", "<pad>", "<unk>", "<0x41>", "<0x00>"]
NAMES = ["汤姆", "玛丽", "老师", "医生", "学生", "朋友"]
THINGS = ["苹果", "书", "杯子", "电脑", "自行车", "帽子"]
# The strings of special pieces are frequent in the training text too: the worst that a corpus can do.
CHINESE = [f"{name}有{n}个{thing}。" for name in NAMES for thing in THINGS for n in "一二三四"] + SPECIALS * 20
ENGLISH = [f"{n} {thing}s cost {n} dollars, Tom said." for n in range(40) for thing in ("apple", "book", "cup")]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> SentencePieceTokenizer:
    return train(request.param, CHINESE + ENGLISH, 420)


def train(kind: Kind, texts: list[str], vocab_size: int, language: str = "zh") -> SentencePieceTokenizer:
    return train_sentencepiece(texts, kind=kind, vocab_size=vocab_size, language=language)[0]


@given(text=st.text(st.characters(exclude_categories=())))
def test_decoding_what_was_encoded_gives_the_normalized_text(tokenizer: SentencePieceTokenizer, text: str) -> None:
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode([ids]) == [tokenizer.normalize(text)]


@pytest.mark.parametrize("special", [*SPECIALS, "a</s>b", "</s></s>", "<s>你好</s>", "\u2581</s>", "</s >"])
def test_text_that_spells_a_special_piece_never_becomes_its_id(tokenizer: SentencePieceTokenizer, special: str) -> None:
    (ids,) = tokenizer.encode([special])
    assert not {PADDING_ID, UNKNOWN_ID, BEGIN_ID, END_ID} & set(ids)
    assert tokenizer.decode([ids]) == [tokenizer.normalize(special)]


def test_a_character_that_training_never_saw_is_spelled_in_bytes(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.pieces("ж")[-2:] == ["<0xD0>", "<0xB6>"]
    assert tokenizer.decode(tokenizer.encode(["жук 龘"])) == ["жук 龘"]


def test_special_ids_decode_to_nothing(tokenizer: SentencePieceTokenizer) -> None:
    (ids,) = tokenizer.encode(["Tom said"])
    assert tokenizer.decode([[BEGIN_ID, *ids, END_ID, PADDING_ID, PADDING_ID]]) == ["Tom said"]
    assert tokenizer.decode([[]]) == [""]


def test_chinese_comes_back_without_stray_spaces(tokenizer: SentencePieceTokenizer) -> None:
    text = "汤姆有三个苹果，老师说：“好！”"
    assert tokenizer.decode(tokenizer.encode([text])) == [text]


def test_it_is_what_the_seam_asks_for(tokenizer: SentencePieceTokenizer) -> None:
    assert isinstance(tokenizer, Tokenizer)


@pytest.mark.parametrize("kind", KINDS)
def test_training_twice_gives_the_same_bytes(kind: Kind) -> None:
    assert train(kind, CHINESE, 330).model == train(kind, CHINESE, 330).model


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_four_ids_are_the_special_ones(kind: Kind) -> None:
    tokenizer = train(kind, ENGLISH, 300, "en")
    loaded = SentencePieceTokenizer(tokenizer.model, kind=kind)
    assert [loaded._processor.id_to_piece(i) for i in range(4)] == list(SPECIAL_PIECES)
    assert (loaded.vocab_size, loaded.encode(["5 cups"])) == (tokenizer.vocab_size, tokenizer.encode(["5 cups"]))


# What a corpus can fill


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_that_the_corpus_cannot_fill_is_made_smaller_and_says_so(kind: Kind) -> None:
    tokenizer, message = train_sentencepiece(ENGLISH, kind=kind, vocab_size=8000, language="en")
    assert 260 < tokenizer.vocab_size < 8000
    assert message == f"en: vocabulary of {tokenizer.vocab_size:,} pieces instead of 8,000: this corpus fills no more"


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_that_cannot_hold_the_characters_is_made_larger_and_says_so(kind: Kind) -> None:
    texts = ["".join(chr(0x4E00 + 20 * row + column) for column in range(20)) for row in range(10)]
    tokenizer, message = train_sentencepiece(texts, kind=kind, vocab_size=300, language="zh")
    assert tokenizer.vocab_size >= 256 + 4 + 199
    assert message is not None and message.startswith("zh: vocabulary of") and "instead of 300" in message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "texts", [["a"], ["你好"], ["a", "b"], ["\x00 ok"], ["ab " * 5000]], ids=lambda texts: repr(texts[0][:5])
)
def test_the_smallest_corpora_train_a_tokenizer_that_loses_nothing(kind: Kind, texts: list[str]) -> None:
    tokenizer = train(kind, texts, 300)
    assert tokenizer.decode(tokenizer.encode(["Hello, 世界"])) == ["Hello, 世界"]


@pytest.mark.parametrize("texts", [[], [""], ["\x00", " "]], ids=["none", "an empty one", "only controls"])
def test_a_corpus_without_any_text_is_named_and_not_the_librarys_assertion(texts: list[str]) -> None:
    with pytest.raises(CorpusError, match=r"zh +holds nothing to learn pieces from"):
        train("bpe", texts, 300)


def test_rare_characters_of_one_language_of_a_shared_vocabulary_are_spelled_in_bytes() -> None:
    rare = "龘靐齉"
    texts = (CHINESE + ENGLISH) * 2
    assert len("".join(texts)) * 0.0005 > len(rare)  # the share of characters that may go without a piece of their own
    tokenizer = train("bpe", [*texts, rare], 420, "zh+en")
    assert all(piece.startswith("<0x") for piece in tokenizer.pieces(rare) if piece != "\u2581")


# Chinese script


def test_script_conversion_is_part_of_the_source_tokenizer_and_not_of_the_target(
    tokenizer: SentencePieceTokenizer,
) -> None:
    scripts = choose_scripts(TokenizerConfig(), "zh")
    assert scripts == {"source_script": "simplified", "target_script": "keep"}
    source = SentencePieceTokenizer(tokenizer.model, kind=tokenizer.kind, script="simplified")
    target = SentencePieceTokenizer(tokenizer.model, kind=tokenizer.kind, script="keep")
    assert source.encode(["湯姆"]) == source.encode(["汤姆"]) == target.encode(["汤姆"])
    assert (source.normalize("湯姆"), target.normalize("湯姆")) == ("汤姆", "湯姆")
    assert target.decode(target.encode(["湯姆"])) == ["湯姆"]


def test_script_conversion_can_be_switched_and_is_off_where_the_source_is_not_chinese() -> None:
    assert choose_scripts(TokenizerConfig(), "en") == {"source_script": "keep", "target_script": "keep"}
    assert choose_scripts(TokenizerConfig(source_script="keep"), "zh") == {"target_script": "keep"}


# Files


def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    for name, content in {"empty.model": b"", "noise.model": b"\x00\xff" * 100}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelError, match=rf"{name} +is no SentencePiece model|{name} +its first pieces"):
            load_tokenizer(tmp_path / name, kind="bpe", language="en")


def test_a_tokenizer_with_other_special_ids_is_refused(tmp_path: Path) -> None:
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH), model_prefix=str(tmp_path / "other"), vocab_size=36, minloglevel=2
    )
    with pytest.raises(ModelError, match="its first pieces are"):
        load_tokenizer(tmp_path / "other.model", kind="bpe", language="en")


# Tags


@pytest.fixture(scope="module", params=KINDS)
def tagged(request: pytest.FixtureRequest) -> SentencePieceTokenizer:
    texts = CHINESE + ENGLISH + ["<bt> is text here", "<bt>", "a<bt>b"] * 50
    return train_sentencepiece(texts, kind=request.param, vocab_size=420, language="zh", tags=["<bt>", "<st>"])[0]


def test_a_tag_is_one_piece_of_its_own_that_is_no_part_of_the_text(tagged: SentencePieceTokenizer) -> None:
    tags = [tagged.tag_id("<bt>"), tagged.tag_id("<st>")]
    assert len({*tags, PADDING_ID, UNKNOWN_ID, BEGIN_ID, END_ID}) == 6
    (ids,) = tagged.encode(["Tom said"])
    assert tagged.decode([[tag for tag in tags if tag is not None] + ids]) == ["Tom said"]
    loaded = SentencePieceTokenizer(tagged.model, kind=tagged.kind)
    assert [loaded.tag_id("<bt>"), loaded.tag_id("<st>")] == tags


@pytest.mark.parametrize("text", ["<bt>", "a<bt>b", "<bt> is text here", "<bt><bt>", " <bt>", "\u2581<bt>"])
def test_no_text_becomes_a_tag_even_if_the_training_text_is_full_of_it(
    tagged: SentencePieceTokenizer, text: str
) -> None:
    (ids,) = tagged.encode([text])
    assert tagged.tag_id("<bt>") not in ids
    assert tagged.decode([ids]) == [tagged.normalize(text)]


@pytest.mark.parametrize("other", ["<pt>", "<s>", "</s>", "<pad>", "<unk>", "<0x41>", "Tom", ""])
def test_nothing_else_is_a_tag(tagged: SentencePieceTokenizer, other: str) -> None:
    assert tagged.tag_id(other) is None


def test_tags_may_make_a_vocabulary_larger_but_never_fail(tokenizer: SentencePieceTokenizer) -> None:
    tags = [f"<t{number}>" for number in range(50)]
    made, message = train_sentencepiece(CHINESE, kind="bpe", vocab_size=300, language="zh", tags=tags)
    assert message is not None and all(made.tag_id(tag) is not None for tag in tags)
