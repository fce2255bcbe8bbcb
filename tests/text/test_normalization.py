"""What a string goes through before it is cut into pieces, rule by rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.text.chinese import convert_back, convert_script, convert_translation
from weft.text.normalization import Normalization, in_form, is_blank, normalize

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates among them


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("  two   words ", "two words", id="runs of spaces"),
        pytest.param("a\tb\nc\rd\r\ne", "a b c d e", id="tabs and line ends"),
        pytest.param("a\u2028b\u2029c\x85d\x0be\x0cf", "a b c d e f", id="line separators of all kinds"),
        pytest.param("a\u00a0b\u3000c\u2009d", "a b c d", id="spaces of all widths"),
        pytest.param("a\x1cb\x1fc", "a b c", id="information separators are white space"),
        pytest.param("a\x00b\x07c\x7fd\x9fe", "abcde", id="controls vanish"),
        pytest.param("\ufeffBOM\ufeff", "BOM", id="byte order marks vanish"),
        pytest.param("cafe\u0301", "caf\u00e9", id="composed"),
        pytest.param("e\x00\u0301", "\u00e9", id="composed across a control"),
        pytest.param("\ud83d", "\ufffd", id="a lone surrogate"),
        pytest.param("a\u2581b", "a_b", id="the mark of a space in pieces"),
        pytest.param("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469", id="a joined emoji stays joined"),
        pytest.param("\u202eabc\u202c", "\u202eabc\u202c", id="direction marks stay"),
        pytest.param(" \t\n", "", id="nothing but white space"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_each_rule_by_hand(text: str, expected: str) -> None:
    assert normalize(text) == expected


@pytest.mark.parametrize("text", ["", " \t\u3000", "\x01", " \x02 \x03\ufeff", "\u2028"])
def test_a_text_of_which_nothing_is_left_is_blank(text: str) -> None:
    assert is_blank(text) and normalize(text) == ""


@pytest.mark.parametrize("text", ["\u200b", "\u00ad \u200e\x01", "\u2060\n"])
def test_a_text_of_format_characters_alone_is_blank(text: str) -> None:
    assert is_blank(text) and not is_blank(f"{text}a")


@pytest.mark.parametrize("text", ["a", "\x01 一", "\ud800", "a\u200b"])
def test_a_text_of_which_something_is_left_is_not(text: str) -> None:
    assert not is_blank(text) and normalize(text) != ""


@pytest.mark.parametrize(
    ("text", "nfc", "nfkc"),
    [
        ("Ａ１，", "Ａ１，", "A1,"),
        ("ﬁn", "ﬁn", "fin"),
        ("①", "①", "1"),
        ("\u212b", "\u00c5", "\u00c5"),
    ],
)
def test_nfkc_folds_width_and_compatibility_forms_that_nfc_keeps(text: str, nfc: str, nfkc: str) -> None:
    assert (normalize(text, "nfc"), normalize(text, "nfkc")) == (nfc, nfkc)


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
@given(text=ANY_TEXT)
def test_normalizing_twice_is_normalizing_once(form: Normalization, text: str) -> None:
    assert normalize(normalize(text, form), form) == normalize(text, form)


@given(text=ANY_TEXT)
def test_what_comes_out_can_be_written_as_utf8_on_one_line(text: str) -> None:
    normalized = normalize(text)
    assert normalized.encode("utf-8").decode("utf-8") == normalized
    assert len(normalized.splitlines()) <= 1 and "\t" not in normalized


def test_traditional_characters_become_simplified_and_back() -> None:
    assert convert_script("湯姆", "simplified") == "汤姆"
    assert convert_script("汤姆", "traditional") == "湯姆"
    assert convert_script("湯姆 and Tom", "simplified") == "汤姆 and Tom"
    assert convert_script("湯姆", "keep") == "湯姆"


@pytest.mark.parametrize(
    "text",
    [
        *("他證明了這一點", "不干預內政", "遠征軍", "這傢伙", "岳飛傳"),
        *("里長來電", "我吃飯", "台灣", "布雷斯特港灣", "埃里克說"),
    ],
)
def test_what_is_traditional_already_stays(text: str) -> None:
    assert convert_script(text, "traditional") == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("证明了", "證明了"),
        ("我吃饭", "我吃飯"),
        ("起床了吗", "起床了嗎"),
        ("因为台湾的群众", "因為臺灣的群眾"),
        ("跟踪國會", "跟蹤國會"),
    ],
)
def test_simplified_and_mixed_text_becomes_traditional_as_taiwan_writes_it(text: str, expected: str) -> None:
    assert convert_script(text, "traditional") == expected


@pytest.mark.parametrize("text", ["我的软件在打印机上。", "他写博客。", "你好，world 12。", ""])
def test_a_traditional_translation_is_converted_back_to_what_a_model_wrote(text: str) -> None:
    traditional = convert_translation(text, "traditional")
    assert convert_back(traditional, "traditional") == text == convert_back(text, "keep")


def test_a_model_that_writes_traditional_is_asked_in_traditional_whatever_the_script_of_the_answer() -> None:
    assert convert_back("我的软件", "simplified", to_traditional=True) == "我的軟體"
    for script in ("keep", "traditional"):
        assert convert_back("我的軟體", script, to_traditional=True) == "我的軟體"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  GO HOME, TOM", "Go home, tom"),
        ("“GO HOME,” I SAID", "“Go home,” I said"),
        ("10 GREEN BOTTLES", "10 green bottles"),
    ],
)
def test_a_folded_sentence_of_capitals_begins_with_one(text: str, expected: str) -> None:
    assert normalize(text, "folded") == expected


def test_folded_text_is_composed_whatever_stood_between() -> None:
    folded = in_form("s\u200b\u0301", "folded")
    assert folded == "\u015b" == in_form(folded, "folded")
