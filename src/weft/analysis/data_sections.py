"""The sections of a report about the data that a run learned from."""

from collections.abc import Sequence
from functools import partial

from weft.analysis.cells import names_of_bins
from weft.analysis.html import Column, count, table, text
from weft.analysis.run_files import Line, Run
from weft.figures.bar_chart import bar_chart
from weft.figures.words import Say


def data(run: Run, say: Say) -> str | None:
    """What cleaning removed, what the quick checks found in the pairs that stayed, and their histograms."""
    parts = (_removed(run, say), _found(run, say), histograms(run, say))
    return "\n".join(part for part in parts if part) or None


def histograms(run: Run, say: Say) -> str:
    """The lengths of the training texts in tokens, and how often the pieces of the vocabularies occur in them."""
    if not run.histograms:
        return ""
    draw = partial(bar_chart, write="{:,.0f}".format)
    charts = [
        draw(
            [(say(name), counts) for name, counts in found["counts"].items()],
            names_of_bins(found["limits"], say),
            title=say(title),
            label=say(label),
        )
        for found, title, label in zip(run.histograms, *HISTOGRAMS, strict=True)
    ]
    return '<div class="charts">\n{}\n</div>'.format("\n".join(charts))


HISTOGRAMS = (
    ("Lengths of the training texts", "How often a piece occurs"),
    ("texts, by tokens with the marks of begin and end", "pieces, by their occurrences in the training texts"),
)


def _removed(run: Run, say: Say) -> str:
    removed = run.account.get("removed", {})
    if not removed:
        return ""
    read, kept = count(run.account.get("read")), count(run.account.get("clean"))
    examples = run.account.get("examples", {})
    lines = [{"rule": rule, "count": pairs, "examples": examples.get(rule, [])} for rule, pairs in removed.items()]
    columns = [
        Column(say("Rule"), "rule"),
        Column(say("Removed"), "count", ",.0f"),
        Column(say("Such as"), lambda line: _examples(line["examples"], say)),
    ]
    note = say("[cleaning] kept {kept} of {read} pairs.", kept=kept, read=read)
    return f'<p class="note">{note}</p>\n{table(lines, columns, kind="findings")}'


def _examples(pairs: Sequence[Line], say: Say) -> str:
    """The first of the pairs, and the others folded away."""
    shown = [
        f"{text(pair.get('file'))}:{text(pair.get('line'))} {text(pair.get('source'))} | {text(pair.get('target'))}"
        for pair in pairs
    ]
    more = "<br>".join(shown[1:])
    return "".join(shown[:1]) + (f"<details><summary>{say('more')}</summary>{more}</details>" if more else "")


def _found(run: Run, say: Say) -> str:
    """What the quick checks of the corpus found when the run began, or `weft doctor` later."""
    if not run.doctor:
        return ""
    files = say(", ").join(
        f"{text(name)} ({say('{count} pairs', count=count(pairs))})"
        for name, pairs in run.doctor.get("files", {}).items()
    )
    remarks = "".join(f"<br>{text(remark)}" for remark in run.doctor.get("remarks", []))
    findings = run.doctor.get("findings", [])
    columns = [
        Column(say("Severity"), lambda found: text(say(str(found.get("severity"))))),
        Column(
            say("Finding"),
            lambda found: "<br>".join(map(text, [say(str(found.get("title"))), *found.get("details", [])])),
        ),
        Column(say("Pairs"), "count", ",.0f"),
        Column(say("Share"), "share", ".2%"),
        Column(say("Cost"), lambda found: text(say(str(found.get("cost", ""))))),
    ]
    is_quick = run.doctor.get("is_quick", True)
    by = say("the quick checks of" if is_quick else "<code>weft doctor</code> in")
    closer = say(" <code>weft doctor RECIPE --report RUN</code> looks closer.") if is_quick else ""
    found = say("Found by {by} {files}." if findings else "Nothing was found by {by} {files}.", by=by, files=files)
    return (
        f'<p class="note">{found}{remarks}{closer}</p>'
        + (f"\n{table(findings, columns, kind='findings')}" if findings else "")
        + _suspicious(run.doctor, say)
    )


def _suspicious(doctor: Line, say: Say) -> str:
    """The most suspicious pairs, the worst first, folded away."""
    pairs = doctor.get("suspicious", [])
    if not pairs:
        return ""
    columns = [
        Column(say("Place"), lambda pair: f"{text(pair.get('file'))}:{text(pair.get('line'))}"),
        Column(say("Source"), "source"),
        Column(say("Target"), "target"),
        Column(say("Reasons"), lambda pair: text("; ".join(map(str, pair.get("reasons", []))))),
    ]
    summary = f"<summary>{say('The {count} most suspicious pairs', count=len(pairs))}</summary>"
    return f'\n<details>{summary}\n<div class="scroll">{table(pairs, columns)}</div></details>'
