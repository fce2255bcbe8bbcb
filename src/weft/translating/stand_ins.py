"""Stand-ins: words that a model knows, which replace glossary terms that it does not know.

A small model garbles the whole sentence around a name that it has never seen, and requiring the name's translation
(decoding/constraints.py) does not repair the rest. So the sentence is also translated with Tom, or an apple, in place
of the name, and Tom is replaced by the term in the translation. Crego et al. 2016 (arXiv 1610.05540, section 3) do so
with placeholders, for which a model must be trained. The probability of the translation decides which stand-in fits: a
person, a place or a thing.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.text.chinese import Script
from weft.text.language import code_of
from weft.text.tokenizer import Tokenizer
from weft.translating.glossary import Glossary, Term, folded, is_spellable, whole_words
from weft.translating.translation import Translation

if TYPE_CHECKING:
    from weft.translating.translator import Translator

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
"""Language -> the same names and things in the same order."""

GAIN = 1.0
"""Nats per piece by which a translation with stand-ins must be more probable than one under constraints. A term that
the model knows but would not choose costs less than this, and constraints translate it better."""


@dataclass(frozen=True)
class Variant:
    """A source text with stand-ins for its terms. `terms` maps the translation of each stand-in to that of its term,
    `counts` to the number of times it must occur."""

    text: str
    terms: dict[str, str]
    counts: Counter[str]

    def restored(self, translation: str, language: str) -> str | None:
        """Replace the stand-ins in a translation by the terms. None if a stand-in occurs too rarely or too often, or a
        term would be part of another word. An English article is adapted to the term, and a term that ends with a full
        stop takes the place of that behind the stand-in."""
        stand_ins = whole_words(sorted(self.terms, key=len, reverse=True), language)
        pattern = re.compile(rf"(?P<article>\b[Aa]n? )?(?P<word>{stand_ins})(?P<stop>\.(?!\.))?")
        if Counter(found["word"] for found in pattern.finditer(translation)) != self.counts:
            return None

        def term_for(found: re.Match[str]) -> str:
            term, article = self.terms[found["word"]], found["article"] or ""
            if article and code_of(language) == "en" and starts_with_vowel(term) != starts_with_vowel(found["word"]):
                article = article[0] + ("n " if starts_with_vowel(term) else " ")
            return article + term + ("" if term.endswith(".") else found["stop"] or "")

        text = pattern.sub(term_for, translation)
        are_whole = (
            len(re.findall(whole_words([self.terms[word]], language), text)) >= count
            for word, count in self.counts.items()
        )
        return text if all(are_whole) else None


def starts_with_vowel(word: str) -> bool:
    """Whether English uses "an" before a word, by its first letter."""
    return word[0].lower() in "aeiou"


def apply_stand_ins(
    translator: "Translator",
    found: list[list[Translation]],
    numbers: Sequence[int],
    glossary: Glossary,
    best: int,
    script: Script,
    **asked: Any,
) -> None:
    """Replace the translations of the texts with these numbers, found under constraints, by up to `best` translations
    with stand-ins in this script if these are more probable by GAIN. `asked` are further arguments of the translator.

    A translation that costs less than GAIN nats per piece cannot improve by GAIN, so its text is not translated again.
    """
    costs = {number: nats_per_piece(translator, found[number][0], script) - GAIN for number in numbers}
    variants = [
        (number, variant)
        for number, most in costs.items()
        if most > 0
        for variant in readable_variants(translator, found[number][0].source, glossary)
    ]
    asked["script"] = "keep"  # that of WORDS
    answers = translator.translate_n_best([variant.text for _, variant in variants], best, **asked)
    language = translator.model.recipe.data.target
    for (number, variant), translations in zip(variants, answers, strict=True):
        restored = [
            (each, text) for each in translations if (text := variant.restored(each.text, language)) is not None
        ]
        cost = nats_per_piece(translator, restored[0][0], "keep") if restored else math.inf
        if cost < costs[number]:
            costs[number] = cost
            source = found[number][0].source
            texts = [translator.in_script(text, script) for _, text in restored]
            found[number] = [
                replace(each, source=source, text=text) for (each, _), text in zip(restored, texts, strict=True)
            ]


def nats_per_piece(translator: "Translator", translation: Translation, script: Script) -> float:
    (pieces,) = translator.model.vocabularies["target"].encode([translator.as_written(translation.text, script)])
    return -translation.log_prob / (len(pieces) + 1)  # </s> counts


def usable_stand_ins(
    languages: tuple[str, str],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    as_written: Callable[[str], str] = str,
) -> list[tuple[str, str]]:
    """The pairs of stand-ins that both vocabularies can spell; `as_written` makes a word Traditional where the model
    writes so."""
    source_words, target_words = (WORDS.get(code_of(language), ()) for language in languages)
    return [
        (source, target)
        for source, target in zip(source_words, map(as_written, target_words), strict=False)
        if is_spellable(source, source_tokenizer) and is_spellable(target, target_tokenizer)
    ]


def readable_variants(translator: "Translator", text: str, glossary: Glossary) -> list[Variant]:
    read = translator.model.vocabularies["source"].normalize(text)
    variants = variants_of(read, translator.as_read(glossary), translator.stand_ins)
    are_short = translator.can_read([variant.text for variant in variants])
    return [variant for variant, is_short in zip(variants, are_short, strict=True) if is_short]


def variants_of(text: str, glossary: Glossary, words: Sequence[tuple[str, str]]) -> list[Variant]:
    """The variants of a text with its terms replaced by stand-ins, one for each rotation of the stand-ins."""
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
