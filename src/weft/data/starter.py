"""The starter corpus: synthetic Chinese-English sentence pairs, to have something to train on without a download.

weft generates it from its own templates (`starter_templates`) and its own words (`starter_lexicon`). It is not text
that anyone said. A Chinese sentence has exactly one English translation in it, so that a small model can learn it soon;
what the model then scores says that training works, and nothing about real text.

The held-out sentences are new combinations of known parts. Every template and every word form in valid and test stands
in train; no held-out sentence does, on either side; and about a third of them hold a pairing (a verb and its object, a
thing and its quality, an activity and its place) that train holds nowhere.

    for each template in turn: draw its slots -> keep the pair if both sides are new -> split by pairing, then by lot
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from weft.data.starter_lexicon import FUNCTION_VERBS, Word
from weft.data.starter_templates import FITS, POOLS, TEMPLATES, Template
from weft.errors import UsageError
from weft.files import write_atomically

Pair = tuple[str, str]

TITLE = "# The starter corpus"
FILES = ("train.tsv", "valid.tsv", "test.tsv", "README.md")
TRAIN_SIZE = 20_000
HELD_OUT_SIZE = 500
# Sentences drawn beyond what is needed: those left over hold a withheld pairing or a rare word.
SPARE = 1_400
SHARE_OF_PAIRINGS_WITHHELD = 0.1
# A held-out sentence uses only what train shows at least this often.
SEEN_OFTEN_ENOUGH = 3
# Slots whose word fits another's without being a pairing worth withholding: numbers, hours and the weather.
FREE_SLOTS = {"age", "price", "hour", "weather", "falls"}


@dataclass(frozen=True)
class StarterCorpus:
    """Three lists of (Chinese, English)."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


@dataclass(frozen=True)
class Sentence:
    """One pair with what it was made of: its template, its word forms, and which words met in it."""

    zh: str
    en: str
    parts: frozenset[str]
    pairings: frozenset[tuple[str, str]]


def generate(seed: int = 1) -> StarterCorpus:
    """The corpus of this seed: 20,000 pairs to train on, 500 to validate, 500 to test; all 21,000 distinct."""
    train, valid, test = ([(s.zh, s.en) for s in part] for part in split(seed))
    return StarterCorpus(train, valid, test)


def write(folder: Path, seed: int = 1, *, force: bool = False) -> StarterCorpus:
    """Write train.tsv, valid.tsv, test.tsv (header `zh<tab>en`, UTF-8) and README.md into `folder`, made if missing.

    Each file appears whole or not at all; one that already reads the same is left untouched. Raises UsageError where a
    file is there with another content, unless `force` says that it may be replaced.
    """
    corpus = generate(seed)
    parts = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
    texts = {
        f"{name}.tsv": "".join(f"{zh}\t{en}\n" for zh, en in [("zh", "en"), *pairs]) for name, pairs in parts.items()
    }
    texts["README.md"] = _readme(corpus, seed)
    other = {name: text for name, text in texts.items() if not _reads(folder / name, text)}
    if (there := [name for name in other if (folder / name).exists()]) and not force:
        raise UsageError(
            f"{folder} holds {' and '.join(there)} with another content; name another folder by --output, or replace "
            "it by --force"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in other.items():
        write_atomically(folder / name, text)
    return corpus


def split(seed: int) -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    """What `generate` returns, before the sentences forget what they were made of."""
    random = Random(seed)
    sentences = draw(random, TRAIN_SIZE + 2 * HELD_OUT_SIZE + SPARE)
    withheld = _withhold(sentences, random)
    unseen_pairing = [sentence for sentence in sentences if sentence.pairings & withheld]
    ordinary = [sentence for sentence in sentences if not sentence.pairings & withheld]
    train, aside = ordinary[:TRAIN_SIZE], ordinary[TRAIN_SIZE:]

    counts = Counter(part for sentence in train for part in sentence.parts)
    seen = {part for part, count in counts.items() if count >= SEEN_OFTEN_ENOUGH}
    new_pairings = [sentence for sentence in unseen_pairing if sentence.parts <= seen][:HELD_OUT_SIZE]
    others = [sentence for sentence in aside if sentence.parts <= seen]
    held_out = (new_pairings + others)[: 2 * HELD_OUT_SIZE]
    random.shuffle(held_out)
    return train, held_out[:HELD_OUT_SIZE], held_out[HELD_OUT_SIZE:]


def draw(random: Random, count: int) -> list[Sentence]:
    """`count` sentences, no two alike on either side, in random order; the templates take turns as long as they can."""
    sentences: list[Sentence] = []
    taken: set[str] = set()
    while len(sentences) < count:
        for template in TEMPLATES:
            sentence = compose(template, random)
            if sentence is None:
                continue
            sides = {plain(sentence.zh), plain(sentence.en)}
            if not sides & taken:
                taken |= sides
                sentences.append(sentence)
    random.shuffle(sentences)
    return sentences[:count]


def compose(template: Template, random: Random) -> Sentence | None:
    """One sentence of this template, or None where the words drawn do not go together."""
    chosen: dict[str, Word] = {}
    for slot, pool, base, rival in _plan(template):
        candidates = _fitting(pool, chosen[base]) if base else POOLS[pool]
        if not candidates:
            return None
        chosen[slot] = random.choice(candidates)
        if rival and _overlap(chosen[slot], chosen[rival]):
            return None
    if "who" in chosen and _is_of_another_age(chosen["who"], chosen.values()):
        return None
    return _fill(template, chosen)


def plain(text: str) -> str:
    """What two sentences are compared by: letters and digits alone, in one case."""
    return re.sub(r"\W", "", text).casefold()


_SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")


@cache
def _plan(template: Template) -> list[tuple[str, str, str | None, str | None]]:
    """The slots in the order of drawing: (slot, its pool, the slot it must fit, the slot it must differ from)."""
    found = _SLOT.findall(template.zh + template.en)
    slots = dict.fromkeys(name for name, _ in found if name not in FUNCTION_VERBS)
    plan = []
    for slot in slots:
        kind = slot.rstrip("2")
        base = FITS[kind] if FITS.get(kind) in slots else None
        rival = "who" if slot == "other" and "who" in slots else kind if kind != slot else None
        plan.append((slot, template.pools.get(kind, kind), base, rival))
    return sorted(plan, key=lambda entry: (entry[2] is not None, entry[3] is not None))


@cache
def _fitting(pool: str, base: Word) -> list[Word]:
    return [word for word in POOLS[pool] if word.tags & base.tags]


def _overlap(one: Word, other: Word) -> bool:
    """The same word, or pronouns that share someone: a pronoun's capitalized tags say whom it includes."""
    return one is other or any(tag[0].isupper() for tag in one.tags & other.tags)


def _is_of_another_age(who: Word, words: Iterable[Word]) -> bool:
    """A child that drives, an uncle at his homework: a word tagged `not-` and an age of the subject."""
    barred = {f"not-{tag}" for tag in who.tags}
    return any(word.tags & barred for word in words)


def _fill(template: Template, chosen: dict[str, Word]) -> Sentence:
    zh_forms = [chosen[name].zh[form] for name, form in _SLOT.findall(template.zh)]
    en_forms = [_english(name, form, chosen) for name, form in _SLOT.findall(template.en)]
    zh = _SLOT.sub("{}", template.zh).format(*zh_forms)
    en = _SLOT.sub("{}", template.en).format(*en_forms)
    parts = frozenset([template.zh, *zh_forms, *en_forms])
    pairings = {
        (chosen[base].zh[""], chosen[slot].zh[""])
        for slot, _, base, _ in _plan(template)
        if base and slot.rstrip("2") not in FREE_SLOTS
    }
    return Sentence(zh, _polish(en), parts, frozenset(pairings))


def _english(name: str, form: str, chosen: dict[str, Word]) -> str:
    """The form of a slot or of a verb of the template's own; a finite verb agrees with the subject."""
    word = FUNCTION_VERBS.get(name) or chosen[name]
    if form in ("now", "past", "not"):
        form += chosen["who"].agrees
    return word.en[form]


def _polish(english: str) -> str:
    """`a` before a vowel becomes `an`, and the sentence starts with a capital."""
    english = re.sub(r"\b([Aa]) (?=[aeiou])(?!uni|use|one)", r"\1n ", english)
    return english[0].upper() + english[1:]


def _withhold(sentences: Sequence[Sentence], random: Random) -> set[tuple[str, str]]:
    """The pairings that train never sees, drawn from all that occur."""
    pairings = sorted({pairing for sentence in sentences for pairing in sentence.pairings})
    return set(random.sample(pairings, round(len(pairings) * SHARE_OF_PAIRINGS_WITHHELD)))


def _reads(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _readme(corpus: StarterCorpus, seed: int) -> str:
    return f"""\
{TITLE}

A synthetic Chinese-English corpus, generated by weft from its own templates and its own lexicon (seed {seed}). Nobody
said these sentences: they are here to try weft on, so that a first model trains in minutes without a download.

| file | pairs |
|---|---|
| train.tsv | {len(corpus.train):,} |
| valid.tsv | {len(corpus.valid):,} |
| test.tsv | {len(corpus.test):,} |

Each file is UTF-8 with the header `zh<tab>en`. A sentence stands in one file only, on either side. Every word of valid
and test occurs in train; the combinations do not. A score on test shows that training works; it says nothing about how
a model does on real text.

License: Apache-2.0. Make it again with `weft corpus get starter --seed {seed}`.
"""
