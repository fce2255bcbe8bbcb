"""What is measured of a text is what a person would count."""

import re
import time

import pytest

from weft.data.measures import (
    MARKUP,
    REPETITION,
    count_characters,
    has_mojibake,
    length,
    may_be_alike,
    other_language,
    pairs_with_other_numbers,
    share_of_script,
    texts_with,
    texts_with_mojibake,
    tokens,
)

TEXTS = ["我有3本书。", "I have three books.", "", "汤姆 uses Python 3.11", "a\u2028b\r", "ＡＢ　１２", "零宽\u200b字"]


@pytest.mark.parametrize("text", TEXTS)
def test_characters_are_counted_as_python_would_one_by_one(text: str) -> None:
    counts = {kind: int(values[1]) for kind, values in count_characters(["前", text, "after"]).items()}
    assert counts["characters"] == len(text)
    assert counts["letters"] == sum(map(str.isalpha, text))
    assert counts["digits"] == sum(map(str.isdigit, text))
    assert counts["han"] == len(re.findall("[\u4e00-\u9fff]", text))
    assert counts["line breaks"] == len(re.findall("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text))
    assert counts["full width"] == len(re.findall("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\u3000]", text))
    assert counts["words"] == len(re.findall("[\u4e00-\u9fff]|[^\\W\u4e00-\u9fff]+", text))


def test_a_chinese_text_is_as_long_as_its_characters_and_an_english_one_as_its_words() -> None:
    counts = count_characters(["我昨天买了三本书。", "I bought three books yesterday."])
    assert length(counts, "zh")[0] == 8
    assert length(counts, "en")[1] == 5


ARTICLE_1 = {
    "th": ("มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ"),
    "km": (
        "មនុស្សទាំងអស់កើតមកមានសេរីភាព "
        "និងភាពស្មើៗគ្នាក្នុងសិទ្ធិ "
        "និងសេចក្ដីថ្លៃថ្នូរ។ "
        "មនុស្សគ្រប់រូបសុទ្ធតែមានវិចារណញ្ញាណ "
        "និងសតិសម្បជញ្ញៈ "
        "ហើយត្រូវប្រព្រឹត្តចំពោះគ្នាទៅវិញទៅមកក្នុងស្មារតីរាប់អានគ្នាជាបងប្អូន។"
    ),
}
"""The first article of the Universal Declaration of Human Rights, which has 30 words in English."""


@pytest.mark.parametrize("language", ARTICLE_1)
def test_words_that_nothing_divides_are_guessed_from_their_letters(language: str) -> None:
    assert 24 <= length(count_characters([ARTICLE_1[language]]), language)[0] <= 36


def test_the_share_of_a_script_lets_a_foreign_name_stand_in_a_chinese_sentence() -> None:
    counts = count_characters(["我在用 Microsoft Windows 工作", "This is English", "3.14", "昨日は本を買った"])
    shares = share_of_script(counts, "zh")
    assert shares[0] > 0.4 and shares[1] == 0 and shares[2] == 1 and shares[3] < 1


def test_of_full_width_signs_the_letters_alone_are_latin() -> None:
    assert count_characters(["ＡＺａｚ", "＿［＼］＾｀"])["latin"].tolist() == [4, 0]


def test_traditional_and_simplified_characters_are_told_apart_and_shared_ones_are_neither() -> None:
    counts = count_characters(["這個問題", "这个问题", "你好", "吃床台"])
    assert counts["traditional"].tolist() == [4, 0, 0, 0]
    assert counts["simplified"].tolist() == [0, 4, 0, 0]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "<b>Hi</b>",
            "Hi<br/>",
            "a &amp; b",
            "&#39;",
            r"{\an8}Hi",
            "[[link]]",
            "[url=x]",
            "[i]so[/i]",
            "<!-- a -->",
            r"first\n",
        ),
        *(r"It\u2019s", r"He said \"no\".", r"I don\'t"),
        *("<td nowrap>", "<option selected value=1>", '<a href="x" download>', "</a >"),
    ],
)
def test_markup_is_found(text: str) -> None:
    assert texts_with(MARKUP, ["clean", text, ""]).tolist() == [1]


@pytest.mark.parametrize(
    "text", ["café", "Österreich", "über", "Ärger", "señor", "ça va", "był", "dzień", "Москва", "Ελλάδα"]
)
def test_single_letters_read_as_windows_1252_are_seen_too(text: str) -> None:
    misread = b"".join(bytes([byte]) for byte in text.encode()).decode("cp1252", "replace").replace("\ufffd", "\x81")
    assert has_mojibake(misread), misread


@pytest.mark.parametrize(
    "text",
    [
        "3 < 4 and 5 > 2",
        "a<b and c>d",
        "a<b 且 c>d",
        "if x<y or z>1",
        "AT&T; yes",
        "array[i]是一个元素",
        "new int[size], tags[url], a[img] = b[quote], [size], [color]",
        "section [i] of the text",
        "他说--> 好",
        "[sic]",
        "<3",
        "I <3 you",
        "C:\\news",
        r"\usual \u20",
    ],
)
def test_what_only_looks_like_markup_is_not(text: str) -> None:
    assert texts_with(MARKUP, [text]).tolist() == []


@pytest.mark.parametrize("texts", [["if a <b", "> quoted"], ["see <a", "b=c> d"], ["a <b c=", "d>"]])
def test_markup_ends_with_its_line(texts: list[str]) -> None:
    assert texts_with(MARKUP, texts).tolist() == []


def test_repetition_is_one_letter_eight_times_or_one_word_four_times() -> None:
    texts = ["哈哈哈哈哈哈哈哈", "no no no no", "(掌声)(掌声)", "very very good", "掌声掌声掌声掌声", "1000000000"]
    assert texts_with(REPETITION, texts).tolist() == [0, 1, 4]


@pytest.mark.parametrize("text", ["你好，世界！", "我们明天去上海。", "钱包在抽屉里吗？"])
def test_utf8_read_in_another_encoding_is_seen(text: str) -> None:
    for encoding in ("latin-1", "cp1252", "gb18030"):
        misread = text.encode().decode(encoding, "replace")
        assert has_mojibake(misread), misread
        assert texts_with_mojibake(["clean", misread]) == [1]
    assert has_mojibake(text.encode("gb18030").decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "text",
    [
        *("It’s “here”…", "café — naïve", "ÀÉ", "沙鸥翔集……", "你好，世界！", "價格是100€。", "Ein Übermaß"),
        *("„Das macht Spaß“", "Ich weiß…", "Er war groß—sehr groß.", "Il est BLESSÉ…", "“CAFÉ”", "« CAFÉ»", "„Ä“"),
        *("AMANHÃ…", "NESTLÉ®", "«ГОД»", "1200 Å²"),
        *("Im „Café“…", "« Il est resté\u00a0»", "está\u00a0»", "jusque là\u00a0« bas »", "Été\u00a0– hiver"),
    ],
)
def test_good_text_is_no_mojibake(text: str) -> None:
    assert not has_mojibake(text)


@pytest.mark.parametrize("text", ["it’s", "“so”", "a – b", "wait…", "– là", "é…", "中", "們", "№ 5"])
def test_one_sign_or_character_in_another_encoding_is_seen(text: str) -> None:
    assert has_mojibake(text.encode().decode("cp1252", "replace"))


def test_the_search_for_mojibake_takes_time_by_the_length_alone() -> None:
    began = time.process_time()
    assert not has_mojibake("😀" + ("ÀÉ" + " a" * 50) * 40_000)
    assert time.process_time() - began < 5


def test_tokens_know_no_width_no_script_no_case_and_no_punctuation() -> None:
    assert tokens("湯姆，ＯＫ！ Python3.") == ["汤", "姆", "ok", "python3"]
    assert tokens("मैं जाता हूँ।") == ["मैं", "जाता", "हूँ"]
    assert tokens("トム・ｶﾞﾑ") == ["ト", "ム", "ガ", "ム"]


@pytest.mark.parametrize(
    ("source", "target", "languages", "expected"),
    [
        ("東京大学", "东京大学", ("ja", "zh"), True),
        ("中国", "中国", ("ja", "zh"), True),
        ("這個問題", "这个问题", ("zh-Hant", "zh-Hans"), True),
        ("你好。", "你好。", ("zh-Hant", "zh-Hans"), True),
        ("どこに", "どこに", ("ja", "zh"), False),
        ("這是一個很大的問題，我們都知道。", "這是一個很大的問題，我們都知道。", ("zh-Hant", "zh-Hans"), False),
        ("中国", "中国", ("zh", "en"), False),
        ("這個問題", "这个问题", ("zh", "en"), False),
    ],
)
def test_chinese_and_japanese_write_names_alike_and_both_scripts_of_chinese_nearly_all(
    source: str, target: str, languages: tuple[str, str], expected: bool
) -> None:
    assert may_be_alike([source], [target], languages).tolist() == [expected]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Ich habe das Buch nicht gelesen.", "de"),
        ("Je ne sais pas où il est.", "fr"),
        ("¿Dónde está la casa?", "es"),
        ("I have not read the book.", None),
        ("Leonardo da Vinci painted it.", None),
        ("She likes crème brûlée and the café.", None),
        ("Tom.", None),
        ("El gobierno anunció las medidas de ayer.", "es"),
        ("Wo ist meine Brille?", "de"),
        ("Ein Mann in grünen Hosen läuft.", "de"),
        ("I libri di mia sorella sono qui.", "it"),
        ("Os meninos não estão aqui.", "pt"),
        ("Waar is het boek?", "nl"),
    ],
)
def test_another_language_in_latin_letters_is_known_by_its_function_words(text: str, language: str | None) -> None:
    assert other_language(text, tokens(text), "en") == language


@pytest.mark.parametrize(
    "text",
    [
        *("Ha ha ha!", "Ho, ho, ho!", "Die! Die!", "The war van has come, and the son met him.", "Come per van."),
        *("Oscar de la Renta", "Los Angeles, La Paz", "Visit São Paulo.", "Pelé met Núñez.", "El Niño, La Niña"),
        *("C n H 2n + O 2", "é, à, y, o", "Galen J. Torneby (J. C.)", "A la carte, par excellence"),
        *("www.example.de/und/der", "https://example.org/der/und/ist/nicht", "anna@nicht.und.de, oder@ist.der.de"),
        "de, de, de",
    ],
)
def test_english_with_words_or_names_that_other_languages_have_too_stays_english(text: str) -> None:
    assert other_language(text, tokens(text), "en") is None


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("de", "Alle Bäume blühen.|Man will so was.|Alle übereinstimmenden Seiten finden"),
        ("fr", "On a besoin d'aide.|On a gagné !|On m'attend.|D'abord on mange.|On a vu ta mère.|A-t-on fini ?"),
        ("fr", "Il répéta non.|Symbole non trouvé|Il se dit perdu.|Tu me dis que tu as un os."),
        ("es", "Me he caído.|Dime si llegó.|Quiero dos cafés.|¿Me has oído?|Nos van a oír."),
        ("it", "Chissà se verrà.|Lo so già, ma non a te.|Dove vai?|All'età di sei."),
        ("pt", "Chá ou café?|Nome ou serviço desconhecido|Define como será o cabeçalho."),
        (
            "nl",
            "Je had me gebeld.|We gaan over een uur.|Dat had me verbaasd.|Alle invoerbronnen tonen|Wie lachte hier?",
        ),
    ],
)
def test_words_that_a_language_shares_with_another_are_not_held_against_it(language: str, sentences: str) -> None:
    assert [text for text in sentences.split("|") if other_language(text, tokens(text), language)] == []


@pytest.mark.parametrize("language", ["de", "fr", "es", "it", "pt", "nl"])
@pytest.mark.parametrize("text", ["He had me on the phone.", "We will see them over there.", "Is it so?"])
def test_english_is_another_language_for_all_of_them(language: str, text: str) -> None:
    assert other_language(text, tokens(text), language) == "en"


def test_a_language_is_known_by_an_eighth_of_the_words_at_least() -> None:
    names = " ".join(f"Berlin{number}" for number in range(14))
    found = [other_language(text, tokens(text), "en") for text in (f"und nicht {names}", f"und nicht {names} Bonn")]
    assert found == ["de", None]


def test_of_many_pairs_those_with_other_numbers_are_named_with_the_numbers() -> None:
    sources, targets = ["三本书", "你好", "五个人"], ["three books", "Hello", "six people"]
    assert pairs_with_other_numbers(sources, targets, "zh", "en") == {2: [5, 6]}


@pytest.mark.parametrize(
    ("source", "target", "language", "number"),
    [
        ("参加者は１５人です。", "There were participants.", "ja", 15),
        ("१५ लोग आए", "People came.", "hi", 15),
        ("他捐了钱。", "He donated one thousand yuan.", "zh", 1000),
        ("他捐了一万元。", "He donated money.", "zh", 10_000),
        ("他捐了伍佰元。", "He donated money.", "zh", 500),
    ],
)
def test_a_number_on_one_side_alone_is_found_in_digits_of_any_script_and_in_words_for_round_numbers(
    source: str, target: str, language: str, number: int
) -> None:
    assert pairs_with_other_numbers([source], [target], language, "en") == {0: [number]}


def test_the_scale_behind_a_range_is_that_of_its_first_number_only_if_that_is_smaller() -> None:
    sources = ["月薪8000至1.2万元。", "月薪8000至1.2万元。", "花3-5万元。"]
    targets = ["The pay is 80 million to 12,000.", "The pay is 8,000 to 12,000.", "It costs 30,000-50,000 yuan."]
    assert [*pairs_with_other_numbers(sources, targets, "zh", "en")] == [0]


def test_a_line_break_inside_a_text_does_not_move_the_places_of_others() -> None:
    assert texts_with(MARKUP, ["a\nb", "<b>x</b>", "c\n\nd", "<i>"]).tolist() == [1, 3]
