"""Who comes in, decided before a body is read; and what every answer says of itself.

An ASGI middleware around the application. In this order: the Host that a browser believes to talk to, the site whose
page has it ask, the key, the rate of the client, the queue, the size of the body; then the body is read, within its
time; only then a place in the queue is taken. The application answers within its own time, and is cancelled as soon as
nobody waits for it.
"""

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.serving.keys import Keys
from weft.serving.limits import Limits
from weft.serving.metrics import Metrics
from weft.serving.rates import Rates, network_of
from weft.serving.refusals import Refused, busy, defect, response_to, too_slow, wrong_key

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]

log = logging.getLogger("weft.serving")

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}
STANDING_HEADERS = tuple(
    (name.encode(), value.encode()) for name, value in {**SECURITY_HEADERS, "cache-control": "no-store"}.items()
)
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
DEFAULT_PORTS = {"http": ":80", "https": ":443"}
LAST_WORD_SECONDS = 5.0
"""In which a stream whose time is over can still say so."""


@dataclass(frozen=True)
class Door:
    """What a path asks of those who come by it."""

    key: Literal["none", "header", "body"] = "none"
    """Where a key may stand, if the server has keys; `body` takes it from the header as well."""
    uses_model: bool = False
    """Whether a request takes a place in the queue."""
    takes_body: bool = False
    is_document: bool = False
    """Whether its answer may take as long as a document's."""


@dataclass
class House:
    """What all requests share."""

    limits: Limits
    metrics: Metrics
    keys: Keys = field(default_factory=Keys)
    hosts: frozenset[str] | None = None
    """Names that a Host header may have; None: any."""
    is_draining: bool = False
    in_flight: int = field(default=0, init=False)
    bytes_in_reading: int = field(default=0, init=False)
    """Of bodies that are not there as a whole yet."""

    @property
    def is_full(self) -> bool:
        return self.in_flight >= self.limits.queue

    def refuse_where_full(self) -> None:
        if self.is_full:
            raise busy(f"{self.in_flight} requests are waiting already; try again soon")

    def count_refusal(self, refused: Refused) -> None:
        self.metrics.refused.labels(str(refused.status)).inc()


class Admission:
    """Around an application whose paths are `doors`; a path that is not among them is open and reads no body."""

    def __init__(self, app: App, house: House, doors: Mapping[str, Door], origins: Collection[str] = ()) -> None:
        """`origins` are other sites whose pages may ask; "*" is all of them."""
        self.app, self.house, self.doors, self.origins = app, house, doors, origins
        self.rates = Rates(house.limits.requests_per_minute) if house.limits.requests_per_minute else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        visit = Visit(as_routed(scope), self.house, send)
        door = self.door_of(visit)
        closes = visit.announced_bytes > self.house.limits.body_bytes
        try:
            self.admit(visit, door)
            closes = True
            body = await read_body(receive, self.house) if door.takes_body else b""
            closes = False
            if door.uses_model:  # others may have come while the body did
                self.house.refuse_where_full()
        except Refused as refused:
            self.house.count_refusal(refused)
            await visit.refuse(refused, closes=closes)
            return
        if body is None:
            self.house.metrics.cancelled.inc()
            return
        with Place(self.house if door.uses_model else None):
            await self._answer(visit, door, receive, body)

    def door_of(self, visit: "Visit") -> Door:
        return self.doors.get(visit.path, Door(key="header") if visit.path.startswith("/v1/") else Door())

    def admit(self, visit: "Visit", door: Door) -> None:
        """Raises Refused; looks at nothing but the head of the request."""
        house = self.house
        if house.hosts is not None and host_name(visit.headers.get("host", "")) not in house.hosts:
            raise Refused(421, "this server is not known by the name in the header Host; --allow-host NAME adds it")
        if door.takes_body:
            self._refuse_other_sites(visit)
        key = key_in(visit.headers)
        is_known = key is not None and house.keys.admit(key)
        if house.keys and door.key != "none" and not is_known and (key is not None or door.key == "header"):
            raise wrong_key(may_be_in_body=door.key == "body")
        visit.scope.setdefault("state", {})["has_key"] = is_known or not house.keys
        if door.takes_body and self.rates is not None:
            client = visit.scope.get("client") or ("", 0)
            if not self.rates.admit(key.decode("latin-1") if is_known and key is not None else network_of(client[0])):
                rate = f"more than {house.limits.requests_per_minute} requests a minute"
                raise Refused(429, f"Slowdown: {rate}", {"Retry-After": "60"})
        if door.uses_model:
            house.refuse_where_full()
        if door.takes_body and visit.announced_bytes > house.limits.body_bytes:
            raise too_large(house.limits)

    def _refuse_other_sites(self, visit: "Visit") -> None:
        """A browser sends a form to any server for any page, without asking first; it names the page's site."""
        origin = visit.headers.get("origin")
        if origin is None or "*" in self.origins or origin in self.origins:
            return
        if not is_same_site(origin, visit.headers.get("host", "")):
            raise Refused(403, "pages of other sites may not ask this server; --allow-origin ORIGIN lets one")

    async def _answer(self, visit: "Visit", door: Door, receive: Receive, body: bytes) -> None:
        limits = self.house.limits
        state = visit.scope["state"]
        state["stream_ends"] = asyncio.get_running_loop().time() + limits.document_seconds
        gone = asyncio.Event()
        answering = asyncio.create_task(self.app(visit.scope, replay(body, gone), visit.send))
        leaving = asyncio.create_task(until_gone(receive))
        seconds = limits.document_seconds if door.is_document else limits.seconds
        try:
            done = await first_of(answering, leaving, seconds)
            if not done and state.get("is_stream"):  # a route knows it from the body
                await first_of(answering, leaving, limits.document_seconds + LAST_WORD_SECONDS - seconds)
            if answering.done() or visit.is_complete:
                await answering  # raises what the application raised
                return
            gone.set()
            answering.cancel()
            with suppress(asyncio.CancelledError, TooSlow):
                await answering
            if leaving.done():
                self.house.metrics.cancelled.inc()
            elif not visit.status:
                refused = too_slow(seconds)
                self.house.count_refusal(refused)
                await visit.refuse(refused)
        except TooSlow:
            self.house.metrics.cancelled.inc()
        except Exception as error:
            where = "".join(traceback.format_tb(error.__traceback__))  # its message might hold a text
            log.error("%s in %s, a defect of weft:\n%s", type(error).__name__, visit.scope["path"], where)
            if not visit.status:
                await visit.refuse(defect())
        finally:
            answering.cancel()
            leaving.cancel()


class Visit:
    """A request and what was said to it: adds the headers of every answer, and writes a line of the log."""

    def __init__(self, scope: Scope, house: House, send: Send) -> None:
        self.scope, self.house, self._send = scope, house, send
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self.began = time.monotonic()
        self.status = 0
        self.is_complete = False

    @property
    def path(self) -> str:
        return self.scope["path"]

    @property
    def announced_bytes(self) -> int:
        length = self.headers.get("content-length", "0")
        return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0

    async def refuse(self, refused: Refused, *, closes: bool = False) -> None:
        """`closes` says not to read what the client may still be sending."""
        if closes:
            refused.headers["Connection"] = "close"
        await response_to(refused, self.path)(self.scope, nothing_more, self.send)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = self.with_standing_headers(message["headers"])
        try:
            async with asyncio.timeout(self.house.limits.seconds):
                await self._send(message)
        except TimeoutError:
            raise TooSlow from None
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.is_complete = True
            self.tell()

    def with_standing_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """These, and those that every answer has where it has no other value for them."""
        own = list(headers)
        given = {name.lower() for name, _ in own}
        standing = STANDING_HEADERS + ((b"connection", b"close"),) * self.house.is_draining
        return own + [header for header in standing if header[0] not in given]

    def tell(self) -> None:
        """Count the answer, and write its line."""
        route = self.count()
        shown = route or ascii(self.path[:200])[1:-1]
        milliseconds = 1000 * (time.monotonic() - self.began)
        log.info("%s %s %d %.0f ms", self.scope["method"][:20], shown, self.status, milliseconds)

    def count(self) -> str | None:
        """The answer; gives its route, with names in place of what stood there."""
        route = getattr(self.scope.get("route"), "path", None)
        self.house.metrics.requests.labels(route or "none", str(self.status)).inc()
        self.house.metrics.seconds.labels(route or "none").observe(time.monotonic() - self.began)
        return route


class TooSlow(Exception):
    """A client does not read its answer."""


class Place:
    """A place in the queue while the block runs, or none."""

    def __init__(self, house: House | None) -> None:
        self.house = house

    def __enter__(self) -> None:
        self._add(1)

    def __exit__(self, *exception: object) -> None:
        self._add(-1)

    def _add(self, number: int) -> None:
        if self.house is not None:
            self.house.in_flight += number
            self.house.metrics.in_flight.set(self.house.in_flight)


async def first_of(answering: asyncio.Task[Any], leaving: asyncio.Task[Any], seconds: float) -> bool:
    """Whether one of them is done in time."""
    done, _ = await asyncio.wait({answering, leaving}, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


async def read_body(receive: Receive, house: House) -> bytes | None:
    """The whole body; None where the client went away. Raises Refused where it is too large or too slow, and where all
    bodies that are being read are larger than those of a full queue."""
    limits = house.limits
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                house.bytes_in_reading += len(parts[-1])
                if size > limits.body_bytes:
                    raise too_large(limits)
                if house.bytes_in_reading > limits.queue * limits.body_bytes:
                    raise busy("too many requests are being read; try again soon")
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Refused(408, f"the body was not there after {limits.body_seconds:g} s") from None
    finally:
        house.bytes_in_reading -= size


def too_large(limits: Limits) -> Refused:
    return Refused(413, f"the body is larger than {limits.body_bytes:,} bytes; send less at once")


def replay(body: bytes, gone: asyncio.Event) -> Receive:
    """A body that was read already, and then the end of the connection."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    return receive


async def nothing_more() -> Message:
    return {"type": "http.disconnect"}


async def until_gone(receive: Receive) -> None:
    """Return when the client has gone away, or has its answer."""
    while (await receive())["type"] != "http.disconnect":
        pass


WHOLE_ADDRESS = re.compile(r"https?://[^/]*", re.IGNORECASE)


def as_routed(scope: Scope) -> Scope:
    """The request as routes know it: HEAD is a GET whose body uvicorn leaves out, and a target may be a whole address
    (RFC 9112, 3.2.2)."""
    method, path = scope["method"], scope["path"]
    address = WHOLE_ADDRESS.match(path)
    path = path if address is None else path[address.end() :] or "/"
    return {**scope, "method": "GET" if method == "HEAD" else method, "path": path}


def is_same_site(origin: str, host: str) -> bool:
    """Whether a page of this origin came from this host. The scheme is not compared: behind a proxy it is another."""
    scheme, _, site = origin.lower().partition("://")
    port = DEFAULT_PORTS.get(scheme)
    return port is not None and site.removesuffix(port) == host.lower().removesuffix(port)


def host_name(host: str) -> str:
    """Of a Host header, without the port."""
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name.lower().rstrip(".")


def key_in(headers: Mapping[str, str]) -> bytes | None:
    """The key of an Authorization header."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip().encode("latin-1") if scheme.lower() == "bearer" else None
