"""WordPiece as in BERT (Devlin et al. 2019), trained and applied by Hugging Face's tokenizers library.

A text is split at white space, around punctuation and around every Chinese character; what is between is spelled in
the longest pieces of the vocabulary, with `##` before all but the first of a word. A word that cannot be spelled is one
<unk>. The spaces of the text are lost, so `normalize` gives the usual spacing, which is what `decode` writes (see
`space_between`). The library's own decoder cleans up single pieces only: it writes don ' t, well - known and 3. 14, and
restores 64 % of the English lines of zh-en-50k as they were written, these rules 99 %. BERT's cleaning is applied too:
format characters, such as those that join emoji, are removed.
"""

import itertools
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from weft.errors import MissingExtraError, ModelError, Problem, refuse_one_string
from weft.text.chinese import convert_script
from weft.text.language import ELIDING, code_of
from weft.text.normalization import Forms, Normalization, in_form, in_forms, normalize
from weft.text.punctuation import APOSTROPHES, unify_punctuation
from weft.text.sentencepiece_model import has_many_characters
from weft.text.vocabulary import (
    SPECIAL_PIECES,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    Vocabulary,
    count_tokens,
    is_tag,
    read_tokens,
    read_vocabulary,
    size_message,
)
from weft.text.vocabulary_tokenizer import VocabularyTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as HuggingFaceTokenizer

CONTINUED = "##"
BERT_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
"""BERT's names of padding, unknown, begin and end."""

HAN_BLOCKS = (
    range(0x4E00, 0xA000),
    range(0x3400, 0x4DC0),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B820),
    range(0x2B920, 0x2CEB0),
    range(0xF900, 0xFB00),
    range(0x2F800, 0x2FA20),
)
CHINESE_SIGNS = "，。！？；：、（）《》〈〉「」『』【】〔〕·"
OPENING, CLOSING = "([{“‘„‚#$¿¡", ".,!?;:)]}”’…%،؛؟۔।॥"
LOW_QUOTES = {"„": "“”", "‚": "‘’"}
"""The closing marks of „Ja“ and ‚ja‘."""
SUFFIXING, DIVIDING = {"tr", "az"}, {"uk", "be"}
"""Languages with Ankara'da, and with п'ять."""
JOINING = "-/_@‐‑–—"
AFTER_APOSTROPHE = {"s", "t", "d", "m", "ll", "re", "ve", "clock"}
ELIDED = (
    "l d j c n m t s qu jusqu lorsqu puisqu quoiqu quelqu presqu aujourd entr dell all nell sull dall coll un nessun "
    "alcun ciascun quest quell bell sant tutt mezz dov cos com anch"
)
BEFORE_APOSTROPHE = frozenset(ELIDED.split())
"""Before a word that begins with a vowel or h: l'amour, dell'arte, quest'anno."""
LONGEST_SUFFIX = 5
"""Letters of a Turkish suffix behind a name or a number: Ankara'da, Ali'nin, 2019'dan, İstanbul'daki."""


class WordPieceTokenizer(VocabularyTokenizer):
    """A tokenizer over a vocabulary of word pieces, for a language or several joined by +."""

    def __init__(self, vocabulary: Vocabulary, *, language: str, **forms: Unpack[Forms]) -> None:
        super().__init__(vocabulary, **forms)
        self._form: Normalization = forms.get("normalization", "nfc")
        self._spell = bert_pipeline(vocabulary)
        self._languages = frozenset(map(code_of, language.split("+")))

    def normalize(self, text: str) -> str:
        spaced = self._spaced(text)
        # A sign in another form may change the spaces, and these the form of another sign. Two rounds have been enough
        # for all texts tried; the bound keeps any text from looping.
        for _ in range(8):
            unified = unify_punctuation(spaced, self.forms.get("punctuation", "keep"))
            if unified == spaced or (again := self._spaced(unified)) == spaced:
                break
            spaced = again
        # Converted last, so that phrases of characters that only come together here are found.
        return convert_script(spaced, self.forms.get("script", "keep"))

    def _spaced(self, text: str) -> str:
        return join(cut(self._spell, text, self._form), self._form, self._languages)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        refuse_one_string(texts, "encode")
        encoded = self._spell.encode_batch_fast([self.normalize(text) for text in texts], add_special_tokens=False)
        return [sentence.ids for sentence in encoded]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return [join(self._words([int(i) for i in sentence]), self._form, self._languages) for sentence in ids]

    def count_unknown(self, ids: Sequence[Sequence[int]]) -> tuple[int, int]:
        unknown = words = 0
        for sentence in ids:
            unknown += sentence.count(UNKNOWN_ID)
            words += sum(not self.vocabulary.tokens[i].startswith(CONTINUED) for i in sentence)
        return unknown, words

    def _words(self, ids: Sequence[int]) -> list[str]:
        words: list[str] = []
        for i in ids:
            token = self.vocabulary.tokens[i]
            if i == UNKNOWN_ID:
                words.append(UNKNOWN_TEXT)
            elif token in SPECIAL_PIECES or is_tag(token):
                continue
            elif token.startswith(CONTINUED) and token != CONTINUED and words:
                words[-1] += token.removeprefix(CONTINUED)
            else:
                words.append(token)
        return words


def train_wordpiece(
    texts: Iterable[str],
    *,
    vocab_size: int,
    language: str,
    tags: Sequence[str] = (),
    **forms: Unpack[Forms],
) -> tuple[WordPieceTokenizer, str | None]:
    """Learn pieces from these texts; also returns a message if they are fewer or more than asked for.

    The library merges the most frequent pair, as BPE does. Raises CorpusError if there is no text at all,
    MissingExtraError if the library is not installed.
    """
    cutter = bert_pipeline(Vocabulary(SPECIAL_PIECES))
    form = forms.get("normalization", "nfc")
    counts = count_tokens((cut(cutter, in_forms(text, **forms), form) for text in texts), language)
    characters = frequent_characters(counts, share=0.9995 if has_many_characters(language) else 1.0)
    spellable = {word: count for word, count in sorted(counts.items()) if characters.issuperset(word)}
    tokens = learn_pieces(cutter, spellable, (*SPECIAL_PIECES, *tags), vocab_size)
    tokenizer = WordPieceTokenizer(Vocabulary(tuple(tokens)), language=language, **forms)
    return tokenizer, size_message(language, len(tokens), vocab_size)


def read_wordpiece(data: bytes, path: Path, *, language: str, **forms: Unpack[Forms]) -> WordPieceTokenizer:
    """The tokenizer in a vocabulary of weft's own; raises ModelError with every line that is wrong."""
    return WordPieceTokenizer(read_vocabulary(data, path), language=language, **forms)


def frequent_characters(counts: Counter[str], share: float) -> set[str]:
    """The most frequent characters, which together make up this share of all."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    ranked = sorted(characters, key=lambda character: (-characters[character], character))
    covered = itertools.accumulate((characters[character] for character in ranked), initial=0)
    return {
        character for character, before in zip(ranked, covered, strict=False) if before < share * characters.total()
    }


def learn_pieces(
    cutter: "HuggingFaceTokenizer", words: dict[str, int], first: Sequence[str], vocab_size: int
) -> list[str]:
    """The tokens in `first`, the characters of the words, alone and with ##, and the merged pieces.

    The library numbers the ## characters in the random order of a hash table, and ties between pairs depend on these
    numbers. Passing the characters in order makes the result a function of the words.
    """
    from tokenizers import trainers

    behind = sorted({CONTINUED + character for word in words for character in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[*first, *behind],
        limit_alphabet=len({character for word in words for character in word}),
        continuing_subword_prefix=CONTINUED,
    )
    repeated = (word for word, count in words.items() for word in itertools.repeat(word, count))
    cutter.train_from_iterator(repeated, trainer)
    ids = cutter.get_vocab(with_added_tokens=False)
    return sorted(ids, key=lambda token: ids[token])


def bert_vocabulary(data: bytes, path: Path, tags: Sequence[str] = ()) -> Vocabulary:
    """A vocabulary of BERT in weft's order: the special pieces come first, missing tags are appended.

    The pieces in the places of the special ones swap with them, so every other id stays as it was. Special pieces have
    BERT's names or weft's. Raises ModelError with all that is wrong in the file `path`.
    """
    tokens = read_tokens(data, path)
    places = {token: place for place, token in enumerate(tokens)}
    problems = []
    for special, (ours, theirs) in enumerate(zip(SPECIAL_PIECES, BERT_PIECES, strict=True)):
        found = places.get(ours, places.get(theirs))
        if found is None:
            problems.append(Problem("the file", f"lacks {theirs}; a vocabulary of BERT has {', '.join(BERT_PIECES)}"))
            continue
        tokens[found], tokens[special] = tokens[special], ours
        places |= {tokens[found]: found, ours: special}
    if problems:
        raise ModelError(path, problems)
    return Vocabulary((*tokens, *(tag for tag in tags if tag not in places)))


def check_tokenizers() -> None:
    """Raise MissingExtraError without Hugging Face's library, which every use of WordPiece needs."""
    if find_spec("tokenizers") is None:
        raise MissingExtraError("Hugging Face's tokenizers library", "tokenizers")


def bert_pipeline(vocabulary: Vocabulary) -> "HuggingFaceTokenizer":
    """The library's pipeline of cased BERT over this vocabulary.

    No token is declared as special or added: the library would look for such tokens in the text.
    """
    check_tokenizers()
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    # One thread: with more, the library prints a warning when the process forks later.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    unknown = SPECIAL_PIECES[UNKNOWN_ID]
    pipeline = Tokenizer(models.WordPiece(vocab=vocabulary.ids, unk_token=unknown, continuing_subword_prefix=CONTINUED))
    pipeline.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)  # pyright: ignore[reportAttributeAccessIssue]
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    return pipeline


def cut(pipeline: "HuggingFaceTokenizer", text: str, form: Normalization) -> list[str]:
    """The words, signs and Chinese characters of a text, before they are spelled in pieces."""
    assert pipeline.normalizer is not None and pipeline.pre_tokenizer is not None
    cleaned = pipeline.normalizer.normalize_str(normalize(text, form))
    # Once more: the new neighbors of a removed character may compose.
    return [word for word, _ in pipeline.pre_tokenizer.pre_tokenize_str(normalize(cleaned, form))]


# Spacing


def join(words: Sequence[str], form: Normalization, languages: Set[str] = frozenset()) -> str:
    """The text of words as `cut` gives them; `cut` splits it into the same words again. The apostrophes of English are
    known, and those of `languages`, codes of two letters."""
    return "".join(parts(words, form, languages))


def parts(words: Sequence[str], form: Normalization, languages: Set[str]) -> Iterator[str]:
    """The words and the spaces between them. Straight quotation marks alternately open and close.

    A space depends on the next word at most, so that a translation can be shown while it grows: the rules of
    detokenization.py, which see the whole line, would move the spaces around a quotation mark once it is closed.
    """
    is_open = dict.fromkeys("\"'", False)
    before, opens = "", False
    roles = with_closing_quotes(words)
    for place, (written, word) in enumerate(zip(words, roles, strict=True)):
        after = roles[place + 1] if place + 1 < len(words) else ""
        is_quote = word == '"' or (word == "'" and not is_apostrophe(before, after, languages))
        closes = is_quote and is_open[word]
        if is_quote:
            is_open[word] = not closes
        if opens or closes:
            wants_space = False
        elif is_quote:
            wants_space = not is_chinese_sign(before) and before not in OPENING
        else:
            wants_space = space_between(roles, place, languages)
        if place and (wants_space or not stays_apart(words[place - 1], written, form)):
            yield " "
        yield written
        before, opens = word, is_quote and not closes


def with_closing_quotes(words: Sequence[str]) -> Sequence[str]:
    """The words, with ” or ’ for a “ or ‘ that closes a quotation opened by „ or ‚."""
    if LOW_QUOTES.keys().isdisjoint(words):
        return words
    roles, closing = list(words), [""]
    for place, word in enumerate(words):
        if word in LOW_QUOTES:
            closing.append(LOW_QUOTES[word])
        elif word in closing[-1] and closing[-1]:
            roles[place] = closing.pop()[1]
    return roles


def space_between(words: Sequence[str], place: int, languages: Set[str]) -> bool:
    """Whether a space comes before the word at this place, unless it is a quotation mark.

    There is none next to a Chinese character or sign, before closing and after opening signs, around hyphens, dashes,
    slashes, `_` and `@`, and inside 3.14, 10:30, 1,000, U.S., don't, l'amour and o'clock.
    """
    if not place:
        return False
    before, word = words[place - 1], words[place]
    after = words[place + 1] if place + 1 < len(words) else ""
    if is_chinese_sign(before) or is_chinese_sign(word):
        return False
    if before in OPENING or word in CLOSING or before in JOINING or word in JOINING:
        return False
    if word in APOSTROPHES:
        return not is_apostrophe(before, after, languages)
    if place == 1:
        return True
    earlier = words[place - 2]
    if before in APOSTROPHES:
        return not is_apostrophe(earlier, word, languages)
    if before in "”’" and word in OPENING and is_chinese_sign(earlier):
        return False
    return not is_in_number(earlier, before, word) and not (before == "." and are_initials(earlier, word))


def is_in_number(earlier: str, sign: str, word: str) -> bool:
    """Whether a sign is inside a number, such as 3.14 or 10:30; a comma only as in 1,000."""
    if not (earlier[-1].isdecimal() and word[0].isdecimal()):
        return False
    return sign in ".:" or (sign == "," and len(word) == 3 and len(earlier) <= 3)


def is_apostrophe(before: str, after: str, languages: Set[str]) -> bool:
    """Whether ' between these two is an apostrophe, as in don't, o'clock, O'Brien, l'amour, Ankara'da or п'ять."""
    if not before.isalnum():
        return False
    if after.lower() in AFTER_APOSTROPHE or (before == "O" and after[:1].isupper()):
        return True
    begins = unicodedata.normalize("NFD", after.lower())[:1]
    if languages & ELIDING and before.lower() in BEFORE_APOSTROPHE and begins in tuple("aeiouyhœæ"):
        return True
    is_suffix = after.isalpha() and after.islower() and len(after) <= LONGEST_SUFFIX
    if languages & SUFFIXING and is_suffix and (before[0].isupper() or before.isdecimal()):
        return True
    return bool(languages & DIVIDING) and before[-1].lower() in CYRILLIC_CONSONANTS and begins in tuple("яюєіеё")


CYRILLIC_CONSONANTS = frozenset("бвгґджзйклмнпрстфхцчшщ")


def are_initials(before: str, after: str) -> bool:
    """Whether a period between these two is inside U.S. or p.m.; after the word I it ends a sentence."""
    return len(before) == len(after) == 1 and before.isalpha() and after.isalpha() and "I" not in (before, after)


def is_chinese_sign(word: str) -> bool:
    """Whether the word is a Chinese character or a sign as wide as one, which includes its own space."""
    return len(word) == 1 and (word in CHINESE_SIGNS or is_han(ord(word)))


def is_han(code: int) -> bool:
    """Whether the library treats this code point as a Chinese character."""
    return any(code in block for block in HAN_BLOCKS)


def stays_apart(before: str, word: str, form: Normalization) -> bool:
    """Whether the two, written without a space, are still two after normalization: a mark may compose with what it
    follows."""
    together = before + word
    return word.isascii() or in_form(together, form) == together
