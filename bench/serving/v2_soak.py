"""V2: many clients for a while; is every reply there, and is it the asker's own?

`python -m bench.serving.v2_soak`. First every text is translated alone; then 64 clients ask for them in a loop, and
each answer has to be what it was alone.
"""

import asyncio

from bench.reliability.place import resident_bytes
from bench.serving.place import Client, Served, conclude, in_turn, options_of, percentile, serving, texts

NAME = "V2"
DOES = {
    "en": "{clients} clients for {duration} s, each asking again when it is answered",
    "zh": "{clients} 个客户端，持续 {duration} 秒，得到回答就再问",
}
FOUND = {
    "en": "{replies} replies, {rate} a second; {lost} lost, {mixed} not the asker's own; p50 {p50} ms, p99 {p99} ms; "
    "memory changed by {growth:+} % at the end",
    "zh": "{replies} 个回答，每秒 {rate} 个；丢失 {lost} 个，答非所问 {mixed} 个；p50 {p50} 毫秒，p99 {p99} 毫秒；"
    "结束时内存变化 {growth:+} %",
}


def main() -> None:
    options = options_of(__doc__, seconds=(60.0, "how long"), clients=(64, "how many"), texts=(64, "different texts"))
    with serving(options.model) as served:
        figures = asyncio.run(soak(served, options.clients, options.seconds, texts(options.texts)))
    passed = (
        not figures["lost"] and not figures["mixed"] and figures["p99"] <= 3 * figures["p50"] and figures["growth"] < 5
    )
    conclude(options, NAME, figures, passed=passed)


async def soak(served: Served, clients: int, seconds: float, asked: list[str]) -> dict[str, float]:
    single = Client(served)
    alone = [(await single.translate(text)).json()["translatedText"] for text in asked]
    lost = mixed = 0
    taken: list[float] = []

    async def work(client: Client, number: int) -> None:
        nonlocal lost, mixed
        index = number % len(asked)
        try:
            reply = await client.translate(asked[index])
        except OSError:
            client.close()
            lost += 1
            return
        taken.append(reply.seconds)
        lost += reply.status != 200
        mixed += reply.status == 200 and reply.json()["translatedText"] != alone[index]

    await in_turn(served, clients, min(30.0, seconds / 2), work)  # caches and buffers take what they will
    taken.clear()
    before = resident_bytes(served.process.pid)
    await in_turn(served, clients, seconds, work)
    return {
        **{"clients": clients, "duration": seconds, "replies": len(taken), "rate": round(len(taken) / seconds, 1)},
        **{"lost": lost, "mixed": mixed, "p50": percentile(taken, 0.5), "p99": percentile(taken, 0.99)},
        "growth": round(100 * (resident_bytes(served.process.pid) / before - 1), 1),
    }


if __name__ == "__main__":
    main()
