"""Chinese script. Traditional and Simplified are two spellings of one language, and a small model should see one."""

import re
from functools import cache
from typing import Literal

import opencc

from weft.text.language import CHINESE_CODES, code_of, in_one_spelling

HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
"""Chinese characters, as the inside of a character class."""
IS_HAN = re.compile(f"[{HAN}]")

Script = Literal["keep", "simplified", "traditional"]

# Valid in Traditional text too, although OpenCC replaces them by default.
IN_BOTH_SCRIPTS = frozenset(
    "吃游床台秘里准干群峰唇伙岩痴皂占夸雇后几只面云系斗丑才冲出向回困家志念愿朱周姜曲术柜板梁涂范余于岳朴征佣郁卧尸"
)


def is_chinese(language: str) -> bool:
    """Whether a language code means Chinese: zh, zh-CN, zh_Hant, cmn, yue and the like."""
    return code_of(language) in CHINESE_CODES


def convert_script(text: str, script: Script) -> str:
    """The text in one script, converted by OpenCC's phrase tables; text in other languages stays as it is.

    Traditional is that of Taiwan. Traditional text stays as it is when asked for, since the tables are for Simplified
    text and would take 證明了 for 证明瞭.
    """
    if script == "keep":
        return text
    simplified = converter("t2s").convert(text)
    if script == "simplified":
        return simplified
    is_traditional = simplified != text and characters_of_one_script()[1].isdisjoint(text)
    return text if is_traditional else converter("s2tw").convert(simplified)


def convert_translation(text: str, script: Script) -> str:
    """A Chinese translation in one script; Traditional is that of Taiwan, with its words (軟體 for 软件)."""
    return (
        converter("s2twp").convert(converter("t2s").convert(text))
        if script == "traditional"
        else convert_script(text, script)
    )


def convert_back(text: str, script: Script, *, to_traditional: bool = False) -> str:
    """A translation in this script as a model writes it: Simplified with the words of the mainland (软件 for 軟體), or
    Traditional. A text that is not in the other script stays as it is."""
    if to_traditional:
        return convert_translation(text, "traditional") if script == "simplified" else text
    return converter("tw2sp").convert(text) if script == "traditional" else text


def script_of_code(language: str) -> Script:
    """The script that a code of Chinese asks for: traditional for zh-Hant, zh-TW, zh-HK; keep if it tells none."""
    parts = set(in_one_spelling(language).split("-"))
    if not is_chinese(language):
        return "keep"
    told = parts & {"hans", "hant"} or parts  # zh-Hans-HK: the script says more than the region
    if told & {"hant", "tw", "hk", "mo"}:
        return "traditional"
    return "simplified" if told & {"hans", "cn", "sg"} else "keep"


@cache
def characters_of_one_script() -> tuple[frozenset[str], frozenset[str]]:
    """The Han characters that only Traditional text has, and those that only Simplified text has, by OpenCC."""
    han = [chr(code) for first, last in ((0x3400, 0x4DBF), (0x4E00, 0x9FFF)) for code in range(first, last + 1)]
    simplified, traditional = (converter(name).convert("\n".join(han)).split("\n") for name in ("t2s", "s2t"))
    only_traditional = {c for c, other in zip(han, simplified, strict=True) if c != other}
    only_simplified = {c for c, other in zip(han, traditional, strict=True) if c != other} - only_traditional
    return frozenset(only_traditional), frozenset(only_simplified - IN_BOTH_SCRIPTS)


@cache
def converter(name: str) -> opencc.OpenCC:
    return opencc.OpenCC(name)
