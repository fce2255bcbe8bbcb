"""Decides which requests are answered, before their body is read; adds the headers of every response and logs it.

An ASGI middleware around the application. It checks, in this order: how much was sent beyond the request, the name in
the header Host, the site whose page sends the request, the key, the client's rate, the queue, the size of the body.
Then it reads the body within a time limit; only after that the request takes a slot in the queue. The application
responds within a time limit of its own, and is cancelled as soon as its client disconnects.
"""

import asyncio
import ipaddress
import logging
import re
import time
import traceback
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from weft.serving.keys import Keys
from weft.serving.limits import Limits
from weft.serving.metrics import Metrics
from weft.serving.rates import RateLimiter, network_of
from weft.serving.refusals import Refused, busy, internal_error, response_to, too_slow, wrong_key

App = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]

log = logging.getLogger("weft.serving")

DEFAULT_HEADERS = {
    b"content-security-policy": b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
DEFAULT_PORTS = {"http": ":80", "https": ":443"}
MOST_UNREAD = 64 << 10
"""Bytes that a client may send beyond a request. uvicorn reads some hundred KiB of them for each request that it
answers, which may have forty bytes."""
FINAL_ERROR_SECONDS = 5.0
"""Time for a stream whose deadline has passed to send its error."""


@dataclass(frozen=True)
class RoutePolicy:
    """What a path requires of its requests."""

    key: Literal["none", "header", "body"] = "none"
    """Where the key may be, if the server has keys; `body` allows the header too."""
    uses_model: bool = False
    """Whether a request takes a slot in the queue."""
    takes_body: bool = False
    is_document: bool = False
    """Whether the response may take as long as a document's."""
    is_probe: bool = False
    """Whether load balancers and monitors ask for it, which know the server by its IP address."""


@dataclass
class ServerState:
    """What all requests share."""

    limits: Limits
    metrics: Metrics
    keys: Keys = field(default_factory=Keys)
    hosts: frozenset[str] | None = None
    """Names that the header Host may have; None: any."""
    is_draining: bool = False
    in_flight: int = field(default=0, init=False)
    bytes_in_reading: int = field(default=0, init=False)
    """Received bytes of bodies that are not complete yet."""

    @property
    def is_full(self) -> bool:
        return self.in_flight >= self.limits.queue

    def check_queue(self) -> None:
        if self.is_full:
            raise busy(f"{self.in_flight} requests are waiting already; try again soon")

    @contextmanager
    def slot(self) -> Iterator[None]:
        """A slot in the queue."""
        self.in_flight += 1
        self.metrics.in_flight.set(self.in_flight)
        try:
            yield
        finally:
            self.in_flight -= 1
            self.metrics.in_flight.set(self.in_flight)

    def count_refusal(self, refused: HTTPException) -> None:
        self.metrics.refused.labels(str(refused.status_code)).inc()


class Admission:
    """Middleware for an application with these policies by path; another path needs no key and reads no body."""

    def __init__(
        self, app: App, state: ServerState, policies: Mapping[str, RoutePolicy], origins: Collection[str] = ()
    ) -> None:
        """`origins` are other sites whose pages may send requests; "*" stands for all."""
        self.app, self.state, self.policies, self.origins = app, state, policies, origins
        rate = state.limits.requests_per_minute
        self.rates = RateLimiter(rate) if rate else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        exchange = Exchange(as_routed(scope), self.state, send)
        path = exchange.path
        policy = self.policies.get(path, RoutePolicy(key="header") if path.startswith("/v1/") else RoutePolicy())
        closes = exchange.announced_bytes > self.state.limits.body_bytes or exchange.unread_bytes > MOST_UNREAD
        try:
            self.admit(exchange, policy)
            closes = True
            body = await read_body(receive, self.state) if policy.takes_body else b""
            closes = False
            if policy.uses_model:  # the queue may have filled meanwhile
                self.state.check_queue()
        except Refused as refused:
            self.state.count_refusal(refused)
            await exchange.refuse(refused, closes=closes)
            return
        if body is None:
            self.state.metrics.cancelled.inc()
            return
        with self.state.slot() if policy.uses_model else nullcontext():
            await self._respond(exchange, policy, receive, body)

    def admit(self, exchange: "Exchange", policy: RoutePolicy) -> None:
        """Check the head of a request. Raises Refused."""
        state, headers = self.state, exchange.headers
        if "\n" in exchange.path:  # the pattern of a route matches before it, but its policy would not be found
            raise Refused(404, "Not Found")
        if exchange.unread_bytes > MOST_UNREAD:
            raise Refused(400, "too much was sent before the response to this request; wait for each response")
        host = host_name(headers.get("host", ""))
        if state.hosts is not None and host not in state.hosts and not (policy.is_probe and is_address(host)):
            raise Refused(421, "this server is not known by the name in the header Host; --allow-host NAME adds it")
        if policy.takes_body and not self._is_allowed_origin(headers):
            raise Refused(403, "pages of other sites may not use this server; --allow-origin ORIGIN allows one")
        key = key_in(headers)
        is_known = key is not None and state.keys.admit(key)
        if state.keys and policy.key != "none" and not is_known and (key is not None or policy.key == "header"):
            raise wrong_key(was_given=key is not None, may_be_in_body=policy.key == "body")
        exchange.scope.setdefault("state", {})["has_key"] = is_known or not state.keys
        if policy.takes_body and self.rates is not None:
            client = exchange.scope.get("client") or ("", 0)
            if not self.rates.allow(key.decode("latin-1") if is_known and key is not None else network_of(client[0])):
                rate = f"more than {state.limits.requests_per_minute} requests a minute"
                raise Refused(429, f"Slowdown: {rate}", {"Retry-After": "60"})
        if policy.uses_model:
            state.check_queue()
        if policy.takes_body and exchange.announced_bytes > state.limits.body_bytes:
            raise too_large(state.limits)

    def _is_allowed_origin(self, headers: Mapping[str, str]) -> bool:
        """A browser sends a form to any server for any page, but names the site of the page."""
        origin = headers.get("origin")
        if origin is None or "*" in self.origins or origin in self.origins:
            return True
        return is_same_site(origin, headers.get("host", ""))

    async def _respond(self, exchange: "Exchange", policy: RoutePolicy, receive: Receive, body: bytes) -> None:
        limits = self.state.limits
        state = exchange.scope["state"]
        state["stream_deadline"] = asyncio.get_running_loop().time() + limits.document_seconds
        disconnected = asyncio.Event()
        responding = asyncio.create_task(self.app(exchange.scope, replay(body, disconnected), exchange.send))
        leaving = asyncio.create_task(until_disconnected(receive))
        seconds = limits.document_seconds if policy.is_document else limits.seconds
        try:
            await first_of(responding, leaving, seconds)
            if not (responding.done() or leaving.done()) and state.get("is_stream"):  # a route knows it from the body
                await first_of(responding, leaving, limits.document_seconds + FINAL_ERROR_SECONDS - seconds)
            if responding.done() or exchange.is_complete:
                await responding  # raises what the application raised
                return
            disconnected.set()
            responding.cancel()
            with suppress(asyncio.CancelledError, TooSlow):
                await responding
            if leaving.done():
                self.state.metrics.cancelled.inc()
            elif not exchange.status:
                refused = too_slow(seconds)
                self.state.count_refusal(refused)
                await exchange.refuse(refused)
        except TooSlow:
            self.state.metrics.cancelled.inc()
        except Exception as error:
            where = "".join(traceback.format_tb(error.__traceback__))  # its message might contain a text
            log.error("%s in %s, a bug in weft:\n%s", type(error).__name__, exchange.path, where)
            if not exchange.status:
                await exchange.refuse(internal_error())
        finally:
            responding.cancel()
            leaving.cancel()


class Exchange:
    """A request and its response: adds the default headers, counts and logs."""

    def __init__(self, scope: Scope, state: ServerState, send: Send) -> None:
        self.scope, self.state, self._send = scope, state, send
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self.began = time.monotonic()
        self.status = 0
        self.is_complete = False

    @property
    def path(self) -> str:
        return self.scope["path"]

    @property
    def unread_bytes(self) -> int:
        """Bytes received beyond this request (server.py)."""
        unread = self.scope.get("state", {}).get("unread")
        return 0 if unread is None else unread()

    @property
    def announced_bytes(self) -> int:
        length = self.headers.get("content-length", "0")
        return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0

    async def refuse(self, refused: Refused, *, closes: bool = False) -> None:
        """`closes` ends the connection instead of reading the rest of the body."""
        response = response_to(refused, self.path)
        if closes:
            response.headers["Connection"] = "close"
        await response(self.scope, replay(b"", asyncio.Event()), self.send)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            defaults = {**DEFAULT_HEADERS, **({b"connection": b"close"} if self.state.is_draining else {})}
            given = list(message["headers"])
            for name, _ in given:
                defaults.pop(name.lower(), None)
            message["headers"] = [*given, *defaults.items()]
        try:
            async with asyncio.timeout(self.state.limits.seconds):
                await self._send(message)
        except TimeoutError:
            raise TooSlow from None
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.is_complete = True
            self._count()

    def _count(self) -> None:
        seconds = time.monotonic() - self.began
        route = getattr(self.scope.get("route"), "path", None)
        self.state.metrics.requests.labels(route or "none", str(self.status)).inc()
        self.state.metrics.seconds.labels(route or "none").observe(seconds)
        shown = route or ascii(self.path[:200])[1:-1]
        log.info("%s %s %d %.0f ms", self.scope["method"][:20], shown, self.status, 1000 * seconds)


class TooSlow(Exception):
    """A client does not read its response."""


async def first_of(responding: asyncio.Task[Any], leaving: asyncio.Task[Any], seconds: float) -> None:
    await asyncio.wait({responding, leaving}, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)


async def read_body(receive: Receive, state: ServerState) -> bytes | None:
    """The whole body; None if the client disconnects. Raises Refused if it is too large or too slow, or if all bodies
    that are being read exceed those of a full queue."""
    limits = state.limits
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                part = message.get("body", b"")
                body += part
                state.bytes_in_reading += len(part)
                if len(body) > limits.body_bytes:
                    raise too_large(limits)
                if state.bytes_in_reading > limits.queue * limits.body_bytes:
                    raise busy("too many requests are being read; try again soon")
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise Refused(408, f"the body was not received within {limits.body_seconds:g} s") from None
    finally:
        state.bytes_in_reading -= len(body)


def too_large(limits: Limits) -> Refused:
    return Refused(413, f"the body is larger than {limits.body_bytes:,} bytes; send less at once")


def replay(body: bytes, disconnected: asyncio.Event) -> Receive:
    """A `receive` for a body that has been read, then for the end of the connection."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await disconnected.wait()
        return {"type": "http.disconnect"}

    return receive


async def until_disconnected(receive: Receive) -> None:
    """Return when the client has disconnected or has its response."""
    while (await receive())["type"] != "http.disconnect":
        pass


AUTHORITY = re.compile(r"https?://[^/]*", re.IGNORECASE)


def as_routed(scope: Scope) -> Scope:
    """The request as routes know it: HEAD is a GET whose body uvicorn omits, and the target may be an absolute URI
    (RFC 9112, 3.2.2)."""
    address = AUTHORITY.match(scope["path"])
    path = scope["path"][address.end() :] or "/" if address else scope["path"]
    return {**scope, "method": "GET" if scope["method"] == "HEAD" else scope["method"], "path": path}


def is_same_site(origin: str, host: str) -> bool:
    """Whether a page of this origin came from this host. The scheme is ignored, since it differs behind a proxy."""
    scheme, _, site = origin.lower().partition("://")
    port = DEFAULT_PORTS.get(scheme)
    return port is not None and site.removesuffix(port) == host.lower().removesuffix(port)


def host_name(host: str) -> str:
    """The name in a header Host, without the port."""
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name.lower().rstrip(".")


def is_address(host: str) -> bool:
    """Whether a host is an IP address, or not given. A page cannot pretend to come from one, as it can from a name."""
    try:
        return not host or bool(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return False


def key_in(headers: Mapping[str, str]) -> bytes | None:
    """The key of a header Authorization."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip().encode("latin-1") if scheme.lower() == "bearer" else None
