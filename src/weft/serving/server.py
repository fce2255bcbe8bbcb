"""The server process: its socket, its signals, and a shutdown that loses no request.

SIGTERM and Ctrl-C start the shutdown: /ready answers 503 and every response closes its connection, so that a load
balancer stops sending requests; after a grace period the socket is closed, running requests finish, and the process
exits with 0. SIGHUP reloads the models.
"""

import asyncio
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.errors import UsageError
from weft.serving.app import Application
from weft.serving.refusals import Refused
from weft.serving.service import Service
from weft.serving.weft_api import reload_models

log = logging.getLogger("weft.serving")

BACKLOG = 2048
"""Connections that may wait to be accepted, so that the kernel refuses none of a burst."""
ACCEPTED_AT_ONCE = 32
"""Connections that are accepted before room is made for them; with a whole burst at once no file would be left."""
OTHER_FILES = 6 * ACCEPTED_AT_ONCE
"""Open files that are not counted connections: models, logs, and connections that are just being opened or closed."""
CLOSED_SHARE = 1 / 16
"""Share of the connections that is closed to make room."""
LAST_BATCH_SECONDS = 10.0
"""How long a model's thread may take to abandon its batch at exit."""


@dataclass(frozen=True)
class Address:
    host: str = "127.0.0.1"
    port: int = 5000
    """0 takes a free one."""
    proxies: Sequence[str] = ()
    """Addresses whose X-Forwarded-For and X-Forwarded-Proto are trusted."""
    grace: float = 1.0
    """Seconds between a signal and the closed socket."""


def run(app: Application, service: Service, address: Address) -> None:
    """Serve until a signal. Raises UsageError if the address cannot be listened on."""
    listener = listen(address)
    try:
        asyncio.run(make_server(app, service, address).serve([listener]))
    finally:
        service.models.close(LAST_BATCH_SECONDS)


def listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        where = f"{address.host}, port {address.port}"
        raise UsageError(f"cannot listen on {where}: {error.strerror}; choose with --host and --port") from None
    # asyncio sets it only on sockets that name TCP as their protocol; without it a body waits 40 ms for an ACK
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def make_server(app: Application, service: Service, address: Address) -> uvicorn.Server:
    limits = service.state.limits
    connections = min(limits.connections, max(1, most_open_files(limits.connections + OTHER_FILES) - OTHER_FILES))
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        http=cast("type[asyncio.Protocol]", Connections(connections).open),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(address.proxies),
        forwarded_allow_ips=list(address.proxies),
        limit_concurrency=connections + ACCEPTED_AT_ONCE,  # if none of them can be closed
        timeout_graceful_shutdown=int(max(1, limits.seconds)),
        timeout_notify=0,
        backlog=ACCEPTED_AT_ONCE,
    )
    server = uvicorn.Server(config)
    config.callback_notify = Lifecycle(server, service, address.grace).tick
    return server


class Connections:
    """Opens connections, and keeps them to a number: for new ones the oldest that wait for their client are closed."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.opened: list[H11Protocol] = []
        """The oldest first; some are closed already."""

    def open(self, *, app_state: dict[str, Any], **settings: Any) -> H11Protocol:
        """uvicorn's protocol for a new connection; its requests know how many bytes were received beyond them."""
        if len(self.opened) >= self.most:
            self.opened = [one for one in self.opened if one.transport is None or not one.transport.is_closing()]
        if len(self.opened) >= self.most:
            self._make_room()
        state = {**app_state, "unread": lambda: len(opened.conn.trailing_data[0])}
        opened = H11Protocol(app_state=state, **settings)
        self.opened.append(opened)
        return opened

    def _make_room(self) -> None:
        """Close some that wait for their client: first those from which no whole request has come.

        A burst opens up to ACCEPTED_AT_ONCE connections before any of them can be closed; so more than a share may go.
        """
        waiting = [one for one in self.opened if one.transport is not None and waits_for_client(one)]
        waiting.sort(key=lambda one: one.cycle is not None and one.cycle.response_complete)
        excess = len(self.opened) - self.most + 1
        for one in waiting[: max(excess, int(CLOSED_SHARE * self.most))]:
            one.transport.abort()


def waits_for_client(connection: H11Protocol) -> bool:
    cycle = connection.cycle
    return cycle is None or cycle.response_complete or cycle.more_body


def most_open_files(wanted: int) -> int:
    """Raise the limit of open files to `wanted` if the operating system allows it; returns how many may be open."""
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised


class Lifecycle:
    """What uvicorn leaves to us: a shutdown in two steps, SIGHUP, and connections on which nothing is received."""

    def __init__(self, server: uvicorn.Server, service: Service, grace: float) -> None:
        self.server, self.service, self.grace = server, service, grace
        self.is_ready = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.idle_since: dict[tuple[Any, int], float] = {}
        """By connection and the bytes in its write buffer: a client that reads some of its response is not idle."""

    async def tick(self) -> None:
        """uvicorn calls it once a second, for the first time when the socket is open."""
        if not self.is_ready:
            self.is_ready = True
            if threading.current_thread() is threading.main_thread():
                self._handle_signals(asyncio.get_running_loop())
            host = f"[{self.server.config.host}]" if ":" in self.server.config.host else self.server.config.host
            for listener in self.server.servers[0].sockets:
                with listener.dup() as same:
                    same.listen(BACKLOG)  # uvicorn has one number for this and ACCEPTED_AT_ONCE
            log.info("ready on http://%s:%d", host, bound_port(self.server))
        self.abort_idle(self.server.server_state.connections)

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        actions = {signal.SIGINT: self.shut_down, signal.SIGTERM: self.shut_down}
        if hasattr(signal, "SIGHUP"):
            actions[signal.SIGHUP] = self.reload
        for number, action in actions.items():
            signal.signal(number, lambda number, frame, action=action: loop.call_soon_threadsafe(action, number))

    def shut_down(self, number: int) -> None:
        """A second signal ends the grace period at once; a third does not wait for running requests either."""
        if self.server.should_exit:
            self.server.force_exit = True
        elif self.service.state.is_draining:
            self.server.should_exit = True
        else:
            log.info("%s: no new requests from now on", signal.Signals(number).name)
            self.service.state.is_draining = True
            asyncio.get_running_loop().call_later(self.grace, setattr, self.server, "should_exit", True)

    def reload(self, number: int) -> None:
        async def load() -> None:
            with suppress(Refused):  # already in the log
                await reload_models(self.service)

        task = asyncio.get_running_loop().create_task(load())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def abort_idle(self, connections: Iterable[Any]) -> None:
        """Abort connections that for some time have neither sent a request nor read any of their response."""
        now = time.monotonic()
        idle = [(one, one.transport.get_write_buffer_size()) for one in connections if is_idle(one)]
        self.idle_since = {one: self.idle_since.get(one, now) for one in idle}
        limits = self.service.state.limits
        for (connection, unread), since in self.idle_since.items():
            # A kernel takes a megabyte at a time from the buffer, so a slow reader gets longer than a silent client
            if now - since > (limits.seconds if unread else limits.body_seconds):
                connection.transport.abort()


def is_idle(connection: Any) -> bool:
    """Whether no response is being computed for it. uvicorn itself closes a connection that is idle after one."""
    if connection.transport.is_closing():
        return True
    is_answered = connection.cycle is None or connection.cycle.response_complete
    return is_answered and connection.timeout_keep_alive_task is None


def bound_port(server: uvicorn.Server) -> int:
    return server.servers[0].sockets[0].getsockname()[1]


def is_not_cancellation(record: logging.LogRecord) -> bool:
    """uvicorn logs a traceback for each response that the shutdown cancels, after a line that counts them."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def log_to_stderr() -> None:
    """Every line of weft's own loggers, only errors of uvicorn's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(is_not_cancellation)
    for name, level in (("weft.serving", logging.INFO), ("uvicorn", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
