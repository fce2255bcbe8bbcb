"""What a batch is worth to a model with R-Drop or with teachers, which teachers are refused, and that runs resume."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tests.watching import Watcher, losses, tiny_recipe
from torch import nn

from weft.config import changed
from weft.data.batching import Batch
from weft.data.corpus import read_corpora
from weft.errors import RecipeError, RunError, Stopped, UsageError
from weft.folders.card import recorded_files
from weft.folders.finding import find_model
from weft.folders.kinds import build_seq2seq
from weft.folders.model_folder import Learned, TranslationModel, load_model, save_model
from weft.models.transformer import Transformer
from weft.preparing.teachers import load_teachers
from weft.runs.plan import plan
from weft.runs.train import Silent, train
from weft.tasks.translation import TranslationTask, pair_batches
from weft.training.losses import cross_entropy, guided_cross_entropy
from weft.training.task import Loss


def recipe(*teachers: Path, **tables: dict[str, Any]) -> dict[str, Any]:
    """A student of these teachers on the corpus of tiny_run: half as wide as they are, two steps an epoch."""
    training: dict[str, Any] = {"epochs": 2, **tables.pop("training", {})}
    if teachers:
        training["teachers"] = [str(teacher) for teacher in teachers]
    return tiny_recipe(**{**tables, "model": {"model_dim": 8, "num_heads": 1, "ff_dim": 8}, "training": training})


@pytest.fixture
def teacher(tiny_run: Path, tmp_path: Path) -> Path:
    """The model of tiny_run in a folder that a test may change."""
    folder = tmp_path / "teacher"
    folder.mkdir()
    source = find_model(tiny_run / "run")
    for file in ("config.toml", "model.safetensors", "manifest.json", "README.md", "tokenizer.source.model"):
        shutil.copy(source / file, folder)
    shutil.copy(source / "tokenizer.target.model", folder)
    return folder


# The loss of a batch


@pytest.fixture
def loss_of(tiny_run: Path, random_model: TranslationModel) -> Callable[..., tuple[Loss, Loss, TranslationModel]]:
    """(what the task says, what the definition says, the model) of a batch with padding, for some settings."""
    pairs = read_corpora(["valid.tsv"], random_model.recipe.data, tiny_run)
    tokenizers = random_model.vocabularies["source"], random_model.vocabularies["target"]
    batch = next(pair_batches(pairs, *tokenizers, seed=1, batch_sentences=5).in_order())

    def loss_of(
        dropout: float = 0.0, teachers: int = 0, *, drops: bool = True, **training: Any
    ) -> tuple[Loss, Loss, TranslationModel]:
        torch.manual_seed(5)
        names = tuple(f"teacher {number}" for number in range(teachers))
        settings = {**training, "teachers": names}
        keys = {"model.dropout": dropout, **{f"training.{key}": value for key, value in settings.items()}}
        resolved = changed(random_model.resolved, keys, "a test")
        sizes = [tokenizer.vocab_size for tokenizer in tokenizers]
        model = Learned(resolved, build_seq2seq(resolved.recipe, sizes[0], sizes[1]), random_model.vocabularies)
        wide = changed(resolved, {"model.model_dim": 96, "model.dropout": 0.5}, "a test").recipe
        taught_by = [build_seq2seq(wide, sizes[0], sizes[1]).eval() for _ in range(teachers)]
        task = TranslationTask(model, pairs, teachers=taught_by)
        model.network.train(drops)
        torch.manual_seed(3)
        found = task.loss(model.network, batch)

        given, expected = batch.target[:, :-1], batch.target[:, 1:]
        is_token = expected != 0
        assert not bool(is_token.all())
        torch.manual_seed(3)
        passes = 2 if training.get("r_drop") else 1
        doubled = Batch(batch.source.repeat(passes, 1), given.repeat(passes, 1))
        logits = model.network(doubled.source, doubled.target).unflatten(0, (passes, -1))
        definition = guided_cross_entropy(
            torch.stack([one[is_token] for one in logits]),
            expected[is_token],
            resolved.recipe.training.label_smoothing,
            resolved.recipe.training.z_loss,
            r_drop=resolved.recipe.training.r_drop,
            teacher_logits=[teacher(batch.source, given)[is_token] for teacher in taught_by],
            teacher_share=resolved.recipe.training.distill_weight,
            temperature=resolved.recipe.training.distill_temperature,
        )
        return found, definition, model

    return loss_of


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"z_loss": 0.1},
        {"r_drop": 5.0, "dropout": 0.3},
        {"teachers": 1},
        {"teachers": 2, "distill_weight": 0.9, "distill_temperature": 2.0},
        {"teachers": 2, "r_drop": 1.0, "dropout": 0.2, "z_loss": 0.01, "label_smoothing": 0.0},
    ],
    ids=str,
)
def test_the_task_takes_the_loss_that_the_recipe_asks_for(
    loss_of: Callable[..., tuple[Loss, Loss, TranslationModel]], settings: dict[str, Any]
) -> None:
    found, definition, model = loss_of(**settings)
    assert found.count == definition.count
    for mine, theirs in ((found.total, definition.total), (found.sums["nll"], definition.sums["nll"])):
        assert float(mine.detach()) == pytest.approx(float(theirs.detach()), rel=1e-5)
    model.network.zero_grad()
    found.total.backward()
    mine = {name: parameter.grad for name, parameter in model.network.named_parameters()}
    model.network.zero_grad()
    definition.total.backward()
    for name, parameter in model.network.named_parameters():
        torch.testing.assert_close(mine[name], parameter.grad, rtol=1e-3, atol=1e-4)


def test_r_drop_without_dropout_is_the_plain_loss_and_with_it_more(
    loss_of: Callable[..., tuple[Loss, Loss, TranslationModel]],
) -> None:
    def total(r_drop: float, drops: bool) -> float:
        return float(loss_of(dropout=0.3, drops=drops, r_drop=r_drop)[0].total.detach())

    assert total(5.0, drops=False) == pytest.approx(total(0.0, drops=False), rel=1e-5)
    little, much = (total(weight, drops=True) for weight in (1e-9, 5.0))
    assert much > little * 1.01


@pytest.fixture
def taught(
    tiny_run: Path, tmp_path: Path, random_model: TranslationModel
) -> tuple[TranslationTask, Transformer, Batch]:
    """The task of a student that learns from random_model alone, the student, other random weights, and a batch.

    The teacher's recipe has dropout, the student's has none.
    """
    tokenizers = random_model.vocabularies["source"], random_model.vocabularies["target"]
    dropping = changed(random_model.resolved, {"model.dropout": 0.5}, "a test")
    model = build_seq2seq(dropping.recipe, *[tokenizer.vocab_size for tokenizer in tokenizers])
    model.load_state_dict(random_model.network.state_dict())
    save_model(tmp_path, Learned(dropping, model, dict(zip(("source", "target"), tokenizers, strict=True))), card="")
    keys = {"model.dropout": 0.0, "training.teachers": (str(tmp_path),), "training.distill_weight": 1.0}
    resolved = changed(random_model.resolved, {**keys, "training.precision": "fp32"}, "a test")
    pairs = read_corpora(["valid.tsv"], resolved.recipe.data, tiny_run)
    batch = next(pair_batches(pairs, *tokenizers, seed=1, batch_sentences=5).in_order())
    torch.manual_seed(7)
    weights = build_seq2seq(resolved.recipe, *[tokenizer.vocab_size for tokenizer in tokenizers])
    student = Learned(resolved, weights, dict(zip(("source", "target"), tokenizers, strict=True)))
    task = TranslationTask(student, pairs, teachers=load_teachers(student, Silent()))
    return task, student.network.train(), batch


def largest_gradient(model: Transformer) -> float:
    return max(float(weights.grad.abs().max()) for weights in model.parameters() if weights.grad is not None)


def test_a_teacher_is_asked_without_dropout_and_learns_nothing(
    taught: tuple[TranslationTask, Transformer, Batch], random_model: TranslationModel
) -> None:
    task, student, batch = taught
    given, expected = batch.target[:, :-1], batch.target[:, 1:]
    answers, lesson = (model(batch.source, given)[expected != 0] for model in (student, random_model.network.eval()))
    found = task.loss(student, batch)
    definition = guided_cross_entropy(
        answers[None], expected[expected != 0], 0.0, teacher_logits=[lesson], teacher_share=1.0
    )
    assert float(found.total.detach()) == pytest.approx(float(definition.total.detach()), rel=1e-5)
    found.total.backward()
    assert largest_gradient(student) > 0.1
    assert [
        weights.grad
        for teacher in task.teachers
        for weights in cast(nn.Module, teacher).parameters()
        if weights.grad is not None
    ] == []


def test_a_student_that_says_what_its_teacher_says_has_nothing_to_learn(
    taught: tuple[TranslationTask, Transformer, Batch], random_model: TranslationModel
) -> None:
    task, student, batch = taught
    student.load_state_dict(random_model.network.state_dict())
    task.loss(student, batch).total.backward()
    assert largest_gradient(student) < 1e-4


# The student's vocabulary


def test_a_student_gets_the_vocabulary_of_its_first_teacher(tiny_run: Path, tmp_path: Path) -> None:
    teacher, watcher = tiny_run / "run", Watcher()
    run = train(recipe(teacher), run=tmp_path / "run", data=tiny_run, listener=watcher)
    assert f"vocabulary from the teacher {teacher}" in watcher.messages
    student, model = load_model(run), load_model(find_model(teacher))
    for side in ("source", "target"):
        assert student.vocabularies[side].model == model.vocabularies[side].model
    assert student.recipe.tokenizer == model.recipe.tokenizer
    assert student.resolved.origins["tokenizer.source_size"] == "teacher"
    assert student.recipe.model.model_dim == 8
    card = (run / "README.md").read_text(encoding="utf-8")
    assert list(recorded_files(card, "teacher").values()) == [str(teacher)]


def test_what_the_recipe_says_about_the_vocabulary_must_agree_with_the_teacher(tiny_run: Path, tmp_path: Path) -> None:
    teacher = tiny_run / "run"
    asked = {"source_size": 300, "target_size": 300}  # what the teacher's recipe asked for and its corpus did not fill
    train(recipe(teacher, tokenizer=asked), run=tmp_path / "run", data=tiny_run)
    with pytest.raises(RecipeError) as caught:
        train(recipe(teacher, tokenizer={**asked, "kind": "unigram"}), run=tmp_path / "other", data=tiny_run)
    says = f"tokenizer.kind = unigram  the teacher {teacher} has bpe; its vocabulary is taken over; leave the key out"
    assert says in str(caught.value)


# Teachers that are refused


def test_teachers_must_have_one_vocabulary_which_is_seen_before_pairs_are_prepared(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = {"source_size": 290, "target_size": 290}
    other = train(recipe(tokenizer=tokenizer, training={"epochs": 1}), run=tmp_path / "other", data=tiny_run)
    monkeypatch.setattr("weft.preparing.preparation.cleaned", None)
    with pytest.raises(RecipeError) as caught:
        train(recipe(tiny_run / "run", other), run=tmp_path / "run", data=tiny_run)
    assert "the recipe with training.teachers has 2 problems" in str(caught.value)
    for side in ("source", "target"):
        assert f"has another {side} vocabulary than the model that is trained, which has that of the first teac" in str(
            caught.value
        )
    assert not (tmp_path / "run").exists()


def test_a_teacher_that_was_trained_on_a_valid_file_is_refused(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copy(tiny_run / "train.tsv", tmp_path / "renamed.tsv")
    leaking = recipe(tiny_run / "run", data={"train": [str(tiny_run / "valid.tsv")], "valid": ["renamed.tsv"]})
    with pytest.raises(RecipeError, match=r"was trained on renamed\.tsv, whose text is held out for validation"):
        train(leaking, run=tmp_path / "run", data=tmp_path)


def test_a_teacher_without_a_card_is_spoken_of(tiny_run: Path, tmp_path: Path, teacher: Path) -> None:
    (teacher / "README.md").unlink()
    watcher = Watcher()
    train(recipe(teacher, training={"epochs": 1}), run=tmp_path / "run", data=tiny_run, listener=watcher)
    assert f"the teacher {teacher} has no README.md, so what it was trained on is unknown" in watcher.messages


def test_a_teacher_of_other_languages_is_refused(tiny_run: Path, tmp_path: Path) -> None:
    turned = {"source": "en", "target": "zh"}
    with pytest.raises(RecipeError, match=r"data\.source = en +the teacher .* was trained with zh"):
        train(recipe(tiny_run / "run", data=turned), run=tmp_path / "run", data=tiny_run)


def test_a_teacher_that_is_no_model_is_refused_before_anything_is_made(tiny_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no model .*nowhere"):
        train(recipe(tmp_path / "nowhere"), run=tmp_path / "run", data=tiny_run)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("key", ["distill_weight", "distill_temperature"])
def test_settings_of_distillation_need_a_teacher(tiny_run: Path, tmp_path: Path, key: str) -> None:
    with pytest.raises(RecipeError, match=rf"training\.{key} = 0\.7 +has no effect without teachers"):
        train(recipe(training={key: 0.7}), run=tmp_path / "run", data=tiny_run)


# Runs


@pytest.mark.parametrize("guides", [{"teachers": 2}, {"r_drop": 1.0, "teachers": 1}], ids=str)
def test_a_guided_run_that_was_stopped_ends_bit_for_bit_like_one_that_was_not(
    tiny_run: Path, tmp_path: Path, teacher: Path, guides: dict[str, Any]
) -> None:
    teachers = [tiny_run / "run", teacher][: guides["teachers"]]
    given = recipe(*teachers, training={"r_drop": guides.get("r_drop", 0.0)})
    straight = train(given, run=tmp_path / "straight", data=tiny_run)
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(given, run=run, data=tiny_run, listener=Watcher(signal_at=3))
    train(given, run=run, data=tiny_run)
    assert losses(run) == losses(straight) and len(losses(run)) == 4
    assert (run / "model.safetensors").read_bytes() == (straight / "model.safetensors").read_bytes()


def test_a_run_whose_teacher_has_changed_is_refused(tiny_run: Path, tmp_path: Path, teacher: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(recipe(teacher), run=run, data=tiny_run, listener=Watcher(signal_at=2))
    again = train(recipe(tiny_run / "run", training={"epochs": 1}), run=tmp_path / "again", data=tiny_run)
    for file in ("config.toml", "model.safetensors", "manifest.json", "README.md"):
        shutil.copy(again / file, teacher)
    with pytest.raises(RunError, match=rf"was trained on other data: changed since then: teacher {teacher}"):
        train(recipe(teacher), run=run, data=tiny_run)


def test_a_run_with_teachers_can_be_planned(tiny_run: Path, tmp_path: Path) -> None:
    planned = plan(recipe(tiny_run / "run", training={"r_drop": 1.0}), run=tmp_path / "run", data=tiny_run, seconds=0.0)
    assert planned.trial is not None and planned.memory["activations"] > 0


def test_z_loss_is_not_in_the_validation_loss(tiny_run: Path, random_model: TranslationModel) -> None:
    resolved = changed(random_model.resolved, {"training.z_loss": 10.0}, "a test")
    pairs = read_corpora(["valid.tsv"], resolved.recipe.data, tiny_run)
    found = []
    for settings in (random_model.resolved, resolved):
        tokenizers = random_model.vocabularies["source"], random_model.vocabularies["target"]
        model = Learned(settings, random_model.network, dict(zip(("source", "target"), tokenizers, strict=True)))
        with torch.inference_mode():
            found.append(TranslationTask(model, pairs).evaluate(model.network).metrics)
    assert found[0] == found[1]
    assert cross_entropy(torch.zeros(1, 3), torch.tensor([0]), 0.0, 10.0).total > 10
