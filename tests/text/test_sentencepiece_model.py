"""SentencePiece models: bytes, sizes, script and files; what all tokenizers promise is tested in test_kinds.py."""

from pathlib import Path
from typing import Literal

import pytest

from weft.errors import ModelError
from weft.text.kinds import load_tokenizer
from weft.text.sentencepiece_model import SentencePieceTokenizer, train_sentencepiece
from weft.text.tokenizer_config import TokenizerConfig, choose_scripts

Kind = Literal["bpe", "unigram"]
KINDS: tuple[Kind, ...] = ("bpe", "unigram")


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest, corpus: list[str]) -> SentencePieceTokenizer:
    return train(request.param, corpus, 420)


def train(kind: Kind, texts: list[str], vocab_size: int, language: str = "zh") -> SentencePieceTokenizer:
    return train_sentencepiece(texts, kind=kind, vocab_size=vocab_size, language=language)[0]


def test_a_character_that_training_never_saw_is_spelled_in_bytes(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.pieces("ж")[-2:] == ["<0xD0>", "<0xB6>"]
    assert tokenizer.decode(tokenizer.encode(["жук 龘"])) == ["жук 龘"]


# What a corpus can fill


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


def test_rare_characters_of_one_language_of_a_shared_vocabulary_are_spelled_in_bytes(corpus: list[str]) -> None:
    rare = "龘靐齉"
    texts = corpus * 2
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
        with pytest.raises(ModelError, match=rf"{name} +is not a SentencePiece model|{name} +its first pieces"):
            load_tokenizer(tmp_path / name, kind="bpe", language="en")


def test_a_tokenizer_with_other_special_ids_is_refused(tmp_path: Path, corpus: list[str]) -> None:
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_prefix=str(tmp_path / "other"), vocab_size=90, minloglevel=2
    )
    with pytest.raises(ModelError, match="its first pieces are"):
        load_tokenizer(tmp_path / "other.model", kind="bpe", language="en")


def test_a_text_of_megabytes_is_learned_from_as_if_it_were_several() -> None:
    words = [f"word{number}" for number in range(130_000)]
    whole, message = train_sentencepiece([" ".join(words)], kind="bpe", vocab_size=1000, language="en")
    assert whole.vocab_size == 1000 and message is None
    joined = "".join(words)  # has no space to cut at
    assert train_sentencepiece([joined], kind="bpe", vocab_size=400, language="en")[0].vocab_size == 400
