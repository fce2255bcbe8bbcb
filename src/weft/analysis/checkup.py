"""Diagnosing a run: open its last checkpoint with its data, run the probes, and judge what they measure."""

import math
import shlex
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from weft.analysis import probes
from weft.analysis import symptoms as limits
from weft.analysis.html import finite
from weft.analysis.run_files import Run, read_json, read_run
from weft.analysis.symptoms import SYMPTOMS, Checkup, Finding
from weft.analysis.watching import skipping
from weft.config import parse_rendered
from weft.data.sentences import Sentences
from weft.errors import ModelError, RunError, WeftError, counted, shown
from weft.folders.model_folder import Learned, load_model
from weft.folders.recipes import RECIPES
from weft.preparing.defaults import size_for
from weft.runs.resume import without_parents
from weft.runtime import choose_device, choose_threads
from weft.tasks import TASKS
from weft.tasks.kind import Lesson
from weft.text.tokenizer_config import SMALLEST_WITH_BYTES
from weft.training.distributed import ALONE
from weft.training.run_folder import STATE, RunFolder, RunStatus, beside
from weft.training.task import Listener

TRIAL_SECONDS = 120
"""How long a printed command tries a remedy."""
USUAL = {"training.warmup": 0.1, "training.label_smoothing": 0.1, "model.dropout": 0.3}


@dataclass
class OpenRun:
    """A run with the model of its last checkpoint and, if its files are there, the data."""

    folder: Path
    logged: Run
    step: int
    learned: Learned[Any]
    root: Path
    lesson: Lesson | None = None
    columns: dict[str, Sentences] = field(default_factory=dict)
    """The ids of the training rows, by the columns of the task."""
    lacking: str = ""
    """Why there is no lesson."""

    @property
    def recipe(self) -> Any:
        return self.learned.recipe

    @property
    def valid(self) -> tuple[Sentences, ...]:
        """The columns of the held-out rows."""
        task: Any = self.lesson.task if self.lesson else None
        return task.valid_batches.columns if self.recipe.task == "translation" else (task.valid.ids,)

    @property
    def target_tokens_an_update(self) -> float:
        assert self.lesson is not None
        batches = self.lesson.batches
        lengths = batches.columns[-1].lengths - 1  # <s> is not predicted
        tokens = sum(int(lengths[indices].sum()) for indices in batches.order(0))  # as often as weights say
        return tokens / max(1, self.recipe.training.steps_per_epoch(batches.steps_per_epoch()))

    def texts(self, column: str, rows: int, every: int = 1) -> list[str]:
        """The first rows of a column, or every so many-th one, as the network reads them."""
        ids = self.columns[column]
        chosen = range(0, len(ids), every)[:rows]
        return self.learned.vocabularies[column].decode([ids[row].tolist() for row in chosen])

    def command(self, kind: str, **settings: Any) -> str:
        """The command that trains anew for two minutes with these settings."""
        words = ["weft", "train", f"{self.folder}", "--data", f"{self.root}"]
        words += ["--run", f"{beside(self.folder, kind.replace(' ', '-'))}"]
        if self.recipe.training.steps is None:
            words += ["--budget", f"{TRIAL_SECONDS // 60}m"]
        else:  # which a budget would contradict
            rows = self.logged.steps or [{"step": 1, "seconds": 1}]
            pace = max(rows[-1]["seconds"], 1e-3) / rows[-1]["step"]
            settings["training.steps"] = max(1, min(self.recipe.training.steps, round(TRIAL_SECONDS / pace)))
        for key, value in settings.items():
            words += ["--set", f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"]
        return shlex.join(words)


def read_last(run: RunFolder) -> tuple[RunStatus, dict[str, Any], Learned[Any]]:
    """The last checkpoint, its state and its model; its successor if a running training replaces it meanwhile."""
    status = run.status()
    if status is None:
        raise RunError(f"{run.path} has no checkpoint yet; diagnose it after the first one")
    place = run.checkpoint(status.last)
    try:
        if not place.is_dir():
            what = "has no checkpoint any more, as a finished trial of a study; train its recipe again"
            raise RunError(f"{run.path} {what}")
        return status, read_json(place / STATE, dict, {}), load_model(place)
    except (FileNotFoundError, ModelError, RunError):
        if run.status() == status:
            raise
        return read_last(run)


@contextmanager
def opened(folder: Path, data: Path | None, listener: Listener) -> Iterator[OpenRun]:
    """Open a run without changing it. Raises RunError for what is not a run, or has no checkpoint yet."""
    logged, run = read_run(folder), RunFolder(folder)
    status, state, learned = read_last(run)
    learned.network.to(choose_device()).eval()
    root = data or Path(state.get("root", "."))
    found = OpenRun(folder, logged, status.last, learned, root)
    task = learned.recipe.task
    if task not in probes.READERS or learned.recipe.model.is_counted:
        found.lacking = f"there are no probes for {'n-gram models' if task in probes.READERS else f'the task {task}'}"
        yield found
        return
    with tempfile.TemporaryDirectory() as scratch:
        try:
            given = parse_rendered(state["recipe"], RECIPES, run.checkpoint(status.last))
            files = TASKS[task].read(given.recipe, root, listener)
            if without_parents(files.sha256) != without_parents(state.get("data", {})):
                found.lacking = "the data files have changed since the run began"
            else:
                folders = Path(scratch) / "corpus"
                store = TASKS[task].reopen(learned, given, files, folders, listener, kept_in=run.corpus)
                found.lesson = TASKS[task].learn(learned, store, files, listener, ALONE)
                found.columns = dict(store.columns)
        except (WeftError, KeyError) as error:
            what = shown(" ".join(str(error).split()), 200)
            found.lacking = f"the data cannot be opened ({what}); --data names the folder of the recipe's files"
        yield found


def diagnose(folder: Path, *, data: Path | None = None, listener: Listener) -> Checkup:
    """Probe the last checkpoint of a run, and judge what was measured and what the run has logged."""
    began = time.monotonic()
    torch.set_num_threads(choose_threads())
    with opened(folder, data, listener) as run:
        examination = Examination(run)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            examination.all(lambda what: listener.on_message(f"{what} ..."))
    order = list(SYMPTOMS)
    examination.findings.sort(key=lambda finding: order.index(finding.kind))
    seconds = time.monotonic() - began
    return Checkup(str(folder), run.step, examination.findings, examination.figures, examination.not_made, seconds)


class Examination:
    """What is measured of a run, and what is found."""

    def __init__(self, run: OpenRun) -> None:
        self.run, self.training = run, run.recipe.training
        self.findings: list[Finding] = []
        self.figures: dict[str, float | None] = {}
        self.not_made: dict[str, str] = {}

    def all(self, on_progress: Callable[[str], None]) -> None:
        self.check_log()
        self.check_settings()
        if self.run.lesson is None:
            names = "later tokens, padding, sources, baselines, one batch, vocabulary, data"
            self.not_made[names] = self.run.lacking
            return
        on_progress("probing the network")
        reader = probes.READERS[self.run.recipe.task]()
        batch = self.batch(self.run.lesson, probes.PROBED_ROWS)
        if probes.is_finite(reader, self.run.learned.network, batch):
            self.probe(reader, batch)
            on_progress("reading losses")
            self.read_losses(reader, self.run.lesson)
            on_progress("learning one batch")
            self.learn_one_batch(reader, self.run.lesson)
        else:
            self.find("not finite", "log-probabilities of training rows are infinite or NaN")
            self.not_made["later tokens, padding, sources, baselines, one batch"] = "the output is not finite"
        on_progress("looking at the data")
        self.check_vocabulary()
        self.check_data()

    def find(self, kind: str, evidence: str, **settings: Any) -> None:
        command = self.run.command(kind, **{key.replace("__", "."): value for key, value in settings.items()})
        self.findings.append(Finding(kind, evidence, command))

    # What was logged and set

    def check_log(self) -> None:
        rows = self.run.logged.steps
        for what in skipping(self.run.logged):
            self.find("not finite", what, training__learning_rate=self.training.learning_rate / 3)
        ratios = sorted(row["update_ratio"] for row in rows if row.get("update_ratio"))
        if ratios:
            ratio = self.figures["update ratio, ninth decile"] = ratios[int(0.9 * len(ratios))]
            if ratio > limits.UPDATE_RATIO:
                rate = float(f"{self.training.learning_rate * limits.UPDATE_RATIO / ratio / 4:.0e}")
                what = f"one update in ten changes the weights by more than {100 * ratio:.2g} % of their norm"
                sound = f"sound runs stay below {100 * limits.UPDATE_RATIO:.0f} %"
                self.find("rate too high", f"{what}; {sound}", training__learning_rate=rate)
        else:
            self.not_made["update ratio"] = "no line of metrics.jsonl has it"
        later = rows[len(rows) // 2 :]
        for key, limit, kind, said in (
            ("clipped_share", limits.CLIPPED, "clipped", "of the updates of the later half were clipped"),
            ("padding_share", limits.PADDED, "padding", "of the places hold padding"),
        ):
            shares = [row[key] for row in later if row.get(key) is not None]
            if shares:
                share = self.figures[key.replace("_", " ")] = statistics.mean(shares)
                if share > limit:
                    change = {"training__clip_norm": 2 * self.training.clip_norm} if kind == "clipped" else {}
                    self.find(kind, f"{100 * share:.0f} % {said}", **change)
        self.check_validations()

    def check_validations(self) -> None:
        """Compare the last validation with the best of each metric. Nothing is found if the loss alone has risen."""
        rows = self.run.logged.validations
        rows = [row for row in rows if len(finite([row.get("valid_loss"), row.get("valid_accuracy")])) == 2]
        rows = [row for row in rows if "mean_of" not in row]  # an average that may have been dropped
        if len(rows) < 2:
            self.not_made["worse"] = "there are no two validations with a loss and an accuracy"
            return
        loss, accuracy = min(row["valid_loss"] for row in rows), max(row["valid_accuracy"] for row in rows)
        last = rows[-1]
        worse = last["valid_loss"] - loss, accuracy - last["valid_accuracy"]
        if worse[0] > limits.WORSE_LOSS and worse[1] > limits.WORSE_ACCURACY:
            what = (
                f"loss {loss:.3f} -> {last['valid_loss']:.3f}, accuracy {accuracy:.3f} -> {last['valid_accuracy']:.3f}"
            )
            self.find("worse", what, training__patience=2)

    def check_settings(self) -> None:
        smoothing = self.training.label_smoothing
        if smoothing > limits.SMOOTHING:
            vocabulary = list(self.run.learned.vocabularies.values())[-1].vocab_size
            right, other = 1 - smoothing + smoothing / vocabulary, smoothing / vocabulary
            floor = -right * math.log(right) - (vocabulary - 1) * other * math.log(other)
            what = f"{100 * smoothing:.0f} % of the probability is spread over {vocabulary:,} pieces: the loss that is "
            self.find(
                "smoothing",
                f"{what}minimized cannot fall below {floor:.2f} nats",
                training__label_smoothing=USUAL["training.label_smoothing"],
            )
        if self.run.lesson is None:
            return
        batches = self.run.lesson.batches
        tokens = self.figures["target tokens an update"] = self.run.target_tokens_an_update
        if tokens < limits.FEW_TOKENS:
            key = "batch_tokens" if self.training.batch_sentences is None else "batch_sentences"
            larger = math.ceil(getattr(self.training, key) * 1024 / tokens)
            rows = batches.rows_per_epoch() / batches.steps_per_epoch()
            what = f"{tokens:.0f} target tokens an update, in {rows * self.training.accumulate:.0f} rows"
            self.find("tiny batch", what, **{f"training__{key}": larger})

    # The network

    def probe(self, reader: probes.Reader, batch: Any) -> None:
        """Change what no prediction may depend on."""
        network = self.run.learned.network
        moved = self.figures["change by later tokens, nats"] = probes.moved_by_later_tokens(reader, network, batch)
        if moved > limits.ROUNDING:
            self.find("future seen", f"log-probabilities change by up to {moved:.3g} nats when only later tokens do")
        if not reader.has_source:
            self.not_made["padding"] = "in a language model it comes last, so it is among the later tokens"
            return
        padded = self.figures["change by padding, nats"] = probes.moved_by_padding(reader, network, batch)
        if padded is None:
            self.not_made["padding"] = "the network has no positions for longer rows"
        elif padded > limits.ROUNDING:
            self.find("padding read", f"log-probabilities change by up to {padded:.3g} nats when padding is doubled")

    def batch(self, lesson: Lesson, rows: int) -> Any:
        """Some training rows of the middle length."""
        order = sorted(
            lesson.batches.order(0), key=lambda indices: int(lesson.batches.columns[-1].lengths[indices].max())
        )
        return lesson.batches.batch(order[len(order) // 2][:rows]).to(choose_device())

    def read_losses(self, reader: probes.Reader, lesson: Lesson) -> None:
        network, device, task = self.run.learned.network, choose_device(), lesson.task
        train = probes.read(reader, network, (batch.to(device) for batch in lesson.batches.in_order()))
        self.figures["training loss, without dropout"] = train.nll
        held: Any = task.valid_batches if reader.has_source else None  # type: ignore[attr-defined]
        valid = probes.read(reader, network, (batch.to(device) for batch in held.in_order())) if held else None
        loss = valid.nll if valid else next((row["valid_loss"] for row in self.run.logged.validations[::-1]), None)
        self.figures["validation loss"] = loss
        seen = self.run.step * self.run.target_tokens_an_update
        logged = finite([row.get("nll", row["loss"]) for row in self.run.logged.steps[-1:]])
        for name, nats in (("before", train.nll_before), ("after", train.nll_after)):
            # Tied embeddings repeat what is read at first, while training minimizes the loss of the right token.
            if nats < train.nll and any(abs(trained - nats) < abs(trained - train.nll) for trained in logged):
                what = f"the token {name} the right one costs {nats:.2f} nats, the right one {train.nll:.2f}"
                self.find("off by one", what)
        self.compare_with_baselines(train.nll, loss, seen)
        if valid is not None:
            self.judge_gap(valid, seen)
        else:
            self.not_made["sources shuffled, copy baseline"] = "a language model has no source"
        dropout = max(self.run.recipe.model.dropouts, default=0.0)
        if loss is not None and train.nll < limits.BY_HEART * loss and dropout < limits.LEAST_DROPOUT:
            what = f"training loss {train.nll:.2f} nats, validation loss {loss:.2f}, dropout {dropout:g}"
            self.find("by heart", what, model__dropout=USUAL["model.dropout"])

    def judge_gap(self, valid: Any, seen: float) -> None:
        if valid.gap is None:
            self.not_made["sources shuffled"] = "the validation data has one pair"
            return
        self.figures["loss that the right source saves, nats"] = valid.gap
        self.figures["its standard error"] = valid.gap_error
        if valid.gap == 0 and valid.gap_error == 0:
            self.find("source cut off", f"with the sources of other pairs {valid.rows} losses stay exactly the same")
        elif seen < limits.TOKENS_TO_READ_A_SOURCE:
            if valid.gap < 2 * valid.gap_error:
                what = f"{seen:,.0f} target tokens were seen, and a source may be read from a million on"
                self.not_made["whether the source is read"] = what
        elif valid.gap < 3 * valid.gap_error:
            what = f"it saves {valid.gap:.3f} nats a token, with a standard error of {valid.gap_error:.3f}"
            self.find("source unread", what, training__learning_rate=self.training.learning_rate / 3)

    def compare_with_baselines(self, training: float, loss: float | None, seen: float) -> None:
        train, valid = list(self.run.columns.values())[-1], self.run.valid[-1]
        copies = None
        if len(self.run.columns) > 1:
            copies = probes.copy_accuracy(*(self.run.texts(column, 1000) for column in self.run.columns))
        found = probes.baselines(train, valid, list(self.run.learned.vocabularies.values())[-1].vocab_size)
        self.figures["unigram entropy"] = found.unigram
        self.figures["accuracy of the most frequent piece"] = found.constant
        self.figures["accuracy of copying the source"] = copies
        ratio = self.figures.get("update ratio, ninth decile") or 0.0
        if training < found.unigram - limits.KEPT and ratio < limits.RUINOUS_RATIO:  # large updates have lost nothing
            self.findings = [finding for finding in self.findings if finding.kind != "rate too high"]
        if seen < limits.LEAST_TOKENS:
            what = f"{seen:,.0f} target tokens were seen; a sound run is better from {limits.LEAST_TOKENS:,} on"
            self.not_made["whether the loss is better than frequencies"] = what
        elif training > found.unigram - limits.FREQUENCIES:
            evidence = f"training loss {training:.2f} nats, unigram entropy {found.unigram:.2f}"
            evidence += f", validation loss {loss:.2f}" if loss is not None else ""
            if getattr(self.run.recipe.model, "norm", "") == "post" and self.is_warmup_short():
                self.find("no warm-up", evidence, training__warmup=USUAL["training.warmup"])
            rate = float(f"{self.training.learning_rate / 5:.1g}")
            self.find("frequencies alone", evidence, training__learning_rate=rate)

    def is_warmup_short(self) -> bool:
        warmup = self.training.warmup
        return warmup < limits.SHORT_WARMUP if warmup < 1 else warmup < limits.SHORT_WARMUP * self.run.step

    def learn_one_batch(self, reader: probes.Reader, lesson: Lesson) -> None:
        batch = self.batch(lesson, probes.LEARNED_ROWS)
        before, after = probes.learn_one_batch(reader, self.run.learned.network, batch)
        self.figures["one batch, before"], self.figures["one batch, learned by heart"] = before, after
        if before > 0.5 and not after < limits.NOTHING_LEARNED * before:
            self.find("nothing learned", f"its loss was {before:.2f} nats and is {after:.2f} after 60 updates")

    # The data

    def check_vocabulary(self) -> None:
        training, tokenizer = self.run.recipe.training, self.run.recipe.tokenizer
        given = ("vocabulary_of", "source_vocabulary", "target_vocabulary")
        if training.init or getattr(training, "teachers", ()) or any(getattr(tokenizer, key, None) for key in given):
            self.not_made["vocabulary"] = "it is that of another model, or of a file"
            return
        column = list(self.run.columns)[-1]
        size = self.run.learned.vocabularies[column].vocab_size
        counts = probes.counts_of(self.run.columns[column], size)
        used = counts[counts > 0]
        share = self.figures["share of rare target pieces"] = float((used < limits.RARE).mean())
        if share > limits.RARE_SHARE:
            pairs = len(self.run.columns[column])
            frequent = max(SMALLEST_WITH_BYTES, int((used >= limits.RARE).sum()))
            fewer = min(size_for(pairs).vocabulary, frequent)
            keys = ("source_size", "target_size") if column == "target" else ("size",)
            what = (
                f"{100 * share:.0f} % of the {len(used):,} pieces occur less than {limits.RARE} times in {pairs:,} rows"
            )
            self.find("vocabulary", what, **{f"tokenizer__{key}": fewer for key in keys})

    def check_data(self) -> None:
        run = self.run
        known = 0.0
        if getattr(run.recipe.data, "running", False):
            self.not_made["leak"] = "running text is validated as one row"
        else:
            known = probes.share_known(tuple(run.columns.values()), run.valid)
            self.figures["share of validation rows in training"] = known
        if known > limits.LEAK_SHARE:
            has_rule = run.recipe.task == "translation"
            what = f"{100 * known:.0f} % of the validation rows stand in training, word for word"
            self.find("leak", what, **({"cleaning__leaks": "true"} if has_rule else {}))
        self.check_case()
        if run.recipe.task != "translation":
            self.not_made["whether the sides belong together"] = "a text has one side"
            return
        sources, targets = (run.texts(column, probes.ALIGNED_PAIRS) for column in ("source", "target"))
        found = probes.togetherness(sources, targets, (run.recipe.data.source, run.recipe.data.target))
        if isinstance(found, str):
            self.not_made["whether the sides belong together"] = found
            return
        self.figures["probability that a pair beats a wrong one"] = found.separation
        self.figures["share of pairs out of step"] = found.out_of_step
        if found.separation < limits.STRANGERS:
            what = f"a pair scores higher than a wrong one with a probability of {found.separation:.2f}"
            self.find("strangers", f"by a lexicon learned from {len(sources):,} of them {what}; chance is 0.5")
        elif found.out_of_step > limits.OUT_OF_STEP:
            lines = counted(abs(found.offset), "line")
            where = f"{lines} {'below' if found.offset > 0 else 'above'} its source"
            what = f"{100 * found.out_of_step:.0f} % of {len(sources):,} pairs; most targets stand {where}"
            self.find("out of step", what)

    def check_case(self) -> None:
        run = self.run
        for column, held in zip(run.columns, run.valid, strict=True):
            vocabulary = run.learned.vocabularies[column]
            ids = [held[row].tolist() for row in range(min(1000, len(held)))]
            train, valid = (
                probes.share_of_capitals(texts)
                for texts in (
                    run.texts(column, 2000, every=1 + len(run.columns[column]) // 2000),
                    vocabulary.decode(ids),
                )
            )
            if train is None or valid is None:
                continue
            self.figures[f"capitals, {column} of training"] = train
            self.figures[f"capitals, {column} of validation"] = valid
            if max(train, valid) > limits.CAPITALS and max(train, valid) > limits.SAME_CASE * min(train, valid):
                what = f"{100 * train:.1f} % of the letters on the {column} side are capitals in training"
                self.find("other case", f"{what}, {100 * valid:.1f} % in validation")
