"""V14: a client that does not wait for responses, silent ones under a limit of open files, and costly requests.

`python -m bench.serving.v14_attacks`. One connection sends requests without reading until the server ends it, again and
again; memory may grow by 100 MB. Then 1,300 connections send nothing, a letter or half a request to a server that may
open 1,024 files; /health has a second. Then four clients ask for what is costly, a kind after the other, and a fifth
for a short translation, which may take five times as long as alone (medians).
"""

import asyncio
import socket
import time
from contextlib import suppress
from typing import Any

from bench.reliability.place import resident_bytes
from bench.serving.place import Client, Served, conclude, options_of, percentile, serving

NAME = "V14"
DOES = {
    "en": "one client that does not wait, {silent} silent ones with 1,024 files, 4 costly ones next to a short text",
    "zh": "一个不等待回答的客户端；在 1,024 个文件的上限下 {silent} 个沉默的连接；4 个费时的请求旁边有一段短文本",
}
FOUND = {
    "en": "memory grew by {grown} MB; /health took {health} ms at most; the short text {alone} ms alone, {worst} ms "
    "next to {kind}, the slowest of {kinds} kinds",
    "zh": "内存增加 {grown} MB；/health 最长 {health} 毫秒；短文本单独需 {alone} 毫秒，"
    "在 {kinds} 类中最慢的 {kind} 旁边需 {worst} 毫秒",
}
SENTENCE = "他昨天说过他会来，但是他没有来，所以我很生气。"
EMOJI = "😀😃😄😁😆😅🤣😂🙂🙃"
GLOSSARY = {"他": "he", "昨天": "yesterday", "生气": "angry", "我": "I"}
COSTLY: dict[str, tuple[str, dict[str, Any]]] = {
    "alternatives of emoji": ("/weft/alternatives", {"q": EMOJI * 3}),
    "explanations": ("/weft/explain", {"q": SENTENCE * 4}),
    "glossaries": ("/translate", {"q": SENTENCE * 20, "glossary": GLOSSARY}),
    "combining marks": ("/translate", {"q": "a" + "\u0301\u0302\u0303\u0304" * 1000}),
    "emoji": ("/translate", {"q": EMOJI * 60}),
    "long texts": ("/translate", {"q": SENTENCE * 200}),
    "markup": ("/translate", {"q": f"<p>{SENTENCE[:5]}<b>{SENTENCE[5:]}</b></p>" * 100, "format": "html"}),
}
REQUESTS = (
    b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b'POST /detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"q":"a"}',
)
HALVES = (b"", b"G", b"POST /detect HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n")


def main() -> None:
    options = options_of(__doc__, seconds=(10.0, "seconds of each attack"), silent=(1300, "silent connections"))
    with serving(options.model) as served:
        grown = max(flood(served, request, options.seconds) for request in REQUESTS)
    with serving(options.model, open_files=1024) as served:
        health = be_silent(served, options.silent)
    with serving(options.model) as served:
        alone, next_to = asyncio.run(next_to_costly(served, options.seconds))
    kind = max(next_to, key=lambda one: next_to[one])
    figures = {"grown": grown, "silent": options.silent, "health": health, "alone": alone, "worst": next_to[kind]}
    figures |= {"kind": kind, "kinds": len(next_to)}
    passed = grown <= 100 and health <= 1000 and next_to[kind] <= 5 * alone
    conclude(options, NAME, figures, passed=passed)


def flood(served: Served, request: bytes, seconds: float) -> int:
    """Send this request again and again on one connection, without waiting; returns by how many MB memory grew."""
    before, end, most = resident_bytes(served.process.pid), time.monotonic() + seconds, 0
    with socket.create_connection((served.host, served.port), timeout=0.2) as client:
        while time.monotonic() < end:
            try:
                with suppress(TimeoutError):
                    client.send(request * (100_000 // len(request)))
                with suppress(TimeoutError):
                    client.recv(1 << 16)
            except OSError:  # the server has ended it
                break
            most = max(most, resident_bytes(served.process.pid))
    return max(0, most - before) >> 20


def be_silent(served: Served, number: int) -> float:
    """Open connections that send nothing or half; returns the longest time of /health next to them, in milliseconds."""
    opened = []
    for index in range(number):
        client = socket.socket()
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.connect((served.host, served.port))
        with suppress(OSError):
            client.send(HALVES[index % len(HALVES)])
        opened.append(client)
    times = [asyncio.run(Client(served).ask("GET", "/health")).seconds for _ in range(20)]
    for client in opened:
        client.close()
    return percentile(times, 1.0)


async def next_to_costly(served: Served, seconds: float) -> tuple[float, dict[str, float]]:
    """The median time of a short translation alone, and next to each kind of costly requests, in milliseconds."""
    short = Client(served)
    alone = [(await short.translate(f"我们明天去{number}楼。")).seconds for number in range(30)][5:]
    next_to = {}
    for kind, (path, fields) in COSTLY.items():
        end = time.monotonic() + seconds
        asked = [asyncio.create_task(ask_until(served, path, fields, end)) for _ in range(4)]
        await asyncio.sleep(0.2)
        times = []
        while time.monotonic() < end:
            times.append((await short.translate(f"我们明天去{len(times)}号楼。")).seconds)
            await asyncio.sleep(0.05)
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        next_to[kind] = percentile(times, 0.5)
    return percentile(alone, 0.5), next_to


async def ask_until(served: Served, path: str, fields: dict[str, Any], end: float) -> None:
    client = Client(served)
    try:
        while time.monotonic() < end:
            await client.ask("POST", path, {"source": served.source, "target": served.target, **fields})
    finally:
        client.close()


if __name__ == "__main__":
    main()
