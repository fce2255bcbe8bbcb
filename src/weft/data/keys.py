"""64-bit keys of texts: texts with equal keys differ only in case, width, spaces, punctuation and Chinese script.

A key is a hash of the letters, their combining marks, the digits and the signs that change their meaning (SIGN), in
lower case and one width, with Traditional characters as Simplified ones (also those that are converted only in some
words: 著 as 着). Keys of many texts are computed without a loop over characters, so that duplicates among millions of
texts are found by comparing numbers.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from weft.text.chinese import converter

MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2**64
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
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
"""A sign without which a number or a name would be different."""
PLAIN_SIGNS = str.maketrans("．，：／–‐‑－−＋＃＝＜＞％＄￡￥", ".,:/-----+#=<>%$£¥")

OF_SOME_WORDS = ["著着", "瞭了", "藉借", "覆复", "彷仿", "俱具", "甚什", "衹只", "畫划", "沈沉", "妳你", "牠它"]
"""Traditional characters and their Simplified forms, in some words (看著, 瞭解, 藉口, 答覆, 彷彿, 傢俱, 甚麼, 計畫,
沈重) or everywhere. OpenCC converts these only by word, if at all."""
HALF_WIDTH_KANA = re.compile("[\uff66-\uff9f]+")
"""A voiced half-width kana is two characters, ｶ and ﾞ."""


def keys_of(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Return the key of each text; 0 for a text without letters and digits.

    With w(c) a random 64-bit number for each character, the hash of c_0 ... c_n is the sum of w(c_i) m^i modulo 2**64,
    passed through a finalizer. All texts are concatenated; the power of m at which a text begins is divided out.
    Different texts collide with probability 2**-64, but the hash does not resist deliberate collisions.
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
    places = np.cumsum(counts)  # position of a letter among all letters, from 1
    with np.errstate(over="ignore"):
        weights = np.where(counts, random_weights()[folded] * powers(MULTIPLIER, len(codes) + 1)[places], np.uint64(0))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weights, dtype=np.uint64)])
        before = np.concatenate([np.zeros(1, np.int64), places])
        starts = np.cumsum(lengths + 1) - lengths - 1
        ends = starts + lengths
        hashes = (sums[ends] - sums[starts]) * powers(INVERSE, len(codes) + 1)[before[starts]]
        return mixed(hashes)


def pair_keys(sources: NDArray[np.uint64], targets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Combine the keys of the two sides, whose order matters."""
    with np.errstate(over="ignore"):
        return mixed(sources * np.uint64(MULTIPLIER) + targets)


def mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of each hash by the finalizer of splitmix64 (Steele et al. 2014); maps 0 to 0."""
    with np.errstate(over="ignore"):
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return hashes ^ (hashes >> np.uint64(31))


POWERS: dict[int, NDArray[np.uint64]] = {}


def powers(base: int, count: int) -> NDArray[np.uint64]:
    """Return at least the first `count` powers of the base modulo 2**64, from its power 0 on; they are kept."""
    if base not in POWERS or len(POWERS[base]) < count:
        factors = np.full(max(count, 1 << 16), base, np.uint64)
        factors[0] = 1
        with np.errstate(over="ignore"):
            POWERS[base] = np.cumprod(factors, dtype=np.uint64)
    return POWERS[base]


@cache
def random_weights() -> NDArray[np.uint64]:
    """Return a random number for each code point, the same on every machine; 0 for code point 0."""
    weights = mixed(np.arange(1, CODE_POINTS + 1, dtype=np.uint64) * np.uint64(MULTIPLIER))
    weights[0] = 0
    return weights


@cache
def folding() -> NDArray[np.uint32]:
    """Return for each code point the one that represents it in a key; 0 unless it is a letter, its mark or a digit."""
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
    """Whether a character is a mark that makes a different letter, such as a vowel of Hindi or Thai.

    False for the points of Hebrew and Arabic (combining classes 10 to 36), which are seldom written, and for variation
    selectors, which select a glyph.
    """
    is_mark = unicodedata.category(character) in ("Mn", "Mc")
    return is_mark and not 10 <= unicodedata.combining(character) <= 36 and not "\ufe00" <= character <= "\ufe0f"


class Partitions(ExitStack):
    """Keys of a corpus on disk, partitioned by their first bits, so that equal keys are in one file that fits in
    memory.

    with Partitions(folder) as partitions:
        partitions.append(keys)             # of the pairs 0, 1, 2, ... in this order
        for places in partitions.repeated():
            ...
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.count = folder, 0

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.files = [self.enter_context((self.folder / f"{number:03}").open("w+b")) for number in range(PARTITIONS)]
        return self

    def append(self, keys: NDArray[np.uint64]) -> None:
        """Append the keys of the next pairs; pairs with key 0 equal no other."""
        rows = np.stack([keys, np.arange(self.count, self.count + len(keys), dtype=np.uint64)], axis=1)
        self.count += len(keys)
        rows = rows[keys != 0]
        numbers = rows[:, 0] >> np.uint64(64 - PARTITIONS.bit_length() + 1)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(PARTITIONS), side="right")
        for file, part in zip(self.files, np.split(rows[order], ends[:-1]), strict=True):
            file.write(part.tobytes())

    def repeated(self) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of the pairs whose key an earlier pair has, for one partition after another."""
        for file in self.files:
            file.seek(0)
            rows = np.frombuffer(file.read(), np.uint64).reshape(-1, 2)
            _, first = np.unique(rows[:, 0], return_index=True)  # the rows of a partition are in corpus order
            is_first = np.zeros(len(rows), bool)
            is_first[first] = True
            yield np.sort(rows[~is_first, 1].astype(np.int64))
