"""A model that copies: what it never saw in training comes back, in every way of asking; texts without a word too."""

from random import Random

import pytest

from weft.data.noise import noisy
from weft.data.starter import load as starter
from weft.evaluating.evaluation import evaluate
from weft.evaluating.explanation import explain
from weft.evaluating.faults import script_remark
from weft.evaluating.forced import force
from weft.runs.train import Silent, train
from weft.text.chinese import characters_of_one_script, convert_translation, script_of_code
from weft.text.normalization import normalize
from weft.translating.loading import load_translator
from weft.translating.passages import PassageTranslator
from weft.translating.text_attention import attention_between
from weft.translating.translator import Translator

SENTENCES = {
    "我有31337本书。": "I have 31337 books.",
    "他有20个苹果。": "He has 20 apples.",
    "请看https://weft.example/a?b=1。": "See https://weft.example/a?b=1.",
}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """Trained for some seconds on numbers of two digits and addresses of one host."""
    folder, random = tmp_path_factory.mktemp("copying"), Random(1)
    whose, things = {"我": "I have", "他": "He has"}, {"本书": "books", "个苹果": "apples"}
    pairs = [
        (f"{zh}有{n}{it}。", f"{en} {n} {thing}.")
        for zh, en in whose.items()
        for it, thing in things.items()
        for n in random.sample(range(2, 99), 12)
    ]
    pairs += [(f"请看https://example.org/{n}。", f"See https://example.org/{n}.") for n in range(12)]
    for name, part in (("train", pairs), ("valid", pairs[::6])):
        lines = ["zh\ten", *("\t".join(pair) for pair in part)]
        (folder / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    recipe = {
        "data": {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]},
        "tokenizer": {"source_size": 310, "target_size": 310, "copying": True, "normalization": "folded"},
        "model": {"model_dim": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ff_dim": 64},
        "training": {"batch_sentences": 20, "epochs": 60, "learning_rate": 1e-2, "validate_every": "60 epochs"},
    }
    run = train(recipe | {"task": "translation"}, run=folder / "run", data=folder, listener=Silent())
    return load_translator(run)


def test_numbers_and_addresses_that_it_never_saw_come_back(translator: Translator) -> None:
    found = translator.translate(list(SENTENCES))
    assert [one.text for one in found] == list(SENTENCES.values())
    assert [one.source for one in found] == list(SENTENCES)
    assert not any(translator.has_other_numbers(one.source, one.text) for one in found)
    for source, translation in SENTENCES.items():
        assert "".join(translator.stream(source)) == translation
    assert translator.translate(["我有３１本书"])[0].text == "I have 31 books"


def test_prefixes_phrases_glossaries_and_alternatives_may_have_them(translator: Translator) -> None:
    source = "我有31337本书。"
    ask = translator.translate_n_best
    assert ask([source], 1, prefixes=["I have 31337 "])[0][0].text == SENTENCES[source]
    assert "31337 books" in ask([source], 1, phrases=[["31337 books"]])[0][0].text
    assert "31337 books" in ask([source], 1, glossary={"31337本书": "31337 books"})[0][0].text
    best = translator.alternatives(source, "I have", 3)[0]
    assert (best.word, best.text) == ("31337", SENTENCES[source])


def test_what_explains_a_translation_shows_the_items(translator: Translator) -> None:
    source, target = next(iter(SENTENCES.items()))
    found = explain(translator, source)
    assert "31337" in found.source_pieces and "31337" in found.target_pieces and found.text == target
    (forced,) = force(translator, [source], [target])
    assert forced.log_prob_per_piece > -0.5 and "31337" in forced.pieces
    (attention,) = attention_between(translator, [(source, target)])
    assert attention is not None and attention.shape == (len(target), len(source))
    number = attention[target.index("31337") + 2]
    assert number.sum() == pytest.approx(1, abs=1e-4) and number[2:7].std() == pytest.approx(0, abs=1e-6)


def test_a_line_without_a_word_is_its_own_translation(translator: Translator) -> None:
    lines = ["25", "2024-05-17", "", "♪", "v1.2", " 12:30 "]
    assert [one.text for one in translator.translate(lines)] == lines
    assert list(translator.stream("25")) == ["25"]
    amounts = {"3万": "30,000", "5点30分": "5:30", "<td>2-3万</td>": "<td>20,000-30,000</td>"}
    assert [one.text for one in translator.translate(list(amounts))] == list(amounts.values())
    assert "books" in translator.translate(["25"], glossary={"25": "books"})[0].text
    passages = PassageTranslator(translator, keeps_markup=True)
    assert [one.text for one in passages.translate(["<td>25</td>", "$5.00"])] == ["<td>25</td>", "$5.00"]


def test_noise_in_width_is_read_as_without(translator: Translator) -> None:
    texts = list(SENTENCES)[:2]
    wide = noisy(texts, "width", "zh", 1)
    assert wide != texts and [one.text for one in translator.translate(wide)] == list(SENTENCES.values())[:2]
    assert noisy(["I don't know."], "apostrophe", "en", 1) == ["I don’t know."]
    assert normalize(noisy(["I know you."], "capitals", "en", 1)[0], "folded") == "I know you."
    assert normalize("a\u200bb\u00adc 👨\u200d👩 NASA", "folded") == "abc 👨\u200d👩 NASA"


def test_no_simplified_character_is_left_in_a_thousand_traditional_answers() -> None:
    answers = [zh for zh, _ in starter()["train"][:1000]]
    _, simplified = characters_of_one_script()
    assert any(not simplified.isdisjoint(answer) for answer in answers)
    converted = [convert_translation(answer, "traditional") for answer in answers]
    assert all(simplified.isdisjoint(answer) for answer in converted)
    assert convert_translation("软件在这里", "traditional") == "軟體在這裡"
    codes = {"zh-Hant": "traditional", "zh_TW": "traditional", "zh-CN": "simplified", "zh": "keep", "en-HK": "keep"}
    codes |= {"zh-Hans-HK": "simplified", "zh_Hant_CN": "traditional"}
    assert {code: script_of_code(code) for code in codes} == codes


def test_references_in_the_other_script_are_told_of() -> None:
    ours, theirs = ["我们学习汉语。"] * 50, ["我們學習漢語。"] * 3 + ["我们学习汉语。"] * 47
    assert "3 of 50 references are in Traditional" in script_remark(ours, [theirs], "zh")
    assert not script_remark(ours, [ours], "zh") and not script_remark(ours, [theirs], "en")


def test_training_and_scoring_see_the_same_symbols(translator: Translator) -> None:
    from weft.data.corpus import read_corpora

    data = translator.model.recipe.data
    evaluated = evaluate(translator, read_corpora(["valid.tsv"], data, translator.folders[0].parent))
    assert evaluated.faults.rate("other numbers") == 0
    assert evaluated.hypotheses == [lines for lines in evaluated.references[0]]
