"""Preparation for translation: pairs are cleaned, tokenized and stored as ids, and reused until something changes.

    RUN/corpus/    a store (data/store.py) with the vocabularies that its ids belong to, and account.json

The manifest holds what the corpus depends on: the files, and the recipe's tables for data, cleaning and tokenizer.
While these stay the same it is reused, whatever else changes in the recipe.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.config import Resolved, changed, leaves
from weft.data.cluster import cluster_workers
from weft.data.corpus import weight_and_tag
from weft.data.doctor.findings import Diagnosis
from weft.data.doctor.quick import examine_quickly, leaks_of, summary_lines
from weft.data.encoding import tag_ids
from weft.data.preparation import CleanCorpus, HeldOut, clean
from weft.data.store import PAIR, Store, StoreWriter, open_store
from weft.data.storing import Encoder, Stored, store_pairs
from weft.data.workers import Each, workers
from weft.errors import CorpusError, Problem, RunError, WeftError
from weft.folders.model_folder import TranslationModel, load_vocabularies, rendered, vocabulary_files
from weft.folders.recipes import TranslationRecipe
from weft.preparing.parents import check_unseen, parents_of
from weft.preparing.prepared import ACCOUNT, Account, Files, Prepared, code_digest, find_prepared
from weft.preparing.teachers import check_teachers
from weft.preparing.vocabularies import (
    Vocabularies,
    carried_over,
    make_tokenizers,
    with_corpus_choices,
    with_language_choices,
)
from weft.runtime import usable_cores
from weft.text.language import is_one_language
from weft.text.tokenizer import Tokenizer
from weft.training.run_folder import RunFolder
from weft.training.task import Listener

LEARNED_FROM = 200_000
"""Pairs of a larger corpus that vocabularies are learned from."""
LOOKED_AT = 100_000
"""Pairs of a larger corpus that are checked before training."""
BYTES_A_PROCESS = 20_000_000
"""Bytes of files per process; for fewer, another process is not worth the second that it takes to start."""

Tokenizers = tuple[Tokenizer, Tokenizer]
"""Tokenizers of source and target."""


def prepare(
    resolved: Resolved[TranslationRecipe],
    corpora: Files,
    folder: Path,
    listener: Listener,
    *,
    kept_in: Path | None = None,
    processes: int | None = None,
    cluster: bool = False,
) -> Prepared[TranslationRecipe]:
    """Prepare the corpus of a new run in the folder, or reuse one prepared from exactly the same.

    It is also looked for in `kept_in`, where nothing is written. Raises CorpusError with every line that is wrong, and
    RecipeError if the recipe disagrees with the model it is initialized from or with a teacher.
    """
    resolved = with_language_choices(resolved)
    rendered(resolved)  # refuse what no model folder can hold before the work, not after it
    carried = carried_over(resolved, listener)
    if carried is not None:
        check_teachers(resolved.recipe, carried[:2])
    check_unseen(parents_of(resolved.recipe, corpora.train, corpora.root), corpora.valid.sha256)
    depends_on = dependencies(resolved.recipe, corpora, carried)
    if found := find_prepared(folder, kept_in, depends_on, listener):
        return reuse(resolved, carried, *found, listener)
    with cleaned(resolved.recipe, corpora, folder, processes, cluster) as (corpus, each):
        if carried is None:
            resolved = with_corpus_choices(resolved, len(corpus), listener)
            sample = corpus.sample(LEARNED_FROM)
            source, target, resolved = make_tokenizers(resolved, sample, corpora.vocabularies, listener)
        else:
            source, target, resolved = carried
            resolved = with_corpus_choices(resolved, len(corpus), listener)
        return write(resolved, (source, target), corpora, corpus, folder, depends_on, listener, each)


def reopen(
    model: TranslationModel,
    given: Resolved[TranslationRecipe],
    corpora: Files,
    folder: Path,
    listener: Listener,
    *,
    kept_in: Path | None = None,
) -> Store:
    """The corpus of a run that continues with this model by this recipe, made anew where it is gone.

    Raises RunError where the model has another vocabulary than the corpus of its run.
    """
    tokenizers = model.vocabularies["source"], model.vocabularies["target"]
    recipe = with_language_choices(given).recipe
    is_carried = recipe.training.init is not None or bool(recipe.training.teachers)
    depends_on = dependencies(recipe, corpora, (*tokenizers, model.resolved) if is_carried else None)
    vocabularies = vocabulary_files(model.recipe, model.vocabularies)
    if found := find_prepared(folder, kept_in, depends_on, listener, ignoring={"weft"}):
        place, store = found
        if any((place / name).read_bytes() != vocabularies[name] for name in vocabularies):
            raise other_batches(place.parent)
        return store
    with cleaned(recipe, corpora, folder) as (corpus, each):
        return write(model.resolved, tokenizers, corpora, corpus, folder, depends_on, listener, each).store


def other_batches(run: Path) -> RunError:
    return RunError(
        f"{run} cannot continue: the same recipe and files now give other pieces or other batches, because the "
        "vocabulary in its checkpoint, weft or SentencePiece has changed; restore the old one, or "
        f"{RunFolder(run).advise_new_run()}"
    )


def dependencies(recipe: TranslationRecipe, corpora: Files, carried: Vocabularies | None) -> dict[str, Any]:
    """Everything that a prepared corpus depends on, as JSON; `carried` are vocabularies taken from another model."""
    cut_by = recipe if carried is None else carried[2].recipe
    joining = recipe.augmentation.joining
    everything = {
        "weft": code_digest(),
        "files": corpora.sha256 | {"teacher": None},
        "data": recipe.data.model_dump(exclude={"tag"}),
        "cleaning": None if recipe.cleaning is None else recipe.cleaning.model_dump(),
        "tokenizer": cut_by.tokenizer.model_dump(),
        "tags": recipe.source_tags,
        "joining": [joining, recipe.seed] if joining else None,
        "carried": None if carried is None else [hashlib.sha256(side.model).hexdigest() for side in carried[:2]],
    }
    return json.loads(json.dumps(everything))


def reuse(
    resolved: Resolved[TranslationRecipe], carried: Vocabularies | None, folder: Path, store: Store, listener: Listener
) -> Prepared[TranslationRecipe]:
    account = Account.read_from(folder)
    listener.on_message(f"the prepared corpus in {folder} is up to date with these files and this recipe")
    if carried is None:
        resolved = with_corpus_choices(resolved, account.clean, listener)
        for wanted in dict.fromkeys(origin for _, origin in account.settings.values()):  # keys may depend on each other
            together = {key: value for key, (value, origin) in account.settings.items() if origin == wanted}
            resolved = changed(resolved, together, wanted)
        vocabularies = load_vocabularies(folder, resolved.recipe)
    else:
        source, target, resolved = carried
        vocabularies = {"source": source, "target": target}
        resolved = with_corpus_choices(resolved, account.clean, listener)
    for message in account.messages:
        listener.on_message(message)
    return Prepared(resolved, vocabularies, store, account)


@contextmanager
def cleaned(
    recipe: TranslationRecipe, corpora: Files, folder: Path, processes: int | None = None, cluster: bool = False
) -> Iterator[tuple[CleanCorpus, Each]]:
    """Clean the pairs into a temporary folder next to this one; yields them and the workers for their pieces."""
    for wreck in folder.parent.glob(f".{folder.name}.*.partial"):
        shutil.rmtree(wreck, ignore_errors=True)
    scratch = folder.with_name(f".{folder.name}.{os.getpid()}.clean.partial")
    size = sum((corpora.root / name).stat().st_size for name in corpora.train)
    processes = processes or min(usable_cores(), 1 + size // BYTES_A_PROCESS)
    held_out = HeldOut.of(
        corpora.valid.sources,
        [text for texts in corpora.valid.references for text in texts],
        in_one_language=is_one_language(recipe.data.source, recipe.data.target),
    )
    try:
        with cluster_workers() if cluster else workers(processes) as each:
            try:
                scratch.mkdir(parents=True)
                corpus = clean(
                    recipe.data.train,
                    recipe.data,
                    recipe.cleaning,
                    corpora.root,
                    scratch,
                    held_out=held_out,
                    trusted=corpora.valid,
                    each=each,
                )
            except OSError as error:
                raise WeftError(f"the clean pairs could not be written next to {folder}: {error.strerror}") from error
            if not len(corpus):
                rules = ", ".join(f"{rule} {count:,}" for rule, count in corpus.removed.counts.most_common())
                raise CorpusError("the corpus", [Problem("[cleaning]", f"removes every pair: {rules}")])
            yield corpus, each
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write(
    resolved: Resolved[TranslationRecipe],
    tokenizers: Tokenizers,
    corpora: Files,
    corpus: CleanCorpus,
    folder: Path,
    depends_on: Mapping[str, Any],
    listener: Listener,
    each: Each,
) -> Prepared[TranslationRecipe]:
    """Write the pairs to the folder as ids of these vocabularies, with their account."""
    recipe, (source, target) = resolved.recipe, tokenizers
    vocabularies = {"source": source, "target": target}
    encoder = Encoder(
        source,
        target,
        before=tuple(tuple(tag_ids(source, weight_and_tag(entry)[1])) for entry in corpus.entries),
        languages=(recipe.data.source, recipe.data.target),
        max_length=recipe.data.max_length,
        joining=recipe.augmentation.joining,
        seed=recipe.seed,
        copying=recipe.tokenizer.copying,
    )
    diagnosis = diagnose(recipe, corpora, corpus)
    largest_id = max(source.vocab_size, target.vocab_size) - 1
    with StoreWriter(folder, PAIR, largest_id=largest_id, depends_on=depends_on) as writer:
        stored = store_pairs(corpus.pieces(), corpus.entries, encoder, writer, each)
        if not stored.pairs:
            raise RunError(f"every training pair is longer than data.max_length = {recipe.data.max_length} pieces")
        account = Account(
            read=corpus.read,
            dropped_empty=corpus.dropped_empty,
            removed=dict(corpus.removed.counts.most_common()),
            examples={
                rule: [{key: value for key, value in vars(example).items() if key != "note"} for example in examples]
                for rule, examples in corpus.removed.examples.items()
            },
            clean=len(corpus),
            too_long=stored.too_long,
            joined=stored.joined,
            stored=stored.pairs,
            settings={
                key: (leaves(recipe)[key], origin)
                for key, origin in resolved.origins.items()
                if key.startswith("tokenizer.") and origin.startswith(("corpus", "vocabulary"))
            },
            messages=[*messages_about(corpus, stored, recipe), *summary_lines(diagnosis)],
            diagnosis=diagnosis.as_dict(),
        )
        writer.add(ACCOUNT, account.as_json())
        for name, content in vocabulary_files(recipe, vocabularies).items():
            writer.add(name, content)
    for message in account.messages:
        listener.on_message(message)
    return Prepared(resolved, vocabularies, open_store(folder), account)


def diagnose(recipe: TranslationRecipe, corpora: Files, corpus: CleanCorpus) -> Diagnosis:
    """Run the quick checks on a sample of the clean pairs."""
    return examine_quickly(
        corpus.sample(LOOKED_AT),
        corpora.valid,
        (recipe.data.source, recipe.data.target),
        whole=len(corpus),
        leak=leaks_of(
            corpus.leaks,
            len(corpus),
            corpora.valid,
            in_one_language=is_one_language(recipe.data.source, recipe.data.target),
        ),
    )


def messages_about(corpus: CleanCorpus, stored: Stored, recipe: TranslationRecipe) -> Iterator[str]:
    """Messages about the pairs that were dropped, removed or added."""
    if corpus.dropped_empty:
        yield f"{corpus.dropped_empty:,} training pairs with an empty side dropped"
    if recipe.cleaning is not None:
        counts = ", ".join(f"{rule} {count:,}" for rule, count in corpus.removed.counts.most_common())
        removed = sum(corpus.removed.counts.values())
        share = 100 * removed / max(1, corpus.read)
        yield f"[cleaning] removed {removed:,} of {corpus.read:,} pairs ({share:.2f} %)" + (
            f": {counts}" if counts else ""
        )
    for side, (unknown, words) in zip(("source", "target"), stored.unknown.tolist(), strict=True):
        if words:
            share = 100 * unknown / words
            yield f"{side}: {unknown:,} of {words:,} words ({share:.2f} %) are not in the vocabulary"
    if stored.too_long:
        yield f"{stored.too_long:,} training pairs over data.max_length = {recipe.data.max_length} pieces dropped"
    if stored.joined:
        yield f"{stored.joined:,} pairs also occur joined with the next one, by augmentation.joining"
