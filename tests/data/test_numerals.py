"""Numbers are read in both writings, and only a number that the other side certainly lacks is missed."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.numerals import missing_numbers, numbers_in

WRITTEN = [*"05２十百千万亿兆零两三年点第:-% ", "12", "1990", "3.7", "1,000", "hundred", "thousand", "million", "k"]
WRITTEN += ["世纪", "年代", "and"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("我有三本书。", 3),
        ("他今年二十五岁。", 25),
        ("一共一百二十块。", 120),
        ("两千零五年", 2005),
        ("三亿二千万人", 320_000_000),
        ("八千六百八十亿二千万元", 868_020_000_000),
        ("10萬美元", 100_000),
        ("1.2亿人", 120_000_000),
        ("投资5千亿元", 500_000_000_000),
        ("3百亿元", 30_000_000_000),
        ("2十万亿元", 20_000_000_000_000),
        ("9000多万人", 90_000_000),
        ("30余万元", 300_000),
        ("16万8千人", 168_000),
        ("16万8", 168_000),
        ("1亿5千万人", 150_000_000),
        ("1亿2000万人", 120_000_000),
        ("1亿零500万人", 105_000_000),
        ("315.1亿美元", 31_510_000_000),
        ("4K电视", 4000),
        ("3百米", 300),
        ("１２点", 12),
        ("一九九八年", 1998),
        ("二○○八年", 2008),
        ("二ＯＯ八年", 2008),
        ("二00八年", 2008),
        ("二零零八年", 2008),
        ("貳零零捌年", 2008),
        ("二〇一〇年", 2010),
        ("壹玖肆玖年", 1949),
        *[("人民币伍佰元整", 500), ("壹佰元", 100), ("贰拾元", 20)],
        ("叁仟零陸拾萬元", 30_600_000),
        ("三十万亿美元", 3e13),
        ("廿五岁", 25),
        ("大陆三个省", 3),
        ("收拾三个房间", 3),
    ],
)
def test_a_number_in_chinese_is_certain_where_it_counts_something(text: str, value: float) -> None:
    assert numbers_in(text, "zh").certain == {value}


@pytest.mark.parametrize(
    "text",
    [
        *("十分高兴。", "星期三见。", "万一下雨呢？", "一个人。", "三四个人。", "几十本书。", "三明治", "第三次"),
        *("大陆人", "大陆万人空巷", "队伍里", "收拾个房间", "收拾零件", "队伍万人", "着陆万米"),
        *("环顾四周", "三十多万人", "五千瓦", "五千米", "一米八", "1米85", "三块五", "3块5", "打9折", "打八五折"),
    ],
)
def test_what_only_looks_like_a_number_in_chinese_is_not_certain(text: str) -> None:
    assert numbers_in(text, "zh").certain == frozenset()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I have three books.", 3),
        ("He is twenty-five.", 25),
        ("one hundred and twenty yuan", 120),
        ("two thousand and five", 2005),
        ("$100,000", 100_000),
        ("3.5 million people", 3_500_000),
        ("10 000 yuan", 10_000),
        ("10'000 yuan", 10_000),
        ("1.500.000 euros", 1_500_000),
        ("1,234,567.5 yuan", 1_234_567.5),
        ("two trillion three hundred billion", 2.3e12),
        ("$221bn", 221_000_000_000),
        ("£75m", 75_000_000),
        ("USD 75 m", 75_000_000),
        ("1.4 bn people", 1_400_000_000),
        ("$2b", 2_000_000_000),
        ("the 100 m race", 100),
        ("50 m²", 50),
        ("50 km2", 50),
        ("3½ cups", 3),
    ],
)
def test_a_number_in_english_is_certain_in_words_and_in_digits(text: str, value: float) -> None:
    assert numbers_in(text, "en").certain == {value}


def test_a_number_has_one_sign_between_its_thousands() -> None:
    assert numbers_in("1,500 200", "en").certain == {1500, 200}


@pytest.mark.parametrize("text", ["½ cup", "m²", "km2", "x₂", "75m", "flat 5b"])
def test_what_only_looks_like_a_number_in_english_is_not_certain(text: str) -> None:
    assert numbers_in(text, "en").certain == frozenset()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("我有三本书。", "I have 3 books."),
        ("我有3本书。", "I have three books."),
        ("他九點半來。", "He comes at 9:30."),
        ("下午三点", "15:00"),
        ("90年代", "the 1990s"),
        ("20世纪60年代", "the 1960s"),
        ("5月10日", "May 10th"),
        ("星期三", "Wednesday"),
        ("一打鸡蛋", "a dozen eggs"),
        ("百分之九十九点九", "99.9%"),
        ("一百五", "150"),
        ("10万", "one hundred thousand"),
        ("他们俩", "the two of them"),
        ("五毛钱", "fifty cents"),
        ("现在7点。", "It's 7:00 now."),
        ("新冠肺炎", "COVID-19"),
        ("十年前", "a decade ago"),
        ("九月二十一号", "September twenty-first"),
        ("第三十五届", "the thirty-fifth"),
        ("第一百零一个", "the hundred and first"),
        ("第一百二十个", "the hundred and twentieth"),
        ("二十秒的延迟", "a twenty-second delay"),
        ("1月的一天", "a day in Jan."),
        ("9月5日", "Sept. 5"),
        ("超过9000多万人", "more than 90 million people"),
        ("30余万册", "over 300,000 volumes"),
        ("16万8千元", "168,000 yuan"),
        ("1亿5千万元", "150 million yuan"),
        ("三十多万人", "more than 300,000 people"),
        ("十几万人", "over 100,000 people"),
        ("2210亿美元", "$221bn"),
        ("7500万英镑", "£75m"),
        ("140万人", "1.4m people"),
        ("14亿人", "1.4 bn people"),
        ("100米赛跑", "the 100m race"),
        ("五千瓦的电机", "a 5 kW motor"),
        ("5千瓦的电机", "a 5-kilowatt motor"),
        ("两千卡的热量", "2 kilocalories of heat"),
        ("2千卡的热量", "two kilocalories of heat"),
        ("3千米", "three kilometres"),
        ("50平方米", "50 m²"),
        ("50平方公里", "50 km2"),
        ("半杯水", "½ cup of water"),
        ("四分之三杯", "¾ cup"),
        ("三个半小时", "3½ hours"),
        ("三个半小时", "3.5 hours"),
        ("3.5小时", "three and a half hours"),
        ("半数", "50% of them"),
        ("4K电视", "a 4K television"),
        ("1500万", "15,000,000"),
        ("15,000,000", "15.000.000"),
        ("15,000,000", "15 000 000"),
        ("5点半", "5.30pm"),
        ("下午五点半", "at 5.30"),
        ("17:30", "5.30 p.m."),
        ("他身高一米八。", "He is 1.8 metres tall."),
        ("他身高一米八五。", "He is 185 cm tall."),
        ("他身高1米85。", "He is 185 cm tall."),
        ("三块五", "3.50 yuan"),
        ("3块5一斤", "¥3.5 a pound"),
        ("超过1万亿美元", "over a trillion dollars"),
        ("4-5万美元", "40,000 to 50,000 dollars"),
        ("400至600万人", "4 to 6 million people"),
        ("首届大会", "the 1st congress"),
        ("三十而立。", "At thirty, one stands firm."),
        ("有一千五百人。", "There were one thousand, five hundred people."),
        ("他四五十岁。", "He is forty or fifty years old."),
        ("有七八十人。", "There are 70 or 80 people."),
        ("十七八个人", "17 or 18 people"),
        ("一百二三十人", "120 to 130 people"),
        ("打九折", "10% off"),
        ("打8.5折", "15% off"),
        ("三成的人", "30% of the people"),
        ("315.1亿美元", "31.51 billion dollars"),
        ("他们投资5千亿元。", "They invested 500 billion yuan."),
        ("有3亿5千万人。", "There are 350 million people."),
    ],
)
def test_the_same_number_in_another_writing_is_not_missed(source: str, target: str) -> None:
    assert missing_numbers(numbers_in(source, "zh"), numbers_in(target, "en")) == []


@pytest.mark.parametrize(
    ("source", "target", "missing"),
    [
        ("我有三本书。", "I have four books.", [3, 4]),
        ("他今年二十五岁。", "He is 26.", [25, 26]),
        ("房间在302。", "Room 203.", [203, 302]),
        ("他来了。", "He came at 7.", [7]),
        ("30余万元", "30,000 yuan", [30_000, 300_000]),
        ("16万8千元", "16,800 yuan", [16_800, 168_000]),
        ("7500万英镑", "£7.5m", [7_500_000, 75_000_000]),
        ("5点半", "6.30pm", [5, 6.3]),
        ("9月5日", "Oct. 5", [9]),
    ],
)
def test_another_number_is_missed_on_both_sides(source: str, target: str, missing: list[float]) -> None:
    assert missing_numbers(numbers_in(source, "zh"), numbers_in(target, "en")) == missing


@pytest.mark.parametrize("digits", ["1" * 400, "1." + "4" * 400, "九" * 400, "十万亿" * 100])
def test_a_run_of_digits_without_end_is_no_number_that_must_be_translated(digits: str) -> None:
    source, target = numbers_in(f"圆周率 {digits} 和 7 个", "zh"), numbers_in(f"pi {digits} and 7", "en")
    assert 7 in source.certain & target.certain
    assert missing_numbers(source, target) == []


@pytest.mark.parametrize(
    "text",
    [
        *("12 ", "a-19 ", "3: 00 ", "twenty one ", "二十一个", "20世纪60年代"),
        *("1,000,", "1.000.", "1万5千人有", "3⁄4 ", "二", "m² of land ", "三块五，", "hundred ", "one billion "),
    ],
)
def test_the_time_grows_with_the_length_alone(text: str) -> None:
    def seconds(length: int) -> float:
        """Of the processor, the least of three."""
        found = []
        for _ in range(3):
            began = time.process_time()
            for language in ("zh", "en"):
                numbers_in(text * (length // len(text)), language)
            found.append(time.process_time() - began)
        return min(found)

    assert seconds(40_000) < 3 * 8 * seconds(5_000)  # the square of the length would be 64 times as long


def test_of_other_languages_only_numbers_in_digits_from_13_on_are_certain() -> None:
    assert numbers_in("Drei Männer und 15 Frauen, 12 Kinder", "de").certain == {15}


def test_beside_a_language_whose_number_words_are_not_read_no_word_is_certain() -> None:
    source = numbers_in("Two men and fifteen women, 30 children", "en", of_pair=("en", "de"))
    target = numbers_in("Zwei Männer und 15 Frauen, 30 Kinder", "de", of_pair=("en", "de"))
    assert source.certain == {30} and target.certain == {15, 30}
    assert missing_numbers(source, target) == []


def test_beside_a_language_whose_number_words_are_not_read_no_scale_is_certain() -> None:
    source = numbers_in("It cost 13.5 billion euros, 20 m dollars in 2019.", "en", of_pair=("en", "de"))
    target = numbers_in("Es kostete 13,5 Milliarden Euro, 20 Mio. Dollar im Jahr 2019.", "de", of_pair=("en", "de"))
    assert 2019 in source.certain & target.certain
    assert missing_numbers(source, target) == []


@pytest.mark.parametrize(
    ("source", "target", "missing"),
    [
        ("300.000 Menschen leben dort.", "300000 people live there.", []),
        ("Es kostet 20.000 Euro.", "It costs 20000 euros.", []),
        ("Es kostet 20.000 Euro.", "It costs 30,000 euros.", [30_000]),
        ("Es wiegt 20.125 kg.", "It weighs 20,125 kg.", []),
    ],
)
def test_one_point_before_three_digits_may_divide_thousands_in_other_languages(
    source: str, target: str, missing: list[float]
) -> None:
    pair = ("de", "en")
    assert missing_numbers(numbers_in(source, "de", of_pair=pair), numbers_in(target, "en", of_pair=pair)) == missing


@pytest.mark.parametrize("word", ["hundred", "thousand", "billion", "nine hundred", "ninety nine", "zero hundred"])
def test_a_row_of_numerals_without_end_is_read(word: str) -> None:
    assert all(map(math.isfinite, numbers_in(f"{word} " * 1000, "en").possible))


def test_a_hundred_hundred_are_two_numbers() -> None:
    assert numbers_in("twelve hundred men", "en").certain == {1200}
    assert numbers_in("between one hundred and two hundred", "en").certain == {100, 200}


def test_an_ordinal_that_makes_no_number_with_the_numeral_before_it_stays_alone() -> None:
    assert missing_numbers(numbers_in("第二十一个", "zh"), numbers_in("twenty and the eleventh", "en")) != []
    assert numbers_in("twenty books, first of all", "en").certain == {20}


@given(st.lists(st.sampled_from(WRITTEN), max_size=12).map("".join), st.sampled_from(["zh", "en", "de"]))
def test_any_mixture_of_digits_numerals_and_units_is_read(text: str, language: str) -> None:
    found = numbers_in(text, language)
    assert all(number >= 0 for number in found.certain | found.possible)
