"""Training pairs of the models that come with weft, beside those of Tatoeba: `python -m bench.shipped_pairs`.

    human.tsv     what people wrote: train.tsv of bench.shipped, more of Tatoeba, and the sets in HUMAN
    words.tsv     names, phrases and words: the sets in WORDS
    made.tsv      sentences of bench/sentences/patterns.tsv, filled with numbers, dates, times, money, names and places
    changed.*.tsv sentences of human.tsv in other forms: with a greeting, without their full stop, in small letters

No sentence of these files is in valid.tsv of bench.shipped, in the Tatoeba rows that are scored, or in the tests of
bench/everyday.py; the script stops where one is. `shippable-zh-en/README.md` in the data says where each set comes from
and under which license; the cards of the models repeat it (SOURCES).
"""

import argparse
import gzip
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from bench.everyday import everyday_pairs
from bench.machine import ROOT, say
from bench.pairs import Pair, read_pairs, write_pairs
from bench.shipped import cut, keys, without_held_out

HUMAN = ("tatoeba-more", "xpersona", "hsk-reader-shlew", "tico19")
WORDS = (
    *("cldr-places", "cldr-languages", "cldr-money", "cldr-units-dates", "cldr-emoji-things", "geonames-cities"),
    *("football-names", "nsi-brands", "osm-presets", "android-apps", "home-assistant-ui", "cow-wordnet-common"),
)
MADE = 70_000
"""Pairs made from the patterns."""
MOST_WORDS = 8
"""Of an English phrase in WORDS."""
OF_EVERYDAY = ROOT / "bench" / "sentences"
DIGITS = "零一二三四五六七八九"
ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
MONTHS = "January February March April May June July August September October November December".split()
GIVEN = (
    "明=Ming 伟=Wei 芳=Fang 丽=Li 强=Qiang 敏=Min 静=Jing 军=Jun 洋=Yang 勇=Yong 娜=Na 杰=Jie 涛=Tao "
    "磊=Lei 霞=Xia 平=Ping 刚=Gang 华=Hua 红=Hong 玲=Ling 建国=Jianguo 小红=Xiaohong 小明=Xiaoming "
    "晓东=Xiaodong 志强=Zhiqiang 美玲=Meiling 海燕=Haiyan 建华=Jianhua 文静=Wenjing 秀英=Xiuying "
    "国强=Guoqiang 雨晨=Yuchen 欣怡=Xinyi 子轩=Zixuan 婷=Ting 鹏=Peng"
)
SURNAMES = (
    "李=Li 王=Wang 张=Zhang 刘=Liu 陈=Chen 杨=Yang 黄=Huang 赵=Zhao 周=Zhou 吴=Wu 徐=Xu 孙=Sun 林=Lin "
    "高=Gao 马=Ma 何=He 郭=Guo 罗=Luo 梁=Liang 宋=Song 郑=Zheng 谢=Xie 韩=Han 唐=Tang 冯=Feng 董=Dong "
    "程=Cheng 曹=Cao 袁=Yuan 邓=Deng 许=Xu"
)
ROOMS = "单人房=single_room 双人房=double_room 标准间=standard_room 安静的房间=quiet_room 大房间=large_room"
LACKING = "热水=hot_water 空调=air_conditioning 毛巾=towel 网络=Internet_connection 电视=TV 暖气=heating 肥皂=soap"
CLOTHES = {"裙子": "条", "裤子": "条", "领带": "条", "帽子": "顶", "鞋子": "双", "连衣裙": "条"}
SINGULAR = dict(children="child", people="person", fish="fish", tomatoes="tomato", boxes="box", feet="foot")
GREETINGS = (
    "你好=Hello 您好=Hello 嗨=Hi 你好=Hi 早上好=Good_morning 晚上好=Good_evening 下午好=Good_afternoon "
    "喂=Hey 谢谢=Thank_you 谢谢你=Thank_you 对不起=Sorry 不好意思=Excuse_me 好的=OK 是的=Yes 不=No "
    "当然=Of_course 好吧=All_right"
)
SMALL = (
    "He She It They We You The A An This That These Those There Here My His Her Our Your Their What How Where Who "
    "When Why Which Is Are Was Were Do Does Did Can Could Will Would Should May Please If In On At Don't Let's All "
    "Both Some Many No Not Nobody Everyone Someone To For After Before One Two As Come Go Give Tell Take Have Has"
).split()
"""Words that a sentence may begin with and that are small after a comma."""
AFTER = "你好=hello 谢谢=thank_you 谢谢你=thanks 再见=goodbye 好吗=OK 对不起=sorry 朋友=my_friend"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shipped_pairs", description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="left out: WEFT_DATA")
    parser.add_argument("--work", type=Path, default=Path("runs/shipped"), help="where the files go")
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where tatoeba-zh-en and shippable-zh-en lie: --data DIR, or WEFT_DATA in the environment")
    cut(options.data, options.work)
    make(options.data, options.work)


def make(data: Path, work: Path) -> None:
    """Write human.tsv, words.tsv, made.tsv and changed.*.tsv into the folder, beside train.tsv and valid.tsv."""
    refused = {key for pair in (*read_pairs(work / "valid.tsv"), *everyday_pairs()) for key in keys(pair)} - {0}
    sets = {name: read_packed(data / "shippable-zh-en" / f"{name}.tsv.gz") for name in (*HUMAN, *WORDS)}
    human = [*read_pairs(work / "train.tsv"), *(pair for name in HUMAN for pair in sets[name])]
    words = [pair for name in WORDS for pair in phrases(sets[name])]
    made = list(filled(MADE, Random(1)))
    seen: set[tuple[int, ...]] = set()
    files = {}
    for name, pairs in {"human": human, "words": words, "made": made}.items():
        kept = []
        for pair in without_held_out(pairs, data):
            of_pair = tuple(keys(pair))
            if of_pair not in seen and refused.isdisjoint(of_pair):
                seen.add(of_pair)
                kept.append(pair)
        files[name] = kept
        say(f"{name}: {len(kept):,} of {len(pairs):,} pairs")
    for direction in ("zh-en", "en-zh"):
        pairs = changed(files["human"], direction, Random(2))
        files[f"changed.{direction}"] = [pair for pair in pairs if refused.isdisjoint(keys(pair))]
    for name, pairs in files.items():
        assert all(refused.isdisjoint(keys(pair)) for pair in pairs)
        write_pairs(work / f"{name}.tsv", pairs)


def read_packed(path: Path) -> list[Pair]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [(zh, en) for zh, en in (line.rstrip("\n").split("\t")[:2] for line in file)][1:]


def phrases(pairs: list[Pair]) -> Iterator[Pair]:
    """The short pairs, and of the many English words that a dictionary has for a Chinese one the first two."""
    counts: Counter[str] = Counter()
    for zh, en in pairs:
        counts[zh] += 1
        if counts[zh] <= 2 and len(en.split()) <= MOST_WORDS and not re.search(r"[\^\\{}<>|_]", zh + en):
            yield zh, en


def changed(pairs: list[Pair], direction: str, random: Random) -> Iterator[Pair]:
    """Some pairs with a greeting before or after, or without full stops; English sources also in small letters."""
    before, after = slots_of(GREETINGS), slots_of(AFTER)
    for zh, en in pairs:
        draw = random.random()
        if draw < 0.09:
            (one,), (other,) = random.choice(before)
            sign, mark = random.choice(["，,", "，,", "，,", "。.", "！!"])
            rest = (
                en if mark != "," or en.split(" ")[0] not in SMALL or random.random() < 0.2 else en[0].lower() + en[1:]
            )
            yield f"{one}{sign}{zh}", f"{other}{mark} {rest}"
        elif draw < 0.14 and zh[-1] in "。！？" and en[-1] in ".!?":
            (one,), (other,) = random.choice(after)
            yield f"{zh[:-1]}，{one}{zh[-1]}", f"{en[:-1]}, {other}{en[-1]}"
        elif draw < 0.24 and zh[-1] == "。" and en[-1] == ".":
            yield zh[:-1], en[:-1]
        elif draw < 0.34 and direction == "en-zh":
            yield zh, en.lower()


# Patterns


Filled = tuple[tuple[str, ...], tuple[str, ...]]
"""The Chinese and the English forms of what fills a slot."""


def slots_of(line: str) -> list[Filled]:
    """Parse 左=left 上,下=up,down: several forms of one slot are separated by commas."""
    pairs = (entry.split("=") for entry in line.split(" ") if entry)
    return [(tuple(zh.split(",")), tuple(en.replace("_", " ").split(","))) for zh, en in pairs]


def filled(count: int, random: Random) -> Iterator[Pair]:
    """Sentences of the patterns, each pattern about as often as the others as long as it gives new ones."""
    lines = (OF_EVERYDAY / "slots.txt").read_text(encoding="utf-8").splitlines()
    lists = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines}
    named = {
        name: [(zh, en.replace("_", " ")) for zh, en in (e.split("=") for e in row.split(" "))]
        for name, row in lists.items()
    }
    patterns = [
        tuple(line.split("\t")) for line in (OF_EVERYDAY / "patterns.tsv").read_text(encoding="utf-8").splitlines()
    ]
    fixed = [pair for pair in patterns if "{" not in pair[0]]
    open_ones = [pair for pair in patterns if "{" in pair[0]]
    yield from ((zh, en) for zh, en in fixed)
    for number in range(count):
        zh, en = open_ones[number % len(open_ones)]
        yield fill(zh, en, named, random)


def fill(zh: str, en: str, named: dict[str, list[Pair]], random: Random) -> Pair:
    values: dict[str, Pair] = {}
    for name in dict.fromkeys(re.findall(r"\{(\w+)\}", zh + en)):
        if name not in values:
            values |= drawn(name, named, random)
    zh, en = (
        re.sub(r"\{(\w+)\}", lambda found, side=side: values[found[1]][side], text)
        for side, text in enumerate((zh, en))
    )
    en = re.sub(r"\b([Aa]) (?=[aeiou](?<!u)|hour|X-ray)", r"\1n ", en)
    en = re.sub(r"\b1 (\w+)", lambda found: f"1 {singular(found[1])}", en)
    en = re.sub(
        r"\b([Oo]ne) (?!hundred|thousand|million|plus|percent|o'clock|in\b|on\b)(\w+)",
        lambda f: f"{f[1]} {singular(f[2])}",
        en,
    )
    en = re.sub(r"^The (\w+ )?(\w+s)(?<!ss) is (delicious|too)", lambda f: f"The {f[1] or ''}{f[2]} are {f[3]}", en)
    return zh, en[0].upper() + en[1:]


def singular(word: str) -> str:
    if word in SINGULAR:
        return SINGULAR[word]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and word not in ("is", "was", "series") else word


def drawn(name: str, named: dict[str, list[Pair]], random: Random) -> dict[str, Pair]:
    """A value for a slot, and for those that go with it; a digit at the end of the name asks for another value."""
    if name in SLOTS:
        return SLOTS[name](random, named)
    plain = name.rstrip("0123456789")
    return {name: random.choice(named[plain])}


def number(random: Random) -> str:
    if random.random() < 0.06:
        return "1"
    digits = random.randint(1, 5)
    return str(random.randint(max(2, 10 ** (digits - 1)), 10**digits - 1))


def numerals(n: int, *, counting: bool = False) -> Pair:
    """A number below 10,000 in words of both languages; 2 of something is 两."""
    return chinese_numeral(n, counting=counting), english_numeral(n)


def chinese_numeral(n: int, *, counting: bool = False) -> str:
    if n == 2 and counting:
        return "两"
    text, rest, is_gap = "", n, False
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, rest = divmod(rest, unit)
        if digit:
            first = "两" if digit == 2 and unit >= 100 else DIGITS[digit]
            text += ("零" if is_gap and text else "") + first + name
            is_gap = False
        else:
            is_gap = bool(text)
    return text.removeprefix("一") if 10 <= n < 20 else text


def english_numeral(n: int) -> str:
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + (f"-{ONES[n % 10]}" if n % 10 else "")
    unit, name = (1000, "thousand") if n >= 1000 else (100, "hundred")
    rest = n % unit
    return f"{ONES[n // unit]} {name}" + ((" and " if rest < 100 else " ") + english_numeral(rest) if rest else "")


def small(random: Random) -> int:
    return random.choice(
        [random.randint(1, 12), random.randint(1, 99), 100 * random.randint(1, 9), random.randint(10, 60)]
    )


def hour(random: Random) -> Pair:
    h, is_numeral = random.randint(1, 12), random.random() < 0.5
    zh, en = numerals(h, counting=True) if is_numeral else (str(h), str(h))
    minutes = random.random()
    if minutes < 0.5:
        return (
            f"{zh}{random.choice('点点点鐘'[:3])}{random.choice(['', '', '钟'])}",
            f"{en} o'clock" if random.random() < 0.6 else en,
        )
    if minutes < 0.75:
        return f"{zh}点半", f"half past {en}"
    if not is_numeral:
        minute = random.randint(1, 59)
        return f"{h}点{minute:02}{random.choice(['', '分'])}", f"{h}:{minute:02}"
    ten = random.choice([10, 15, 20, 25, 30, 40, 45, 50])
    return f"{zh}点{chinese_numeral(ten)}{random.choice(['', '分'])}", f"{en} {english_numeral(ten)}"


def day(random: Random) -> tuple[str, str, str]:
    """The month in Chinese and English, and the day: 5月12日, May 12."""
    m, d = random.randint(1, 12), random.randint(1, 28)
    is_numeral = random.random() < 0.25
    month, number = (chinese_numeral(m), chinese_numeral(d)) if is_numeral else (str(m), str(d))
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(d % 10 if d not in (11, 12, 13) else 0, "th")
    english = random.choice(
        [f"{MONTHS[m - 1]} {d}", f"{MONTHS[m - 1]} {d}{suffix}", f"{d} {MONTHS[m - 1]}", f"{MONTHS[m - 1]} {d}"]
    )
    return f"{month}月{number}{random.choice('日号')}", english, f"{d}"


def date(random: Random) -> Pair:
    return day(random)[:2]


def full_date(random: Random) -> Pair:
    zh, en, _ = day(random)
    year = random.randint(1900, 2030)
    return f"{year}年{zh}", f"{en}, {year}" if en[0].isalpha() else f"{en} {year}"


def big(random: Random) -> Pair:
    amount = random.choice([random.randint(1, 9), random.randint(10, 99), random.randint(1, 14) / 10 + 1])
    kind = random.random()
    if kind < 0.4:
        return f"{amount * 100:g}万", f"{amount:g} million"
    if kind < 0.6:
        return f"{amount:g}亿", f"{amount * 100:g} million" if amount < 10 else f"{amount / 10:g} billion"
    if kind < 0.8:
        return f"{amount:g}万", f"{int(amount * 10_000):,}"
    n = random.randint(1, 9)
    return f"{chinese_numeral(100 * n)}万", f"{english_numeral(n)} million"


def person(random: Random, named: dict[str, list[Pair]]) -> Pair:
    if random.random() < 0.15:
        first, last = random.choice(named["west"]), random.choice(named["surname"][:10])
        return f"{first[0]}·{last[0]}", f"{first[1]} {last[1]}"
    last, first = (random.choice(line.split(" ")).split("=") for line in (SURNAMES, GIVEN))
    return last[0] + first[0], f"{last[1]} {first[1]}"


def code(random: Random) -> str:
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
    return "".join(random.choice(letters) for _ in range(random.randint(1, 2))) + str(random.randint(1, 9999))


def plain(make_text: Callable[[Random], str]) -> Callable[..., Pair]:
    """The same text in both languages."""

    def both(random: Random, _: object = None) -> Pair:
        text = make_text(random)
        return text, text

    return both


def address(random: Random) -> str:
    return random.choice(["example.com", "example.org", "weft.example", "mail.example.net", "shop.example.cn"])


def web(random: Random) -> str:
    words = ["help", "docs", "a", "news", "item", "2024", "page.html", "index"]
    path = "/".join(random.choice(words) for _ in range(random.randint(0, 3)))
    return random.choice(["https://", "http://", "https://www."]) + address(random) + (f"/{path}" if path else "")


def sums(random: Random, _: object) -> dict[str, Pair]:
    one, two = random.randint(2, 99), random.randint(2, 99)
    return {name: (str(n), str(n)) for name, n in {"n": one, "n2": two, "n3": one + two}.items()}


def named_slots(
    name: str, make_pair: Callable[..., Pair]
) -> Callable[[Random, dict[str, list[Pair]]], dict[str, Pair]]:
    return lambda random, named: {name: make_pair(random, named)}


def parts(random: Random, named: dict[str, list[Pair]]) -> dict[str, Pair]:
    zh, en = random.choice(named["part"][:5])
    return {"part1": (zh, en), "partb": (zh, en.removeprefix("in the "))}


def capitals(random: Random, named: dict[str, list[Pair]]) -> dict[str, Pair]:
    zh, en = random.choice(named["capital"])
    pairs = zip(zh.split(","), en.split(","), strict=True)
    return {f"capital{number}": pair for number, pair in enumerate(pairs, 1)}


def clothes(random: Random, named: dict[str, list[Pair]]) -> dict[str, Pair]:
    zh, en = random.choice(named["cloth"])
    return {"cloth": (zh, en), "mcloth": (CLOTHES.get(zh, "件") + zh, en)}


def discount(random: Random, _: object) -> dict[str, Pair]:
    n = random.randint(1, 9)
    return {"zho": (DIGITS[n], ""), "offo": ("", english_numeral(100 - 10 * n))}


def counted(random: Random, _: object) -> dict[str, Pair]:
    zh, en = numerals(random.choice([random.randint(1, 10), small(random)]), counting=True)
    return {"zc": (zh, en), "zcc": (zh, en[0].upper() + en[1:])}


def festivals(random: Random, named: dict[str, list[Pair]]) -> dict[str, Pair]:
    zh, en = random.choice(named["fest"])
    return {"fest": (zh, en), "festb": (zh, en.removeprefix("the "))}


def of_list(zh_name: str, en_name: str, line: str) -> Callable[..., dict[str, Pair]]:
    def draw(random: Random, _: object) -> dict[str, Pair]:
        (zh,), (en,) = random.choice(slots_of(line))
        return {zh_name: (zh, en), en_name: (zh, en)}

    return draw


def ordinal(random: Random, _: object = None) -> Pair:
    n = random.randint(1, 10)
    return chinese_numeral(n), ORDINALS[n - 1]


def month(random: Random, _: object = None) -> Pair:
    m = random.randint(1, 12)
    return f"{random.choice([str(m), chinese_numeral(m)])}月", MONTHS[m - 1]


def nth(random: Random, _: object = None) -> Pair:
    n = random.randint(4, 20)
    return str(n), f"{n}th place"


SLOTS: dict[str, Callable[[Random, dict[str, list[Pair]]], dict[str, Pair]]] = {
    **{name: named_slots(name, plain(number)) for name in ("n", "n2", "n3")},
    **{name: named_slots(name, lambda random, _: numerals(small(random))) for name in ("z", "z2")},
    **{name: counted for name in ("zc", "zcc")},
    **{name: parts for name in ("part1", "partb")},
    **{name: capitals for name in ("capital1", "capital2")},
    **{name: clothes for name in ("cloth", "mcloth")},
    **{name: discount for name in ("zho", "offo")},
    **{name: festivals for name in ("fest", "festb")},
    **{name: of_list("roomt", "roomten", ROOMS) for name in ("roomt", "roomten")},
    **{name: of_list("own2", "own2en", LACKING) for name in ("own2", "own2en")},
    "person": named_slots("person", person),
    "hour": named_slots("hour", lambda random, _: hour(random)),
    "date": named_slots("date", lambda random, _: date(random)),
    "fulldate": named_slots("fulldate", lambda random, _: full_date(random)),
    "big": named_slots("big", lambda random, _: big(random)),
    "month": named_slots("month", month),
    "zf": named_slots("zf", ordinal),
    "zt": named_slots("zt", ordinal),
    "nth": named_slots("nth", nth),
    "dec": named_slots("dec", plain(lambda random: f"{random.randint(1, 3)}.{random.randint(1, 99):02}".rstrip("0"))),
    "n4": named_slots("n4", plain(lambda random: str(random.randint(1700, 2030)))),
    "clock": named_slots("clock", plain(lambda random: f"{random.randint(1, 23)}:{random.randint(0, 59):02}")),
    "phone": named_slots("phone", plain(lambda random: str(random.randint(10**6, 10 ** random.choice([7, 8, 11]))))),
    "code": named_slots("code", plain(code)),
    "mail": named_slots(
        "mail",
        plain(lambda random: f"{random.choice(['bob', 'li.ming', 'info'])}{random.randint(1, 99)}@{address(random)}"),
    ),
    "url": named_slots("url", plain(web)),
    "file": named_slots(
        "file",
        plain(
            lambda random: (
                random.choice(["report", "photo", "data", "a"]) + random.choice([".pdf", ".zip", ".txt", ".png"])
            )
        ),
    ),
    "ver": named_slots(
        "ver",
        plain(
            lambda random: (
                f"{random.choice(['', 'v'])}{random.randint(0, 9)}.{random.randint(0, 20)}.{random.randint(0, 9)}"
            )
        ),
    ),
    "place0": lambda random, named: {"place0": random.choice(named["place"])},
}

if __name__ == "__main__":
    main()
