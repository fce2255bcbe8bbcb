"""A run folder -> report.html: what was trained, how it went, how good it is, in one file that needs no network.

The page is a header and the SECTIONS at the end of this file; to add to it, write one more function from a Run to HTML
and name it there. run_files.py reads the folder; which metrics a task has stands in folders/metrics.py.
"""

import re
import statistics
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from weft.analysis.curves import best_validation, charts, metrics_of, unit_of_speed
from weft.analysis.html import Column, count, duration, finite, largest, number, spaced, table, text
from weft.analysis.page import page
from weft.analysis.run_files import Line, Run, read_run
from weft.errors import RunError, shown
from weft.files import write_atomically
from weft.folders.metrics import HEADLINES


def write_report(run: Path) -> Path:
    """Write `run`/report.html in one step and return its path.

    Raises RunError where `run` is not a run folder, or where a file in it is damaged by more than a torn last line.
    """
    run = Path(run)
    told = read_run(run)
    try:
        page = _page(told)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(
            f"{run} has no report: one of its JSON files does not hold what weft writes there "
            f"({type(error).__name__}: {shown(str(error), 200)})"
        ) from error
    write_atomically(run / "report.html", page)
    return run / "report.html"


# The page


def _page(run: Run) -> str:
    sections = [(title, make(run)) for title, make in SECTIONS]
    source, target = run.setting("data", "source"), run.setting("data", "target")
    about = [
        run.setting("", "task"),
        f"{source} → {target}" if source and target else "",
        run.setting("model", "kind"),
        "finished" if run.state.get("finished") else "not finished",
    ]
    return page(
        kind="weft training report",
        title=run.name,
        subtitle=" · ".join(part for part in about if part),
        header=f"{_results(run)}\n{_facts(run)}\n",
        main="\n".join(f"<section>\n<h2>{title}</h2>\n{html}\n</section>" for title, html in sections if html),
        footer="Written by weft from the files of the run. <code>weft report</code> and the folder write it again.",
    )


def _results(run: Run) -> str:
    """The headline score of the newest evaluation on each data set, or before any evaluation the best validation."""
    headline = HEADLINES.get(run.setting("", "task"))
    signed = {
        _data_names(evaluation): (evaluation, evaluation["scores"][headline.name])
        for evaluation in run.evaluations
        if headline is not None and headline.name in evaluation.get("scores", {})
    }
    if headline is not None and signed:
        results = "\n".join(
            _result(
                _on_its_scale(score, score.get("value")),
                f"{headline.title} on {text(data)}"
                + (f", {_sentences(evaluation)}" if "sentences" in evaluation else ""),
                _signature(score),
            )
            for data, (evaluation, score) in signed.items()
        )
        return f'<div class="results">\n{results}\n</div>'
    if (best := best_validation(run)) is None:
        return '<p class="note">No score yet: the run has not been validated.</p>'
    metric, line = best
    return _result(
        number(line[metric.key], metric.form),
        f"best {text(metric.title)} at validation, {_moment(line)}",
        "Measured while training; <code>weft evaluate</code> prints a score with its signature.",
    )


def _result(value: str, what: str, signature: str) -> str:
    described = f'<span class="what">{what}<small>{signature}</small></span>'
    return f'<p class="result"><span class="value">{value}</span>{described}</p>'


def _facts(run: Run) -> str:
    lines = [*run.steps, *run.validations]
    unit = unit_of_speed(run)
    speeds = finite(line.get(f"{unit}_per_second") for line in run.steps)
    seconds = finite(line.get("seconds") for line in lines)
    parameters = [evaluation["parameters"] for evaluation in run.evaluations if evaluation.get("parameters")]
    facts = [
        ("Steps", count(largest(lines, "step")), ""),
        ("Epochs", number(largest(lines, "epoch"), ".1f"), ""),
        ("Wall time", duration(max(seconds)) if seconds else "", ""),
        ("Speed", count(statistics.median(speeds)) if speeds else "", f"{spaced(unit)} per second, median"),
        ("Parameters", count(parameters[-1]) if parameters else "", ""),
        ("Machine", text(run.machine.get("processor")), text(_machine(run.machine))),
        ("Weights kept from", _step_of(run.state.get("best")), ""),
    ]
    if run.evaluations and (best := best_validation(run)):  # without evaluations it stands above
        metric, line = best
        facts.append((f"Best {text(metric.title)} at validation", number(line[metric.key], metric.form), _moment(line)))
    items = "\n".join(
        f"<div><dt>{name}</dt><dd>{value}{f'<small>{more}</small>' if more else ''}</dd></div>"
        for name, value, more in facts
        if value
    )
    return f'<dl class="facts">\n{items}\n</dl>' if items else ""


def _machine(machine: Line) -> str:
    """cpu, 2 threads, torch 2.13.0"""
    threads = machine.get("threads", "")
    parts = (machine.get("device"), f"{threads} thread{'s' * (threads != '1')}", f"torch {machine.get('torch')}")
    return ", ".join(map(str, parts)) if machine else ""


def _step_of(checkpoint: Any) -> str:
    found = re.search(r"step-(\d+)$", str(checkpoint))
    return f"step {count(int(found[1]))}" if found else ""


# The sections


def curves(run: Run) -> str | None:
    """Every column of metrics.jsonl over the steps."""
    if not run.steps and not run.validations:
        return '<p class="note">Nothing has been logged yet.</p>'
    figures = "\n".join(charts(run).values())
    note = "The smoothed loss, with label smoothing, is what training lowers; compare validation with the one without."
    notes = f'\n<p class="note">{note}</p>' if any("nll" in line for line in run.steps) else ""
    return f'<div class="charts">\n{figures}\n</div>{notes}\n{_validation_table(run)}'


def _validation_table(run: Run) -> str:
    """The figures behind the curves, for those who cannot see them or want to copy them."""
    if not run.validations:
        return ""
    metrics = [Column(text(metric.title), metric.key, metric.form) for metric in metrics_of(run)]
    made = table(run.validations, [Column("Step", "step", ",.0f"), Column("Epoch", "epoch", ".2f"), *metrics])
    several = f"all {len(run.validations)} validations" if len(run.validations) > 1 else "the validation"
    summary = f"<summary>The figures of {several}</summary>"
    return f'<details>{summary}\n<div class="scroll">{made}</div></details>'


def scores(run: Run) -> str | None:
    """Every evaluation of scores.json with all its scores and their signatures."""
    return "\n".join(_evaluation(evaluation) for evaluation in run.evaluations) or None


def _evaluation(evaluation: Line) -> str:
    sentences, seconds = evaluation.get("sentences"), evaluation.get("seconds")
    settings = evaluation.get("decoding", {}).items()
    every = ", ".join(f"{key} {value}" for key, value in settings if value is not None)
    decoding = evaluation.get("decoding_in_use", every)
    about = [
        _sentences(evaluation) if sentences else "",
        f"{seconds:,.1f} seconds" if seconds else "",
        f"{sentences / seconds:,.1f} sentences per second" if seconds and sentences else "",
        f"{count(evaluation['parameters'])} parameters" if evaluation.get("parameters") else "",
    ]
    notes = [
        f"<b>{text(_data_names(evaluation))}</b>",
        ", ".join(part for part in about if part),
        f"decoding: {text(decoding)}" if decoding else "",
        _how_intervals(evaluation),
        "".join(f"sha256 of the data: <code>{text(digest)}</code>" for digest in evaluation.get("data", {}).values()),
    ]
    lines = [{"name": name, **score} for name, score in evaluation.get("scores", {}).items()]
    columns = [
        Column("Metric", "name"),
        Column("Score", lambda score: _on_its_scale(score, score.get("value")), "html"),
        Column("Interval", _interval, "html"),
        Column("Signature", _signature),
    ]
    caption = "<br>".join(note for note in notes if note)
    return f'<div class="scroll">{table(lines, columns, kind="scores", caption=caption)}</div>'


def _sentences(evaluation: Line) -> str:
    sentences = evaluation.get("sentences")
    return f"{count(sentences)} sentence{'s' * (sentences != 1)}"


def faults(run: Run) -> str | None:
    """How many translations of every evaluation are empty, copied, in a loop and so on, next to the references."""
    return "\n".join(_faults(evaluation) for evaluation in run.evaluations if evaluation.get("faults")) or None


def _faults(evaluation: Line) -> str:
    lines = [{"name": name, **found} for name, found in evaluation["faults"].items()]
    columns = [
        Column("Fault", "name"),
        Column("Sentences", "sentences", ",.0f"),
        Column("Share", "rate", ".1%"),
        Column("Share of references", "rate_of_references", ".1%"),
    ]
    return table(lines, columns, kind="faults", caption=f"<b>{text(_data_names(evaluation))}</b>")


def _how_intervals(evaluation: Line) -> str:
    found = next((score["interval"] for score in evaluation.get("scores", {}).values() if score.get("interval")), {})
    confidence = number(found.get("confidence"), "g")
    return f"intervals: {confidence} confidence, {text(found.get('signature'))}" if confidence else ""


def _interval(score: Line) -> str:
    found = score.get("interval") or {}
    bounds = [found.get("low"), found.get("high")]
    return " to ".join(_on_its_scale(score, bound) for bound in bounds) if len(finite(bounds)) == 2 else ""


def _data_names(evaluation: Line) -> str:
    return ", ".join(evaluation.get("data", {})) or "unnamed data"


def samples(run: Run) -> str | None:
    """The sample sentences at the newest validation, each with what the model made of it."""
    if not run.samples:
        return None
    newest = run.samples[-1]
    source, target = _languages(run)
    names = list(dict.fromkeys(name for sample in newest.get("samples", []) for name in sample))

    def cell(name: str, sample: Line) -> str:
        look = source if name == "source" else target
        kind = ' class="reference"' if name == "reference" else ""
        return f'<td{look} data-label="{text(name.capitalize())}"{kind}>{_output(sample, name)}</td>'

    rows = "\n".join(
        f"<tr>{''.join(cell(name, sample) for name in names)}</tr>" for sample in newest.get("samples", [])
    )
    heads = "".join(f"<th>{text(name.capitalize())}</th>" for name in names)
    return f"""<table class="samples">
<caption>The sample sentences of the run at its newest validation, {_moment(newest)}.</caption>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody></table>"""


def progress(run: Run) -> str | None:
    """The two sample sentences whose outputs changed most often, over the validations."""
    if len(run.samples) < 2:
        return None
    history: dict[tuple[str, str], list[tuple[Line, Line]]] = {}
    for validation in run.samples:
        for sample in validation.get("samples", []):
            if "hypothesis" not in sample:
                continue
            key = (sample.get("source", ""), sample.get("reference", ""))
            history.setdefault(key, []).append((validation, sample))
    changes = {
        key: [list(same) for _, same in groupby(seen, key=lambda pair: pair[1].get("hypothesis"))]
        for key, seen in history.items()
    }
    most_changed = sorted(changes, key=lambda key: -len(changes[key]))[:2]
    return "\n".join(_changes(run, *key, changes[key]) for key in most_changed) or None


def _changes(run: Run, source: str, reference: str, versions: list[list[tuple[Line, Line]]]) -> str:
    most_rows, last = 12, len(versions) - 1
    shown = versions if last < most_rows else [versions[row * last // (most_rows - 1)] for row in range(most_rows)]
    source_language, target_language = _languages(run)
    rows = "\n".join(
        f'<tr><th scope="row">{_steps(version[0][0], version[-1][0])}</th>'
        f"<td{target_language}>{_output(version[0][1])}</td></tr>"
        for version in shown
    )
    left_out = f" {len(shown)} of its {len(versions)} versions are shown." if len(shown) < len(versions) else ""
    return f"""<h3{source_language}>{text(source)}</h3>
<table class="changes">
<caption>Reference: <span{target_language}>{text(reference)}</span>{left_out}</caption>
<tbody>
{rows}
</tbody></table>"""


def _steps(first: Line, last: Line) -> str:
    start, end = count(first.get("step")), count(last.get("step"))
    return f"step {start}" if start == end else f"step {start} to {end}"


def data(run: Run) -> str | None:
    """What cleaning removed, and what the quick checks found in the pairs that stayed."""
    return "\n".join(part for part in (_removed(run), _found(run)) if part) or None


def _removed(run: Run) -> str:
    removed = run.account.get("removed", {})
    if not removed:
        return ""
    read, kept = count(run.account.get("read")), count(run.account.get("clean"))
    examples = run.account.get("examples", {})
    lines = [{"rule": rule, "count": pairs, "examples": examples.get(rule, [])} for rule, pairs in removed.items()]
    columns = [
        Column("Rule", "rule"),
        Column("Removed", "count", ",.0f"),
        Column("Such as", lambda line: _examples(line["examples"])),
    ]
    return f'<p class="note">[cleaning] kept {kept} of {read} pairs.</p>\n{table(lines, columns, kind="findings")}'


def _examples(pairs: Sequence[Line]) -> str:
    """The first of the pairs, and the others folded away."""
    shown = [
        f"{text(pair.get('file'))}:{text(pair.get('line'))} {text(pair.get('source'))} | {text(pair.get('target'))}"
        for pair in pairs
    ]
    more = "<br>".join(shown[1:])
    return "".join(shown[:1]) + (f"<details><summary>more</summary>{more}</details>" if more else "")


def _found(run: Run) -> str:
    """What the quick checks of the corpus found when the run began, or `weft doctor` later."""
    if not run.doctor:
        return ""
    files = ", ".join(f"{text(name)} ({count(pairs)} pairs)" for name, pairs in run.doctor.get("files", {}).items())
    remarks = "".join(f"<br>{text(remark)}" for remark in run.doctor.get("remarks", []))
    findings = run.doctor.get("findings", [])
    columns = [
        Column("Severity", "severity"),
        Column("Finding", lambda found: "<br>".join(map(text, [found.get("title"), *found.get("details", [])]))),
        Column("Pairs", "count", ",.0f"),
        Column("Share", "share", ".2%"),
        Column("Cost", "cost"),
    ]
    is_quick = run.doctor.get("is_quick", True)
    by = "the quick checks of" if is_quick else "<code>weft doctor</code> in"
    closer = " <code>weft doctor RECIPE --report RUN</code> looks closer." if is_quick else ""
    note = f"{'Found' if findings else 'Nothing was found'} by {by} {files}.{remarks}{closer}"
    return (
        f'<p class="note">{note}</p>'
        + (f"\n{table(findings, columns, kind='findings')}" if findings else "")
        + _suspicious(run.doctor)
    )


def _suspicious(doctor: Line) -> str:
    """The most suspicious pairs, the worst first, folded away."""
    pairs = doctor.get("suspicious", [])
    if not pairs:
        return ""
    columns = [
        Column("Place", lambda pair: f"{text(pair.get('file'))}:{text(pair.get('line'))}"),
        Column("Source", "source"),
        Column("Target", "target"),
        Column("Reasons", lambda pair: text("; ".join(map(str, pair.get("reasons", []))))),
    ]
    summary = f"<summary>The {len(pairs)} most suspicious pairs</summary>"
    return f'\n<details>{summary}\n<div class="scroll">{table(pairs, columns)}</div></details>'


def recipe(run: Run) -> str | None:
    """The resolved recipe as the run keeps it, each value with its origin."""
    if not run.recipe:
        return '<p class="note">The folder holds no recipe: no checkpoint has been written yet.</p>'
    return (
        "<details><summary>The resolved recipe, each value with its origin</summary>\n"
        f"<pre>{text(run.recipe)}</pre></details>"
    )


# Cells


def _output(sample: Line, name: str = "hypothesis") -> str:
    return text(sample.get(name)) or '<span class="missing" lang="en">empty</span>'


def _signature(score: Line) -> str:
    """Signatures are long and have no spaces: they may break after each part."""
    return f"<code>{text(score.get('signature')).replace('|', '|<wbr>')}</code>" if score.get("signature") else ""


def _languages(run: Run) -> tuple[str, str]:
    """Attributes by which the browser chooses font, direction and hyphenation of source and of target text."""
    source, target = (
        f' lang="{text(language)}" dir="auto"' if language else ' dir="auto"'
        for language in (run.setting("data", "source"), run.setting("data", "target"))
    )
    return source, target


def _moment(line: Line) -> str:
    epoch = number(line.get("epoch"), ".1f")
    return f"step {count(line.get('step'))}" + (f", epoch {epoch}" if epoch else "")


def _on_its_scale(score: Line, value: Any) -> str:
    """A score or a bound of its interval: shares (BLEU-1 to -4, exact match) have four decimals."""
    return number(value, ".4f" if score.get("scale") == "0..1" else ".2f")


SECTIONS = [
    ("Curves", curves),
    ("Scores", scores),
    ("Faults of the translations", faults),
    ("Samples", samples),
    ("How samples changed", progress),
    ("Data", data),
    ("Recipe", recipe),
]
