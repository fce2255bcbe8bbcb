"""Shared by the tests of the server: a translator that answers at once, services around it, a server on a socket."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from weft.serving import models
from weft.serving.admission import App, ServerState
from weft.serving.app import make_app
from weft.serving.detection import Detector
from weft.serving.keys import Keys, line_for
from weft.serving.limits import Limits
from weft.serving.metrics import Metrics
from weft.serving.models import Models, Source
from weft.serving.server import Address, bound_port, make_server
from weft.serving.service import Service
from weft.translating.loading import load_translator
from weft.translating.translation import Translation
from weft.translating.translator import Translator

KEY = "weft-secret"
KEYS = Keys((bytes.fromhex(line_for(KEY, "")),))
HELLO = {"q": "hello", "source": "zh", "target": "en"}


class Echo(Translator):
    """Translates every text into itself in capitals, after `pause` seconds a call, and records its calls.

    While `gate` is not set, a call waits.
    """

    pause = 0.0
    has_attention = False

    def __init__(self, translator: Translator) -> None:
        super().__init__(translator.model)
        self.calls: list[list[str]] = []
        self.passed = 0
        """Calls that the gate has let through."""
        self.settings: list[dict[str, Any]] = []
        self.gate = threading.Event()
        self.gate.set()

    def translate_n_best(self, texts: Sequence[str], best: int, **settings: Any) -> list[list[Translation]]:
        self.calls.append(list(texts))
        self.settings.append(settings)
        time.sleep(self.pause)
        assert self.gate.wait(60)
        self.passed += 1
        return [
            [Translation(text, text.upper() + "'" * place, -1.0 - place, -2.0) for place in range(best)]
            for text in texts
        ]


def service_of(folder: Path, keys: Keys | None = None, *, logs_texts: bool = False, **limits: Any) -> Service:
    """A service with the model of this folder; keyword arguments are those of Limits."""
    state = ServerState(Limits(**limits), Metrics(), keys or Keys())
    served = Models([Source(str(folder))], state.metrics.observe_batch)
    return Service(served, state, Detector(served.languages), logs_texts)


MakeService = Callable[..., Service]
loaded = cache(load_translator)
"""An Echo computes nothing with its model, so all share one."""


@pytest.fixture
def make_service(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> MakeService:
    """A service, from zh to en, whose model is an Echo; its arguments are those of `service_of`."""
    monkeypatch.setattr(models, "load_for", lambda folder, *settings: Echo(loaded(folder)))
    return partial(service_of, tiny_run / "run")


def echo_of(service: Service) -> Echo:
    (model,) = service.models
    assert isinstance(model.translator, Echo)
    return model.translator


def ask(app: App, method: str, path: str, **request: Any) -> httpx.Response:
    """One request, without a socket."""

    async def asking() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **request)

    return asyncio.run(asking())


@contextmanager
def serving(service: Service, **address: Any) -> Iterator[tuple[str, uvicorn.Server]]:
    """The service on a socket of this machine, and its address."""
    server = make_server(make_app(service), service, Address(port=0, **address))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound_port(server)}", server
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


def wait_until(is_so: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)
