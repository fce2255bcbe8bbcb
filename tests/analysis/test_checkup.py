"""`weft diagnose`: probes measure what they claim on networks whose fault is planted, and findings name it."""

import copy
import json
import math
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bench.diagnosing import lowered, shifted, shuffled, without_mask
from tests.command_line import Weft
from tests.tasks.language_models import learned
from torch.nn.functional import cross_entropy

from weft.analysis.checkup import Examination, OpenRun, opened, read_last
from weft.analysis.probes import (
    PairReader,
    Reading,
    TextReader,
    baselines,
    learn_one_batch,
    moved_by_later_tokens,
    moved_by_padding,
    read,
    share_known,
    share_of_capitals,
    togetherness,
)
from weft.analysis.symptoms import ROUNDING, STRANGERS, SYMPTOMS
from weft.cli.options import readable
from weft.config import changed, read_recipe
from weft.data import starter
from weft.data.batching import Batch
from weft.data.lines import LineBatch
from weft.data.sentences import Sentences
from weft.errors import RunError
from weft.folders.recipes import TranslationRecipe
from weft.models.kinds import SEQ2SEQ
from weft.models.recurrent import RecurrentConfig
from weft.models.transformer import TransformerConfig
from weft.preparing.corpora import find_recipe
from weft.runs.train import Silent, train
from weft.training.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "transformer": TransformerConfig(model_dim=16, num_heads=2, encoder_layers=1, decoder_layers=1, ff_dim=16),
    "post": TransformerConfig(model_dim=16, num_heads=2, encoder_layers=1, decoder_layers=1, ff_dim=16, norm="post"),
    "recurrent": RecurrentConfig(embedding_dim=8, hidden_dim=8),
    "copying": RecurrentConfig(embedding_dim=8, hidden_dim=8, copying=True),
}


def network_of(kind: str) -> Any:
    settings = SETTINGS[kind]
    network: Any = SEQ2SEQ[settings.kind](settings, source_vocab_size=40, target_vocab_size=40, padding_id=0)
    return network.eval()


def batch_of(rows: int = 6) -> Batch:
    """Sources and targets of several lengths, with padding behind the shorter ones."""
    sides = torch.randint(4, 40, (2, rows, 7))
    sides[:, :, 0], sides[:, ::2, 5:] = 2, 0
    return Batch(sides[0], sides[1])


# Exact probes


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_sound_network_moves_neither_by_later_tokens_nor_by_padding(kind: str) -> None:
    network, batch = network_of(kind), batch_of()
    assert moved_by_later_tokens(PairReader(), network, batch) < ROUNDING / 10
    padded = moved_by_padding(PairReader(), network, batch)
    assert padded is not None and padded < ROUNDING / 10


@pytest.mark.parametrize(
    ("mask", "probe"), [("causal_mask", moved_by_later_tokens), ("padding_mask", moved_by_padding)]
)
def test_a_mask_that_allows_everything_moves_its_own_probe_alone(mask: str, probe: Callable[..., float]) -> None:
    network, batch = network_of("transformer"), batch_of()
    with without_mask(mask):
        moved = {each: each(PairReader(), network, batch) for each in (moved_by_later_tokens, moved_by_padding)}
    assert [each for each, change in moved.items() if change is None or change > ROUNDING] == [probe]


@pytest.mark.parametrize("kind", ["window", "lstm", "transformer"])
def test_a_sound_language_model_does_not_see_later_tokens(kind: str) -> None:
    network, batch = learned(kind).network, LineBatch(torch.randint(4, 200, (3, 12)))
    assert moved_by_later_tokens(TextReader(), network, batch) < ROUNDING / 10
    plain = network.forward
    network.forward = lambda tokens: plain(tokens).flip(1)
    assert moved_by_later_tokens(TextReader(), network, batch) > ROUNDING


def test_a_network_without_positions_for_more_padding_is_not_asked() -> None:
    settings = TransformerConfig(model_dim=16, num_heads=2, ff_dim=16, positions="learned", max_positions=8)
    network: Any = SEQ2SEQ["transformer"](settings, source_vocab_size=40, target_vocab_size=40, padding_id=0)
    source, target = torch.randint(4, 40, (2, 3, 8))
    assert moved_by_padding(PairReader(), network.eval(), Batch(source, target)) is None


# Readings


def test_a_reading_is_the_mean_over_the_tokens_and_the_gap_is_zero_where_the_source_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, batch = network_of("transformer"), batch_of()
    found = read(PairReader(), network, iter([batch]))
    labels = batch.target[:, 1:]
    with torch.no_grad():
        logits = network(batch.source, batch.target[:, :-1])
    assert found.nll == pytest.approx(float(cross_entropy(logits[labels != 0], labels[labels != 0])), rel=1e-5)
    assert found.gap != 0
    for layer in network.decoder:
        monkeypatch.setattr(layer.cross_attention, "forward", lambda y, memory, mask: torch.zeros_like(y))
    cut = read(PairReader(), network, iter([batch]))
    assert cut.gap == cut.gap_error == 0


def test_a_network_that_repeats_the_token_it_reads_knows_the_one_before_better() -> None:
    class Repeats:
        output = torch.nn.Linear(40, 40)
        given = torch.zeros(0)

        def states(self, source: Any, target: Any) -> Any:
            self.given = target
            return self

        def log_probs(self, output: Any) -> torch.Tensor:
            return torch.log_softmax(8.0 * torch.nn.functional.one_hot(self.given, 40).float(), -1)

    found = read(PairReader(), Repeats(), iter([batch_of()]))
    assert found.nll_before < 0.1 < found.nll


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_copy_learns_one_batch_by_heart_and_the_network_stays_as_it_is(kind: str) -> None:
    network = network_of(kind)
    before = copy.deepcopy(network.state_dict())
    begin, end = learn_one_batch(PairReader(), network, batch_of())
    assert end < 0.8 * begin
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def test_a_network_whose_decoder_is_dead_does_not_learn_a_batch() -> None:
    network = network_of("transformer")
    network.decoder_norm.weight.data.zero_()
    for parameter in network.parameters():
        parameter.requires_grad_(parameter is network.source_embedding.weight)
    begin, end = learn_one_batch(PairReader(), network, batch_of())
    assert end > 0.8 * begin


def test_baselines_by_hand() -> None:
    train, valid = Sentences([[2, 4, 4, 4, 3], [2, 5, 3]]), Sentences([[2, 4, 3]])
    found = baselines(train, valid, 6)
    shares = {3: 2 / 6, 4: 3 / 6, 5: 1 / 6}  # of the training targets; <s> is not predicted
    assert found.unigram == pytest.approx(-sum(share * math.log(share) for share in shares.values()))
    assert found.constant == 0.5  # 4 is the most frequent


# The data


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return starter.load()["train"][:900]


def test_a_lexicon_tells_pairs_from_shuffled_and_from_shifted_ones(pairs: list[tuple[str, str]]) -> None:
    def compare(some: list[tuple[str, str]]) -> Any:
        return togetherness([zh for zh, _ in some], [en for _, en in some], ("zh", "en"))

    right, strange, moved = compare(pairs), compare(shuffled(pairs, [])[0]), compare(shifted(pairs, [])[0])
    assert right.separation > 0.9 and right.out_of_step == 0
    assert strange.separation < STRANGERS
    assert moved.separation > STRANGERS and moved.out_of_step > 0.8 and moved.offset == 1
    assert "more than 100 pairs" in compare(pairs[:100])


def test_capitals_and_known_rows_are_counted(pairs: list[tuple[str, str]]) -> None:
    texts = [[en for _, en in some] for some in (pairs, lowered(pairs, [])[0])]
    cased, lower = map(share_of_capitals, texts)
    assert cased is not None and cased > 0.01 and lower == 0
    assert share_of_capitals(["A b"]) is None and share_of_capitals(["我有书"] * 100) is None
    train, valid = Sentences([[4, 5], [6]]), Sentences([[6], [4, 5], [7], [5]])
    assert share_known([train], [valid]) == 0.5


# A run


@pytest.fixture
def tiny(tiny_run: Path) -> Iterator[OpenRun]:
    with opened(tiny_run / "run", None, Silent()) as run:
        yield run


def kinds(examination: Examination) -> list[str]:
    return [finding.kind for finding in examination.findings]


def test_a_run_whose_validation_pairs_are_trained_on_is_named_with_a_command_that_works(
    weft: Weft, tiny_run: Path, tmp_path: Path
) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in (tiny_run / "run").rglob("*"))
    code, out, _ = weft("diagnose", str(tiny_run / "run"), "--json", str(tmp_path / "found.json"))
    assert code == 1 and "validation pairs occur in training" in out
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert not found["healthy"] and found["figures"]["share of validation rows in training"] == 1
    (leak,) = (each for each in found["findings"] if each["kind"] == "leak")
    assert leak["severity"] == "error" and "cleaning.leaks=true" in leak["command"]
    verb, *words = shlex.split(leak["command"])[1:]
    given = dict(zip(words[1::2], words[2::2], strict=True))
    resolved, root, run = find_recipe(
        readable(Path(words[0])), run=given["--run"], data=given["--data"], overrides=[given["--set"]]
    )
    assert (verb, given["--budget"], root) == ("train", "2m", tiny_run) and resolved.recipe.cleaning.leaks
    assert run == Path(f"{tiny_run / 'run'}-leak")
    assert "whether the loss is better than frequencies" in found["not_made"]
    assert sorted((path, path.stat().st_mtime_ns) for path in (tiny_run / "run").rglob("*")) == before


def test_a_network_whose_weights_are_ruined_is_named_and_not_probed(tiny: OpenRun) -> None:
    with torch.no_grad():
        tiny.learned.network.output.weight.fill_(math.inf)
    examination = Examination(tiny)
    examination.all(print)
    assert kinds(examination)[0] == "not finite" and "future seen" not in kinds(examination)
    assert any("one batch" in checks for checks in examination.not_made)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"training.label_smoothing": 0.9}, "smoothing"),
        ({"training.batch_sentences": 2}, "tiny batch"),
        ({"training.label_smoothing": 0.2}, None),
    ],
    ids=str,
)
def test_settings_are_judged(tiny: OpenRun, settings: dict[str, Any], kind: str | None) -> None:
    examination = Examination(tiny)
    assert tiny.lesson is not None
    tiny.learned.resolved = changed(tiny.learned.resolved, settings, "a test")
    rows = settings.get("training.batch_sentences", 42)
    object.__setattr__(tiny.lesson, "batches", replace(tiny.lesson.batches, batch_sentences=rows))
    examination.training = tiny.recipe.training
    examination.check_settings()
    assert kinds(examination) == ([] if kind is None else [kind])


def test_a_command_trains_beside_the_run_even_from_inside_it(tiny: OpenRun) -> None:
    tiny.folder = Path()
    assert f"--run {Path.cwd()}-leak" in tiny.command("leak")


def logged(run: OpenRun, steps: list[dict[str, Any]], validations: list[dict[str, Any]]) -> Examination:
    run.logged = replace(run.logged, steps=steps, validations=validations)
    examination = Examination(run)
    examination.check_log()
    return examination


def test_the_log_is_judged(tiny: OpenRun) -> None:
    sound = {"step": 20, "loss": 3.0, "seconds": 9.0, "update_ratio": 0.004, "clipped_share": 0.2, "padding_share": 0.1}
    assert kinds(logged(tiny, [sound], [])) == []
    sick = logged(tiny, [{**sound, "update_ratio": 0.3, "clipped_share": 1.0, "padding_share": 0.7}], [])
    assert kinds(sick) == ["rate too high", "clipped", "padding"]
    assert "training.learning_rate=" in sick.findings[0].command
    assert "update ratio" in logged(tiny, [{"step": 20, "loss": 3.0, "seconds": 9.0}], []).not_made


def test_large_updates_that_lose_nothing_are_no_finding_unless_they_are_ruinous(tiny: OpenRun) -> None:
    for ratio, below, found in (
        (0.022, 0.5, ["rate too high"]),
        (0.022, 1.5, []),
        (0.033, 1.5, ["rate too high"]),  # recipes/sick/rate-x30.toml with seed 2
    ):
        large = {"step": 20, "loss": 3.0, "seconds": 9.0, "update_ratio": ratio}
        examination = logged(tiny, [large], [])
        examination.compare_with_baselines(0.0, None, seen=0)
        loss = (examination.figures["unigram entropy"] or 0.0) - below
        examination = logged(tiny, [large], [])
        examination.compare_with_baselines(loss, loss, seen=0)
        assert kinds(examination) == found


def test_off_by_one_is_a_loss_that_training_has_minimized(tiny: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tiny.lesson is not None
    given = Reading(rows=2, nll=3.8, gap=0.5, gap_error=0.1, nll_before=2.5, nll_after=9.0)
    monkeypatch.setattr("weft.analysis.probes.read", lambda reader, network, batches: given)
    # Tied embeddings repeat what is read at first, and a loss that is not finite says nothing.
    for trained, found in ((2.6, ["off by one"]), (4.0, []), (None, [])):
        examination = logged(tiny, [{"step": 20, "loss": trained, "seconds": 9.0}], [])
        examination.read_losses(PairReader(), tiny.lesson)
        assert [kind for kind in kinds(examination) if kind == "off by one"] == found


def test_updates_that_are_skipped_are_named_though_the_weights_are_whole(tiny: OpenRun) -> None:
    skipping = {"step": 200, "loss": 3.0, "seconds": 9.0, "skipped": 60}
    assert kinds(logged(tiny, [skipping], [])) == ["not finite"]
    assert kinds(logged(tiny, [{**skipping, "loss": None}], [])) == ["not finite"]


def test_a_row_counts_as_often_as_its_corpus_weighs(tiny: OpenRun) -> None:
    assert tiny.lesson is not None
    tokens = []
    for weights in (None, np.full(42, 10.0)):
        batches = replace(tiny.lesson.batches, batch_sentences=42, weights=weights)
        object.__setattr__(tiny.lesson, "batches", batches)
        tokens.append(tiny.target_tokens_an_update)
    assert tokens[0] == pytest.approx(tokens[1])


@pytest.mark.parametrize(("accuracy", "expected"), [(0.52, []), (0.45, ["worse"])])
def test_a_loss_that_rises_while_accuracy_rises_is_no_alarm(
    tiny: OpenRun, accuracy: float, expected: list[str]
) -> None:
    rows = [{"valid_loss": 3.0, "valid_accuracy": 0.5}, {"valid_loss": 3.5, "valid_accuracy": accuracy}]
    assert kinds(logged(tiny, [], rows)) == expected


@pytest.mark.parametrize(
    ("norm", "warmup", "expected"),
    [
        ("post", 0.0, ["no warm-up", "frequencies alone"]),
        ("post", 0.1, ["frequencies alone"]),
        ("pre", 0.0, ["frequencies alone"]),
    ],
)
def test_a_loss_at_the_unigram_entropy_is_named_with_its_likely_cause(
    tiny: OpenRun, norm: str, warmup: float, expected: list[str]
) -> None:
    tiny.learned.resolved = changed(tiny.learned.resolved, {"model.norm": norm, "training.warmup": warmup}, "a test")
    examination = Examination(tiny)
    examination.compare_with_baselines(9.0, 9.0, seen=1e6)
    assert kinds(examination) == expected
    examination.compare_with_baselines(0.5, 9.0, seen=1e6)
    examination.compare_with_baselines(9.0, 9.0, seen=1e3)
    assert kinds(examination) == expected


def test_a_run_without_its_data_is_judged_by_its_log_and_says_what_was_not_checked(
    weft: Weft, tiny_run: Path, tmp_path: Path
) -> None:
    code, out, _ = weft("diagnose", str(tiny_run / "run"), "--data", str(tmp_path))
    assert (
        code == 0
        and "not checked" in out
        and "no line of metrics.jsonl has it" not in out
        and "unigram entropy" not in out
        and "the data cannot be opened" in " ".join(out.split())
    )
    shutil.copy(tiny_run / "valid.tsv", tmp_path / "valid.tsv")
    shutil.copy(tiny_run / "valid.tsv", tmp_path / "train.tsv")
    (tmp_path / "valid.tsv").write_text("zh\ten\n我\tI\n", encoding="utf-8")
    _, out, _ = weft("diagnose", str(tiny_run / "run"), "--data", str(tmp_path))
    assert "the data files have changed" in " ".join(out.split())
    code, _, error = weft("diagnose", str(tmp_path))
    assert code == 1 and "is not a run" in error
    shutil.copytree(tiny_run / "run", tmp_path / "run", ignore=shutil.ignore_patterns("step-*"))
    code, _, error = weft("diagnose", str(tmp_path / "run"))
    assert code == 1 and "has no checkpoint any more" in error


LANGUAGE_MODEL = """\
task = "language-model"
[data]
language = "en"
train = ["train.txt"]
valid = ["valid.txt"]
[model]
kind = "recurrent"
model_dim = 16
[training]
batch_sentences = 20
label_smoothing = 0.9
epochs = 1
"""


def test_a_language_model_is_probed_and_what_needs_a_source_is_named(tmp_path: Path, weft: Weft) -> None:
    lines = [f"the {animal} has {n} of them" for animal in ("cat", "dog", "cow") for n in range(20)]
    (tmp_path / "train.txt").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "valid.txt").write_text("the bird has one\nthe horse has two", encoding="utf-8")
    (tmp_path / "lm.toml").write_text(LANGUAGE_MODEL, encoding="utf-8")
    train(tmp_path / "lm.toml", run=tmp_path / "run")
    code, out, error = weft("diagnose", str(tmp_path / "run"), "--json", "-")
    found = json.loads(out)
    assert code == 1 and [each["kind"] for each in found["findings"]] == ["smoothing"], error
    assert found["figures"]["change by later tokens, nats"] < ROUNDING
    assert "a language model has no source" in found["not_made"].values()
    with opened(tmp_path / "run", None, Silent()) as run:
        run.learned.resolved = changed(run.learned.resolved, {"data.running": True}, "a test")
        examination = Examination(run)
        examination.check_data()
    assert "weft doctor" not in examination.not_made["leak"]  # it takes pairs only


# The gallery


@pytest.mark.parametrize("path", sorted((ROOT / "recipes" / "sick").glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_of_the_gallery_says_what_is_planted_and_what_must_be_found(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    comment = " ".join(line.removeprefix("# ") for line in text.partition("\n#\n")[0].splitlines())
    assert f"weft train recipes/sick/{path.name}" in text and read_recipe(path, TranslationRecipe)
    if path.stem == "sound":
        assert "`weft diagnose` must find nothing" in comment
    else:
        assert comment.startswith("Planted: ")
        assert comment.removesuffix(".").partition("must say: ")[2] in {each.title for each in SYMPTOMS.values()}


def test_of_a_running_training_the_checkpoint_is_read_that_has_replaced_the_one_that_was_last(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder(tiny_run / "run")
    now = run.status()
    assert now is not None
    seen = [replace(now, last=now.last - 1), now, now]
    monkeypatch.setattr(RunFolder, "status", lambda self: seen.pop(0))
    assert read_last(run)[0] == now and not seen
    gone = replace(now, last=now.last + 1)
    monkeypatch.setattr(RunFolder, "status", lambda self: gone)
    with pytest.raises(RunError, match="has no checkpoint any more"):
        read_last(run)
