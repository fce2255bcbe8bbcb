"""Translate texts of any length, with or without markup: split them, translate the sentences, join the results.

    text  ->  parts between block elements  ->  sentences  ->  pieces that the model can read

A text that need not be split is translated unchanged.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import chain, pairwise
from typing import Literal, get_args

from weft.errors import UsageError
from weft.text.chinese import Script
from weft.text.language import is_in_words_of_characters
from weft.text.mark_placement import put_back
from weft.text.markup import Mark, Part, take_apart
from weft.text.sentence_splitting import LINE_END, WORD, cut_to_length, split_sentences
from weft.translating.arguments import checked_texts
from weft.translating.glossary import Glossary, Terms, folded
from weft.translating.memory import Remembered
from weft.translating.text_attention import CharacterAttention, attention_between
from weft.translating.translation import Translation
from weft.translating.translator import Translator

Split = Literal["always", "long", "never"]
MemoryUse = Literal["show", "force"]

LONGEST_WHOLE = 60
"""Most pieces of a line that `split = "long"` does not split. Few pairs of training data are longer."""


@dataclass(frozen=True)
class Sentence:
    """A unit of translation, and the markup that was removed from it."""

    text: str
    marks: tuple[Mark, ...] = ()


Passage = list[str | Sentence]
"""A text that was split. Strings in it are copied unchanged."""


class PassageTranslator:
    """Translates texts of any length; `cut_texts` counts the texts that were cut inside a sentence.

    `split` selects the texts that are split into sentences: all ("always"), those over LONGEST_WHOLE pieces or of
    several lines ("long"), or none ("never"). Even a model trained on several sentences at once is better with one at a
    time (bench/passages.py). With `memory_use` "force" texts and sentences in the `memory` are translated as they are
    there; with "show" the memory is only available to the caller, as an attribute.
    """

    def __init__(
        self,
        translator: Translator,
        split: Split = "always",
        *,
        keeps_markup: bool = False,
        glossary: Terms | None = None,
        memory: Remembered | None = None,
        memory_use: MemoryUse = "force",
    ) -> None:
        for name, choice, known in (("split", split, Split), ("memory_use", memory_use, MemoryUse)):
            if choice not in get_args(known):
                raise UsageError(f"{name} is one of {', '.join(get_args(known))}, found {choice}")
        glossary = translator.as_glossary(glossary)
        if glossary:
            translator.check_glossary(glossary)
        self.translator = translator
        self.split: Split = split
        self.keeps_markup = keeps_markup
        self.glossary = glossary
        self.memory = None if memory is None else translator.as_memory(memory)
        self.memory_use: MemoryUse = memory_use
        self.forced = self.memory if memory_use == "force" else None
        self.longest = translator.longest_text()
        self.cut_texts = 0

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate texts, in order. The score and log_prob of a text that was split are sums over its sentences."""
        texts = checked_texts(texts)
        passages = self.take_apart(texts)
        found = self.translator.translate(sentence_texts(passages), glossary=self.glossary, memory=self.forced)
        return self.put_together(texts, passages, self.with_marks(passages, found))

    def translate_n_best(self, texts: Sequence[str], best: int) -> list[list[Translation]]:
        """Return up to `best` translations per text, best first.

        The translations of a text that was split are the combinations of its sentences' translations with the highest
        sums of scores; for sampling, the first sample of each sentence, the second of each and so on.
        """
        texts = checked_texts(texts)
        passages = self.take_apart(texts)
        translate = self.translator.translate_n_best
        found = translate(sentence_texts(passages), best, glossary=self.glossary, memory=self.forced)
        sentences: list[Passage] = [
            [sentence] for sentence, of_one in zip(sentences_in(passages), found, strict=True) for _ in of_one
        ]
        marked = iter(self.with_marks(sentences, list(chain.from_iterable(found))))
        each = iter([[next(marked) for _ in of_one] for of_one in found])
        is_drawn = self.translator.decoding.method == "sample"
        several = []
        for text, passage in zip(texts, passages, strict=True):
            of_sentences = [next(each) for _ in sentence_texts([passage])]
            combined = by_rank(of_sentences) if is_drawn else combinations(of_sentences, best)
            several.append([self._together(text, passage, iter(chosen)) for chosen in combined])
        return several

    def stream(self, text: str) -> Generator[str, None, None]:
        """Yield the translation of a text in parts, each as soon as it is final. A sentence with markup is one part."""
        (passage,) = self.take_apart(checked_texts([text]))
        written = ""
        for before, item in pairwise(["", *passage]):
            is_joined = isinstance(before, Sentence) and isinstance(item, Sentence)
            for part in [item] if isinstance(item, str) else self._parts(item):
                glued = self.separator(written, part) + part if is_joined else part
                yield glued
                written, is_joined = written + glued, False

    def _parts(self, sentence: Sentence) -> Iterator[str]:
        if not sentence.marks:
            yield from self.translator.stream(sentence.text, glossary=self.glossary, memory=self.forced)
            return
        found = self.translator.translate([sentence.text], glossary=self.glossary, memory=self.forced)
        yield self.with_marks([[sentence]], found)[0].text

    def take_apart(self, texts: Sequence[str]) -> list[Passage]:
        """Split each text into a passage, whose sentences (`sentence_texts`) are to be translated. A text that the
        forced memory contains is not split."""
        parts = [take_apart(text) if self.keeps_markup else [Part(text, text)] for text in texts]
        sizes = iter(self._count([part.text for several in parts for part in several]))
        passages = []
        for text, several in zip(texts, parts, strict=True):
            own_sizes = [next(sizes) for _ in several]
            is_known = self.forced is not None and bool(self.forced.exact(text))
            passages.append([Sentence(text)] if is_known else self._passage(several, own_sizes))
        return passages

    def with_marks(self, passages: Sequence[Passage], found: Sequence[Translation]) -> list[Translation]:
        """Put the markup of the sentences of these passages into their translations."""
        pairs = list(zip(sentences_in(passages), found, strict=True))
        return self.marked(pairs, self.glossary, self.translator.decoding.script)

    def marked(
        self,
        pairs: Sequence[tuple[Sentence, Translation]],
        glossary: Glossary | None,
        script: Script,
        after_step: Callable[[], None] = lambda: None,
    ) -> list[Translation]:
        """Put the markup of each sentence into its translation, which is in this script, at the places that the model's
        attention shows if it is available. `after_step` is called after each step of the model and each sentence."""
        texts = [(sentence.text, found.text) for sentence, found in pairs if sentence.marks]
        attention = attention_between(self.translator, texts, script, after_step)
        marked = []
        for sentence, found in pairs:
            if sentence.marks:
                found = replace(found, text=self._marked(sentence, found.text, glossary, script, next(attention)))
                after_step()
            marked.append(found)
        return marked

    def put_together(
        self, texts: Sequence[str], passages: Sequence[Passage], found: Iterable[Translation]
    ) -> list[Translation]:
        """Join the translations of the sentences of these passages, in order, to a translation of each text."""
        each = iter(found)
        return [self._together(text, passage, each) for text, passage in zip(texts, passages, strict=True)]

    def _passage(self, parts: Sequence[Part], sizes: Sequence[int]) -> Passage:
        if (
            len(parts) < 2
            and all(part.whole == part.text for part in parts)
            and not any(map(self._is_split, parts, sizes))
        ):
            return [Sentence("".join(part.text for part in parts))]
        passage: Passage = []
        was_cut = False
        for part, size in zip(parts, sizes, strict=True):
            if not WORD.search(part.text) and (part.marks or not part.text.strip()):
                passage.append(part.whole)
                continue
            pieces = [part.text]
            if self.split != "never" and self._is_split(part, size):
                pieces = split_sentences(part.text, self.translator.model.recipe.data.source)
            if size > self.longest:
                whole, pieces = pieces, self._cut(pieces)
                was_cut = was_cut or len(pieces) > len(whole)
            passage += split_marks(part, pieces, keeps_ends=len(parts) > 1)
        self.cut_texts += was_cut
        return passage

    def _is_split(self, part: Part, size: int) -> bool:
        """Whether a text of `size` pieces is split."""
        longest_whole = {"always": 0, "long": min(LONGEST_WHOLE, self.longest), "never": self.longest}
        has_lines = self.split == "long" and bool(LINE_END.search(part.text.strip()))
        return has_lines or size > longest_whole[self.split]

    def _cut(self, sentences: Sequence[str]) -> list[str]:
        pieces: list[str] = []
        for sentence, size in zip(sentences, self._count(sentences), strict=True):
            short = [sentence] if size <= self.longest else cut_to_length(sentence, self._is_short)
            pieces += short
        return pieces

    def _is_short(self, text: str) -> bool:
        return self._count([text])[0] <= self.longest

    def _count(self, texts: Sequence[str]) -> list[int]:
        """The pieces of each text, for that model of an ensemble that needs most."""
        sources = (member.vocabularies["source"] for member in self.translator.members)
        return [max(map(len, pieces)) for pieces in zip(*(one.encode(texts) for one in sources), strict=True)]

    def _together(self, text: str, passage: Passage, found: Iterator[Translation]) -> Translation:
        translations: list[Translation] = []
        written = ""
        for before, item in pairwise(["", *passage]):
            if isinstance(item, str):
                written += item
                continue
            translations.append(next(found))
            answer = translations[-1].text
            written += self.separator(written, answer) if isinstance(before, Sentence) else ""
            written += answer
        if passage == [Sentence(text)]:
            return translations[0]
        score, log_prob = sum(part.score for part in translations), sum(part.log_prob for part in translations)
        return Translation(text, written, float(score), float(log_prob))

    def _marked(
        self,
        sentence: Sentence,
        translation: str,
        glossary: Glossary | None,
        script: Script,
        attention: CharacterAttention | None,
    ) -> str:
        terms = self.translator.terms_of(sentence.text, glossary) if glossary else ()
        whole = [self.translator.in_script(target, script) for term in terms for target in term.targets]
        if glossary and attention is not None:
            self._tie_terms(sentence.text, translation, glossary, script, attention)
        return put_back(sentence.text, sentence.marks, translation, attention, whole)

    def _tie_terms(
        self, source: str, translation: str, glossary: Glossary, script: Script, attention: CharacterAttention
    ) -> None:
        """Set the attention so that each term of the source and its translation attend only to each other, since the
        model may not know the term."""
        read = folded(self.translator.model.vocabularies["source"].normalize(source))
        if len(read) != len(source):
            return
        for begin, end, term in self.translator.as_read(glossary).places_in(read):
            for target in (self.translator.in_script(target, script) for target in term.targets):
                if translation.count(target) == 1:
                    first = translation.index(target)
                    attention[:, begin:end] = 0
                    attention[first : first + len(target)] = 0
                    attention[first : first + len(target), begin:end] = 1

    def separator(self, left: str, right: str) -> str:
        """The text between two sentences of the target language; in Chinese a space between two Latin words."""
        if not left or not right:
            return ""
        melts = left[-1].isascii() and left[-1].isalnum() and right[0].isascii() and right[0].isalnum()
        return " " if melts or not is_in_words_of_characters(self.translator.model.recipe.data.target) else ""


def sentence_texts(passages: Iterable[Passage]) -> list[str]:
    """The texts of all sentences of these passages, in order."""
    return [sentence.text for sentence in sentences_in(passages)]


def sentences_in(passages: Iterable[Passage]) -> list[Sentence]:
    """All sentences of these passages, in order."""
    return [item for passage in passages for item in passage if isinstance(item, Sentence)]


def combinations(of_sentences: Sequence[Sequence[Translation]], best: int) -> list[tuple[Translation, ...]]:
    """The `best` choices of one translation per sentence with the highest sums of scores."""
    ways: list[tuple[float, tuple[Translation, ...]]] = [(0.0, ())]
    for translations in of_sentences:  # a best choice for n sentences extends a best choice for n - 1
        longer = [(total + one.score, (*way, one)) for total, way in ways for one in translations]
        ways = nlargest(best, longer, key=lambda way: way[0]) if len(of_sentences) > 1 else longer
    return [way for _, way in ways]


def by_rank(of_sentences: Sequence[Sequence[Translation]]) -> list[tuple[Translation, ...]]:
    """The first translations of all sentences, then the second ones and so on. A sentence with fewer, such as one from
    a memory, repeats its last."""
    most = max(map(len, of_sentences), default=1)
    return [tuple(of_one[min(number, len(of_one) - 1)] for of_one in of_sentences) for number in range(most)]


def split_marks(part: Part, pieces: Sequence[str], *, keeps_ends: bool) -> Passage:
    """Make a passage of the pieces of a part, each with its own marks.

    Of the white space between pieces only line ends are kept; `keeps_ends` keeps the white space around the part. A
    mark between two sentences belongs to the second one, unless it is a closing mark.
    """
    spans = list(spans_of(pieces))
    ends = [end for _, end in spans]
    marks: list[list[Mark]] = [[] for _ in spans]
    number = 0
    for mark in part.marks:
        nearest = (bisect_left if mark.is_closing else bisect_right)(ends, mark.place)
        number = max(number, min(nearest, len(spans) - 1))
        begin, _ = spans[number]
        marks[number].append(Mark(mark.text, mark.place - begin))  # may be outside the piece, in white space
    passage: Passage = [part.text[: spans[0][0]]] if keeps_ends else []
    last_end = 0
    for (begin, end), own in zip(spans, marks, strict=True):
        if last_end and LINE_END.search(part.text, last_end, begin):
            passage.append(part.text[last_end:begin])
        passage.append(Sentence(part.text[begin:end], tuple(own)))
        last_end = end
    return [*passage, part.text[last_end:]] if keeps_ends else passage


def spans_of(pieces: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where the visible characters of each piece begin and end in the joined text."""
    begin = 0
    for piece in pieces:
        lead = len(piece) - len(piece.lstrip())
        yield begin + lead, begin + max(lead, len(piece.rstrip()))
        begin += len(piece)
