"""V13: from the command to the first answer.

`python -m bench.serving.v13_start`. The server is started again and again, and asked as soon as its port is open.
"""

import asyncio
import time

from bench.serving.place import Client, Served, conclude, model_folder, options_of, serving

NAME = "V13"
DOES = {"en": "`weft serve` started {rounds} times", "zh": "启动 `weft serve` {rounds} 次"}
FOUND = {
    "en": "first answer after {median} s (median), {slowest} s at most",
    "zh": "{median} 秒后得到第一个回答（中位数），最长 {slowest} 秒",
}


def main() -> None:
    options = options_of(__doc__, rounds=(5, "how often"))
    with model_folder(options.model) as folder:
        taken = sorted(start_once(folder) for _ in range(options.rounds))
    figures = {"rounds": options.rounds, "median": round(taken[len(taken) // 2], 2), "slowest": round(taken[-1], 2)}
    conclude(options, NAME, figures, passed=figures["median"] < 4)


def start_once(folder: str) -> float:
    began = time.monotonic()
    with serving(folder) as served:
        assert asyncio.run(first_answer(served)).strip()
        return time.monotonic() - began


async def first_answer(served: Served) -> str:
    client = Client(served)
    reply = await client.translate("你好。")
    client.close()
    return reply.json()["translatedText"]


if __name__ == "__main__":
    main()
