"""A run folder -> report.html: what was trained, how it went, how good it is, in one file that needs no network.

The page is a header and the SECTIONS at the end of this file; to add to it, write one more function from a Run to HTML
and name it there. run_files.py reads the folder; which metrics a task has stands in folders/metrics.py.
"""

import re
import statistics
from pathlib import Path
from typing import Any

from weft.analysis.cells import data_names, moment, on_its_scale, sentences
from weft.analysis.curves import best_validation, charts, is_smoothed, metrics_of, unit_of_speed
from weft.analysis.data_sections import data
from weft.analysis.html import Column, count, duration, finite, largest, number, spaced, table, text
from weft.analysis.page import page, say_in
from weft.analysis.run_files import Line, Run, needing_weft_json, read_run
from weft.analysis.translation_sections import attention, best_and_worst, faults, lengths, positions, progress, samples
from weft.errors import as_path
from weft.figures.words import Say
from weft.files import write_atomically
from weft.folders.metrics import HEADLINES


def write_report(run: str | Path, language: str = "en") -> Path:
    """Write `run`/report.html in one step and return its path; the page is in English ("en") or Chinese ("zh").

    Raises UsageError for another language, and RunError where `run` is not a run folder, or where a file in it is
    damaged by more than a torn last line.
    """
    run, say = as_path(run, "a run"), say_in(language)
    told = read_run(run)
    with needing_weft_json(run):
        page = _page(told, say)
    write_atomically(run / "report.html", page)
    return run / "report.html"


# The page


def _page(run: Run, say: Say) -> str:
    sections = [(say(title), make(run, say)) for title, make in SECTIONS]
    source, target = run.setting("data", "source"), run.setting("data", "target")
    about = [
        say(run.setting("", "task")),
        f"{source} → {target}" if source and target else "",
        run.setting("model", "kind"),
        say("finished" if run.state.get("finished") else "not finished"),
    ]
    return page(
        kind=say("weft training report"),
        title=run.name,
        subtitle=" · ".join(part for part in about if part),
        header=f"{_results(run, say)}\n{_facts(run, say)}\n",
        main="\n".join(f"<section>\n<h2>{title}</h2>\n{html}\n</section>" for title, html in sections if html),
        footer=say("Written by weft from the files of the run. To write it again: <code>weft report RUN</code>."),
        language=say.language,
    )


def _results(run: Run, say: Say) -> str:
    """The headline score of the newest evaluation on each data set, or before any evaluation the best validation."""
    headline = HEADLINES.get(run.setting("", "task"))
    signed = {
        data_names(evaluation, say): (evaluation, evaluation["scores"][headline.name])
        for evaluation in run.evaluations
        if headline is not None and headline.name in evaluation.get("scores", {})
    }
    if headline is not None and signed:
        results = "\n".join(
            _result(
                on_its_scale(score, score.get("value")),
                say("{score} on {data}", score=say(headline.title), data=text(data))
                + (say(", ") + sentences(evaluation, say) if "sentences" in evaluation else ""),
                _signature(score),
            )
            for data, (evaluation, score) in signed.items()
        )
        return f'<div class="results">\n{results}\n</div>'
    if (best := best_validation(run)) is None:
        return f'<p class="note">{say("No score yet: the run has not been validated.")}</p>'
    metric, line = best
    return _result(
        number(line[metric.key], metric.form),
        say("best {metric} at validation, {when}", metric=text(say(metric.title)), when=moment(line, say)),
        say("Measured while training; <code>weft evaluate</code> prints a score with its signature."),
    )


def _result(value: str, what: str, signature: str) -> str:
    described = f'<span class="what">{what}<small>{signature}</small></span>'
    return f'<p class="result"><span class="value">{value}</span>{described}</p>'


def _facts(run: Run, say: Say) -> str:
    lines = [*run.steps, *run.validations]
    unit = unit_of_speed(run)
    speeds = finite(line.get(f"{unit}_per_second") for line in run.steps)
    seconds = finite(line.get("seconds") for line in lines)
    parameters = [evaluation["parameters"] for evaluation in run.evaluations if evaluation.get("parameters")]
    facts = [
        ("Steps", count(largest(lines, "step")), ""),
        ("Epochs", number(largest(lines, "epoch"), ".1f"), ""),
        ("Wall time", duration(max(seconds)) if seconds else "", ""),
        (
            "Speed",
            count(statistics.median(speeds)) if speeds else "",
            say("{unit} per second, median", unit=say(spaced(unit))),
        ),
        ("Parameters", count(parameters[-1]) if parameters else "", ""),
        ("Machine", text(run.machine.get("processor")), text(_machine(run.machine, say))),
        ("Weights kept from", _step_of(run.state.get("best"), say), ""),
    ]
    if run.evaluations and (best := best_validation(run)):  # without evaluations it stands above
        metric, line = best
        title = say("Best {metric} at validation", metric=text(say(metric.title)))
        facts.append((title, number(line[metric.key], metric.form), moment(line, say)))
    items = "\n".join(
        f"<div><dt>{say(name)}</dt><dd>{value}{f'<small>{more}</small>' if more else ''}</dd></div>"
        for name, value, more in facts
        if value
    )
    return f'<dl class="facts">\n{items}\n</dl>' if items else ""


def _machine(machine: Line, say: Say) -> str:
    """cpu, 2 threads, torch 2.13.0"""
    threads = machine.get("threads", "")
    parts = (
        machine.get("device"),
        say("1 thread") if threads == "1" else say("{count} threads", count=threads),
        f"torch {machine.get('torch')}",
    )
    return say(", ").join(map(str, parts)) if machine else ""


def _step_of(checkpoint: Any, say: Say) -> str:
    found = re.search(r"step-(\d+)$", str(checkpoint))
    return say("step {step}", step=count(int(found[1]))) if found else ""


# The sections


def curves(run: Run, say: Say) -> str | None:
    """Every column of metrics.jsonl over the steps."""
    if not run.steps and not run.validations:
        return f'<p class="note">{say("Nothing has been logged yet.")}</p>'
    figures = "\n".join(charts(run, say).values())
    note = say(
        "Training minimizes the loss with label smoothing. Compare the validation loss with the curve “training”, "
        "which is without it."
    )
    notes = f'\n<p class="note">{note}</p>' if is_smoothed(run) else ""
    return f'<div class="charts">\n{figures}\n</div>{notes}\n{_validation_table(run, say)}'


def _validation_table(run: Run, say: Say) -> str:
    """The figures behind the curves, for those who cannot see them or want to copy them."""
    if not run.validations:
        return ""
    metrics = [Column(text(say(metric.title)), metric.key, metric.form) for metric in metrics_of(run)]
    made = table(run.validations, [Column(say("Step"), "step", ",.0f"), Column(say("Epoch"), "epoch", ".2f"), *metrics])
    several = len(run.validations)
    summary = (
        say("The figures of all {count} validations", count=several)
        if several > 1
        else say("The figures of the validation")
    )
    return f'<details><summary>{summary}</summary>\n<div class="scroll">{made}</div></details>'


def scores(run: Run, say: Say) -> str | None:
    """Every evaluation of scores.json with all its scores and their signatures."""
    return "\n".join(_evaluation(evaluation, say) for evaluation in run.evaluations) or None


def _evaluation(evaluation: Line, say: Say) -> str:
    translated, seconds = evaluation.get("sentences"), evaluation.get("seconds")
    settings = evaluation.get("decoding", {}).items()
    every = ", ".join(f"{key} {value}" for key, value in settings if value is not None)
    decoding = evaluation.get("decoding_in_use", every)
    about = [
        sentences(evaluation, say) if translated else "",
        say("{count} seconds", count=f"{seconds:,.1f}") if seconds else "",
        say("{count} sentences per second", count=f"{translated / seconds:,.1f}") if seconds and translated else "",
        say("{count} parameters", count=count(evaluation["parameters"])) if evaluation.get("parameters") else "",
    ]
    notes = [
        f"<b>{text(data_names(evaluation, say))}</b>",
        say(", ").join(part for part in about if part),
        say("decoding: {settings}", settings=text(decoding)) if decoding else "",
        _how_intervals(evaluation, say),
        "".join(
            f"{say('sha256 of the data:')} <code>{text(digest)}</code>"
            for digest in evaluation.get("data", {}).values()
        ),
    ]
    lines = [{"name": name, **score} for name, score in evaluation.get("scores", {}).items()]
    columns = [
        Column(say("Metric"), "name"),
        Column(say("Score"), lambda score: on_its_scale(score, score.get("value")), "html"),
        Column(say("Interval"), lambda score: _interval(score, say), "html"),
        Column(say("Signature"), _signature),
    ]
    caption = "<br>".join(note for note in notes if note)
    return f'<div class="scroll">{table(lines, columns, kind="scores", caption=caption)}</div>'


def _how_intervals(evaluation: Line, say: Say) -> str:
    found = next((score["interval"] for score in evaluation.get("scores", {}).values() if score.get("interval")), {})
    confidence = number(found.get("confidence"), "g")
    signature = text(found.get("signature"))
    return (
        say("intervals: {confidence} confidence, {signature}", confidence=confidence, signature=signature)
        if confidence
        else ""
    )


def _interval(score: Line, say: Say) -> str:
    found = score.get("interval") or {}
    bounds = [found.get("low"), found.get("high")]
    low, high = (on_its_scale(score, bound) for bound in bounds)
    return say("{low} to {high}", low=low, high=high) if len(finite(bounds)) == 2 else ""


def recipe(run: Run, say: Say) -> str | None:
    """What differs from the defaults, and the resolved recipe as the run keeps it, each value with its origin."""
    if not run.recipe:
        return f'<p class="note">{say("The folder holds no recipe: no checkpoint has been written yet.")}</p>'
    summary = say("The resolved recipe, each value with its origin")
    return f"{_from_defaults(run, say)}<details><summary>{summary}</summary>\n<pre>{text(run.recipe)}</pre></details>"


def _from_defaults(run: Run, say: Say) -> str:
    """The keys that have another value than their default, which a run tells when it ends."""
    if "recipe" not in run.details:
        return ""
    keys = ("key", "value", "default", "origin")
    columns = [Column(say(key.capitalize()), key) for key in keys]
    return table(run.details["recipe"], columns, caption=say("The keys that differ from the defaults.")) + "\n"


def machine(run: Run, say: Say) -> str | None:
    """The machine of the last checkpoint, with the versions."""
    if not run.machine:
        return None
    lines = [{"what": say(str(name)), "value": say(str(value))} for name, value in run.machine.items()]
    return table(lines, [Column(say("What"), "what"), Column(say("Value"), "value")])


# Cells


def _signature(score: Line) -> str:
    """Signatures are long and have no spaces: they may break after each part."""
    return f"<code>{text(score.get('signature')).replace('|', '|<wbr>')}</code>" if score.get("signature") else ""


SECTIONS = [
    ("Curves", curves),
    ("Scores", scores),
    ("Length", lengths),
    ("Best and worst sentences", best_and_worst),
    ("Faults of the translations", faults),
    ("Attention", attention),
    ("Positions", positions),
    ("Samples", samples),
    ("How samples changed", progress),
    ("Data", data),
    ("Recipe", recipe),
    ("Machine and versions", machine),
]
