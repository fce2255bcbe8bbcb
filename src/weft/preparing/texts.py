"""Preparing the files of a task with one vocabulary: texts become ids on disk, in one process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.config import Resolved, changed
from weft.data.sentences import Sentences
from weft.data.store import Store, StoreWriter, open_store
from weft.errors import Problem, RecipeError, RunError
from weft.folders.finding import find_model
from weft.folders.kinds import script_of, text_forms
from weft.folders.model_folder import Learned, check_model, load_vocabularies, vocabulary_files
from weft.preparing.parents import check_unseen, text_parents
from weft.preparing.prepared import ACCOUNT, Account, Prepared, code_digest, find_prepared
from weft.preparing.vocabularies import tied_to_weights
from weft.text.kinds import read_tokenizer, train_tokenizer
from weft.text.language import code_of
from weft.text.tokenizer import Tokenizer
from weft.training.task import Listener


@dataclass(frozen=True)
class Rows:
    """The rows of all files as ids, but for those that are too long."""

    columns: Mapping[str, Sequence[Sequence[int]]]
    places: Sequence[tuple[str, int]]
    """The file and the line that each row comes from."""
    too_long: int
    limit: str
    """What makes a row too long, such as "texts over data.max_length = 512 pieces"."""


@dataclass(frozen=True)
class TextPreparation:
    """The functions `prepare` and `reopen` of a `TaskKind` whose files have one vocabulary, called text."""

    texts: Callable[[Any], Sequence[str]]
    """All texts of the task's `Files`, from which the vocabulary is learned."""
    encode: Callable[[Any, Tokenizer, Any], Rows]
    """`encode(recipe, tokenizer, files)` returns the rows to store."""
    tags: tuple[str, ...] = ()
    """Tokens of the vocabulary that no text becomes."""

    def prepare(
        self,
        resolved: Resolved[Any],
        files: Any,
        folder: Path,
        listener: Listener,
        *,
        kept_in: Path | None = None,
        processes: int | None = None,
        cluster: bool = False,
    ) -> Prepared[Any]:
        """`processes` and `cluster` have no effect."""
        resolved, parent = begun_with(resolved)
        parents, share = text_parents(resolved.recipe, files.train, files.root), valid_share(resolved.recipe)
        if share is None:
            check_unseen(parents, files.valid.sha256)
        elif parents and parent is not None:  # valid is the end of the training text
            is_same_text = parent.recipe.data.train == resolved.recipe.data.train
            if not is_same_text or (valid_share(parent.recipe) or 0) < share:
                check_unseen(parents, files.train)
        if found := find_prepared(folder, kept_in, dependencies(resolved.recipe, files), listener):
            place, store = found
            listener.on_message(f"the prepared corpus in {place} is up to date with these files and this recipe")
            return Prepared(resolved, load_vocabularies(place, resolved.recipe), store, Account.read_from(place))
        if parent is None:
            vocabularies = learn_vocabulary(resolved.recipe, self.texts(files), listener, *self.tags)
        else:
            vocabularies = parent.vocabularies
        return self._write(resolved, vocabularies, files, folder, listener)

    def reopen(
        self,
        learned: Learned[Any],
        given: Resolved[Any],
        files: Any,
        folder: Path,
        listener: Listener,
        *,
        kept_in: Path | None = None,
    ) -> Store:
        depends_on = dependencies(learned.recipe, files)
        if found := find_prepared(folder, kept_in, depends_on, listener, ignoring={"weft"}):
            return found[1]
        return self._write(learned.resolved, learned.vocabularies, files, folder, listener).store

    def _write(
        self,
        resolved: Resolved[Any],
        vocabularies: Mapping[str, Tokenizer],
        files: Any,
        folder: Path,
        listener: Listener,
    ) -> Prepared[Any]:
        recipe, tokenizer = resolved.recipe, vocabularies["text"]
        rows = self.encode(recipe, tokenizer, files)
        if not rows.places:
            raise RunError(f"there are only {rows.limit}")
        messages = [f"{rows.too_long:,} training {rows.limit} dropped"] if rows.too_long else []
        read = len(rows.places) + rows.too_long
        account = Account(read, 0, {}, {}, read, rows.too_long, 0, len(rows.places), {}, messages, {})
        columns = {name: Sentences(ids) for name, ids in rows.columns.items()}
        largest_id = max(tokenizer.vocab_size - 1, *(int(column.ids.max(initial=0)) for column in columns.values()))
        depends_on = dependencies(recipe, files)
        with StoreWriter(folder, tuple(columns), largest_id=largest_id, depends_on=depends_on) as writer:
            for file in files.train:
                of_file = [row for row, (name, _) in enumerate(rows.places) if name == file]
                writer.begin_part(file)
                some = tuple(Sentences([ids[row] for row in of_file]) for ids in rows.columns.values())
                writer.append(some, [rows.places[row][1] for row in of_file])
            writer.add(ACCOUNT, account.as_json())
            for name, content in vocabulary_files(recipe, vocabularies).items():
                writer.add(name, content)
        for message in messages:
            listener.on_message(message)
        return Prepared(resolved, vocabularies, open_store(folder), account)


def dependencies(recipe: Any, files: Any) -> dict[str, Any]:
    """Everything that the ids depend on, as JSON."""
    tables = {"data": recipe.data.model_dump(mode="json"), "tokenizer": recipe.tokenizer.model_dump(mode="json")}
    return {"weft": code_digest(), "files": files.sha256, **tables}


def begun_with(resolved: Resolved[Any]) -> tuple[Resolved[Any], Learned[Any] | None]:
    """The recipe with the [model] and [tokenizer] of the model in training.init, or the tokenizer of the translator in
    tokenizer.vocabulary_of, and that model, with its vocabulary as `text`; None without one.

    Raises RecipeError if the recipe asks for another shape, vocabulary or language. It may ask for other dropouts.
    """
    init, translator = resolved.recipe.training.init, resolved.recipe.tokenizer.vocabulary_of
    if init is None:
        return (resolved, None) if translator is None else with_vocabulary_of(resolved, translator)
    model = check_model(find_model(init))
    _, dropouts = tied_to_weights(model.recipe.model)
    problems = []
    if model.recipe.task != resolved.recipe.task:
        problems.append(Problem(f"training.init = {init}", f'is of the task "{model.recipe.task}"'))
    else:
        for table in ("model", "tokenizer"):
            theirs = dict(getattr(model.recipe, table))
            for key, ours in getattr(resolved.recipe, table):
                is_given = resolved.origins[f"{table}.{key}"] != "default" and f"{table}.{key}" not in dropouts
                if is_given and ours != theirs.get(key):
                    what = f"the model {init} has {theirs.get(key)}; leave the key out"
                    problems.append(Problem(f"{table}.{key} = {ours}", what))
        ours, theirs = (getattr(recipe.data, "language", "") for recipe in (resolved.recipe, model.recipe))
        if code_of(ours) != code_of(theirs):
            problems.append(Problem(f"data.language = {ours}", f"the model {init} was trained with {theirs}"))
    if problems:
        raise RecipeError(f"the recipe with training.init = {init}", problems)
    given = {key for key, origin in resolved.origins.items() if origin != "default"}
    keys = {f"{table}.{key}": value for table in ("model", "tokenizer") for key, value in getattr(model.recipe, table)}
    if resolved.recipe.model.kind != model.recipe.model.kind:  # whose keys are other ones
        origins = {key: origin for key, origin in resolved.origins.items() if not key.startswith("model.")}
        origins |= {key: "init" for key in keys if key.startswith("model.")}
        resolved = Resolved(resolved.recipe.model_copy(update={"model": model.recipe.model}), origins)
    keys = {key: value for key, value in keys.items() if not (key in dropouts and key in given)}
    return changed(resolved, keys, "init"), model


def valid_share(recipe: Any) -> float | None:
    return getattr(recipe.data, "valid_share", None)


def with_vocabulary_of(resolved: Resolved[Any], name: str) -> tuple[Resolved[Any], Learned[Any]]:
    """Raises RecipeError if the model does not translate."""
    model = check_model(find_model(name))
    if model.recipe.task != "translation":
        what = f'is of the task "{model.recipe.task}"; the vocabulary is that of a translator'
        raise RecipeError("the recipe", [Problem(f"tokenizer.vocabulary_of = {name}", what)])
    theirs, target = model.recipe.tokenizer, model.vocabularies["target"]
    keys = {
        "tokenizer.kind": theirs.kind,
        "tokenizer.normalization": theirs.normalization,
        "tokenizer.punctuation": theirs.target_punctuation,
        "tokenizer.script": script_of(model.recipe, "target"),
        "tokenizer.copying": theirs.copying,
    }
    resolved = changed(resolved, keys, "translator")
    tokenizer, language = resolved.recipe.tokenizer, resolved.recipe.data.language
    read = read_tokenizer(target.model, Path(name), kind=tokenizer.kind, language=language, **text_forms(tokenizer))
    model.vocabularies = {"text": read}
    return resolved, model


def learn_vocabulary(recipe: Any, texts: Sequence[str], listener: Listener, *tags: str) -> dict[str, Tokenizer]:
    """The vocabulary of a recipe with `data.language` and the table [tokenizer] of a task with one vocabulary."""
    tokenizer, message = train_tokenizer(
        texts,
        kind=recipe.tokenizer.kind,
        vocab_size=recipe.tokenizer.size,
        language=recipe.data.language,
        tags=tags,
        **text_forms(recipe.tokenizer),
    )
    if message is not None:
        listener.on_message(message)
    return {"text": tokenizer}
