"""V1: requests that are wrong in every way; does one get a 5xx, or none?

`python -m bench.serving.v1_malformed`. schemathesis, in an environment of its own (build/schemathesis), makes requests
of the server's own description, right ones and wrong ones, and holds every answer against it. Then requests are broken
by hand, byte by byte: bad UTF-8, deep JSON, huge numbers, lengths that lie, bodies that do not come.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.machine import ROOT, say
from bench.serving.place import Served, conclude, options_of, serving

NAME = "V1"
DOES = {
    "en": "{cases} cases of schemathesis, {malformed} malformed requests",
    "zh": "schemathesis 的 {cases} 个用例，{malformed} 个畸形请求",
}
FOUND = {
    "en": "{undescribed} answers that the description does not have, {bounds} refused by bounds that it cannot tell; "
    "{server_errors} 5xx but for {busy} times 503 to those who waited too long, {hangs} unanswered after {patience} s",
    "zh": "与接口描述不符的回答 {undescribed} 个，因描述无法表达的界限而拒绝 {bounds} 个；"
    "5xx {server_errors} 个（不计因等得太久而得到的 {busy} 个 503），{patience} 秒后无回答 {hangs} 个",
}

JUDGEMENT = "positive_data_acceptance"
"""The check of schemathesis that what the description allows is accepted. It is counted and no fault: a description
cannot say how many pieces a model cuts a text into, or which names files may have; a documented 400 says it."""
PLACE = ROOT / "build" / "schemathesis"
PATIENCE = 35.0
"""Seconds; a body that does not come is given up after ten, an answer after thirty."""
AT_ONCE = 128
"""More than the server can answer in their time, where many ask for much; these get the 503 of a busy server."""
JSON_PATHS = ("/translate", "/detect", "/weft/stream", "/weft/explain", "/weft/alternatives", "/v1/chat/completions")


def main() -> None:
    options = options_of(
        __doc__, malformed=(10_000, "malformed requests"), examples=(100, "cases of schemathesis an operation")
    )
    with serving(options.model, "--max-document-seconds", "30") as served:  # so that PATIENCE is for all
        by_hand = asyncio.run(send_malformed(served, options.malformed))
        described = run_schemathesis(served, options.examples)
        alive = served.process.poll() is None
    both = {name: by_hand[name] + described[name] for name in ("server_errors", "hangs")}
    figures = {**by_hand, **described, **both, "patience": PATIENCE}
    passed = alive and not any(figures[name] for name in ("server_errors", "hangs", "undescribed"))
    conclude(options, NAME, figures, passed=passed and figures["cases"] >= 2000)


def run_schemathesis(served: Served, examples: int) -> dict[str, Any]:
    if not (PLACE / "bin" / "schemathesis").exists():
        say("Installing schemathesis ...")
        subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
        pip = [str(PLACE / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "schemathesis"], check=True)
    with TemporaryDirectory() as folder:
        report = Path(folder, "report.ndjson")
        command = [str(PLACE / "bin" / "schemathesis"), "run", f"{served.address}/openapi.json"]
        command += ["--max-examples", str(examples), "--checks", "all", "--seed", "1", "--continue-on-failure"]
        command += ["--request-timeout", str(PATIENCE)]
        command += ["--report", "ndjson", "--report-ndjson-path", str(report)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        say("\n".join(line[:300] for line in done.stdout.splitlines()))
        return read_report(report)


def read_report(report: Path) -> dict[str, Any]:
    """How many requests were sent, and the checks that failed."""
    statuses: Counter[int] = Counter()
    failures: Counter[str] = Counter()
    for line in report.read_text(encoding="utf-8").splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        for interaction in recorder.get("interactions", {}).values():
            statuses[(interaction.get("response") or {}).get("status_code", 0)] += 1
        for checks in recorder.get("checks", {}).values():
            failures.update(check["name"] for check in checks if check["status"] != "success")
    bounds = failures[JUDGEMENT]
    return {
        **{"cases": sum(statuses.values()), "failed_checks": dict(failures)},
        **{"undescribed": sum(failures.values()) - bounds, "bounds": bounds},
        **{"server_errors": sum(count for status, count in statuses.items() if status >= 500), "hangs": statuses[0]},
    }


async def send_malformed(served: Served, number: int) -> dict[str, Any]:
    chance = random.Random(1)
    statuses: Counter[str] = Counter()
    slowest = 0.0
    waiting = asyncio.Semaphore(AT_ONCE)

    async def send_one(data: bytes) -> None:
        nonlocal slowest
        async with waiting:
            began = time.monotonic()
            statuses[await answer_to(served, data)] += 1
            slowest = max(slowest, time.monotonic() - began)

    await asyncio.gather(*(send_one(malformed(served, chance)) for _ in range(number)))
    return {
        **{"malformed": number, "statuses": dict(sorted(statuses.items())), "slowest": round(slowest, 1)},
        **{"server_errors": sum(statuses[status] for status in ("500", "502", "504"))},
        **{"hangs": statuses["hangs"], "busy": statuses["503"]},
    }


async def answer_to(served: Served, data: bytes) -> str:
    """The status of the first answer; "closed" where there was none, "hangs" where nothing came of it."""
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(served.host, served.port)
            writer.write(data)
            head = await reader.read(12)
            writer.transport.abort()
            return head[9:12].decode("latin-1") if head.startswith(b"HTTP/1.1 ") else "closed"
    except TimeoutError:
        return "hangs"
    except ConnectionError:
        return "closed"


def malformed(served: Served, chance: random.Random) -> bytes:
    """A request with something wrong in it, mostly in its body, else in its head or its bytes."""
    how = chance.choice((spoiled_json, spoiled_json, spoiled_form, spoiled_head, spoiled_bytes, odd_path))
    return how(served, chance)


def request(path: str, body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    given = {"Host": "127.0.0.1", "Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close"}
    given |= headers
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def good_fields(served: Served) -> dict[str, Any]:
    messages = [{"role": "user", "content": "你好。"}]
    languages = {"source": served.source, "target": served.target}
    return {"q": "你好。", **languages, "model": "", "messages": messages, "prefix": "I"}


ODD_VALUES: tuple[Callable[[random.Random], bytes], ...] = (
    lambda chance: b"[" * chance.choice((10, 1000, 100_000)),
    lambda chance: b'{"a":' * chance.choice((10, 1000, 50_000)),
    lambda chance: b"9" * chance.choice((20, 5000, 200_000)),
    lambda chance: chance.choice((b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0", b"null", b"true", b"{}", b"[]")),
    lambda chance: b'"' + bytes([chance.randrange(128, 256)]) * chance.randrange(1, 50) + b'"',
    lambda chance: b'"\\u' + chance.choice((b"d800", b"dfff", b"0000", b"ffff", b"202e", b"zzzz")) + b'"',
    lambda chance: b'"' + b"a" * chance.choice((400, 5001, 100_000, 1_200_000)) + b'"',
    lambda chance: json.dumps(["x"] * chance.choice((0, 127, 129, 5000))).encode(),
    lambda chance: json.dumps("<p>" * chance.choice((1, 1000)) + "<!--<![CDATA[</p").encode(),
    lambda chance: json.dumps({"a" * n: "b" for n in range(chance.choice((0, 1, 300)))}).encode(),
    lambda chance: str(chance.choice((-1, 0, 2**31, 2**63, -(2**63), 10**30, 0.5))).encode(),
)


def spoiled_json(served: Served, chance: random.Random) -> bytes:
    fields = {name: json.dumps(value).encode() for name, value in good_fields(served).items()}
    for _ in range(chance.randrange(1, 3)):
        name = chance.choice(
            [*fields, "alternatives", "beam_size", "format", "glossary", "api_key", "best", "n", "stream"]
        )
        fields[name] = chance.choice(ODD_VALUES)(chance)
    body = b"{" + b",".join(json.dumps(name).encode() + b":" + value for name, value in fields.items()) + b"}"
    if chance.random() < 0.3:
        body = body[: chance.randrange(len(body))]
    return request(chance.choice(JSON_PATHS), body)


def spoiled_form(served: Served, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        body = chance.choice(
            (b"q=%ff", b"q=" + b"&q=" * 500, b"q=a&source=zh&target=en&glossary=[", b"%", b"\xff=\xfe", b"=" * 50)
        )
        return request(chance.choice(("/translate", "/detect")), body, "application/x-www-form-urlencoded")
    name = chance.choice((b"x.txt", b"x.docx", b"x.html", b"x.srt", b"../../x.md", b"\xff", b""))
    content = chance.choice(
        (b"PK\x03\x04", b"\xff", b"<p>", b"1\n00:00:01,000 --> 00:00:02,000\nhi\n", b"a" * 2000, b"")
    )
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="' + name + b'"\r\n\r\n' + content + b"\r\n"
    fields = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="' + key + b'"\r\n\r\n' + value + b"\r\n"
        for key, value in ((b"source", served.source.encode()), (b"target", served.target.encode()))
    )
    body = (part + fields + b"--b--\r\n")[: chance.choice((None, None, 20, 120))]
    boundary = chance.choice(("b", "b", "c", "", "\xff"))
    return request("/translate_file", body, f"multipart/form-data; boundary={boundary}")


def spoiled_head(served: Served, chance: random.Random) -> bytes:
    body = json.dumps(good_fields(served)).encode()
    lies: tuple[dict[str, str], ...] = (
        {"Content-Length": str(len(body) + 10)},  # the rest does not come
        {"Content-Length": "-1"},
        {"Content-Length": "9" * 30},
        {"Content-Length": "0x10"},
        {"Content-Length": "", "Transfer-Encoding": "chunked"},  # and it is not
        {"Transfer-Encoding": "chunked"},
        {"Transfer-Encoding": "gzip"},
        {"Content-Encoding": "gzip"},
        {"Host": ""},
        {"Host": "evil.example"},
        {"Host": "\xff"},
        {"Authorization": "Bearer \xff\xfe"},
        {"Expect": "100-continue"},
        {"Expect": "200-maybe"},
        {"Content-Type": "application/json; charset=utf-7"},
        {"Content-Type": "\xff/\xff"},
        {"X-Long": "a" * 100_000},
        {"Upgrade": "websocket", "Connection": "Upgrade"},
        {"Range": "bytes=0-9999999999"},
        {"Accept": "text/event-stream;q=\xff"},
    )
    return request(chance.choice(JSON_PATHS), body, **{**chance.choice(lies)})


def spoiled_bytes(served: Served, chance: random.Random) -> bytes:
    """A good request with some bytes changed, taken out or put in, or no request at all."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(1, 2000))
    data = bytearray(request(chance.choice(JSON_PATHS), json.dumps(good_fields(served)).encode()))
    for _ in range(chance.randrange(1, 8)):
        place = chance.randrange(len(data))
        change = chance.randrange(3)
        data[place : place + (change != 2)] = b"" if change == 1 else chance.randbytes(1)
    return bytes(data)


def odd_path(served: Served, chance: random.Random) -> bytes:
    paths = (
        *(
            "/../../etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "//evil.example/",
            "/index.html/../../app.py",
            "/%00",
            "/%ff",
        ),
        *(
            "/translate/",
            "/translate%20",
            "*",
            "http://evil.example/",
            "/download_file/%2e%2e%2fx",
            "/v1/models/%00%ff",
        ),
        "/" + "a" * 20_000,
    )
    method = chance.choice(
        ("GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "HEAD", "get", "\xff")
    )
    return f"{method} {chance.choice(paths)} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode("latin-1")


if __name__ == "__main__":
    main()
