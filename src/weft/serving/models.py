"""The models that a server has, each with its own thread; another model in the place of one, without losing a request.

A request keeps the model that it began with. When models are loaded anew, requests that come from then on get the new
ones, and an old one ends with the last request that holds it.
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
from weft.serving.batching import Worker
from weft.text.language import code_of
from weft.translating.exported import load_for
from weft.translating.passages import PassageTranslator
from weft.translating.translator import Translator

Engine = Literal["native", "ctranslate2", "onnx"]
Observe = Callable[[str, int], None]
"""Told a model's name and the sentences of a batch."""


@dataclass(frozen=True)
class Source:
    """Where a model comes from, as the command line says it."""

    folder: str
    engine: Engine | None = None
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServedModel:
    """A model that is ready to translate."""

    id: str
    translator: Translator
    worker: Worker
    plain: PassageTranslator = field(init=False)
    marked: PassageTranslator = field(init=False)
    """The same for texts whose markup is kept."""

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


class Models:
    """All models by their ids, and which of them are asked for a direction: the first of those that were named."""

    def __init__(self, sources: Sequence[Source], observe: Observe = lambda name, sentences: None) -> None:
        """Loads them. Raises UsageError, and whatever `load_for` raises."""
        if not sources:
            raise UsageError(
                "--model is missing: a model or run folder, or a model that comes with weft, such as zh-en"
            )
        self.sources = dict(zip(ids_of(sources), sources, strict=True))
        self.observe = observe
        self.loaded = load(self.sources, observe)
        self.directions = {model.direction: model.id for model in reversed(self.loaded.values())}
        self._workers = weakref.WeakSet(model.worker for model in self.loaded.values())
        self._reloading = asyncio.Lock()
        self._loader = ThreadPoolExecutor(1, "weft loads")
        """Of its own, since requests wait for the threads that they share."""

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self.loaded.values())

    def named(self, name: str) -> ServedModel | None:
        return self.loaded.get(name)

    def between(self, source: str, target: str) -> ServedModel | None:
        """The model of a direction; languages are codes such as zh, zh-CN or zh-Hans."""
        name = self.directions.get((code_of(source), code_of(target)))
        return None if name is None else self.loaded[name]

    @property
    def languages(self) -> list[str]:
        """All that are translated from or to, in alphabetical order."""
        return sorted({code for direction in self.directions for code in direction})

    def targets_of(self, source: str) -> list[str]:
        return sorted({target for one, target in self.directions if one == source})

    @property
    def backlog(self) -> dict[str, int]:
        """Sentences that wait for each model."""
        return {model.id: model.worker.backlog for model in self}

    async def reload(self, tell: Callable[[BaseException | None], None] = lambda error: None) -> None:
        """Load all of them anew from where they came from. The old ones stay where anything is wrong with the new.

        Takes the memory of both while it lasts; who comes meanwhile waits. What has begun goes on where the caller goes
        away, since its thread does; `tell` is told how it ended in any case. Raises UsageError where a folder
        translates between other languages now, and whatever `load_for` raises.
        """
        await self._reloading.acquire()
        loading = asyncio.create_task(self._load_anew())

        def end(loading: asyncio.Task[None]) -> None:
            self._reloading.release()
            if not loading.cancelled():  # by the end of the loop
                tell(loading.exception())

        loading.add_done_callback(end)
        await asyncio.shield(loading)

    async def _load_anew(self) -> None:
        loop = asyncio.get_running_loop()
        new = await loop.run_in_executor(self._loader, load, self.sources, self.observe)
        moved = [name for name, model in new.items() if model.direction != self.loaded[name].direction]
        if moved:
            end(new)
            what = "translates between other languages than before; restart weft serve"
            raise UsageError(f"{', '.join(moved)}: {what}")
        self.loaded = new
        self._workers.update(model.worker for model in new.values())

    def close(self, seconds: float) -> None:
        """Let the threads of all models end, those of earlier ones too, and wait for so long: Python aborts a process
        that ends while one of them is at work."""
        workers, ends = list(self._workers), time.monotonic() + seconds
        for worker in workers:
            worker.close()
        for worker in workers:
            worker.thread.join(max(0.0, ends - time.monotonic()))


def load(sources: dict[str, Source], observe: Observe) -> dict[str, ServedModel]:
    models = {}
    try:
        for name, source in sources.items():
            translator = load_for(source.folder, source.overrides, source.engine)
            models[name] = ServedModel(name, translator, Worker(name, partial(observe, name)))
            weakref.finalize(models[name], models[name].worker.close)  # when no request holds the model any more
    except BaseException:
        end(models)
        raise
    return models


def end(models: dict[str, ServedModel]) -> None:
    """Let go of models that are not served after all: an error that is kept somewhere keeps what its frames hold."""
    for model in models.values():
        model.worker.close()
    models.clear()


def ids_of(sources: Sequence[Source]) -> list[str]:
    """The last name of each path, a link's own; raises UsageError where two are the same."""
    names = [Path(os.path.abspath(source.folder)).name for source in sources]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"several models are called {', '.join(doubled)}; give folders whose last names differ")
    return names
