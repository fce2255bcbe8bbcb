"""Texts of any length, with markup or without: apart, translated, and together again.

    text  ->  parts between block elements  ->  sentences  ->  pieces that the model can read

A text that need not be taken apart is translated as it is. Nothing here knows where texts come from.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from weft.tasks.augment import longest_text
from weft.tasks.glossary import Glossary
from weft.tasks.translation import Translation, Translator
from weft.text.markup import Mark, Part, put_back, take_apart
from weft.text.sentence_splitting import LINE_END, WORD, cut_to_length, joins_without_space, split_sentences

Split = Literal["auto", "never", "always"]

LONGEST_WHOLE = 60
"""Pieces of the longest text that `auto` leaves whole: of the pairs that models are trained on, few are longer."""


@dataclass(frozen=True)
class Sentence:
    """What is translated by itself, and the marks that were taken out of it."""

    text: str
    marks: tuple[Mark, ...] = ()


Passage = list[str | Sentence]
"""A text taken apart; a string stays as it is."""


class PassageTranslator:
    """Translates texts of any length; `cut_texts` counts those that were cut where no sentence ends.

    `split` says which texts are taken apart into sentences: those over LONGEST_WHOLE, none, or all.
    """

    def __init__(
        self,
        translator: Translator,
        split: Split = "auto",
        *,
        keeps_markup: bool = False,
        glossary: Glossary | None = None,
    ) -> None:
        self.translator = translator
        self.split: Split = split
        self.keeps_markup = keeps_markup
        self.glossary = glossary
        self.longest = longest_text(translator)
        self.cut_texts = 0

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """One translation a text, in order. Score and log_prob of one that was taken apart are the sums over its
        sentences."""
        parts = [take_apart(text) if self.keeps_markup else [Part(text, text)] for text in texts]
        sizes = iter(self._count([part.text for several in parts for part in several]))
        passages = [self._passage(several, [next(sizes) for _ in several]) for several in parts]
        sentences = [item.text for passage in passages for item in passage if isinstance(item, Sentence)]
        found = iter(self.translator.translate(sentences, glossary=self.glossary))
        return [self._together(text, passage, found) for text, passage in zip(texts, passages, strict=True)]

    def _passage(self, parts: Sequence[Part], sizes: Sequence[int]) -> Passage:
        if len(parts) < 2 and all(part.whole == part.text for part in parts) and not self._is_split(sum(sizes)):
            return [Sentence("".join(part.text for part in parts))]
        passage: Passage = []
        was_cut = False
        for part, size in zip(parts, sizes, strict=True):
            if not WORD.search(part.text) and (part.marks or not part.text.strip()):
                passage.append(part.whole)
                continue
            pieces = [part.text]
            if self._is_split(size) and self.split != "never":
                pieces = split_sentences(part.text, self.translator.model.recipe.data.source)
            if size > self.longest:
                whole, pieces = pieces, self._cut(pieces)
                was_cut = was_cut or len(pieces) > len(whole)
            passage += with_marks(part, pieces, keeps_ends=len(parts) > 1)
        self.cut_texts += was_cut
        return passage

    def _is_split(self, size: int) -> bool:
        """Whether a text of so many pieces is taken apart."""
        longest_whole = {"auto": min(LONGEST_WHOLE, self.longest), "never": self.longest, "always": 0}
        return size > longest_whole[self.split]

    def _cut(self, sentences: Sequence[str]) -> list[str]:
        pieces: list[str] = []
        for sentence, size in zip(sentences, self._count(sentences), strict=True):
            short = [sentence] if size <= self.longest else cut_to_length(sentence, self._is_short)
            pieces += short
        return pieces

    def _is_short(self, text: str) -> bool:
        return self._count([text])[0] <= self.longest

    def _count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.translator.model.source_tokenizer.encode(texts)]

    def _together(self, text: str, passage: Passage, found: Iterator[Translation]) -> Translation:
        translations: list[Translation] = []
        written = ""
        for before, item in pairwise(["", *passage]):
            if isinstance(item, str):
                written += item
                continue
            translations.append(next(found))
            answer = put_back(item.text, item.marks, translations[-1].text)
            written += self._glue(written, answer) if isinstance(before, Sentence) else ""
            written += answer
        if passage == [Sentence(text)]:
            return translations[0]
        score, log_prob = sum(part.score for part in translations), sum(part.log_prob for part in translations)
        return Translation(text, written, float(score), float(log_prob))

    def _glue(self, left: str, right: str) -> str:
        """What comes between two sentences of the target language; in Chinese a space where two words would melt."""
        if not left or not right:
            return ""
        melts = left[-1].isascii() and left[-1].isalnum() and right[0].isascii() and right[0].isalnum()
        return " " if melts or not joins_without_space(self.translator.model.recipe.data.target) else ""


def with_marks(part: Part, pieces: Sequence[str], *, keeps_ends: bool) -> Passage:
    """The pieces of a part, each with its own marks; of the white space between them only paragraphs are kept, of that
    at the part's ends all, if it `keeps_ends`.

    A mark between two sentences goes with the next one, unless it closes what the one before has begun.
    """
    spans = list(spans_of(pieces))
    ends = [end for _, end in spans]
    marks: list[list[Mark]] = [[] for _ in spans]
    number = 0
    for mark in part.marks:
        nearest = (bisect_left if mark.is_closing else bisect_right)(ends, mark.place)
        number = max(number, min(nearest, len(spans) - 1))
        begin, end = spans[number]
        marks[number].append(Mark(mark.text, min(max(begin, mark.place), end) - begin))
    passage: Passage = [part.text[: spans[0][0]]] if keeps_ends else []
    last_end = 0
    for (begin, end), own in zip(spans, marks, strict=True):
        if last_end and LINE_END.search(part.text, last_end, begin):
            passage.append(part.text[last_end:begin])
        passage.append(Sentence(part.text[begin:end], tuple(own)))
        last_end = end
    return [*passage, part.text[last_end:]] if keeps_ends else passage


def spans_of(pieces: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where in the whole the visible characters of each piece begin and end."""
    begin = 0
    for piece in pieces:
        lead = len(piece) - len(piece.lstrip())
        yield begin + lead, begin + max(lead, len(piece.rstrip()))
        begin += len(piece)
