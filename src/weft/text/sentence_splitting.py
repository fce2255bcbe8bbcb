"""Splits text into sentences, and text without sentence ends into parts that are short enough.

A sentence ends at one of Unicode's sentence-ending characters, depending on the context: brackets, quotation marks, the
case of the next letter, and abbreviations listed here for some languages. In doubt there is no split, since two
sentences in one part do less harm than a torn one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from weft.text.detokenization import IDEOGRAM
from weft.text.language import code_of
from weft.text.punctuation import CERTAIN_ENDS, CLOSING, ELLIPSES, NARROW_ENDS
from weft.text.words import mark_ranges


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text in this language (a code such as zh, en, pt_BR); joined, they are the text.

    White space belongs to the sentence before it. Each part has a letter or a digit unless the whole text has none. The
    empty text has no parts.
    """
    sentences: list[str] = []
    begin = 0
    for end in sentence_ends(text, code_of(language)):
        sentences.append(text[begin:end])
        begin = end
    if sentences and not WORD.search(text, begin):
        sentences[-1] += text[begin:]
    elif text:
        sentences.append(text[begin:])
    return sentences


def cut_to_length(text: str, is_short_enough: Callable[[str], bool]) -> list[str]:
    """The text in parts that are short enough, halved as often as needed; joined, they are the text.

    Each cut is at the best place in the middle half: after a comma or the like, after a space, or before a letter, so
    that no accent is separated from its letter.
    """
    done: list[str] = []
    waiting = [text]
    while waiting:
        part = waiting.pop()
        if len(part) < 2 or is_short_enough(part):
            done.append(part)
        else:
            place = best_cut(part)
            waiting += [part[place:], part[:place]]
    return done


# Where sentences end


SPACED_CLOSING = {"fr": "|[ \u00a0\u202f][»›]"}
"""By language, further closing marks: « Viens ! »"""


def end_in(code: str) -> re.Pattern[str]:
    """The pattern of a possible end of a sentence in this language."""
    closing = f"(?:[{CLOSING}]{SPACED_CLOSING.get(code, '')})*"
    return re.compile(
        rf"(?P<signs>[{CERTAIN_ENDS}{NARROW_ENDS}{ELLIPSES}]+)(?P<closing>{closing})(?P<gap>\s*)"
        r"|(?P<paragraph>[\n\r\v\f\x85\u2028\u2029]\s*)"
    )


LINE_END = re.compile(r"[\n\r\v\f\x85\u2028\u2029]")
WORD = re.compile(r"[^\W_]")


def sentence_ends(text: str, code: str) -> Iterator[int]:
    """The places between two sentences, in order, found in linear time."""
    brackets = Brackets(text)
    begin = looked_at = 0
    has_word = False
    for found in end_in(code).finditer(text):
        if found.end() == len(text):
            return
        has_word = has_word or WORD.search(text, looked_at, found.start()) is not None
        looked_at = found.start()
        is_paragraph = LINE_END.search(found[0]) is not None
        if has_word and (is_paragraph or (brackets.allow(begin, found) and is_end(text, begin, found, code))):
            yield found.end()
            begin = looked_at = found.end()
            has_word = False


class Brackets:
    """Brackets, in which no sentence ends unless they enclose all of it. A bracket must close within 300 characters.

    To be asked from left to right.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._following = BRACKETED.finditer(text)
        self._next = next(self._following, None)

    def allow(self, begin: int, end: re.Match[str]) -> bool:
        """Whether a sentence that began at `begin` may end with this match."""
        while self._next is not None and self._next.end() <= end.start():
            self._next = next(self._following, None)
        if self._next is None or self._next.start() > end.start():
            return True
        is_sentence = not self.text[begin : self._next.start()].strip()
        return is_sentence and end.end("closing") >= self._next.end()


BRACKETED = re.compile(r"[(（\[［【〔][^()（）\[\]［］【】〔〕]{0,300}[)）\]］】〕]")


def is_end(text: str, begin: int, found: re.Match[str], code: str) -> bool:
    """Whether these signs end the sentence that began at `begin`, judged by their context."""
    signs, closing, gap = found["signs"], found["closing"], found["gap"]
    before, after = text[max(begin, found.start() - 40) : found.start()], text[found.end() : found.end() + 16]
    if NEVER_FIRST.match(after) or (not gap and GOES_ON.match(after)):
        return False
    if closing and not gap and (IS_SAID.match(after) or is_quoted_inside(text, begin, found)):
        return False
    if not gap and signs[-1] in "？！" and IS_SAID_IN_JAPANESE.match(after):  # なぜ？と聞いた。
        return False
    if any(sign in CERTAIN_ENDS for sign in signs):
        return True
    if not gap:  # Really?真的！ but 1.苹果 and file.txt
        is_ellipsis = signs[0] in ELLIPSES or signs.startswith("..")
        is_point = signs in ".．"
        is_chinese = IDEOGRAM.match(after) is not None and (not is_point or IDEOGRAM.match(before[-1:]) is not None)
        return is_chinese and not is_ellipsis
    if after.lstrip(DASHES)[:1].islower():
        return False
    return signs not in ".．" or bool(closing) or not is_abbreviation(before, after, code)


NEVER_FIRST = re.compile("[,，、;；:：%％)）」』”’·]")
GOES_ON = re.compile("[…⋯~～—–-]")
DASHES = "—–- \u00a0"
"""Characters before the rest of a sentence, as in — Да! — сказал он."""
IS_SAID_IN_JAPANESE = re.compile("と(?!ても|ころ|きどき|にかく|りあえず|もかく|うとう|つぜん)|って")
IS_SAID = re.compile(rf"{IS_SAID_IN_JAPANESE.pattern}|[^\s，。！？；：“”「」,.!?]{{0,8}}?[说說道问問喊叫答]")
"""“你好！”他说。 and 「はい。」と答えた。 are one sentence."""


def is_quoted_inside(text: str, begin: int, found: re.Match[str]) -> bool:
    """Whether the mark that closes here, without a space after it, ends a title or a quotation inside a sentence.

    《谁动了我的奶酪？》是一本书。 is one sentence; but a quotation at the beginning of a sentence, or after a colon or
    comma, is speech that ends it.
    """
    mark = found.end("closing") - 1
    if text[mark] in CLOSING_TITLES:
        return True
    opening = OPENING_OF.get(text[mark])
    if opening is None or text[found.end("signs") - 1] in POINTS:
        return False
    opened = text.rfind(opening, max(begin, found.start() - LONGEST_QUOTATION), found.start())
    before = text[max(begin, opened - LONGEST_OPENING) : max(begin, opened)].rstrip(BEFORE_QUOTATIONS)
    is_role = text[mark] == "」" and len(before) <= LONGEST_ROLE  # 店員「はい！」
    return opened >= 0 and before != "" and not is_role and before[-1] not in BRINGING_SPEECH


POINTS = ".．。｡"
"""A quotation that ends with one of these always ends the sentence."""
CLOSING_TITLES = "》〉"
OPENING_OF = {"”": "“", "’": "‘", "»": "«", "›": "‹", "」": "「", "』": "『", "﹂": "﹁", "﹄": "﹃", '"': '"'}
BEFORE_QUOTATIONS = " \t\u3000“‘«‹「『﹁﹃\"'"
BRINGING_SPEECH = ":：,，—;；…⋯.．、)）】］]道说說问問喊叫答"
LONGEST_QUOTATION, LONGEST_OPENING, LONGEST_ROLE = 300, 8, 4
"""Characters of a quotation, of the context before it, and of the speaker's name in a play."""


def is_abbreviation(before: str, after: str, code: str) -> bool:
    """Whether the period between these two belongs to the word before it."""
    found = last_word().search(before)
    if found is None:
        return False
    word = found[0].casefold()
    if word in MAY_END and FIRST_WORD.match(after):
        return False
    if word in BEFORE_NAMES["en"] or word in BEFORE_NAMES.get(code, ()):
        return True
    if after[0].isdigit() and BEFORE_NUMBERS.fullmatch(word):
        return True
    if word[0].isdigit():
        is_of_list = not before[: found.start()].strip()  # 1. Begin here
        is_ordinal = code in WITH_ORDINALS and len(word) <= 2  # am 3. Mai
        return is_of_list or is_ordinal
    is_initial = len(word) == 1 and found[0] != "I" and not IDEOGRAM.match(word)  # J. Smith
    return is_initial or are_initials(found[0].split("."))


def are_initials(letters: Sequence[str]) -> bool:
    """Whether they are initials such as U.S, J.R.R, А.С, พ.ศ, after which a sentence usually continues."""
    return len(letters) > 1 and all(
        len(letter) == 1 and letter.isalpha() and not letter.islower() and not IDEOGRAM.match(letter)
        for letter in letters
    )


@cache
def last_word() -> re.Pattern[str]:
    """The pattern of a word with its accents and vowel signs, or of several joined by periods, such as z.B."""
    word = rf"[^\W_](?:[^\W_]|[{mark_ranges()}])*"
    return re.compile(rf"{word}(?:\.{word})*$")


BEFORE_NAMES: dict[str, frozenset[str]] = {
    code: frozenset(words.split())
    for code, words in {
        "en": "mr mrs ms mx dr prof rev hon gen col maj capt lt sgt cpl adm gov sen rep pres st mt ft messrs vs viz cf "
        "e.g i.e al approx dept jr sr inc corp bros ltd ph.d rs a.m p.m",
        "de": "hr fr frl dipl ing bzw ca d.h z.b u.a usw vgl s.o s.u evtl ggf inkl max min str geb nr mio mrd tsd sog "
        "bspw",
        "fr": "mm mme mlle mgr me p.ex env av bd",
        "es": "sr sra srta sres dña ud uds av avda p.ej pág núm dra ee",
        "it": "sig sigg dott ing avv es pag art",
        "pt": "sr sra srta dra av ex pág núm exmo",
        "nl": "dhr mevr mw bijv nl d.w.z o.a",
        "ru": "гг ул им стр т.е т.к т.п проф акад руб тыс",
        "hi": "डॉ श्री प्रो पं सु",
    }.items()
}
"""By language, words whose period does not end a sentence, except those in MAY_END; English ones apply to all."""
MAY_END = frozenset(["jr", "sr", "inc", "corp", "bros", "ltd", "ph.d", "mio", "mrd", "tsd", "a.m", "p.m"])
"""Words that may also end a sentence, if a word in FIRST_WORD follows."""
FIRST_WORD = re.compile(
    r"(?:I|You|He|She|It|We|They|The|An?|This|That|These|Those|There|But|And|So|If|In|On|At|What|How|Who|When|Where|Why"
    r"|Ich|Du|Er|Sie|Es|Wir|Ihr|Der|Die|Das|Ein|Eine|Und|Aber|Dies|Diese|Im)\b"
)
BEFORE_NUMBERS = re.compile(
    "nos?|nr|figs?|eqs?|vols?|pp|ch|chap|sect?|art|para?|ex|ed|tab|abb|abs|kap|bd|núm|ca"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|mär|mrz|okt|dez|janv|févr|avr|juil|déc|ene|abr|dic|fev|ott"
)
"""Words whose period does not end a sentence if a number follows."""
WITH_ORDINALS = {"de", "da", "no", "nb", "nn", "fi", "et", "lv", "cs", "sk", "sl", "hr", "sr", "hu", "pl", "is", "tr"}
"""Languages that write "third" as "3."."""


# Cutting text without sentence ends


def best_cut(text: str) -> int:
    """A place near the middle of a text of at least two characters."""
    middle, quarter = len(text) // 2, len(text) // 4
    for kind in CUTS:
        places = (found.end() for found in kind.finditer(text, quarter, len(text) - quarter))
        inside = [place for place in places if 0 < place < len(text)]
        if inside:
            return min(inside, key=lambda place: abs(place - middle))
    return middle


CUTS = (
    re.compile(rf"(?:[,:](?!\d)|[，、;；：—–…])[{CLOSING}]*\s*"),
    re.compile(r"\s+"),
    re.compile(r"(?<!\u200d)(?=[^\W_])"),
)
"""From best to worst: after a comma or the like, after a space, before a letter or digit."""
