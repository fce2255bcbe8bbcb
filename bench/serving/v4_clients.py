"""V4: clients that leave in the middle, send nothing, or half; are they forgotten within a second?

`python -m bench.serving.v4_clients`. Clients begin a long stream, read its first line and go away; as many ask for a
long list and go at once. Then nothing may be left in the queue. Others open connections and stay silent.
"""

import asyncio
import json
import time

from bench.serving.place import Client, Served, conclude, options_of, serving, texts

NAME = "V4"
DOES = {
    "en": "{dropped} clients go away in the middle, {silent} send nothing or half",
    "zh": "{dropped} 个客户端中途离开，{silent} 个不发送或只发一半",
}
FOUND = {
    "en": "free again {slowest} s after the last one left at most; a request in between took {between} ms at most; "
    "{held} silent "
    "connections held after {patience} s",
    "zh": "最后一个离开后最长 {slowest} 秒恢复空闲；其间的请求最长 {between} 毫秒；{patience} 秒后仍保持的沉默连接 "
    "{held} 个",
}
PATIENCE = 12.0
"""Seconds; a silent connection is ended after ten."""


def main() -> None:
    options = options_of(__doc__, clients=(500, "clients that go away"), silent=(100, "clients that are silent"))
    with serving(options.model) as served:
        figures = asyncio.run(misbehave(served, options.clients, options.silent))
    passed = figures["slowest"] <= 1 and not figures["held"]
    conclude(options, NAME, figures, passed=passed)


async def misbehave(served: Served, clients: int, silent: int) -> dict[str, float]:
    opened = [await asyncio.open_connection(served.host, served.port) for _ in range(silent)]
    opened_at = time.monotonic()
    for _, writer in opened[::2]:
        writer.write(b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-Half")
    slowest = between = 0.0
    left = 0
    while left < clients:
        group = min(25, clients - left)
        await asyncio.gather(*(leave_early(served, number) for number in range(group)))
        left += group
        gone = time.monotonic()
        while await asyncio.to_thread(served.metric, "weft_requests_in_flight") or await asyncio.to_thread(
            served.metric, "weft_sentences_waiting"
        ):
            await asyncio.sleep(0.01)
        client = Client(served)
        reply = await client.translate("你好。")  # is answered when the batch that was begun is through
        client.close()
        slowest = max(slowest, time.monotonic() - gone)
        between = max(between, reply.seconds)
    await asyncio.sleep(max(0.0, PATIENCE - (time.monotonic() - opened_at)))
    held = 0
    for reader, writer in opened:
        try:
            held += bool(await asyncio.wait_for(reader.read(1), 0.5))
        except TimeoutError:
            held += 1
        except ConnectionError:
            pass
        writer.close()
    figures = {"dropped": clients, "silent": silent, "slowest": round(slowest, 2), "between": round(1000 * between, 1)}
    return {**figures, "held": held, "patience": PATIENCE}


async def leave_early(served: Served, number: int) -> None:
    sentences = texts(400)
    is_stream = number % 2 == 0
    fields = {
        "q": "".join(sentences) if is_stream else sentences[:128],
        "source": served.source,
        "target": served.target,
    }
    body = json.dumps(fields).encode()
    path = "/weft/stream" if is_stream else "/translate"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(f"{head}\r\n\r\n".encode() + body)
    await writer.drain()
    if is_stream:
        await reader.readuntil(b"index")
    else:
        await asyncio.sleep(0.05)
    writer.transport.abort()


if __name__ == "__main__":
    main()
