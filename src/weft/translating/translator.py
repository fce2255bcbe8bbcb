"""`Translator`: strings in, translations out.

`translate_n_best` has all the steps: tokenize, search (decoding/search.py), decode.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property, partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.data.encoding import tag_ids
from weft.data.measures import pairs_with_other_numbers
from weft.data.sentences import Sentences
from weft.decoding.demands import Constraint, Demands, Joins, Phrase
from weft.decoding.ensemble import Ensemble
from weft.decoding.mbr import FINALISTS, Utility, minimum_bayes_risk, probabilities_of
from weft.decoding.search import DecodingConfig, refuse_constraints, search_steps
from weft.decoding.step import Hypothesis, Searching, StepFunction, to_the_end
from weft.errors import UsageError, is_count
from weft.folders.model_folder import TranslationModel
from weft.runtime import PRECISIONS, Precision, choose_device, choose_precision, map_in_threads
from weft.text.chinese import Script, convert_back, convert_translation, is_chinese, script_of_code
from weft.text.copying import Copies, before_end, has_word, with_end_of
from weft.text.growing import settled_part
from weft.text.normalization import is_blank, normalize
from weft.text.vocabulary import BEGIN_ID, END_ID
from weft.translating.alternatives import Alternative, find_alternatives
from weft.translating.arguments import (
    changed_decoding,
    check_same_vocabulary,
    checked_phrases,
    checked_prefixes,
    checked_texts,
    utility_of,
)
from weft.translating.batches import (
    LONGEST_SOURCE,
    batches_by_length,
    computing_in,
    copies_in,
    encode_prefixes,
    encode_sources,
    in_lock_order,
    sampling_seeds,
)
from weft.translating.glossary import (
    Glossary,
    Term,
    Terms,
    as_glossary,
    constraint_of,
    joins_of,
    signed_words,
    space_of,
)
from weft.translating.language_models import with_language_models
from weft.translating.memory import Remembered, TranslationMemory, as_memory
from weft.translating.stand_ins import apply_stand_ins, usable_stand_ins
from weft.translating.translation import Translation, with_different_texts

SAMPLES_TOGETHER = 16
"""Most samples that share one encoding of a text. More samples are drawn from copies of the text, since a search with
few rows per sentence saves more than the copies cost, and each copy leaves the batch with its longest sample."""

SHOWN_TERMS = 20
"""Most unspellable terms that an error lists."""

SEARCHES_AT_ONCE = 2
"""Most parallel searches on a CPU, each of which computes while the other one runs Python code."""

GPU_FACTOR = 8
"""Multiple of decoding.batch_tokens on a GPU, where eight times as many rows take about as long."""


class Translator:
    """Translates with one model or an ensemble, whose first model determines everything except the scores.

    A translation does not depend on the other texts of the call. Threads may share a translator; calls wait for each
    other.
    """

    most_searches = SEARCHES_AT_ONCE
    """Most parallel searches on a CPU; 1 keeps them in the thread of the caller."""
    has_attention = True
    """Whether the attention between a text and its translation is available."""
    folders: tuple[Path, ...] = ()
    """The model folders that the members were read from; empty if the models were given as objects."""
    _last_glossary: tuple[Glossary, Glossary] | None = None
    """The last glossary used, and its normalized form."""

    def __init__(
        self, model: TranslationModel, device: torch.device | None = None, *, others: Sequence[TranslationModel] = ()
    ) -> None:
        """`others` are the further members of an ensemble. Raises ProblemsError if their languages or target
        vocabularies differ from those of `model`."""
        self.model = model
        self.members = (model, *others)
        check_same_vocabulary(self.members)
        self.device = device or choose_device()
        for member in self.members:
            member.network.to(self.device).eval()
        self.decoding = model.recipe.decoding

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of the source and the target language."""
        return self.model.recipe.data.source, self.model.recipe.data.target

    def __repr__(self) -> str:
        several = f" of {len(self.members)} models" if len(self.members) > 1 else ""
        return f"<weft.Translator{several}: {' -> '.join(self.languages)}, on {self.device}>"

    def translate(
        self,
        texts: Sequence[str],
        *,
        glossary: Terms | None = None,
        prefixes: Iterable[str] | None = None,
        phrases: Iterable[Iterable[str]] | None = None,
        memory: Remembered | None = None,
        **decoding: Any,
    ) -> list[Translation]:
        """Translate texts, in order; keyword arguments change decoding settings, such as beam_size=5.

        Translations contain the `glossary`'s translations of the terms in their texts, begin with `prefixes` (one per
        text) and contain all `phrases` of their text (a list per text). A text that the `memory` contains is translated
        as it is there, whatever the other arguments. For the types that a glossary and a memory may have, see
        `as_glossary` and `as_memory`. The translation of a text without a visible character is empty.
        """
        found = self.translate_n_best(
            texts, 1, glossary=glossary, prefixes=prefixes, phrases=phrases, memory=memory, **decoding
        )
        return [translations[0] for translations in found]

    def translate_n_best(
        self,
        texts: Sequence[str],
        best: int,
        *,
        glossary: Terms | None = None,
        prefixes: Iterable[str] | None = None,
        phrases: Iterable[Iterable[str]] | None = None,
        memory: Remembered | None = None,
        after_step: Callable[[], None] = lambda: None,
        **decoding: Any,
    ) -> list[list[Translation]]:
        """Return up to `best` translations per text, best first: at most beam_size by beam search, one by greedy.

        Their texts differ: where a beam has several ways to write a text, a wider one is searched.

        Method "sample" returns `best` samples in the order in which they were drawn; the first does not depend on
        `best`. `after_step` is called after each step of a search; an exception that it raises ends the call.
        """
        if not is_count(best):
            raise UsageError(f"translate_n_best takes a number of translations from 1, found {best!r}")
        config = changed_decoding(self.decoding, decoding)
        utility = utility_of(config, self.model.recipe.data.target) if config.method == "mbr" else None
        texts, glossary = checked_texts(texts), self.as_glossary(glossary)
        prefixes, phrases = checked_prefixes(prefixes, texts), checked_phrases(phrases, texts)
        known = [translations[:best] for translations in self._remembered(texts, memory, config.script)]
        for number, (text, prefix, wanted) in enumerate(zip_longest(texts, prefixes, phrases)):
            is_free = not (known[number] or prefix or wanted)
            if is_free and (same := self.without_word(text, config, glossary)) is not None:
                known[number] = [Translation(text, same, 0.0, 0.0)]
        asked = ["" if of_text else text for text, of_text in zip(texts, known, strict=True)]
        if glossary or any(phrases):
            self._check_constraints(config)
        demands = self._demands(asked, glossary, prefixes, phrases, script=config.script)
        read = [encode_sources(member, asked) for member in self.members]  # by each member's own vocabulary
        found = [of_text or [Translation(text, "", 0.0, 0.0)] for text, of_text in zip(texts, known, strict=True)]

        def demanded(index: int) -> list[str]:
            terms = self.terms_of(texts[index], glossary) if glossary and demands.constraints[index] else []
            wanted = [*prefixes[index : index + 1], *(phrases[index] if phrases else ())]
            wanted += [target for term in terms for target in term.targets]
            return [self.as_written(text, config.script) for text in wanted]

        @torch.inference_mode()  # applies to one thread only
        def search(indices: np.ndarray, check_cancelled: Callable[[], None]) -> list[list[Hypothesis]]:
            def after_each() -> None:
                after_step()
                check_cancelled()

            return to_the_end(self._search_steps, after_each)(read, indices, config, best, demands)

        workers = self.searches_at_once()
        at_once = config.batch_tokens * (1 if self.device.type == "cpu" else GPU_FACTOR)
        batches = list(batches_by_length(read[0], at_once, config.rows(best), workers, apart=demands.constrained))
        with self._computing(config.precision), closing(map_in_threads(search, batches, workers)) as answers:
            for indices, hypotheses_of in zip(batches, answers, strict=True):
                for index, hypotheses in zip(indices, hypotheses_of, strict=True):
                    if utility is not None:
                        hypotheses = self._least_risk(hypotheses, utility, config, best)
                    found[index] = self._spell(texts[index], hypotheses, config.script, demanded(index))
        if best > 1 and config.method != "sample":
            ask: dict[str, Any] = {"glossary": glossary, "after_step": after_step, **decoding}
            found = with_different_texts(self.translate_n_best, texts, found, best, config, prefixes, phrases, ask)
        if glossary:
            else_asked = [bool(prefix or of_text) for prefix, of_text, _ in zip_longest(prefixes, phrases, texts)]
            by_terms = [n for n, is_met in enumerate(demands.constrained) if is_met and not else_asked[n]]
            ask = {"after_step": after_step, **decoding, "script": config.script}
            apply_stand_ins(self, found, by_terms, glossary, best, **ask)
        return found

    def stream(
        self,
        text: str,
        *,
        glossary: Terms | None = None,
        prefix: str = "",
        memory: Remembered | None = None,
        **decoding: Any,
    ) -> Generator[str, None, None]:
        """Yield the translation of a text in parts, each as soon as it is final. Joined, the parts are what `translate`
        returns.

        Parts end between words, or between characters in a language without spaces. In greedy search and sampling each
        piece is final; in beam search, the beginning that all hypotheses share. With a glossary, diverse groups,
        minimum Bayes risk, another script or CTranslate2 there is one part. Closing the generator ends the search.
        """
        config = changed_decoding(self.decoding, decoding)
        (text,), glossary = checked_texts([text]), self.as_glossary(glossary)
        (known,) = self._remembered([text], memory, config.script)
        same = known[0].text if known else None if prefix else self.without_word(text, config, glossary)
        if same is not None:
            return (part for part in (same,))
        prefixes = [prefix] if prefix else ()
        demands = self._demands([text], glossary, checked_prefixes(prefixes, [text]), script=config.script)
        read = [encode_sources(member, [text]) for member in self.members]
        if any(demands.constraints) or config.script != "keep":
            found = self.translate([text], glossary=glossary, prefixes=prefixes, **decoding)
            return (translation.text for translation in found)
        return self._parts(text, read, config, demands, prefixes) if read[0].lengths[0] > 1 else (part for part in ())

    def alternatives(self, text: str, prefix: str, best: int = 5, **decoding: Any) -> list[Alternative]:
        """Find up to `best` different words that may follow `prefix` in a translation of `text`, each with the best
        translation that continues with it, highest score first (alternatives.py)."""
        return find_alternatives(self, text, prefix, best, changed_decoding(self.decoding, decoding))

    def without_word(self, text: str, config: DecodingConfig, glossary: Glossary | None = None) -> str | None:
        """The translation of a text without a word, such as "25": itself, with amounts as the target writes them. None
        if it has a word, or a term of the glossary, or is blank."""
        copies, (source, target) = copies_in(self.model, text), self.languages
        if is_blank(text) or has_word(copies.text, source) or (glossary and self.terms_of(text, glossary)):
            return None
        return self.in_script(copies.restored(copies.text, target), config.script) if has_word(text, source) else text

    def has_other_numbers(self, source: str, translation: str) -> bool:
        """Whether a translation has a number that its source lacks, or lacks one, as far as that can be told."""
        return source != translation and bool(pairs_with_other_numbers([source], [translation], *self.languages))

    def check_glossary(self, glossary: Glossary, **decoding: Any) -> None:
        """Raise UsageError if these settings cannot guarantee terms, or if terms cannot be written with the target
        vocabulary. Call it before a long translation, which would fail at the first sentence with such a term."""
        self._check_constraints(changed_decoding(self.decoding, decoding))
        if strange := glossary.unspellable(self.model.vocabularies["target"]):
            listed = "".join(f"\n  {term!r}" for term in strange[:SHOWN_TERMS])
            more = f"\n  and {len(strange) - SHOWN_TERMS:,} more" if len(strange) > SHOWN_TERMS else ""
            raise UsageError(f"terms that the pieces of the target vocabulary cannot write:{listed}{more}")

    def as_glossary(self, terms: Terms | None) -> Glossary | None:
        """Convert a dict or a file of terms to a Glossary, which can be used for many calls; None stays None."""
        return as_glossary(terms, self.languages)

    def as_memory(self, memory: Remembered) -> TranslationMemory:
        """Convert a dict or a file of sentences to a TranslationMemory, which can be used for many calls."""
        return as_memory(memory, self.languages, self.model.vocabularies["source"].normalize)

    def terms_of(self, text: str, glossary: Glossary) -> list[Term]:
        """The terms of a glossary that a text contains, whose translations its translation must contain."""
        return self.as_read(glossary).found_in(self.model.vocabularies["source"].normalize(text))

    def as_read(self, glossary: Glossary) -> Glossary:
        """The glossary with its source terms normalized as this model normalizes texts."""
        given, normalized = self._last_glossary or (None, glossary)
        if given is not glossary:
            normalized = glossary.normalized(self.model.vocabularies["source"].normalize)
            self._last_glossary = glossary, normalized
        return normalized

    def _check_constraints(self, config: DecodingConfig) -> None:
        refuse_constraints(config)

    def longest_sentence(self) -> int | None:
        """Most tokens of a sentence, including <s> or </s>, for which all members have positions; None: no limit."""
        places = [member.network.config.longest for member in self.members]
        return min((number for number in places if number is not None), default=None)

    def longest_text(self) -> int:
        """Most pieces of a sentence in passages, limited by the positions and training lengths of all members."""
        places = self.longest_sentence()
        tag_and_end = 2
        most = [LONGEST_SOURCE, *(member.recipe.data.max_length for member in self.members)]
        return min(most if places is None else [*most, places - tag_and_end])

    def can_read(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text is short enough to be translated without splitting."""
        places = self.longest_sentence()
        fits = [True] * len(texts)
        for member in self.members:
            around = len(tag_ids(member.vocabularies["source"], member.recipe.data.tag)) + 1  # </s>
            most = LONGEST_SOURCE if places is None else min(LONGEST_SOURCE, places - around)
            encoded = member.vocabularies["source"].encode(texts)
            fits = [fit and len(ids) <= most for fit, ids in zip(fits, encoded, strict=True)]
        return fits

    def repack(self) -> None:
        """Use the current weights: call this after changing weights of a model in evaluation mode.

        The first search packs the weights, and later searches reuse them. (A model in training mode is packed at every
        call.)
        """
        for member in self.members:
            member.network.repack()

    def searches_at_once(self) -> int:
        """Number of batches that are translated in parallel."""
        return min(self.most_searches, torch.get_num_threads()) if self.device.type == "cpu" else 1

    def _parts(
        self,
        source: str,
        read: Sequence[Sentences],
        config: DecodingConfig,
        demands: Demands,
        prefixes: Sequence[str],
    ) -> Generator[str, None, None]:
        language = self.model.recipe.data.target
        searching = self._search_steps(read, np.array([0]), config, 1, demands)
        given = ""
        while True:
            with self._computing(config.precision):  # released while the caller handles a part
                try:
                    certain = next(searching)
                    pieces = certain.beginning(0) if certain is not None and config.method != "mbr" else ()
                except StopIteration as end:
                    (hypotheses,) = end.value
                    break
            if pieces:
                text = settled_part(self._text(pieces), language, self.model.recipe.tokenizer.kind)
                text = self._copied(source, text, is_whole=False)
                if len(text) > len(given):
                    yield text[len(given) :]
                    given = text
        if config.method == "mbr":
            hypotheses = self._least_risk(hypotheses, utility_of(config, language), config, 1)
        if rest := self._spell(source, hypotheses, config.script, prefixes)[0].text[len(given) :]:
            yield rest

    @cached_property
    def joins(self) -> Joins:
        """Pairs of target pieces that continue a word, so that no required term is part of a longer word."""
        recipe = self.model.recipe
        return joins_of(self.model.vocabularies["target"], recipe.tokenizer.kind, recipe.data.target)

    @cached_property
    def space(self) -> Phrase:
        """The pieces of the space before a required term."""
        return space_of(self.model.vocabularies["target"], self.model.recipe.data.target)

    @cached_property
    def stand_ins(self) -> list[tuple[str, str]]:
        """Words in both languages that can replace the terms of a glossary (stand_ins.py)."""
        source, target = self.model.vocabularies["source"], self.model.vocabularies["target"]
        return usable_stand_ins(self.languages, source, target, partial(self.as_written, script="simplified"))

    @contextmanager
    def _computing(self, precision: Precision) -> Iterator[None]:
        """Compute in inference mode and in this precision inside the block."""
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            for member in in_lock_order(self.members):
                dtype = PRECISIONS[choose_precision(precision, self.device)]
                stack.enter_context(computing_in(member.network, dtype))
            yield

    def _remembered(self, texts: Sequence[str], memory: Remembered | None, script: Script) -> list[list[Translation]]:
        """The translations that a memory has for each text, in the script."""
        if memory is None:
            return [[] for _ in texts]
        memory = self.as_memory(memory)
        # Two targets may become one text in the script.
        found = [dict.fromkeys(self.in_script(match.target, script) for match in memory.exact(text)) for text in texts]
        return [[Translation(text, one, 0.0, 0.0) for one in known] for text, known in zip(texts, found, strict=True)]

    def _demands(
        self,
        texts: Sequence[str],
        glossary: Glossary | None,
        prefixes: Sequence[str],
        phrases: Sequence[Sequence[str]] = (),
        *,
        script: Script,
    ) -> Demands:
        tokenizer, language = self.model.vocabularies["target"], self.model.recipe.data.target
        constraints: list[list[Constraint]] = [[] for _ in texts]
        copies = [copies_in(self.model, text) for text in texts]

        def demanded(source: Copies, text: str) -> str:
            return source.demanded(self.as_written(text, script), language)

        for of_text, source, wanted in zip(constraints, copies, phrases or [()] * len(texts), strict=True):
            of_text += [constraint_of([demanded(source, phrase)], tokenizer, language) for phrase in wanted]
        if glossary:
            for of_text, source, text in zip(constraints, copies, texts, strict=True):
                for term in self.terms_of(text, glossary):
                    spellings = [demanded(source, target) for target in term.targets]
                    of_text.append(constraint_of(spellings, tokenizer, language))
        begun = [demanded(*each) for each in zip(copies, prefixes, strict=False)]  # none, or one a text
        encoded = encode_prefixes(tokenizer, begun)
        if not any(constraints):
            return Demands(encoded, constraints)
        signed = signed_words(constraints, tokenizer, language) if self.joins.later else frozenset[Phrase]()
        return Demands(encoded, constraints, self.joins, self.space, signed)

    def _search_steps(
        self, read: Sequence[Sentences], indices: np.ndarray, config: DecodingConfig, best: int, demands: Demands
    ) -> Searching[list[list[Hypothesis]]]:
        hypotheses = config.rows(best)
        copies = -(-hypotheses // SAMPLES_TOGETHER) if config.draws else 1
        rows = -(-hypotheses // copies)  # of each copy; together they may draw a sample too many
        seeds = sampling_seeds(read[0], indices, config, copies * rows)
        indices = indices.repeat(copies)
        lengths = torch.from_numpy(read[0].lengths[indices] - 1).to(self.device)
        state, longest = self._begin(read, indices, rows, config)
        found = yield from search_steps(
            state,
            lengths,
            config,
            begin_id=BEGIN_ID,
            end_id=END_ID,
            best=best,
            longest=longest,
            seeds=seeds,
            demands=demands.of(indices),
        )
        return [list(chain(*found[first : first + copies]))[:hypotheses] for first in range(0, len(found), copies)]

    def _begin(
        self, read: Sequence[Sentences], indices: np.ndarray, rows: int, config: DecodingConfig
    ) -> tuple[StepFunction, int | None]:
        """`_start` with the language models of the settings."""
        state, longest = self._start(read, indices, rows)
        return with_language_models(self, state, len(indices), rows, config), longest

    def _start(self, read: Sequence[Sentences], indices: np.ndarray, rows: int) -> tuple[StepFunction, int | None]:
        """Return the step function for a search with `rows` rows per text, and the most pieces that it can write (None:
        no limit)."""
        states = [
            member.network.start(torch.from_numpy(sources.padded(indices)).to(self.device), rows)
            for member, sources in zip(self.members, read, strict=True)
        ]
        longest = self.longest_sentence()
        room = None if longest is None else longest - 1  # <s> takes a place
        return states[0] if len(states) == 1 else Ensemble(states), room

    def _least_risk(
        self, candidates: list[Hypothesis], utility: Utility, config: DecodingConfig, best: int
    ) -> list[Hypothesis]:
        weights = [1.0] * len(candidates) if config.draws else probabilities_of(candidates)
        finalists = FINALISTS if config.mbr_form == "fast" else None
        texts = [self._text(one.tokens) for one in candidates]
        return minimum_bayes_risk(candidates, texts, weights, utility, best=best, finalists=finalists)

    def _spell(
        self, source: str, hypotheses: list[Hypothesis], script: Script, demanded: Sequence[str] = ()
    ) -> list[Translation]:
        copied = (self._copied(source, self._text(one.tokens), demanded=demanded) for one in hypotheses)
        texts = [self.in_script(text, script) for text in copied]
        return [Translation(source, text, one.score, one.log_prob) for text, one in zip(texts, hypotheses, strict=True)]

    def in_script(self, text: str, script: Script) -> str:
        return convert_translation(text, script) if is_chinese(self.languages[1]) else text

    def as_written(self, text: str, script: Script) -> str:
        """A translation in this script as the model writes it, which is Simplified where its recipe says nothing."""
        target, wanted = self.languages[1], self.model.recipe.tokenizer.target_script
        is_traditional = "traditional" in (script_of_code(target), wanted)
        return convert_back(text, script, to_traditional=is_traditional) if is_chinese(target) else text

    def _copied(self, source: str, text: str, *, is_whole: bool = True, demanded: Sequence[str] = ()) -> str:
        """Put what is copied from a source into a translation, or its beginning: its items, and the end as a whole."""
        if not self.model.recipe.tokenizer.copying:
            return text
        text = copies_in(self.model, source).restored(text, self.languages[1])
        return with_end_of(source, text, self.languages[1], demanded) if is_whole else before_end(text)

    def _text(self, tokens: Sequence[int]) -> str:
        """Decode and normalize, since a model may write the bytes of a line end or a control character."""
        return normalize(self.model.vocabularies["target"].decode([tokens])[0])
