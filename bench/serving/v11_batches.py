"""V11: what does sharing batches gain, and does it change a single answer?

`python -m bench.serving.v11_batches`. One client asks for texts one after the other, then many clients ask for the same
texts at once.
"""

import asyncio
import time

from bench.serving.place import Client, Served, conclude, options_of, percentile, serving, texts

NAME = "V11"
DOES = {
    "en": "{texts} texts by one client, then by {clients}",
    "zh": "{texts} 个文本由一个客户端请求，再由 {clients} 个客户端请求",
}
FOUND = {
    "en": "one at a time {alone} a second, together {together}: {gain} times as many; {different} answers differ; "
    "p50 {p50_alone} ms "
    "alone, {p50} ms in company; {batch} sentences a batch",
    "zh": "逐个请求每秒 {alone} 个，同时请求 {together} 个，为 {gain} 倍；不同的答案 {different} 个；p50 单独 "
    "{p50_alone} 毫秒，同时 {p50} 毫秒；"
    "每批 {batch} 句",
}


def main() -> None:
    options = options_of(__doc__, texts=(256, "how many"), clients=(64, "how many ask at once"))
    with serving(options.model) as served:
        figures = asyncio.run(compare(served, texts(options.texts), options.clients))
    conclude(options, NAME, figures, passed=figures["gain"] >= 3 and not figures["different"])


async def compare(served: Served, asked: list[str], clients: int) -> dict[str, float]:
    await ask_all(served, asked[:64], clients)
    alone, alone_seconds, alone_taken = await ask_all(served, asked, 1)
    batches, sentences = [served.metric(f"weft_batch_sentences_{kind}") for kind in ("count", "sum")]
    together, seconds, taken = await ask_all(served, asked, clients)
    batches = served.metric("weft_batch_sentences_count") - batches
    sentences = served.metric("weft_batch_sentences_sum") - sentences
    return {
        **{"texts": len(asked), "clients": clients, "alone": round(len(asked) / alone_seconds, 1)},
        **{"together": round(len(asked) / seconds, 1), "gain": round(alone_seconds / seconds, 2)},
        "different": sum(one != other for one, other in zip(alone, together, strict=True)),
        **{"p50_alone": percentile(alone_taken, 0.5), "p50": percentile(taken, 0.5)},
        "batch": round(sentences / batches, 1),
    }


async def ask_all(served: Served, asked: list[str], clients: int) -> tuple[list[str], float, list[float]]:
    """The answers in order, the seconds for all, and for each."""
    answers = [""] * len(asked)
    taken: list[float] = []
    numbers = iter(range(len(asked)))

    async def ask_next() -> None:
        client = Client(served)
        for number in numbers:
            reply = await client.translate(asked[number])
            answers[number] = reply.json()["translatedText"]
            taken.append(reply.seconds)
        client.close()

    began = time.perf_counter()
    await asyncio.gather(*(ask_next() for _ in range(clients)))
    return answers, time.perf_counter() - began, taken


if __name__ == "__main__":
    main()
