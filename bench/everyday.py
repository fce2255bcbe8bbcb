"""Everyday tests of the models that come with weft: `python -m bench.everyday [--model zh-en en-zh]`.

    everyday.zh-en.tsv, everyday.en-zh.tsv   150 sentences of each direction, beside the models, a translation, and
                  what it must have: groups separated by ;, of each of which one of the alternatives, separated by |,
                  must be there
    numbers       the frames below with numbers of one to five digits, 240 sentences of each direction
    wordless.txt  60 lines without a word, which come back as they are

They are never trained on (bench/shipped_pairs.py). `weft evaluate --data` scores the first two, too.
"""

import argparse
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from weft.folders.finding import PRETRAINED

if TYPE_CHECKING:
    from weft.translating.translator import Translator

FOLDER = Path(__file__).parent / "sentences"
FRAMES = {
    "zh-en": (
        "他的自行车编号是{}。 我们还需要{}把椅子。 仓库里有{}个箱子。 她收到了{}封信。 请在第{}行签字。 "
        "这条鱼重{}克。 从这里到海边有{}米。 他一年读{}本书。 老师给了我们{}道题。 这个村子有{}户人家。 "
        "我昨天走了{}步。 电池还剩{}%。 这架飞机能坐{}名乘客。 她存了{}元。 我们的门牌是{}号。 "
        "这栋楼有{}个窗户。 今天卖出了{}张票。 農場裡有{}隻羊。 他打了{}个电话。 船上有{}名水手。 "
        "我数到了{}。 这个视频有{}次观看。 工厂每天生产{}辆汽车。 总共丢了{}把钥匙。"
    ),
    "en-zh": (
        "His locker number is {}.|We still need {} chairs.|There are {} boxes in the warehouse.|She received "
        "{} letters.|Sign on line {}, please.|This fish weighs {} grams.|The beach is {} meters away.|He "
        "reads {} books a year.|The teacher gave us {} exercises.|The village has {} houses.|I walked {} "
        "steps yesterday.|The battery is at {}%.|The plane can carry {} passengers.|She saved {} yuan.|Our "
        "house number is {}.|This building has {} windows.|We sold {} tickets today.|There are {} sheep on "
        "the farm.|He made {} phone calls.|There are {} sailors on board.|I counted to {}.|The video has {} "
        "views.|The factory makes {} cars a day.|A total of {} keys were lost."
    ),
}
Row = tuple[str, str, str]  # source, target, what must be there


def everyday_rows(direction: str) -> list[Row]:
    lines = (PRETRAINED / f"everyday.{direction}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [(source, target, must) for source, target, must in rows]


def number_rows(direction: str) -> list[Row]:
    """Ten sentences of each frame, two of each number of digits; their targets are unknown."""
    random, separator = Random(7), " " if direction == "zh-en" else "|"
    drawn = [
        (frame, digits) for frame in FRAMES[direction].split(separator) for digits in (1, 2, 3, 4, 5) for _ in range(2)
    ]
    numbers = [str(random.randint(max(2, 10 ** (digits - 1)), 10**digits - 1)) for _, digits in drawn]
    return [(frame.format(number), "", number) for (frame, _), number in zip(drawn, numbers, strict=True)]


def everyday_pairs() -> list[tuple[str, str]]:
    """All sentences that may not be trained on, as pairs of Chinese and English."""
    pairs = []
    for direction in FRAMES:
        for source, target, _ in (*everyday_rows(direction), *number_rows(direction)):
            pairs.append((source, target) if direction == "zh-en" else (target, source))
    return pairs


def passed(translator: "Translator", rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that are translated as they must be, and the others, with the translations in place of the targets."""
    found = [translation.text for translation in translator.translate([row[0] for row in rows])]
    rows = [(source, text, must) for (source, _, must), text in zip(rows, found, strict=True)]
    return [row for row in rows if holds(row[1], row[2])], [row for row in rows if not holds(row[1], row[2])]


def holds(translation: str, must: str) -> bool:
    """Whether a translation has one alternative of each group, as whole words where they are Latin or numbers."""
    text = translation.lower()
    return all(any(has(text, word.lower()) for word in group.split("|")) for group in must.split(";"))


def has(text: str, word: str) -> bool:
    if word.replace(",", "").isdigit():
        return re.search(rf"(?<![\d.]){word}(?!\d)", text) is not None or word in text.replace(",", "").split()
    if word.isascii() and word[:1].isalpha():  # "hi" is not met by "this"; "apolog" begins a word
        return re.search(rf"(?<![a-z]){re.escape(word)}" + ("(?![a-z])" if len(word) <= 2 else ""), text) is not None
    return word in text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.everyday", description=str(__doc__).split("\n", 1)[0])
    parser.add_argument(
        "--model", nargs="+", default=list(FRAMES), help="model folders, or the names of those that ship"
    )
    parser.add_argument("--show", action="store_true", help="print what fails")
    options = parser.parse_args()
    from weft.translating.exported import load_for

    for name in options.model:
        translator = load_for(name)
        direction = "-".join(translator.languages)
        for test, rows in {"everyday": everyday_rows(direction), "numbers": number_rows(direction)}.items():
            _, failed = passed(translator, rows)
            print(f"{name} {test}: {len(rows) - len(failed)} of {len(rows)}, {1 - len(failed) / len(rows):.3f}")
            for source, text, must in failed if options.show else ():
                print(f"    {source}\n      {text}    [{must}]")
        lines = (FOLDER / "wordless.txt").read_text(encoding="utf-8").splitlines()
        same = sum(one.text == line for one, line in zip(translator.translate(lines), lines, strict=True))
        print(f"{name} wordless: {same} of {len(lines)}")


if __name__ == "__main__":
    main()
