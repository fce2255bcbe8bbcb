"""A run folder -> report.html: what was trained, how it went, how good it is, in one file that needs no network.

Reads only what a run leaves behind (run.json, metrics.jsonl, samples.jsonl, scores.json, doctor.json, config.toml and
corpus/account.json) and knows no model and no trainer. The page is a header and the SECTIONS at the end of this file;
to add to the report, write one more function from a Run to HTML and name it there.
"""

import json
import math
import re
import statistics
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from weft.analysis.page import page
from weft.config.toml import read_toml
from weft.errors import RunError, shown
from weft.figures.line_chart import Series, line_chart
from weft.files import write_atomically

Line = dict[str, Any]  # one line of a .jsonl file


@dataclass(frozen=True)
class Run:
    """What a run folder tells. Any part may be empty: a report can be asked for while the run has only begun."""

    name: str
    state: Line
    """run.json: `last`, `best`, `finished`."""
    steps: Sequence[Line]
    """The lines of metrics.jsonl that hold a training loss."""
    validations: Sequence[Line]
    """The lines of metrics.jsonl that hold any of valid_loss, valid_accuracy, valid_bleu."""
    samples: Sequence[Line]
    """The lines of samples.jsonl, one a validation."""
    evaluations: Sequence[Line]
    """The entries of scores.json."""
    doctor: Line
    """doctor.json: what the quick checks of the corpus found when the run began, or `weft doctor` later."""
    account: Line
    """corpus/account.json: what became of the pairs of the files."""
    recipe: str
    """The text of config.toml, empty where there is none yet."""

    def setting(self, table: str, key: str) -> str:
        """A value of the recipe as text, empty where the recipe does not say."""
        try:
            values = read_toml(self.recipe)
        except tomllib.TOMLDecodeError:
            return ""
        found = values.get(table, {}) if table else values
        return str(found.get(key, "")) if isinstance(found, dict) else ""


def write_report(run: Path) -> Path:
    """Write `run`/report.html in one step and return its path.

    Raises RunError where `run` is not a run folder, or where a file in it is broken by more than a torn last line.
    """
    run = Path(run)
    told = _read_run(run)
    try:
        page = _page(told)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(
            f"{run} has no report: one of its JSON files holds something else than weft writes there "
            f"({type(error).__name__}: {shown(str(error), 200)})"
        ) from error
    write_atomically(run / "report.html", page)
    return run / "report.html"


# The folder


def _read_run(run: Path) -> Run:
    if not (run / "metrics.jsonl").is_file():
        reason = "it has no metrics.jsonl" if run.is_dir() else "there is no such folder"
        raise RunError(f"{run} is not a run: {reason}; expected a folder that `weft train` wrote, such as runs/NAME")
    state = _read_json(run / "run.json", dict, {})
    metrics = _read_lines(run / "metrics.jsonl")
    return Run(
        name=run.resolve().name,
        state=state,
        steps=[line for line in metrics if "loss" in line],
        validations=[line for line in metrics if line.keys() & {"valid_loss", "valid_accuracy", "valid_bleu"}],
        samples=_read_lines(run / "samples.jsonl") if (run / "samples.jsonl").is_file() else [],
        evaluations=_read_json(run / "scores.json", list, []) if state.get("finished", True) else [],
        doctor=_read_json(run / "doctor.json", dict, {}),
        account=_read_json(run / "corpus" / "account.json", dict, {}),
        recipe=_read_recipe(run, state),
    )


def _read_lines(path: Path) -> list[Line]:
    """The objects of a .jsonl file, without a last line that a killed writer tore."""
    try:
        *whole, last = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from error
    lines = []
    for number, raw in enumerate([*whole, last], start=1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            if number > len(whole):
                break
            raise RunError(f"{path}, line {number} is not JSON; remove the line to have the report") from error
        if not isinstance(line, dict):
            raise RunError(f"{path}, line {number} is not a JSON object; remove the line to have the report")
        lines.append(line)
    return lines


def _read_json(path: Path, kind: type, missing: Any) -> Any:
    if not path.is_file():
        return missing
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is not JSON; move it away to have the report without it") from error
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a list"
        raise RunError(f"{path} does not hold {expected}; move it away to have the report without it")
    return value


def _read_recipe(run: Path, state: Line) -> str:
    """A finished run has its resolved recipe beside the report, one under way has it in its checkpoints.

    A run that was finished and now goes on has old scores and an old recipe beside the report: they are left out.
    """
    checkpoints = [run / str(state[name]) for name in ("best", "last") if state.get(name)]
    folders = [run, *checkpoints] if state.get("finished", True) else checkpoints[::-1]
    for folder in folders:
        with suppress(OSError):  # a checkpoint of a run under way may be gone by now
            return (folder / "config.toml").read_text(encoding="utf-8", errors="replace")
    return ""


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
        footer="Written by weft from the files of the run. <code>weft report</code> and the folder write it anew.",
    )


def _results(run: Run) -> str:
    """The sacreBLEU of the newest evaluation on each data set, or before any evaluation the best at validation."""
    signed = {
        _data_names(evaluation): (evaluation, evaluation["scores"]["sacrebleu"])
        for evaluation in run.evaluations
        if "sacrebleu" in evaluation.get("scores", {})
    }
    if signed:
        results = "\n".join(
            _result(
                _on_its_scale(score, score.get("value")),
                f"sacreBLEU on {_text(data)}, {_sentences(evaluation)}",
                _signature(score),
            )
            for data, (evaluation, score) in signed.items()
        )
        return f'<div class="results">\n{results}\n</div>'
    best = _best_validation(run)
    if best is None:
        return '<p class="note">No score yet: the run has not been validated with BLEU.</p>'
    return _result(
        _number(best["valid_bleu"], ".2f"),
        f"best BLEU at validation, {_moment(best)}",
        "Measured while training; <code>weft evaluate</code> prints a score with its signature.",
    )


def _result(value: str, what: str, signature: str) -> str:
    described = f'<span class="what">{what}<small>{signature}</small></span>'
    return f'<p class="result"><span class="value">{value}</span>{described}</p>'


def _facts(run: Run) -> str:
    lines = [*run.steps, *run.validations]
    speeds = _finite(line.get("target_tokens_per_second") for line in run.steps)
    seconds = _finite(line.get("seconds") for line in lines)
    parameters = [evaluation["parameters"] for evaluation in run.evaluations if evaluation.get("parameters")]
    best = _best_validation(run)
    facts = [
        ("Steps", _count(_largest(lines, "step")), ""),
        ("Epochs", _number(_largest(lines, "epoch"), ".1f"), ""),
        ("Wall time", _duration(max(seconds)) if seconds else "", ""),
        ("Speed", _count(statistics.median(speeds)) if speeds else "", "target tokens a second, median"),
        ("Parameters", _count(parameters[-1]) if parameters else "", ""),
        ("Best BLEU at validation", _number(best["valid_bleu"], ".2f"), _moment(best))
        if best and run.evaluations
        else ("", "", ""),
        ("Weights kept from", _step_of(run.state.get("best")), ""),
    ]
    items = "\n".join(
        f"<div><dt>{name}</dt><dd>{value}{f'<small>{more}</small>' if more else ''}</dd></div>"
        for name, value, more in facts
        if value
    )
    return f'<dl class="facts">\n{items}\n</dl>' if items else ""


def _best_validation(run: Run) -> Line | None:
    scored = [line for line in run.validations if _finite([line.get("valid_bleu")])]
    return max(scored, key=lambda line: line["valid_bleu"], default=None)


def _step_of(checkpoint: Any) -> str:
    found = re.search(r"step-(\d+)$", str(checkpoint))
    return f"step {_count(int(found[1]))}" if found else ""


# The sections


def curves(run: Run) -> str | None:
    """Every column of metrics.jsonl over the steps."""
    if not run.steps and not run.validations:
        return '<p class="note">Nothing has been logged yet.</p>'
    draw = partial(line_chart, x_label="step", width=430, height=280)
    smoothed_loss = _column("training, smoothed", run.steps, "loss")
    loss = _column("training", run.steps, "nll")
    valid_loss = _column("validation", run.validations, "valid_loss")
    valid_bleu = _column("BLEU", run.validations, "valid_bleu")
    valid_accuracy = _column("accuracy", run.validations, "valid_accuracy")
    learning_rate = _column("learning rate", run.steps, "learning_rate")
    grad_norm = _column("norm", run.steps, "grad_norm")
    speed = _column("speed", run.steps, "target_tokens_per_second")
    others = [_column(name, run.validations, f"valid_{name}") for name in _other_metrics(run)]
    charts = [
        draw([loss, smoothed_loss, valid_loss], title="Loss", y_label="nats per target token", lowest="validation"),
        draw([valid_bleu], title="BLEU at validation", y_label="sacreBLEU, 0 to 100", from_zero=True, highest="BLEU"),
        draw([valid_accuracy], title="Accuracy at validation", y_label="share of target tokens", highest="accuracy"),
        *(draw([other], title=f"{other.name} at validation", y_label=other.name) for other in others),
        draw([learning_rate], title="Learning rate", y_label="learning rate", from_zero=True),
        draw([grad_norm], title="Gradient norm", y_label="norm, logarithmic", log_y=True),
        draw([speed], title="Speed", y_label="target tokens a second, padding not counted", from_zero=True),
    ]
    note = "The smoothed loss, with label smoothing, is what training lowers; compare validation with the one without."
    figures = "\n".join(charts)
    return f'<div class="charts">\n{figures}\n</div>\n<p class="note">{note}</p>\n{_validation_table(run)}'


def _column(name: str, lines: Sequence[Line], key: str) -> Series:
    """The lines that have the key; a value that is no number (null, NaN) is a gap in the curve."""
    there = [line for line in lines if key in line and _finite([line.get("step")])]
    values = [line[key] if _finite([line[key]]) else math.nan for line in there]
    return Series(name, [line["step"] for line in there], values)


def _other_metrics(run: Run) -> list[str]:
    """What is measured at validation beside the usual, such as chrf where that chooses the weights."""
    measured = {key.removeprefix("valid_") for line in run.validations for key in line if key.startswith("valid_")}
    return sorted(measured - {"loss", "accuracy", "bleu"})


def _validation_table(run: Run) -> str:
    """The figures behind the curves, for those who cannot see these or want to copy those."""
    if not run.validations:
        return ""
    others = _other_metrics(run)
    rows = "\n".join(
        f'<tr><td class="number">{_count(line.get("step"))}</td>'
        f'<td class="number">{_number(line.get("epoch"), ".2f")}</td>'
        f'<td class="number">{_number(line.get("valid_loss"), ".4f")}</td>'
        f'<td class="number">{_number(line.get("valid_accuracy"), ".4f")}</td>'
        f'<td class="number">{_number(line.get("valid_bleu"), ".2f")}</td>'
        + "".join(f'<td class="number">{_number(line.get(f"valid_{other}"), ".4g")}</td>' for other in others)
        + "</tr>"
        for line in run.validations
    )
    names = ("Step", "Epoch", "Loss", "Accuracy", "BLEU", *map(_text, others))
    heads = "".join(f'<th class="number">{name}</th>' for name in names)
    return (
        f"<details><summary>The figures of all {len(run.validations)} validations</summary>\n"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div></details>'
    )


def scores(run: Run) -> str | None:
    """Every evaluation of scores.json with all its scores and their signatures."""
    return "\n".join(_evaluation(evaluation) for evaluation in run.evaluations) or None


def _evaluation(evaluation: Line) -> str:
    sentences, seconds = evaluation.get("sentences"), evaluation.get("seconds")
    settings = evaluation.get("decoding", {}).items()
    decoding = ", ".join(f"{key} {value}" for key, value in settings if value is not None)
    about = [
        _sentences(evaluation) if sentences else "",
        f"{seconds:,.1f} seconds" if seconds else "",
        f"{sentences / seconds:,.1f} sentences a second" if seconds and sentences else "",
        f"{_count(evaluation['parameters'])} parameters" if evaluation.get("parameters") else "",
    ]
    notes = [
        ", ".join(part for part in about if part),
        f"decoding: {_text(decoding)}" if decoding else "",
        _how_intervals(evaluation),
        "".join(f"sha256 of the data: <code>{_text(digest)}</code>" for digest in evaluation.get("data", {}).values()),
    ]
    rows = "\n".join(
        f'<tr><th scope="row">{_text(name)}</th><td class="number">{_on_its_scale(score, score.get("value"))}</td>'
        f'<td class="number">{_interval(score)}</td><td>{_signature(score)}</td></tr>'
        for name, score in evaluation.get("scores", {}).items()
    )
    return f"""<div class="scroll"><table class="scores">
<caption><b>{_text(_data_names(evaluation))}</b>{"".join(f"<br>{note}" for note in notes if note)}</caption>
<thead><tr><th>Metric</th><th class="number">Score</th><th class="number">Interval</th><th>Signature</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def _sentences(evaluation: Line) -> str:
    count = evaluation.get("sentences")
    return f"{_count(count)} sentence{'s' * (count != 1)}"


def faults(run: Run) -> str | None:
    """What of the translations of every evaluation is empty, copied, in a loop and so on, beside the references."""
    return "\n".join(_faults(evaluation) for evaluation in run.evaluations if evaluation.get("faults")) or None


def _faults(evaluation: Line) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{_text(name)}</th><td class="number">{_count(found.get("sentences"))}</td>'
        f'<td class="number">{_number(found.get("rate"), ".1%")}</td>'
        f'<td class="number">{_number(found.get("rate_of_references"), ".1%")}</td></tr>'
        for name, found in evaluation["faults"].items()
    )
    heads = "".join(f'<th class="number">{name}</th>' for name in ("Sentences", "Share", "Of the references"))
    return f"""<table class="faults">
<caption><b>{_text(_data_names(evaluation))}</b></caption>
<thead><tr><th>Fault</th>{heads}</tr></thead>
<tbody>
{rows}
</tbody></table>"""


def _how_intervals(evaluation: Line) -> str:
    found = next((score["interval"] for score in evaluation.get("scores", {}).values() if score.get("interval")), {})
    confidence = _number(found.get("confidence"), "g")
    return f"intervals: {confidence} confidence, {_text(found.get('signature'))}" if confidence else ""


def _interval(score: Line) -> str:
    found = score.get("interval") or {}
    bounds = [found.get("low"), found.get("high")]
    return " to ".join(_on_its_scale(score, bound) for bound in bounds) if len(_finite(bounds)) == 2 else ""


def _data_names(evaluation: Line) -> str:
    return ", ".join(evaluation.get("data", {})) or "unnamed data"


def translations(run: Run) -> str | None:
    """What the newest validation made of the sample sentences, beside source and reference."""
    if not run.samples:
        return None
    newest = run.samples[-1]
    source, target = _languages(run)
    rows = "\n".join(
        f'<tr><td{source} data-label="Source">{_text(sample.get("source"))}</td>'
        f'<td{target} data-label="Reference" class="reference">{_text(sample.get("reference"))}</td>'
        f'<td{target} data-label="Translation">{_translation(sample)}</td></tr>'
        for sample in newest.get("samples", [])
    )
    return f"""<table class="samples">
<caption>The sample sentences of the run at its newest validation, {_moment(newest)}.</caption>
<thead><tr><th>Source</th><th>Reference</th><th>Translation</th></tr></thead>
<tbody>
{rows}
</tbody></table>"""


def progress(run: Run) -> str | None:
    """The two sample sentences whose translations changed most often, over the validations."""
    if len(run.samples) < 2:
        return None
    history: dict[tuple[str, str], list[tuple[Line, Line]]] = {}
    for validation in run.samples:
        for sample in validation.get("samples", []):
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
        f"<td{target_language}>{_translation(version[0][1])}</td></tr>"
        for version in shown
    )
    left_out = f" {len(shown)} of its {len(versions)} versions are shown." if len(shown) < len(versions) else ""
    return f"""<h3{source_language}>{_text(source)}</h3>
<table class="changes">
<caption>Reference: <span{target_language}>{_text(reference)}</span>{left_out}</caption>
<tbody>
{rows}
</tbody></table>"""


def _steps(first: Line, last: Line) -> str:
    start, end = _count(first.get("step")), _count(last.get("step"))
    return f"step {start}" if start == end else f"step {start} to {end}"


def data(run: Run) -> str | None:
    """What cleaning removed, and what the quick checks found in the pairs that stayed."""
    return "\n".join(part for part in (_removed(run), _found(run)) if part) or None


def _removed(run: Run) -> str:
    removed = run.account.get("removed", {})
    if not removed:
        return ""
    read, kept = _count(run.account.get("read")), _count(run.account.get("clean"))
    rows = "\n".join(
        f'<tr><th scope="row">{_text(rule)}</th><td class="number">{_count(count)}</td>'
        f"<td>{_examples(run.account.get('examples', {}).get(rule, []))}</td></tr>"
        for rule, count in removed.items()
    )
    return f"""<p class="note">[cleaning] kept {kept} of {read} pairs.</p>
<table class="findings">
<thead><tr><th>Rule</th><th class="number">Removed</th><th>Such as</th></tr></thead>
<tbody>
{rows}
</tbody></table>"""


def _examples(pairs: Sequence[Line]) -> str:
    """The first of the pairs, and all that are known where someone asks for them."""
    shown = [
        f"{_text(pair.get('file'))}:{_text(pair.get('line'))} {_text(pair.get('source'))} | {_text(pair.get('target'))}"
        for pair in pairs
    ]
    more = "<br>".join(shown[1:])
    return "".join(shown[:1]) + (f"<details><summary>more</summary>{more}</details>" if more else "")


def _found(run: Run) -> str:
    """What the quick checks of the corpus found when the run began, or `weft doctor` later."""
    if not run.doctor:
        return ""
    files = ", ".join(f"{_text(name)} ({_count(pairs)} pairs)" for name, pairs in run.doctor.get("files", {}).items())
    remarks = "".join(f"<br>{_text(remark)}" for remark in run.doctor.get("remarks", []))
    findings = run.doctor.get("findings", [])
    rows = "\n".join(_finding(finding) for finding in findings)
    numbers = "".join(f'<th class="number">{name}</th>' for name in ("Pairs", "Share"))
    table = f"""<table class="findings">
<thead><tr><th>Severity</th><th>Finding</th>{numbers}<th>Costs</th></tr></thead>
<tbody>
{rows}
</tbody></table>"""
    is_quick = run.doctor.get("is_quick", True)
    by = "the quick checks of" if is_quick else "<code>weft doctor</code> in"
    closer = " <code>weft doctor RECIPE --report RUN</code> looks closer." if is_quick else ""
    note = f"{'Found' if findings else 'Nothing was found'} by {by} {files}.{remarks}{closer}"
    return f'<p class="note">{note}</p>' + (f"\n{table}" if findings else "") + _suspicious(run.doctor)


def _suspicious(doctor: Line) -> str:
    """The pairs that most speaks against, the worst first, where someone asks for them."""
    pairs = doctor.get("suspicious", [])
    rows = "\n".join(
        f'<tr><th scope="row">{_text(pair.get("file"))}:{_text(pair.get("line"))}</th>'
        f'<td dir="auto">{_text(pair.get("source"))}</td><td dir="auto">{_text(pair.get("target"))}</td>'
        f"<td>{_text('; '.join(map(str, pair.get('reasons', []))))}</td></tr>"
        for pair in pairs
    )
    if not rows:
        return ""
    return f"""
<details><summary>The {len(pairs)} most suspicious pairs</summary>
<div class="scroll"><table>
<thead><tr><th>Place</th><th>Source</th><th>Target</th><th>What speaks against it</th></tr></thead>
<tbody>
{rows}
</tbody></table></div></details>"""


def _finding(finding: Line) -> str:
    share = finding.get("share")
    details = "".join(f"<br>{_text(detail)}" for detail in finding.get("details", []))
    return (
        f'<tr><th scope="row">{_text(finding.get("severity"))}</th><td>{_text(finding.get("title"))}{details}</td>'
        f'<td class="number">{_count(finding.get("count"))}</td>'
        f'<td class="number">{_number(share, ".2%")}</td><td>{_text(finding.get("cost"))}</td></tr>'
    )


def recipe(run: Run) -> str | None:
    """The resolved recipe as the run keeps it, each value with its origin."""
    if not run.recipe:
        return '<p class="note">The folder holds no recipe: no checkpoint has been written yet.</p>'
    return (
        "<details><summary>The resolved recipe, each value with its origin</summary>\n"
        f"<pre>{_text(run.recipe)}</pre></details>"
    )


# Text


def _text(value: Any) -> str:
    return escape(str("" if value is None else value))


def _translation(sample: Line) -> str:
    return _text(sample.get("hypothesis")) or '<span class="missing" lang="en">empty</span>'


def _signature(score: Line) -> str:
    """Signatures are long and have no spaces: they may break after each part."""
    return f"<code>{_text(score.get('signature')).replace('|', '|<wbr>')}</code>" if score.get("signature") else ""


def _languages(run: Run) -> tuple[str, str]:
    """The attributes that let the browser choose fonts, direction and hyphenation for source and for target text."""
    source, target = (
        f' lang="{_text(language)}" dir="auto"' if language else ' dir="auto"'
        for language in (run.setting("data", "source"), run.setting("data", "target"))
    )
    return source, target


def _moment(line: Line) -> str:
    epoch = _number(line.get("epoch"), ".1f")
    return f"step {_count(line.get('step'))}" + (f", epoch {epoch}" if epoch else "")


def _on_its_scale(score: Line, value: Any) -> str:
    """Of a score, or of a bound of its interval: shares (BLEU-1 to -4, exact match) have four decimals."""
    return _number(value, ".4f" if score.get("scale") == "0..1" else ".2f")


def _count(value: Any) -> str:
    return _number(value, ",.0f")


def _number(value: Any, form: str) -> str:
    """Empty for what is no number, so that a table keeps its cell."""
    return format(value, form) if _finite([value]) else ""


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


def _largest(lines: Sequence[Line], key: str) -> float | None:
    return max(_finite(line.get(key) for line in lines), default=None)


def _finite(values) -> list[float]:
    return [value for value in values if isinstance(value, int | float) and abs(value) <= LARGEST_SHOWN]


LARGEST_SHOWN = 1e15
"""Less than infinity; no number of a run is larger."""


SECTIONS = [
    ("Curves", curves),
    ("Scores", scores),
    ("Faults of the translations", faults),
    ("Translations", translations),
    ("How translations changed", progress),
    ("Data", data),
    ("Recipe", recipe),
]
