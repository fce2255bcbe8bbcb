"""What the tests of the tokenizers share: strings that nobody expects, and a small corpus of two languages."""

import random
import time
from collections.abc import Callable

import pytest
from tests import corpora

SPECIALS = ["</s>", "<s>", "<pad>", "<unk>", "<0x41>", "<0x00>", "[CLS]", "[MASK]", "<bt>"]
NAMES = ["汤姆", "玛丽", "老师", "医生", "学生", "朋友"]
THINGS = ["苹果", "书", "杯子", "电脑", "自行车", "帽子"]
# The strings of special pieces are frequent in the training text too: the worst that a corpus can do.
CHINESE = [f"{name}有{n}个{thing}。" for name in NAMES for thing in THINGS for n in "一二三四"] + SPECIALS * 20
ENGLISH = [f"{n} {thing}s cost {n} dollars, Tom said." for n in range(40) for thing in ("apple", "book", "cup")]


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    return CHINESE + ENGLISH


@pytest.fixture(scope="session")
def strange_strings() -> list[str]:
    return draw_strange_strings(5000)


@pytest.fixture
def hundred_thousand_strange_strings() -> list[str]:
    return draw_strange_strings(100_000)


def draw_strange_strings(count: int) -> list[str]:
    """All planes, controls, lone surrogates, text from right to left, joined emoji, and the strings of pieces."""
    draw = random.Random(1)
    corners = [
        lambda: chr(draw.randrange(0x110000)),
        lambda: chr(draw.randrange(0x20)),
        lambda: chr(draw.randrange(0xD800, 0xE000)),
        lambda: chr(draw.randrange(0x4E00, 0xA000)),
        lambda: draw.choice("שלום مرحبا \u202e\u200f"),
        lambda: draw.choice(["👨\u200d👩\u200d👧", "🇨🇳", "👍🏽", "\u200d", "\ufe0f"]),
        lambda: draw.choice(["\u2581", " \u2581", "_", "\u2047", "\ufffd", "\u2585", "##", "##a"]),
        lambda: draw.choice(["e\u0301", ">\u0338", "\u1100\u1161", "\u0301", "我\u0301", "क्षि", "ﬁ", "Ａ"]),
        lambda: draw.choice(["'", '"', "“", "”", "-", "...", "3.14", " it's ", "U.S.", "?!", "@", "，", "（"]),
        lambda: draw.choice(SPECIALS),
        lambda: draw.choice(CHINESE + ENGLISH),
        lambda: draw.choice([" ", "  ", "\u3000", "\n", "\u2028"]),
    ]
    return ["".join(draw.choice(corners)() for _ in range(draw.randrange(12))) for _ in range(count)]


def growth(work: Callable[[str], object], part: str) -> float:
    """How many times the time of 2,000 parts 16,000 take: 8 where the work grows as its text, 64 where as its square.

    The processor's time, the least of three, so that what else the machine does counts for little.
    """

    def seconds(text: str) -> float:
        began = time.process_time()
        work(text)
        return time.process_time() - began

    short, long = (min(seconds(part * parts) for _ in range(3)) for parts in (2_000, 16_000))
    return long / short


@pytest.fixture(scope="session")
def benchmark() -> list[tuple[str, str]]:
    """The first 10,000 pairs of zh-en-50k; a test that asks for them is skipped where they are not."""
    lines = corpora.corpus("zh-en-50k/train.tsv").read_text(encoding="utf-8").split("\n")[1:10_001]
    return [(source, target) for source, target in (line.split("\t") for line in lines)]
