"""A worker takes a trial that nobody holds, trains it from where it stands, measures it, and takes the next.

A worker may be killed at any moment. The kernel then frees its trial, and the next worker goes on from the last
checkpoint, to the same weights bit for bit.
"""

import gc
import json
import shutil
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from weft.config import Resolved, changed
from weft.errors import CorpusError, ModelError, Paused, RunError, Stopped, UsageError, WeftError
from weft.evaluating.evaluation import evaluate
from weft.files import sha256, write_atomically
from weft.folders.finding import find_model
from weft.folders.metrics import METRICS
from weft.folders.model_folder import Learned, load_model
from weft.metrics.references import reference_sets
from weft.metrics.translation import score_translations
from weft.runs.train import Silent, as_if_alone, train_resolved
from weft.runtime import choose_device, describe_machine, return_memory_pages
from weft.tasks import TASKS
from weft.training.distributed import ALONE
from weft.training.run_folder import RunFolder, training_state
from weft.training.selection import find_metric
from weft.training.signals import StopRequest, stop_on_signal
from weft.training.task import Listener
from weft.translating.translator import Translator
from weft.tuning.halving import next_rung
from weft.tuning.lengths import OF_BATCHES, Length, length_of
from weft.tuning.study import HALVES, Study, holding_lock
from weft.tuning.trial import HYPOTHESES, Result, Spec, Trial, first_lines

FACTS_OF_A_TRIAL = ("number", "settings", "seed", "phase", "arm", "rungs")
POLL = 0.5
"""Seconds between two looks for work, while others are at the last trials."""


def work(study: Study, listener: Listener | None = None) -> None:
    """Work on a study until it is finished. Raises Stopped after a signal, with everything saved, and WeftError where
    no trial can go on, such as on a full disk."""
    listener = listener or Silent()
    with stop_on_signal() as stop, as_if_alone():
        while True:
            if not take_one(study, stop, listener):
                finished = is_finished(study)  # before: a last result between the two may ask for confirmation
                with holding_lock(study.folder):
                    is_more = study.extend()
                if finished and not is_more:
                    return
                if not is_more:
                    time.sleep(POLL)
            stop.honor("the study was stopped")


def is_finished(study: Study) -> bool:
    return all(trial.spec() is not None and study.result(trial) is not None for trial in study.trials())


def take_one(study: Study, stop: StopRequest, listener: Listener) -> bool:
    """Take one step of one trial: to its next rung, or to its end. Returns whether there was one to take.

    Trials that nobody has begun come first, so that a trial that kills its workers does not keep the others waiting.
    """
    trials = study.trials()
    for trial in sorted(trials, key=lambda one: one.run.exists()):
        if study.result(trial) is not None:
            continue
        spec = trial.spec()
        if spec is None or next_rung(study, trial, spec) is None:
            continue
        with trial.claimed() as is_mine:
            study.read_again()
            if not is_mine or study.result(trial) is not None or not trial.path.exists():
                continue
            rung = next_rung(study, trial, spec)
            if rung is None:
                continue
            if trial.is_damaged():
                listener.on_message(f"trial {trial.number}: its result was damaged and is made again")
            advance(study, trial, spec, rung, stop, listener)
            gc.collect()  # a trainer's parts refer to each other
            return_memory_pages()
            return True
    return False


def advance(study: Study, trial: Trial, spec: Spec, rung: int, stop: StopRequest, listener: Listener) -> None:
    """Train a trial to this rung, 0 for its end, and write what came of it. A trial that fails is a result, too."""
    facts = {"number": trial.number, "settings": spec.settings, "seed": spec.seed, "phase": spec.phase}
    rungs = range(1, len(study.facts.length.rungs) + 1)
    values = [found["value"] for number in rungs if (found := trial.rung(number)) is not None]
    facts |= {"arm": spec.arm, "rungs": tuple(values)}
    if rung < 0:
        length, reached = length_for(study, trial, spec), trial.rung(-rung)
        assert reached is not None  # next_rung has compared it
        trial.write(
            Result(
                **facts,
                state="stopped",
                why=f"at rung {-rung}",
                step=reached["step"],
                steps=length.steps,
                target_tokens=reached["target_tokens"],
                seconds=reached["seconds"],
                machine=describe_machine(),
            )
        )
        shutil.rmtree(trial.run, ignore_errors=True)
        listener.on_message(f"trial {trial.number}: stopped at rung {-rung}")
        return
    listener.on_message(f"trial {trial.number}: {described(spec)}")
    study.check_files()  # before anything is tried
    try:
        found = searched_again(study, trial, spec)
        if found is None:
            length = train_to(study, trial, spec, rung, stop, listener)
            if length is None:
                return
            found = measure(study, trial, spec, length)
    except Exception as error:
        if is_of_the_place(error):
            raise
        if isinstance(error, CorpusError):
            study.check_files()  # if they are not there or have changed, no trial can be trained
        why = str(error) if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"
        listener.on_message(f"trial {trial.number}: failed: {why}")
        trial.write(Result(**facts, state="failed", why=why, machine=describe_machine()))
        return
    trial.write(Result(**facts, **found))
    shutil.rmtree(trial.run / "checkpoints", ignore_errors=True)  # the model is in run/ itself
    shutil.rmtree(trial.path / "corpus", ignore_errors=True)
    figure = Result(**facts, **found).value(study.metric.name, decoding=found["measured"][0]["decoding"])
    told = "not finite" if figure is None else f"{figure:{study.metric.form}}"
    listener.on_message(f"trial {trial.number}: {study.metric.title} {told}")


def described(spec: Spec) -> str:
    settings = ", ".join(f"{key} = {value}" for key, value in spec.settings.items()) or "the base"
    return f"{settings}, seed {spec.seed}{' (to confirm)' if spec.phase == 'confirm' else ''}"


def is_of_the_place(error: Exception) -> bool:
    """Whether an error concerns the machine or the whole study, so that other trials would meet it as well."""
    if isinstance(error, Stopped | OSError):
        return True
    said = str(error)
    is_of_study = isinstance(error, RunError) and ("have changed since the study" in said or "another process" in said)
    return is_of_study or isinstance(error.__cause__, OSError | SafetensorError)


def recipe_for(study: Study, trial: Trial, spec: Spec) -> tuple[Resolved[Any], Length]:
    """The trial's recipe, which differs from the base in what the trial changes, and in its number of steps if that
    changes the batches."""
    resolved, length = study.recipe_of(spec), length_for(study, trial, spec)
    return (
        resolved if length == study.facts.length else changed(resolved, {**length.keys, **spec.settings}, "study")
    ), length


def length_for(study: Study, trial: Trial, spec: Spec) -> Length:
    if not any(key.startswith(OF_BATCHES) for key in spec.settings):
        return study.facts.length
    folder, epochs = trial.path / "corpus", study.facts.length.epochs
    return length_of(study.recipe_of(spec), study.config, study.files, folder, study.corpus, epochs)


def train_to(study: Study, trial: Trial, spec: Spec, rung: int, stop: StopRequest, listener: Listener) -> Length | None:
    """Train to a rung, and write what was measured there; to the end for rung 0. Returns the trial's length once its
    run is finished.

    A run that cannot go on, because a file of it was damaged, is begun anew.
    """
    resolved, length = recipe_for(study, trial, spec)
    has_begun = trial.run.exists()
    kept_in = trial.path / "corpus" if (trial.path / "corpus").exists() else study.corpus
    stop.pause_at = length.rungs[rung - 1][0] if rung else None
    try:
        if not has_come_to(trial, stop.pause_at):
            train_resolved(
                resolved,
                data_root=study.data_root,
                run_path=trial.run,
                budget=None,
                listener=Silent(),
                ranks=ALONE,
                stop=stop,
                kept_in=kept_in,
                part_of_valid=lambda valid: valid.every(2, HALVES["choose"]),
            )
            return length
    except Paused:
        pass
    except (RunError, ModelError) as error:
        if is_of_the_place(error) or not has_begun:
            raise
        why = first_lines(str(error))
        listener.on_message(f"trial {trial.number}: begun anew, because its run cannot go on: {why}")
        shutil.rmtree(trial.run)
        return train_to(study, trial, spec, rung, stop, listener)
    step, tokens = length.rungs[rung - 1]
    row = next(row for row in validations(trial.run) if row["step"] == step)
    found = {"value": row[f"valid_{study.validated}"], "step": step, "target_tokens": tokens, "seconds": row["seconds"]}
    trial.write_rung(rung, found)
    return None


def has_come_to(trial: Trial, step: int | None) -> bool:
    """Whether a worker has paused a trial's run at this step, and was killed before it wrote so."""
    status = RunFolder(trial.run).status()
    return step is not None and status is not None and status.last >= step and not status.finished


def validations(run: Path) -> list[dict[str, Any]]:
    """The validations of a run, the last line of a step last."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if any(key.startswith("valid_") for key in row)]


def searched_again(study: Study, trial: Trial, spec: Spec) -> dict[str, Any] | None:
    """What is known of a trial that was trained before decodings were added to the study, with all of them; None if it
    is to be trained."""
    known = trial.result()
    if known is None or known.state != "done" or not known.hypotheses:
        return None
    try:
        model = load_model(find_model(trial.run))
    except (ModelError, UsageError):
        return None
    prepare_to_measure(model)
    facts = {name: value for name, value in vars(known).items() if name not in FACTS_OF_A_TRIAL}
    return facts | search(study, trial, spec, model, {half: known.measured[0][half] for half in HALVES})


def prepare_to_measure(model: Learned[Any]) -> None:
    model.network.to(choose_device())
    torch.set_num_threads(model.recipe.training.threads or 1)


def measure(study: Study, trial: Trial, spec: Spec, length: Length) -> dict[str, Any]:
    """Measure the best weights of a finished run on both halves of valid, with every decoding; the choosing half's
    losses are those of the run's own validation."""
    model = load_model(find_model(trial.run))
    prepare_to_measure(model)
    status = RunFolder(trial.run).status()
    assert status is not None
    progress = training_state(trial.run)["progress"]
    key = find_metric(METRICS[model.recipe.task], model.recipe.training.select_by).key
    of_best = [row for row in validations(trial.run) if row["step"] == status.best]
    # an average that was no better has a row of its own, behind that of the weights which were kept
    kept_row = next((row for row in of_best if row.get(key) == progress["best_value"]), of_best[-1])
    valid = {"choose": kept_row, "confirm": TASKS[model.recipe.task].measure(model, study.valid("confirm"), ALONE)}
    valid["confirm"] = valid["confirm"].evaluate(model.network).metrics
    of_halves = {
        half: {key.removeprefix("valid_"): value for key, value in row.items() if key.startswith("valid_")}
        for half, row in valid.items()
    }
    logged = [json.loads(line) for line in (trial.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    speeds = [value for row in logged for key, value in row.items() if key.endswith("_per_second")]
    found = {
        "state": "done",
        "step": status.last,
        "steps": length.steps,
        "best_step": status.best,
        "target_tokens": round(length.target_tokens * status.last / length.steps),  # patience may have ended it early
        "parameters": model.count_parameters(),
        "seconds": progress["seconds"],
        "target_tokens_per_second": statistics.median(speeds) if speeds else None,
        "machine": describe_machine(),
        "measured": ({"decoding": {}, **of_halves, "seconds": 0.0},),
    }
    if study.searches:
        found |= search(study, trial, spec, model, of_halves)
    return found


def search(
    study: Study, trial: Trial, spec: Spec, model: Learned[Any], of_halves: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Translate valid with each decoding; the hypotheses go to a file."""
    valid, target = study.files.valid, model.recipe.data.target
    translator = Translator(model)
    measured, kept, signatures = [], [], {}
    for decoding in study.decodings(spec):
        plain = {key.removeprefix("decoding."): value for key, value in decoding.items()}
        evaluated = evaluate(translator, valid, **plain)
        entry: dict[str, Any] = {"decoding": decoding, "seconds": round(evaluated.seconds, 3)}
        for half, first in HALVES.items():
            references = reference_sets(valid.every(2, first).references)
            scores = score_translations(evaluated.hypotheses[first::2], references, target)
            signatures |= {score.name: score.signature for score in scores.scores}
            entry[half] = {**of_halves[half], **scores.values()}  # not the chrF of greedy validations
        measured.append(entry)
        kept.append({"decoding": decoding, "hypotheses": evaluated.hypotheses})
    write_atomically(trial.path / HYPOTHESES, json.dumps(kept, ensure_ascii=False) + "\n")
    return {
        "measured": tuple(measured),
        "signatures": signatures,
        "hypotheses": sha256(trial.path / HYPOTHESES),
    }
