"""V12: the models are loaded anew under load; is a request lost?

`python -m bench.serving.v12_swap`. While clients ask, SIGHUP is sent again and again.
"""

import asyncio
import signal
import time

from bench.reliability.place import resident_bytes
from bench.serving.place import Client, Served, conclude, in_turn, options_of, serving, texts

NAME = "V12"
DOES = {
    "en": "models loaded anew {swaps} times under {clients} clients",
    "zh": "在 {clients} 个客户端的负载下重新载入模型 {swaps} 次",
}
FOUND = {
    "en": "{loaded} loaded; {replies} replies, {lost} lost, {different} other than before; memory "
    "changed by {growth:+} % at the end",
    "zh": "载入 {loaded} 次；{replies} 个回答，丢失 {lost} 个，与之前不同 {different} 个；结束时内存变化 {growth:+} %",
}

PATIENCE = 60.0
"""Seconds for what is still being loaded; a load that is refused or lost never counts."""


def main() -> None:
    options = options_of(__doc__, swaps=(10, "how often"), clients=(32, "how many"))
    with serving(options.model) as served:
        figures = asyncio.run(swap(served, options.swaps, options.clients))
    passed = not figures["lost"] and not figures["different"] and figures["loaded"] == options.swaps
    conclude(options, NAME, figures, passed=passed)


async def swap(served: Served, swaps: int, clients: int) -> dict[str, float]:
    asked = texts(64)
    single = Client(served)
    alone = [(await single.translate(text)).json()["translatedText"] for text in asked]
    replies = lost = different = 0

    async def work(client: Client, number: int) -> None:
        nonlocal replies, lost, different
        try:
            reply = await client.translate(asked[number % len(asked)])
        except OSError:
            client.close()
            lost += 1
            return
        replies, lost = replies + 1, lost + (reply.status != 200)
        different += reply.status == 200 and reply.json()["translatedText"] != alone[number % len(asked)]

    await in_turn(served, clients, 2.0, work)
    memory = resident_bytes(served.process.pid)
    seconds = 1.5 * swaps

    async def send_signals() -> None:
        for _ in range(swaps):
            served.signal(signal.SIGHUP)
            await asyncio.sleep(seconds / swaps)

    await asyncio.gather(in_turn(served, clients, seconds, work), send_signals())
    end = time.monotonic() + PATIENCE
    while (loaded := await asyncio.to_thread(served.metric, "weft_reloads_total", 'outcome="done"')) < swaps:
        if time.monotonic() > end:
            break
        await asyncio.sleep(0.1)
    growth = round(100 * (resident_bytes(served.process.pid) / memory - 1), 1)
    figures = {"swaps": swaps, "clients": clients, "loaded": int(loaded), "replies": replies, "lost": lost}
    return {**figures, "different": different, "growth": growth}


if __name__ == "__main__":
    main()
