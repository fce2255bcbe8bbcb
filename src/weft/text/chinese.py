"""Chinese script: Traditional and Simplified are two spellings of one language, and a small model should see one."""

import re
from functools import cache
from typing import Literal

import opencc

from weft.text.language import CHINESE_CODES, code_of

HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
"""Chinese characters, as the inside of a character class."""
IS_HAN = re.compile(f"[{HAN}]")

Script = Literal["keep", "simplified", "traditional"]

CONVERSIONS = {"simplified": "t2s", "traditional": "s2t"}


def is_chinese(language: str) -> bool:
    """Whether a language code means Chinese: zh, zh-CN, zh_Hant, cmn, yue and the like."""
    return code_of(language) in CHINESE_CODES


def convert_script(text: str, script: Script) -> str:
    """The text in one script, converted by OpenCC's phrase tables; text that is no Chinese stays as it is."""
    return text if script == "keep" else converter(CONVERSIONS[script]).convert(text)


@cache
def converter(name: str) -> opencc.OpenCC:
    return opencc.OpenCC(name)
