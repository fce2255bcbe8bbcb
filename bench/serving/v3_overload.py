"""V3: four times as much as the server can do; is the excess refused at once, and the rest served as well as before?

`python -m bench.serving.v3_overload`. What it can do is measured first, by clients that wait for their answers; then
requests come at a fixed rate, whether the others are answered or not.
"""

import asyncio
import time
from typing import Any

from bench.serving.place import Client, Served, conclude, in_turn, options_of, percentile, serving, texts

NAME = "V3"
DOES = {
    "en": "requests at {factor} times the rate that it can serve, for {duration} s",
    "zh": "以它能承受的速率的 {factor} 倍发请求，持续 {duration} 秒",
}
FOUND = {
    "en": "{peak} a second at best; under overload {goodput} a second, {share} % of that; {refused} refused, p99 "
    "{refused_p99} ms; "
    "those served took {served_p99} ms at p99, a full queue {queue_ms} ms; {lost} lost",
    "zh": "最多每秒 {peak} 个；过载时每秒 {goodput} 个，为其 {share} %；拒绝 {refused} 个，p99 {refused_p99} 毫秒；"
    "受理的请求 p99 为 "
    "{served_p99} 毫秒，排满的队列需 {queue_ms} 毫秒；丢失 {lost} 个",
}


def main() -> None:
    options = options_of(
        __doc__,
        seconds=(15.0, "how long each of the two parts takes"),
        factor=(4.0, "how many times the rate that it can serve"),
        queue=(128, "requests in the house"),
        sentences=(1, "in a request"),
    )
    began = time.monotonic()
    with serving(options.model, "--max-queue", str(options.queue)) as served:
        figures = asyncio.run(overload(served, options))
    passed = (
        figures["refused_p99"] < 50
        and figures["share"] >= 90
        and not figures["lost"]
        and figures["served_p99"] <= 1.2 * figures["queue_ms"]
    )
    conclude(options, NAME, figures, passed=passed, began=began)


async def overload(served: Served, options: Any) -> dict[str, Any]:
    sentences = texts(2048)

    def fields(number: int) -> dict[str, Any]:
        own = [sentences[(number * options.sentences + place) % len(sentences)] for place in range(options.sentences)]
        return {"q": own, "source": served.source, "target": served.target}

    done = 0

    async def work(client: Client, number: int) -> None:
        nonlocal done
        reply = await client.ask("POST", "/translate", fields(number))
        done += reply.status == 200

    await in_turn(served, options.queue, 2.0, work)
    done, begin = 0, time.perf_counter()
    await in_turn(served, options.queue, options.seconds, work)
    peak = done / (time.perf_counter() - begin)

    replies: list[tuple[int, float]] = []
    idle: list[Client] = []
    lost = 0

    async def ask_once(number: int) -> None:
        nonlocal lost
        client = idle.pop() if idle else Client(served)
        try:
            reply = await client.ask("POST", "/translate", fields(number))
        except OSError:
            client.close()
            lost += 1
            return
        replies.append((reply.status, reply.seconds))
        idle.append(client)

    asking = []
    begin = time.perf_counter()
    number = 0
    while (passed := time.perf_counter() - begin) < options.seconds:
        while number < passed * peak * options.factor:
            asking.append(asyncio.create_task(ask_once(number)))
            number += 1
        await asyncio.sleep(0.002)
    await asyncio.gather(*asking)
    whole_time = time.perf_counter() - begin
    served_seconds = [seconds for status, seconds in replies if status == 200]
    refused = [seconds for status, seconds in replies if status in (429, 503)]
    lost += len(replies) - len(served_seconds) - len(refused)
    goodput = len(served_seconds) / whole_time
    return {
        **{"factor": options.factor, "duration": options.seconds, "peak": round(peak, 1), "goodput": round(goodput, 1)},
        **{"share": round(100 * goodput / peak, 1), "refused": len(refused), "refused_p99": percentile(refused, 0.99)},
        **{"served_p99": percentile(served_seconds, 0.99), "queue_ms": round(1000 * options.queue / peak, 1)},
        "lost": lost,
    }


if __name__ == "__main__":
    main()
