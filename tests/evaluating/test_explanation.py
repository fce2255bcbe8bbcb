"""Explanations: every number is found once more in another way, and what cannot be explained is refused by name."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from weft.config import override
from weft.errors import UsageError
from weft.evaluating.explanation import LONGEST_EXPLAINED, Explanation, explain
from weft.evaluating.forced import force
from weft.folders.finding import find_model
from weft.folders.model_folder import TranslationModel, load_model
from weft.layers.attention import MultiHeadAttention
from weft.models.transformer_session import TransformerSession
from weft.text.vocabulary import BEGIN_ID, END_ID
from weft.translating.batches import encode_sources
from weft.translating.loading import CHANGEABLE, load_translator
from weft.translating.translator import Translator

TEXT = "我有三个苹果，她有两个梨。"
TARGET = "I have two cups, my friend."


@pytest.fixture
def translator(random_model: TranslationModel) -> Translator:
    return Translator(random_model, torch.device("cpu"))


@pytest.fixture
def explained(translator: Translator) -> Explanation:
    return explain(translator, TEXT)


def changed(model: TranslationModel, *overrides: str) -> Translator:
    model.resolved = override(model.resolved, overrides, "the test", CHANGEABLE)
    return Translator(model, torch.device("cpu"))


def log_prob_by_steps(model: TranslationModel, source: list[int], target: list[int]) -> list[float]:
    """The twin of occlusion: the search's own steps over given ids."""
    state = model.network.start(torch.tensor([source]))
    found, newest = [], BEGIN_ID
    with torch.inference_mode():
        for token in (*target, END_ID):
            found.append(float(state.step(torch.tensor([newest]))[0, token]))
            newest = token
    return found


def test_what_is_explained_is_what_translate_gives(translator: Translator, explained: Explanation) -> None:
    (translation,) = translator.translate([TEXT])
    assert (explained.text, explained.source) == (translation.text, TEXT)
    assert (explained.score, explained.log_prob) == pytest.approx((translation.score, translation.log_prob), abs=1e-4)
    assert sum(explained.log_probs) == pytest.approx(translation.log_prob, abs=1e-3)
    (wider,) = translator.translate([TEXT], beam_size=5)
    assert explain(translator, TEXT, beam_size=5).score == pytest.approx(wider.score, abs=1e-4)


def test_a_given_translation_is_scored_as_forced_scoring_does(translator: Translator) -> None:
    explained = explain(translator, TEXT, target=TARGET)
    (forced,) = force(translator, [TEXT], [TARGET])
    assert explained.target_pieces == forced.pieces
    assert explained.log_probs == pytest.approx(forced.log_probs, abs=1e-4)
    assert (explained.text, explained.beam) == (TARGET, ())
    source_length = len(explained.source_pieces) - 1
    power = 0.5 + 0.01 * min(source_length, 30)  # the adaptive length penalty
    assert explained.score == pytest.approx(forced.log_prob / len(forced.pieces) ** power, abs=1e-4)


def test_a_translation_in_traditional_script_is_scored_as_the_model_wrote_it() -> None:
    translator, text = load_translator("en-zh", ["decoding.script=traditional"]), "I need new software."
    (answer,) = translator.translate([text])
    assert "軟體" in answer.text
    given = explain(translator, text, target=answer.text, occlusion=False)
    (begun,) = translator.translate([text], prefixes=[answer.text[:-1]])
    assert [given.log_prob, begun.log_prob] == pytest.approx([answer.log_prob] * 2, abs=1e-3)


def test_the_alternatives_are_the_most_probable_pieces_at_each_step(
    translator: Translator, random_model: TranslationModel
) -> None:
    explained = explain(translator, TEXT, best=4, target=TARGET)
    tokenizer = random_model.vocabularies["target"]
    state = random_model.network.start_plain(torch.from_numpy(encode_sources(random_model, [TEXT])[0]).long()[None])
    with torch.inference_mode():
        for token, alternatives in zip([BEGIN_ID, *tokenizer.encode([TARGET])[0]], explained.alternatives, strict=True):
            log_probs = state.step(torch.tensor([token]))[0].tolist()
            ids = tokenizer.ids_of([one.piece for one in alternatives])
            expected = sorted(range(len(log_probs)), key=lambda number: -log_probs[number])[:4]
            assert ids == expected
            assert [one.log_prob for one in alternatives] == pytest.approx([log_probs[i] for i in expected], abs=1e-5)


def test_attention_is_the_mean_over_the_heads_of_a_layer_or_of_all_and_sums_to_one(
    translator: Translator, explained: Explanation, random_model: TranslationModel
) -> None:
    assert explained.heads.shape == (2, 4, len(explained.target_pieces), len(explained.source_pieces))
    assert explained.heads.sum(-1) == pytest.approx(1.0, abs=1e-5)
    assert (explained.layer, explained.attention) == (None, pytest.approx(explained.heads.mean((0, 1)), abs=1e-6))
    for layer in (1, 2):
        shown = explain(translator, TEXT, layer=layer)
        assert shown.layer == layer
        assert shown.attention == pytest.approx(explained.heads[layer - 1].mean(0), abs=1e-6)
    # The other road: what the search's own session says of its last layer.
    session = random_model.network.start(torch.from_numpy(encode_sources(random_model, [TEXT])[0]).long()[None])
    assert isinstance(session, TransformerSession)
    with torch.inference_mode():
        for place, piece in enumerate(["<s>", *explained.target_pieces[:-1]]):
            session.step(torch.tensor(random_model.vocabularies["target"].ids_of([piece])))
            assert session.source_attention()[0].numpy() == pytest.approx(
                explained.heads[-1, :, place].mean(0), abs=1e-5
            )


def test_a_target_word_is_aligned_with_the_source_word_without_which_it_loses_most(explained: Explanation) -> None:
    assert [link.target for link in explained.alignment] == list(range(len(explained.target_words)))
    for link, lost in zip(explained.alignment, explained.occlusion, strict=True):
        assert (link.source, link.weight) == (int(np.argmax(lost)), max(lost))


def test_without_occlusion_it_is_aligned_with_the_one_that_has_most_of_its_attention(translator: Translator) -> None:
    explained = explain(translator, TEXT, occlusion=False)
    assert [link.target for link in explained.alignment] == list(range(len(explained.target_words)))
    for link in explained.alignment:
        word = explained.target_words[link.target]
        shares = [
            sum(explained.attention[i, j] for i in range(word.first, word.last + 1) for j in range(s.first, s.last + 1))
            / (word.last + 1 - word.first)
            for s in explained.source_words
        ]
        assert link.source == int(np.argmax(shares))
        assert link.weight == pytest.approx(max(shares), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        ("你好，欢迎来到中国。", ["你好，", "欢迎", "来到", "中国"]),
        ("我有苹果", ["我有", "苹果"]),
        ("“好！”他说。", ["好！”", "他", "说"]),
        ("好。", []),
        ("书", []),
        ("他来了，，她走了", ["他来了，，", "她", "走了"]),
    ],
)
def test_without_a_word_its_sign_goes_too(zh_en: Translator, text: str, removed: list[str]) -> None:
    explained = explain(zh_en, text)
    assert [variant.removed for variant in explained.without] == removed


def test_without_a_word_a_translation_has_the_numbers_of_its_source_and_no_symbol(zh_en: Translator) -> None:
    found = explain(zh_en, "你好，我昨天买了15本书。")
    texts = [variant.text for variant in found.without]
    assert any("15" in text for text in texts) and not any("\ue000" <= c <= "\uf8ff" for text in texts for c in text)


def test_the_most_harmful_word_is_the_one_without_which_the_score_is_highest(zh_en: Translator) -> None:
    explained = explain(zh_en, "你好，欢迎来到中国。")
    found = explained.most_harmful
    assert found is not None and (found.removed, found.text) == ("你好，", "Welcome to China.")
    (alone,) = zh_en.translate(["欢迎来到中国。"])
    assert found.text == alone.text and found.score == max(one.score for one in explained.without) > explained.score
    harmless = explain(zh_en, "我喜欢你。")
    assert harmless.most_harmful is None or harmless.most_harmful.score > harmless.score


@pytest.mark.parametrize(("steps", "beta"), [(1, None), (3, None), (1, 0.7), (2, 0.7)])
def test_attention_within_a_side_is_what_its_layers_compute(
    translator: Translator, random_model: TranslationModel, steps: int, beta: float | None
) -> None:
    for module in random_model.network.modules():
        if isinstance(module, MultiHeadAttention):
            module.steps = steps
            module.log_beta = None if beta is None else torch.nn.Parameter(torch.full((module.num_heads,), beta))
    explained = explain(translator, TEXT, target=TARGET, self_attention=True)
    sources, targets = len(explained.source_pieces), len(explained.target_pieces)
    of_source, of_target = explained.self_attention["source"], explained.self_attention["target"]
    assert (of_source.shape, of_target.shape) == ((2, 4, sources, sources), (2, 4, targets, targets))
    for heads in (of_source, of_target):
        assert heads.sum(-1) == pytest.approx(1.0, abs=1e-5)
    assert np.triu(of_target, 1).max() == 0  # no place sees a later one
    layer: Any = random_model.network.encoder[0]
    states: list[torch.Tensor] = []
    hook = layer.attention.register_forward_hook(lambda module, inputs, out: states.extend([inputs[0], out]))
    with torch.inference_mode():
        random_model.network.encode(torch.from_numpy(encode_sources(random_model, [TEXT])[0]).long()[None])
        hook.remove()
        _, value = layer.attention.project_memory(states[0])
        mixed = (torch.from_numpy(of_source[0])[None] @ value).transpose(1, 2).flatten(2)
        assert torch.allclose(layer.attention.output(mixed), states[1], atol=1e-4)
    assert explain(translator, TEXT, target=TARGET).self_attention == {}


def test_occlusion_is_what_is_lost_by_reading_a_source_without_the_word(
    translator: Translator, random_model: TranslationModel
) -> None:
    explained = explain(translator, TEXT, target=TARGET)
    source = encode_sources(random_model, [TEXT])[0].tolist()
    target = random_model.vocabularies["target"].encode([TARGET])[0]
    whole = log_prob_by_steps(random_model, source, target)
    assert len(explained.source_words) > 5
    for number, taken in enumerate(explained.source_words):
        without = log_prob_by_steps(random_model, source[: taken.first] + source[taken.last + 1 :], target)
        for word, lost in zip(explained.target_words, explained.occlusion, strict=True):
            expected = sum(whole[i] - without[i] for i in range(word.first, word.last + 1))
            assert lost[number] == pytest.approx(expected, abs=1e-3)


def test_occlusion_is_the_same_however_many_words_are_taken_out_at_once(
    translator: Translator, explained: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.evaluating.explanation.TOKENS_AT_ONCE", 1)
    for one, other in zip(explain(translator, TEXT).occlusion, explained.occlusion, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_a_tag_before_the_source_is_a_piece_and_no_word(tmp_path: Path, tiny_run: Path) -> None:
    """Only a model whose vocabulary has the tag can read it, so one is trained, for two steps."""
    from weft.runs.train import train
    from weft.translating.loading import load_translator

    recipe = (tiny_run / "tiny.toml").read_text(encoding="utf-8")
    recipe = recipe.replace('train = ["train.tsv"]', 'train = [{ path = "train.tsv", tag = "<bt>" }]\ntag = "<bt>"')
    (tmp_path / "tagged.toml").write_text(recipe, encoding="utf-8")
    train(tmp_path / "tagged.toml", run=tmp_path / "run", data=tiny_run)
    explained = explain(load_translator(tmp_path / "run"), "我有三个苹果。")
    assert explained.source_pieces[0] == "<bt>" and explained.source_pieces[-1] == "</s>"
    assert (explained.source_words[0].first, explained.source_words[0].text[:1]) == (1, "我")
    assert explained.source_words[-1].last == len(explained.source_pieces) - 2


def test_the_tree_ends_in_the_translation(explained: Explanation) -> None:
    best = [number for number, node in enumerate(explained.beam) if node.state == "best"]
    assert [explained.beam_pieces[number] for number in best] == ["<s>", *explained.target_pieces]
    assert explained.beam[best[-1]].log_prob == pytest.approx(explained.log_prob, abs=1e-4)
    assert max(sum(n.state != "dropped" and n.step == step for n in explained.beam) for step in range(1, 5)) == 3


def test_json_has_the_shape_that_a_page_reads(explained: Explanation) -> None:
    found = json.loads(json.dumps(explained.as_json(), allow_nan=False))
    sources, targets = len(found["source_pieces"]), len(found["target_pieces"])
    assert (found["source_pieces"][-1], found["target_pieces"][-1]) == ("</s>", "</s>")
    assert len(found["log_probs"]) == len(found["alternatives"]) == len(found["attention"]) == targets
    assert all(len(at_place) == 5 for at_place in found["alternatives"])
    assert [len(row) for row in found["attention"]] == [sources] * targets
    assert [sum(row) for row in found["attention"]] == pytest.approx([1.0] * targets, abs=1e-4)
    assert [len(row) for row in found["occlusion"]] == [len(found["source_words"])] * len(found["target_words"])
    assert found["source_words"][0].keys() == {"text", "first", "last"}
    assert found["alignment"][0].keys() == {"target", "source", "weight"}
    nodes = found["beam"]["nodes"]
    assert nodes[0] == {"id": 0, "parent": None, "step": 0, "piece": "<s>", "log_prob": 0.0, "state": "best"}
    assert all(node["parent"] < node["id"] for node in nodes[1:])
    assert {node["state"] for node in nodes} <= {"best", "finished", "kept", "dropped"}


def test_without_occlusion_there_is_none(translator: Translator) -> None:
    assert explain(translator, TEXT, occlusion=False).occlusion == ()


def test_a_source_of_one_word_is_explained(translator: Translator) -> None:
    explained = explain(translator, "书", target="book")
    assert [link.source for link in explained.alignment] == [0] * len(explained.target_words)
    assert all(math.isfinite(row[0]) for row in explained.occlusion)


# What is refused


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("", {}, "text 1 has no piece"),
        (" \n", {}, "text 1 has no piece"),
        ("25", {}, r"text 1 \(25\) has no word, so it is copied and not translated"),
        ("书" * (LONGEST_EXPLAINED + 1), {}, "more than the 200 that are explained at once"),
        (TEXT, {"target": ""}, "the translation that is given has no piece"),
        (TEXT, {"target": "cup " * 300}, "the translation that is given has [0-9,]+ pieces, more than the 200"),
        (TEXT, {"layer": 3}, "layer is a number from 1 to 2, the decoder layers of the model; found 3"),
        (TEXT, {"layer": 0}, "layer is a number from 1 to 2"),
        (TEXT, {"best": 0}, "best is a number from 1, found 0"),
        (TEXT, {"beam_size": 0}, "beam_size"),
    ],
)
def test_what_cannot_be_explained_is_refused(
    translator: Translator, text: str, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        explain(translator, text, **more)


def test_a_translation_of_the_models_own_that_is_too_long_is_refused(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator.model.vocabularies["source"], "encode", lambda texts: [[5] for _ in texts])
    written = len(explain(translator, "书").target_pieces) - 1
    monkeypatch.setattr("weft.evaluating.explanation.LONGEST_EXPLAINED", written - 1)
    with pytest.raises(UsageError, match=f"the translation of 书 has {written} pieces, more than the {written - 1}"):
        explain(translator, "书")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "decoding.method=sample",
            'decoding.method = "sample" compares whole translations, so there is no single search',
        ),
        ("decoding.method=mbr", 'decoding.method = "mbr"'),
        ("decoding.diverse_groups=3", "diverse_groups = 1"),
        ("decoding.language_model=a-model", r"leave decoding\.language_model out"),
    ],
)
def test_a_search_that_cannot_be_shown_is_refused_unless_the_translation_is_given(
    random_model: TranslationModel, setting: str, said: str
) -> None:
    translator = changed(random_model, setting)
    with pytest.raises(UsageError, match=said):
        explain(translator, TEXT)
    assert explain(translator, TEXT, target=TARGET).text == TARGET


SETTINGS = [
    ["decoding.method=greedy"],
    ["decoding.min_length=4", "decoding.no_repeat_ngram=2", "decoding.repetition_penalty=1.5"],
    ["decoding.coverage_penalty=0.3", "decoding.length_penalty=gnmt", "decoding.stopping=first-k"],
    ["decoding.max_length=2", "decoding.precision=bf16"],
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_other_setting_of_the_search_is_followed(random_model: TranslationModel, settings: list[str]) -> None:
    translator = changed(random_model, *settings)
    (translation,) = translator.translate([TEXT])
    explained = explain(translator, TEXT)
    assert explained.text == translation.text
    assert (explained.score, explained.log_prob) == pytest.approx((translation.score, translation.log_prob), abs=1e-3)


@pytest.mark.parametrize("settings", SETTINGS[:3])
def test_a_models_own_translation_has_the_score_of_the_search_where_it_is_given(settings: list[str]) -> None:
    translator = changed(load_model(find_model("zh-en")), *settings)
    found = explain(translator, TEXT, occlusion=False)
    given = explain(translator, TEXT, target=found.text, occlusion=False)
    assert given.target_pieces == found.target_pieces
    assert (given.score, given.log_prob) == pytest.approx((found.score, found.log_prob), abs=1e-3)


def test_it_ends_after_a_step_where_nobody_waits_any_more(translator: Translator) -> None:
    class GoneError(Exception):
        pass

    every = 0

    def count() -> None:
        nonlocal every
        every += 1

    pieces = len(explain(translator, TEXT, target=TARGET, after_step=count).target_pieces)
    assert every >= 2 * pieces - 1  # the search has ended with its last step
    for last in range(every):
        steps = iter(range(last))

        def after_step(steps: Iterator[int] = steps) -> None:
            if next(steps, None) is None:
                raise GoneError

        with pytest.raises(GoneError):
            explain(translator, TEXT, target=TARGET, after_step=after_step)


def test_all_that_is_wrong_is_said_at_once(translator: Translator) -> None:
    with pytest.raises(UsageError) as refused:
        explain(translator, "", best=0, layer=9)
    assert len(str(refused.value).splitlines()) == 3


def test_an_ensemble_is_refused(random_model: TranslationModel) -> None:
    with pytest.raises(UsageError, match="an ensemble cannot be explained"):
        explain(Translator(random_model, torch.device("cpu"), others=[random_model]), TEXT)


def test_an_export_is_refused_by_the_name_of_its_engine(random_model: TranslationModel) -> None:
    from weft.folders.export import Export
    from weft.translating.exported import ExportedTranslator

    exported = ExportedTranslator.__new__(ExportedTranslator)  # the engine itself is not asked
    exported.folder, exported.export = Path("small-ct2"), Export(engine="ctranslate2", precision="fp32", longest=100)
    exported.model, exported.members = random_model, (random_model,)
    with pytest.raises(UsageError, match=r"small-ct2 was exported for ctranslate2.*explain the model"):
        explain(exported, TEXT)
