"""Sentences: by hand for each habit of print, whatever the text is nothing is lost, and in time whatever its length."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.text.sentence_splitting import WORD, cut_to_length, split_sentences

# Drawn from what the rules look at, so that these meet each other in every order.
PARTS = st.sampled_from(
    [
        *".!?。！？…，,;:()（）[]【】\"'“”‘’「」«»1aA我",
        *(
            " ",
            "\n",
            "\u3000",
            "Mr",
            "U.S",
            "e.g",
            "3.14",
            "No",
            "说",
            "。。。",
            "...",
            "Hello",
            "你好",
            "\u0301",
            "।",
            "؟",
        ),
    ]
)
MIXED_TEXT = st.lists(PARTS, max_size=20).map("".join)
ANY_TEXT = st.text(st.characters(exclude_categories=()))
LANGUAGES = st.sampled_from(["zh", "en", "de", "xx"])


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        pytest.param("zh", "我来了。|你呢？|走吧！", id="wide signs need no space"),
        pytest.param("zh", "真的？！|是的。。。|好吧", id="several signs end one sentence"),
        pytest.param("zh", "他说：“你好。”|我走了。", id="a quotation mark belongs to what it closes"),
        pytest.param("zh", "“你好！”他说。|“再见！”她笑着说道。", id="a sentence goes on behind a quotation"),
        pytest.param("zh", "啊！，是你。|来（真的吗？）就好。", id="inside brackets and before a comma none ends"),
        pytest.param("zh", "（他走了。）|我来了。", id="a bracket may be a sentence"),
        pytest.param("zh", "我……我不知道。|好……吧。", id="an ellipsis hesitates"),
        pytest.param("zh", "圆周率是3.14。|价格是１．５元。", id="decimals"),
        pytest.param("zh", "我用Node.js和1.苹果。|Yes?|是的.|你呢", id="points inside names and lists"),
        pytest.param("zh", "第一段\n\n|第二段。\n|第三段", id="paragraphs"),
        pytest.param("ja", "そうですか？|はい。|「ええ。」|行きます", id="Japanese"),
        pytest.param("zh", "《谁动了我的奶酪？》是一本书。|我看过。", id="a title is no sentence"),
        pytest.param("zh", "她用“你好吗？”来打招呼。|“你好吗？”|“我很好。”", id="around a quotation"),
        pytest.param("zh", "网站称她为“第一个艺术家。”|人们示威。|她笑道“来了！”|他点头。", id="what speech ends"),
        pytest.param(
            "zh", "他进来……“你好！”|她站起来。|（小声）“走！”|1.“吃了吗？”|2.“吃了。”", id="what brings speech"
        ),
        pytest.param("zh", "『你好。』|他站起來。|『再見！』|她走了。", id="other quotation marks"),
        pytest.param(
            "ja", "「ありがとう！」|とても嬉しい。|店員「はい！」|客「ビール！」|店員「どうぞ。」", id="a play"
        ),
        pytest.param("zh", "他写道：“第一。|第二。”|她笑了。", id="a quotation of several sentences ends as one"),
        pytest.param("ja", "「本当ですか？」と聞いた。|「はい。」って言った。|《君の名は。》だ。", id="speech"),
        pytest.param("en", "He left. |She came! |Why? |No.", id="the usual ends"),
        pytest.param("en", "Mr. Smith met Dr. J. K. Lee of the U.S. Army. |Then he left.", id="titles and initials"),
        pytest.param("en", "Pets, e.g. Rex, i.e. a dog, cost 3.50 dollars. |See No. 5 and Fig. 3.", id="abbreviations"),
        pytest.param("en", "It was 5 p.m. |They came in 1999. |So did I. |You too.", id="what may end one"),
        pytest.param("en", '"Really?" he asked. |"Yes." |He left... |Then came (it is said) Tom.', id="quotations"),
        pytest.param("en", "Wait... no. |Yahoo! is old. |Wait… |What?", id="a small letter goes on"),
        pytest.param("en", "It ended. |(See p. 5.) |Good. |(I know.) |Bye.", id="brackets"),
        pytest.param("en", "1. First this. |2. Then that.", id="numbers of a list"),
        pytest.param("de", "Am 3. Mai kam z.B. Herr Dr. Mann. |Er ging am 12. Juni.", id="German"),
        pytest.param("en", "He is Sammy Davis Jr. III of Acme Inc. London. |Is it a Ph.D. Exam?", id="behind names"),
        pytest.param("en", "He works at Apple Inc. |He likes it.", id="names at the end"),
        pytest.param("de", "Es kostet 3 Mio. Euro und 2 Mrd. Dollar, s. Abs. 3 oben. |Gut.", id="German amounts"),
        pytest.param("de", "Er kam am 5. Okt. 1990 an. |Sie am 3. Dez. 1991. |Gut.", id="German dates"),
        pytest.param("de", "Er kam. |»Ja«, sagte sie. |»Nein«, sagte er.", id="German guillemets"),
        pytest.param("fr", "Il a dit : « Oui. » |Puis il partit. |« Viens ! » dit-il.", id="French quotations"),
        pytest.param(
            "fr", "« Oui.\u00a0» |« Non\u202f!\u202f» |Tu as lu « Qui a tué qui ? » de lui ?", id="narrow spaces"
        ),
        pytest.param("es", "EE. UU. ganó. |—¡Ven! —dijo él. |Fue el 3 de ene. 1990.", id="Spanish"),
        pytest.param("ru", "— Иди! — сказал он. |— Да. |— Нет.", id="speech between dashes"),
        pytest.param("ja", "どうして？と聞いた。|本当？|ところで、行く？|はい！", id="speech without marks"),
        pytest.param("en", "At 10 a.m. Monday he paid Rs. 100. |It was 5 p.m. |They came, ca. 30 of them.", id="hours"),
        pytest.param("tr", "Ali 3. Sokakta oturuyor. |Ben de.", id="Turkish ordinals"),
        pytest.param("ru", "Это т.е. А. С. Пушкин. |Он ушёл.", id="Russian"),
        pytest.param("ru", "Пришёл А.С. Пушкин. |Он ушёл.", id="Russian initials"),
        pytest.param("el", "Ο Κ.Π. Καβάφης. |Ναι.", id="Greek initials"),
        pytest.param("th", "ในปี พ.ศ. 2560 เขามา", id="Thai initials"),
        pytest.param("hi", "मैं हूँ। |तुम कौन हो? |ठीक।", id="Hindi"),
        pytest.param("hi", "डॉ. शर्मा आए। |वे गए।", id="Hindi titles"),
        pytest.param("ar", "من أنت؟ |أنا هنا. |نعم.", id="Arabic"),
    ],
)
def test_by_hand(language: str, marked: str) -> None:
    assert split_sentences(marked.replace("|", ""), language) == marked.split("|")


@given(MIXED_TEXT | ANY_TEXT, LANGUAGES)
def test_joined_sentences_are_the_text_and_each_has_a_word(text: str, language: str) -> None:
    sentences = split_sentences(text, language)
    assert "".join(sentences) == text
    assert bool(sentences) == bool(text)
    assert len(sentences) < 2 or all(WORD.search(sentence) for sentence in sentences)


@given(MIXED_TEXT, LANGUAGES)
def test_white_space_belongs_to_the_sentence_before_it(text: str, language: str) -> None:
    assert not any(sentence[0].isspace() for sentence in split_sentences(text, language)[1:])


# Cutting what has no end


@given(MIXED_TEXT | ANY_TEXT, st.integers(1, 12))
def test_cut_text_is_the_text_in_parts_that_are_short_and_not_empty(text: str, most: int) -> None:
    parts = cut_to_length(text, lambda part: len(part) <= most)
    assert "".join(parts) == text
    assert all(len(part) <= most for part in parts)
    assert all(parts) or parts == [""]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one two three, four five", ["one two three, ", "four five"]),
        ("one two three four", ["one two ", "three four"]),
        ("我有一个苹果，他有一个很大的梨", ["我有一个苹果，", "他有一个很大的梨"]),
        ("about 1,000,000 of them here", ["about 1,000,000 ", "of them here"]),
        ("e\u0301" * 8, ["e\u0301" * 4] * 2),
        ("aaaabbbb", ["aaaa", "bbbb"]),
    ],
)
def test_text_is_cut_where_it_hurts_least(text: str, parts: list[str]) -> None:
    assert cut_to_length(text, lambda part: len(part) < len(text)) == parts


def test_what_is_short_enough_is_not_cut() -> None:
    assert cut_to_length("one, two", lambda part: True) == ["one, two"]


# Hostile text


@pytest.mark.parametrize(
    "unit",
    [
        *("(", ". ", "。”", "\u0301", "a.", " ", "\n ", "“！", "(a", "。", "Mr. "),
        *("“。”", "a“。", "《", "A.", "\x00", "\ud800", "…", "a,", "« ! » ", "! — "),
    ],
    ids=ascii,
)
def test_endless_text_of_any_kind_takes_a_moment(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    began = time.process_time()
    sentences = split_sentences(text, "fr")  # which has all rules but those of ordinals
    parts = cut_to_length(text, lambda part: len(part) < 250)
    assert time.process_time() - began < 5  # seconds, where quadratic work would take an hour
    assert sum(map(len, sentences)) == sum(map(len, parts)) == len(text)


def test_every_certain_end_is_a_punctuation_mark() -> None:
    from weft.text.sentence_splitting import CERTAIN_ENDS, NARROW_ENDS

    assert {unicodedata.category(sign) for sign in CERTAIN_ENDS + NARROW_ENDS} == {"Po"}
