"""Download one file over HTTP: resumed after an interruption, bounded in size, verified before it is used.

The bytes that have arrived are kept next to the target as NAME.partial, their address and version in NAME.partial.json.
The next attempt requests the rest (RFC 9110, section 14: range requests), or starts over if the version has changed.
Only a complete file with the expected content gets the target's name.
"""

import hashlib
import http.client
import json
import os
import re
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
"""Seconds without an answer, or with fewer than LEAST_BYTES of one, after which a connection counts as broken."""
LEAST_BYTES = 1024
PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each retry. The download fails after this many retries in a row that brought no new bytes."""
LONGEST_PAUSE = 60.0
"""Upper bound in seconds on the pause that a server may request (Retry-After)."""
CHUNK = 1 << 16
RETRIED_STATUS = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Expected:
    """What is known about a file before it is downloaded."""

    at_most: int
    """Largest size in bytes that is stored."""
    size: int | None = None
    sha256: str | None = None
    git_blob: str | None = None
    """Object id of the content in a git repository: the SHA-1 of `blob SIZE`, a zero byte and the content."""

    @property
    def has_digest(self) -> bool:
        """Whether the content can be verified."""
        return (self.sha256 or self.git_blob) is not None

    def difference(self, path: Path) -> str | None:
        """Describe how the file at `path` differs from what is expected; None if it does not."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"it has {size:,} bytes instead of {self.size:,}"
        if size > self.at_most:
            return f"it has {size:,} bytes, more than the limit of {self.at_most:,}"
        if self.sha256 is not None and (found := sha256(path)) != self.sha256:
            return f"its sha256 is {found} instead of {self.sha256}"
        if self.git_blob is not None and (found := git_blob(path)) != self.git_blob:
            return f"its git blob id is {found} instead of {self.git_blob}"
        return None


Progress = Callable[[int, int | None], None]
"""Called with the number of bytes received, and the size of the whole file if it is known."""
Say = Callable[[str], None]


def download(address: str, target: Path, expected: Expected, on_progress: Progress, on_message: Say) -> None:
    """Download an http or https address to `target`, continuing a transfer that an earlier call has begun.

    Uses the proxies of the environment (http_proxy, https_proxy, no_proxy). Raises WeftError if the download fails or
    the content is not the expected one; what has arrived is kept next to the target.
    """
    if not is_web_address(address):
        raise UsageError(f"{address} is not an http or https address")
    part = Partial(target, address)
    try:
        transfer_with_retries(part, expected, on_progress, on_message)
        if (difference := expected.difference(part.path)) is not None:
            os.replace(part.path, part.unexpected)
            part.note.unlink(missing_ok=True)
            raise WeftError(
                f"{address} is not the expected file: {difference}. The download is kept as {part.unexpected}; the "
                "next attempt starts over. If it fails in the same way, the source has changed or the connection "
                "alters it: use --from to name another source (see --help)"
            )
        sync(part.path)
        os.replace(part.path, target)
        part.note.unlink(missing_ok=True)
        part.unexpected.unlink(missing_ok=True)
    except OSError as error:
        raise WeftError(
            f"cannot write {target}: {error.strerror or error}; {part.outlook()}. Fix this first, or choose another "
            "folder with --output"
        ) from error


def is_web_address(address: str) -> bool:
    try:
        return urlsplit(address).scheme in ("http", "https")
    except ValueError:  # for instance an unclosed [::1
        return False


class Partial:
    """The bytes of a file that have arrived so far, and the version that they belong to."""

    def __init__(self, target: Path, address: str) -> None:
        self.address = address
        self.path = target.with_name(f"{target.name}.partial")
        self.note = target.with_name(f"{target.name}.partial.json")
        self.unexpected = target.with_name(f"{target.name}.unexpected")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def version(self) -> str | None:
        """The validator (ETag or date) of the version that the bytes belong to; None if it is unknown."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
            version = note["version"] if note["address"] == self.address else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return version if isinstance(version, str) else None

    def begin(self, version: str | None) -> None:
        """Discard the bytes; those that follow belong to this version."""
        self.path.unlink(missing_ok=True)
        write_atomically(self.note, json.dumps({"address": self.address, "version": version}))

    def outlook(self) -> str:
        """What running the same command again will do."""
        size = self.size() if self.version() is not None else 0
        if size:
            return f"{size:,} bytes of it are kept, and the same command continues from there"
        return "the same command starts over"


class Broken(Exception):
    """A transfer ended in a way that a retry may fix; `pause` is the number of seconds that the server asks to wait."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        self.pause = pause
        super().__init__(why)


class Outdated(Broken):
    """The bytes that have arrived cannot be continued."""


def transfer_with_retries(part: Partial, expected: Expected, on_progress: Progress, on_message: Say) -> None:
    """Transfer until the file is complete. Raises WeftError after len(PAUSES) retries in a row without new bytes."""
    furthest, failures = part.size(), 0
    while True:
        try:
            transfer(part, expected, on_progress)
            return
        except Broken as broken:
            if isinstance(broken, Outdated):
                part.path.unlink(missing_ok=True)
            if part.size() > furthest:
                furthest, failures = part.size(), 0
            if failures == len(PAUSES):
                raise failed(part.address, f"{broken}; {part.outlook()}") from None
            pause = min(max(PAUSES[failures], broken.pause), LONGEST_PAUSE)
            failures += 1
            on_message(f"{part.path.stem}: {broken}; retrying in {pause:g} s")
            time.sleep(pause)


def transfer(part: Partial, expected: Expected, on_progress: Progress) -> None:
    """Request the missing bytes once and append them. Raises Broken if a retry may help."""
    version = part.version()
    done = part.size() if version is not None else 0
    if done and done == expected.size:
        return
    with request(part.address, done, version) as response:
        new_version = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if response.status == 206:
            begin, total = content_range(response)
            # If-Range lets a server omit the validator of a part, but it is not sent with a weak one.
            known = (version,) if version is not None and version.startswith("W/") else (None, version)
            if not done or begin != done or new_version not in known:
                raise Outdated("the file on the server has changed")
        elif response.status == 200:
            done, total = 0, byte_count(response.headers.get("Content-Length", ""))
        else:
            raise failed(part.address, f"the server answers {response.status}, without a file")
        check_announced_size(part.address, total, expected)
        if not done:
            part.begin(new_version)
        on_progress(done, total)
        with open(part.path, "ab") as file:
            receive(response, file, done, total, expected, on_progress)


def request(address: str, done: int, version: str | None) -> http.client.HTTPResponse:
    """Return the server's answer: 200 with the file, or 206 with what follows its first `done` bytes."""
    headers = {"User-Agent": "weft", "Accept-Encoding": "identity"}
    if done and version is not None:
        headers["Range"] = f"bytes={done}-"
        if not version.startswith("W/"):  # a weak ETag is not allowed in If-Range; `transfer` compares it
            headers["If-Range"] = version
    try:
        opener = urllib.request.build_opener(Redirects)
        return opener.open(urllib.request.Request(address, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        raise of_status(address, error) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLError):
            raise failed(
                address,
                f"the connection is not secure ({described(reason)}); check the clock and the certificates of this "
                "machine (SSL_CERT_FILE)",
            ) from None
        if isinstance(reason, ValueError | http.client.InvalidURL):
            raise failed(address, str(reason)) from None
        raise Broken(described(reason)) from None


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows at most ten redirects, at most two to the same address, and none from https to http."""

    max_repeats = 2

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,  # the body of the answer
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        fp.close()  # the base class would read the body to its end
        scheme = urlsplit(newurl).scheme
        if scheme not in ("http", "https") or (req.type == "https" and scheme != "https"):
            raise WeftError(f"{req.full_url} redirects to {shown(newurl, 200)}, which is not secure; not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def of_status(address: str, error: HTTPError) -> Exception:
    """The exception for an HTTP status other than success: Broken if a retry may help, otherwise WeftError."""
    said = f"the server answers {error.code} {shown(str(error.reason), 100)}".strip()
    if error.code == 416:
        return Outdated("the server has no more bytes than have arrived")
    if error.code in RETRIED_STATUS:
        return Broken(said, retry_after(error))
    if error.code in (401, 403, 407):
        said += "; access is denied"
    elif error.code in (404, 410):
        said += "; the file does not exist (any more)"
    elif 300 <= error.code < 400:
        said = "the server redirects in a circle or too often"
    return failed(address, said)


def failed(address: str, why: str) -> WeftError:
    return WeftError(f"cannot download {address}: {why}. Use --from to name another source (see --help)")


def described(error: object) -> str:
    """A broken connection in plain words."""
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return f"the connection failed ({shown(' '.join(text.split()), 200)})"


def retry_after(error: HTTPError) -> float:
    """Seconds that the server asks to wait; 0 if it does not say, or not in a valid form."""
    said = error.headers.get("Retry-After", "")
    try:
        return float(said) if said.isdecimal() else max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def content_range(response: http.client.HTTPResponse) -> tuple[int | None, int | None]:
    """The first position of a part and the size of the whole, from `bytes 5-9/10`."""
    match = re.fullmatch(r"bytes (\d+)-\d*/(\d+|\*)", response.headers.get("Content-Range", ""))
    return (byte_count(match[1]), byte_count(match[2])) if match else (None, None)


def byte_count(said: str) -> int | None:
    """The number of bytes in a header; None if it is not a plausible one."""
    return int(said) if said.isdecimal() and len(said) < 20 else None


def check_announced_size(address: str, total: int | None, expected: Expected) -> None:
    """Raise WeftError if the announced size shows that this is another file."""
    if total is not None and expected.size is not None and total != expected.size:
        raise WeftError(
            f"{address} is not the expected file: the server announces {total:,} bytes instead of {expected.size:,}; "
            "nothing was downloaded. The source has changed: use --from to name another one (see --help)"
        )
    if total is not None and total > expected.at_most:
        raise too_large(address, f"the server announces {total:,} bytes", expected)


def too_large(address: str, what: str, expected: Expected) -> WeftError:
    return WeftError(f"{address} is not the expected file: {what}, over the limit of {expected.at_most:,}")


def receive(
    response: http.client.HTTPResponse,
    file: IO[bytes],
    done: int,
    total: int | None,
    expected: Expected,
    on_progress: Progress,
) -> None:
    """Append the body to `file`; raises Broken if it ends early or nearly stops."""
    window_began, window_bytes = time.monotonic(), 0
    while chunk := read_some(response):
        done += len(chunk)
        if done > expected.at_most:
            raise too_large(response.url, "the server sends more bytes", expected)
        file.write(chunk)
        file.flush()  # keep the bytes if the process is killed
        on_progress(done, total)
        window_bytes += len(chunk)
        if time.monotonic() - window_began > TIMEOUT:
            if window_bytes < LEAST_BYTES:
                raise Broken(f"only {window_bytes} bytes arrived within {TIMEOUT:g} s")
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
    """The object id that git gives to the content of a file."""
    header = b"blob %d\0" % path.stat().st_size
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.sha1(header, usedforsecurity=False)).hexdigest()
