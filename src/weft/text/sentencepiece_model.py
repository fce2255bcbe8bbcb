"""BPE (Sennrich et al. 2016) and unigram (Kudo 2018) pieces, trained and applied by the SentencePiece library.

Every character can be written: one that is not in the vocabulary falls back to its UTF-8 bytes. A model of another
system that `weft import` converted may lack the bytes; a run of unknown characters is then one <unk>, unless the run is
itself an unused piece of the model (a piece of the other language).
"""

import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Literal, Unpack

import sentencepiece

from weft.errors import CorpusError, ModelError, Problem, refuse_one_string
from weft.text.chinese import is_chinese
from weft.text.language import code_of
from weft.text.normalization import PIECE_MARK, Forms, in_forms
from weft.text.sampling import Pieces, draw_cut, drop_merges
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID, SPECIAL_PIECES, UNKNOWN_ID, size_message

TOO_HIGH = re.compile(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)")
TOO_LOW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")
NO_TEXT = "!sentences_.empty()"


class SentencePieceTokenizer:
    """A trained SentencePiece model with its normalization.

    Raises ModelError if the bytes, those of the file `path`, are not a model or have other special ids than weft's.
    """

    def __init__(
        self,
        model: bytes,
        *,
        kind: Literal["bpe", "unigram"],
        path: Path = Path("the vocabulary"),
        **forms: Unpack[Forms],
    ) -> None:
        self.model = model
        self.kind: Literal["bpe", "unigram"] = kind
        self.forms = forms
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            pieces = self._processor.id_to_piece(list(range(self.vocab_size)))
        except (RuntimeError, UnicodeDecodeError) as error:  # the latter for a piece that is not UTF-8
            raise ModelError(path, [Problem(path.name, f"is not a SentencePiece model ({error})")]) from None
        if (found := tuple(pieces[:4])) != SPECIAL_PIECES:
            message = f"its first pieces are {found}, expected {SPECIAL_PIECES}"
            raise ModelError(path, [Problem(path.name, message)])

    @property
    def vocab_size(self) -> int:
        return self._processor.get_piece_size()

    def normalize(self, text: str) -> str:
        return in_forms(text, **self.forms)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        refuse_one_string(texts, "encode")
        normalized = [self.normalize(text) for text in texts]
        encoded = self._processor.encode(normalized, num_threads=1)
        if not self._unused:
            return encoded
        return [
            self._with_unused(text, ids) if UNKNOWN_ID in ids else ids
            for text, ids in zip(normalized, encoded, strict=True)
        ]

    def _with_unused(self, normalized: str, ids: list[int]) -> list[int]:
        pieces = self._processor.encode(normalized, out_type=str)
        return [self._unused.get(piece, i) if i == UNKNOWN_ID else i for piece, i in zip(pieces, ids, strict=True)]

    @cached_property
    def _unused(self) -> dict[str, int]:
        ids = (i for i in range(self.vocab_size) if self._processor.is_unused(i))
        return {self._processor.id_to_piece(i): i for i in ids}

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        # Padding, begin and end decode to nothing; an unknown id, which no text encodes to, decodes to " \u2047 ".
        return [self._processor.decode([int(i) for i in sentence]) for sentence in ids]

    def tag_id(self, tag: str) -> int | None:
        found = self._processor.piece_to_id(tag)
        is_tag = self._processor.is_control(found) and tag not in SPECIAL_PIECES
        return found if is_tag else None

    def pieces(self, text: str) -> list[str]:
        return self._processor.encode(self.normalize(text), out_type=str)

    def ids_of(self, pieces: Sequence[str]) -> list[int | None]:
        found = self._processor.piece_to_id(list(pieces))
        unknown = SPECIAL_PIECES[UNKNOWN_ID]
        return [None if i == UNKNOWN_ID and piece != unknown else i for i, piece in zip(found, pieces, strict=True)]

    def count_unknown(self, ids: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Unknown pieces and all pieces; (0, 0) if the model spells in bytes."""
        if self._processor.is_byte(self._processor.piece_to_id("<0x00>")):
            return 0, 0
        return sum(sentence.count(UNKNOWN_ID) for sentence in ids), sum(map(len, ids))

    def sample(self, texts: Sequence[str], seeds: Sequence[int], amount: float) -> list[list[int]]:
        """Ids of each text, segmented at random: a function of the text, its seed (0 or more) and the amount alone.

        For bpe the amount is the probability that a merge is dropped (`drop_merges`): 0 is `encode`, 1 leaves
        characters. For unigram it is the exponent alpha of a segmentation's probability (`draw_cut`): 0 makes all
        segmentations equally probable, and the larger it is, the closer to `encode`.
        """
        refuse_one_string(texts, "sample")
        if not (math.isfinite(amount) and amount >= 0 and (self.kind == "unigram" or amount <= 1)):
            raise ValueError(f"the amount for {self.kind} is {amount}")
        return [self._sample(text, seed, amount) for text, seed in zip(texts, seeds, strict=True)]

    def _sample(self, text: str, seed: int, amount: float) -> list[int]:
        random = Random(seed)
        draw = drop_merges if self.kind == "bpe" else draw_cut
        ids = []
        for word in self.normalize(text).split():
            for piece in draw(PIECE_MARK + word, self._pieces, amount, random):
                own = [self._ids[piece]] if piece in self._ids else [self._ids[byte] for byte in spelled(piece)]
                ids += own if own[0] != UNKNOWN_ID else [UNKNOWN_ID] * (ids[-1:] != [UNKNOWN_ID])  # one for a run
        return ids

    @cached_property
    def _pieces(self) -> Pieces:
        """The pieces that stand for text. In a model trained by weft none extends past a space."""
        processor = self._processor
        silent = (processor.is_control, processor.is_unknown, processor.is_unused)
        found = [i for i in range(self.vocab_size) if not any(is_silent(i) for is_silent in silent)]
        return Pieces({processor.id_to_piece(i): processor.get_score(i) for i in found if not processor.is_byte(i)})

    @cached_property
    def _ids(self) -> dict[str, int]:
        """The id of each piece that a text can become."""
        pieces = [*self._pieces.scores, *(f"<0x{byte:02X}>" for byte in range(256))]
        return dict(zip(pieces, self._processor.piece_to_id(pieces), strict=True))


def read_sentencepiece(
    data: bytes, path: Path, *, kind: Literal["bpe", "unigram"], language: str, **forms: Unpack[Forms]
) -> SentencePieceTokenizer:
    """The tokenizer in the bytes of `path`; raises ModelError if they are not a SentencePiece model."""
    return SentencePieceTokenizer(data, kind=kind, path=path, **forms)


MOST_BYTES = 1 << 20
"""The longest text that SentencePiece reads."""


def spelled(character: str) -> list[str]:
    """The pieces of the bytes of a character."""
    return [f"<0x{byte:02X}>" for byte in character.encode()]


def train_sentencepiece(
    texts: Iterable[str],
    *,
    kind: Literal["bpe", "unigram"],
    vocab_size: int,
    language: str,
    tags: Sequence[str] = (),
    symbols: Sequence[str] = (),
    **forms: Unpack[Forms],
) -> tuple[SentencePieceTokenizer, str | None]:
    """Train on these texts; also returns a message if the vocabulary is smaller or larger than asked.

    A corpus with few distinct words cannot fill a large vocabulary, and a vocabulary must hold at least the characters,
    the 256 bytes and the tags, each of which becomes a piece. The result is a function of the texts and the settings.
    Raises CorpusError if there is no text at all.
    """
    normalized = [part for text in texts for part in parts_of(in_forms(text, **forms))]
    asked = vocab_size
    for _ in range(3):
        writer = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(normalized),
                model_writer=writer,
                model_type=kind,
                vocab_size=vocab_size,
                # The rarest of some thousand Chinese characters are better spelled in bytes than given a piece each.
                character_coverage=0.9995 if has_many_characters(language) else 1.0,
                byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                max_sentence_length=MOST_BYTES,
                num_threads=1,  # so that the pieces do not depend on the number of processors
                pad_id=PADDING_ID,
                unk_id=UNKNOWN_ID,
                bos_id=BEGIN_ID,
                eos_id=END_ID,
                pad_piece=SPECIAL_PIECES[PADDING_ID],
                control_symbols=list(tags),  # unlike "user-defined" symbols, these are never found in a text
                user_defined_symbols=list(symbols),
                minloglevel=2,
            )
        except RuntimeError as error:
            if NO_TEXT in str(error):
                raise CorpusError(
                    "the training text", [Problem(language, "holds nothing to learn pieces from")]
                ) from None
            fitting = TOO_HIGH.search(str(error)) or TOO_LOW.search(str(error))
            if fitting is None:
                raise
            vocab_size = int(fitting[1])
            continue
        return SentencePieceTokenizer(writer.getvalue(), kind=kind, **forms), size_message(language, vocab_size, asked)
    raise RuntimeError(f"SentencePiece accepts no vocabulary size for {language}")


def parts_of(text: str) -> Iterator[str]:
    """The text, cut at spaces if it is so long that SentencePiece would pass over it."""
    while len(text) > MOST_BYTES // 4 and len(text.encode()) > MOST_BYTES:
        end = text.rfind(" ", 1, MOST_BYTES // 4)
        end = end if end > 0 else MOST_BYTES // 4
        yield text[:end]
        text = text[end:]
    yield text


def has_many_characters(language: str) -> bool:
    """Whether the language, or one of several joined by +, is written with thousands of characters."""
    return any(is_chinese(code) or code_of(code) in ("ja", "ko") for code in language.split("+"))
