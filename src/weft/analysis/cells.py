"""What several sections of a report show of a run: a place in time, languages, data, an output."""

from collections.abc import Sequence
from typing import Any

from weft.analysis.html import count, number, text
from weft.analysis.run_files import Line, Run
from weft.figures.words import Say
from weft.text.language import code_of, in_one_spelling


def data_names(evaluation: Line, say: Say) -> str:
    return ", ".join(evaluation.get("data", {})) or say("unnamed data")


def sentences(evaluation: Line, say: Say) -> str:
    number = evaluation.get("sentences")
    return say("1 sentence") if number == 1 else say("{count} sentences", count=count(number))


def output(sample: Line, say: Say, name: str = "hypothesis") -> str:
    return text(sample.get(name)) or f'<span class="missing" lang="{say.language}">{say("empty")}</span>'


def languages(run: Run) -> tuple[str, str]:
    """Attributes by which the browser chooses font, direction and hyphenation of source and of target text."""
    source, target = (
        f' lang="{text(tag_of(language))}" dir="auto"' if language else ' dir="auto"'
        for language in (run.setting("data", "source"), run.setting("data", "target"))
    )
    return source, target


def tag_of(language: str) -> str:
    """The language as browsers know it (BCP 47): zh-tw for zh_TW, de for deu."""
    return "-".join([code_of(language), *in_one_spelling(language).split("-")[1:]])


def moment(line: Line, say: Say) -> str:
    step = say("step {step}", step=count(line.get("step")))
    epoch = number(line.get("epoch"), ".1f")
    return step + (say(", epoch {epoch}", epoch=epoch) if epoch else "")


def on_its_scale(score: Line, value: Any) -> str:
    """A score or a bound of its interval: shares (BLEU-1 to -4, exact match) have four decimals."""
    return number(value, ".4f" if score.get("scale") == "0..1" else ".2f")


def names_of_bins(limits: Sequence[int], say: Say) -> list[str]:
    """at most 5, 6 to 10, 11 and more: of inclusive upper limits."""
    lower, upper = [count(limit + 1) for limit in limits], list(map(count, limits))
    between = (say("{low} to {high}", low=low, high=high) for low, high in zip(lower, upper[1:], strict=False))
    return [say("at most {high}", high=upper[0]), *between, say("{low} and more", low=lower[-1])]
