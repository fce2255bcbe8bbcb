"""What texts are compared by, as numbers: two texts with one key differ in nothing that a reader would call the text.

A key is made of a text's letters, their marks, its digits and the signs that make others of these (SIGN), in lower case
and of one width, Traditional characters as their Simplified ones (and one that some words alone have another one for as
that one: 著 as 着). Here each is a 64-bit hash of that, made for many
texts at once without a loop over their characters, so that duplicates among millions of texts are found by comparing
numbers.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from weft.text.chinese import converter

MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2**64
CODE_POINTS = 0x110000
PARTITIONS = 64

SIGN = re.compile(
    r"""[.．,，:：/／–‐‑\-－−+＋#＃](?:
      (?=\d)(?:
          (?<=\d[:：/／–‐‑\-－−])               # 10:30, 1/2, 3-1
        | (?<=\d[.．,，])(?!\d{3}(?!\d))       # 1.5, but not 1,000
        | (?<=[\-－−])(?<![\w\-].)             # -5, but not COVID-19
      )
      | (?<=[^\W\d_][+＋#＃])                  # C#
      | (?<=[^\W\d_][+＋#＃][+＋#＃])          # C++
    )
    | [+＋=＝×÷±<＜>＞%％‰°$＄€£￡¥￥](?:(?=[ ]?\d)|(?<=\d.)|(?<=\d[ ].))  # 2 + 3, 5%, $5
    """,
    re.VERBOSE,
)
"""A sign without which a number or a name would be another one."""
PLAIN_SIGNS = str.maketrans("．，：／–‐‑－−＋＃＝＜＞％＄￡￥", ".,:/-----+#=<>%$£¥")

OF_SOME_WORDS = ["著着", "瞭了", "藉借", "覆复", "彷仿", "俱具", "甚什", "衹只", "畫划", "沈沉", "妳你", "牠它"]
"""Of Traditional text, and what stands for it in Simplified text, in some words (看著, 瞭解, 藉口, 答覆, 彷彿, 傢俱,
甚麼, 計畫, 沈重) or everywhere; OpenCC converts these by word, if at all."""
HALF_WIDTH_KANA = re.compile("[\uff66-\uff9f]+")
"""Of which a voiced one is two, ｶ and ﾞ."""


def keys_of(texts: Sequence[str]) -> NDArray[np.uint64]:
    """The hash of each text's key; 0 where it has neither a letter nor a digit.

    With w(c) a random 64-bit number for each character, the hash of c_0 ... c_n is the sum of w(c_i) m^i modulo 2**64,
    multiplied and folded once more. All texts stand in one row; what a text begins with is divided out. Two texts that
    differ have one hash in 2**64 by chance, which is no protection from someone who looks for such texts.
    """
    joined = "\n".join(texts)
    if HALF_WIDTH_KANA.search(joined):
        texts = [HALF_WIDTH_KANA.sub(lambda kana: unicodedata.normalize("NFKC", kana[0]), text) for text in texts]
        joined = "\n".join(texts)
    if not unicodedata.is_normalized("NFC", joined):
        texts = [unicodedata.normalize("NFC", text) for text in texts]
        joined = "\n".join(texts)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
    folded = folding()[codes]
    for sign in SIGN.finditer(joined):
        folded[sign.start()] = ord(sign[0].translate(PLAIN_SIGNS))
    counts = folded != 0
    places = np.cumsum(counts)  # a letter's place among the letters of the row, from 1
    with np.errstate(over="ignore"):
        weights = np.where(counts, random_weights()[folded] * powers(len(codes) + 1)[places], np.uint64(0))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weights, dtype=np.uint64)])
        before = np.concatenate([np.zeros(1, np.int64), places])
        starts = np.cumsum(lengths + 1) - lengths - 1
        ends = starts + lengths
        hashes = (sums[ends] - sums[starts]) * inverse_powers(len(codes) + 1)[before[starts]]
        return mixed(hashes)


def pair_keys(sources: NDArray[np.uint64], targets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One key for each pair of keys; the order of the two sides counts."""
    with np.errstate(over="ignore"):
        return mixed(sources * np.uint64(MULTIPLIER) + targets)


def mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of the result depends on every bit of the hash (the finalizer of splitmix64, Steele et al. 2014); 0
    stays 0."""
    with np.errstate(over="ignore"):
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return hashes ^ (hashes >> np.uint64(31))


def powers(count: int) -> NDArray[np.uint64]:
    """m^0, m^1, ... modulo 2**64."""
    return grown("powers", MULTIPLIER, count)


def inverse_powers(count: int) -> NDArray[np.uint64]:
    return grown("inverse powers", pow(MULTIPLIER, -1, 1 << 64), count)


TABLES: dict[str, NDArray[np.uint64]] = {}


def grown(name: str, base: int, count: int) -> NDArray[np.uint64]:
    """At least so many powers of the base; kept, since every piece of a corpus asks for as many."""
    if name not in TABLES or len(TABLES[name]) < count:
        factors = np.full(max(count, 1 << 16), base, np.uint64)
        factors[0] = 1
        with np.errstate(over="ignore"):
            TABLES[name] = np.cumprod(factors, dtype=np.uint64)
    return TABLES[name]


@cache
def random_weights() -> NDArray[np.uint64]:
    """A number for each code point, the same in every process and on every machine; 0 for none."""
    weights = mixed(np.arange(1, CODE_POINTS + 1, dtype=np.uint64) * np.uint64(MULTIPLIER))
    weights[0] = 0
    return weights


@cache
def folding() -> NDArray[np.uint32]:
    """For each code point the one that stands for it in a key, 0 for what is no letter, no mark of one and no digit."""
    table = np.zeros(CODE_POINTS, np.uint32)
    for code in range(0x33480):
        character = chr(code)
        if unicodedata.category(character)[0] not in "LN" and not belongs_to_letters(character):
            continue
        lowered = unicodedata.normalize("NFKC", character).lower()
        table[code] = ord(lowered) if len(lowered) == 1 else code
    han = [chr(code) for first, last in ((0x3400, 0xA000), (0xF900, 0xFB00)) for code in range(first, last)]
    simplified = converter("t2s").convert("\n".join(han)).split("\n")
    for character, other in zip(han, simplified, strict=True):
        if len(other) == 1 and table[ord(character)]:
            table[ord(character)] = ord(other)
    table[ord("ς")] = ord("σ")  # at the end of a word
    for character, other in OF_SOME_WORDS:
        table[table == table[ord(character)]] = table[ord(other)]
    return table


def belongs_to_letters(character: str) -> bool:
    """Whether it is a mark that makes another letter of one, such as a vowel of Hindi or Thai. The points of Hebrew and
    Arabic (combining classes 10 to 36) are seldom written, and which picture is meant (variation selectors) is no
    matter of letters."""
    is_mark = unicodedata.category(character) in ("Mn", "Mc")
    return is_mark and not 10 <= unicodedata.combining(character) <= 36 and not "\ufe00" <= character <= "\ufe0f"


class Partitions:
    """Keys of a corpus on disk, in files by their first bits, so that equal ones meet in one file that fits in memory.

    with Partitions(folder) as partitions:
        partitions.append(keys)             # of the pairs 0, 1, 2, ... in this order
        for places in partitions.repeated():
            ...
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0

    def __enter__(self) -> "Partitions":
        self.folder.mkdir(parents=True, exist_ok=True)
        self.files = [open(self.folder / f"{number:03}", "w+b") for number in range(PARTITIONS)]  # noqa: SIM115
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self.files:
            file.close()

    def append(self, keys: NDArray[np.uint64]) -> None:
        """The keys of the next pairs; a pair whose key is 0 is like no other."""
        rows = np.stack([keys, np.arange(self.count, self.count + len(keys), dtype=np.uint64)], axis=1)
        self.count += len(keys)
        rows = rows[keys != 0]
        numbers = rows[:, 0] >> np.uint64(64 - PARTITIONS.bit_length() + 1)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(PARTITIONS), side="right")
        for file, part in zip(self.files, np.split(rows[order], ends[:-1]), strict=True):
            file.write(part.tobytes())

    def repeated(self) -> Iterator[NDArray[np.int64]]:
        """The places of the pairs whose key an earlier pair has, one partition after the other."""
        for file in self.files:
            file.seek(0)
            rows = np.frombuffer(file.read(), np.uint64).reshape(-1, 2)
            _, first = np.unique(rows[:, 0], return_index=True)  # rows of a partition stand in the order of the corpus
            is_first = np.zeros(len(rows), bool)
            is_first[first] = True
            yield np.sort(rows[~is_first, 1].astype(np.int64))
