"""The sections of a report about what a model translates."""

from collections.abc import Sequence
from itertools import groupby

from weft.analysis.cells import data_names, languages, moment, names_of_bins, output
from weft.analysis.html import Column, count, number, table, text
from weft.analysis.run_files import Line, Run
from weft.figures.bar_chart import bar_chart
from weft.figures.dense_map import Panel, dense_map
from weft.figures.heat_map import heat_map
from weft.figures.words import Say
from weft.text.language import is_in_words_of_characters

WORTH_TELLING = 0.05
MOST_CELLS = 2000
"""Larger heat maps are drawn as one picture."""


def faults(run: Run, say: Say) -> str | None:
    """How many translations of every evaluation are empty, copied, in a loop and so on, next to the references."""
    return "\n".join(_faults(evaluation, say) for evaluation in run.evaluations if evaluation.get("faults")) or None


def _faults(evaluation: Line, say: Say) -> str:
    lines = [{"name": say(name), **found} for name, found in evaluation["faults"].items()]
    columns = [
        Column(say("Fault"), "name"),
        Column(say("Sentences"), "sentences", ",.0f"),
        Column(say("Share"), "rate", ".1%"),
        Column(say("Share of references"), "rate_of_references", ".1%"),
    ]
    return table(lines, columns, kind="faults", caption=f"<b>{text(data_names(evaluation, say))}</b>")


def lengths(run: Run, say: Say) -> str | None:
    """Scores by the length of the source, the lengths of the translations, and how chrF spreads over the sentences."""
    if "buckets" not in run.details:
        return None
    buckets, of_texts, chrf = (run.details[key] for key in ("buckets", "lengths", "chrf"))
    sides = [is_in_words_of_characters(run.setting("data", side)) for side in ("source", "target")]
    source, target = (say("characters" if is_counted else "words") for is_counted in sides)
    names = names_of_bins(buckets["limits"], say)
    charts = [
        bar_chart(
            [("sacreBLEU", buckets["sacrebleu"]), ("chrF", buckets["chrf"])],
            [f"{name} ({found:,})" for name, found in zip(names, buckets["sentences"], strict=True)],
            title=say("Scores by length"),
            label=say("by {unit} of the source; in parentheses: sentences", unit=source),
            write="{:.1f}".format,
        ),
        bar_chart(
            [(say("references"), of_texts["references"]), (say("translations"), of_texts["translations"])],
            names_of_bins(of_texts["limits"], say),
            title=say("Lengths of the translations"),
            label=say("sentences, by {unit}", unit=target),
        ),
        bar_chart(
            [("", chrf["sentences"])],
            names_of_bins(chrf["limits"], say),
            title=say("chrF of the sentences"),
            label=say("sentences, by chrF"),
        ),
    ]
    return '<div class="charts">\n{}\n</div>'.format("\n".join(charts))


def best_and_worst(run: Run, say: Say) -> str | None:
    """The sentences of the held-out data with the highest and with the lowest chrF."""
    if "best" not in run.details:
        return None
    titles = {"best": say("Highest chrF"), "worst": say("Lowest chrF")}
    return "\n".join(
        _sentences(run, run.details[which], ("source", "reference", "hypothesis", "chrf"), f"<b>{title}</b>", say)
        for which, title in titles.items()
    )


def attention(run: Run, say: Say) -> str | None:
    """Where the model looks in sentences translated well, as usual, and badly."""
    maps = [_attention(found, say) for found in run.details.get("attention", [])]
    if not maps:
        return None
    note = say(
        "Attention from each target piece, the mean over the heads of all decoder layers, in percent; sentences of the "
        "highest, the middle and the lowest chrF. Attention shows where the model looks, not why it decides."
    )
    return f'<p class="note">{note}</p>\n' + "\n".join(f'<div class="scroll">{one}</div>' for one in maps)


def _attention(found: Line, say: Say) -> str:
    title = say("Attention, chrF {chrf}", chrf=number(found["chrf"], ".1f"))
    weights, rows, columns, sides = found["weights"], found["target"], found["source"], (say("target"), say("source"))
    if len(rows) * len(columns) > MOST_CELLS:
        panel = Panel("", weights, rows, columns)
        return dense_map(
            [panel], title=title, row_label=sides[0], column_label=sides[1], largest=1.0, language=say.language
        )
    return heat_map(
        weights,
        rows=rows,
        columns=columns,
        title=title,
        row_label=sides[0],
        column_label=sides[1],
        write=lambda share: f"{100 * share:.0f}" if share >= WORTH_TELLING else "",
        largest=1.0,
        language=say.language,
    )


def positions(run: Run, say: Say) -> str | None:
    """The vectors by which the model knows where a token stands."""
    values = run.details.get("positions")
    if not values:
        return None
    kind = run.setting("model", "positions")
    turned = say("Rotary positions: the cosines of the rotation of queries and keys, then its sines.")
    added = say("What is added to the embedding of a token at each position.")
    drawn = dense_map(
        [Panel("", values)],
        title=kind,
        row_label=say("position"),
        column_label=say("dimension"),
        language=say.language,
    )
    return f'<p class="note">{turned if kind == "rotary" else added}</p>\n<div class="scroll">{drawn}</div>'


def samples(run: Run, say: Say) -> str | None:
    """The sample sentences at the newest validation, each with what the model made of it."""
    if not run.samples:
        return None
    newest = run.samples[-1]
    if newest.get("samples", []) == []:
        return None
    names = list(dict.fromkeys(name for sample in newest.get("samples", []) for name in sample))
    caption = say("The sample sentences of the run at its newest validation, {when}.", when=moment(newest, say))
    return _sentences(run, newest.get("samples", []), names, caption, say)


def _sentences(run: Run, rows: Sequence[Line], names: Sequence[str], caption: str, say: Say) -> str:
    source, target = languages(run)
    titles = {name: say("chrF" if name == "chrf" else text(name.capitalize())) for name in names}

    def cell(name: str, sample: Line) -> str:
        if name == "chrf":
            return f'<td data-label="chrF" class="number">{number(sample.get(name), ".1f")}</td>'
        look = source if name == "source" else target
        kind = ' class="reference"' if name == "reference" else ""
        return f'<td{look} data-label="{titles[name]}"{kind}>{output(sample, say, name)}</td>'

    lines = "\n".join(f"<tr>{''.join(cell(name, sample) for name in names)}</tr>" for sample in rows)
    looks = {"chrf": ' class="number"'}
    heads = "".join(f"<th{looks.get(name, '')}>{title}</th>" for name, title in titles.items())
    return f"""<table class="samples">
<caption>{caption}</caption>
<thead><tr>{heads}</tr></thead>
<tbody>
{lines}
</tbody></table>"""


def progress(run: Run, say: Say) -> str | None:
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
    return "\n".join(_changes(run, *key, changes[key], say) for key in most_changed) or None


def _changes(run: Run, source: str, reference: str, versions: list[list[tuple[Line, Line]]], say: Say) -> str:
    most_rows, last = 12, len(versions) - 1
    shown = versions if last < most_rows else [versions[row * last // (most_rows - 1)] for row in range(most_rows)]
    source_language, target_language = languages(run)
    rows = "\n".join(
        f'<tr><th scope="row">{_steps(version[0][0], version[-1][0], say)}</th>'
        f"<td{target_language}>{output(version[0][1], say)}</td></tr>"
        for version in shown
    )
    is_cut = len(shown) < len(versions)
    left_out = say(" {shown} of its {all} versions are shown.", shown=len(shown), all=len(versions)) if is_cut else ""
    return f"""<h3{source_language}>{text(source)}</h3>
<table class="changes">
<caption>{say("Reference:")} <span{target_language}>{text(reference)}</span>{left_out}</caption>
<tbody>
{rows}
</tbody></table>"""


def _steps(first: Line, last: Line, say: Say) -> str:
    start, end = count(first.get("step")), count(last.get("step"))
    return say("step {step}", step=start) if start == end else say("step {start} to {end}", start=start, end=end)
