"""A server on a socket: unchanged client libraries, a shutdown that loses no request, models replaced under load."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from tests.command_line import Weft
from tests.serving.conftest import HELLO, KEY, KEYS, MakeService, echo_of, serving, wait_until
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.errors import UsageError
from weft.serving import models
from weft.serving.server import Lifecycle, is_idle, most_open_files


def test_libretranslates_client_from_the_package_index_works_unchanged(make_service: MakeService) -> None:
    from libretranslatepy import LibreTranslateAPI

    with serving(make_service(KEYS)) as (address, _):
        client = LibreTranslateAPI(address, api_key=KEY)
        assert client.translate("hello, you & me", "zh", "en") == "HELLO, YOU & ME"
        assert client.detect("Hello, my friend")[0]["language"] == "en"
        assert [language["code"] for language in client.languages()] == ["en", "zh", "zh-Hant"]
        with pytest.raises(urllib.request.HTTPError) as refused:
            LibreTranslateAPI(address).translate("hello", "zh", "en")
        with refused.value as answer:
            assert (answer.code, json.loads(answer.read()).keys()) == (401, {"error"})


def test_openais_client_works_unchanged(make_service: MakeService) -> None:
    import openai

    with serving(make_service(KEYS)) as (address, _), openai.OpenAI(base_url=f"{address}/v1", api_key=KEY) as client:
        assert [model.id for model in client.models.list()] == ["run"]
        completion = client.chat.completions.create(model="run", messages=[{"role": "user", "content": "hello"}])
        assert completion.choices[0].message.content == "HELLO"
        assert completion.usage is not None and completion.usage.total_tokens > 0
        messages: Any = [{"role": "user", "content": "a。b。"}]
        with client.chat.completions.create(model="run", messages=messages, stream=True) as chunks:
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "A。 B。"
        with pytest.raises(openai.NotFoundError, match="there is no model gpt"):
            client.chat.completions.create(model="gpt", messages=messages)
        stranger = client.with_options(api_key="x")
        with pytest.raises(openai.AuthenticationError):
            stranger.models.list()


def ask_many(address: str, number: int, *, each: int = 1) -> list[tuple[str, Any]]:
    """Texts and what came back for them, from `number` concurrent clients with `each` requests one after the other."""

    async def client_of(client: httpx.AsyncClient, who: int) -> list[tuple[str, Any]]:
        found = []
        for turn in range(each):
            text = f"text {who} {turn}"
            answer = await client.post("/translate", json={"q": text, "source": "zh", "target": "en"})
            found.append((text, answer.json().get("translatedText", answer.status_code)))
        return found

    async def asking() -> list[tuple[str, Any]]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=address, timeout=30, limits=limits) as client:
            found = await asyncio.gather(*(client_of(client, who) for who in range(number)))
        return [pair for of_client in found for pair in of_client]

    return asyncio.run(asking())


def test_under_load_everyone_gets_the_own_answer(make_service: MakeService) -> None:
    service = make_service()
    echo_of(service).pause = 0.02
    with serving(service) as (address, _):
        found = ask_many(address, 40, each=5)
    assert len(found) == 200
    assert [pair for pair in found if pair[1] != pair[0].upper()] == []


def test_what_waits_while_the_model_works_is_one_batch(make_service: MakeService) -> None:
    service = make_service()
    echo = echo_of(service)
    (model,) = service.models
    echo.gate.clear()
    with serving(service) as (address, _), ThreadPoolExecutor(1) as clients:
        asked = clients.submit(ask_many, address, 40)
        try:
            wait_until(lambda: sum(map(len, echo.calls)) + model.worker.backlog == 40)
        finally:
            echo.gate.set()
        found = asked.result()
    assert [pair for pair in found if pair[1] != pair[0].upper()] == []
    assert len(echo.calls) == 2
    assert sorted(text for call in echo.calls for text in call) == sorted(text for text, _ in found)


def test_models_are_changed_under_load_and_no_request_is_lost(make_service: MakeService) -> None:
    service = make_service(KEYS)
    echo_of(service).pause = 0.01
    first = echo_of(service)
    found: list[Any] = []

    def ask() -> None:
        with httpx.Client(base_url=address, timeout=30) as client:
            for number in range(40):
                body = {"q": [f"a {number}", f"b {number}"], "source": "zh", "target": "en", "api_key": KEY}
                found.append((body["q"], client.post("/translate", json=body).json().get("translatedText")))

    with serving(service) as (address, _), httpx.Client(base_url=address, timeout=30) as client:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: bool(first.calls))
        reloads = [
            client.post("/weft/reload", headers={"Authorization": f"Bearer {KEY}"}).status_code for _ in range(5)
        ]
        for thread in threads:
            thread.join()
    assert reloads == [200] * 5
    assert len(found) == 160
    assert [pair for pair in found if pair[1] != [text.upper() for text in pair[0]]] == []
    assert echo_of(service) is not first and first.calls


def test_a_full_queue_refuses_the_next_at_once_and_answers_what_needs_no_model(make_service: MakeService) -> None:
    service = make_service(queue=4)
    gate = echo_of(service).gate
    gate.clear()
    with serving(service) as (address, server), ThreadPoolExecutor(4) as clients, httpx.Client() as client:
        asked = [clients.submit(ask_many, address, 1) for _ in range(4)]
        try:
            wait_until(lambda: service.state.is_full)
            refused = [client.post(f"{address}/translate", json=HELLO) for _ in range(8)]
            connections = set(server.server_state.connections)
            assert client.post(f"{address}/detect", json={"q": "hello"}).status_code == 200
            assert client.get(f"{address}/health").status_code == 200
            assert set(server.server_state.connections) == connections
        finally:
            gate.set()
        assert [answer.status_code for answer in refused] == [503] * 8
        assert [answer.result() for answer in asked] == [[("text 0 0", "TEXT 0 0")]] * 4
        wait_until(lambda: not service.state.in_flight)
        assert client.post(f"{address}/translate", json=HELLO).json() == {"translatedText": "HELLO"}
    metrics = service.state.metrics.export().decode()
    assert 'weft_refused_total{why="503"} 8.0' in metrics
    assert 'weft_requests_total{route="none",status="503"} 8.0' in metrics


SILENT = {
    "nothing": b"",
    "a letter": b"G",
    "half a head": b"POST /translate HTTP/1.1\r\nHost: x\r\nX-Half: ",
    "half a body": b"POST /detect HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n",
    "an answered request": b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    "an answered request and a letter": b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nG",
}


@pytest.mark.parametrize("sent", SILENT.values(), ids=SILENT)
def test_connections_that_wait_for_their_client_are_closed_for_new_ones(make_service: MakeService, sent: bytes) -> None:
    with serving(make_service(connections=20)) as (address, server), ExitStack() as clients:
        port = int(address.rpartition(":")[2])
        for _ in range(200):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            client.sendall(sent)
            if sent.startswith(b"GET "):
                assert client.recv(4096).startswith(b"HTTP/1.1 200 ")  # while it is being answered, none may close it
        assert httpx.get(f"{address}/health", timeout=10).status_code == 200
        wait_until(lambda: len(server.server_state.connections) <= 21)


def test_a_request_that_is_being_answered_is_not_closed_for_new_connections(make_service: MakeService) -> None:
    service = make_service(connections=4)
    echo = echo_of(service)
    echo.gate.clear()
    with serving(service) as (address, _), ThreadPoolExecutor(3) as pool, ExitStack() as clients:
        asked = [pool.submit(ask_many, address, 1) for _ in range(3)]
        wait_until(lambda: service.state.in_flight == 3)
        for _ in range(20):
            clients.enter_context(socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))))
        assert httpx.get(f"{address}/health").status_code == 200
        echo.gate.set()
        assert [one.result() for one in asked] == [[("text 0 0", "TEXT 0 0")]] * 3


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /icon.svg HTTP/1.1\r\nHost: x\r\n\r\n",
        b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n",
        b'POST /detect HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"q":"a"}',
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 9000 + b"\r\n\r\n",
    ],
)
def test_a_client_that_does_not_wait_for_responses_fills_no_memory(make_service: MakeService, request_: bytes) -> None:
    most = 0
    with serving(make_service()) as (address, server):
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=0.2) as client, suppress(OSError):
            for _ in range(200):
                with suppress(TimeoutError):
                    client.send(request_ * (200_000 // len(request_)))
                with suppress(TimeoutError):
                    client.recv(1 << 20)
                for connection in list(server.server_state.connections):
                    assert isinstance(connection, H11Protocol)
                    most = max(most, len(connection.conn.trailing_data[0]))
        assert httpx.get(f"{address}/health").status_code == 200
    assert most <= 1 << 20


def test_a_client_that_disconnects_frees_its_slot_and_its_sentences(make_service: MakeService) -> None:
    service = make_service()
    echo = echo_of(service)
    body = json.dumps({"q": "一。" * 2000, "source": "zh", "target": "en"}).encode()
    with serving(service) as (address, _):
        port = int(address.rpartition(":")[2])
        for asked, path in enumerate(("/translate", "/weft/stream"), start=1):
            echo.gate.clear()
            with socket.create_connection(("127.0.0.1", port)) as client:
                head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                wait_until(lambda asked=asked: len(echo.calls) == asked)
            wait_until(lambda: not (service.state.in_flight or service.models.all["run"].worker.backlog))
            echo.gate.set()
            wait_until(lambda asked=asked: echo.passed == asked)  # before the gate is closed to the next one
    assert len(echo.calls) == 2


def test_silent_connections_are_closed(make_service: MakeService) -> None:
    whole, half = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /translate HTTP/1.1\r\nHost: x\r\nX-Half: "
    with serving(make_service(body_seconds=0.5)) as (address, _), ExitStack() as connections:
        port = int(address.rpartition(":")[2])
        clients = []
        for before, begun in ((b"", b""), (b"", half), (whole, half)):
            client = connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            client.sendall(before)
            assert not before or client.recv(10_000).startswith(b"HTTP/1.1 200")
            client.sendall(begun)
            clients.append(client)
        for client in clients:
            with suppress(ConnectionResetError):
                while client.recv(1000):
                    pass


def test_a_head_is_asked_for_and_a_target_written_as_http_has_it(make_service: MakeService) -> None:
    with serving(make_service(KEYS)) as (address, _):
        port = int(address.rpartition(":")[2])
        for asked, status, has_body in [
            ("GET /health", 200, True),
            ("HEAD /health", 200, False),
            ("HEAD /", 200, False),
            ("HEAD /translate", 405, False),
            ("GET http://x/health", 200, True),
            ("GET HTTP://x:80/health?a=b", 200, True),
            ("GET http://x", 200, True),
            ("GET http://x/metrics", 401, True),
        ]:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(f"{asked} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                answer = b"".join(iter(partial(client.recv, 65_536), b""))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status) and bool(body) == has_body, asked
            assert b"content-length: 0" not in head.lower()


def test_the_limit_of_open_files_bounds_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = {"now": (1024, 2048)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, both: limits.update(now=both))
    assert (most_open_files(1000), limits["now"]) == (1000, (1024, 2048))
    assert (most_open_files(1216), limits["now"]) == (1216, (1216, 2048))
    assert (most_open_files(9000), limits["now"]) == (2048, (2048, 2048))


def test_invalid_http_gets_an_error_and_the_server_continues(make_service: MakeService) -> None:
    with serving(make_service()) as (address, _):
        port = int(address.rpartition(":")[2])
        for garbage in (
            b"\x00\xff" * 100,
            b"GET / HTTP\r\n\r\n",
            b"POST /translate HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(garbage)
                client.settimeout(5)
                assert client.recv(100).startswith(b"HTTP/1.1 400")
        assert httpx.get(f"{address}/health").json() == {"status": "ok"}


@contextmanager
def process(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`weft serve` as people start it, and its address, from when it answers."""
    command = [sys.executable, "-m", "weft", "serve", "--port", "0", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as running:
        try:
            assert running.stderr is not None
            line = ""
            while "http://" not in line:
                line = running.stderr.readline()
                assert line, "it ended"
            yield running, line.split()[-1]
        finally:
            running.kill()


def test_a_signal_ends_the_process_after_what_was_begun_and_hup_loads_anew(tiny_run: Path) -> None:
    with process("--model", str(tiny_run / "run"), "--grace", "3") as (running, address):
        long = {"q": ["我有两个苹果。"] * 100, "source": "zh", "target": "en"}
        with httpx.Client(base_url=address, timeout=20) as client:
            taken = [client.get("/ready").elapsed.total_seconds() for _ in range(9)]
            assert sorted(taken)[4] < 0.03  # a body is sent without waiting for the receipt of its head
            running.send_signal(signal.SIGHUP)
            found: list[httpx.Response] = []
            thread = threading.Thread(target=lambda: found.append(client.post("/translate", json=long)))
            thread.start()
            with httpx.Client(base_url=address) as another:
                wait_until(lambda: bool(found) or "weft_requests_in_flight 1.0" in another.get("/metrics").text)
                running.send_signal(signal.SIGTERM)
                wait_until(lambda: another.get("/ready").status_code == 503)
                late = another.post("/translate", json={"q": "你好", "source": "zh", "target": "en"})
                assert (late.status_code, late.headers["connection"]) == (200, "close")
            thread.join()
            assert len(found[0].json()["translatedText"]) == 100
        assert running.wait(timeout=20) == 0
        assert running.stderr is not None
        log = running.stderr.read()
        assert "models reloaded" in log and "苹果" not in log


def test_a_shutdown_that_cuts_off_a_stream_exits_normally(tiny_run: Path) -> None:
    with process("--model", str(tiny_run / "run"), "--max-seconds", "1", "--grace", "0") as (running, address):
        long = {"q": "我有两个苹果。" * 20_000, "source": "zh", "target": "en"}
        with httpx.stream("POST", f"{address}/weft/stream", json=long, timeout=20) as answer:
            lines = answer.iter_lines()
            next(lines)
            running.send_signal(signal.SIGTERM)
            with suppress(httpx.RemoteProtocolError):
                assert sum(1 for _ in lines) < 20_000
        assert running.wait(timeout=20) == 0
        assert running.stderr is not None and "Traceback" not in running.stderr.read()


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal here")
def test_a_hup_while_the_models_load_is_ignored(weft: Weft, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []

    def hang_up(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGHUP)
        raise UsageError("that is enough")

    monkeypatch.setattr(models, "load_for", hang_up)
    before = signal.signal(signal.SIGHUP, lambda number, frame: heard.append(number))
    try:
        assert "that is enough" in weft("serve", "--model", str(tiny_run / "run"))[2]
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == []


@pytest.mark.parametrize(
    ("buffered", "is_aborted"),
    [
        ([0, 0, 0], [False, False, True]),
        ([90_000] * 9, [False] * 6 + [True] * 3),  # nobody reads
        ([90_000 - 5000 * seconds for seconds in range(18)], [False] * 18),  # a slow reader
    ],
)
def test_the_connection_of_a_slow_reader_is_not_aborted(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch, buffered: list[int], is_aborted: list[bool]
) -> None:
    lifecycle = Lifecycle(Mock(), make_service(body_seconds=1.5, seconds=5.5), 1.0)
    connection = Mock()
    connection.transport.is_closing.return_value = True
    found = []
    for second, size in enumerate(buffered):
        monkeypatch.setattr(time, "monotonic", lambda second=second: 1000.0 + second)
        connection.transport.get_write_buffer_size.return_value = size
        lifecycle.abort_idle([connection])
        found.append(connection.transport.abort.called)
    assert found == is_aborted


@pytest.mark.parametrize(
    ("is_closing", "timer", "cycle", "expected"),
    [
        (True, Mock(), Mock(response_complete=True), True),  # uvicorn has closed it, and its client does not read
        (False, Mock(), Mock(response_complete=True), False),  # uvicorn will close it
        (False, None, None, True),
        (False, None, Mock(response_complete=False), False),
        (False, None, Mock(response_complete=True), True),
    ],
)
def test_which_connections_are_idle(is_closing: bool, timer: Mock | None, cycle: Mock | None, expected: bool) -> None:
    connection = Mock(timeout_keep_alive_task=timer, cycle=cycle)
    connection.transport.is_closing.return_value = is_closing
    assert is_idle(connection) == expected
