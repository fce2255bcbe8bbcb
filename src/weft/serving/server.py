"""The process of a server: its socket, its signals, and an end that loses nothing.

SIGTERM and Ctrl-C begin the end: /ready says 503 and answers close their connections, so that a load balancer sends no
more; after a while the socket is closed, what was begun is finished, and the process exits with 0. SIGHUP loads the
models anew.
"""

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import uvicorn

from weft.errors import UsageError
from weft.serving.admission import House
from weft.serving.app import Application, admission_of
from weft.serving.doorkeeper import Doorkeeper, PatientSelector, Tally
from weft.serving.refusals import Refused
from weft.serving.service import Service
from weft.serving.weft_api import reload_models

log = logging.getLogger("weft.serving")


BACKLOG = 2048
"""Connections that wait to be taken, so that a moment's crowd is refused by us and not by the kernel."""
LAST_BATCH_SECONDS = 10.0
"""That a model's thread has to leave off a batch that nobody waits for any more."""


@dataclass(frozen=True)
class Address:
    host: str = "127.0.0.1"
    port: int = 5000
    """0 takes one that is free."""
    proxies: Sequence[str] = ()
    """Addresses whose X-Forwarded-For and X-Forwarded-Proto are believed."""
    grace: float = 1.0
    """Seconds between a signal and the closed socket."""


def run(app: Application, service: Service, address: Address) -> None:
    """Serve until a signal says otherwise. Raises UsageError where the address cannot be listened on."""
    listener = listen(address)
    try:
        with asyncio.Runner(loop_factory=partial(make_loop, service.house)) as runner:
            runner.run(serve(make_server(app, service.house, address), service, listener))
    finally:
        service.models.close(LAST_BATCH_SECONDS)


def make_loop(house: House) -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(PatientSelector(house))


def listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        where = f"{address.host}, port {address.port},"
        raise UsageError(f"{where} cannot be listened on: {error.strerror}; choose with --host and --port") from None
    # asyncio does it only for sockets that say TCP themselves; without it a body waits 40 ms for its head's receipt
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def make_server(app: Application, house: House, address: Address) -> "DrainingServer":
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        http=cast(Any, partial(Doorkeeper, admission_of(app), Tally())),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(address.proxies),
        forwarded_allow_ips=list(address.proxies),
        timeout_graceful_shutdown=int(max(1, house.limits.seconds)),
        backlog=BACKLOG,
    )
    return DrainingServer(config, house, address.grace)


async def serve(server: "DrainingServer", service: Service, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    reloading: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        with suppress(Refused):  # it is in the log
            await reload_models(service)

    def begin_reload() -> None:
        task = loop.create_task(reload())
        reloading.add(task)
        task.add_done_callback(reloading.discard)

    if hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, begin_reload)
    await server.serve([listener])


class DrainingServer(uvicorn.Server):
    """uvicorn's server with an end in two steps, that also lets go of connections on which nothing comes."""

    def __init__(self, config: uvicorn.Config, house: House, grace: float) -> None:
        super().__init__(config)
        self.house, self.grace = house, grace
        self.closes_at: float | None = None
        self.idle_since: dict[tuple[Any, int], float] = {}
        """Connections with the bytes of an answer that they have still to take: one that takes some is not idle."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        log.info("ready on http://%s:%d", host, bound_port(self))

    def handle_exit(self, sig: int, frame: Any) -> None:
        """A second signal does not wait for the grace; a third does not wait for anything."""
        if self.should_exit:
            self.force_exit = True
        if self.closes_at is not None:
            self.should_exit = True
            return
        self.house.is_draining = True
        self.closes_at = time.monotonic() + self.grace
        log.info("%s: no new requests from now on", signal.Signals(sig).name)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._drop_idle()
        if self.closes_at is not None and time.monotonic() >= self.closes_at:
            self.should_exit = True
        return await super().on_tick(counter)

    def _drop_idle(self) -> None:
        """End connections that for a while have neither had a request nor taken anything of an answer."""
        now = time.monotonic()
        connections = [one for one in self.server_state.connections if is_idle(one)]
        idle = [(one, one.transport.get_write_buffer_size()) for one in connections]
        self.idle_since = {one: self.idle_since.get(one, now) for one in idle}
        limits = self.house.limits
        for (connection, left), since in self.idle_since.items():  # the system asks for a megabyte at a time
            if now - since > (limits.seconds if left else limits.body_seconds):
                connection.transport.abort()


def is_idle(connection: Any) -> bool:
    """Whether nothing is being answered on it. After an answer, uvicorn itself ends one on which nothing more comes."""
    if connection.transport.is_closing():
        return True
    is_answered = connection.cycle is None or connection.cycle.response_complete
    return is_answered and connection.timeout_keep_alive_task is None


def bound_port(server: uvicorn.Server) -> int:
    return server.servers[0].sockets[0].getsockname()[1]


def is_no_cancellation(record: logging.LogRecord) -> bool:
    """uvicorn writes a traceback for every answer that the end has cut off, after a line that counts them."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def write_log_to_stderr() -> None:
    """Of weft's own lines all, of uvicorn's those of errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(is_no_cancellation)
    for name, least in (("weft.serving", logging.INFO), ("uvicorn", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)
