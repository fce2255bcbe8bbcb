"""Stand-ins: words that a model knows, in the place of terms of a glossary that it does not.

A small model garbles a whole sentence around a name that it has never seen, and that the name's translation has to
appear (decoding/constraints.py) does not mend the rest. So such a sentence is also translated with Tom, or an apple, in
the name's place, and where Tom comes out, the term is written: what Crego et al. 2016 (arXiv 1610.05540, section 3) do
with placeholders, but of words that no model has to be trained for. Which stand-in fits, a person, a place or a thing,
the model says by its probability.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.text.language import code_of
from weft.text.tokenizer import Tokenizer
from weft.translating.glossary import Glossary, Term, folded, is_spellable, whole_words
from weft.translating.translator import Translation, Translator

WORDS = {
    "de": ("Tom", "Maria", "John", "Boston", "Apfel", "Computer", "Musik"),
    "en": ("Tom", "Mary", "John", "Boston", "apple", "computer", "music"),
    "es": ("Tom", "María", "John", "Boston", "manzana", "ordenador", "música"),
    "fr": ("Tom", "Marie", "John", "Boston", "pomme", "ordinateur", "musique"),
    "it": ("Tom", "Maria", "John", "Boston", "mela", "computer", "musica"),
    "ja": ("トム", "メアリー", "ジョン", "ボストン", "りんご", "コンピューター", "音楽"),
    "ko": ("톰", "메리", "존", "보스턴", "사과", "컴퓨터", "음악"),
    "nl": ("Tom", "Maria", "John", "Boston", "appel", "computer", "muziek"),
    "pt": ("Tom", "Maria", "John", "Boston", "maçã", "computador", "música"),
    "ru": ("Том", "Мэри", "Джон", "Бостон", "яблоко", "компьютер", "музыка"),
    "zh": ("汤姆", "玛丽", "约翰", "波士顿", "苹果", "电脑", "音乐"),
}
"""Of each language the same names and things, in the same order."""

GAIN = 1.0
"""Nats a piece by which a translation with stand-ins has to be more probable than one under constraints. A term that
the model knows, though it would not say it, costs the sentence less than that, and there constraints are better."""


@dataclass(frozen=True)
class Variant:
    """A source text in which other words stand for its terms; `terms` are the translations to be written, by the
    translations of these words, and `counts` says how often each has to come out."""

    text: str
    terms: dict[str, str]
    counts: Counter[str]

    def restored(self, translation: str, language: str) -> str | None:
        """The translation with the terms, or None where a stand-in was lost or is too often there, or a term has melted
        with another word. An English article goes with the term."""
        stand_ins = whole_words(sorted(self.terms, key=len, reverse=True), language)
        pattern = re.compile(rf"(?P<article>\b[Aa]n? )?(?P<word>{stand_ins})")
        if Counter(found["word"] for found in pattern.finditer(translation)) != self.counts:
            return None

        def term_for(found: re.Match[str]) -> str:
            term, article = self.terms[found["word"]], found["article"] or ""
            if article and code_of(language) == "en" and sounds_open(term) != sounds_open(found["word"]):
                article = article[0] + ("n " if sounds_open(term) else " ")
            return article + term

        text = pattern.sub(term_for, translation)
        are_whole = (
            len(re.findall(whole_words([self.terms[word]], language), text)) >= count
            for word, count in self.counts.items()
        )
        return text if all(are_whole) else None


def sounds_open(word: str) -> bool:
    """Whether English says an before it, as far as its first letter tells."""
    return word[0].lower() in "aeiou"


def put_stand_ins(
    translator: Translator,
    found: list[list[Translation]],
    numbers: Sequence[int],
    glossary: Glossary,
    best: int,
    **asked: Any,
) -> None:
    """Of translations under constraints, up to `best` of each text, replace those with these numbers by ones with
    stand-ins, where these are more probable by GAIN. `asked` is what else the translator is asked with.

    Where a text costs less than GAIN nats a piece, none can be that, and it is not translated again.
    """
    costs = {number: nats_a_piece(translator, found[number][0]) - GAIN for number in numbers}
    variants = [
        (number, variant)
        for number, most in costs.items()
        if most > 0
        for variant in readable_variants(translator, found[number][0].source, glossary)
    ]
    answers = translator.translate_n_best([variant.text for _, variant in variants], best, **asked)
    language = translator.model.recipe.data.target
    for (number, variant), translations in zip(variants, answers, strict=True):
        restored = [
            (each, text) for each in translations if (text := variant.restored(each.text, language)) is not None
        ]
        cost = nats_a_piece(translator, restored[0][0]) if restored else math.inf
        if cost < costs[number]:
            costs[number] = cost
            source = found[number][0].source
            found[number] = [replace(each, source=source, text=text) for each, text in restored]


def nats_a_piece(translator: Translator, translation: Translation) -> float:
    (pieces,) = translator.model.vocabularies["target"].encode([translation.text])
    return -translation.log_prob / (len(pieces) + 1)  # </s> counts


def known_words(
    languages: tuple[str, str], source_tokenizer: Tokenizer, target_tokenizer: Tokenizer
) -> list[tuple[str, str]]:
    """The words of both languages that both vocabularies can spell."""
    pairs = zip(*(WORDS.get(code_of(language), ()) for language in languages), strict=False)
    return [
        (source, target)
        for source, target in pairs
        if is_spellable(source, source_tokenizer) and is_spellable(target, target_tokenizer)
    ]


def readable_variants(translator: Translator, text: str, glossary: Glossary) -> list[Variant]:
    read = translator.model.vocabularies["source"].normalize(text)
    variants = variants_of(read, translator.as_read(glossary), translator.stand_ins)
    are_short = translator.can_read([variant.text for variant in variants])
    return [variant for variant, is_short in zip(variants, are_short, strict=True) if is_short]


def variants_of(text: str, glossary: Glossary, words: Sequence[tuple[str, str]]) -> list[Variant]:
    """The text with each of its terms replaced by another word, in as many ways as there are words."""
    text = " ".join(text.split())
    places = glossary.places_in(folded(text))
    terms = list(dict.fromkeys(term for _, _, term in places))
    free = [(source, target) for source, target in words if folded(source) not in folded(text)]
    if not terms or len(terms) > len(free):
        return []
    turned = [free[turn:] + free[:turn] for turn in range(len(free))]
    return [variant_of(text, places, dict(zip(terms, words, strict=False))) for words in turned]


def variant_of(text: str, places: Sequence[tuple[int, int, Term]], words: dict[Term, tuple[str, str]]) -> Variant:
    parts, end = [], 0
    for first, last, term in places:
        parts += [text[end:first], words[term][0]]
        end = last
    counts = Counter(words[term][1] for _, _, term in places)
    terms = {target: term.targets[0] for term, (_, target) in words.items()}
    return Variant("".join([*parts, text[end:]]), terms, counts)
