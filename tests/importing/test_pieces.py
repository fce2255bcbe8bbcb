"""A rewritten SentencePiece model cuts every text as the original does, with a list of tokens that is not its own."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.importing.corpus import PAIRS, trained_pieces

from weft.importing.foreign import ForeignVocabulary
from weft.importing.pieces import arrange, piece_of, read_model, rewritten
from weft.text.normalization import normalize
from weft.text.sentencepiece_model import SentencePieceTokenizer
from weft.text.vocabulary import SPECIAL_PIECES

Trained = Callable[..., bytes]


@pytest.fixture(scope="module")
def trained() -> Trained:
    """A SentencePiece model of the source (0) or the target (1), with SentencePiece's usual normalization."""
    made: dict[Any, bytes] = {}

    def trained(column: int, **changes: Any) -> bytes:
        key = (column, *changes.items())
        if key not in made:
            made[key] = trained_pieces((pair[column] for pair in PAIRS), **changes)
        return made[key]

    return trained


def listing(*models: bytes, left_out: int = 3) -> tuple[str, ...]:
    """Tokens in an order of their own: </s> and <unk>, the pieces backwards but for some, <pad>."""
    pieces = [p.piece for model in models for p in read_model(model).pieces if p.type == 1]
    return ("</s>", "<unk>", *dict.fromkeys(reversed(pieces[left_out:])), "<pad>")


def vocabulary(model: bytes, tokens: tuple[str, ...], **changes: Any) -> ForeignVocabulary:
    padding = len(tokens) - 1
    given = {"padding": padding, "unknown": 1, "begin": padding, "end": 0, **changes}
    return ForeignVocabulary(tokens, model, "source.spm", **given)


def tokenizer_of(of: ForeignVocabulary, *models: bytes) -> tuple[SentencePieceTokenizer, dict[int, int]]:
    """weft's tokenizer, and of each of its ids the row in the list."""
    arrangement = arrange(of, [read_model(model) for model in models], ())
    made = rewritten(read_model(of.model), of, arrangement)
    return SentencePieceTokenizer(made, kind="unigram"), dict(enumerate(arrangement.rows))


def ids_of_transformers(of: ForeignVocabulary, text: str) -> list[int]:
    """The tokenizer of Hugging Face's Marian in two lines: cut, and look every piece up by its string; but where that
    makes an end of the sentence of a text that spells one, weft does not."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=of.model).encode(normalize(text), out_type=str)
    ids = [of.tokens.index(piece) if piece in of.tokens else of.unknown for piece in pieces]
    return [of.unknown if i in (of.padding, of.end) else i for i in ids]


ALPHABET = "我有看见想要一两三五十个苹果朋友。 Ivcefrdnsaplqut.-龘é①Ａ▁<>/"


@given(text=st.text(ALPHABET, max_size=30))
@settings(max_examples=300)
@pytest.mark.parametrize("column", [0, 1])
def test_with_two_models_on_one_list_ids_are_those_of_transformers(trained: Trained, column: int, text: str) -> None:
    both = trained(0), trained(1)
    of = vocabulary(both[column], listing(*both))
    tokenizer, rows = tokenizer_of(of, *both)
    assert [rows[i] for i in tokenizer.encode([text])[0]] == ids_of_transformers(of, text)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(text=st.text(ALPHABET, max_size=30))
@settings(max_examples=200)
def test_a_closed_list_keeps_pieces_that_it_lacks_out_of_the_text(trained: Trained, kind: str, text: str) -> None:
    """As JoeyNMT does by SentencePiece's own SetVocabulary, which later versions of the library no longer have."""
    model = trained(0, model_type=kind)
    of = vocabulary(model, listing(model, left_out=12), is_closed=True)
    tokenizer, rows = tokenizer_of(of, model)
    ids, known = tokenizer.encode([text])[0], set(of.tokens) - {"</s>", "<unk>", "<pad>"}
    pieces = tokenizer.pieces(text)
    assert all(len(p) == 1 or p in known or rows[i] == 1 for p, i in zip(pieces, ids, strict=True))
    assert all(rows[i] == of.tokens.index(p) for p, i in zip(pieces, ids, strict=True) if p in known)
    assert (
        "".join(pieces).replace("▁", " ").strip()
        == sentencepiece.SentencePieceProcessor(model_proto=model).normalize(normalize(text)).replace("▁", " ").strip()
    )


def test_what_the_other_language_lent_is_written_as_its_text(trained: Trained) -> None:
    both = trained(0), trained(1)
    tokenizer, _ = tokenizer_of(vocabulary(both[1], listing(*both)), *both)
    chinese = [i for i in tokenizer.ids_of(["▁", "朋", "友", "。"]) if i is not None]
    assert len(chinese) > 3 and tokenizer.decode([chinese]) == ["朋友。"]


def test_bytes_stay_bytes(trained: Trained) -> None:
    model = trained(0, byte_fallback=True, vocab_size=320)
    of = vocabulary(model, listing(model))
    tokenizer, _ = tokenizer_of(of, model)
    assert tokenizer.decode(tokenizer.encode(["我有龘"])) == ["我有龘"]
    assert tokenizer.count_unknown(tokenizer.encode(["我有龘"])) == (0, 0)


def test_unknown_runs_are_counted_where_there_are_no_bytes(trained: Trained) -> None:
    model = trained(0)
    tokenizer, _ = tokenizer_of(vocabulary(model, listing(model, left_out=0)), model)
    unknown, pieces = tokenizer.count_unknown(tokenizer.encode(["我有龘龘。"]))
    assert unknown == 1 < pieces


def test_bpe_is_refused_pieces_that_it_does_not_have(trained: Trained) -> None:
    """Merges would go by way of them: of a, b and ab, the b that is next to another a would be gone."""
    both = trained(0, model_type="bpe"), trained(1, model_type="bpe")
    of = vocabulary(both[0], listing(*both))
    with pytest.raises(ValueError, match="is of kind bpe and lacks"):
        tokenizer_of(of, *both)


def test_names_that_weft_has_given_away_are_changed() -> None:
    assert [piece_of(token) for token in ("<s>", ">>cmn_Hans<<", "a", "</s>")] == ["<s_>", "<cmn_Hans>", "a", "</s_>"]


def test_two_tokens_of_one_name_are_refused_however_many_others_there_are() -> None:
    tokens = tuple(f"t{number}" for number in range(100_000))
    of = vocabulary(
        b"", ("<pad>", "<unk>", "<s>", "</s>", *tokens, ">>zz<<", "<zz>"), padding=0, unknown=1, begin=2, end=3
    )
    began = time.process_time()
    with pytest.raises(ValueError, match="two tokens would both be called <zz>"):
        arrange(of, [], ())
    assert time.process_time() - began < 5


def test_special_pieces_come_first_and_others_once(trained: Trained) -> None:
    both = trained(0), trained(1)
    arrangement = arrange(vocabulary(both[0], listing(*both)), [read_model(model) for model in both], {0})
    assert arrangement.pieces[:4] == SPECIAL_PIECES
    assert len(set(arrangement.pieces)) == len(arrangement.pieces) == len(arrangement.rows)
    assert not arrangement.is_written[2] and not arrangement.is_written[3] and arrangement.is_written[0]


@pytest.mark.parametrize("data", [b"", b"\x80\x04.", b"no model at all", b"\x0a\x02\x0a\xff"])
def test_what_is_no_sentencepiece_model_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"SentencePiece model|pieces"):
        read_model(data)


def test_models_of_words_are_refused(trained: Trained) -> None:
    with pytest.raises(ValueError, match="cuts into words or characters"):
        read_model(trained(1, model_type="word", vocab_size=20))
