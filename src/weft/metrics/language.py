"""How metrics read language codes. The text itself is not examined."""

from weft.errors import UsageError
from weft.text.chinese import is_chinese
from weft.text.language import NOT_A_CODE, code_of, is_language_code


def main_language(code: str) -> str:
    """The code of the language alone (text/language.py), and `zh` for all Chinese ones: `zh-TW`, `cmn_Hans`, `yue`.

    Raises UsageError for a name such as "chinese": treated as an unknown language, it would get the wrong tokenizer.
    """
    if not is_language_code(code):
        raise UsageError(f"{code!r} {NOT_A_CODE}")
    return "zh" if is_chinese(code) else code_of(code)
