"""One file from an address to its place on disk: resumable, bounded, and checked before it is believed.

What has arrived lies beside the target as NAME.partial, with NAME.partial.json saying of which version of which file it
is a part; the next attempt asks for the rest (RFC 9110, section 14: ranges) and begins anew where that version is gone.
Only a whole file with the expected content gets the target's name. Knows no corpus and no archive.
"""

import hashlib
import http.client
import json
import os
import ssl
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from weft.errors import UsageError, WeftError, shown
from weft.files import sha256, sync, write_atomically

TIMEOUT = 30.0
"""Seconds without an answer, or with less than LEAST_BYTES of one, after which a connection counts as broken."""
LEAST_BYTES = 1024
PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each new attempt after one that brought nothing new; after the last of them weft gives up."""
LONGEST_PAUSE = 60.0
"""Seconds; a server may ask for less patience than it gets, not for more than this."""
CHUNK = 1 << 16
WORTH_ANOTHER_TRY = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Expected:
    """What is known of a file before it is here; without a digest its content can only be taken on trust."""

    at_most: int
    """Bytes; more are never stored."""
    size: int | None = None
    sha256: str | None = None
    git_blob: str | None = None
    """The id under which a git repository keeps the content: the SHA-1 of `blob SIZE`, a zero byte and the content."""

    @property
    def has_digest(self) -> bool:
        """Whether the content can be checked."""
        return (self.sha256 or self.git_blob) is not None

    def difference(self, path: Path) -> str | None:
        """How the file at `path` is other than expected; None where nothing known speaks against it."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"it has {size:,} bytes, expected are {self.size:,}"
        if size > self.at_most:
            return f"it has {size:,} bytes, more than the {self.at_most:,} that it may have"
        if self.sha256 is not None and (found := sha256(path)) != self.sha256:
            return f"its sha256 is {found}, expected is {self.sha256}"
        if self.git_blob is not None and (found := git_blob(path)) != self.git_blob:
            return f"its git blob id is {found}, expected is {self.git_blob}"
        return None


Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there, and with those of the whole file where that is known."""
Say = Callable[[str], None]


def download(address: str, target: Path, expected: Expected, on_progress: Progress, on_message: Say) -> None:
    """Make `target` of what is at an http or https address, going on with what an earlier call has left of it.

    Proxies are those of the environment (http_proxy, https_proxy, no_proxy). Raises WeftError where the file cannot be
    had or is not the expected one; what has arrived is kept beside the target, and nothing else is touched.
    """
    if not is_web_address(address):
        raise UsageError(f"{address} is no http or https address")
    part = Partial(target)
    try:
        transfer_patiently(address, part, expected, on_progress, on_message)
        if (difference := expected.difference(part.path)) is not None:
            raise WeftError(
                f"{address} is not the file it should be: {difference}. What came is kept as {part.set_aside()}, and "
                "the next attempt begins anew; if it ends like this one, the source has changed or something between "
                "here and there changes it: take a copy from elsewhere by --from FOLDER or --from URL"
            )
        sync(part.path)
        os.replace(part.path, target)
        part.forget()
    except OSError as error:
        raise WeftError(
            f"{target} could not be written: {error.strerror or error}; {part.outlook(address)}. Put that right, or "
            "name another folder by --output"
        ) from error


def is_web_address(address: str) -> bool:
    try:
        return urlsplit(address).scheme in ("http", "https")
    except ValueError:  # as for an unfinished [::1
        return False


def transfer_patiently(
    address: str, part: "Partial", expected: Expected, on_progress: Progress, on_message: Say
) -> None:
    """Until the whole file is there, or as many attempts in a row as there are pauses brought nothing new."""
    furthest, failures = part.size(), 0
    while True:
        try:
            transfer(address, part, expected, on_progress)
            return
        except Broken as broken:
            if part.size() > furthest:
                furthest, failures = part.size(), 0
            if failures == len(PAUSES):
                raise WeftError(
                    f"cannot download {address}: {broken}; {part.outlook(address)}. A mirror or a folder with the "
                    "files is named by --from"
                ) from None
            pause = min(max(PAUSES[failures], broken.pause), LONGEST_PAUSE)
            failures += 1
            on_message(f"{part.path.stem}: {broken}; trying again in {pause:g} s")
            time.sleep(pause)


class Broken(Exception):
    """A transfer ended in a way that may not happen again."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        self.pause = pause
        super().__init__(why)


class Partial:
    """What there is so far of a file: its bytes, and which version of which address they are from."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f"{target.name}.partial")
        self.note = target.with_name(f"{target.name}.partial.json")
        self.unexpected = target.with_name(f"{target.name}.unexpected")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def outlook(self, address: str) -> str:
        """What the same command will do."""
        size = self.size() if self.version(address) is not None else 0
        kept = f"{size:,} bytes of it are kept, and the same command goes on from there"
        return kept if size else "the same command begins again"

    def version(self, address: str) -> str | None:
        """The validator (an ETag or a date) of the version whose beginning is here; None where that is unknown."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
            version = note["version"] if note["address"] == address else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return version if isinstance(version, str) else None

    def begin(self, address: str, version: str | None) -> None:
        """Throw away what there is; what is written from now on is of this version."""
        self.path.unlink(missing_ok=True)
        write_atomically(self.note, json.dumps({"address": address, "version": version}))

    def set_aside(self) -> Path:
        """Keep a file that is not what was expected under a name of its own, for somebody to look at."""
        os.replace(self.path, self.unexpected)
        self.note.unlink(missing_ok=True)
        return self.unexpected

    def forget(self) -> None:
        self.note.unlink(missing_ok=True)
        self.unexpected.unlink(missing_ok=True)


def transfer(address: str, part: Partial, expected: Expected, on_progress: Progress) -> None:
    """One attempt: ask for what is missing and append it. Raises Broken where another one may do better."""
    version = part.version(address)
    done = part.size() if version is not None else 0
    if done and done == expected.size:
        return
    with ask(address, done, version, part) as response:
        if response.status == 206:
            begin, total = content_range(response)
            # A server that was not asked to send the whole of another version has to say that this is the same one.
            known = (version,) if version is not None and version.startswith("W/") else (None, version)
            if not done or begin != done or version_of(response) not in known:
                part.path.unlink(missing_ok=True)
                raise Broken("the server went on with another version of the file")
        elif response.status == 200:
            done, total = 0, content_length(response)
        else:
            raise WeftError(f"cannot download {address}: the server answers {response.status}, which is no file")
        refuse_size(address, total, expected)
        if not done:
            part.begin(address, version_of(response))
        on_progress(done, total)
        with open(part.path, "ab") as file:
            receive(response, file, done, total, expected, on_progress)


def ask(address: str, done: int, version: str | None, part: Partial) -> http.client.HTTPResponse:
    """The server's answer, 200 with the file or 206 with what follows its first `done` bytes."""
    request = urllib.request.Request(address, headers={"User-Agent": "weft", "Accept-Encoding": "identity"})
    if done and version is not None:
        request.add_header("Range", f"bytes={done}-")
        if not version.startswith("W/"):  # a weak ETag is not allowed there, and compared in the answer instead
            request.add_header("If-Range", version)
    try:
        return opener().open(request, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416:
            part.path.unlink(missing_ok=True)
            raise Broken("the server has no more of the file than is here") from None
        raise failure(address, error) from None
    except ssl.SSLError as error:
        raise untrusted(address, error) from None
    except URLError as error:
        if isinstance(error.reason, ssl.SSLError):
            raise untrusted(address, error.reason) from None
        raise Broken(described(error.reason)) from None
    except ValueError as error:  # as http.client.InvalidURL is
        raise WeftError(f"cannot download {address}: {error}") from None
    except (OSError, http.client.HTTPException) as error:
        raise Broken(described(error)) from None


def opener() -> urllib.request.OpenerDirector:
    """What opens http and https and nothing else: no file:, no ftp:, no data:."""
    director = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        Redirects(),
        urllib.request.UnknownHandler(),
    ):
        director.add_handler(handler)
    return director


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, at most ten and two to the same place, never to a less protected one."""

    max_repeats = 2

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,  # what the answer's body is read from
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        fp.close()  # the base class would read all of a body that nobody wants
        scheme = urlsplit(newurl).scheme
        if scheme not in ("http", "https") or (req.type == "https" and scheme != "https"):
            raise WeftError(f"{req.full_url} leads to {shown(newurl, 200)}, which is less protected; not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def failure(address: str, error: HTTPError) -> Exception:
    """What an answer other than the file comes to: Broken where asking again may help, else a WeftError."""
    said = f"the server answers {error.code} {shown(str(error.reason), 100)}".strip()
    if error.code in WORTH_ANOTHER_TRY:
        return Broken(said, retry_after(error))
    if error.code in (401, 403, 407):
        hint = "it asks for a permission that weft does not have"
    elif error.code in (404, 410):
        hint = "the file is not there any more"
    elif 300 <= error.code < 400:
        said, hint = "the server redirects in a circle, or too often", "the address is broken"
    else:
        hint = "asking again would not help"
    return WeftError(
        f"cannot download {address}: {said}; {hint}. A mirror or a folder with the files is named by --from"
    )


def untrusted(address: str, error: ssl.SSLError) -> WeftError:
    return WeftError(
        f"cannot download {address}: the connection cannot be trusted ({described(error)}); check this machine's clock "
        "and certificates (SSL_CERT_FILE), or name a mirror or a folder with the files by --from"
    )


def described(error: object) -> str:
    """A broken connection in plain words."""
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return f"the connection failed ({shown(' '.join(text.split()), 200)})"


def retry_after(error: HTTPError) -> float:
    """Seconds that the server asks to wait; 0 where it says nothing that can be understood."""
    said = error.headers.get("Retry-After", "")
    try:
        return float(said) if said.isdecimal() else max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def content_range(response: http.client.HTTPResponse) -> tuple[int | None, int | None]:
    """Where the part that comes begins, and the size of the whole, out of `bytes 5-9/10`."""
    span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    begin = span.partition("-")[0]
    return number(begin), number(total)


def content_length(response: http.client.HTTPResponse) -> int | None:
    return number(response.headers.get("Content-Length", ""))


def number(said: str) -> int | None:
    """A count of bytes; None for what is none, or could not be one."""
    return int(said) if said.isdecimal() and len(said) < 20 else None


def version_of(response: http.client.HTTPResponse) -> str | None:
    return response.headers.get("ETag") or response.headers.get("Last-Modified")


def refuse_size(address: str, total: int | None, expected: Expected) -> None:
    """Raise WeftError where the announced size alone says that this is another file."""
    if total is not None and expected.size is not None and total != expected.size:
        raise WeftError(
            f"{address} is not the file it should be: {total:,} bytes are announced, expected are {expected.size:,}; "
            "nothing was downloaded. The source has changed: take a copy from elsewhere by --from FOLDER or --from URL"
        )
    if total is not None and total > expected.at_most:
        raise too_large(address, f"{total:,} bytes are announced", expected)


def too_large(address: str, what: str, expected: Expected) -> WeftError:
    return WeftError(f"{address} is not the file it should be: {what}, and it may have {expected.at_most:,} at most")


def receive(
    response: http.client.HTTPResponse,
    file: IO[bytes],
    done: int,
    total: int | None,
    expected: Expected,
    on_progress: Progress,
) -> None:
    """Append what comes to `file`; raises Broken where it stops before the end, or nearly stops."""
    window_began, window_bytes = time.monotonic(), 0
    while chunk := read_some(response):
        done += len(chunk)
        if done > expected.at_most:
            raise too_large(response.url, "more bytes than that came", expected)
        file.write(chunk)
        file.flush()  # so that nothing is lost with the process
        on_progress(done, total)
        window_bytes += len(chunk)
        if time.monotonic() - window_began > TIMEOUT:
            if window_bytes < LEAST_BYTES:
                raise Broken(f"only {window_bytes} bytes came within {TIMEOUT:g} s")
            window_began, window_bytes = time.monotonic(), 0
    whole = total if total is not None else expected.size
    if whole is not None and done < whole:
        raise Broken(f"the connection ended after {done:,} of {whole:,} bytes")


def read_some(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise Broken(described(error)) from None


def git_blob(path: Path) -> str:
    """The id that git gives to the content of a file."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
