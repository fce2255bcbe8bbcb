"""Several run folders -> one page and a table: scores side by side, curves over tokens and time, the keys that differ.

Runs are ranked only by scores of the same held-out data with the same signature. Knows no metric by name.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.analysis.cells import on_its_scale
from weft.analysis.curves import column, metrics_of, unit_of_speed
from weft.analysis.html import count, duration, finite, largest, number, spaced, text
from weft.analysis.page import page, say_in
from weft.analysis.run_files import Line, Run, needing_weft_json, read_run
from weft.config.recipe import dotted
from weft.config.toml import write_value
from weft.errors import UsageError
from weft.figures.line_chart import line_chart
from weft.figures.table import Table
from weft.figures.words import Say
from weft.files import write_atomically
from weft.folders.metrics import HEADLINES
from weft.training.metric import Metric

TEXTS = frozenset({0, 1})
UNITS = (("seconds", 1), ("minutes", 60), ("hours", 3600))


@dataclass(frozen=True)
class Contender:
    """A run under the name that tells it from the others."""

    name: str
    run: Run

    @cached_property
    def evaluation(self) -> Line:
        """The newest evaluation that has the headline score; empty if there is none."""
        found = (one for one in reversed(self.run.evaluations) if self.headline in one.get("scores", {}))
        return next(found, {})

    @property
    def headline(self) -> str:
        headline = HEADLINES.get(self.run.setting("", "task"))
        return headline.name if headline else ""

    @property
    def score(self) -> Line:
        return self.evaluation["scores"][self.headline] if self.evaluation else {}

    @property
    def measure(self) -> tuple[str, tuple[str, ...], str]:
        """What makes two scores comparable: the score, the digests of the data, and the signature without the context
        that a language model sees."""
        signature = re.sub(r"\|context:[^|]*", "", str(self.score.get("signature")))
        return self.headline, tuple(sorted(self.evaluation.get("data", {}).values())), signature

    @cached_property
    def lines(self) -> list[Line]:
        """The logged lines in the order of their steps, each with `seen`, the target tokens up to it, if some line
        counts them."""
        lines = [dict(line) for line in (*self.run.steps, *self.run.validations) if finite([line.get("step")])]
        lines.sort(key=lambda line: (line["step"], "loss" not in line))
        unit, usual = unit_of_speed(self.run), self._tokens_a_step
        seen = last = 0.0
        for line in lines if usual else ():
            if finite([line.get(unit)]):
                seen, last = seen + line[unit], line["step"]
            line["seen"] = seen + (line["step"] - last) * usual
        return lines

    @property
    def _tokens_a_step(self) -> float:
        unit, steps = unit_of_speed(self.run), self.run.steps
        return sum(finite(line.get(unit) for line in steps)) / max(largest(steps, "step") or 0, 1)


@dataclass(frozen=True)
class Contest:
    """Runs side by side; `say` gives a text in the language of the page."""

    contenders: list[Contender]
    say: Say

    @cached_property
    def measure(self) -> tuple[str, tuple[str, ...], str] | None:
        """The measure by which most runs were scored, the earliest of equally frequent ones."""
        counts = Counter(one.measure for one in self.contenders if one.evaluation)
        return max(counts, key=counts.__getitem__, default=None)

    @cached_property
    def ranked(self) -> list[Contender]:
        """The runs that can be compared, best first; empty if there are fewer than two."""
        same = [one for one in self.contenders if one.measure == self.measure and finite([one.score.get("value")])]
        if len(same) < 2:
            return []
        sign = -1 if HEADLINES[same[0].run.setting("", "task")].better == "max" else 1
        return sorted(same, key=lambda one: sign * one.score["value"])

    def refusals(self) -> list[str]:
        """For each run that is not ranked, why."""
        return [
            self.say("{name}: not comparable: {reasons}", name=one.name, reasons=", ".join(reasons))
            for one in self.contenders
            if (reasons := self._reasons(one))
        ]

    def _reasons(self, one: Contender) -> list[str]:
        if not one.evaluation:
            return [self.say("no score yet")]
        assert self.measure is not None
        score, data, signature = (own == common for own, common in zip(one.measure, self.measure, strict=True))
        named = [(score, "other task"), (data, "other data"), (not score or signature, "other signature")]
        return [self.say(reason) for is_same, reason in named if not is_same]

    @property
    def have_other_tokens(self) -> bool:
        """Whether the tokenizers differ, or the texts that they learned from, where a checkpoint tells them: losses per
        token say nothing then."""
        settings = [settings_of(one.run) for one in self.contenders if one.run.recipe]
        tokenizers = [{key: value for key, value in of.items() if key.startswith("tokenizer.")} for of in settings]
        texts = [of["sha256 (train)"] for of in settings if "sha256 (train)" in of]
        return any(one != known[0] for known in (tokenizers, texts) for one in known)

    @property
    def unit(self) -> str:
        return spaced(unit_of_speed(*(one.run for one in self.contenders)))

    # Tables

    def tables(self) -> list[Table]:
        return [self._scores(), self._facts(), self._keys()]

    def _scores(self) -> Table:
        scored = [one for one in (*self.ranked, *self.contenders) if one.evaluation]
        scored = list({id(one): one for one in scored}.values())
        leading = dict.fromkeys(one.headline for one in scored)
        names = dict.fromkeys(name for one in scored for name in one.evaluation["scores"] if name not in leading)
        values = [one.score["value"] for one in self.ranked]
        places = {id(one): str(1 + values.index(one.score["value"])) for one in self.ranked}
        rows = [
            (
                one.name,
                places.get(id(one), "–"),
                *(cell for name in leading for cell in (shown_score(one, name), interval_of(one, name))),
                *(shown_score(one, name) for name in names),
            )
            for one in scored
        ]
        leaders = (cell for name in leading for cell in (name, self.say("interval")))
        notes = [*signatures_of(scored, (*leading, *names)), *map(self._about, scored)]
        if {one.run.setting("", "task") for one in self.ranked} == {"translation"}:
            notes.append(self.say("Places go by the value alone; weft compare tells whether a difference is chance."))
        elif places:
            notes.append(self.say("Places go by the value alone."))
        return Table(self.say("Scores"), (self.say("run"), self.say("place"), *leaders, *names), rows, notes, TEXTS)

    def _about(self, one: Contender) -> str:
        data = ", ".join(f"{name} ({str(digest)[:12]})" for name, digest in one.evaluation.get("data", {}).items())
        return "; ".join(filter(None, [f"{one.name}: {data}", str(one.evaluation.get("decoding_in_use", ""))]))

    def _facts(self) -> Table:
        rows = []
        for one in self.contenders:
            seconds, seen = largest(one.lines, "seconds"), largest(one.lines, "seen")
            parameters = [found["parameters"] for found in one.run.evaluations if found.get("parameters")]
            rows.append(
                (
                    one.name,
                    self.say("finished" if one.run.state.get("finished") else "not finished"),
                    count(largest(one.lines, "step")),
                    number(largest(one.lines, "epoch"), ".1f"),
                    count(seen),
                    duration(seconds) if seconds else "",
                    count(parameters[-1]) if parameters else "",
                )
            )
        header = ("run", "state", "steps", "epochs", self.unit, "time", "parameters")
        return Table(self.say("Runs"), tuple(map(self.say, header)), rows, (), TEXTS)

    def _keys(self) -> Table:
        settings = [settings_of(one.run) for one in self.contenders]
        keys = dict.fromkeys(key for of in settings for key in of)
        rows = [
            (key, *values)
            for key in keys
            if len(set(values := [written(of[key]) if key in of else "–" for of in settings])) > 1
        ]
        header = (self.say("key"), *(one.name for one in self.contenders))
        notes = [] if rows else [self.say("The recipes of the runs are the same.")]
        return Table(self.say("Keys that differ"), header, rows, notes, frozenset(range(len(header))))

    # Figures

    def charts(self) -> dict[str, str]:
        """Each validation metric and the training loss, over target tokens and over time, by the name of the file."""
        longest = max((largest(one.lines, "seconds") or 0 for one in self.contenders), default=0)
        unit, size = next(pair for pair in reversed(UNITS) if longest >= 2 * pair[1] or pair[1] == 1)
        for one in self.contenders:
            for line in one.lines:
                if finite([line.get("seconds")]):
                    line["time"] = line["seconds"] / size
        metrics = list({metric.key: metric for one in self.contenders for metric in metrics_of(one.run)}.values())
        is_plain = any("nll" in line for one in self.contenders for line in one.lines)
        metrics.append(Metric("nll" if is_plain else "loss", "min", self.say("training loss")))
        axes = [
            ("tokens", "seen", self.say("{tokens} seen", tokens=self.say(self.unit))),
            ("time", "time", self.say(unit)),
        ]
        return {
            f"{metric.name}-by-{name}" if training else f"valid-{metric.name}-by-{name}": self._chart(
                metric, metric.name if training else metric.key, along, label
            )
            for metric in metrics
            for training in [metric is metrics[-1]]
            for name, along, label in axes
        }

    def _chart(self, metric: Metric, key: str, along: str, label: str) -> str:
        title = self.say(metric.title)
        return line_chart(
            [column(one.name, one.lines, key, along) for one in self.contenders],
            title=self.say("Validation {metric}", metric=title) if key == metric.key else title.capitalize(),
            x_label=label,
            y_label=title,
            width=430,
            height=280,
            limits=(0.0, metric.most),
            from_zero=metric.better == "max",
            language=self.say.language,
        )


def compare_runs(folders: Sequence[Path], language: str = "en") -> Contest:
    """Read two or more run folders. Raises RunError for what is not a run, UsageError for one named twice."""
    places = [folder.resolve() for folder in folders]
    if repeated := sorted({str(f) for f, place in zip(folders, places, strict=True) if places.count(place) > 1}):
        raise UsageError(f"{', '.join(repeated)}: named more than once")
    runs = [read_run(folder) for folder in folders]
    short = [run.name for run in runs]
    names = short if len(set(short)) == len(short) else list(map(str, folders))
    return Contest([Contender(name, run) for name, run in zip(names, runs, strict=True)], say_in(language))


def write_runs_report(contest: Contest, to: Path) -> None:
    """Write the page in one step. Raises RunError if a file of a run does not hold what weft writes there."""
    say = contest.say
    with needing_weft_json("the comparison"):
        refusals = "\n".join(f'<p class="refusal">{text(refusal)}</p>' for refusal in contest.refusals())
        curves = "\n".join(contest.charts().values())
        sections = [(table.title, table.html()) for table in contest.tables()]
    warning = say("The losses are means per token, and the tokens of these runs differ: compare other curves.")
    warnings = f'<p class="refusal">{warning}</p>\n' if contest.have_other_tokens else ""
    sections.insert(2, (say("Curves"), f'{warnings}<div class="charts">\n{curves}\n</div>'))
    sections[0] = (sections[0][0], f"{refusals}\n{sections[0][1]}")
    write_atomically(
        to,
        page(
            kind=say("weft comparison of runs"),
            title=" · ".join(one.name for one in contest.contenders),
            subtitle="",
            main="\n".join(f"<section>\n<h2>{text(title)}</h2>\n{html}\n</section>" for title, html in sections),
            footer=say("Written by weft from the files of the runs; <code>weft report</code> writes it again."),
            language=say.language,
        ),
    )


# Values


def settings_of(run: Run) -> dict[str, Any]:
    """The recipe by dotted key, and the digests of the training files."""
    flat = dotted(run.values)
    for part, files in run.data.items():
        if isinstance(files, Mapping):
            flat[f"sha256 ({part})"] = ", ".join(str(digest)[:12] for digest in files.values())
    return flat


def written(value: Any) -> str:
    return value if isinstance(value, str) else write_value(value)


def shown_score(one: Contender, name: str, value: str = "value") -> str:
    score = one.evaluation["scores"].get(name, {})
    found = score if value == "value" else score.get("interval") or {}
    return on_its_scale(score, found.get(value)) or "–"


def interval_of(one: Contender, name: str) -> str:
    bounds = [shown_score(one, name, bound) for bound in ("low", "high")]
    return "–" if "–" in bounds else "[{}, {}]".format(*bounds)


def signatures_of(scored: Sequence[Contender], names: Sequence[str]) -> list[str]:
    """Each signature after the scores that have it."""
    having: dict[str, dict[str, None]] = {}
    for one in scored:
        for name in names:
            if signature := one.evaluation["scores"].get(name, {}).get("signature"):
                having.setdefault(str(signature), {})[name] = None
    return [f"{', '.join(of)}: {signature}" for signature, of in having.items()]
