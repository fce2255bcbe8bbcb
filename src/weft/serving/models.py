"""The models of a server, each with its own thread, and replacing them without losing a request.

A request keeps the model that it started with. After a reload new requests get the new models, and an old one is freed
with the last request that holds it.
"""

import asyncio
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from weft.errors import UsageError
from weft.folders.finding import find_model, task_of
from weft.folders.summary import read_card
from weft.serving.batching import Worker
from weft.tasks.generating import LanguageModel, open_model
from weft.text.language import code_of
from weft.translating.exported import load_for
from weft.translating.glossary import Glossary
from weft.translating.memory import TranslationMemory
from weft.translating.passages import PassageTranslator
from weft.translating.translator import Translator

Engine = Literal["native", "ctranslate2", "onnx"]
Observe = Callable[[str, int], None]
"""Called with a model's name and the number of sentences of a batch."""


@dataclass(frozen=True)
class Source:
    """Where a model comes from, as given on the command line."""

    folder: str
    engine: Engine | None = None
    overrides: tuple[str, ...] = ()
    glossary: Path | None = None
    memory: Path | None = None


@dataclass(frozen=True)
class ServedModel:
    """A loaded model and its thread."""

    id: str
    translator: Translator
    worker: Worker
    glossary: Glossary | None = None
    """Terms that hold for every request; those of a request go first."""
    memory: TranslationMemory | None = None
    """Earlier translations, which equal sentences get."""
    card: str = ""
    """The model card; empty without one."""
    plain: PassageTranslator = field(init=False)
    marked: PassageTranslator = field(init=False)
    """For texts whose markup is kept."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "plain", PassageTranslator(self.translator))
        object.__setattr__(self, "marked", PassageTranslator(self.translator, keeps_markup=True))

    @property
    def source(self) -> str:
        return code_of(self.translator.model.recipe.data.source)

    @property
    def target(self) -> str:
        return code_of(self.translator.model.recipe.data.target)

    @property
    def direction(self) -> tuple[str, str]:
        return self.source, self.target


@dataclass(frozen=True)
class ServedWriter:
    """A loaded language model and its thread."""

    id: str
    model: LanguageModel
    worker: Worker
    card: str = ""


Served = ServedModel | ServedWriter


class Models:
    """All models by id; a direction is translated by the first of its models."""

    def __init__(self, sources: Sequence[Source], observe: Observe = lambda name, sentences: None) -> None:
        """Load the models. Raises UsageError, and what `load_for` raises."""
        self.sources = dict(zip(ids_of(sources), sources, strict=True))
        self.observe = observe
        self.all = load(self.sources, observe)
        self.directions = {model.direction: model.id for model in reversed(self.loaded.values())}
        self._workers = weakref.WeakSet(model.worker for model in self.all.values())
        self._reloading = asyncio.Lock()
        self._loader = ThreadPoolExecutor(1, "weft loads")  # requests share the other threads

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self.loaded.values())

    @property
    def loaded(self) -> dict[str, ServedModel]:
        """The translators by id."""
        return {name: model for name, model in self.all.items() if isinstance(model, ServedModel)}

    @property
    def writers(self) -> dict[str, ServedWriter]:
        """The language models by id."""
        return {name: model for name, model in self.all.items() if isinstance(model, ServedWriter)}

    def between(self, source: str, target: str) -> ServedModel | None:
        """The model of a direction; languages are codes such as zh, zh-CN or zh-Hans."""
        name = self.directions.get((code_of(source), code_of(target)))
        return None if name is None else self.loaded[name]

    @property
    def languages(self) -> list[str]:
        """Source and target languages, sorted."""
        return sorted({code for direction in self.directions for code in direction})

    def targets_of(self, source: str) -> list[str]:
        return sorted({target for one, target in self.directions if one == source})

    async def reload(self, report: Callable[[BaseException | None], None] = lambda error: None) -> None:
        """Load all models again from their folders; if any of them fails, the old ones stay.

        Uses the memory of both meanwhile; a second call waits for the first. A reload is finished even if its caller is
        cancelled; `report` is called with its error or None. Raises UsageError if a folder now translates between other
        languages, and what `load_for` raises.
        """
        await self._reloading.acquire()
        loading = asyncio.create_task(self._load_anew())

        def end(loading: asyncio.Task[None]) -> None:
            self._reloading.release()
            if not loading.cancelled():  # when the loop is closed
                report(loading.exception())

        loading.add_done_callback(end)
        await asyncio.shield(loading)

    async def _load_anew(self) -> None:
        loop = asyncio.get_running_loop()
        new = await loop.run_in_executor(self._loader, load, self.sources, self.observe)
        moved = [name for name, model in new.items() if direction_of(model) != direction_of(self.all[name])]
        if moved:
            close(new)
            what = "translates between other languages than before; restart weft serve"
            raise UsageError(f"{', '.join(moved)}: {what}")
        self.all = new
        self._workers.update(model.worker for model in new.values())

    def close(self, seconds: float) -> None:
        """Close the threads of all models, also of replaced ones, and wait up to `seconds` for them: Python aborts a
        process that exits while one of them works."""
        workers, ends = list(self._workers), time.monotonic() + seconds
        for worker in workers:
            worker.close()
        for worker in workers:
            worker.thread.join(max(0.0, ends - time.monotonic()))


def direction_of(model: Served) -> tuple[str, str] | None:
    """None for a language model."""
    return model.direction if isinstance(model, ServedModel) else None


def load(sources: dict[str, Source], observe: Observe) -> dict[str, Served]:
    models = dict[str, Served]()
    are_writers = {name: task_of(find_model(source.folder)) == "language-model" for name, source in sources.items()}
    if all(are_writers.values()) and any(each.engine or each.glossary or each.memory for each in sources.values()):
        raise UsageError("--engine, --glossary and --memory are for models that translate, and none is served")
    try:
        for name, source in sources.items():
            if are_writers[name]:
                writer = open_model(source.folder, source.overrides)
                card = read_card(find_model(source.folder))
                models[name] = ServedWriter(name, writer, Worker(name, partial(observe, name)), card)
            else:
                models[name] = load_translating(name, source, observe)
            weakref.finalize(models[name], models[name].worker.close)  # when no request holds the model
    except BaseException:
        close(models)
        raise
    return models


def load_translating(name: str, source: Source, observe: Observe) -> ServedModel:
    """A translator with the server's glossary and memory, which have to fit it."""
    translator = load_for(source.folder, source.overrides, source.engine)
    translator.most_searches = 1  # in the thread of the model, which pauses between their steps
    glossary = translator.as_glossary(source.glossary)
    if glossary:
        glossary = translator.as_read(glossary)
        method = "beam" if translator.decoding.method == "greedy" else translator.decoding.method
        translator.check_glossary(glossary, method=method)
    memory = None if source.memory is None else translator.as_memory(source.memory)
    card = read_card(translator.folders[0]) if translator.folders else ""
    return ServedModel(name, translator, Worker(name, partial(observe, name)), glossary, memory, card)


def close(models: dict[str, Served]) -> None:
    """Free models that are not served after all, since a stored error would keep what its frames hold."""
    for model in models.values():
        model.worker.close()
    models.clear()


def ids_of(sources: Sequence[Source]) -> list[str]:
    """The last part of each path, links not followed. Raises UsageError if two are equal."""
    names = [Path(os.path.abspath(source.folder)).name for source in sources]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"several models are called {', '.join(doubled)}; give folders whose last names differ")
    return names
