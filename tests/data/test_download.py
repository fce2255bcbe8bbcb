"""Downloading, against a real server on this machine that cuts, stalls, redirects and lies as asked."""

import contextlib
import hashlib
import resource
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest

from weft.data import download as module
from weft.data.download import Expected, Redirects, download, git_blob
from weft.errors import UsageError, WeftError

CONTENT = bytes(range(256)) * 1000
SIZE = len(CONTENT)
DIGEST = hashlib.sha256(CONTENT).hexdigest()
KNOWN = Expected(SIZE, SIZE, DIGEST)
UNKNOWN = Expected(10 * SIZE)

Plan = Callable[["Answer"], object]


class Loopback(ThreadingHTTPServer):
    """Serves CONTENT at every path as a good server does, unless a plan says what to do with the next request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.plans: list[Plan] = []
        self.asked: list[tuple[str, str | None]] = []
        """Path and Range of each request."""
        self.version: str | None = '"one"'
        self.content = CONTENT
        self.is_over = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file"


class Answer(BaseHTTPRequestHandler):
    """One answer of the server."""

    server: Loopback  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Range")))
        plan = self.server.plans.pop(0) if self.server.plans else serve
        with contextlib.suppress(ConnectionError):
            plan(self)

    def begin(self, code: int, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Not on the tests' stderr."""


def serve(answer: Answer, most: int | None = None) -> None:
    """What a good server does; at most so many bytes before the connection is cut."""
    content, version, wanted = answer.server.content, answer.server.version, answer.headers.get("Range")
    begin = 0
    if wanted and answer.headers.get("If-Range", version) == version:
        begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
    headers = {"Content_Length": str(len(content) - begin)} | ({"ETag": version} if version else {})
    if begin >= len(content):
        answer.begin(416, Content_Length="0")
        return
    if begin:
        headers["Content_Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
    answer.begin(206 if begin else 200, **headers)
    answer.wfile.write(content[begin:] if most is None else content[begin : begin + most])


def cut_after(count: int) -> Plan:
    return lambda answer: serve(answer, count)


def say(code: int, **headers: str) -> Plan:
    return lambda answer: answer.begin(code, Content_Length="0", **headers)


def say_no_more_than(code: int) -> Plan:
    return lambda answer: answer.wfile.write(f"HTTP/1.1 {code} \r\nContent-Length: 0\r\n\r\n".encode())


def without_ranges(answer: Answer) -> None:
    answer.begin(200, Content_Length=str(SIZE))
    answer.wfile.write(CONTENT)


def stall(answer: Answer) -> None:
    """Some bytes, and then nothing more."""
    answer.begin(200, Content_Length=str(len(answer.server.content)), ETag='"one"')
    answer.wfile.write(answer.server.content[:100])
    answer.server.is_over.wait(5)


def no_http(answer: Answer) -> None:
    answer.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")


def trickle(answer: Answer) -> None:
    """A byte now and then, each before a plain time-out would notice."""
    answer.begin(200, Content_Length=str(SIZE))
    while not answer.server.is_over.wait(0.02):
        answer.wfile.write(b"x")


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.is_over.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Four attempts, and a list of the pauses between them, none of which is waited for."""
    waited: list[float] = []
    monkeypatch.setattr(module, "PAUSES", (1.0, 2.0, 4.0))
    monkeypatch.setattr(module.time, "sleep", waited.append)
    return waited


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def fetch(address: str, target: Path, expected: Expected = KNOWN) -> list[str]:
    """Download it; what was said meanwhile."""
    messages: list[str] = []
    download(address, target, expected, lambda done, total: None, messages.append)
    return messages


def refused(address: str, target: Path, expected: Expected = KNOWN) -> str:
    """The text of the error with which the download ends; nothing stands at the target then."""
    with pytest.raises(WeftError) as error:
        fetch(address, target, expected)
    assert not target.exists()
    return str(error.value)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "file"


# Arriving


def test_a_file_arrives_whole_and_nothing_else_is_left(server: Loopback, target: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    download(server.address, target, KNOWN, lambda done, total: seen.append((done, total)), print)
    assert target.read_bytes() == CONTENT and list(target.parent.iterdir()) == [target]
    assert seen[0] == (0, SIZE) and seen[-1] == (SIZE, SIZE) and seen == sorted(seen)


def test_a_file_of_unknown_size_and_content_arrives(server: Loopback, target: Path) -> None:
    fetch(server.address, target, UNKNOWN)
    assert target.read_bytes() == CONTENT


def test_the_proxy_of_the_environment_is_asked(server: Loopback, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    fetch("http://corpora.invalid/file", target)
    assert server.asked == [("http://corpora.invalid/file", None)]


def test_only_http_and_https_are_opened(target: Path) -> None:
    for address in ("file:///etc/passwd", "ftp://127.0.0.1/file", "data:text/plain,x", "file", "http://["):
        with pytest.raises(UsageError, match="not an http or https address"):
            fetch(address, target)


# Going on


def test_a_broken_transfer_goes_on_where_it_stopped(server: Loopback, target: Path, pauses: list[float]) -> None:
    server.plans = [cut_after(70_000), cut_after(30_000)]
    messages = fetch(server.address, target)
    assert target.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=70000-", "bytes=100000-"]
    assert pauses == [1.0, 1.0] and f"ended after 70,000 of {SIZE:,} bytes; retrying in 1 s" in messages[0]


def test_another_call_goes_on_where_the_last_one_stopped(
    server: Loopback, target: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSES", ())
    server.plans = [cut_after(70_000)]
    assert "70,000 bytes of it are kept, and the same command continues from there" in refused(server.address, target)
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and server.asked[1:] == [("/file", "bytes=70000-")]


def test_an_interrupt_leaves_a_part_from_which_the_next_call_goes_on(server: Loopback, target: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        if done > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(server.address, target, KNOWN, interrupt, print)
    arrived = target.with_name("file.partial").stat().st_size
    assert 100_000 < arrived < SIZE
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and server.asked[1:] == [("/file", f"bytes={arrived}-")]


def test_ctrl_c_ends_the_command_as_resumable_and_the_same_command_goes_on(
    server: Loopback, tmp_path: Path, target: Path
) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("Tatoeba.de-en.de", "Ein Hund.\n")
        archive.writestr("Tatoeba.de-en.en", "A dog.\n")
    server.content = target.read_bytes()
    server.plans = [stall]
    mirror = server.address.removesuffix("/file")
    command = [sys.executable, "-m", "weft", "corpus", "get", "opus/Tatoeba/v1/de-en", "--from", mirror]
    command += ["--output", str(tmp_path / "made"), "--accept-unverified"]
    part = tmp_path / "made" / "published" / "de-en.txt.zip.partial"
    # A shell starts what runs behind it with Ctrl-C ignored, and so do these tests then.
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heeds) as process:
        began = time.monotonic()
        while not (part.is_file() and part.stat().st_size == 100):
            assert time.monotonic() - began < 60 and process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate()
    assert process.returncode == 3 and error.endswith("the same command continues from there\n")
    subprocess.run(command, check=True, capture_output=True)
    assert server.asked == [("/de-en.txt.zip", None), ("/de-en.txt.zip", "bytes=100-")]
    assert (tmp_path / "made" / "pairs.tsv").read_text() == "de\ten\nEin Hund.\tA dog.\n"


def test_a_part_that_is_the_whole_file_is_not_asked_for_again(server: Loopback, target: Path) -> None:
    target.with_name("file.partial").write_bytes(CONTENT)
    target.with_name("file.partial.json").write_text(f'{{"address": "{server.address}", "version": "one"}}')
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and server.asked == []


@pytest.mark.parametrize(
    "versions",
    [('"one"', '"two"'), ('W/"one"', 'W/"two"'), ('W/"one"', None)],
    ids=["strong", "weak", "weak and then unnamed"],
)
def test_two_versions_are_never_joined(
    server: Loopback, target: Path, pauses: list[float], versions: tuple[str, str | None]
) -> None:
    def change(answer: Answer) -> None:
        server.version, server.content = versions[1], CONTENT[::-1]
        serve(answer)

    server.version = versions[0]
    server.plans = [cut_after(70_000), change]
    fetch(server.address, target, UNKNOWN)
    assert target.read_bytes() == CONTENT[::-1]


def test_what_is_not_gone_on_with_is_not_promised_to_be(server: Loopback, target: Path, pauses: list[float]) -> None:
    server.version = None
    server.plans = [cut_after(70_000)] * 5
    assert "the same command starts over" in refused(server.address, target)
    assert target.with_name("file.partial").exists()
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and server.asked == [("/file", None)] * len(server.asked)


def test_a_server_that_knows_no_ranges_sends_it_all_again(server: Loopback, target: Path, pauses: list[float]) -> None:
    server.plans = [cut_after(70_000), without_ranges]
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and server.asked[1] == ("/file", "bytes=70000-")


@pytest.mark.parametrize(
    "note", ["", "[]", '{"address": "http://else.where/file", "version": "one"}', '{"version": 1}']
)
def test_a_part_of_which_the_note_says_nothing_is_not_gone_on_with(server: Loopback, target: Path, note: str) -> None:
    target.with_name("file.partial").write_bytes(b"something else")
    target.with_name("file.partial.json").write_text(note)
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT


def test_a_part_that_is_longer_than_the_file_is_fetched_anew(
    server: Loopback, target: Path, pauses: list[float]
) -> None:
    target.with_name("file.partial").write_bytes(CONTENT + b"more")
    target.with_name("file.partial.json").write_text(f'{{"address": "{server.address}", "version": "\\"one\\""}}')
    fetch(server.address, target, UNKNOWN)
    assert target.read_bytes() == CONTENT


# Another content


def test_a_wrong_checksum_makes_no_file_and_keeps_what_came_to_look_at(server: Loopback, target: Path) -> None:
    other = Expected(SIZE, SIZE, "0" * 64)
    error = refused(server.address, target, other)
    assert DIGEST in error and "0" * 64 in error and "--from" in error and str(target) + ".unexpected" in error
    assert target.with_name("file.unexpected").read_bytes() == CONTENT
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and list(target.parent.iterdir()) == [target]


def test_the_id_of_a_git_repository_is_a_checksum_too(server: Loopback, target: Path) -> None:
    server.content = b"hello\n"
    known = "ce013625030ba8dba906f756967f9e9ca394464a"  # printed by: echo hello | git hash-object --stdin
    fetch(server.address, target, Expected(100, git_blob=known))
    assert git_blob(target) == known
    error = refused(server.address, target.with_name("other"), Expected(100, git_blob="0" * 40))
    assert known in error and "git blob" in error


@pytest.mark.parametrize("expected", [Expected(SIZE - 1), Expected(SIZE + 1, SIZE + 1)], ids=["too large", "other"])
def test_a_size_that_cannot_be_is_refused_before_anything_is_stored(
    server: Loopback, target: Path, expected: Expected
) -> None:
    assert f"announces {SIZE:,} bytes" in refused(server.address, target, expected)
    assert list(target.parent.iterdir()) == []


def test_more_bytes_than_may_come_are_not_stored_even_if_unannounced(server: Loopback, target: Path) -> None:
    def flood(answer: Answer) -> None:
        answer.begin(200)
        while not server.is_over.is_set():
            answer.wfile.write(CONTENT)

    server.plans = [flood]
    assert "the server sends more bytes" in refused(server.address, target, Expected(2 * SIZE))
    assert target.with_name("file.partial").stat().st_size <= 2 * SIZE


# Redirects


def test_a_redirect_is_followed(server: Loopback, target: Path) -> None:
    server.plans = [say(302, Location="/elsewhere"), say(308, Location=server.address.replace("file", "further"))]
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and [path for path, _ in server.asked] == ["/file", "/elsewhere", "/further"]


def test_a_circle_of_redirects_ends(server: Loopback, target: Path, pauses: list[float]) -> None:
    server.plans = [say(302, Location="/file")] * 20
    assert "redirects in a circle" in refused(server.address, target)
    assert len(server.asked) < 12 and pauses == []


def test_a_redirect_to_anything_but_http_is_not_followed(server: Loopback, target: Path) -> None:
    server.plans = [say(302, Location="ftp://127.0.0.1/file"), say(302, Location="file:///etc/passwd")]
    assert "not secure; not followed" in refused(server.address, target)
    refused(server.address, target)


@pytest.mark.parametrize(("scheme", "is_followed"), [("https", True), ("http", False)])
def test_a_redirect_never_leads_from_https_to_http(scheme: str, is_followed: bool) -> None:
    request = urllib.request.Request("https://corpora.invalid/file")
    where = f"{scheme}://corpora.invalid/other"
    with contextlib.nullcontext() if is_followed else pytest.raises(WeftError, match="not secure"):
        assert Redirects().redirect_request(request, BytesIO(), 302, "Found", HTTPMessage(), where)


# Failing


def test_an_answer_that_says_no_more_than_its_number_is_named(server: Loopback, target: Path) -> None:
    server.plans = [say_no_more_than(404)]
    assert "the server answers 404; the file does not exist (any more)" in refused(server.address, target)


def test_sizes_that_are_none_are_left_unbelieved(server: Loopback, target: Path) -> None:
    def boast(answer: Answer) -> None:
        answer.begin(200, Content_Length="9" * 5000)
        answer.wfile.write(CONTENT)

    server.plans = [boast]
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("code", "said"),
    [(404, "does not exist"), (403, "access is denied"), (418, "answers 418"), (204, "without a file")],
)
def test_a_final_answer_is_not_asked_for_twice(
    server: Loopback, target: Path, pauses: list[float], code: int, said: str
) -> None:
    server.plans = [say(code)]
    error = refused(server.address, target)
    assert f"the server answers {code}" in error and said in error
    assert len(server.asked) == 1 and pauses == []


def test_a_server_in_trouble_is_asked_again_after_ever_longer_pauses(
    server: Loopback, target: Path, pauses: list[float]
) -> None:
    server.plans = [say(500), say(503), say(429)]
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and pauses == [1.0, 2.0, 4.0]


def test_a_server_that_stays_in_trouble_is_given_up(server: Loopback, target: Path, pauses: list[float]) -> None:
    server.plans = [say(500)] * 9
    assert "the server answers 500" in refused(server.address, target)
    assert len(server.asked) == 4


def test_a_server_may_ask_for_patience_but_not_for_more_than_a_minute(
    server: Loopback, target: Path, pauses: list[float]
) -> None:
    server.plans = [say(503, Retry_After="7"), say(503, Retry_After="86400"), say(503, Retry_After="soon")]
    fetch(server.address, target)
    assert pauses == [7.0, 60.0, 4.0]


def test_progress_earns_new_patience(server: Loopback, target: Path, pauses: list[float]) -> None:
    server.plans = [cut_after(10_000)] * 12
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and pauses == [1.0] * 12


@pytest.mark.parametrize("plan", [stall, trickle], ids=["nothing comes", "next to nothing comes"])
def test_a_slow_link_hits_the_time_out(
    server: Loopback, target: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    server.plans = [plan]
    (message,) = fetch(server.address, target)
    assert "within 0.1 s; retrying" in message and target.read_bytes() == CONTENT


def test_what_is_no_http_and_where_nobody_listens_are_named(
    server: Loopback, target: Path, pauses: list[float]
) -> None:
    server.plans = [no_http] * 4
    error = refused(server.address, target)
    assert "the connection failed (SSH-2.0" in error and "\n" not in error
    with Loopback() as closed:
        pass
    assert "refused" in refused(closed.address, target) and len(pauses) == 6


def test_a_disk_that_is_full_halfway_is_one_error_and_the_next_call_goes_on(server: Loopback, target: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        said = refused(server.address, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"cannot write {target}: File too large; 100,000 bytes of it are kept" in said
    assert "the same command continues from there. Fix this first, or choose another folder with --output" in said
    fetch(server.address, target)
    assert target.read_bytes() == CONTENT and server.asked[1:] == [("/file", "bytes=100000-")]


def test_a_full_disk_is_named(server: Loopback, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "replace", raises_no_space)
    assert ": No space left" in refused(server.address, target)


def raises_no_space(*paths: Path) -> None:
    raise OSError(28, "No space left on device")
