"""What a translation copies from its source: numbers, addresses and codes, the full stop at the end, and any text
without a word as a whole.

A small model garbles numbers that it has seldom seen, so each distinct item of a source is replaced by a symbol: a
private-use character that is a piece of both vocabularies. A training pair has a symbol on both sides if both sides
have the item; in a translation the item takes the symbol's place again (Luong et al. 2015, "Addressing the Rare Word
Problem in Neural Machine Translation", section 3.1).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from weft.text.chinese import HAN, is_chinese, script_of_code
from weft.text.japanese import KANA
from weft.text.language import code_of, is_in_words_of_characters, is_written_without_spaces
from weft.text.markup import MARK
from weft.text.punctuation import ABBREVIATION, CERTAIN_ENDS, CLOSING, ELLIPSES, NARROW_ENDS, PROTECTED

ONE = "\ue000"
"""The symbol of the number 1, which English counts with a singular."""
NUMBERS, CODES = "\ue001\ue002\ue003\ue004\ue005\ue006", "\ue007\ue008\ue009"
"""Symbols of the other numbers, and of addresses and codes, in the order in which a source has them."""
SYMBOLS = (ONE, *NUMBERS, *CODES)
SYMBOL = f"[{ONE}-{CODES[-1]}]"

SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12, "万": 4, "亿": 8, "百万": 6, "千万": 7, "万亿": 12}
SCALES |= {name.translate(str.maketrans("万亿", "萬億")): zeros for name, zeros in SCALES.items()}
"""Word after a number -> zeros that it adds."""
FILE_TYPES = "pdf docx? xlsx? pptx? txt zip png jpe?g html? csv json mp[34] py com org net edu gov io cn".replace(
    " ", "|"
)
CURRENCIES = "RMB|CNY|USD|EUR|GBP|HKD|JPY"
REST_UNIT = "(?:[千百]?[万萬亿億]|[千百])"
SCALE = rf"(?:{'|'.join(sorted(SCALES, key=len, reverse=True))})(?![A-Za-z])"
ITEM = re.compile(
    rf"(?P<code>{PROTECTED.pattern}|(?<![\w.])[\w-]+(?:\.[\w-]+)*\.(?:{FILE_TYPES})(?!\w)"
    # not mid-1990s, under-18 or No.5, whose words are translated
    rf"|(?<![A-Za-z\d])(?!(?:{CURRENCIES})\d)(?-i:(?![A-Z]?[a-z]+[-.]))[A-Za-z]+(?:[-.]?\d[A-Za-z\d]*)+)"
    # not 0点25个 or 8时20名
    r"|(?P<hour>(?<!\d)\d\d?)[点點时時](?P<minute>[0-5]\d)(?:分|(?![\d万亿萬億名人个個多余餘位米元%％]))"
    # not the number of a month, which English calls by its name; each number of 3-5万 and 30,000-50,000 is an item
    rf"|(?P<number>(?:(?<![A-Za-z\d])|(?<={CURRENCIES}))(?:(?<![^\s$£€¥(])\.)?\d+"
    rf"(?:[.,:/]\d+|[点點]\d+(?=\s?[万亿萬億])|-\d+(?![\d.]*(?:,\d|\s?{SCALE})))*)(?!\d|\s?月)"
    rf"(?:\s?(?P<more>[多余餘])?(?P<scale>{SCALE})"
    # 1亿5000万, 1亿2千万, 8万6千7百, 3万5000, 1万2
    rf"(?P<rest>(?:\d{{1,4}}{REST_UNIT})*(?:\d{{1,4}}(?!\s?[\d.,:/%年月日号號点點时時多余餘万萬亿億千百]))?)"
    # 3-5万 and between $2 and $3 billion, but not 8000-1.2万
    rf"|(?=\s?(?P<joint>[-~～–—至到]|to|or|and)\s?[$£€¥]?(?P<upper>\d+(?:,\d{{3}})*(?:\.\d+)?)\s?"
    rf"(?P<shared>{SCALE})))?",
    re.ASCII | re.IGNORECASE,
)
REST = re.compile(rf"(\d+)({REST_UNIT}|)")
UNITS = {**SCALES, "百": 2, "千": 3, "百亿": 10, "百億": 10, "千亿": 11, "千億": 11}
WIDE = str.maketrans(
    {chr(c): chr(c - 0xFEE0) for c in range(0xFF01, 0xFF5F) if chr(c).isalnum()}
    | {"：": ":", "．": "."}
    | dict.fromkeys("\u00a0\u2009\u202f\u3000", " ")
)
CHINESE_FORM = re.compile("[万亿萬億]")
BETWEEN = re.compile(r"\bbetween\s[$£€¥]?$", re.IGNORECASE)
THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
ORDINAL = re.compile(f"({SYMBOL})(?:st|nd|rd|th)\\b", re.IGNORECASE)
TEENS = re.compile(r"1[123]$")


@dataclass(frozen=True)
class Item:
    """A number, an address or a code in a text.

    `value` is the same for all spellings. `scaled` is the amount that a number has with a word such as million or 万,
    which may stand behind a later number: 3 to 5 million. `more` is the 多 of 100多万, which stays beside the symbol.
    """

    begin: int
    end: int
    text: str
    value: str
    is_number: bool
    scaled: Decimal | None
    is_chinese: bool
    """Whether it has a word of Chinese."""
    more: str

    def written(self, language: str) -> str:
        """The item in a text of this language: with 万 or million, or in digits where the language has neither."""
        in_han, in_english = is_in_words_of_characters(language), code_of(language) == "en"
        if in_han == self.is_chinese and (in_han or in_english or self.scaled is None):
            if not in_han:
                return self.text
            if code_of(language) == "ja" and self.is_chinese and self.scaled is None:
                return self.value
            units = units_of(language)
            return self.text.translate(str.maketrans("万萬亿億", 2 * units[0] + 2 * units[1]))
        if self.scaled is None:
            return self.value if self.is_chinese else self.text
        if in_han:
            units = units_of(language)
            places = [] if code_of(language) == "ja" else [(12, units)]
            places += [(8, units[1]), (4, units[0])]
        else:
            places = [(12, " trillion"), (9, " billion"), (6, " million")] if in_english else []
        for zeros, name in places:
            if self.scaled >= 10**zeros:
                return f"{self.scaled.scaleb(-zeros).normalize():f}{name}"
        return f"{self.scaled.normalize():,f}" if in_english else f"{self.scaled.normalize():f}"


@dataclass(frozen=True)
class Copies:
    """A source with symbols in place of its items; `items` maps each symbol to what it stands for."""

    text: str
    items: Mapping[str, Item]

    def in_text(self, text: str) -> str:
        """A text of either language with symbols in place of the items that the source has too."""
        return with_symbols(text, {item.value: symbol for symbol, item in self.items.items()})

    def demanded(self, text: str, language: str) -> str:
        """`in_text` of words that a translation must have, with symbols only where they come back as written here."""
        written = {item.value: item.written(language) for item in self.items.values()}
        symbols = {item.value: symbol for symbol, item in self.items.items()}
        return with_symbols(text, symbols, lambda item: written[item.value] == item.text and not item.more)

    def restored(self, text: str, language: str) -> str:
        """A translation with items in place of symbols; a symbol that stands for nothing is removed, with the space
        before it or, at the start and after a parenthesis, the one behind it."""
        items = {symbol: item.written(language) for symbol, item in self.items.items()}
        text = ORDINAL.sub(lambda found: found[1] + ordinal_suffix(items.get(found[1], "")), text)
        text = re.sub(SYMBOL, lambda found: items.get(found[0], found[0]), text)
        text = re.sub(rf"(^|\()(?:{SYMBOL} ?)+", r"\1", text)
        return re.sub(rf" ?{SYMBOL}++(?!\w)|{SYMBOL}", "", text)

    def shown(self, pieces: Sequence[str]) -> list[str]:
        """Pieces of a source or a translation, with items in place of symbols."""
        texts = {symbol: item.text for symbol, item in self.items.items()}
        return [texts.get(piece, piece) for piece in pieces] if texts else list(pieces)

    def places(self, text: str) -> list[int]:
        """For each character of a text, the place in `in_text` of the text of what it became."""
        values, found, last = {item.value for item in self.items.values()}, [], 0
        for item in items_in(text):
            if item.value in values:
                found += [found[-1] + 1 + place if found else place for place in range(item.begin - last)]
                place = found[-1] + 1 if found else 0
                found += [place] * (item.end - item.begin - 1) + [place + len(item.more)]
                last = item.end
        return found + [found[-1] + 1 + place if found else place for place in range(len(text) - last)]


NOTHING = Copies("", {})
"""For a source of which nothing is copied."""


def copies_of(text: str) -> Copies:
    """Replace the items of a source by symbols, as long as there are symbols left."""
    free = {True: iter(NUMBERS), False: iter(CODES)}
    found: dict[str, tuple[str, Item]] = {}
    for item in items_in(text):
        if item.value not in found:
            symbol = ONE if item.value == "1" else next(free[item.is_number], None)
            if symbol is not None:
                found[item.value] = symbol, item
    symbols = {value: symbol for value, (symbol, _) in found.items()}
    return Copies(with_symbols(text, symbols), dict(found.values()))


def copied_pair(source: str, target: str) -> tuple[str, str]:
    """A training pair with symbols in place of the items that both sides have."""
    copies = copies_of(source)
    if not copies.items:
        return source, target
    target = copies.in_text(target)
    shared = {item.value: symbol for symbol, item in copies.items.items() if symbol in target}
    return with_symbols(source, shared), target


def copied_pairs(sources: Sequence[str], targets: Sequence[str]) -> tuple[list[str], list[str]]:
    """`copied_pair` of each pair."""
    pairs = [copied_pair(source, target) for source, target in zip(sources, targets, strict=True)]
    return [source for source, _ in pairs], [target for _, target in pairs]


def with_symbols(text: str, symbols: Mapping[str, str], is_wanted: Callable[[Item], bool] = lambda item: True) -> str:
    """Replace the items with these values by symbols. The suffix of an ordinal becomes th, since it depends on the
    number."""
    parts, last = [], 0
    for item in items_in(text):
        if item.value in symbols and is_wanted(item):
            parts += [text[last : item.begin], symbols[item.value], item.more]
            last = item.end
    return ORDINAL.sub(r"\1th", "".join([*parts, text[last:]])) if parts else text


def items_in(text: str) -> Iterator[Item]:
    """The items of a text, from left to right."""
    text = text.translate(WIDE)
    for found in ITEM.finditer(text):
        (begin, end), whole, scale, more = found.span(), found[0], found["scale"] or "", found["more"] or ""
        number = plain(found["number"] or "")
        if number is None and scale:  # 1,5 million or 1/2 million: the words are translated
            end, whole, scale, more = found.end("number"), found["number"], "", ""
        elif number is not None and found["shared"] and number < Decimal(found["upper"].replace(",", "")):
            is_range = found["joint"].lower() != "and" or BETWEEN.search(text[max(0, begin - 12) : begin])
            scale = found["shared"] if is_range else ""
        scaled = None
        if scale and number is not None:
            scaled = number.scaleb(SCALES[scale.lower()]) + rest_of(found["rest"] or "", scale.lower())
        in_chinese = found["hour"] is not None or CHINESE_FORM.search(scale) is not None
        text_of = whole.replace(more, "", 1)
        yield Item(begin, end, text_of, value_of(found, scaled), found["code"] is None, scaled, in_chinese, more)


def plain(number: str) -> Decimal | None:
    """The value of a number of digits, with a comma before each three of them and a point, or None."""
    digits = number.replace(",", "") if THOUSANDS.fullmatch(number) else re.sub("[点點]", ".", number)
    return Decimal(digits) if digits.replace(".", "", 1).isdigit() else None


def rest_of(written: str, scale: str) -> Decimal:
    """The amount of what follows a scale: of 2 after 1万, 2 thousand, and of 2千3 2 thousand 3 hundred."""
    amount, last = Decimal(0), SCALES[scale]
    for digits, unit in REST.findall(written):
        zeros = UNITS[unit] if unit else last - 1 if len(digits) == 1 else 0
        amount, last = amount + Decimal(digits).scaleb(zeros), zeros
    return amount


def value_of(found: re.Match[str], scaled: Decimal | None) -> str:
    """What is equal in all spellings of an item. A decimal is not shortened: 3.10 may be a version."""
    if found["hour"]:
        return f"{int(found['hour'])}:{found['minute']}"
    if found["code"]:
        return found[0]
    if scaled is not None:
        return f"{scaled.normalize():f}"
    number = found["number"].replace(",", "") if THOUSANDS.fullmatch(found["number"]) else found["number"]
    return number.removeprefix("0") if ":" in number else f"0{number}" if number.startswith(".") else number


def units_of(language: str) -> str:
    """The characters for 10,000 and for 100 million in a language written in Chinese characters."""
    is_traditional = script_of_code(language) == "traditional" or code_of(language) == "yue"
    return "萬億" if is_traditional else "万億" if code_of(language) == "ja" else "万亿"


def ordinal_suffix(number: str) -> str:
    return "th" if TEENS.search(number) else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1:], "th")


# The end


FULL_STOPS = ".．。｡।॥۔։።។"
AT_END = f"[“{CLOSING}]*$"
ENDS = re.compile(f"[{CERTAIN_ENDS}{NARROW_ENDS}{ELLIPSES}；;:：](?={AT_END})")
STOP = re.compile(rf"(?<=[^{FULL_STOPS}\s])\s?[{FULL_STOPS}](?={AT_END})")
LAST_STOP = re.compile(rf"\s?[{FULL_STOPS}]+{AT_END}")


def before_end(translation: str) -> str:
    """The part of a growing translation that `with_end_of` leaves as it is."""
    return LAST_STOP.sub("", translation)


def with_end_of(source: str, translation: str, language: str, demanded: Sequence[str] = ()) -> str:
    """A translation that ends with a full stop only if its source does, and always then, unless that is of an
    abbreviation; or if it ends with a text that was demanded of it."""
    source, text = source.rstrip(), translation.rstrip()
    if not ENDS.search(source):
        is_kept = ABBREVIATION.search(text.removesuffix(".")) or text.endswith(tuple(filter(None, demanded)))
        return text if is_kept else STOP.sub("", text)
    is_sentence = source[-1] in FULL_STOPS and not ABBREVIATION.search(source[:-1])
    has_sign = is_in_words_of_characters(language) or not is_written_without_spaces(language)  # a space ends Thai ones
    if is_sentence and has_sign and text and text[-1].isalnum():
        return text + ("。" if is_in_words_of_characters(language) else ".")
    return translation


# Texts without a word

CJK = f"{HAN}{KANA}\uac00-\ud7af"
LETTERS = {"zh": f"[{HAN}]", "ja": f"[{HAN}{KANA}]", "ko": f"[{CJK}]"}
ENGLISH = rf"(?:[^\W\d_{CJK}]){{2,}}|(?<!\w)[AIOaio](?!\w)"


def has_word(text: str, language: str) -> bool:
    """Whether a text has a word to translate: letters of the language's script outside addresses, codes, tags and
    placeholders."""
    code = "zh" if is_chinese(language) else code_of(language)
    letters = LETTERS.get(code, ENGLISH if code == "en" else rf"[^\W\d_{CJK}]")
    if re.search(letters, text) is None:
        return False
    rest = MARK.sub(" ", re.sub(r"\b(?:mailto|tel):", "", text.translate(WIDE)))
    return re.search(letters, ITEM.sub(lambda found: " " if found["code"] else found[0], rest)) is not None
