"""Find the numbers in a text, in digits or in Chinese or English words.

Reads 三, 3 and three as the same number, likewise 10萬 and 100,000, 九點 and 21:00, 90年代 and the 1990s. A number is
*certain* if a translation must contain it, and *possible* if the text may be read to contain it.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from weft.text.chinese import converter, is_chinese
from weft.text.language import code_of


@dataclass(frozen=True)
class Numbers:
    """The numbers in a text: those that a translation must contain, and all readings of the text."""

    certain: frozenset[float]
    possible: frozenset[float]


def missing_numbers(source: Numbers, target: Numbers) -> list[float]:
    """Return the certain numbers of either side that no reading of the other side contains, sorted."""
    unmatched = [number for number in source.certain if not is_among(number, target.possible)]
    return sorted(unmatched + [number for number in target.certain if not is_among(number, source.possible)])


def is_among(number: float, possible: frozenset[float]) -> bool:
    """Whether a number equals a possible one, up to the ways in which two languages write it.

    Matches 1990 with 90, 15:00 with three o'clock, 3.7 with 三点七, 5.30 with 5点半, 3.5 with three and a half.
    """
    if number in possible or any(number == int(other) for other in possible if other % 1):
        return True
    if number % 1:
        whole, rest = divmod(number, 1)
        if rest == 0.5 and rest in possible and whole in possible:
            return True
        minutes = round(100 * rest)
        return number < 25 and minutes < 60 and minutes in possible and is_among(whole, possible)
    if number <= 24 and (number + 12 in possible or number - 12 in possible):
        return True
    if number < 100:
        return any(1000 <= other < 2100 and other % 100 == number for other in possible)
    return 1000 <= number < 2100 and number % 100 in possible and number % 100 > 0


def numbers_in(text: str, language: str, of_pair: tuple[str, ...] = ()) -> Numbers:
    """Return the numbers in a text, in digits of any width or in Chinese or English words.

    If a language of the pair is neither Chinese nor English, only integers above 12 in digits without a scale word
    are certain: smaller ones are often written as words, and its number words and scales (Milliarden) are not read.
    """
    words_are_read = all(is_chinese(code) or is_english(code) for code in (language, *of_pair))
    if not text.isascii():
        text = SMALL_DIGITS.sub(in_line, text)
        text = converter("t2s").convert(unicodedata.normalize("NFKC", text))
    text = text.lower()
    if is_chinese(language):
        text = FINANCIAL.sub(lambda found: found[0].translate(PLAIN_NUMERALS), text)
        text = YEAR.sub(lambda found: found[0].translate(DIGITS_OF_YEARS), text)
    certain: set[float] = set()
    possible: set[float] = set()
    if FRACTION_SLASH in text:
        text = read_fractions(text, possible)
    read_digits(text, certain, possible, scaled_too=words_are_read)
    in_digits = {number for number in certain if number > 12 and number == int(number)}
    if is_chinese(language):
        read_chinese(text, certain, possible)
    elif is_english(language):
        read_english(text, certain, possible)
    if not words_are_read:
        certain = in_digits
    return Numbers(frozenset(certain), frozenset(possible))


SMALL_DIGITS = re.compile("[⁰¹²³⁴-⁹₀-₉]+|[¼½¾⅐-⅞]")
FRACTION_SLASH = "\u2044"
FRACTION = re.compile(rf"(?:(\d{{1,9}}) )?(\d{{1,9}}){FRACTION_SLASH}(\d{{1,9}})")


def in_line(small: re.Match[str]) -> str:
    """Write superscripts and fractions as plain digits, separated from the digits before them: m^2, 3 1⁄2.

    NFKC alone would join them to one number.
    """
    digits = unicodedata.normalize("NFKC", small[0])
    return f" {digits} " if FRACTION_SLASH in digits else f"^{digits}"


def read_fractions(text: str, possible: set[float]) -> str:
    """Add the readings of the fractions in a text; return the text without them, but with their whole numbers."""
    for whole, above, below in FRACTION.findall(text):
        share = float(above) / float(below) if int(below) else 0.0
        possible |= {float(above), float(below), share, float(whole or 0) + share}
    return FRACTION.sub(r"\1 ", text)


def is_english(language: str) -> bool:
    return code_of(language) == "en"


SCALES = {
    "hundred": 1e2,
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "mn": 1e6,
    "billion": 1e9,
    "bn": 1e9,
    "trillion": 1e12,
    "tn": 1e12,
    "百": 1e2,
    "千": 1e3,
    **{
        ten + myriad: times * scale
        for ten, times in (("", 1.0), ("十", 1e1), ("百", 1e2), ("千", 1e3))
        for myriad, scale in (("万", 1e4), ("亿", 1e8), ("万亿", 1e12))
    },
}
MONEY_SCALES = {"m": 1e6, "b": 1e9}
"""Scales of amounts of money; elsewhere these letters may mean meters, or be part of a name (flat 5b)."""
SCALES |= MONEY_SCALES
CURRENCY = re.compile(r"(?:[$£€¥₩₹]|usd|eur|gbp|rmb|cny)\s?$")
PREFIXED_UNIT = "[克米瓦卡帕焦伏赫兆]|字节|比特"
"""Before these units 千 means kilo."""
WRITTEN_IN_DIGITS = re.compile(
    r"(?P<digits>\d{1,3}(?P<sign>[, '’])\d{3}(?:(?P=sign)\d{3})*(?!\d)(?:\.\d+)?"
    r"|\d{1,3}(?:\.\d{3}){2,}(?![\d.])|\d+\.\d+|\d+)"
    r"(?:\s?(?P<scale>hundred|thousand|million|billion|trillion|(?:k|mn|bn|tn|[mb])(?![a-z\d^])"
    rf"|[十百千]?[多余几来]?(?:万亿?|亿)|百(?!帕)|千(?!{PREFIXED_UNIT})))?"
)

LONGEST_NUMBER = 30
"""Characters, separators included. Longer runs, such as keys or the digits of pi, are skipped."""
IN_A_NAME = re.compile(r"[a-z]-$|\^$")
"""Precedes the 19 of covid-19, or an exponent."""
IN_THOUSANDS_OR_DECIMAL = re.compile(r"\d{1,3}\.\d{3}")
"""300.000 is 300,000 in German, and 300 in English."""
METRES = re.compile("(?<![a-z])[cdkm]?m$")  # m2
DECADE = re.compile(r"\s?世纪\s?(\d+)\s?年代")
RANGES = frozenset(["-", " - ", "–", " – ", "~", " ~ ", "至", "到", " to ", " or "])


def read_digits(text: str, certain: set[float], possible: set[float], *, scaled_too: bool) -> None:
    """Add the numbers that are written in digits, multiplied by the scale word that follows them.

    Numbers with a scale, and those whose point may separate thousands, are certain only if `scaled_too`.
    """
    end, unit, last = 0, 1.0, 0.0  # of the previous number
    for match in WRITTEN_IN_DIGITS.finditer(text):
        digits, scale = match["digits"], match["scale"]
        if len(digits) > LONGEST_NUMBER:
            continue
        alone = digits.replace(match["sign"] or ",", "")
        value = float(alone if alone.count(".") < 2 else alone.replace(".", ""))
        before, between = text[max(0, match.start() - 4) : match.start()], text[end : match.start()]
        is_certain = not (value == 0 and before.rstrip().endswith(":")) and not is_in_name(before, digits)
        is_certain &= scaled_too or not IN_THOUSANDS_OR_DECIMAL.fullmatch(digits)
        times = 1.0
        if scale in MONEY_SCALES and not CURRENCY.search(before):
            possible.add(scaled(value, MONEY_SCALES[scale]))
            is_certain &= match.start("scale") > match.end("digits")
        elif scale:
            times = SCALES[scale.translate(WITHOUT_APPROXIMATE)]
            possible.add(times)
        number = scaled(value, times)
        possible |= {value, number, float(NO_DIGITS.sub("", digits)), *map(float, DIGITS.findall(digits))}
        if decade := DECADE.match(text, match.end()):  # 20世纪60年代 is the 1960s
            possible.add((value - 1) * 100 + float(decade[1]))
            is_certain = False
        elif unit >= 1e4 and between in ("", "零") and number < unit:  # 16万8千, 16万8
            certain.discard(last)
            number = last + (value * unit / 10 if times == 1 and value < 10 else number)
            possible.add(number)
        elif unit == 1 and times > 1 and between in RANGES and last < value:  # 4-5万, but not 8000-1.2万
            certain.discard(last)
            possible.add(scaled(last, times))
        if is_certain and (times == 1 or scaled_too):
            certain.add(number)
        end, unit, last = match.end(), times, number


DIGITS, NO_DIGITS = re.compile(r"\d+"), re.compile(r"\D+")


def scaled(value: float, times: float) -> float:
    """Multiply, rounded to 12 significant digits: 315.1亿 is exactly 31.51 billion."""
    return value if times == 1 else float(f"{value * times:.12g}")


def is_in_name(before: str, digits: str) -> bool:
    pattern = METRES if digits in ("2", "3") and before[-1:] == "m" else IN_A_NAME
    return pattern.search(before) is not None


CHINESE_DIGITS = {c: value for value, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
FINANCIAL_DIGITS = "壹贰叁肆伍陆柒捌玖"
FINANCIAL = re.compile(f"(?<![大内着登队入退])[{FINANCIAL_DIGITS}][零〇万亿{FINANCIAL_DIGITS}拾佰仟]+|[壹贰叁廿卅]")
"""Numerals of contracts and cheques. Some of them are also parts of words: 大陆, 队伍, 收拾."""
PLAIN_NUMERALS = str.maketrans(
    dict(zip(f"{FINANCIAL_DIGITS}拾佰仟廿卅", [*"一二三四五六七八九十百千", "二十", "三十"], strict=True))
)
YEAR = re.compile(f"[〇零○◯o0一二三四五六七八九{FINANCIAL_DIGITS}两]{{4}}(?=年)")
"""In digits that are read one by one, and in all the forms in which they are written."""
DIGITS_OF_YEARS = str.maketrans(f"零○◯o0{FINANCIAL_DIGITS}两", "〇〇〇〇〇一二三四五六七八九二")
CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000}
CHINESE_SCALES = {"万": 10_000, "亿": 100_000_000}
CHINESE_NUMERAL = re.compile("([零〇一二两三四五六七八九十百千万亿]+)([多余几来][万亿]+)?")
CHINESE_DECIMAL = re.compile(
    "(?<![零〇一二两三四五六七八九十百千])([零〇一二两三四五六七八九十百千]++)点([零〇一二三四五六七八九]+)(?![十百刻])"
)
# Before one of these, even a single numeral is a count.
COUNTED = re.compile(
    "个|名|位|本|张|条|只|辆|岁|年|天|小时|分钟|点|块|元|美元|英镑|欧元|杯|瓶|件|次|倍|层|楼|号|月|周|磅|公里|英里|米|公斤|升|"
    "家|间|台|封|双|盒|包|座|棵|支|枝|盘|碗|句|页|章|节课|门课|人|英尺|英寸|加仑|种|篇|场|届|艘|架|匹|头牛|星期"
)
APPROXIMATE = frozenset("几数好多余来")
WITHOUT_APPROXIMATE = str.maketrans(dict.fromkeys(APPROXIMATE))
ORDINAL = frozenset("期周第")  # 星期三, 周三, 第三
CHINESE_WORDS = {
    "半": (0.5, 30, 50),
    "双": (2,),
    "俩": (2,),
    "对": (2,),
    "仨": (3,),
    "刻": (15, 45),
    "打": (12,),
    "倍": (2,),
    "每": (1,),
    "首": (1,),
}
CHINESE_MONEY = {"毛": 10, "角": 10}
KILO = re.compile(PREFIXED_UNIT)
WITH_TENTHS = re.compile(
    r"(\d{1,9}+|[零〇一二两三四五六七八九十百千]{1,9}+)[米块](\d{1,2}|[一二三四五六七八九]{1,2})(?![十百千万亿\d])"
)
"""一米八, 3块5."""
IN_TENTHS = re.compile(r"(\d(?:\.\d)?|[一二三四五六七八九]{1,2})([折成])")
"""九折 and 8.5折, which are 10% and 15% off; 三成, which is 30%."""


def read_chinese(text: str, certain: set[float], possible: set[float]) -> None:
    """Add the numbers that are written in Chinese numerals to both sets."""
    possible |= {float(value) for word, values in CHINESE_WORDS.items() if word in text for value in values}
    for whole, fraction in CHINESE_DECIMAL.findall(text):
        if len(whole) + len(fraction) > LONGEST_NUMBER:
            continue
        digits = "".join(str(CHINESE_DIGITS[c]) for c in fraction)
        possible.add(float(f"{chinese_values(whole)[0]:.0f}.{digits}"))
    for match in CHINESE_NUMERAL.finditer(text):
        numeral, (first, last) = match[0], match.span()
        if match[2]:
            numeral = numeral.translate(WITHOUT_APPROXIMATE)
        if len(numeral) > LONGEST_NUMBER:
            continue
        before, after = text[max(0, first - 1) : first], text[last : last + 4]
        values = chinese_values(numeral)
        if is_kilo := numeral[-1] == "千" and KILO.match(after) is not None:
            values += chinese_values(numeral[:-1]) if numeral[:-1] else []
        possible |= set(values)
        if has_unit := any(c in CHINESE_UNITS or c in CHINESE_SCALES for c in numeral):
            possible |= estimates(numeral)
        possible |= {CHINESE_DIGITS[c] * 1.0 for c in numeral if c in CHINESE_DIGITS}
        if after[:1] in CHINESE_MONEY:
            possible |= {value * CHINESE_MONEY[after[:1]] for value in values}
        is_about = match[2] is not None or before in APPROXIMATE or after[:1] in APPROXIMATE
        if before.isdigit() or is_about or is_kilo:
            continue
        if len(numeral) == 1:
            is_certain = numeral not in "零〇一百千万亿" and before not in ORDINAL and bool(COUNTED.match(after))
        elif has_unit:
            is_certain = numeral[0] not in "百千万亿" and is_well_formed(numeral) and bool(COUNTED.match(after))
        else:
            is_certain = len(numeral) >= 4
        if is_certain and not after.startswith(("点儿", "个劲")) and numeral + after[:1] != "四周":
            certain.add(values[0])
    for whole, part in WITH_TENTHS.findall(text):
        read_tenths(chinese_value(whole), chinese_value(part), certain, possible)
    for numeral, word in IN_TENTHS.findall(text):
        value = chinese_value(numeral)
        percent = 10 * value if value < 10 else value
        possible |= {percent, 100 - percent} if word == "折" else {percent}
        certain.discard(value)


def read_tenths(whole: float, part: float, certain: set[float], possible: set[float]) -> None:
    """Add the value of 一米八, 1米85 or 三块五 in place of its two parts."""
    certain -= {whole, part}
    number = whole + part / (10 if part < 10 else 100)
    possible |= {number, round(100 * number, 6), part, 10 * part}


def chinese_value(numeral: str) -> float:
    """Return the likeliest value of digits or Chinese numerals."""
    return float(numeral) if numeral[0].isdecimal() else chinese_values(numeral)[0]


def is_well_formed(numeral: str) -> bool:
    """Whether no two digits are adjacent, as they are in an estimate (三四十) and in digits read one by one."""
    digits = [c in CHINESE_DIGITS and c not in "零〇" for c in numeral]
    return not any(one and other for one, other in pairwise(digits))


def estimates(numeral: str) -> set[float]:
    """Return the two values that an estimate lies between: 四五十 is 40 or 50, 十七八 is 17 or 18."""
    places = [place for place in range(1, len(numeral)) if not is_well_formed(numeral[place - 1 : place + 1])]
    return {chinese_values(numeral[:cut] + numeral[cut + 1 :])[0] for place in places for cut in (place - 1, place)}


def chinese_values(numeral: str) -> list[float]:
    """Return the possible values of a sequence of Chinese numerals, the likeliest first."""
    if not any(c in CHINESE_UNITS or c in CHINESE_SCALES for c in numeral):
        digits = "".join(str(CHINESE_DIGITS[c]) for c in numeral)
        return [float(digits)]
    total = section = 0.0
    digit, unit = None, 1.0
    for character in numeral:
        if character in CHINESE_DIGITS:
            digit = CHINESE_DIGITS[character]
            unit = 1.0 if character in "零〇" else unit
        elif character in CHINESE_UNITS:
            unit = CHINESE_UNITS[character]
            section += (1 if digit is None else digit) * unit
            digit = None
        else:
            unit = CHINESE_SCALES[character]
            below = section + (digit or 0)
            # 三万亿 multiplies what stands before; in 三亿二千万 the 万 is only what follows the 亿.
            total = total + below * unit if below > 0 and total >= unit else (total + below or 1) * unit
            section, digit = 0.0, None
    plain = total + section + (digit or 0)
    if digit and unit >= 100:  # 一百五 is 150
        return [total + section + digit * unit / 10, plain]
    return [plain]


ENGLISH_BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
ENGLISH_NUMBERS = {
    **{word: value for value, word in enumerate(ENGLISH_BELOW_TWENTY.split())},
    **{word: 10 * value for value, word in enumerate(ENGLISH_TENS.split(), 2)},
}
ENGLISH_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
ENGLISH_ORDINALS_BELOW_TWENTY = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth"
)
ENGLISH_ORDINALS = {
    **dict(zip(ENGLISH_ORDINALS_BELOW_TWENTY.split(), ENGLISH_BELOW_TWENTY.split()[1:], strict=True)),
    **{f"{word[:-1]}ieth": word for word in ENGLISH_TENS.split()},
}
"""Ordinal -> the cardinal of the same number."""
MONTHS = "january february march april may june july august september october november december"
WEEKDAYS = "monday tuesday wednesday thursday friday saturday"
ENGLISH_WORDS_OF_VALUES = [
    ("once a an single another per only", (1.0,)),
    ("twice both couple pair double twins twin either neither other each weekend", (2.0,)),
    ("triple thrice triplets trio iii", (3.0,)),
    ("half", (0.5, 2.0, 30.0, 50.0)),
    ("quarter", (15.0, 45.0, 4.0, 3.0, 1.0)),
    ("quarters", (15.0, 45.0, 4.0)),
    ("dozen dozens", (12.0, 10.0)),
    ("fortnight", (2.0, 14.0)),
    ("decade decades teens tens", (10.0,)),
    ("century centuries hundreds hundredth", (100.0,)),
    ("thousands", (1000.0,)),
    ("millions", (1e6,)),
    ("billions", (1e9,)),
    ("trillions", (1e12,)),
    ("noon", (12.0,)),
    ("midnight", (12.0, 0.0)),
    ("sept", (9.0,)),
]
ENGLISH_WORDS = {
    **{word: (float(ENGLISH_NUMBERS[cardinal]),) for word, cardinal in ENGLISH_ORDINALS.items()},
    **{word: (float(value),) for value, word in enumerate(WEEKDAYS.split(), 1)},
    **{word: (float(value),) for value, word in enumerate(MONTHS.split(), 1)},
    **{word[:3]: (float(value),) for value, word in enumerate(MONTHS.split(), 1)},
    **{word: values for words, values in ENGLISH_WORDS_OF_VALUES for word in words.split()},
    **{f"{word[:-1]}ies": (float(ENGLISH_NUMBERS[word]),) for word in ENGLISH_TENS.split()},
    **{f"{word}s": (float(value),) for value, word in enumerate(ENGLISH_BELOW_TWENTY.split()) if value > 1},
}
"""Words that may say a number, or say something that the other language expresses by a number."""
ENGLISH_WORD = re.compile(r"[a-z]+|[,.;:!?]")
"""A word, or a punctuation mark, which ends a number: "At thirty, one stands firm." """


def read_english(text: str, certain: set[float], possible: set[float]) -> None:
    """Add the numbers that are written in English words to both sets."""
    words = ENGLISH_WORD.findall(text)
    for word in words:
        possible |= set(ENGLISH_WORDS.get(word, ()))
    for row, is_ordinal in runs_of_numerals(words):
        value, parts = english_value(row)
        possible |= {value, *parts}
        if is_ordinal:  # the twenty-second day is day 22, a twenty-second delay takes 20 seconds
            possible.add(english_value(row[:-1])[0])
        elif len(parts) == 2 and all(10 <= part < 100 for part in parts):  # nineteen ninety
            possible.add(parts[0] * 100 + parts[1])
        elif value != 1 and row[0] not in ENGLISH_SCALES and len(parts) == 1:
            certain.add(value)
        elif len(parts) > 1:
            certain |= {part for part in parts if part > 1}


def runs_of_numerals(words: list[str]) -> Iterator[tuple[list[str], bool]]:
    """Yield each run of adjacent numerals, and whether it ended with an ordinal, which is given as its cardinal.

    A comma after a scale word does not end a run: one thousand, five hundred. An ordinal alone is not a run.
    """
    row: list[str] = []
    for place, word in enumerate(words):
        joins = word == "and" and row and row[-1] in ENGLISH_SCALES and words[place + 1 : place + 2]
        if word == "," and row and row[-1] in ENGLISH_SCALES:
            continue
        if word in ENGLISH_NUMBERS or word in ENGLISH_SCALES:
            row.append(word)
        elif not (joins and (words[place + 1] in ENGLISH_NUMBERS or words[place + 1] in ENGLISH_ORDINALS)):
            if row:
                is_ordinal = ends_with(row[-1], ENGLISH_ORDINALS.get(word))
                yield ([*row, ENGLISH_ORDINALS[word]] if is_ordinal else row), is_ordinal
            row = []
    if row:
        yield row, False


def ends_with(last: str, cardinal: str | None) -> bool:
    """Whether an ordinal, given by its cardinal, continues the number before it.

    True for hundred and first and twenty-first, False for twenty eleventh and if there is no ordinal (None).
    """
    if cardinal is None:
        return False
    return last in ENGLISH_SCALES or (last.endswith("ty") and 0 < ENGLISH_NUMBERS[cardinal] < 10)


def english_value(row: list[str]) -> tuple[float, list[float]]:
    """Return the value of a run of numerals, and the numbers that it splits into: ten thirty is 10 and 30."""
    parts: list[float] = []
    total, section, last = 0.0, 0.0, 0
    for word in row:
        if word in ENGLISH_SCALES:
            scale = ENGLISH_SCALES[word]
            if scale == 100 and section >= 100:  # one hundred [and] two hundred are two numbers
                tail = section % 100
                parts.append(total + section - tail)
                total, section = 0.0, tail
            if scale == 100:
                section = (section or 1) * 100
            else:
                total, section = total + (section or 1) * scale, 0.0
            last = scale
            continue
        value = ENGLISH_NUMBERS[word]
        fits = last == 0 or last >= 100 or (last >= 20 and last % 10 == 0 and 0 < value < 10)
        if not fits:
            parts.append(total + section)
            total, section = 0.0, 0.0
        section += value
        last = value
    parts.append(total + section)
    return parts[0] if len(parts) == 1 else parts[-1], parts
