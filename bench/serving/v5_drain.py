"""V5: SIGTERM under load; is everything that was begun answered, and does the process end well?

`python -m bench.serving.v5_drain`. Clients ask again and again, and stop, as a load balancer makes them, when /ready
says that they should.
"""

import asyncio
import signal
import time

from bench.serving.place import Client, Served, conclude, options_of, serving, texts

NAME = "V5"
DOES = {
    "en": "SIGTERM under {clients} clients, {rounds} times",
    "zh": "在 {clients} 个客户端的负载下发送 SIGTERM，{rounds} 次",
}
FOUND = {
    "en": "{replies} replies, {lost} lost; /ready said 503 after {noticed} s at most; exit codes {codes}, {slowest} "
    "s from the signal "
    "at most",
    "zh": "{replies} 个回答，丢失 {lost} 个；/ready 最长 {noticed} 秒后返回 503；退出码 {codes}，从信号到退出最长 "
    "{slowest} 秒",
}


def main() -> None:
    options = options_of(__doc__, rounds=(3, "how often"), clients=(32, "how many"))
    figures = {"clients": options.clients, "rounds": options.rounds}
    figures |= {"replies": 0, "lost": 0, "noticed": 0.0, "slowest": 0.0}
    codes = set()
    for _ in range(options.rounds):
        with serving(options.model) as served:
            replies, lost, noticed, sent_at = asyncio.run(drain(served, options.clients))
            codes.add(served.process.wait(timeout=60))
            figures["slowest"] = max(figures["slowest"], round(time.monotonic() - sent_at, 2))
            figures["noticed"] = max(figures["noticed"], round(noticed, 2))
            figures["replies"] += replies
            figures["lost"] += lost
    passed = not figures["lost"] and codes == {0} and figures["slowest"] <= 30
    conclude(options, NAME, {**figures, "codes": sorted(codes)}, passed=passed)


async def drain(served: Served, clients: int) -> tuple[int, int, float, float]:
    """Replies, lost ones, seconds until /ready said so, and when the signal was sent."""
    asked = texts(512)
    replies = lost = 0
    stopped = asyncio.Event()

    async def ask_again(who: int) -> None:
        nonlocal replies, lost
        client, turn = Client(served), 0
        while not stopped.is_set():
            turn += 1
            try:
                reply = await client.translate(asked[(who * 31 + turn) % len(asked)])
                replies, lost = replies + 1, lost + (reply.status != 200)
            except OSError:
                lost += 1
                client.close()
        client.close()

    asking = [asyncio.create_task(ask_again(who)) for who in range(clients)]
    await asyncio.sleep(2.0)
    sent_at = time.monotonic()
    served.signal(signal.SIGTERM)
    watcher = Client(served)
    while (await watcher.ask("GET", "/ready")).status == 200:
        await asyncio.sleep(0.02)
    noticed = time.monotonic() - sent_at
    stopped.set()
    await asyncio.gather(*asking)
    watcher.close()
    return replies, lost, noticed, sent_at


if __name__ == "__main__":
    main()
