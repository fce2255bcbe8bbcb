"""All scores of a translated set: the published ones by sacrebleu, and those of the courses.

sacreBLEU (Post, 2018), chrF (Popović, 2015) and TER (Snover et al., 2006) are computed by the sacrebleu library and
have its signatures; their values are percentages as published. The tokenizer of sacreBLEU depends on the target
language, and an unsuitable one is refused. Text is scored as it is, without normalization or change of script.
References come in sets (see `references`).
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from weft.errors import UsageError, WeftError
from weft.metrics.course_bleu import MAX_ORDER, course_bleu, exact_match
from weft.metrics.language import main_language
from weft.metrics.references import ReferenceSets, references_by_sentence
from weft.metrics.score import Score, Scores
from weft.text.language import is_written_without_spaces

TOKENIZERS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none")
"""Tokenizers of sacrebleu that need no network; the two with MeCab need a library."""

_DOWNLOADING = frozenset({"spm", "flores101", "flores200", "spBLEU-1K"})
_BY_WHITE_SPACE = frozenset({"13a", "intl", "none"})
"""Tokenizers that need white space. `zh` does too, except around Han characters."""
_OWN_TOKENIZER = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_SPLIT_BY_TERCOM = frozenset({"zh", "ja"})


def score_translations(
    hypotheses: Sequence[str],
    references: ReferenceSets,
    language: str,
    ignore_punctuation: bool = False,
    tokenizer: str | None = None,
) -> Scores:
    """bleu_1 .. bleu_4, exact_match (0..1), sacrebleu, chrf (0..100) and ter (edits in 100 words).

    `references[k][i]` is the k-th reference of hypothesis i, None or blank if there is none; `language` is the code of
    the target language. `ignore_punctuation` applies to the BLEU of the courses only, `tokenizer` to sacreBLEU only.
    Raises CorpusError for sets of unequal length and sentences without a reference, UsageError for an invalid language
    or tokenizer, WeftError if the library of the tokenizer is not installed.
    """
    counts = course_bleu(hypotheses, references, language, ignore_punctuation)
    return Scores(
        len(hypotheses),
        (
            *(counts.score(order) for order in range(1, MAX_ORDER + 1)),
            exact_match(hypotheses, references),
            sacre_bleu(hypotheses, references, language, tokenizer),
            chrf(hypotheses, references),
            ter(hypotheses, references, language),
        ),
    )


def sacre_bleu(
    hypotheses: Sequence[str], references: ReferenceSets, language: str, tokenizer: str | None = None
) -> Score:
    """Corpus sacreBLEU in 0..100, by default with the tokenizer of the language."""
    metric = bleu_metric(language, tokenizer)
    result = metric.corpus_score(hypotheses, sacrebleu_sets(hypotheses, references))
    detail = {
        "precisions": tuple(result.precisions),
        "brevity_penalty": result.bp,
        "hypothesis_length": result.sys_len,
        "reference_length": result.ref_len,
    }
    remark = (
        f"n-gram precisions {'/'.join(f'{share:.1f}' for share in result.precisions)}, brevity penalty {result.bp:.3f} "
        f"({result.sys_len:,} tokens, {result.ref_len:,} in the references)"
    )
    return Score("sacrebleu", result.score, "0..100", metric.get_signature().format(), detail, remark=remark)


def chrf(hypotheses: Sequence[str], references: ReferenceSets) -> Score:
    """Corpus chrF2 in 0..100: character n-grams up to 6, without white space."""
    metric = CHRF()
    result = metric.corpus_score(hypotheses, sacrebleu_sets(hypotheses, references))
    return Score("chrf", result.score, "0..100", metric.get_signature().format())


def ter(hypotheses: Sequence[str], references: ReferenceSets, language: str) -> Score:
    """Corpus translation edit rate in edits per 100 words of the references; lower is better.

    In a language without spaces the words are single characters. tercom splits Chinese and the Chinese characters of
    Japanese itself, but only when it also normalizes, and leaves kana together; Thai and the like are split here, as
    the signature says.
    """
    main = main_language(language)
    splits = main in _SPLIT_BY_TERCOM
    apart = is_written_without_spaces(main) and not splits
    metric = TER(normalized=splits, asian_support=splits)
    lines, *sets = (
        [line and " ".join(line) if apart else line for line in texts]
        for texts in (hypotheses, *sacrebleu_sets(hypotheses, references))
    )
    result = metric.corpus_score(lines, sets)
    detail = {"edits": result.num_edits, "reference_length": result.ref_length}
    signature = metric.get_signature().format() + ("|unit:character" if apart else "")
    return Score("ter", result.score, "edits in 100 words", signature, detail)


def sentence_scores(hypotheses: Sequence[str], references: ReferenceSets, language: str) -> list[tuple[float, float]]:
    """BLEU (exponential smoothing; orders up to the length of the sentence) and chrF2 of each sentence, in 0..100.

    They help to find good and bad sentences; their mean is not the score of the corpus.
    """
    bleu, character = bleu_metric(language, None, of_sentences=True), CHRF()
    pairs = zip(hypotheses, references_by_sentence(hypotheses, references), strict=True)
    return [(bleu.sentence_score(*pair).score, character.sentence_score(*pair).score) for pair in pairs]


def tokenizer_for(language: str, tokenizer: str | None = None) -> str:
    """The sacreBLEU tokenizer of a target language, or `tokenizer` if it is suitable: zh, ja-mecab, ko-mecab, char for
    Thai and others without spaces between words, else 13a.

    Raises UsageError for one that is unknown, that downloads its model, or that needs white space between words in a
    language without it.
    """
    main = main_language(language)
    own = _OWN_TOKENIZER.get(main, "char" if is_written_without_spaces(main) else "13a")
    if tokenizer is None:
        return own
    if tokenizer in _DOWNLOADING:
        raise UsageError(
            f"the tokenizer {tokenizer} downloads its model when it is used, and weft scores without the network; "
            f"use {own}"
        )
    if tokenizer not in TOKENIZERS:
        raise UsageError(f"there is no tokenizer {tokenizer!r}; choose from {', '.join(TOKENIZERS)}")
    looks_for_spaces = tokenizer in _BY_WHITE_SPACE or (tokenizer == "zh" and own == "char")
    if looks_for_spaces and is_written_without_spaces(main):
        raise UsageError(
            f"the tokenizer {tokenizer} cannot score {language}, which has no spaces between words: a sentence "
            f"would count as one word; use {' or '.join(dict.fromkeys((own, 'char')))}"
        )
    return tokenizer


def bleu_metric(language: str, tokenizer: str | None, of_sentences: bool = False) -> BLEU:
    """BLEU of sacrebleu for a target language; raises as `tokenizer_for`, and WeftError without a required library."""
    name = tokenizer_for(language, tokenizer)
    try:
        # force: silences advice about detokenizing, which names an option that weft does not have.
        return BLEU(tokenize=name, effective_order=of_sentences, force=True)
    except RuntimeError as error:
        if not name.endswith("-mecab"):
            raise
        extra = name.removesuffix("-mecab")
        raise WeftError(
            f"sacreBLEU for {language} needs the tokenizer {name}, whose libraries are not installed; install "
            f"them with: pip install 'sacrebleu[{extra}]', or score with: weft score --tokenizer char"
        ) from error


def sacrebleu_sets(hypotheses: Sequence[str], references: ReferenceSets) -> list[Sequence[str]]:
    """The sets as sacrebleu takes them: None, despite its annotations, for a missing reference."""
    return cast(list[Sequence[str]], list(zip_longest(*references_by_sentence(hypotheses, references))))
