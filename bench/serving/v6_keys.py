"""V6: keys that are wrong in every way; does the time of a refusal tell how much of one was right?

`python -m bench.serving.v6_keys`. Keys that are wrong in their first character and keys that are wrong in their last
are sent in turn, and the times compared by a Mann-Whitney test, whose p is that of chance alone.
"""

import asyncio
import math
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from bench.serving.place import Client, Served, conclude, options_of, serving

from weft.serving.keys import add_key, make_key

NAME = "V6"
DOES = {
    "en": "{samples} refusals of keys that are nearly right, and odd ones",
    "zh": "{samples} 次拒绝几乎正确的密钥，以及各种怪异的密钥",
}
FOUND = {
    "en": "{wrong} odd keys not refused with 401 or as no HTTP; wrong in the first character {first_us} µs, in the "
    "last {last_us} µs "
    "(medians), p = {p}",
    "zh": "{wrong} 个怪异的密钥没有得到 401（或被判为非法 HTTP）；首字符错 {first_us} 微秒，末字符错 {last_us} "
    "微秒（中位数），p = {p}",
}
ODD = ("", " ", "\t", "weft-", "钥匙", "\xff\xfe", "x" * 10_000, "Bearer", "null", "' or 1=1 --", "\x7f")


def main() -> None:
    options = options_of(__doc__, samples=(10_000, "refusals that are timed"))
    with TemporaryDirectory() as folder:
        file, key = Path(folder, "keys"), make_key()
        add_key(file, key, "bench")
        with serving(options.model, "--api-keys", str(file)) as served:
            figures = asyncio.run(ask_with_wrong_keys(served, key, options.samples))
    passed = not figures["wrong"] and figures["p"] > 0.01
    conclude(options, NAME, figures, passed=passed)


async def ask_with_wrong_keys(served: Served, key: str, samples: int) -> dict[str, float]:
    wrong = 0
    for odd in [*ODD, "x" * (1 << 20)]:
        wrong += await asyncio.to_thread(status_for, served, odd) not in (400, 401)
    kinds = ("x" + key[1:], key[:-1] + ("y" if key[-1] != "y" else "z"))
    client = Client(served)  # one, since no two connections are equally quick
    taken: list[list[float]] = [[], []]
    order = np.random.default_rng(1).permutation(samples) % 2  # neither kind is always behind the other
    for number in order.tolist():
        client.key = kinds[number]
        reply = await client.ask("GET", "/v1/models")
        wrong += reply.status != 401
        taken[number].append(reply.seconds)
    client.close()
    medians = [round(1e6 * float(np.median(times)), 1) for times in taken]
    p = round(mann_whitney(*taken), 3)
    return {"samples": samples, "wrong": wrong, "first_us": medians[0], "last_us": medians[1], "p": p}


def status_for(served: Served, key: str) -> int:
    """As raw bytes, since clients refuse to send some of them."""
    with socket.create_connection((served.host, served.port), timeout=10) as connection:
        head = f"GET /v1/models HTTP/1.1\r\nHost: {served.host}\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {key}\r\n\r\n"
        try:
            connection.sendall(head.encode("utf-8", "surrogateescape"))
            return int(connection.recv(12).split()[1])
        except (ConnectionError, IndexError):
            return 400  # a head of a megabyte is not read to its end


def mann_whitney(first: list[float], second: list[float]) -> float:
    """The two-sided p that both samples are of one distribution (Mann and Whitney 1947, by the normal approximation).

    Two times are never quite the same, so ties are not corrected for.
    """
    both = np.concatenate([first, second])
    ranks = np.empty(len(both))
    ranks[np.argsort(both, kind="stable")] = np.arange(1, len(both) + 1)
    n, m = len(first), len(second)
    u = ranks[:n].sum() - n * (n + 1) / 2
    z = (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
    return math.erfc(abs(z) / math.sqrt(2))


if __name__ == "__main__":
    main()
