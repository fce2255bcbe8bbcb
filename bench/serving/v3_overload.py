"""V3: four times the load that the server can serve; is the excess refused at once, and the rest served as before?

`python -m bench.serving.v3_overload`. The capacity is measured first, by as many clients as the queue has slots, each
of which waits for its answer; then requests are sent at a fixed rate, whether others have been answered or not. Both
begin with a full queue.
"""

import asyncio
import time
from statistics import median
from typing import Any

from bench.serving.place import Client, Reply, Served, conclude, in_turn, options_of, percentile, serving, texts

from weft.serving.limits import Limits

SENTENCES = texts(2048)
FILLING_SECONDS = 1.0
"""Time for the queue to fill."""
NAME = "V3"
DOES = {
    "en": "requests at {factor} times the rate that it can serve, {rounds} times {duration} s, {queue} places",
    "zh": "以它能承受的速率的 {factor} 倍发请求，{rounds} 次，每次 {duration} 秒，{queue} 个席位",
}
FOUND = {
    "en": "{peak} a second at best; under overload {goodput} a second, {share} % of that ({shares}); {refused} refused,"
    " p99 {refused_p99} ms; those served took {served_p99} ms at p99, a full queue {queue_ms} ms; {lost} lost",
    "zh": "最多每秒 {peak} 个；过载时每秒 {goodput} 个，为其 {share} %（{shares}）；拒绝 {refused} 个，"
    "p99 {refused_p99} 毫秒；受理的请求 p99 为 {served_p99} 毫秒，排满的队列需 {queue_ms} 毫秒；丢失 {lost} 个",
}


def main() -> None:
    options = options_of(
        __doc__,
        rounds=(3, "of both parts in turn, since what a machine can do changes; figures are medians"),
        seconds=(20.0, "how long each part takes"),
        factor=(4.0, "how many times the rate that it can serve"),
        queue=(Limits().queue, "slots of the queue"),
    )
    with serving(options.model, "--max-queue", str(options.queue)) as served:
        rounds = asyncio.run(in_rounds(served, options))
    figures = {
        **{"factor": options.factor, "duration": options.seconds, "rounds": options.rounds, "queue": options.queue},
        **{name: round(median(one[name] for one in rounds), 1) for name in rounds[0]},
        "shares": [round(one["share"], 1) for one in rounds],
        **{name: round(sum(one[name] for one in rounds)) for name in ("refused", "lost")},
    }
    passed = figures["refused_p99"] < 50 and figures["share"] >= 90 and not figures["lost"] and figures["slower"] <= 1.2
    conclude(options, NAME, figures, passed=passed)


async def in_rounds(served: Served, options: Any) -> list[dict[str, float]]:
    await best_rate(served, options.queue, 2.0)  # for what only the first requests wait for
    rounds = []
    for _ in range(options.rounds):
        peak = await best_rate(served, options.queue, options.seconds)
        replies, seconds = await overload(served, options.queue, options.seconds, peak * options.factor)
        taken = [reply.seconds for reply in replies if reply is not None and reply.status == 200]
        refused = [reply.seconds for reply in replies if reply is not None and reply.status in (429, 503)]
        goodput, queue_ms = len(taken) / seconds, 1000 * options.queue / peak
        served_p99 = percentile(taken, 0.99)
        rounds.append(
            {
                **{"peak": peak, "goodput": goodput, "share": 100 * goodput / peak},
                **{"refused": len(refused), "refused_p99": percentile(refused, 0.99)},
                **{"served_p99": served_p99, "queue_ms": queue_ms, "slower": served_p99 / queue_ms},
                "lost": len(replies) - len(taken) - len(refused),
            }
        )
    return rounds


def fields(served: Served, number: int) -> dict[str, str]:
    return {"q": SENTENCES[number % len(SENTENCES)], "source": served.source, "target": served.target}


async def best_rate(served: Served, clients: int, seconds: float) -> float:
    """Answers a second to clients that ask again as soon as they are answered."""
    done = 0

    async def work(client: Client, number: int) -> None:
        nonlocal done
        reply = await client.ask("POST", "/translate", fields(served, number))
        done += reply.status == 200

    begin = time.perf_counter()
    await in_turn(served, clients, seconds, work)
    return done / (time.perf_counter() - begin)


async def overload(served: Served, queue: int, seconds: float, rate: float) -> tuple[list[Reply | None], float]:
    """The replies to requests that fill the queue and then come at `rate` a second, None for a lost one; and how many
    seconds it took from the first request to the last reply."""
    idle: list[Client] = []

    async def ask_once(number: int) -> Reply | None:
        client = idle.pop() if idle else Client(served)
        try:
            reply = await client.ask("POST", "/translate", fields(served, number))
        except OSError:
            client.close()
            return None
        idle.append(client)
        return reply

    begin = time.perf_counter()
    asking = [asyncio.create_task(ask_once(number)) for number in range(queue)]
    await asyncio.sleep(FILLING_SECONDS)
    full = time.perf_counter()
    while (passed := time.perf_counter() - full) < seconds:
        due = queue + int(passed * rate) + 1
        asking += [asyncio.create_task(ask_once(number)) for number in range(len(asking), due)]
        await asyncio.sleep((due - queue) / rate - passed)
    replies = await asyncio.gather(*asking)
    for client in idle:
        client.close()
    return replies, time.perf_counter() - begin


if __name__ == "__main__":
    main()
