"""From files to the ids that a run trains on: cleaned, cut into pieces, and kept in its folder until they change.

    RUN/corpus/    a store (data/store.py) with the vocabularies that its ids belong to, and account.json

What a prepared corpus depends on stands in its manifest: the files, and what the recipe says of data, cleaning and
pieces. While that is the same it is found again, whatever else of the recipe changes.
"""

import hashlib
import json
import os
import shutil
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import weft
from weft.config import Resolved, changed
from weft.data.cluster import cluster_workers
from weft.data.corpus import weight_and_tag
from weft.data.doctor.findings import Diagnosis
from weft.data.doctor.quick import examine_quickly, leaks_of, summary_lines
from weft.data.encoding import tag_ids
from weft.data.preparation import CleanCorpus, HeldOut, clean
from weft.data.store import Store, StoreWriter, is_prepared, open_store
from weft.data.storing import Encoder, Stored, store_pairs
from weft.data.workers import Each, workers
from weft.errors import CorpusError, Problem, RunError, WeftError, shown
from weft.folders.model_folder import TranslationModel, load_tokenizers, rendered, tokenizer_names
from weft.folders.recipes import TranslationRecipe
from weft.preparing.corpora import Corpora, find_recipe, read_all
from weft.preparing.parents import check_unseen, parents_of
from weft.preparing.teachers import check_teachers
from weft.preparing.vocabularies import (
    Vocabularies,
    carried_over,
    make_tokenizers,
    value_of,
    with_corpus_choices,
    with_language_choices,
)
from weft.runtime import usable_cores
from weft.text.language import is_one_language
from weft.text.tokenizer import Tokenizer
from weft.training.run_folder import RunFolder
from weft.training.signals import stopped_by_signal
from weft.training.task import Listener

ACCOUNT = "account.json"
LEARNED_FROM = 200_000
"""Pairs of a larger corpus that vocabularies are learned from."""
LOOKED_AT = 100_000
"""Pairs of a larger corpus that are looked at before training."""
BYTES_A_PROCESS = 20_000_000
"""Bytes of files per process; for fewer, another process is not worth the second that it takes to start."""

Tokenizers = tuple[Tokenizer, Tokenizer]
"""Tokenizers of source and target."""


@dataclass(frozen=True)
class Account:
    """What became of the pairs of the files."""

    read: int
    """Pairs without an empty side."""
    dropped_empty: int
    removed: Mapping[str, int]
    """By rule of [cleaning]."""
    examples: Mapping[str, Sequence[Mapping[str, Any]]]
    """The first pairs that each rule removed: file, line, source, target."""
    clean: int
    too_long: int
    joined: int
    stored: int
    settings: Mapping[str, Sequence[Any]]
    """What making the vocabularies settled: key of the recipe -> value, origin."""
    messages: Sequence[str]
    """What was said of the pairs."""
    diagnosis: Mapping[str, Any]
    """What the quick checks found in the clean pairs."""

    def table(self, examples: int = 3) -> str:
        """What became of the pairs, with the first that each rule removed."""
        rows = [("read", self.read + self.dropped_empty, "")]
        rows += [("empty side", self.dropped_empty, "dropped, by data.empty_sides")] if self.dropped_empty else []
        rows += [(rule, count, "removed, by [cleaning]") for rule, count in self.removed.items()]
        rows += [("too long", self.too_long, "dropped, by data.max_length")] if self.too_long else []
        rows.append(("kept", self.stored - self.joined, ""))
        rows += [("joined", self.joined, "added, by augmentation.joining")] if self.joined else []
        lines = [
            f"{name:<14}{count:>12,}  {100 * count / max(1, rows[0][1]):6.2f} %  {why}" for name, count, why in rows
        ]
        for rule, pairs in self.examples.items():
            lines += ["", f"removed by {rule}, such as"] if examples else []
            for pair in pairs[:examples]:
                lines += [f"{pair['file']}:{pair['line']}"]
                lines += [f"    {shown(pair[side], 200)}" for side in ("source", "target")]
        return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True)
class Prepared:
    """The pairs to train on, as ids, and the recipe with everything that it leaves to them."""

    resolved: Resolved[TranslationRecipe]
    tokenizers: Tokenizers
    store: Store
    account: Account


def prepare_run(
    recipe: str | Path | Mapping[str, Any],
    *,
    run: str | Path | None = None,
    data: str | Path | None = None,
    overrides: Sequence[str] = (),
    processes: int | None = None,
    cluster: bool = False,
    listener: Listener,
) -> tuple[Prepared, Path]:
    """Do the first thing of `train` with these arguments, and return what came of it with its folder.

    The work is done by so many processes of this machine, or by a Ray cluster (data/cluster.py), to the same result.
    Raises RunError for a run that has begun: its corpus is what it is trained on.
    """
    resolved, data_root, run_path = find_recipe(recipe, run=run, data=data, overrides=overrides)
    folder = RunFolder(run_path)
    with folder.locked(to_prepare=True), stopped_by_signal("stopped while pairs were prepared"):
        if folder.status() is not None:
            raise RunError(f"{run_path} is a run that has begun; prepare a new one: --run {run_path}-2")
        corpora = read_all(resolved.recipe, data_root, listener)
        prepared = prepare(resolved, corpora, folder.corpus, listener, processes=processes, cluster=cluster)
        return prepared, folder.corpus


def prepare(
    resolved: Resolved[TranslationRecipe],
    corpora: Corpora,
    folder: Path,
    listener: Listener,
    *,
    kept_in: Path | None = None,
    processes: int | None = None,
    cluster: bool = False,
) -> Prepared:
    """The corpus of a run that begins: what lies in the folder if it is of just this, else made anew.

    It is also looked for in `kept_in`, where nothing is written. Raises CorpusError with every line that is wrong, and
    RecipeError where the recipe and another model disagree.
    """
    resolved = with_language_choices(resolved)
    rendered(resolved)  # what no model folder could hold is refused before the work, not behind it
    carried = carried_over(resolved, listener)
    if carried is not None:
        check_teachers(resolved.recipe, carried[:2])
    check_unseen(parents_of(resolved.recipe, corpora.train, corpora.root), corpora.valid.sha256)
    depends_on = dependencies(resolved.recipe, corpora, carried)
    for place in dict.fromkeys((kept_in or folder, folder)):
        store = opened(place, depends_on, listener)
        if store is not None:
            return found_again(resolved, carried, store, place, listener)
    with cleaned(resolved.recipe, corpora, folder, processes, cluster) as (corpus, each):
        if carried is None:
            resolved = with_corpus_choices(resolved, len(corpus), listener)
            sample = corpus.sample(LEARNED_FROM)
            source, target, resolved = make_tokenizers(resolved, sample, corpora.vocabularies, listener)
        else:
            source, target, resolved = carried
            resolved = with_corpus_choices(resolved, len(corpus), listener)
        return write(resolved, (source, target), corpora, corpus, folder, depends_on, listener, each)


def prepared_for(
    model: TranslationModel,
    given: Resolved[TranslationRecipe],
    corpora: Corpora,
    folder: Path,
    listener: Listener,
    *,
    kept_in: Path | None = None,
) -> Store:
    """The corpus of a run that goes on with this model by this recipe, made anew where it is gone.

    Raises RunError where the model has another vocabulary than the corpus of its run.
    """
    tokenizers = model.vocabularies["source"], model.vocabularies["target"]
    recipe = with_language_choices(given).recipe
    is_carried = recipe.training.init is not None or bool(recipe.training.teachers)
    depends_on = dependencies(recipe, corpora, (*tokenizers, model.resolved) if is_carried else None)
    vocabularies = vocabulary_files(model.recipe, tokenizers)
    for place in dict.fromkeys((kept_in or folder, folder)):
        store = opened(place, depends_on, listener, ignoring={"weft"})
        if store is not None:
            if any((place / name).read_bytes() != vocabularies[name] for name in vocabularies):
                raise other_batches(place.parent)
            return store
    with cleaned(recipe, corpora, folder) as (corpus, each):
        return write(model.resolved, tokenizers, corpora, corpus, folder, depends_on, listener, each).store


def other_batches(run: Path) -> RunError:
    return RunError(
        f"{run} cannot go on: from the same recipe and the same files now come other pieces or other batches, as after "
        "a change of the vocabulary in its checkpoint, of weft or of SentencePiece; put the old one back, or begin a "
        f"new run: --run {run}-2"
    )


def dependencies(recipe: TranslationRecipe, corpora: Corpora, carried: Vocabularies | None) -> dict[str, Any]:
    """All that a prepared corpus depends on, as JSON holds it; `carried` are vocabularies that come from a model."""
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


@cache
def code_digest() -> str:
    """Digest of the code that reads, cleans and tokenizes: another version may prepare the same files differently."""
    package = Path(weft.__file__).parent
    modules = [package / "files.py", *package.glob("data/**/*.py"), *package.glob("text/**/*.py")]
    modules += [*package.glob("preparing/*.py"), *package.glob("folders/*.py")]
    digest = hashlib.sha256(f"Unicode {unicodedata.unidata_version}".encode())
    for path in sorted(modules):
        digest.update(path.read_bytes())
    for library in ("sentencepiece", "opencc", "rjieba", "tokenizers"):
        with suppress(PackageNotFoundError):
            digest.update(f"{library} {version(library)}".encode())
    return digest.hexdigest()


def opened(
    folder: Path, depends_on: Mapping[str, Any], listener: Listener, *, ignoring: Collection[str] = ()
) -> Store | None:
    """The store of just this in the folder, if there is one."""
    if not is_prepared(folder, depends_on, ignoring=ignoring):
        if (folder / ACCOUNT).exists():
            listener.on_message(
                f"the prepared corpus in {folder} is of other files, of another recipe, or of another weft; another is "
                "made"
            )
        return None
    try:
        return open_store(folder)
    except CorpusError as error:
        listener.on_message(f"{error}\nanother is made")
        return None


def found_again(
    resolved: Resolved[TranslationRecipe], carried: Vocabularies | None, store: Store, folder: Path, listener: Listener
) -> Prepared:
    account = Account(**json.loads((folder / ACCOUNT).read_text(encoding="utf-8")))
    listener.on_message(f"the prepared corpus in {folder} is still that of these files and this recipe")
    if carried is None:
        resolved = with_corpus_choices(resolved, account.clean, listener)
        for key, (value, origin) in account.settings.items():
            resolved = changed(resolved, {key: value}, origin)
        tokenizers = load_tokenizers(folder, resolved.recipe)
    else:
        *tokenizers, resolved = carried
        resolved = with_corpus_choices(resolved, account.clean, listener)
    for message in account.messages:
        listener.on_message(message)
    return Prepared(resolved, (tokenizers[0], tokenizers[1]), store, account)


@contextmanager
def cleaned(
    recipe: TranslationRecipe, corpora: Corpora, folder: Path, processes: int | None = None, cluster: bool = False
) -> Iterator[tuple[CleanCorpus, Each]]:
    """The clean pairs beside the folder, for as long as the block runs, and what works on their pieces."""
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
                    recipe.data.train, recipe.data, recipe.cleaning, corpora.root, scratch, held_out=held_out, each=each
                )
            except OSError as error:
                raise WeftError(f"the clean pairs could not be written beside {folder}: {error.strerror}") from error
            if not len(corpus):
                rules = ", ".join(f"{rule} {count:,}" for rule, count in corpus.removed.counts.most_common())
                raise CorpusError("the corpus", [Problem("[cleaning]", f"removes every pair: {rules}")])
            yield corpus, each
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write(
    resolved: Resolved[TranslationRecipe],
    tokenizers: Tokenizers,
    corpora: Corpora,
    corpus: CleanCorpus,
    folder: Path,
    depends_on: Mapping[str, Any],
    listener: Listener,
    each: Each,
) -> Prepared:
    """Put the pairs into the folder as ids of these vocabularies, with the account of what became of them."""
    recipe, (source, target) = resolved.recipe, tokenizers
    encoder = Encoder(
        source,
        target,
        before=tuple(tuple(tag_ids(source, weight_and_tag(entry)[1])) for entry in corpus.entries),
        languages=(recipe.data.source, recipe.data.target),
        max_length=recipe.data.max_length,
        joining=recipe.augmentation.joining,
        seed=recipe.seed,
    )
    diagnosis = look_over(recipe, corpora, corpus)
    largest_id = max(source.vocab_size, target.vocab_size) - 1
    with StoreWriter(folder, largest_id=largest_id, depends_on=depends_on) as writer:
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
                key: (value_of(recipe, key), origin)
                for key, origin in resolved.origins.items()
                if key.startswith("tokenizer.") and origin.startswith(("corpus", "vocabulary"))
            },
            messages=[*what_became(corpus, stored, recipe), *summary_lines(diagnosis)],
            diagnosis=diagnosis.as_dict(),
        )
        writer.add(ACCOUNT, f"{json.dumps(asdict(account), ensure_ascii=False, indent=1)}\n".encode())
        for name, content in vocabulary_files(recipe, tokenizers).items():
            writer.add(name, content)
    for message in account.messages:
        listener.on_message(message)
    return Prepared(resolved, tokenizers, open_store(folder), account)


def vocabulary_files(recipe: TranslationRecipe, tokenizers: Tokenizers) -> dict[str, bytes]:
    """Name -> content."""
    contents = (tokenizer.model for tokenizer in tokenizers)
    return dict(zip(tokenizer_names(recipe), contents, strict=True))


def look_over(recipe: TranslationRecipe, corpora: Corpora, corpus: CleanCorpus) -> Diagnosis:
    """What a quick look finds wrong with the clean pairs."""
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


def what_became(corpus: CleanCorpus, stored: Stored, recipe: TranslationRecipe) -> Iterator[str]:
    """What became of the pairs, in plain words."""
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
        yield f"{stored.joined:,} pairs come joined with the next one too, by augmentation.joining"
