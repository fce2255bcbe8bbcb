"""Tokenized text as it was written: by hand for each habit, and back from tokenizers that others made."""

import gzip
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh
from tests.corpora import corpus
from tests.text.conftest import growth

from weft.data.starter import load
from weft.text.detokenization import detokenize


@pytest.mark.parametrize(
    ("tokenized", "natural"),
    [
        ("Well , I do n't know .", "Well, I don't know."),
        ("It 's Tom 's , is n't it ?", "It's Tom's, isn't it?"),
        ("I 'm sure we 've said they 'd come ; he 'll see !", "I'm sure we've said they'd come; he'll see!"),
        ("I ca n't , he wo n't , DO N'T", "I can't, he won't, DON'T"),
        ("You 're gon na like it , you Got ta see", "You're gonna like it, you Gotta see"),
        ("`` Hello , '' he said .", '"Hello," he said.'),
        ("He said : `` No . ''", 'He said: "No."'),
        ("` Yes , it 's me , ' he said", "'Yes, it's me,' he said"),
        ('" Hello , " he said , " is it ? "', '"Hello," he said, "is it?"'),
        ("“ Hello , ” he said ; it ’s ‘ odd ’ .", "“Hello,” he said; it’s ‘odd’."),
        ("' Come , it 's late , ' he said .", "'Come, it's late,' he said."),
        ("such as ' Thank you ' , or ' Please ' .", "such as 'Thank you', or 'Please'."),
        ("the dogs ' tails and the cats ' ears", "the dogs' tails and the cats' ears"),
        ("He ( Tom ) said [ sic ] ( no ) .", "He (Tom) said [sic] (no)."),
        ("It costs $ 5 , i.e. 5 % of £ 100 .", "It costs $5, i.e. 5% of £100."),
        ("a well @-@ known 1 @,@ 000 @.@ 5 and / or", "a well-known 1,000.5 and/or"),
        ("a user ##AT##-##AT## agent", "a user-agent"),
        ("Tom &apos;s &quot; book &quot; &amp; pen &#91; 1 &#93; &lt; 2", 'Tom\'s "book" & pen [1] < 2'),
        ("Tom -LRB- 5 -RRB- -lsb- sic -rsb- .", "Tom (5) [sic]."),
        ("at 10 : 30 , on 9 / 11", "at 10:30, on 9/11"),
        ("I don 't , it ' s , they ' ve and don ' t", "I don't, it's, they've and don't"),
        ('" And so it begins .', '"And so it begins.'),
        ('So it ends . "', 'So it ends."'),
        ('So it was , " he said .', 'So it was," he said.'),
        ('He said , " So it was .', 'He said, "So it was.'),
        ("seven o 'clock ... yes ?!", "seven o'clock... yes?!"),
        ("He lives in the U.S. .", "He lives in the U.S."),
    ],
)
def test_english_by_hand(tokenized: str, natural: str) -> None:
    assert detokenize(tokenized, "en") == natural


@pytest.mark.parametrize(
    "natural",
    [
        "Well, it's Tom's. Isn't it? (Yes!) \"No,\" he said; 'why?'",
        "Hello :) and ;) and :( here, .5 or .NET or ...and",
        "The letter 's' and 'd'; rock 'n' roll, 'em all, the '60s",
        'He said "yes" and "no"; 5 - 3 = 2 & a / b - c -- d',
        "Dr. Smith (U.S.) can not: 10:30, 1,000.5, $5, 5%, a@b.com, http://a.com/?b=c&d=e",
        "“Yes,” he said. ‘No.’ It’s the dogs’ food…",
        "",
        " ",
    ],
)
def test_natural_english_stays(natural: str) -> None:
    assert detokenize(natural, "en") == natural


@pytest.mark.parametrize(
    ("tokenized", "natural"),
    [
        ("我 喜欢 你 。", "我喜欢你。"),
        ("你好 ， 世界 ！", "你好，世界！"),
        ("他 说 ： “ 你 好 ” 。", "他说：“你好”。"),
        ('他 说 : " 你 好 . "', '他说:"你好."'),
        ("《 红楼梦 》 （ 1791 年 ）", "《红楼梦》（1791年）"),
        ("我 喜欢 Harry Potter 的 书 。", "我喜欢Harry Potter的书。"),
        ("Tom , Mary 和 我 有 3.5 元 , 占 5 % .", "Tom, Mary和我有3.5元,占5%."),
        ("他 （ Tom Smith ） 来 了", "他（Tom Smith）来了"),
        ("从 1665 年 - 1678 年 去 AT & T , A / B", "从1665年-1678年去AT&T, A/B"),
        ("上午 10 : 30 见", "上午10:30见"),
        ("OK , Tom .", "OK, Tom."),
        ("你 好 &amp; 再 见 @-@ 好", "你好&再见-好"),
    ],
)
def test_chinese_by_hand(tokenized: str, natural: str) -> None:
    assert detokenize(tokenized, "zh") == natural
    assert detokenize(tokenized, "zh-CN") == natural


@pytest.mark.parametrize(
    "natural", ["我喜欢 Tom 的书。", "我喜欢Harry Potter，你呢？", "他说 “Tom” 来了", "A&B公司 3.5 元", "你好， Tom"]
)
def test_natural_chinese_stays(natural: str) -> None:
    assert detokenize(natural, "zh") == natural


@pytest.mark.parametrize(
    ("language", "tokenized", "natural"),
    [
        ("fr", "C' est l' homme , n' est -ce pas ?", "C'est l'homme, n'est -ce pas ?"),
        (
            "fr",
            "Il dit : « Oui ! » ( aujourd' hui , jusqu' à 5 % ) .",
            "Il dit : « Oui ! » (aujourd'hui, jusqu'à 5 %).",
        ),
        ("fr", "Vraiment ?", "Vraiment ?"),
        ("de", "Er sagte : „ Ja , gut “ , oder ?", "Er sagte: „Ja, gut“, oder?"),
        ("de", "„ Ich komme . “", "„Ich komme.“"),
        ("ar", "من أنت ؟ نعم ، هنا ؛ لا", "من أنت؟ نعم، هنا؛ لا"),
        ("ur", "یہ ہے ۔", "یہ ہے۔"),
        ("hi", "मैं हूँ । तुम ॥", "मैं हूँ। तुम॥"),
        ("de", "»Ja« ist , mit 5 % , »gut« .", "»Ja« ist, mit 5 %, »gut«."),
        ("de", "Das Schild : ”Ja“ , gut", "Das Schild: ”Ja“, gut"),
        ("es", "¿ Qué ? ¡ Sí ! « Hola » , dijo", "¿Qué? ¡Sí! «Hola», dijo"),
        ("it", "L' uomo dell' anno , un' idea e un po' di pane", "L'uomo dell'anno, un'idea e un po' di pane"),
        ("ru", "Да , « это » он .", "Да, «это» он."),
        ("ja", "私 は 学生 です 。 「 はい 」", "私は学生です。「はい」"),
        ("ja", "トム ・ スミス", "トム・スミス"),
        ("ja", "ｺｰﾋｰ ﾉﾝﾃﾞ", "ｺｰﾋｰﾉﾝﾃﾞ"),
        ("ko", "네 , 5 % 입니다 .", "네, 5% 입니다."),
    ],
)
def test_other_languages_by_hand(language: str, tokenized: str, natural: str) -> None:
    assert detokenize(tokenized, language) == natural
    assert detokenize(natural, language) == natural


@pytest.fixture(scope="module")
def starter() -> list[tuple[str, str]]:
    return load()["train"][:1500]


def test_the_starter_corpus_comes_back_from_sacrebleus_tokenizers(starter: list[tuple[str, str]]) -> None:
    english, chinese = Tokenizer13a(), TokenizerZh()
    for source, target in starter:
        assert detokenize(chinese(source), "zh") == source
        assert detokenize(english(target), "en") == target


def test_the_starter_corpus_comes_back_from_the_treebanks_rules(starter: list[tuple[str, str]]) -> None:
    for _, target in starter:
        assert detokenize(as_treebank(target), "en") == target


def as_treebank(text: str) -> str:
    """The rules of the Penn Treebank that matter here, put together once more as its script has them."""
    text = re.sub(r'(^|[ (])"', r"\1`` ", text).replace('"', " ''")
    text = re.sub(r"([,;:@#$%&?!()\[\]])(?!\d)", r" \1 ", text)
    text = re.sub(r"([^.])\.(\W*)$", r"\1 .\2", text)
    text = re.sub(r"(n't|'(?:s|m|d|re|ve|ll))\b", r" \1", text)
    return " ".join(text.split())


@pytest.fixture(scope="module")
def valid() -> list[tuple[str, str]]:
    lines = corpus("zh-en-50k/valid.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


def test_natural_lines_of_the_benchmark_stay(valid: list[tuple[str, str]]) -> None:
    assert sum(detokenize(source, "zh") != source for source, _ in valid) <= 5
    assert sum(detokenize(target, "en") != target for _, target in valid) <= 5


def test_tokenized_lines_of_the_benchmark_come_back(valid: list[tuple[str, str]]) -> None:
    english, chinese = Tokenizer13a(), TokenizerZh()
    assert sum(detokenize(english(target), "en") == target for _, target in valid) > 0.97 * len(valid)
    assert sum(detokenize(chinese(source), "zh") == source for source, _ in valid) > 0.97 * len(valid)


@pytest.mark.parametrize(
    ("language", "name", "share"),
    [("en", "ud-english-ewt/dev.conllu.gz", 0.88), ("zh", "ud-chinese-gsdsimp/dev.conllu.gz", 0.99)],
)
def test_sentences_of_treebanks_come_back_from_their_words(language: str, name: str, share: float) -> None:
    """But those with hyphens: a treebank cuts them off, and nobody can tell them from dashes any more."""
    with gzip.open(corpus(name), "rt", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    found = []
    for block in blocks:
        natural = re.search("^# text = (.*)$", block, re.MULTILINE)
        assert natural is not None
        words = re.findall(r"^\d+\t([^\t]+)", block, re.MULTILINE)
        if "-" not in natural[1]:
            found.append(detokenize(" ".join(words), language) == natural[1])
    assert sum(found) > share * len(found)


@given(
    st.text(string.printable + "汉字，。“”‘’「」«»„¿…—éか", max_size=60),
    st.sampled_from(["en", "zh", "fr", "de", "ja"]),
)
def test_only_spaces_quotes_and_escapes_ever_change(text: str, language: str) -> None:
    def bare(text: str) -> str:
        return re.sub(r"[\s\"'`]|&\w+;|&#\d+;|@|-[lr][rsc]b-", "", text, flags=re.IGNORECASE).replace("##AT##", "")

    found = bare(detokenize(text, language))
    assert found == bare(text) or (". ." in text and found.replace(".", "") == bare(text).replace(".", ""))


@pytest.mark.parametrize("language", ["en", "zh", "fr"])
@pytest.mark.parametrize("part", [" '", " ` ", ' "', " ,", "( ", "„ ", "a. . ", "@ ", " 汉", "s ' "])
def test_long_runs_of_signs_take_no_longer_than_their_length(part: str, language: str) -> None:
    assert growth(lambda text: detokenize("汉" * (language == "zh") + text, language), part) < 20
