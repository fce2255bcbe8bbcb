"""The curves of a run over its steps, for the report and as pictures."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from weft.analysis.html import count, finite, spaced
from weft.analysis.page import say_in
from weft.analysis.pictures import write_pictures
from weft.analysis.run_files import Line, Run, read_run
from weft.errors import shown
from weft.figures.line_chart import Series, line_chart
from weft.figures.words import ENGLISH, Say
from weft.files import write_atomically
from weft.folders.metrics import METRICS
from weft.training.metric import Metric


def metrics_of(run: Run) -> list[Metric]:
    """What the validations measured: first the metrics of the run's task, then what is unknown by its bare name."""
    measured = {key for line in run.validations for key in line if key.startswith("valid_")}
    known = [metric for metric in METRICS.get(run.setting("", "task"), ()) if metric.key in measured]
    others = sorted(measured - {metric.key for metric in known})
    names = (key.removeprefix("valid_") for key in others)
    return [*known, *(Metric(name, "min" if "loss" in name else "max", shown(name, 200)) for name in names)]


def best_validation(run: Run) -> tuple[Metric, Line] | None:
    """The metric by which the run chooses its weights, and the validation that is the best by it."""
    chosen = run.setting("training", "select_by")
    metric = min(metrics_of(run), key=lambda metric: metric.name != chosen, default=None)
    scored = [line for line in run.validations if metric is not None and finite([line.get(metric.key)])]
    if metric is None or not scored:
        return None
    sign = 1 if metric.better == "max" else -1

    def standing(line: Line) -> tuple[float, float]:
        """As in training: of equal values, the lower loss."""
        return sign * line[metric.key], -next(iter(finite([line.get("valid_loss")])), math.inf)

    return metric, max(scored, key=standing)


def charts(run: Run, say: Say = ENGLISH) -> dict[str, str]:
    """The curves by the name of their file, as SVG."""
    draw = partial(line_chart, x_label=_steps_and_epochs(run, say), width=430, height=280, language=say.language)
    smoothed = is_smoothed(run)
    losses = [
        *([column(say("training"), run.steps, "nll")] if smoothed else []),
        column(say("training, with label smoothing" if smoothed else "training"), run.steps, "loss"),
        column(say("validation"), run.validations, "valid_loss"),
    ]
    unit = unit_of_speed(run)
    speed = column(say("speed"), run.steps, f"{unit}_per_second")
    rate, norm = column(say("rate"), run.steps, "learning_rate"), column(say("norm"), run.steps, "grad_norm")
    return {
        "loss": draw(
            losses, title=say("Loss"), y_label=say("nats per token"), lowest=say("validation"), limits=limits_of(losses)
        ),
        **{metric.name: _chart_of(metric, run, say, draw) for metric in metrics_of(run) if metric.key != "valid_loss"},
        "learning-rate": draw([rate], title=say("Learning rate"), y_label=say("rate"), from_zero=True),
        "gradient-norm": draw([norm], title=say("Gradient norm"), y_label=say("norm, logarithmic"), log_y=True),
        "speed": draw(
            [speed],
            title=say("Speed"),
            y_label=say("{unit} per second, padding not counted", unit=say(spaced(unit))),
            from_zero=True,
        ),
    }


def is_smoothed(run: Run) -> bool:
    """Whether the loss that training lowers differs from the negative log-likelihood, as by label smoothing."""
    both = (finite([line.get("loss"), line.get("nll")]) for line in run.steps)
    return any(len(pair) == 2 and abs(pair[0] - pair[1]) > 1e-6 for pair in both)


def limits_of(curves: Sequence[Series], most: float = math.inf) -> tuple[float, float]:
    """Limits of the vertical axis: nothing below 0, unless a value is."""
    return (-math.inf if any(value < 0 for curve in curves for value in curve.y) else 0.0), most


def _steps_and_epochs(run: Run, say: Say) -> str:
    """The label of the x axis, with how many steps an epoch has."""
    lines = [line for line in (*run.steps, *run.validations) if finite([line.get("step"), line.get("epoch")])]
    last = max(lines, key=lambda line: line["step"], default={})
    if not last.get("epoch"):
        return say("step")
    return say("step, {count} in an epoch", count=count(round(last["step"] / last["epoch"])))


def write_figures(run: Path, folder: Path, language: str = "en") -> list[Path]:
    """Write the curves as pictures into a folder, and all of their figures as curves.csv; raises as `write_report`."""
    told = read_run(Path(run))
    lines = [line for line in (*told.steps, *told.validations) if finite([line.get("step")])]
    lines.sort(key=lambda line: line["step"])
    keys = list(dict.fromkeys(key for line in lines for key, value in line.items() if finite([value])))
    rows = [
        ",".join(keys),
        *(",".join("" if line.get(key) is None else str(line[key]) for key in keys) for line in lines),
    ]
    written = write_pictures(folder, charts(told, say_in(language)))
    write_atomically(folder / "curves.csv", "".join(f"{row}\n" for row in rows))
    return [*written, folder / "curves.csv"]


def _chart_of(metric: Metric, run: Run, say: Say, draw: Callable[..., str]) -> str:
    is_max, name = metric.better == "max", say(metric.title)
    curve = column(name, run.validations, metric.key)
    limits = limits_of([curve], metric.most)
    return draw(
        [curve],
        title=say("Validation {metric}", metric=name),
        y_label=name,
        limits=limits,
        from_zero=is_max and limits[0] == 0,
        highest=name if is_max else None,
        lowest=None if is_max else name,
    )


def column(name: str, lines: Sequence[Line], key: str, along: str = "step") -> Series:
    """The lines that have the key `along`; a value that is not finite (null, NaN) is a gap in the curve."""
    there = [line for line in lines if key in line and finite([line.get(along)])]
    values = [line[key] if finite([line[key]]) else math.nan for line in there]
    return Series(name, [line[along] for line in there], values)


def unit_of_speed(*runs: Run) -> str:
    """What the first run that tells it counts per second: the key UNIT_per_second of its steps."""
    keys = (key for run in runs for line in run.steps for key in line if key.endswith("_per_second"))
    return next(keys, "tokens_per_second").removesuffix("_per_second")
