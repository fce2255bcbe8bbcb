"""Punctuation in one form: that of a keyboard (ASCII), or that of Chinese print.

Corpora write one quotation mark in ten ways. The caller chooses the form, whatever the language. Numbers (3.14, 1,000,
12:30), URLs, e-mail addresses and abbreviations keep their signs. The conversion is idempotent.
"""

import re
from itertools import cycle
from typing import Literal

from weft.text.chinese import HAN, IS_HAN

Punctuation = Literal["keep", "ascii", "chinese"]

# The end of a sentence

CERTAIN_ENDS = "。！？｡।॥؟۔։።፧။៕᠃᠉"
"""Signs of Chinese, Devanagari, Arabic, Armenian, Ethiopic, Burmese, Khmer and Mongolian script, which always end a
sentence."""
NARROW_ENDS = ".!?．‼⁇⁈⁉﹒﹖﹗"
ELLIPSES = "…⋯"
CLOSING = "\"'”’»›」』》〉﹂﹄)）\\]］】〕}"


def unify_punctuation(text: str, punctuation: Punctuation) -> str:
    """A normalized text (see normalization.py) with its punctuation in this form.

    `chinese` is meant for Chinese sentences; a text of other letters only, such as a name, is written in `ascii`.
    """
    if punctuation == "keep":
        return text
    if punctuation == "chinese" and (IS_HAN.search(text) or not WORD.search(text)):
        return in_chinese(text)
    return in_ascii(text)


WORD = re.compile(r"\w")
APOSTROPHES = "'’"

# Full-width signs with an ASCII twin. Those of ＜＝＞ are left out: a combining accent could compose with them.
FULL_WIDTH = {
    chr(code): chr(code - 0xFEE0)
    for code in range(0xFF01, 0xFF5F)
    if not chr(code).isalnum() and chr(code) not in "＜＝＞"
}


# ASCII


def in_ascii(text: str) -> str:
    """Quotation marks of all kinds straight, full-width signs narrow with the spaces that narrow ones need, an em dash
    --, other dashes -, an ellipsis three points."""
    if not text.isascii():
        text = FRENCH_QUOTES.sub(r'"\1"', text)
        text = MISSING_SPACE.sub(" ", SPACE_BEFORE_WIDE.sub("", text))
        text = EM_DASHES.sub("--", text).translate(ASCII_FORMS)
    text = DOUBLED_QUOTES.sub('"', BACKTICK_IN_WORD.sub("'", text))
    return ASCII_DOTS.sub("...", text)


ASCII_FORMS = str.maketrans(
    FULL_WIDTH
    | dict.fromkeys("“”„‟〝〞〟«»″「」｢｣《》﹁﹂", '"')
    | dict.fromkeys("‘’‚‛‹›′´ʼ『』〈〉﹃﹄", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")  # hyphens, figure dash, en dash, minus
    | {"。": ".", "｡": ".", "、": ",", "､": ",", "【": "[", "】": "]", "〔": "[", "〕": "]"}
    | {"…": "...", "⋯": "..."}
)
# In French a space belongs inside; in German, which turns these marks around, one belongs outside.
FRENCH_QUOTES = re.compile(r"(?<!\w)« ([^«»]*) »")
SPACE_BEFORE_WIDE = re.compile(" (?=[，。！？；：、）】〕》〉」』])")
WIDE_OPENING, WIDE_CLOSING = "（【〔《〈「『", "，。！？；：、）】〕》〉」』"
# A wide sign brings its space along, but not inside a number, nor where it stays next to Chinese.
MISSING_SPACE = re.compile(
    rf"(?<=[{WIDE_CLOSING}])(?!(?<=\d[，：])\d)(?=[^\W{HAN}]|[“‘{WIDE_OPENING}])|(?<=[^\W{HAN}])(?=[{WIDE_OPENING}])"
)
EM_DASHES = re.compile("[\u2014\u2015]+(?: [\u2014\u2015]+)*")
DOUBLED_QUOTES = re.compile("(?<!')''(?!')|(?<!`)``(?!`)")
BACKTICK_IN_WORD = re.compile(r"(?<=[^\W\d_])`(?=[^\W\d_])")
ASCII_DOTS = re.compile(r"\.(?: ?\.){2,}")


# Chinese


def in_chinese(text: str) -> str:
    """，。！？；：（） next to a Chinese character or at the end of the sentence, “” and ‘’, —— and ……, all without
    spaces around them. Between Latin words and inside numbers signs stay as they are.
    """
    text = text.translate(CHINESE_FORMS)
    kept = PROTECTED.findall(text)
    if kept:
        text = PROTECTED.sub(PLACEHOLDER, text)
    text = DOTS.sub(as_ellipsis, text)
    text = DASHES.sub(as_dash, text)
    text = WIDE_COLON_IN_NUMBER.sub(":", APOSTROPHE.sub("'", text))
    text = with_paired_quotes(text)
    text = PARENTHESES.sub(as_wide_parentheses, text)
    text = SIGNS.sub(as_wide_signs, text)
    text = STRAY_SPACE.sub("", text)
    if kept:
        texts = iter(kept)
        text = re.sub(PLACEHOLDER, lambda _: next(texts), text)
    return text


CHINESE_FORMS = str.maketrans(
    {wide: narrow for wide, narrow in FULL_WIDTH.items() if wide not in "，！？；：（）～"}
    | dict(zip("﹐﹑﹔﹕﹖﹗﹙﹚｡､", "，、；：？！（）。、", strict=True))
    | dict(zip("「」｢｣﹁﹂〝〞〟«»『』﹃﹄‹›", "“”“”“”“””“”‘’‘’‘’", strict=True))
    | {"⋯": "…"}
)
# A control character, which a normalized text does not hold, stands where text must not be touched.
PLACEHOLDER = "\x00"
PROTECTED = re.compile(
    # a URL, without the signs that end the sentence; parentheses are part of it as in /Mercury_(planet)
    r"\b(?:[A-Z]+://|www\.)(?:(?!\.{4}|\.{3}(?!\w))[\w!#$%&*+,./:;=?@~-]|(?<=[_/-])\([\w!#$%&*+,./:;=?@~-]*\))*"
    r"(?:[\w/#=&~-]|(?<=[\w!#$%&*+,./:;=?@~-]\)))"
    r"|\b\w{1,64}(?:[.%+-]\w{1,64}){0,8}@[\w-]+(?:\.[\w-]+)+"  # an e-mail address
    r"|&#?\w{1,31};",  # an HTML entity
    re.ASCII | re.IGNORECASE,
)
DOTS = re.compile("[.。…]+(?: [.。…]+)*")
DASHES = re.compile("( ?)([\u2014\u2015\u2500-]+(?: [\u2014\u2015\u2500-]+)*)( ?)")
WIDE_COLON_IN_NUMBER = re.compile(r"(?<=\d) ?： ?(?=\d)")
APOSTROPHE = re.compile("(?<=[A-Za-z])[‘’](?=[A-Za-z])")
SINGLE_QUOTES = re.compile("(?<![A-Za-z0-9])'([^'‘’]++)'(?![A-Za-z0-9])")
PARENTHESES = re.compile("[(（]([^()（）]*+)[)）]")
SIGNS = re.compile(r"""[ ,.;:!?，。；：！？、…“”‘’"'()（）《》\[\]【】]+""")
STRAY_SPACE = re.compile(
    rf" (?=[，。；：！？、…（）《》【】])|(?<=[，。；：！？、…（）《》【】]) "
    rf"|(?<=[{HAN}]) (?=[“”‘’])|(?<=[“”‘’]) (?=[{HAN}])"
)


def as_ellipsis(run: re.Match[str]) -> str:
    dots = run[0].replace(" ", "")
    return "……" if "…" in dots or len(dots) > 2 or dots == "。。" else run[0]


def as_dash(run: re.Match[str]) -> str:
    """Two long dashes, or two hyphens next to a Chinese character, are a dash; a single one may mean `to`."""
    is_long = len(run[2]) - run[2].count("-") - run[2].count(" ") > 1
    is_next_to_han = is_han_at(run.string, run.start() - 1) or is_han_at(run.string, run.end())
    return "——" if is_long or ("--" in run[2] and is_next_to_han) else run[0]


def is_han_at(text: str, place: int) -> bool:
    return 0 <= place < len(text) and IS_HAN.match(text[place]) is not None


def with_paired_quotes(text: str) -> str:
    """Straight quotation marks alternately open and close; an odd number of them is left as it is. Single ones count
    only around Chinese: others may be apostrophes."""
    first, *rest = text.split('"')
    if len(rest) % 2 == 0:
        text = first + "".join(mark + part for mark, part in zip(cycle("“”"), rest, strict=False))
    return SINGLE_QUOTES.sub(lambda quoted: f"‘{quoted[1]}’" if IS_HAN.search(quoted[1]) else quoted[0], text)


def as_wide_parentheses(pair: re.Match[str]) -> str:
    """Wide if one of the two is, or if Chinese is inside or before them: 函数（f(x)） keeps the inner ones."""
    before = pair.start() - 1
    if pair.string[max(before, 0)] == " ":
        before -= 1
    is_wide = pair[0][0] == "（" or pair[0][-1] == "）" or IS_HAN.search(pair[1]) or is_han_at(pair.string, before)
    return f"（{pair[1]}）" if is_wide else pair[0]


# Not the colon of a smiley, nor one of several points.
NARROW_SIGN = re.compile(r"[,;!?]|:(?! ?[)）])|(?<![.。…])(?<![.。…] )\.(?! ?[.。…])")
WIDE_SIGNS = dict(zip(",;:!?.", "，；：！？。", strict=True))


def as_wide_signs(run: re.Match[str]) -> str:
    """The signs of a run in the form that the characters before and after it ask for. Quotation marks, parentheses and
    spaces are part of the run, so that they do not hide the Chinese text that a sign belongs to."""
    text, end = run.string, run.end()
    is_last = end == len(text)
    is_after_han = is_han_at(text, run.start() - 1)
    if not (is_after_han or is_last or is_han_at(text, end)):
        return run[0]

    def widened(sign: re.Match[str]) -> str:
        if sign[0] == ".":
            # Not in 文件.txt and 例子.com; in 1.苹果 and J.K.罗琳; after etc and U.S at the end.
            is_inside_name = sign.end() == len(run[0]) and not is_last and text[end].isascii() and text[end].isalnum()
            is_abbreviation = ABBREVIATION.search(text, max(0, run.start() - 5), run.start()) is not None
            if is_inside_name or not (is_after_han or (is_last and not is_abbreviation)):
                return "."
        return WIDE_SIGNS[sign[0]]

    return NARROW_SIGN.sub(widened, run[0])


ABBREVIATION = re.compile(r"\.[A-Za-z]$|(?<![A-Za-z])(?:etc|[Ii]nc|Ltd|Co|Corp|Jr|Sr|Dr|Mr|Mrs|Ms|St|No|vs)$")
