"""How metrics read language codes. The text itself is not examined."""

import re

from weft.errors import UsageError
from weft.text.chinese import is_chinese
from weft.text.language import code_of

_CODE = re.compile(r"([A-Za-z]{2,3})([-_][A-Za-z0-9]+)*")


def main_language(code: str) -> str:
    """The code of the language alone (text/language.py), and `zh` for all Chinese ones: `zh-TW`, `cmn_Hans`, `yue`.

    Raises UsageError for a name such as "chinese": treated as an unknown language, it would get the wrong tokenizer.
    """
    match = _CODE.fullmatch(code)
    if match is None:
        raise UsageError(
            f"{code!r} is not a language code; write a code of two or three letters, such as en, zh or zh-TW"
        )
    return "zh" if is_chinese(code) else code_of(code)
