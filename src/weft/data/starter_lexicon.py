"""The words of the starter corpus: Chinese and English side by side, with their forms and with tags that say what fits.

A `Word` holds its forms by name, so that a template can ask for "the third person" or "with its measure word" and get
it. Two words go together when they share a tag: `eat` is a tag of the verb and of everything edible, `price` is a tag
of expensive, of cheap, and of everything that is sold. This file knows no sentence; see `starter_templates`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.data.numerals import ENGLISH_BELOW_TWENTY

Forms = dict[str, str]


@dataclass(frozen=True, eq=False)
class Word:
    """One entry. The form "" is the plain one; `agrees` is the verb that a subject asks for: 1 am, 2 are, 3 is."""

    zh: Forms
    en: Forms
    tags: frozenset[str] = frozenset()
    agrees: str = "3"


def tagged(words: Sequence[Word], tag: str) -> list[Word]:
    return [word for word in words if tag in word.tags]


# --- English inflection --------------------------------------------------------------------------------------------

IRREGULAR_VERBS = {  # base: (past, participle)
    "buy": ("bought", "bought"),
    "come": ("came", "come"),
    "do": ("did", "done"),
    "draw": ("drew", "drawn"),
    "drink": ("drank", "drunk"),
    "drive": ("drove", "driven"),
    "eat": ("ate", "eaten"),
    "get": ("got", "gotten"),
    "go": ("went", "gone"),
    "have": ("had", "had"),
    "know": ("knew", "known"),
    "leave": ("left", "left"),
    "make": ("made", "made"),
    "read": ("read", "read"),
    "ride": ("rode", "ridden"),
    "run": ("ran", "run"),
    "say": ("said", "said"),
    "sell": ("sold", "sold"),
    "sing": ("sang", "sung"),
    "sleep": ("slept", "slept"),
    "speak": ("spoke", "spoken"),
    "swim": ("swam", "swum"),
    "take": ("took", "taken"),
    "teach": ("taught", "taught"),
    "think": ("thought", "thought"),
    "write": ("wrote", "written"),
}
DOUBLES_ITS_CONSONANT = {"chat", "get", "plan", "run", "swim"}
IRREGULAR_NOUNS = {"sheep": "sheep"}
IRREGULAR_SUPERLATIVES = {"better": "best", "worse": "worst"}


def plural(noun: str) -> str:
    """The plural of a noun or of a compound that ends in one."""
    if noun in IRREGULAR_NOUNS:
        return IRREGULAR_NOUNS[noun]
    return _with_s(noun)


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) and word not in {"piano", "photo"} else "s")


def verb_forms(phrase: str) -> Forms:
    """All forms of a verb phrase; its first word is the verb: `write a letter` gives `wrote a letter`."""
    verb, space, rest = phrase.partition(" ")
    third = "has" if verb == "have" else _with_s(verb)
    past, participle = IRREGULAR_VERBS.get(verb, (_regular_past(verb),) * 2)
    forms = {"": verb, "now1": verb, "now2": verb, "now3": third, "ing": _ing(verb), "done": participle}
    forms |= {f"past{person}": past for person in "123"}
    return {name: form + space + rest for name, form in forms.items()}


def _regular_past(verb: str) -> str:
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    stem = verb + verb[-1] if verb in DOUBLES_ITS_CONSONANT else verb
    return stem + ("d" if verb.endswith("e") else "ed")


def _ing(verb: str) -> str:
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    return (verb + verb[-1] if verb in DOUBLES_ITS_CONSONANT else verb) + "ing"


# --- numbers -------------------------------------------------------------------------------------------------------

_DIGITS_ZH = "零一二三四五六七八九"
_TENS_EN = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}
_ORDINALS |= {"twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth"}


def chinese_number(number: int) -> str:
    """Read out 1 to 9,999: 25 is 二十五, 105 is 一百零五, 12 is 十二."""
    for size, unit in ((1000, "千"), (100, "百"), (10, "十")):
        if number >= size:
            head, rest = divmod(number, size)
            lead = "" if size == 10 and head == 1 else _DIGITS_ZH[head]
            if size == 1000 and head == 2:
                lead = "两"
            gap = "零" if 0 < rest < size // 10 else ""
            tail = chinese_number(rest) if rest else ""
            return lead + unit + gap + ("一" + tail if size > 10 and 10 <= rest < 20 else tail)
    return _DIGITS_ZH[number]


def english_number(number: int) -> str:
    """Read out 1 to 9,999: 25 is twenty-five, 105 is one hundred and five."""
    if number < 20:
        return ENGLISH_BELOW_TWENTY[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS_EN[tens] + (f"-{ENGLISH_BELOW_TWENTY[ones]}" if ones else "")
    size, unit, link = (1000, "thousand", " ") if number >= 1000 else (100, "hundred", " and ")
    head, rest = divmod(number, size)
    return f"{english_number(head)} {unit}" + (link + english_number(rest) if rest else "")


def _ordinal(number: int) -> str:
    lead, dash, last = english_number(number).rpartition("-")
    return lead + dash + _ORDINALS.get(last, last + "th")


def _measured(number: int) -> str:
    """The number before a measure word, where two is 两."""
    return "两" if number == 2 else chinese_number(number)


# --- builders: one per part of speech ------------------------------------------------------------------------------


def word(zh: str, en: str, tags: str = "") -> Word:
    """A word that never changes."""
    return Word({"": zh}, {"": en}, frozenset(tags.split()))


def noun(zh: str, measure: str, en: str, tags: str, unit: str = "") -> Word:
    """A thing. With a `unit` the English counts in that: milk and glass give `a glass of milk`.

    Forms: "" (as a kind of thing: books, milk), `a`, `this`, `that`, `counted` (after a number), `many` (after "how
    many"), `the` and `head` (the bare noun), `some` and `one` (what stands before an adjective), `measure`.
    """
    singular = f"{unit} of {en}" if unit else en
    many = f"{plural(unit)} of {en}" if unit else plural(en)
    return Word(
        zh={
            "": zh,
            "a": f"一{measure}{zh}",
            "this": f"这{measure}{zh}",
            "that": f"那{measure}{zh}",
            "counted": measure + zh,
            "the": zh,
            "one": f"一{measure}",
            "measure": measure,
        },
        en={
            "": en if unit else many,
            "a": f"a {singular}",
            "this": f"this {singular}",
            "that": f"that {singular}",
            "counted": many,
            "the": f"the {en}",
            "head": en,
            "only": f"one {singular}",
            "any": f"any {en}" if unit else f"a {en}",
            "some": f"a {unit} of" if unit else "a",
        },
        tags=frozenset(tags.split()) | (set() if unit else {"single"}),
    )


def verb(zh: str, en: str) -> Word:
    """A verb with an object; the objects are tagged with its English base form."""
    return Word({"": zh}, verb_forms(en), frozenset([en]))


def activity(zh: str, en: str, tags: str = "") -> Word:
    """Something that people do. The bar is where Chinese splits it: 游|泳 gives 游了一个小时泳."""
    head, _, rest = zh.partition("|")
    return Word({"": head + rest, "head": head, "rest": rest}, verb_forms(en), frozenset(tags.split()))


def place(zh: str, measure: str, en: str, tags: str, at: str) -> Word:
    """Somewhere to be (`at`) and to go (`to`); `at_a` is one of several."""
    return Word(
        {"": zh, "a": f"一{measure}{zh}"},
        {"": f"the {en}", "at": f"{at} the {en}", "to": f"to the {en}", "a": f"a {en}", "at_a": f"{at} a {en}"},
        frozenset(tags.split()),
    )


def adjective(zh: str, en: str, tags: str, er: str = "", not_zh: str = "") -> Word:
    """A quality. `er` is its comparative where that is not `more ...`; `not_zh` its negation where that is not 不."""
    est = IRREGULAR_SUPERLATIVES.get(er, er[:-2] + "est") if er else f"most {en}"
    growing = f"{er} and {er}" if er else f"more and more {en}"
    return Word(
        {"": zh, "not": not_zh or f"不{zh}"},
        {"": en, "er": er or f"more {en}", "est": est, "growing": growing},
        frozenset(tags.split()),
    )


_OWN = {"I": "my", "you": "your", "he": "his", "she": "her", "we": "our", "they": "their"}


def _pronoun(zh: str, subject: str, him: str, mine: str, agrees: str, tags: str) -> Word:
    own = _OWN[subject]
    return Word(
        {"": zh, "his": zh + "的", "he": zh, "own": zh + "的"},
        {"": subject, "him": him, "his": own, "mine": mine, "he": subject, "own": own},
        frozenset(tags.split()),
        agrees,
    )


def _person(zh: str, en: str, tags: str, he: str = "", agrees: str = "3") -> Word:
    """Anyone who is not a pronoun; `he` is the English pronoun that takes up the thread, where Chinese tells it."""
    theirs = en + ("'" if en.endswith("s") else "'s")
    forms_zh, forms_en = {"": zh, "his": zh + "的"}, {"": en, "him": en, "his": theirs, "mine": theirs}
    if he:
        pronoun = {"he": "他", "she": "她", "they": "他们"}[he]
        forms_zh |= {"he": pronoun, "own": pronoun + "的"}
        forms_en |= {"he": he, "own": _OWN[he]}
    return Word(forms_zh, forms_en, frozenset(tags.split()), agrees)


# --- people --------------------------------------------------------------------------------------------------------
# Tags of a pronoun that start with a capital letter say whom it includes: nobody is compared with a group he is in.

I = _pronoun("我", "I", "me", "mine", "1", "First adult grown")  # noqa: E741  (the word is its own name)
WE = _pronoun("我们", "we", "us", "ours", "2", "First")
YOU = _pronoun("你", "you", "you", "yours", "2", "Second adult grown")
YOU_ALL = _pronoun("你们", "you", "you", "yours", "2", "Second")
HE = _pronoun("他", "he", "him", "his", "3", "Male adult grown")
SHE = _pronoun("她", "she", "her", "hers", "3", "Female adult grown")
THEY = _pronoun("他们", "they", "them", "theirs", "2", "Male Female")

NAMES = [
    _person("小明", "Xiaoming", "young pupil", "he"),
    _person("小红", "Xiaohong", "young pupil", "she"),
    _person("小丽", "Xiaoli", "young pupil", "she"),
    _person("王先生", "Mr. Wang", "adult parent", "he"),
    _person("李女士", "Ms. Li", "adult parent", "she"),
    _person("张先生", "Mr. Zhang", "adult parent", "he"),
    _person("汤姆", "Tom", "adult grown", "he"),
    _person("玛丽", "Mary", "adult grown", "she"),
    _person("大卫", "David", "adult grown", "he"),
    _person("安娜", "Anna", "adult grown", "she"),
    _person("杰克", "Jack", "young pupil", "he"),
    _person("露西", "Lucy", "young pupil", "she"),
]

_OWNERS = [("我", "my"), ("你", "your"), ("他", "his"), ("她", "her")]
_KIN = [
    ("爸爸", "father", "adult parent", "he"),
    ("妈妈", "mother", "adult parent", "she"),
    ("哥哥", "older brother", "adult grown", "he"),
    ("姐姐", "older sister", "adult grown", "she"),
    ("弟弟", "younger brother", "young pupil", "he"),
    ("妹妹", "younger sister", "young pupil", "she"),
    ("叔叔", "uncle", "adult parent", "he"),
    ("阿姨", "aunt", "adult parent", "she"),
    ("朋友", "friend", "adult friend", ""),
    ("同事", "coworker", "adult friend", ""),
]
KIN = {zh_owner: [_person(zh_owner + zh, f"{en_owner} {en}", tags, he) for zh, en, tags, he in _KIN]
       for zh_owner, en_owner in _OWNERS}  # fmt: skip
ELDERS = [
    _person(zh_owner + zh, f"{en_owner} {en}", "elder", he)
    for zh_owner, en_owner in _OWNERS
    for zh, en, he in (("爷爷", "grandfather", "he"), ("奶奶", "grandmother", "she"))
    if zh_owner != "你"
]
ROLES = [
    _person("老师", "the teacher", "adult parent"),
    _person("经理", "the manager", "adult parent"),
    _person("那个男孩", "that boy", "young pupil", "he"),
    _person("那个女孩", "that girl", "young pupil", "she"),
    _person("孩子们", "the children", "young", "they", "2"),
    _person("学生们", "the students", "", "they", "2"),
]

_TOLD = [*KIN["我"], *KIN["他"], *KIN["她"]]
_ASKED = [*KIN["你"], *KIN["你"], *KIN["他"], *KIN["她"]]
# `not-young` on anything keeps it from a subject tagged `young`, and so for the other ages.
# A pool is drawn from evenly, so the frequent words stand in it several times.
TOLD_OF = [*[I, WE, HE, SHE, THEY] * 8, *NAMES * 2, *_TOLD, *ROLES * 2]
ASKED_OF = [*[YOU] * 16, *[YOU_ALL, HE, SHE, THEY] * 6, *NAMES, *_ASKED, *ROLES]
GENDERED = [person for person in TOLD_OF if "own" in person.zh]
ADULTS = [person for person in TOLD_OF if "adult" in person.tags]

RELATIVES = [  # someone's, as a word of its own: two older brothers
    noun("哥哥", "个", "older brother", ""),
    noun("姐姐", "个", "older sister", ""),
    noun("弟弟", "个", "younger brother", ""),
    noun("妹妹", "个", "younger sister", ""),
]

JOBS = [
    noun(zh, "名", en, tags)
    for zh, en, tags in (
        ("老师", "teacher", "school university"),
        ("医生", "doctor", "hospital"),
        ("护士", "nurse", "hospital"),
        ("司机", "driver", ""),
        ("警察", "police officer", ""),
        ("工程师", "engineer", "factory company"),
        ("律师", "lawyer", ""),
        ("厨师", "cook", "restaurant hotel"),
        ("服务员", "waiter", "restaurant cafe"),
        ("演员", "actor", ""),
        ("歌手", "singer", ""),
        ("记者", "journalist", ""),
        ("作家", "writer", ""),
        ("画家", "artist", ""),
        ("科学家", "scientist", "university"),
        ("会计", "accountant", "bank company"),
        ("经理", "manager", "bank hotel company"),
        ("农民", "farmer", ""),
        ("导游", "tour guide", "museum"),
        ("工人", "worker", "factory"),
    )
]

# --- things --------------------------------------------------------------------------------------------------------
# Tags: verbs that take the thing; qualities it can have; how dear it is (cheap, fair, dear: see PRICES); where it lies
# (small, cold, pet: see SPOTS).

NOUNS = [
    # to read, watch and hear
    noun("书", "本", "book", "read buy borrow lend bring own interest price new heavy cheap small lost gift"),
    noun("小说", "本", "novel", "read buy borrow lend own interest price length cheap small gift"),
    noun("杂志", "本", "magazine", "read buy borrow interest price cheap small"),
    noun("词典", "本", "dictionary", "buy borrow lend bring own need price new use heavy fair small gift"),
    noun("报纸", "份", "newspaper", "read buy small"),
    noun("信", "封", "letter", "read write length small"),
    noun("文章", "篇", "article", "read write interest length hard"),
    noun("报告", "份", "report", "read write length hard"),
    noun("诗", "首", "poem", "read write interest length"),
    noun("地图", "张", "map", "buy borrow draw bring need own use price cheap small new"),
    noun("电影", "部", "movie", "watch interest length"),
    noun("纪录片", "部", "documentary", "watch interest length"),
    noun("足球比赛", "场", "soccer game", "watch interest"),
    noun("歌", "首", "song", "sing listen length catchy"),
    noun("画", "幅", "painting", "buy own price look gift"),
    noun("照片", "张", "photo", "look small"),
    # to eat and drink
    noun("苹果", "个", "apple", "eat buy taste sweet fresh size cold fruit"),
    noun("香蕉", "根", "banana", "eat buy taste sweet fresh cold fruit"),
    noun("橙子", "个", "orange", "eat buy taste sweet fresh size cold fruit"),
    noun("桃子", "个", "peach", "eat buy taste sweet fresh size cold fruit"),
    noun("梨", "个", "pear", "eat buy taste sweet fresh size cold fruit"),
    noun("西瓜", "个", "watermelon", "buy taste sweet fresh size heavy cold"),
    noun("葡萄", "串", "grapes", "eat buy taste sweet fresh fruit cold", "bunch"),
    noun("鸡蛋", "个", "egg", "eat fresh cold"),
    noun("面包", "片", "bread", "eat taste fresh", "slice"),
    noun("蛋糕", "块", "cake", "eat taste sweet fresh cold cheap", "piece"),
    noun("巧克力", "块", "chocolate", "eat taste sweet", "piece"),
    noun("三明治", "个", "sandwich", "eat make buy taste fresh price cold cheap"),
    noun("汉堡", "个", "hamburger", "eat make buy taste price size cheap"),
    noun("披萨", "块", "pizza", "eat taste cold", "slice"),
    noun("沙拉", "盘", "salad", "eat make taste fresh price cheap", "plate"),
    noun("饼干", "块", "cookie", "eat taste sweet"),
    noun("冰淇淋", "杯", "ice cream", "eat buy taste sweet price cheap", "cup"),
    noun("饺子", "盘", "dumplings", "eat make taste price cheap", "plate"),
    noun("面条", "碗", "noodles", "eat make taste spicy price cheap", "bowl"),
    noun("米饭", "碗", "rice", "eat", "bowl"),
    noun("汤", "碗", "soup", "drink make savor spicy hot", "bowl"),
    noun("水", "杯", "water", "drink sip hot", "glass"),
    noun("牛奶", "杯", "milk", "drink sip savor hot fresh", "glass"),
    noun("茶", "杯", "tea", "drink sip savor hot", "cup"),
    noun("绿茶", "杯", "green tea", "drink sip savor hot", "cup"),
    noun("咖啡", "杯", "coffee", "not-young drink sip savor hot price cheap", "cup"),
    noun("橙汁", "杯", "orange juice", "drink sip savor sweet fresh cold", "glass"),
    noun("可乐", "瓶", "cola", "drink sip buy cold", "bottle"),
    noun("啤酒", "瓶", "beer", "not-young drink sip buy cold", "bottle"),
    # to wear
    noun("衬衫", "件", "shirt", "wear buy wash own look price new comfort clean size fair man"),
    noun("毛衣", "件", "sweater", "wear buy wash own need look price new comfort size fair man gift"),
    noun("外套", "件", "jacket", "wear buy wash own need look price new comfort size fair man bring lost"),
    noun("大衣", "件", "coat", "wear buy own need look price new comfort size heavy dear man"),
    noun("裙子", "条", "skirt", "wear buy wash look price new comfort size length fair"),
    noun("连衣裙", "条", "dress", "wear buy wash look price new comfort size fair"),
    noun("裤子", "条", "pants", "wear buy wash need look price new comfort size length clean fair man", "pair"),
    noun("牛仔裤", "条", "jeans", "wear buy wash look price new comfort size clean fair man", "pair"),
    noun("鞋", "双", "shoes", "wear buy wash need look price new comfort size clean fair man", "pair"),
    noun("袜子", "双", "socks", "buy wash need price new clean comfort cheap", "pair"),
    noun("手套", "双", "gloves", "buy need price new comfort cheap gift", "pair"),
    noun("帽子", "顶", "hat", "wear buy own look price new size cheap man small gift lost lend"),
    noun("围巾", "条", "scarf", "wear buy wash own look price new comfort length cheap man gift"),
    noun("领带", "条", "tie", "buy own look price new cheap gift"),
    # to have and use
    noun("手机", "部", "phone", "buy sell fix use own need lost look price new dear small gift"),
    noun("电脑", "台", "computer", "buy sell fix use borrow own need price new speed heavy dear"),
    noun("相机", "台", "camera", "buy sell fix use borrow lend bring own need lost price new heavy dear small gift"),
    noun("手表", "块", "watch", "buy fix own lost look price new fair small gift"),
    noun("雨伞", "把", "umbrella", "buy borrow lend bring own need lost look price new size cheap small"),
    noun("包", "个", "bag", "buy own need lost look price new size heavy fair small gift"),
    noun("书包", "个", "backpack", "buy own need look price new size heavy fair gift"),
    noun("钱包", "个", "wallet", "buy own lost look price new fair small gift"),
    noun("钥匙", "把", "key", "lost small"),
    noun("眼镜", "副", "glasses", "buy need look price new fair", "pair"),
    noun("护照", "本", "passport", "bring own need lost small"),
    noun("票", "张", "ticket", "buy need lost price small"),
    noun("笔", "支", "pen", "buy borrow lend bring use own need lost price new cheap small gift"),
    noun("铅笔", "支", "pencil", "buy borrow lend bring use own need small price"),
    noun("杯子", "个", "cup", "buy wash own need look price new size clean cheap small gift"),
    noun("盘子", "个", "plate", "buy wash need look price new size clean cheap"),
    noun("椅子", "把", "chair", "buy fix need look price new comfort heavy fair"),
    noun("桌子", "张", "table", "not-young buy fix need look price new size heavy clean dear"),
    noun("床", "张", "bed", "not-young buy need price new size comfort dear"),
    noun("沙发", "张", "sofa", "not-young buy sell need look price new size comfort heavy dear"),
    noun("冰箱", "台", "refrigerator", "not-young buy sell fix need price new size heavy dear"),
    noun("洗衣机", "台", "washing machine", "not-young buy sell fix use need price new heavy dear"),
    noun("灯", "盏", "lamp", "buy fix need look price new fair"),
    noun("自行车", "辆", "bike", "buy sell fix borrow wash own need lost look price new speed dear lend"),
    noun("车", "辆", "car", "not-young buy sell fix borrow wash own need look new size speed comfort clean price lend"),
    noun("摩托车", "辆", "motorcycle", "not-young buy sell fix own look price new speed dear"),
    noun("行李箱", "个", "suitcase", "buy borrow lend own need lost look price new size heavy fair"),
    noun("吉他", "把", "guitar", "buy sell fix borrow own look price new dear"),
    noun("玩具", "个", "toy", "buy make fix interest price new cheap small gift"),
    noun("花", "束", "flowers", "buy look fresh price fair gift", "bunch"),
    # animals
    noun("猫", "只", "cat", "own draw cute size pet"),
    noun("狗", "只", "dog", "own draw wash cute smart size pet"),
    noun("兔子", "只", "rabbit", "own draw cute size pet"),
    noun("鸟", "只", "bird", "own draw cute size look pet"),
    noun("马", "匹", "horse", "draw look size zoo"),
    noun("熊猫", "只", "panda", "draw cute size zoo"),
    noun("老虎", "只", "tiger", "draw size look zoo"),
    noun("猴子", "只", "monkey", "draw cute smart size zoo"),
    noun("大象", "头", "elephant", "draw cute smart zoo"),
    noun("羊", "只", "sheep", "draw cute size zoo"),
]

VERBS = [
    verb("看", "read"),
    verb("看", "watch"),
    verb("吃", "eat"),
    verb("喝", "drink"),
    verb("买", "buy"),
    verb("写", "write"),
    verb("画", "draw"),
    verb("做", "make"),
    verb("洗", "wash"),
    verb("修", "fix"),
    verb("借", "borrow"),
    verb("卖", "sell"),
    verb("唱", "sing"),
    Word({"": "听"}, verb_forms("listen to") | {"done": "heard"}, frozenset(["listen"])),
]
SPOTS = [
    word("桌子上", "on the table", "small"),
    word("床上", "on the bed", "small"),
    word("沙发上", "on the sofa", "small pet"),
    word("椅子上", "on the chair", "small pet"),
    word("书架上", "on the bookshelf", "small"),
    word("抽屉里", "in the drawer", "small"),
    word("车里", "in the car", "small"),
    word("床下面", "under the bed", "pet"),
    word("桌子下面", "under the table", "pet"),
    word("门后面", "behind the door", "pet"),
    word("树下", "under the tree", "pet"),
    word("花园里", "in the garden", "pet"),
    word("冰箱里", "in the refrigerator", "cold"),
    word("厨房里", "in the kitchen", "cold"),
    word("动物园里", "in the zoo", "zoo"),
]

# --- qualities -----------------------------------------------------------------------------------------------------

QUALITIES = [
    adjective("贵", "expensive", "price"),
    adjective("便宜", "cheap", "price", "cheaper"),
    adjective("漂亮", "beautiful", "look"),
    adjective("大", "big", "size", "bigger"),
    adjective("小", "small", "size", "smaller"),
    adjective("重", "heavy", "heavy", "heavier"),
    adjective("轻", "light", "heavy", "lighter"),
    adjective("新", "new", "new", "newer"),
    adjective("旧", "old", "new", "older"),
    adjective("好吃", "tasty", "taste", "tastier"),
    adjective("好喝", "tasty", "savor", "tastier"),
    adjective("好听", "lovely", "catchy", "lovelier"),
    adjective("甜", "sweet", "sweet", "sweeter"),
    adjective("辣", "spicy", "spicy", "spicier"),
    adjective("热", "hot", "hot", "hotter"),
    adjective("新鲜", "fresh", "fresh", "fresher"),
    adjective("有意思", "interesting", "interest", not_zh="没有意思"),
    adjective("无聊", "boring", "interest"),
    adjective("难", "difficult", "hard"),
    adjective("容易", "easy", "hard", "easier"),
    adjective("长", "long", "length", "longer"),
    adjective("短", "short", "length", "shorter"),
    adjective("干净", "clean", "clean", "cleaner"),
    adjective("脏", "dirty", "clean", "dirtier"),
    adjective("舒服", "comfortable", "comfort"),
    adjective("有用", "useful", "use", not_zh="没有用"),
    adjective("快", "fast", "speed", "faster"),
    adjective("可爱", "cute", "cute", "cuter"),
    adjective("聪明", "smart", "smart", "smarter"),
]
# Both halves of "not only ... but also": all of them good, each about something else.
PRAISE = [
    quality
    for quality in QUALITIES
    if quality.zh[""]
    in [
        "便宜",
        "漂亮",
        "轻",
        "好吃",
        "好喝",
        "甜",
        "新鲜",
        "有意思",
        "容易",
        "干净",
        "舒服",
        "有用",
        "快",
        "可爱",
        "聪明",
    ]
]
TRAITS = [  # of people, and lasting
    adjective("高", "tall", "", "taller"),
    adjective("聪明", "smart", "", "smarter"),
    adjective("忙", "busy", "", "busier"),
    adjective("瘦", "thin", "", "thinner"),
    adjective("努力", "hardworking", ""),
    adjective("认真", "serious", ""),
    adjective("有耐心", "patient", "", not_zh="没有耐心"),
    adjective("勇敢", "brave", "", "braver"),
    adjective("善良", "kind", "", "kinder"),
    adjective("细心", "careful", ""),
    adjective("幽默", "humorous", ""),
    adjective("安静", "quiet", "", "quieter"),
    adjective("健康", "healthy", "", "healthier"),
]
STATES = [  # of people, and passing; `away`: keeps one from going out
    adjective("累", "tired", "away"),
    adjective("忙", "busy", "away"),
    adjective("困", "sleepy", "away"),
    adjective("饿", "hungry", ""),
    adjective("渴", "thirsty", ""),
    adjective("高兴", "happy", ""),
    adjective("难过", "sad", "away"),
    adjective("生气", "angry", ""),
    adjective("紧张", "nervous", ""),
    adjective("激动", "excited", ""),
    adjective("担心", "worried", ""),
]
AILMENTS = [
    word("头疼", "a headache"),
    word("肚子疼", "a stomachache"),
    word("牙疼", "a toothache"),
    word("嗓子疼", "a sore throat"),
    word("背疼", "a backache"),
    word("感冒了", "a cold"),
    word("发烧了", "a fever"),
    word("咳嗽了", "a cough"),
]
CITY_QUALITIES = [
    word("漂亮", "beautiful"),
    word("大", "big"),
    word("干净", "clean"),
    word("热闹", "lively"),
    word("现代", "modern"),
    word("有名", "famous"),
    word("安静", "quiet"),
]
COLORS = [
    word("红色", "red"),
    word("蓝色", "blue"),
    word("白色", "white"),
    word("黑色", "black"),
    word("绿色", "green"),
    word("黄色", "yellow"),
    word("灰色", "gray"),
    word("粉色", "pink"),
    word("紫色", "purple"),
    word("棕色", "brown"),
    word("橙色", "orange"),
]

# --- what people do ------------------------------------------------------------------------------------------------
# Tags: where it is done (see PLACES); skill (one can or cannot); long (for two hours); times (twice a week);
# chore (one can be asked to help); duty (must be done); home.

ACTIVITIES = [
    activity("看|电视", "watch TV", "home long hobby rest"),
    activity("看|书", "read", "home library cafe long hobby"),
    activity("听|音乐", "listen to music", "home long hobby rest"),
    activity("玩|电脑游戏", "play computer games", "home long hobby"),
    activity("写|作业", "do homework", "home library classroom long duty not-parent"),
    activity("做|饭", "cook", "home skill chore duty hobby"),
    activity("洗|碗", "wash the dishes", "home chore duty"),
    activity("洗|衣服", "do the laundry", "home chore duty"),
    activity("打扫|房间", "clean the room", "home chore duty"),
    activity("浇|花", "water the flowers", "home garden chore"),
    activity("种|花", "plant flowers", "garden hobby gentle"),
    activity("喝|咖啡", "drink coffee", "cafe home office not-young"),
    activity("喝|茶", "drink tea", "home office gentle rest"),
    activity("看|报纸", "read the newspaper", "home office library gentle rest"),
    activity("打|篮球", "play basketball", "gym field school skill long times hobby out"),
    activity("踢|足球", "play soccer", "field school skill long times hobby out"),
    activity("打|网球", "play tennis", "gym park skill long times hobby out"),
    activity("打|乒乓球", "play table tennis", "gym school skill long times hobby out"),
    activity("打|羽毛球", "play badminton", "gym park skill long times hobby out"),
    activity("打|排球", "play volleyball", "gym beach skill long times hobby out"),
    activity("游|泳", "swim", "pool beach skill long times hobby out"),
    activity("跑|步", "run", "park field river long times hobby out"),
    activity("滑|冰", "skate", "gym skill long times hobby out"),
    activity("骑|自行车", "ride a bike", "park river skill long hobby out"),
    activity("散|步", "go for a walk", "park river beach square garden hobby gentle out"),
    activity("爬|山", "go hiking", "times hobby out gentle"),
    activity("钓|鱼", "go fishing", "river times hobby out gentle"),
    activity("跳|舞", "dance", "park square home skill long times hobby gentle"),
    activity("唱|歌", "sing", "park home skill long hobby"),
    activity("弹|钢琴", "play the piano", "home school skill long times hobby"),
    activity("弹|吉他", "play the guitar", "home park skill long times hobby"),
    activity("拉|小提琴", "play the violin", "home school skill long times hobby"),
    activity("画|画", "paint", "park home garden skill long times hobby"),
    activity("拍|照", "take photos", "park square zoo beach hobby out"),
    activity("聊|天", "chat", "cafe park office square long hobby gentle rest"),
    activity("上|网", "surf the Internet", "home library cafe long hobby"),
    activity("下|棋", "play chess", "park home skill long times hobby gentle"),
    activity("打|太极拳", "do tai chi", "park square skill gentle"),
    activity("练|书法", "practice calligraphy", "home school long times hobby gentle"),
    activity("学习|", "study", "library classroom home school cafe long duty"),
    activity("学|中文", "study Chinese", "library home school university long times duty"),
    activity("学|英语", "study English", "library home school university long times duty"),
    activity("复习|功课", "review the lessons", "library home classroom duty not-parent"),
    activity("准备|考试", "prepare for the exam", "library home classroom duty not-parent"),
    activity("工作|", "work", "office home company long duty not-young"),
    activity("开|会", "have a meeting", "office company meeting long times duty not-young"),
    activity("上|课", "attend class", "school classroom university duty not-parent"),
    activity("看|电影", "watch a movie", "theater home times hobby out"),
    activity("吃|饭", "have a meal", "restaurant cafeteria home"),
    activity("锻炼|身体", "exercise", "park gym hobby times"),
    activity("休息|", "rest", "home office park long"),
    activity("等|车", "wait for the bus", "stop long"),
    activity("买|菜", "buy groceries", "supermarket market duty chore"),
    activity("买|衣服", "buy clothes", "mall hobby"),
    activity("睡|觉", "sleep", "long"),
]
MEALS = [
    activity("吃|早饭", "have breakfast", "morning"),
    activity("吃|午饭", "have lunch", "noon"),
    activity("吃|晚饭", "have dinner", "evening"),
]
ROUTINES = [
    *MEALS,
    activity("起床", "get up", "morning"),
    activity("出门", "leave home", "morning"),
    activity("上班", "go to work", "morning adult"),
    activity("下班", "get off work", "evening adult"),
    activity("上学", "go to school", "morning pupil"),
    activity("放学", "finish school", "afternoon pupil"),
    activity("回家", "go home", "evening"),
    activity("睡觉", "go to bed", "night"),
]
ERRANDS = [
    activity("去超市买水果", "go to the supermarket to buy fruit"),
    activity("去超市买牛奶", "go to the supermarket to buy milk"),
    activity("去市场买鱼", "go to the market to buy fish"),
    activity("去银行取钱", "go to the bank to withdraw money", "not-young"),
    activity("去邮局寄信", "go to the post office to mail a letter"),
    activity("去药店买药", "go to the pharmacy to buy medicine"),
    activity("去机场接朋友", "go to the airport to meet a friend", "not-young"),
    activity("去火车站买票", "go to the train station to buy a ticket"),
    activity("去医院看病", "go to the hospital to see a doctor"),
    activity("去书店买书", "go to the bookstore to buy books"),
    activity("去图书馆还书", "go to the library to return the books"),
    activity("去博物馆看展览", "go to the museum to see an exhibition"),
    activity("去动物园看熊猫", "go to the zoo to see the pandas"),
    activity("去公园散步", "go to the park to go for a walk"),
    activity("去电影院看电影", "go to the movie theater to watch a movie"),
    activity("去图书馆看书", "go to the library to read"),
    activity("去咖啡馆见朋友", "go to the cafe to meet a friend"),
    activity("去面包店买蛋糕", "go to the bakery to buy a cake"),
]
ADVICE = [  # cure: good for someone who is ill
    activity("多喝水", "drink more water", "cure"),
    activity("多休息", "rest more", "cure"),
    activity("多运动", "exercise more"),
    activity("多吃水果", "eat more fruit", "cure"),
    activity("多吃蔬菜", "eat more vegetables"),
    activity("少喝咖啡", "drink less coffee"),
    activity("少吃糖", "eat less sugar"),
    activity("少看电视", "watch less TV"),
    activity("早点儿睡觉", "go to bed earlier", "cure"),
    activity("早点儿起床", "get up earlier"),
    activity("按时吃饭", "eat on time"),
    activity("好好休息", "rest well", "cure"),
    activity("好好学习", "study hard"),
]
REQUESTS = [
    word("坐下", "sit down"),
    word("把门关上", "close the door"),
    word("把门打开", "open the door"),
    word("把窗户关上", "close the window"),
    word("把窗户打开", "open the window"),
    word("把灯关了", "turn off the light"),
    word("把灯打开", "turn on the light"),
    word("把电视关了", "turn off the TV"),
    word("等一下", "wait a moment"),
    word("说慢一点儿", "speak more slowly"),
    word("再说一遍", "say it again"),
    word("开慢一点儿", "drive more slowly", "not-young"),
    word("安静一点儿", "be quieter"),
    word("早点儿来", "come early"),
    word("在这里等我", "wait for me here"),
    word("在这里写名字", "write your name here"),
    word("给我打电话", "call me"),
    word("跟我来", "come with me"),
    word("告诉我时间", "tell me the time"),
    word("把手机关了", "turn off your phone"),
    word("看黑板", "look at the blackboard"),
    word("听我说", "listen to me"),
]
PROHIBITIONS = [
    word("在图书馆里说话", "talk in the library"),
    word("在教室里跑", "run in the classroom"),
    word("在教室里吃东西", "eat in the classroom"),
    word("在这里抽烟", "smoke here", "not-young"),
    word("在这里停车", "park here", "not-young"),
    word("在床上吃东西", "eat in bed"),
    word("在地铁上吃东西", "eat on the subway"),
    word("在河里游泳", "swim in the river"),
    word("在路上玩", "play on the road"),
    word("迟到", "be late"),
    word("担心", "worry"),
    word("哭", "cry"),
    word("生气", "be angry"),
    word("着急", "be anxious"),
    word("害怕", "be afraid"),
    word("忘记带护照", "forget to bring your passport"),
    word("忘记带雨伞", "forget to bring your umbrella"),
    word("忘记关灯", "forget to turn off the light"),
    word("忘记锁门", "forget to lock the door"),
    word("喝太多咖啡", "drink too much coffee", "not-young"),
    word("吃太多糖", "eat too much sugar"),
    word("开得太快", "drive too fast", "not-young"),
    word("睡得太晚", "go to bed too late"),
]
PASTIMES = [  # done with half one's attention, the other half going to one of CHORES
    activity("听音乐", "listen to music", "hands mouth head"),
    activity("听新闻", "listen to the news", "hands mouth"),
    activity("看电视", "watch TV", "hands mouth head"),
    activity("唱歌", "sing", "hands"),
    activity("聊天", "chat", "hands mouth"),
]
CHORES = [
    activity("做饭", "cook", "hands"),
    activity("洗碗", "wash the dishes", "hands"),
    activity("打扫房间", "clean the room", "hands"),
    activity("洗衣服", "do the laundry", "hands"),
    activity("画画", "paint", "hands"),
    activity("吃早饭", "have breakfast", "mouth"),
    activity("吃晚饭", "have dinner", "mouth"),
    activity("喝咖啡", "drink coffee", "mouth not-young"),
    activity("写作业", "do homework", "head not-parent"),
]
MANNERS = [  # how well someone does something: the Chinese says the verb twice where it has an object
    activity("跑", "run", "fast"),
    activity("走", "walk", "fast"),
    activity("游", "swim", "fast well"),
    activity("吃", "eat", "fast"),
    activity("开车开", "drive", "fast well not-young"),
    activity("写字写", "write", "fast well"),
    activity("说话说", "talk", "fast"),
    activity("唱", "sing", "well"),
    activity("跳舞跳", "dance", "well"),
    activity("画", "paint", "well"),
    activity("做饭做", "cook", "well"),
    activity("打篮球打", "play basketball", "well"),
    activity("踢足球踢", "play soccer", "well"),
    activity("弹钢琴弹", "play the piano", "well"),
    activity("睡", "sleep", "well"),
    activity("起", "get up", "early"),
    activity("来", "arrive", "early"),
]
ADVERBS = [
    adjective("快", "fast", "fast", "faster"),
    adjective("慢", "slowly", "fast"),
    adjective("好", "well", "well", "better"),
    adjective("早", "early", "early", "earlier"),
    adjective("晚", "late", "early", "later"),
]
FREQUENCIES = [word("经常", "often"), word("总是", "always"), word("有时候", "sometimes"), word("很少", "rarely")]
# Verbs that a template names itself.
FUNCTION_VERBS = {
    base: Word({}, verb_forms(base))
    for base in [
        "come",
        "do",
        "get",
        "go",
        "have",
        "hope",
        "know",
        "like",
        "live",
        "look",
        "need",
        "plan",
        "say",
        "speak",
        "study",
        "teach",
        "think",
        "want",
        "work",
    ]
}
FUNCTION_VERBS["be"] = Word(
    {},
    {"": "be", "ing": "being", "done": "been", "now1": "am", "now2": "are", "now3": "is"}
    | {"past1": "was", "past2": "were", "past3": "was", "not1": "am not", "not2": "aren't", "not3": "isn't"},
)
FUNCTION_VERBS["do"].en.update({"not1": "don't", "not2": "don't", "not3": "doesn't"})
FUNCTION_VERBS["have"].en.update({"not1": "haven't", "not2": "haven't", "not3": "hasn't"})

# --- where ---------------------------------------------------------------------------------------------------------

PLACES = [
    place("公园", "个", "park", "park town", "in"),
    place("图书馆", "个", "library", "library town goal", "in"),
    place("办公室", "个", "office", "office not-elder", "in"),
    place("教室", "个", "classroom", "classroom", "in"),
    place("会议室", "个", "meeting room", "meeting", "in"),
    place("体育馆", "个", "gym", "gym town", "in"),
    place("操场", "个", "sports field", "field", "on"),
    place("游泳池", "个", "swimming pool", "pool", "in"),
    place("海边", "个", "beach", "beach", "at"),
    place("河边", "个", "river", "river", "by"),
    place("花园", "个", "garden", "garden", "in"),
    place("广场", "个", "square", "square", "in"),
    place("电影院", "家", "movie theater", "theater town", "at"),
    place("咖啡馆", "家", "cafe", "cafe town goal", "at"),
    place("饭馆", "家", "restaurant", "restaurant town goal job", "at"),
    place("食堂", "个", "cafeteria", "cafeteria", "in"),
    place("超市", "家", "supermarket", "supermarket town goal job", "at"),
    place("市场", "个", "market", "market town goal", "at"),
    place("商场", "家", "mall", "mall town goal job", "at"),
    place("书店", "家", "bookstore", "town goal job", "at"),
    place("面包店", "家", "bakery", "town goal job", "at"),
    place("药店", "家", "pharmacy", "town goal job", "at"),
    place("医院", "家", "hospital", "hospital town goal job", "at"),
    place("银行", "家", "bank", "bank town goal job", "at"),
    place("邮局", "家", "post office", "town goal job", "at"),
    place("宾馆", "家", "hotel", "hotel town job", "at"),
    place("机场", "个", "airport", "town goal job", "at"),
    place("火车站", "个", "train station", "town goal job", "at"),
    place("公交车站", "个", "bus stop", "stop town goal", "at"),
    place("博物馆", "个", "museum", "museum town goal job", "at"),
    place("动物园", "个", "zoo", "zoo town goal job", "at"),
    place("大学", "所", "university", "university town job", "at"),
    place("工厂", "家", "factory", "factory job", "in"),
    place("公司", "家", "company", "company", "at"),
    Word(
        {"": "学校"}, {"": "the school", "at": "at school", "to": "to school", "a": "a school"}, frozenset({"school"})
    ),
    Word({"": "家"}, {"": "home", "at": "at home", "to": "home"}, frozenset({"home"})),
]
NEARNESS = [
    word("旁边", "next to"),
    word("对面", "across from"),
    word("后面", "behind"),
    word("前面", "in front of"),
    word("附近", "near"),
]
CITIES = [
    word(zh, en, tags)
    for zh, en, tags in (
        ("北京", "Beijing", "home rail"),
        ("上海", "Shanghai", "home rail"),
        ("广州", "Guangzhou", "home rail"),
        ("杭州", "Hangzhou", "home rail"),
        ("西安", "Xi'an", "home rail"),
        ("成都", "Chengdu", "home rail"),
        ("南京", "Nanjing", "home rail"),
        ("武汉", "Wuhan", "home rail"),
        ("青岛", "Qingdao", "home rail"),
        ("巴黎", "Paris", ""),
        ("伦敦", "London", ""),
        ("纽约", "New York", ""),
        ("东京", "Tokyo", ""),
        ("柏林", "Berlin", ""),
        ("罗马", "Rome", ""),
        ("悉尼", "Sydney", ""),
    )
]
COUNTRIES = [
    word("中国", "China"),
    word("美国", "the United States"),
    word("英国", "the United Kingdom"),
    word("法国", "France"),
    word("德国", "Germany"),
    word("日本", "Japan"),
    word("韩国", "South Korea"),
    word("西班牙", "Spain"),
    word("意大利", "Italy"),
    word("俄罗斯", "Russia"),
    word("加拿大", "Canada"),
    word("澳大利亚", "Australia"),
    word("印度", "India"),
]
LANGUAGES = [
    word("中文", "Chinese"),
    word("英语", "English"),
    word("法语", "French"),
    word("德语", "German"),
    word("日语", "Japanese"),
    word("韩语", "Korean"),
    word("西班牙语", "Spanish"),
    word("俄语", "Russian"),
    word("意大利语", "Italian"),
]
SUBJECTS = [
    word("历史", "history"),
    word("数学", "math"),
    word("物理", "physics"),
    word("化学", "chemistry"),
    word("地理", "geography"),
    word("音乐", "music"),
    word("生物", "biology"),
    word("艺术", "art"),
    word("经济", "economics"),
    word("文学", "literature"),
]
VEHICLES = [
    word("坐公交车", "by bus", "town"),
    word("坐地铁", "by subway", "town"),
    word("坐出租车", "by taxi", "town"),
    word("骑自行车", "by bike", "town"),
    word("走路", "on foot", "town"),
    word("坐火车", "by train", "far rail"),
    word("坐飞机", "by plane", "far"),
    word("坐高铁", "by high-speed train", "far rail"),
    word("开车", "by car", "far town not-young"),
]
DESTINATIONS = [
    word("上班", "to work"),
    word("去公司", "to the company"),
    word("去超市", "to the supermarket"),
    word("去图书馆", "to the library"),
    word("回家", "home"),
]
FAVORITES = [  # a kind and one of it, side by side: see the template
    word(f"{kind}是{item}", f"{kind_en} is {item_en}")
    for kind, kind_en, items in (
        ("颜色", "color", [(color.zh[""], color.en[""]) for color in COLORS]),
        ("季节", "season", [("春天", "spring"), ("夏天", "summer"), ("秋天", "fall"), ("冬天", "winter")]),
        (
            "运动",
            "sport",
            [
                ("篮球", "basketball"),
                ("足球", "soccer"),
                ("网球", "tennis"),
                ("游泳", "swimming"),
                ("排球", "volleyball"),
            ],
        ),
        ("动物", "animal", [("猫", "the cat"), ("狗", "the dog"), ("熊猫", "the panda"), ("大象", "the elephant")]),
        ("水果", "fruit", [("苹果", "the apple"), ("香蕉", "the banana"), ("西瓜", "the watermelon")]),
        ("科目", "subject", [(subject.zh[""], subject.en[""]) for subject in SUBJECTS]),
        ("城市", "city", [(city.zh[""], city.en[""]) for city in CITIES]),
    )
    for item, item_en in items
]

# --- when ----------------------------------------------------------------------------------------------------------

PAST_DAYS = [
    word("昨天", "yesterday"),
    word("昨天上午", "yesterday morning"),
    word("昨天下午", "yesterday afternoon"),
    word("昨天晚上", "last night"),
    word("前天", "the day before yesterday"),
    word("今天早上", "this morning"),
    word("上个周末", "last weekend"),
    word("上个星期六", "last Saturday"),
    word("上个星期天", "last Sunday"),
]
PAST_LONG = [
    word("上个星期", "last week"),
    word("上个月", "last month"),
    word("去年", "last year"),
    word("去年夏天", "last summer"),
    word("去年冬天", "last winter"),
    word("两年前", "two years ago"),
    word("三个月前", "three months ago"),
    word("两个星期前", "two weeks ago"),
]
SOON = [
    word("今天下午", "this afternoon"),
    word("今天晚上", "tonight"),
    word("明天", "tomorrow"),
    word("明天上午", "tomorrow morning"),
    word("明天下午", "tomorrow afternoon"),
    word("明天晚上", "tomorrow night"),
    word("后天", "the day after tomorrow"),
    word("这个周末", "this weekend"),
    word("这个星期六", "this Saturday"),
    word("下个星期天", "next Sunday"),
]
LATER = [
    word("下个星期", "next week"),
    word("下个月", "next month"),
    word("明年", "next year"),
    word("明年春天", "next spring"),
    word("明年夏天", "next summer"),
    word("下个周末", "next weekend"),
]
EVERY = [
    word("每天", "every day"),
    word("每天早上", "every morning"),
    word("每天下午", "every afternoon"),
    word("每天晚上", "every evening"),
    word("每个周末", "every weekend"),
    word("每个星期六", "every Saturday"),
    word("每个星期天", "every Sunday"),
]
WEEKDAYS = [
    word("星期一", "Monday"),
    word("星期二", "Tuesday"),
    word("星期三", "Wednesday"),
    word("星期四", "Thursday"),
    word("星期五", "Friday"),
    word("星期六", "Saturday"),
    word("星期天", "Sunday"),
]
MONTHS = [
    word("一月", "January"),
    word("二月", "February"),
    word("三月", "March"),
    word("四月", "April"),
    word("五月", "May"),
    word("六月", "June"),
    word("七月", "July"),
    word("八月", "August"),
    word("九月", "September"),
    word("十月", "October"),
    word("十一月", "November"),
    word("十二月", "December"),
]
DAYS = [word(chinese_number(number), _ordinal(number)) for number in range(1, 29)]


def _clock(tags_of_hour: dict[range, str]) -> list[Word]:
    """Every hour with its half, quarter, ten and twenty past; an hour carries the tags of its range."""
    times = []
    for hours, tags in tags_of_hour.items():
        for hour in hours:
            zh, en = f"{_measured(hour)}点", english_number(hour)
            times += [
                word(zh, f"{en} o'clock", tags),
                word(zh + "半", f"half past {en}", tags),
                word(zh + "一刻", f"a quarter past {en}", tags),
                word(zh + "十分", f"ten past {en}", tags),
                word(zh + "二十", f"twenty past {en}", tags),
            ]
    return times


CLOCK = _clock({range(1, 13): ""})
# The time at which something is done: the tags are those of ROUTINES.
HOURS = _clock({range(6, 9): "morning", range(3, 5): "afternoon", range(5, 8): "evening", range(9, 12): "night"})
HOURS += [word("十二点", "twelve o'clock", "noon"), word("十二点半", "half past twelve", "noon")]
HOURS += [word("一点", "one o'clock", "noon")]
DAYTIMES = [
    word(part_zh + time.zh[""], f"{time.en['']} in the {part_en}")
    for part_zh, part_en, hours in (
        ("上午", "morning", range(8, 12)),
        ("下午", "afternoon", range(1, 6)),
        ("晚上", "evening", range(6, 9)),
    )
    for time in _clock({hours: ""})
]
EVENTS = [
    word("会议", "the meeting"),
    word("电影", "the movie"),
    word("比赛", "the game"),
    word("考试", "the exam"),
    word("音乐会", "the concert"),
    word("晚会", "the party"),
    word("数学课", "the math class"),
    word("英语课", "the English class"),
]
SPANS = [word("半个小时", "half an hour"), word("一个小时", "an hour"), word("一个半小时", "an hour and a half")]
SPANS += [word(f"{_measured(n)}个小时", f"{english_number(n)} hours") for n in range(2, 6)]
SPANS += [word(f"{chinese_number(n)}分钟", f"{english_number(n)} minutes") for n in (20, 40, 45)]
SPANS_OF_TRAVEL = [word(f"{_measured(n)}个小时", f"{english_number(n)} hours") for n in range(3, 10)]
WALKS = [word(f"{chinese_number(n)}分钟", f"{english_number(n)} minutes") for n in (5, 10, 15, 20, 25, 30, 40)]
YEARS = [word(f"{_measured(n)}年", f"{english_number(n)} years") for n in range(2, 13)]
TIMES = [word("一次", "once"), word("两次", "twice"), word("三次", "three times"), word("四次", "four times")]
DOSES = [word("一", "once"), word("两", "twice"), word("三", "three times"), word("四", "four times")]
COUNTS = [word(_measured(n), english_number(n)) for n in range(2, 11)]
FEW = [word(_measured(n), english_number(n)) for n in range(2, 5)]
AGES = [
    word(chinese_number(n), english_number(n), tags)
    for numbers, tags in (
        (range(6, 18), "young"),
        (range(19, 37), "grown"),
        (range(38, 60), "parent"),
        (range(62, 92), "elder"),
    )
    for n in numbers
]
PRICES = [
    word(chinese_number(n), english_number(n), tags)
    for numbers, tags in (
        ((8, 10, 12, 15, 18, 20, 22, 25, 28, 30, 32, 35, 38, 40, 45), "cheap"),
        ((60, 75, 80, 90, 100, 120, 150, 180, 200, 250, 260, 300, 350, 400), "fair"),
        ((900, 1000, 1200, 1500, 1800, 2000, 2500, 3000, 3500, 4000, 5000, 6000), "dear"),
    )
    for n in numbers
]
WEIGHED_PRICES = [word(chinese_number(n), english_number(n)) for n in range(4, 21)]

# --- weather -------------------------------------------------------------------------------------------------------

WEATHERS = [
    adjective("冷", "cold", "winter", "colder"),
    adjective("热", "hot", "summer", "hotter"),
    adjective("暖和", "warm", "spring", "warmer"),
    adjective("凉快", "cool", "fall", "cooler"),
    adjective("潮湿", "humid", "summer"),
    adjective("干燥", "dry", "fall winter", "drier"),
]
SKIES = [word("晴天", "sunny"), word("阴天", "cloudy"), word("雨天", "rainy")]
FALLS = [
    activity("下雨", "rain", "spring summer fall"),
    activity("下雪", "snow", "winter"),
    activity("打雷", "thunder", "summer"),
]
SEASONS = [
    word("春天", "spring", "spring"),
    word("夏天", "summer", "summer"),
    word("秋天", "fall", "fall"),
    word("冬天", "winter", "winter"),
]
