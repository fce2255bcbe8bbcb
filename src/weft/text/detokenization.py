"""Natural text from corpora that were published tokenized: spaces before signs, around clitics, between Chinese words.

Undoes what the scripts of Moses and of the Penn Treebank do, and the segmentation of Chinese and Japanese. The original
spacing is lost, so the usual one is restored. Natural text stays as it is. weft's own tokenizers are not concerned.
"""

import html
import re
from functools import cache

from weft.text.chinese import HAN
from weft.text.japanese import KANA
from weft.text.language import ELIDING, IN_WORDS_OF_CHARACTERS, code_of


def detokenize(text: str, language: str) -> str:
    """One line, as it would have been written by hand in this language (a code such as en, zh-CN, pt_BR).

    Escapes of Moses (`&apos;`, `@-@`) and of the Treebank (`-LRB-`) are undone in all languages. In Chinese and
    Japanese, a line without any Chinese or kana follows the rules of English.
    """
    code = code_of(language)
    if "&" in text or "@ " in text or "##" in text or "B-" in text or "b-" in text:
        text = ESCAPED.sub(unescape, text)
    if code in IN_WORDS_OF_CHARACTERS and IDEOGRAM.search(text):
        return joined_words(text) if SEGMENTED.search(text) else text
    return joined_signs(text, "en" if code in IN_WORDS_OF_CHARACTERS else code)


BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
ESCAPED = re.compile(
    r"&(?:apos|quot|amp|lt|gt|#124|#91|#93);|(?<!\S)-(?i:[lr][rsc]b)-(?!\S)| @([-,./:])@ | ##AT##(-)##AT## "
)


def unescape(found: re.Match[str]) -> str:
    return found[1] or found[2] or BRACKETS.get(found[0].lower()) or html.unescape(found[0])


# Languages with spaces between words


def joined_signs(text: str, code: str) -> str:
    """The text with signs and clitics attached to their words."""
    if " " not in text:
        return text
    if "''" in text or "`" in text:
        text = TREEBANK_SINGLE_QUOTES.sub(r"'\1'", TREEBANK_QUOTES.sub('"', text))
    if '"' in text:
        text = LONE_QUOTE.sub('"', SPACED_QUOTES.sub(r'"\1"', text))
    if " ' " in text or text.startswith("' "):
        if code == "en":
            text = APART_CONTRACTION.sub("'", text)
        text = PLURAL_POSSESSIVE.sub("'", SPACED_SINGLE_QUOTES.sub(r"'\1'", text))
    if "„" in text:
        text = LOW_QUOTES.sub(r"„\1\2", text)
    if ". ." in text:
        text = SECOND_POINT.sub("", text)
    return superfluous_space(code).sub("", text)


TREEBANK_QUOTES = re.compile(r"(?<!\S)`` | ''(?!\S)")
TREEBANK_SINGLE_QUOTES = re.compile(r"(?<!\S)` ((?:[^'`]|'(?=\S))+?) '(?!\S)")
SPACED_QUOTES = re.compile(r'(?<!\S)" ([^"]+) "(?!\w)')
# A quotation over several lines has one end in each: at the end of the line, or as the next word tells.
LONE_QUOTE = re.compile('^" | "$|(?<=[,.!?]) "(?= [a-z])|(?<=[,:] )" (?=[A-Z])')
APART_CONTRACTION = re.compile(r"(?<=\w) ' (?=(?:s|t|m|d|re|ve|ll)\b(?! '))")
# After an s, the apostrophe is that of `the dogs' tails`, unless the word is one of these.
NO_PLURAL = (r"\b[aiu]s", r"\b(?:has|his|its|was|yes)", r"\b(?:does|says|this)")
SPACED_SINGLE_QUOTES = re.compile(
    rf"(?<!\S)(?:(?<!s )|{'|'.join(f'(?<={word} )' for word in NO_PLURAL)})' ((?:[^']|'(?=\S))+?) '(?!\w)"
)
PLURAL_POSSESSIVE = re.compile(rf"(?<=s){''.join(f'(?<!{word})' for word in NO_PLURAL)} '(?= )")
LOW_QUOTES = re.compile("„ ([^„“”]+) ([“”])")
# The Treebank ends a sentence after an abbreviation with a second point.
SECOND_POINT = re.compile(r"(?<=\w\.) \.(?=[\"'”’)]*$)")

CONTRACTIONS = r"(?:n['’]t|N['’]T|['’](?:s|m|d|re|ve|ll|S|M|D|RE|VE|LL|clock))(?!['’\w])"
ELISIONS = (
    "(?<=[Qq]u['’] )",
    "(?<=urd['’] )",
    "(?<=ll['’] )",
    r"(?<=\b[Uu]n['’] )",
    r"(?<=\b[cdjlmnstvCDJLMNSTV]['’] )",
)
"""Look-behinds for the space after jusqu', aujourd', dell', un' and l'."""
LOW_QUOTING = {
    *("bg", "bs", "cs", "de", "et", "hr", "hu", "is", "ka"),
    *("lt", "lv", "mk", "pl", "ro", "sk", "sl", "sq", "sr"),
}
"""Languages in which “ closes; ” may open or close."""
REVERSING = {"de", "da", "sl", "hr", "sr", "bs", "cs", "sk", "hu"}
"""Languages that also write »so«."""
JOINING_PERCENT = {"en", "zh", "ja", "ko"}
"""Languages that write 5% and $5; in most others a space belongs there."""


@cache
def superfluous_space(code: str) -> re.Pattern[str]:
    """The pattern of a space that a tokenizer inserted, in the language of this code. It begins with a literal space,
    which makes the search fast; look-behinds see what stands before the space."""
    low = (".,…" if code == "fr" else ".,;:!?…") + "،؛؟۔।॥"
    closes_low = "“" if code in LOW_QUOTING else ""
    opening = "(\\[{‘„¿¡" + ("" if code in LOW_QUOTING else "“") + ("" if code in REVERSING | {"fr"} else "«")
    closing = ")\\]}" + ("" if code in LOW_QUOTING else "”") + ("" if code in REVERSING | {"fr"} else "»")
    places = [
        # a sign at the end of a word, unless it begins a smiley or a number
        rf"(?=(?![:;]\))[{low}]+(?![^\s\"'”’»{closes_low})\]}}]))",
        f"(?<![(\\[{{] )(?=[{closing}])",
        f"(?<=[\\s\"'“‘(\\[][{opening}] )",
        f"(?<=^[{opening}] )",
        r"(?=’(?!\w))",
        r"(?<=\d )(?=/ \d)",
        r"(?<=\d / )(?=\d)",
    ]
    if code in JOINING_PERCENT:
        places += [r"(?<=\d )(?=%)", r"(?<=[$£€¥] )(?=\d)"]
    if code == "en":
        places += [f"(?={CONTRACTIONS})", r"(?<=n )(?=['’]t\b)", r"(?<=\d : )(?=[0-5]\d\b)", *CLIPPED]
    if code in ELIDING:
        places += [rf"{elision}(?=\w)" for elision in ELISIONS]
    return re.compile(f" (?:{'|'.join(places)})")


CLIPPED = (
    r"(?<=\b(?i:gon|wan) )(?=na\b)",
    r"(?<=\b(?i:got|out) )(?=ta\b)",
    r"(?<=\b(?i:gim|lem) )(?=me\b)",
    r"(?<=\band )(?=/ or\b)",
    r"(?<=\band / )(?=or\b)",
)
"""gonna, wanna, gotta, outta, gimme and lemme, which the Treebank cuts in two; and/or, which Moses does."""


# Languages without


WIDE_SIGNS = "\u3001-\u3004\u3006\u3008-\u303f\uff01-\uff60“”‘’…—·・゠"
IDEOGRAM = re.compile(f"[{HAN}{KANA}]")
# A space between two characters, before a sign that closes or after one that opens: natural text has none of these.
SEGMENTED = re.compile(
    rf"[{HAN}{KANA}・] [{HAN}{KANA}・]| [，。！？；：、）》」』】”…]|[（《「『【“] | [,.:;!?](?: |$)"
)
SPACED_QUOTES_OF_SEGMENTS = re.compile(r'(?:(?<=[,:]) |(?<!\S))" ([^"]+) "(?!\S)')
SPACE_OF_SEGMENTS = re.compile(
    rf" (?:(?=[{HAN}{KANA}{WIDE_SIGNS}])|(?<=[{HAN}{KANA}{WIDE_SIGNS}] )"
    rf"|(?=[,.;:!?%]+(?![^\s\"'){HAN}{KANA}{WIDE_SIGNS}]))|(?<=[(\[] )|(?=[)\]])|(?<=[$£€¥] )(?=\d)"
    r"|(?<=\d : )(?=[0-5]\d\b)|(?=[-~/&@+] )|(?<= [-~/&@+] ))"
)


def joined_words(text: str) -> str:
    """The text without spaces, except those between Latin words and numbers."""
    if '"' in text:
        text = SPACED_QUOTES_OF_SEGMENTS.sub(r'"\1"', text)
    return SPACE_OF_SEGMENTS.sub("", text)
