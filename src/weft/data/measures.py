"""Measure texts and pairs of texts: length, scripts, numbers, markup, damage.

Thresholds are in `doctor` and `cleaning`. To measure millions of texts, rare patterns are searched in many texts at
once (`texts_with`), and characters are counted by table (`count_characters`).
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from weft.data.numerals import ENGLISH_NUMBERS, ENGLISH_SCALES, missing_numbers, numbers_in
from weft.text.chinese import characters_of_one_script, converter, is_chinese
from weft.text.japanese import KANA
from weft.text.language import code_of, is_in_words_of_characters, is_written_without_spaces
from weft.text.words import mark_ranges

# Characters

SCRIPTS: dict[str, tuple[tuple[int, int], ...]] = {
    "latin": (
        (0x41, 0x5A),
        (0x61, 0x7A),
        (0xC0, 0xD6),
        (0xD8, 0xF6),
        (0xF8, 0x24F),
        (0x1E00, 0x1EFF),
        (0xFF21, 0xFF3A),
        (0xFF41, 0xFF5A),
    ),
    "han": ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3347F)),
    "kana": tuple((ord(first), ord(last)) for first, last in re.findall("(.)-(.)", KANA)),
    "hangul": ((0x1100, 0x11FF), (0x3131, 0x318E), (0xAC00, 0xD7A3)),
    "cyrillic": ((0x400, 0x52F),),
    "greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "arabic": ((0x620, 0x6FF), (0x750, 0x77F)),
    "hebrew": ((0x5D0, 0x5F4),),
    "thai": ((0xE00, 0xE7F),),
    "devanagari": ((0x900, 0x97F),),
}
"""Scripts that are distinguished, with their code point ranges; letters of other scripts only count as `letters`."""

OTHER, ANY = "other", "any"
"""Pseudo-scripts: any script that is not in SCRIPTS, and all scripts together."""

LANGUAGES_BY_SCRIPTS: dict[tuple[str, ...], str] = {
    ("han",): "zh yue wuu lzh",
    ("han", "kana"): "ja",
    ("hangul", "han"): "ko",
    ("cyrillic",): "ru uk bg be mk ky tg tt ba cv sah ce os mn",
    ("cyrillic", "latin"): "sr uz kk az",
    ("greek",): "el",
    ("arabic",): "ar fa ur ug ps sd ckb prs arz pnb",
    ("arabic", "latin"): "ku",
    ("hebrew",): "he yi",
    ("thai",): "th",
    ("devanagari",): "hi mr ne sa",
    (OTHER,): "bn as pa gu or ta te kn ml si ka hy am ti km lo my bo dz dv",
    ("latin",): "en de fr es it pt nl ca gl eu oc ast sv da no nb nn is fo fi et lv lt pl cs sk sl hr bs hu ro sq mt "
    "ga gd cy br tr tk vi id ms jv su ceb tl fil haw mi sm mg sw rw ny sn zu xh st tn so ha yo ig wo ht eo la lb af fy "
    "rm",
}
SCRIPTS_OF_LANGUAGES = {code: scripts for scripts, codes in LANGUAGES_BY_SCRIPTS.items() for code in codes.split()}
"""Language -> its scripts, the commonest first; a language that is not listed has ANY."""

LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters that some programs take for the end of a line."""

DIRECTION_MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

KINDS = (
    *SCRIPTS,
    "letters",
    "digits",
    "word characters",
    "line breaks",
    "controls",
    "full width",
    "traditional",
    "simplified",
)
BITS = {kind: np.uint32(1 << place) for place, kind in enumerate(KINDS)}


def script_of(language: str) -> tuple[str, ...]:
    """Return the scripts of a language, given by its code: zh, zh-Hant, en, pt_BR."""
    return SCRIPTS_OF_LANGUAGES.get(code_of(language), (ANY,))


def count_characters(texts: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Count the characters of each of KINDS in every text, and all `characters` and `words`.

    A word is a run of letters and digits; each Han and kana character is a word. Each array has one entry per text.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = kinds_of_characters()[codes]
    present = np.bitwise_or.reduce(kinds)
    sums = np.zeros(len(codes) + 1, np.int64)

    def count(there: NDArray[np.bool_]) -> NDArray[np.int64]:
        np.cumsum(there, out=sums[1:])
        return sums[ends] - sums[starts]

    counts = {
        kind: count((kinds & bit) != 0) if present & bit else np.zeros(len(texts), np.int64)
        for kind, bit in BITS.items()
    }
    in_word = (kinds & BITS["word characters"]) != 0
    alone = (kinds & (BITS["han"] | BITS["kana"])) != 0
    begins = in_word.copy()
    if len(codes):
        begins[1:] &= ~in_word[:-1] | alone[:-1] | alone[1:]
        first = starts[lengths > 0]
        begins[first] = in_word[first]
    return {**counts, "characters": lengths, "words": count(begins)}


@cache
def kinds_of_characters() -> NDArray[np.uint32]:
    """Return the bits of the kinds of each code point."""
    table = np.zeros(0x110000, np.uint32)
    for code in range(0x33480):
        character = chr(code)
        if character.isalpha():
            table[code] |= BITS["letters"] | BITS["word characters"]
        elif character.isdigit():
            table[code] |= BITS["digits"] | BITS["word characters"]
        elif unicodedata.category(character) in ("Mn", "Mc"):  # accents, and the vowels of Indian and Thai script
            table[code] |= BITS["word characters"]
        elif unicodedata.category(character) == "Cc":
            table[code] |= BITS["controls"]
    for script, ranges in SCRIPTS.items():
        for first, last in ranges:
            table[first : last + 1] |= BITS[script]
    # Joiners are part of the spelling of some languages. U+200B is so only in Khmer and the like, and direction marks
    # are in languages written from right to left (doctor/checks.py).
    for character in "\u200b\u2060\ufeff\ufffe\u00ad\ufff9\ufffa\ufffb\ufffc\u180e\U000e0001" + DIRECTION_MARKS:
        table[ord(character)] |= BITS["controls"]
    table[0xE000:0xF900] |= BITS["controls"]  # private use
    for character in LINE_BREAKS:
        table[ord(character)] = BITS["line breaks"]
    table[ord("\t")] = 0
    table[0xFF10:0xFF1A] |= BITS["full width"]
    table[0xFF21:0xFF3B] |= BITS["full width"]
    table[0xFF41:0xFF5B] |= BITS["full width"]
    table[0x3000] |= BITS["full width"]
    for name, characters in zip(("traditional", "simplified"), characters_of_one_script(), strict=True):
        table[[ord(character) for character in characters]] |= BITS[name]
    return table


def length(counts: dict[str, NDArray[np.int64]], language: str) -> NDArray[np.int64]:
    """Return the length of each text: characters of Chinese and Japanese, words of other languages.

    Words are estimated from the letters in languages without spaces, such as Thai. White space and punctuation are not
    counted.
    """
    if not is_written_without_spaces(language):
        return counts["words"]
    letters = sum(of_script(counts, script) for script in script_of(language))
    others = np.ceil((counts["letters"] - letters + counts["digits"]) / LETTERS_OF_A_FOREIGN_WORD)
    own = letters if is_in_words_of_characters(language) else np.ceil(letters / LETTERS_OF_AN_UNDIVIDED_WORD)
    return (own + np.maximum(others, 0)).astype(np.int64)


LETTERS_OF_A_FOREIGN_WORD = 3
LETTERS_OF_AN_UNDIVIDED_WORD = 4
"""Letters of Thai, Lao, Khmer, Burmese and Tibetan for a word of English: 3.4 to 4.4 in the first article of the
Universal Declaration of Human Rights."""


def share_of_script(counts: dict[str, NDArray[np.int64]], language: str) -> NDArray[np.float64]:
    """Return the share of each text in the script of the language, 1 for texts without letters.

    Two Han characters weigh as much as five letters, so that a long foreign name does not outweigh a sentence.
    """
    if script_of(language) == (ANY,):
        return np.ones(len(counts["letters"]))
    weights = {script: 2.5 if script == "han" else 1.0 for script in (*SCRIPTS, OTHER)}
    weighed = {script: weight * of_script(counts, script) for script, weight in weights.items()}
    whole = sum(weighed.values())
    own = sum(weighed[script] for script in script_of(language))
    return np.where(whole > 0, own / np.maximum(whole, 1), 1.0)


def of_script(counts: dict[str, NDArray[np.int64]], script: str) -> NDArray[np.int64]:
    """Return the number of letters of a script in each text."""
    if script == OTHER:
        return np.maximum(counts["letters"] - sum(counts[listed] for listed in SCRIPTS), 0)
    return counts[script]


# Rare patterns


def texts_with(pattern: re.Pattern[str], texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the indices of the texts that match a pattern; it must not match a line break."""
    joined = "\n".join(texts)
    if joined.count("\n") != len(texts) - 1:
        joined = "\n".join(text.replace("\n", " ") for text in texts)
    found = np.fromiter((match.start() for match in pattern.finditer(joined)), np.int64)
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    return np.unique(np.searchsorted(ends, found, side="right"))


MARKUP = re.compile(
    r"</?[A-Za-z][\w:.-]{0,30}(?:[^\S\n]+(?:[\w:.-]{1,40}[^\S\n]?=[^\S\n]?(?:\"[^\"<>\n]{0,200}\"|'[^'<>\n]{0,200}'"
    r"|[^\s<>\"']{1,200})|checked|controls|disabled|download|hidden|noshade|nowrap|readonly|required|selected)){0,20}"
    r"[^\S\n]{0,3}/?>"  # tags; not a < b and c > d
    r"|&(?:[A-Za-z]{2,8}|#\d{1,6}|#x[0-9A-Fa-f]{1,6});"  # entities
    r"|\{\\[A-Za-z][^}\n]{0,40}\}"  # subtitle styles, {\an8}
    r"|\{\{[^{}\n]{1,80}\}\}|\[\[[^\[\]\n]{1,80}\]\]"  # wiki templates and links
    r"|\[/(?:url|img|quote|color|size|[biu])\]|\[(?:url|img|quote|color|size)=[^\]\n]{0,80}\]"
    r"|(?<![A-Za-z0-9_])\[(?:url|img|quote)\]"  # boards; not array[i], array[url], [size]
    r"|<!--|\\(?:[nrt](?![A-Za-z])|u[0-9A-Fa-f]{4}|[\"'])"  # comments, escapes that were never undone
)

REPETITION = re.compile(
    r"([^\W\d_])(?<=\1\1)\1{6,}"
    r"|\b(\w{2,20}+(?:[^\S\n]\w{1,20}+){0,3}?)(?:(?:[^\S\n]|[,.!?、，。！？])++\2\b){3,}"
    r"|(?=[\u4e00-\u9fff]{8})([\u4e00-\u9fff]{2,6})\3{3,}"
    r"|([(（\[【][^()（）\[\]【】\n]{1,20}[)）\]】])(?:[^\S\n]?\4){3,}"
)
"""One letter eight times in a row, or one word, phrase or remark in brackets four times. The lookbehind makes it twice
as fast."""

WESTERN_RUN = re.compile(
    "[\x80-\xff\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u2026\u2030\u2039\u203a\u20ac\u2122]{2,}"
)
EASTERN_RUN = re.compile(r"[^\x00-\xff]{3,}")


def has_mojibake(text: str) -> bool:
    """Whether a text was decoded with the wrong encoding.

    True if it has U+FFFD, or a run of Western characters that is valid UTF-8 when encoded as Windows-1252 or Latin-1
    ("â€™" for ’), or a run of Han characters that is valid UTF-8 when encoded as GB 18030 (浣犲ソ for 你好).
    """
    if "\ufffd" in text or "锟斤拷" in text:
        return True
    western = WESTERN_RUN.finditer(text)
    if any(is_utf8_read_as_western(match[0], text[match.end() : match.end() + 1]) for match in western):
        return True
    return any(is_utf8_read_as_gb(match[0]) for match in EASTERN_RUN.finditer(text))


def is_utf8_read_as_western(run: str, after: str) -> bool:
    """Whether a run begins with bytes of UTF-8; its end may be good text that follows without a space.

    `after` is the character after the run, if there is one.
    """
    data = b"".join(western_byte(character) for character in run)
    try:
        good = len(data) if len(data.decode("utf-8")) < len(data) else 0
    except UnicodeDecodeError as error:
        good = error.start
    if good == 3:
        are_signs = SIGNS_IN_A_ROW.issuperset(run[1:3]) and run[1] not in OPENING_SIGNS
        return run[0] not in LETTERS_BEFORE_SIGNS or not are_signs
    if good != 2:
        return good > 3
    # A letter of two bytes also looks like a capital or ß before punctuation: „zum Spaß“, BLESSÉ…
    follows = (run[2:] + after)[:1]
    return run[0] in FIRST_OF_LETTERS and (run[1] not in CLOSING_SIGNS or follows.isalpha())


FIRST_OF_LETTERS = "ÂÃÄÅÎÏÐÑ×ØÙ"
"""Characters as which the first bytes of Latin, Greek, Cyrillic, Hebrew and Arabic letters are decoded."""
CLOSING_SIGNS = "‘’“”…–—›»™•€²³"
"""Signs that good text may have after such a letter; „ and ‚ open, and are the second byte of ń and ł."""
LETTERS_BEFORE_SIGNS = "àáâãäåæçèéêëìíîï"
SIGNS_IN_A_ROW = frozenset("\u00a0«»‹›‘’“”„…–—°·")
"""Signs of which good text may have two after one of LETTERS_BEFORE_SIGNS: „Café“…, « là\u00a0»."""
OPENING_SIGNS = "«‹„"


def western_byte(character: str) -> bytes:
    try:
        return character.encode("cp1252")
    except UnicodeEncodeError:
        return character.encode("latin-1", "replace")


def is_utf8_read_as_gb(run: str) -> bool:
    """Whether a run is valid UTF-8 when encoded as GB 18030; Chinese text hardly ever is for three characters."""
    read = run.encode("gb18030", "replace").decode("utf-8", "replace")
    good = sum("\u3000" <= character < "\ufff0" for character in read)
    return good >= 2 and good > 2 * read.count("\ufffd")


def texts_with_mojibake(texts: Sequence[str]) -> list[int]:
    """Return the indices of the texts that `has_mojibake`, which is only called for candidates."""
    suspects: list[int] = np.union1d(texts_with(WESTERN_RUN, texts), texts_with(SUSPICIOUS_HAN, texts)).tolist()
    return [place for place in suspects if has_mojibake(texts[place])]


# Han characters that UTF-8 bytes of Chinese text become under GB 18030, and that are rare otherwise.
SUSPICIOUS_HAN = re.compile("[\ufffd\ue000-\uf8ff锟浣犲鎴戜绛鏄鐨勪鍒涓澶鍙鍦閭杩欒鏃鏂鎵鍥鍚嬬銆傛锛]")


# Words

HAN_OR_KANA = f"\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003347f{KANA}"


@cache
def token_pattern() -> re.Pattern[str]:
    """A Han or kana character, or a run of letters; vowels of Hindi and Thai are marks after a letter."""
    letter = rf"[^\W_{HAN_OR_KANA}]"
    return re.compile(rf"[{HAN_OR_KANA}]|{letter}+(?:[{mark_ranges()}]+{letter}*)*")


def tokens(text: str) -> list[str]:
    """Return the words of a text for comparison: NFKC, Traditional to Simplified, lower case, no punctuation.

    Chinese and Japanese are split into characters.
    """
    if not text.isascii():
        text = converter("t2s").convert(unicodedata.normalize("NFKC", text))
    return token_pattern().findall(text.lower())


def may_be_alike(sources: Sequence[str], targets: Sequence[str], languages: tuple[str, str]) -> NDArray[np.bool_]:
    """Return a mask of the pairs whose translation may have the same `tokens`.

    True only between Chinese and Japanese, or Traditional and Simplified, for pairs that differ as written and for
    pairs without kana that are as short as a name.
    """
    if not all(map(is_in_words_of_characters, languages)):
        return np.zeros(len(sources), np.bool_)
    pairs = zip(sources, targets, strict=True)
    return np.array([s != t or (len(s) <= LONGEST_NAME and not IS_KANA.search(s)) for s, t in pairs], np.bool_)


LONGEST_NAME = 12
IS_KANA = re.compile(f"[{KANA}]")


# Languages that share a script

FUNCTION_WORDS = {
    "en": "the a an and or but if of to in on at for from with by as is are was were be been am do does did have has "
    "had i you he she it we they me him her us them my your his its our their this that these those what who "
    "how when where why which not no yes can could will would shall should may must there here than then so "
    "very just too up out about into over all some any more s t m ll re ve d don let two three while after before "
    "because only other most many much such between during through near under around both each off one",
    "de": "der die das und ist nicht ein eine einen einem einer eines ich du er sie es wir ihr mit auf für von zu im "
    "den dem des sich auch an als wie aus bei nach über vor oder aber wenn dass sind hat haben wird werden war "
    "kein keine mein dein sein seine seinem seinen ihre ihrem ihren vom zum zur am in einigen beim unter durch "
    "neben steht sitzt um habe bin wurde wurden sagte diese dieser dieses ihm ihn uns noch schon nur mehr kann "
    "können muss gegen ohne zwischen sehr hier zwei drei seit bis wo was warum meine deine bitte",
    "fr": "le la les un une des et est dans pour sur avec qui que ne pas je tu il elle nous vous ils elles ce cette "
    "ces de du au aux par mais ou où son sa ses mon ma mes sont était être ont très plus en qu l c j n a ai suis "
    "votre notre vos nos leur leurs aussi comme bien fait deux même après quand merci beaucoup à",
    "es": "el la los las un una y es en de que no por para con su sus se lo del al como pero más está están son yo "
    "tú él ella nosotros ellos este esta esto mi muy qué hay fue ser tiene a usted ya también nunca cuando donde "
    "dónde cómo mucho todos sobre desde hasta porque ha he había tengo puede gracias sé",
    "it": "il lo la gli le i un una e è di che non per con su si del della dei al alla come ma più sono io tu lui "
    "lei noi voi loro questo questa mio molto nel nella da ho ha in a delle degli alle abbiamo hanno anche così "
    "quando cosa grazie mi ti nostri nostra mai",
    "pt": "o a os as um uma e é de que não por para com se do da dos das no na em mas mais eu você ele ela nós eles "
    "este esta isso meu muito foi ser está são ao aos à às pelo pela seu sua minha onde nunca também quando tem "
    "nesta neste obrigado estava estavam pode até seus suas vai",
    "nl": "de het een en is niet ik je hij zij wij van op te dat die voor met aan zijn er maar om ook als bij naar "
    "of wat dit was heeft hebben deze mijn in u waar nog nooit moet haar hun geen meer kunt uit worden",
}
"""The commonest words of the languages in Latin script that are distinguished."""

SHARED_WORDS = {
    "de": "all alle da her hier na per plus so will d i s",
    "fr": "as dit dos lui me met non on os se si te d m s t y",
    "es": "come cosa da dos has he le les me nos o os si te ti tu van ve",
    "it": "all fa me ne no se so sua sé si te vai d m s t",
    "pt": "come como desde esta la las lo los me nos ou sobre te ti todos tu",
    "nl": "alle been des had her hier les let me over plus we wie d i m s t",
}
"""Words of a language that are in the list of another one, where they are common; they do not tell the two apart."""

ENGLISH_TOO = (
    "die war hat den mit bin dem des come met van son per ha ho la los las el plus pour par con al non um er os om ma "
    "mon com te mi se"
)
"""Words of the other lists that also occur in English, or in English names."""


@cache
def voters(own: str) -> dict[str, frozenset[str]]:
    """Language -> its words that vote against `own`: none of the words of `own`, single letters only of English."""
    return {
        language: frozenset(word for word in words.split() if len(word) > 1 or language == "en") - own_words(own)
        for language, words in FUNCTION_WORDS.items()
        if language != own
    }


@cache
def foreign_words(own: str) -> frozenset[str]:
    """The words of `voters` that hardly occur in `own` by chance; the others only vote together with these."""
    by_chance = ENGLISH_TOO.split() if own == "en" else []
    return frozenset(word for words in voters(own).values() for word in words if len(word) > 1).difference(by_chance)


@cache
def own_words(own: str) -> frozenset[str]:
    """The words that do not vote against this language."""
    return frozenset((FUNCTION_WORDS[own] + " " + SHARED_WORDS.get(own, "")).split())


ADDRESS = re.compile(r"[A-Za-z]{2,10}+://\S+|\bwww\.\S+|[\w.+-]{1,64}+@\S+")
WORD = re.compile(r"[^\W\d_]+")
LEAST_SHARE = 0.125
"""Least share of the words of a text that vote for another language."""


def other_language(text: str, words: Sequence[str], language: str) -> str | None:
    """Return the language in Latin script that a text is in instead of `language`; None if there is none.

    Different function words vote, except those in addresses. Another language needs more words that `language` lacks
    than the text has words of `language` that the other lacks. Two such words suffice. A single one may be part of a
    name; it suffices if the text has no word of `language`, and a lower-case word with a letter beyond a to z (or, if
    ENGLISH_TOO words vote with it, any other lower-case word). `words` are the text's `tokens`.
    """
    own = code_of(language)
    if own not in FUNCTION_WORDS or foreign_words(own).isdisjoint(words):
        return None
    there = set(tokens(ADDRESS.sub(" ", text)) if ADDRESS.search(text) else words)
    votes = {voted: there & of_language for voted, of_language in voters(own).items()}
    best = max(votes, key=lambda voted: len(votes[voted]))
    clear, for_own = len(votes[best] & foreign_words(own)), len(there & own_words(own) - own_words(best))
    if not clear or len(votes[best]) <= for_own or len(votes[best]) < LEAST_SHARE * len(there):
        return None
    if clear >= 2:
        return best
    others = [w for w in WORD.findall(text) if w[0].islower() and len(w) > 1 and w not in votes[best]]
    is_sentence = bool(others) if len(votes[best]) > 1 else not all(map(str.isascii, others))
    return best if is_sentence and not for_own else None


# Numbers

ENGLISH_ABOVE_ONE = "|".join(word for word, value in (ENGLISH_NUMBERS | ENGLISH_SCALES).items() if value > 1)
HOLDS_A_NUMBER = {
    "zh": re.compile(r"[\d零〇二两兩三四五六七八九十百千万萬亿億拾佰仟廿卅]"),
    "en": re.compile(rf"\d|\b(?:{ENGLISH_ABOVE_ONE})\b", re.IGNORECASE),
}
"""A sign of a number in Chinese, and in any other language."""


def pairs_with_other_numbers(
    sources: Sequence[str], targets: Sequence[str], source_language: str, target_language: str
) -> dict[int, list[float]]:
    """Return the pairs in which one side has a number that the other lacks: index -> those numbers."""
    holding = [
        texts_with(HOLDS_A_NUMBER["zh" if is_chinese(language) else "en"], texts)
        for texts, language in ((sources, source_language), (targets, target_language))
    ]
    places: list[int] = np.union1d(*holding).tolist()
    found = {}
    for place in places:
        source, target = (
            numbers_in(texts[place], language, of_pair=(source_language, target_language))
            for texts, language in ((sources, source_language), (targets, target_language))
        )
        if missing := missing_numbers(source, target):
            found[place] = missing
    return found
