"""A full house: what is refused in short is refused in the same words as the long way."""

import asyncio
import json
import re
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import Mock

import pytest
import uvicorn
from tests.serving.conftest import MakeService, echo_of, serving, wait_until
from uvicorn.server import ServerState

from weft.serving.app import admission_of, make_app
from weft.serving.doorkeeper import Doorkeeper, PatientSelector, Tally, plain_request
from weft.serving.keys import Keys, line_for
from weft.serving.server import Address, is_idle, make_loop, make_server
from weft.serving.service import Service

KEYS = Keys((bytes.fromhex(line_for("k", "")),))


def request(path: str, *headers: str, body: bytes = b'{"q": "x", "source": "zh", "target": "en"}') -> bytes:
    json_type = "Content-Type: application/json"
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", json_type, *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def without_date(answer: bytes) -> bytes:
    return re.sub(rb"(?i)date: [^\r]*", b"date", answer)


def sorted_lines(answer: bytes) -> tuple[list[bytes], bytes]:
    """The head's lines, whose order means nothing, their names in one case; and the body."""
    head, _, body = without_date(answer).partition(b"\r\n\r\n")
    named = [line.partition(b": ") for line in head.split(b"\r\n")]
    return sorted(name.lower() + sign + value for name, sign, value in named), body


class Visitor:
    """A connection that says what it is told to, in as many pieces, and reads one answer."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("http://").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def ask(self, *pieces: bytes) -> bytes:
        for index, piece in enumerate(pieces):
            time.sleep(0.05 * bool(index))
            self.socket.sendall(piece)
        answer = b""
        while b"\r\n\r\n" not in answer or len(answer) < whole_length(answer):
            received = self.socket.recv(65_536)
            assert received, answer
            answer += received
        return answer


def whole_length(answer: bytes) -> int:
    head = answer.partition(b"\r\n\r\n")[0]
    found = re.search(rb"(?i)content-length: (\d+)", head)
    return len(head) + 4 + int(found[1] if found else 0)


@pytest.fixture
def short_answers(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What the doorkeepers refuse themselves."""
    given: list[bytes] = []
    written = Doorkeeper._written

    def write(self: Doorkeeper, *arguments: object) -> bytes:
        given.append(written(self, *arguments))  # pyright: ignore[reportArgumentType]
        return given[-1]

    monkeypatch.setattr(Doorkeeper, "_written", write)
    return given


@contextmanager
def full(service: Service, address: str) -> Iterator[Visitor]:
    """A visitor of a house whose only place is taken until the end."""
    gate = echo_of(service).gate
    gate.clear()
    with Visitor(address) as first, Visitor(address) as visitor:
        first.socket.sendall(request("/translate", "Authorization: Bearer k"))
        wait_until(lambda: service.house.is_full)
        try:
            yield visitor
        finally:
            gate.set()


@pytest.mark.parametrize("path", ["/translate", "/v1/chat/completions", "/weft/stream", "/translate_file"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [(("Authorization: Bearer k",), 503), (("authorization:Bearer wrong", "Accept: */*"), 401), ((), None)],
)
def test_a_short_refusal_says_what_the_long_way_says(
    make_service: MakeService, short_answers: list[bytes], path: str, headers: tuple[str, ...], status: int | None
) -> None:
    service = make_service(KEYS, queue=1)
    with serving(service) as (address, _), full(service, address) as visitor:
        whole = request(path, *headers)
        short = visitor.ask(whole)
        assert short_answers == [short]
        assert sorted_lines(visitor.ask(request(path, *headers, "X_1: not plain"))) == sorted_lines(short)
        assert visitor.ask(whole)[:12] == short[:12] and len(short_answers) == 2
        assert status is None or short.startswith(b"HTTP/1.1 %d " % status)


def test_what_uses_no_model_is_answered_by_a_full_house(make_service: MakeService, short_answers: list[bytes]) -> None:
    service = make_service(queue=1)
    with serving(service) as (address, _), full(service, address) as visitor:
        detected = visitor.ask(request("/detect", body=b'{"q": "hello"}'))
        assert detected.startswith(b"HTTP/1.1 200")
        assert visitor.ask(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert short_answers == []


def test_a_place_that_is_free_again_is_given_to_who_was_refused_before(
    make_service: MakeService, short_answers: list[bytes]
) -> None:
    service = make_service(queue=1)
    whole = request("/translate")
    with serving(service) as (address, _), full(service, address) as visitor:
        refused = visitor.ask(whole)
        assert refused.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in refused.lower()
        echo_of(service).gate.set()
        wait_until(lambda: not service.house.in_flight)
        assert json.loads(visitor.ask(whole).partition(b"\r\n\r\n")[2])["translatedText"] == "X"
    assert len(short_answers) == 1


def test_who_is_refused_in_short_keeps_the_connection_and_is_counted(make_service: MakeService) -> None:
    service = make_service(queue=1, body_seconds=0.5)  # connections that are idle for so long are ended
    with serving(service) as (address, _), full(service, address) as visitor:
        for _ in range(8):
            assert visitor.ask(request("/translate")).startswith(b"HTTP/1.1 503")
            time.sleep(0.1)
    written = service.house.metrics.written().decode()
    assert 'weft_refused_total{why="503"} 8.0' in written
    assert 'weft_requests_total{route="none",status="503"} 8.0' in written


@pytest.mark.parametrize(
    "odd",
    [
        b"GET /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST /translate HTTP/1.0\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST /translate?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nab",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 02\r\n\r\nab",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nab",
        b"POST /translate HTTP/1.1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /translate HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 0",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nX-Half: a",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\nContent-Length: 0\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost : x\r\nContent-Length: 0\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\n Content-Length: 0\r\n\r\n",
        b"POST /translate HTTP/1.1\nHost: x\nContent-Length: 0\n\n",
        b"POST /translate HTTP/1.1\r\nHost: \xff\r\nContent-Length: 0\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\x00\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_what_is_odd_goes_the_long_way(odd: bytes) -> None:
    assert plain_request(odd) is None
    assert plain_request(request("/translate")) is not None


def test_who_does_not_read_its_refusals_is_let_go(make_service: MakeService) -> None:
    service = make_service(queue=1)
    service.house.in_flight = 1
    admission = admission_of(make_app(service))

    async def come_again() -> Mock:
        config = uvicorn.Config(admission, log_config=None)
        doorkeeper = Doorkeeper(admission, Tally(), config=config, server_state=ServerState(), app_state={})
        transport = Mock()
        doorkeeper.connection_made(transport)
        doorkeeper.data_received(request("/translate"))
        assert transport.write.call_count == 1 and not transport.abort.called
        doorkeeper.pause_writing()
        doorkeeper.data_received(request("/translate"))
        return transport

    transport = asyncio.run(come_again())
    assert transport.write.call_count == 1 and transport.abort.called


@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_the_connection_that_is_one_too_many_is_refused_and_no_other(make_service: MakeService, path: str) -> None:
    service = make_service(queue=1, connections=2)
    with serving(service) as (address, _), full(service, address) as visitor:
        before = visitor.ask(request(path, body=b'{"q": "hello"}'))
        assert b"connection: close" not in before.lower()
        with Visitor(address) as third:
            refused = third.ask(request(path)).lower()
            assert refused.startswith(b"http/1.1 503") and b"more than 2 connections are open" in refused
            assert all(part in refused for part in (b"connection: close", b"retry-after: 1", b"default-src 'self'"))
            assert third.socket.recv(1) == b""
        assert without_date(visitor.ask(request(path, body=b'{"q": "hello"}'))) == without_date(before)
    assert (
        f'weft_refused_total{{why="503"}} {3.0 if path == "/translate" else 1.0}'
        in service.house.metrics.written().decode()
    )


@pytest.mark.parametrize(("queue", "in_flight", "pauses"), [(65, 65, [0.02]), (65, 64, []), (64, 64, [])])
def test_events_gather_where_the_house_is_full_of_more_than_a_batch(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch, queue: int, in_flight: int, pauses: list[float]
) -> None:
    slept: list[float] = []
    house = make_service(queue=queue).house
    one, other = socket.socketpair()
    with PatientSelector(house) as selector, one, other:
        selector.register(one, selectors.EVENT_WRITE)  # which it is ready for at any time
        house.in_flight = in_flight
        monkeypatch.setattr(time, "sleep", slept.append)
        for timeout, asleep in ((None, pauses), (5.0, pauses), (0.0, []), (0.001, [min(p, 0.001) for p in pauses])):
            slept.clear()
            assert [key.fileobj for key, _ in selector.select(timeout)] == [one]
            assert slept == asleep


def test_the_server_runs_on_the_patient_loop(make_service: MakeService) -> None:
    loop = make_loop(make_service().house)
    try:
        assert isinstance(loop._selector, PatientSelector)  # pyright: ignore[reportAttributeAccessIssue]
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("buffered", "is_dropped"),
    [
        ([0, 0, 0], [False, False, True]),
        ([90_000] * 9, [False] * 6 + [True] * 3),  # nobody reads
        ([90_000 - 5000 * seconds for seconds in range(18)], [False] * 18),  # a slow reader
    ],
)
def test_what_a_slow_client_still_reads_is_not_cut_off(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch, buffered: list[int], is_dropped: list[bool]
) -> None:
    service = make_service(body_seconds=1.5, seconds=5.5)
    server = make_server(make_app(service), service.house, Address())
    connection = Mock()
    connection.transport.is_closing.return_value = True
    server.server_state.connections.add(connection)
    found = []
    for second, size in enumerate(buffered):
        monkeypatch.setattr(time, "monotonic", lambda second=second: 1000.0 + second)
        connection.transport.get_write_buffer_size.return_value = size
        server._drop_idle()
        found.append(connection.transport.abort.called)
    assert found == is_dropped


@pytest.mark.parametrize(
    ("is_closing", "timer", "cycle", "expected"),
    [
        (True, Mock(), Mock(response_complete=True), True),  # uvicorn has closed it, and its client does not read
        (False, Mock(), None, False),  # refused in short a moment ago
        (False, None, None, True),
        (False, None, Mock(response_complete=False), False),
        (False, None, Mock(response_complete=True), True),
    ],
)
def test_which_connections_are_idle(is_closing: bool, timer: Mock | None, cycle: Mock | None, expected: bool) -> None:
    connection = Mock(timeout_keep_alive_task=timer, cycle=cycle)
    connection.transport.is_closing.return_value = is_closing
    assert is_idle(connection) == expected
