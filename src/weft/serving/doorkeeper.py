"""Refusals that cost next to nothing, for a house that is full: whose event loop also looks out less often.

Under overload most requests are refused, by the processor that serves the others. Through the parser of HTTP, a task
and the application a refusal takes half a millisecond, in which no model goes on; here it takes a fraction of that.
Only what is plain is refused so: a whole request with a Content-Length and none of the headers that ask for more.
Everything else goes the long way, where admission.py says the same in the same words.
"""

import asyncio
import re
import selectors
import time
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.serving.admission import Admission, House, Message, Scope, Visit, log
from weft.serving.batching import LARGEST_BATCH
from weft.serving.refusals import Refused, response_to

PLAIN_HEAD = re.compile(rb"POST (/[a-z0-9_/]+) HTTP/1\.1((?:\r\n[A-Za-z-]+: ?[!-~](?:[ -~]*[!-~])?)+)")
NEEDED = frozenset({b"host", b"content-length"})
LONG_WAY = frozenset({b"connection", b"expect", b"origin", b"te", b"transfer-encoding", b"upgrade"})
"""Headers that ask something of the connection, or of those who answer pages of other sites."""
GATHERING_SECONDS = 0.02


class Tally:
    """Of what was refused: a line of the log a second, however many there were."""

    def __init__(self) -> None:
        self.refused = 0

    def add(self) -> None:
        if not self.refused:
            asyncio.get_running_loop().call_later(1.0, self._tell)
        self.refused += 1

    def _tell(self) -> None:
        log.info("the house is full: %d requests were refused within a second", self.refused)
        self.refused = 0


class Doorkeeper(H11Protocol):
    """uvicorn's protocol, but for the requests that a full house refuses."""

    def __init__(self, admission: Admission, tally: Tally, **config: Any) -> None:
        super().__init__(**config)
        self.admission, self.tally = admission, tally
        self.is_one_too_many = False
        self.knows_client = admission.rates is None or not self.config.proxy_headers  # else it stands in a header

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self.is_one_too_many = len(self.connections) > self.admission.house.limits.connections
        if self.is_one_too_many:
            self.app: Any = self.admission.refuse_connection

    def data_received(self, data: bytes) -> None:
        if self._could_refuse():
            scope = plain_request(data)
            if scope is not None and self._refuses(scope):
                return
        super().data_received(data)

    def _could_refuse(self) -> bool:
        house = self.admission.house
        return (
            house.is_full
            and not house.is_draining
            and self.knows_client
            and not self.is_one_too_many
            and self._is_between_requests()
        )

    def _is_between_requests(self) -> bool:
        """Whether these bytes are the first ones of a request."""
        if self.cycle is not None and not self.cycle.response_complete:
            return False
        return self.conn.states == {h11.CLIENT: h11.IDLE, h11.SERVER: h11.IDLE} and not self.conn.trailing_data[0]

    def _refuses(self, scope: Scope) -> bool:
        visit = Visit({**scope, "client": self.client}, self.admission.house, unsent)
        door = self.admission.door_of(visit)
        if not door.uses_model:
            return False
        try:
            self.admission.admit(visit, door)
        except Refused as refused:
            self._answer(refused, visit)
            return True
        return False

    def _answer(self, refused: Refused, visit: Visit) -> None:
        if self.flow.write_paused:  # it does not read what it was told before
            self.transport.abort()
            return
        self._unset_keepalive_if_required()
        self.transport.write(self._written(refused, visit))
        visit.house.count_refusal(refused)
        if visit.status == HTTPStatus.SERVICE_UNAVAILABLE:
            visit.count()
            self.tally.add()
        else:
            visit.tell()
        self.on_response_complete()

    def _written(self, refused: Refused, visit: Visit) -> bytes:
        response = response_to(refused, visit.path)
        visit.status = response.status_code
        headers = [*self.server_state.default_headers, *visit.with_standing_headers(response.raw_headers)]
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        first = f"HTTP/1.1 {visit.status} {HTTPStatus(visit.status).phrase}\r\n".encode()
        return b"%s%s\r\n%s" % (first, lines, response.body)


def plain_request(data: bytes) -> Scope | None:
    """What ASGI says of the request, where `data` is one plain request and nothing else."""
    head, end, body = data.partition(b"\r\n\r\n")
    found = PLAIN_HEAD.fullmatch(head)
    if not end or found is None:
        return None
    lines = (line.partition(b":") for line in found[2].split(b"\r\n")[1:])
    headers = [(name.lower(), value.strip()) for name, _, value in lines]
    values = dict(headers)
    if len(values) < len(headers) or not values.keys() >= NEEDED or values.keys() & LONG_WAY:
        return None
    if values[b"content-length"] != b"%d" % len(body):
        return None
    return {"type": "http", "method": "POST", "path": found[1].decode(), "headers": headers}


async def unsent(message: Message) -> None:
    raise AssertionError("the doorkeeper writes its answers itself")


class PatientSelector(selectors.DefaultSelector):
    """Of the event loop of a full house: lets requests gather for a moment. Each one that is looked at on its own stops
    all searches for as long as it takes, in caches that are theirs."""

    def __init__(self, house: House) -> None:
        super().__init__()
        self.house = house

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._has_time() and timeout != 0:
            moment = GATHERING_SECONDS if timeout is None else min(GATHERING_SECONDS, timeout)
            time.sleep(moment)
            timeout = timeout and timeout - moment
        return super().select(timeout)

    def _has_time(self) -> bool:
        """Whether the model has a batch to go on with when it has finished one."""
        return self.house.is_full and self.house.limits.queue > LARGEST_BATCH
