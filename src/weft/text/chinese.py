"""Chinese script: Traditional and Simplified are two spellings of one language, and a small model should see one."""

from functools import cache
from typing import Literal

import opencc

Script = Literal["keep", "simplified", "traditional"]

CHINESE_CODES = frozenset({"zh", "zho", "chi", "cmn", "yue", "wuu", "lzh"})
CONVERSIONS = {"simplified": "t2s", "traditional": "s2t"}


def is_chinese(language: str) -> bool:
    """Whether a language code means Chinese: zh, zh-CN, zh_Hant, cmn, yue and the like."""
    return language.lower().replace("_", "-").split("-")[0] in CHINESE_CODES


def convert_script(text: str, script: Script) -> str:
    """The text in one script, converted by OpenCC's phrase tables; text that is no Chinese stays as it is."""
    return text if script == "keep" else converter(CONVERSIONS[script]).convert(text)


@cache
def converter(name: str) -> opencc.OpenCC:
    return opencc.OpenCC(name)
