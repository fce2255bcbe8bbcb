"""Where the tests of the server take place: `weft serve` in a process of its own, clients that are cheap, texts.

The clients speak HTTP by hand over asyncio, since they share the machine with the server that they measure. A test is a
module v*.py of this folder with a NAME, what it DOES and how its FOUND figures are told, in both languages of the docs,
and a main(). `python -m bench.serving` runs them all.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import RESULTS
from bench.reliability.place import finish, place
from bench.reliability.record import parser_of, record

from weft.data.starter import load

LINES = RESULTS / "serving.jsonl"


@dataclass(frozen=True)
class Served:
    """A running server."""

    process: "subprocess.Popen[str]"
    host: str
    port: int
    source: str
    target: str

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def metric(self, name: str, label: str = "") -> float:
        """The sum of a metric over its labels, or over those that have this one, such as `outcome="done"`."""
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        of_name = (line for line in lines if line.partition("{")[0].partition(" ")[0] == name)
        return sum(float(line.split()[-1]) for line in of_name if label in line)


def options_of(description: str | None, **numbers: tuple[float, str]) -> argparse.Namespace:
    """The options of the command line: the model, where results go, and these numbers."""
    parser = parser_of(description, LINES, **numbers)
    parser.add_argument("--model", help="a zh-en model to serve (left out: a tiny one is trained)")
    return parser.parse_args()


def conclude(options: argparse.Namespace, name: str, figures: dict[str, Any], *, passed: bool) -> None:
    """Print the result and append it to the file; exits with 1 where the test was not passed."""
    model = Path(options.model).name if options.model else "tiny"
    record(options, name, {"model": model, **figures}, passed=passed)


@contextmanager
def serving(model: str | None, *arguments: str, open_files: int | None = None) -> Iterator[Served]:
    """`weft serve` on a free port, from when it answers; killed at the end where it still runs. It may open as many
    files as the system allows, or `open_files`."""
    with model_folder(model) as folder, tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-m", "weft", "serve", "--model", folder, "--port", "0", *arguments]
        if open_files is not None:
            command = ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh", *command]
        with subprocess.Popen(command, stderr=log, text=True) as process:
            try:
                address = wait_for_address(process, log.fileno())
                with urllib.request.urlopen(f"{address}/languages", timeout=10) as answer:
                    languages = json.loads(answer.read())
                source = next(language for language in languages if language["targets"])
                host, _, port = address.removeprefix("http://").rpartition(":")
                yield Served(process, host, int(port), source["code"], source["targets"][0])
            finally:
                process.kill()


@contextmanager
def model_folder(model: str | None) -> Iterator[str]:
    if model is not None:
        yield model
        return
    with place() as folder:
        finish(folder, "tiny")
        yield str(folder / "tiny")


def wait_for_address(process: "subprocess.Popen[str]", log: int) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        said = os.pread(log, 1 << 16, 0).decode()
        if "ready on http://" in said:
            return said.partition("ready on ")[2].split()[0]
        time.sleep(0.02)
    raise SystemExit(f"weft serve did not begin: {os.pread(log, 1 << 16, 0).decode()}")


def texts(number: int) -> list[str]:
    """Different Chinese sentences, numbered, so that no two are the same."""
    sources = [source for source, _ in load()["train"]]
    return [f"{sources[index % len(sources)].rstrip('。')}，第{index}号。" for index in range(number)]


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float
    """From the first byte sent to the last received."""

    def json(self) -> Any:
        return json.loads(self.body)


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""


class Connection(asyncio.Protocol):
    """Takes one answer after another. A pair of asyncio's streams would take several times as long."""

    def __init__(self) -> None:
        self.received = b""
        self.answer: asyncio.Future[Answer] | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    async def ask(self, request: bytes) -> Answer:
        self.received, self.answer = b"", asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.answer

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.answer and not self.answer.done() and (answer := whole_reply(self.received)):
            self.answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self.answer and not self.answer.done():
            self.answer.set_exception(ConnectionError("the server has ended the connection"))


class Client:
    """A connection that is opened when it is needed and kept as long as the server keeps it."""

    def __init__(self, served: Served, key: str = "") -> None:
        self.served, self.key = served, key
        self.connection: Connection | None = None

    async def ask(self, method: str, path: str, fields: Any = None) -> Reply:
        """Raises ConnectionError where the answer is not whole."""
        body = b"" if fields is None else json.dumps(fields).encode()
        allowed = f"Authorization: Bearer {self.key}\r\n" if self.key else ""
        content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.served.host}\r\n{allowed}{content}\r\n"
        if self.connection is None or self.connection.is_lost:
            loop = asyncio.get_running_loop()
            _, self.connection = await loop.create_connection(Connection, self.served.host, self.served.port)
        began = time.perf_counter()
        status, headers, body = await self.connection.ask(head.encode() + body)
        seconds = time.perf_counter() - began
        if headers.get("connection") == "close":
            self.close()
        return Reply(status, headers, body, seconds)

    async def translate(self, text: str) -> Reply:
        return await self.ask(
            "POST", "/translate", {"q": text, "source": self.served.source, "target": self.served.target}
        )

    def close(self) -> None:
        if self.connection is not None:
            self.connection.transport.close()
            self.connection = None


def whole_reply(received: bytes) -> Answer | None:
    """The answer as soon as all of it is there."""
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return None
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    found = whole_chunks(body) if headers.get("transfer-encoding") == "chunked" else body
    if found is None or len(found) < int(headers.get("content-length", 0)):
        return None
    return int(lines[0].split()[1]), headers, found


def whole_chunks(body: bytes) -> bytes | None:
    parts: list[bytes] = []
    while True:
        line, end, rest = body.partition(b"\r\n")
        if not end or len(rest) < (size := int(line, 16)) + 2:
            return None
        if not size:
            return b"".join(parts)
        parts.append(rest[:size])
        body = rest[size + 2 :]


async def in_turn(served: Served, clients: int, seconds: float, work: Callable[[Client, int], Awaitable[None]]) -> None:
    """So many clients, each asking again as soon as it is answered, until the time is over; `work` gets a number that
    no other gets."""
    end = time.monotonic() + seconds
    numbers = iter(range(1 << 60))

    async def ask_again() -> None:
        client = Client(served)
        while time.monotonic() < end:
            await work(client, next(numbers))
        client.close()

    await asyncio.gather(*(ask_again() for _ in range(clients)))


def percentile(values: Sequence[float], share: float) -> float:
    """In milliseconds."""
    ordered = sorted(values)
    return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1) if ordered else 0.0
