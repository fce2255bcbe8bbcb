"""Knowledge: a model pretrains on documents, is fine-tuned on questions, and answers them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.command_line import Weft
from tests.watching import values

from weft import load
from weft.data.questions import read_questions
from weft.data.sentences import Sentences
from weft.errors import CorpusError, RecipeError, UsageError
from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.runs.train import train
from weft.tasks.knowledge import Knowledge, KnowledgeTask, corruption_of
from weft.tasks.language_modelling import loss_of_tokens
from weft.training.losses import cross_entropy

PLACES = {"Ann": "Rome", "Bob": "Oslo", "Cleo": "Bonn", "Dan": "Lima", "Eve": "Kyiv", "Finn": "Rome"}
DATA = {"language": "en", "valid": ["held-out.tsv"], "context": 48}
TRAINING = {"batch_sentences": 6, "precision": "fp32", "learning_rate": 1e-2, "log_every": 1}
PRETRAIN = {
    "task": "knowledge",
    "data": {**DATA, "train": ["people.txt", "questions.tsv"], "salient": 0.5},
    "model": {"model_dim": 32, "num_heads": 2, "num_layers": 1, "ff_dim": 64, "dropout": 0},
    "training": {**TRAINING, "epochs": 2},
}
FINETUNE = {
    "task": "knowledge",
    "data": {**DATA, "train": ["questions.tsv"]},
    "training": {**TRAINING, "epochs": 60, "validate_every": "60 epochs"},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents and questions, the same questions in another order, and a run of each recipe."""
    folder = tmp_path_factory.mktemp("knowledge")
    people = [f"{name} Ray. {name} Ray was born in {place} , and sings ." for name, place in PLACES.items()]
    questions = [f"Where was {name} Ray born?\t{place}" for name, place in PLACES.items()]
    for file, lines in (("people.txt", people), ("questions.tsv", questions), ("held-out.tsv", questions[::-1])):
        (folder / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    # Documents and questions without a token: the byte order mark is none, nor is a control character.
    for file, line in (("people.txt", "\ufeff"), ("questions.tsv", "Where was Gus Ray born?\t\x01")):
        with (folder / file).open("a", encoding="utf-8") as opened:
            opened.write(f"{line}\n")
    (folder / "unanswered.tsv").write_text("Where was Ann Ray born?\nWhere was Dan Ray born?\n", encoding="utf-8")
    train(PRETRAIN, run=folder / "pretrained", data=folder)
    train(FINETUNE, run=folder / "tuned", data=folder, overrides=[f"training.init={folder / 'pretrained'}"])
    return folder


@pytest.fixture(scope="module")
def model(home: Path) -> Knowledge:
    loaded = load(home / "tuned")
    assert isinstance(loaded, Knowledge)
    return loaded


def test_what_was_learned_by_heart_is_answered_and_scored(home: Path, model: Knowledge) -> None:
    assert model.answer([f"Where was {name} Ray born?" for name in PLACES]) == list(PLACES.values())
    (scores,) = json.loads((home / "tuned" / "scores.json").read_text(encoding="utf-8"))
    found = {name: each["value"] for name, each in scores["scores"].items()}
    assert found == {"exact_match": 1.0, "constant_answer": pytest.approx(2 / 6)}


def test_an_answer_is_the_same_alone_and_in_a_batch_whatever_the_question(model: Knowledge) -> None:
    questions = ["Where was Ann Ray born?", "Where?", "Where was nobody whatsoever ever born?", ""]
    assert model.answer(questions) == [model.answer([question])[0] for question in questions]


def test_an_answer_may_fill_the_context(model: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = model.learned.vocabularies["text"]
    ((letter,),) = tokenizer.encode(["a"])

    def always_the_letter(hidden: torch.Tensor) -> torch.Tensor:
        return torch.eye(tokenizer.vocab_size)[letter].expand(*hidden.shape[:-1], -1)

    monkeypatch.setattr(model.network.output, "forward", always_the_letter)
    assert model.answer(["bc", "d" * 40]) == ["a" * (48 - len("<bc??>")), "a" * 32]


def test_fine_tuning_begins_with_weights_vocabulary_and_shape_of_pretraining(home: Path) -> None:
    pretrained, tuned = (load_model(find_model(home / run)) for run in ("pretrained", "tuned"))
    assert tuned.vocabularies["text"].model == pretrained.vocabularies["text"].model
    assert tuned.recipe.model == pretrained.recipe.model
    override = [f"training.init={home / 'pretrained'}", "model.num_layers=2"]
    with pytest.raises(RecipeError, match=r"model\.num_layers = 2.* has 1; leave the key out"):
        train(FINETUNE, run=home / "none", data=home, overrides=override)
    other_dropout = train(
        FINETUNE,
        run=home / "dropout",
        data=home,
        overrides=[override[0], "model.dropout=0.3", "training.epochs=1", "training.validate_every=1 epoch"],
    )
    assert load_model(other_dropout).recipe.model.dropout == 0.3


@torch.no_grad()
def test_the_loss_of_a_question_is_that_of_its_answer_and_the_same_where_its_shape_is_rounded(
    home: Path, model: Knowledge
) -> None:
    learned, valid = model.learned, read_questions(["held-out.tsv"], home)
    task = KnowledgeTask(learned, valid)
    assert task.can_be_recorded
    batch = next(task.valid_batches.in_order())
    loss, filled = task.loss(learned.network, batch), task.loss(learned.network, task.filled_up(batch))
    answered = sum(len(answer) + 1 for answer in valid.answers)
    assert loss.count == filled.count == answered
    total, labels = 0.0, batch.ids[:, 1:]
    logits = learned.network.output(learned.network(batch.ids[:, :-1]))
    for row, first in enumerate(batch.first.tolist()):
        places = slice(first - 1, int((batch.ids[row] != 0).sum()) - 1)
        total += float(cross_entropy(logits[row, places], labels[row, places], 0.0).total)
    assert float(loss.total) == pytest.approx(total, rel=1e-4)
    assert float(filled.total) == pytest.approx(total, rel=1e-4)


@torch.no_grad()
def test_the_loss_of_a_document_is_that_of_every_token(home: Path, model: Knowledge) -> None:
    ids = model.learned.vocabularies["text"].encode(["Ann Ray was born."])
    batch = corruption_of(model.learned, Sentences(ids), Sentences([[]]))(np.array([0]), 1)
    loss = KnowledgeTask(model.learned, read_questions(["held-out.tsv"], home)).loss(model.network, batch)
    assert float(loss.total) == pytest.approx(float(loss_of_tokens(model.network, batch.ids).total))
    assert loss.count == batch.ids.size(1) - 1


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("tokenizer.vocabulary_of=runs/other", r"tokenizer\.vocabulary_of.* has no \[MASK\]"),
        ("model.positions=learned", r"model\.max_positions.* is less than data\.context = 48"),
    ],
)
def test_what_does_not_fit_together_is_refused(home: Path, override: str, said: str) -> None:
    more = ["model.max_positions=32"] if "learned" in override else []
    with pytest.raises(RecipeError, match=said):
        train(PRETRAIN, run=home / "none", data=home, overrides=[override, *more])


def test_lines_without_answer_are_named_and_questions_that_are_too_long_are_counted(home: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"unanswered\.tsv: line 1  is not a question and its answer with a tab"):
        read_questions(["unanswered.tsv"], home)
    assert read_questions(["unanswered.tsv"], home, answered=False).answers == ["", ""]
    overrides = ["data.context=28", "training.epochs=1"]
    run = train(PRETRAIN, run=tmp_path / "run", data=home, overrides=overrides)
    account = json.loads((run / "corpus" / "account.json").read_text(encoding="utf-8"))
    assert account["messages"] == [
        "8 training lines without a token or questions over data.context = 28 tokens dropped"
    ]


def test_evaluate_scores_the_answers_of_a_file_and_writes_those_to_questions_without_any(
    weft: Weft, home: Path, tmp_path: Path
) -> None:
    command = ("evaluate", "--model", str(home / "tuned"), "--data")
    code, out, _ = weft(*command, str(home / "held-out.tsv"), "--json", str(tmp_path / "scores.json"))
    assert code == 0 and "exact_match      1.0000" in out
    content = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert content["answers"][0] == {"question": "Where was Finn Ray born?", "answer": "Rome", "reference": "Rome"}
    code, out, _ = weft(*command, str(home / "unanswered.tsv"), "--output", str(tmp_path / "answers.tsv"))
    assert code == 0 and "2 questions answered" in out
    written = "Where was Ann Ray born?\tRome\nWhere was Dan Ray born?\tLima\n"
    assert (tmp_path / "answers.tsv").read_text(encoding="utf-8") == written
    code, _, error = weft(*command, str(home / "held-out.tsv"), "--methods", "greedy")
    assert code == 2 and "--methods: the model answers questions" in error


def test_held_out_questions_beyond_the_positions_count_for_exact_match_alone(home: Path, tmp_path: Path) -> None:
    long = f"Where was {'very ' * 20}old Finn Ray born?\tRome\n"
    for name, text in (("mixed.tsv", (home / "held-out.tsv").read_text("utf-8") + long), ("long.tsv", long)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    sizes = ["data.context=60", "model.positions=learned", "model.max_positions=60", "training.epochs=1"]

    def losses_with(valid: Path) -> list[float]:
        overrides = [*sizes, f'data.valid=["{valid}"]']
        return values(train(PRETRAIN, run=tmp_path / valid.stem, data=home, overrides=overrides), "valid_loss")

    assert losses_with(tmp_path / "mixed.tsv") == pytest.approx(losses_with(home / "held-out.tsv"))
    with pytest.raises(UsageError, match=r"no held-out question fits into model\.max_positions = 60"):
        losses_with(tmp_path / "long.tsv")
