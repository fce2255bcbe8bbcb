"""What is shown while a model trains or a file is worked on; the text of users stays as it is."""

import io
import re
import sys
from contextlib import nullcontext
from typing import Any

import pytest
from rich.console import Console

from weft.cli import displays
from weft.cli.displays import Counter, LiveDisplay, PlainDisplay, choose_display, clock

SAMPLES = [
    {"source": "[bold]你好[/]", "reference": "a [red]b :smile:", "hypothesis": "c:\\[/nonsense]\\\\"},
    {"source": "二", "reference": "two", "hypothesis": ""},
]


def log_row(step: int, seconds: float) -> dict[str, Any]:
    return {
        "step": step,
        "epoch": step / 100,
        "loss": 4.5,
        "nll": 4.0,
        "learning_rate": 1e-3,
        "grad_norm": 1.25,
        "target_tokens_per_second": 12345.6,
        "seconds": seconds,
    }


VALIDATION = {
    "step": 1200,
    "epoch": 3.0,
    "valid_loss": 2.5,
    "valid_accuracy": 0.501,
    "valid_bleu": 23.456,
    "seconds": 3725.4,
}


# Plain lines


def test_a_plain_line_has_the_figures_and_the_time_that_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    PlainDisplay().on_log(log_row(step=1000, seconds=50.0), total_steps=3000)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "step 1,000/3,000  epoch 10.00  loss 4.500  12,346 target tokens/s  rate 1.00e-03  norm 1.25  left 1:40\n"
    )


def test_plain_lines_come_at_intervals_and_the_first_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay()
    for step in range(1, 31):
        display.on_log(log_row(step, seconds=step * 1.5), total_steps=100)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["1/100", "8/100", "15/100", "22/100", "29/100"]


def test_a_run_that_goes_on_shows_a_line_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    PlainDisplay().on_log(log_row(step=500, seconds=3.0), total_steps=1000)
    assert capsys.readouterr().err.startswith("step 500/1,000")


def test_a_plain_validation_shows_every_sample_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    PlainDisplay().on_validation(VALIDATION, SAMPLES, is_best=True)
    assert capsys.readouterr().err == (
        "validation at step 1,200 (epoch 3.00, 1:02:05): loss 2.5000, accuracy 0.5010, BLEU 23.46, the best so far\n"
        "    [bold]你好[/]\n    = a [red]b :smile:\n    > c:\\[/nonsense]\\\\\n"
        "    二\n    = two\n    > \n"
    )


# The live display


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> LiveDisplay:
    """A display in a terminal of eighty columns that is a string."""

    def terminal(stderr: bool) -> Console:
        assert stderr
        return Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None, legacy_windows=False)

    monkeypatch.setattr("rich.console.Console", terminal)
    return LiveDisplay()


def shown(display: LiveDisplay) -> str:
    assert isinstance(display.console.file, io.StringIO)
    return display.console.file.getvalue()


def test_the_live_display_shows_place_figures_and_samples(live: LiveDisplay) -> None:
    with live:
        live.on_message("42 training pairs")
        live.on_log(log_row(step=250, seconds=10.0), total_steps=1000)
        live.on_validation(VALIDATION, SAMPLES, is_best=False)
        live.progress.refresh()
    text = shown(live)
    assert "42 training pairs" in text
    assert re.search(r" 25 % left \S+ step 250/1,000 loss 4\.500  12,346 tok/s  rate 1\.0e-03", text)
    assert "validation at step 1,200" in text and "the best so far" not in text


def test_the_line_of_training_is_there_from_the_first_step_and_fits_eighty_columns(live: LiveDisplay) -> None:
    with live:
        live.on_step(1, 240_000)
        live.progress.refresh()
        assert "step 1/240,000" in shown(live)
        live.on_log(log_row(step=123_456, seconds=36_000.0), total_steps=240_000)
        live.on_step(123_457, 240_000)
        live.progress.refresh()
    last = [line for line in re.split(r"[\r\n]|\x1b\[[0-9;?]*[A-Za-z]", shown(live)) if "step 123,457" in line][-1]
    assert last.startswith(" 51 % left ") and "loss 4.500" in last and "rate 1.0e-03" in last and "…" not in last


def test_work_on_sentences_that_takes_long_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 0.0, 2.0, 6.0, 8.0, 12.0, 30.0])
    monkeypatch.setattr(displays.time, "monotonic", lambda: next(now))
    tell = Counter("beam:5")
    for done in (500, 1000, 1500, 2000, 2500):
        tell(done, 2500)
    assert capsys.readouterr().err.splitlines() == [
        "beam:5: 1,000 of 2,500 sentences, left 0:09",
        "beam:5: 2,000 of 2,500 sentences, left 0:03",
    ]


def test_the_text_of_users_is_never_markup_in_the_live_display(live: LiveDisplay) -> None:
    with live:
        live.on_message("[bold]corpus[/nonsense] :smile:")
        live.on_validation(VALIDATION, SAMPLES, is_best=True)
    text = shown(live)
    assert "[bold]corpus[/nonsense] :smile:" in text
    for sample in SAMPLES:
        assert all(side in text for side in sample.values())


def test_the_live_display_goes_on_where_a_run_was_stopped(live: LiveDisplay) -> None:
    with live:
        live.on_log(log_row(step=600, seconds=60.0), total_steps=1000)
        live.on_log(log_row(step=620, seconds=62.0), total_steps=1000)
    (task,) = live.progress.tasks
    assert (task.completed, task.total) == (620, 1000)
    assert "step 620/1,000" in shown(live)


# Files


@pytest.mark.parametrize("total", [None, 2_000_000])
def test_a_file_has_lines_now_and_then_or_a_bar(
    live: LiveDisplay, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, total: int | None
) -> None:
    monkeypatch.setattr("weft.cli.displays.PLAIN_EVERY", 0.0)
    for display in (PlainDisplay(), live):
        with live if display is live else nullcontext():
            display.on_message("a [file] :smile: comes")
            display.on_progress("x.zip", 0, total)
            display.on_progress("x.zip", 1_000_000, total)
    out, plain = capsys.readouterr()
    assert out == ""
    for error in (plain, shown(live)):
        assert error.count("a [file] :smile: comes") == 1
        assert "x.zip" in error and f"1.0 MB{' of 2.0 MB' if total else ''}" in error
    assert plain.splitlines()[-1].endswith(", 50.0 %, left 0:00" if total else "x.zip: 1.0 MB")


# Which of them


@pytest.mark.parametrize(("is_terminal", "kind"), [(True, LiveDisplay), (False, PlainDisplay)])
def test_a_terminal_gets_the_live_display_and_a_pipe_plain_lines(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, kind: type
) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    with choose_display() as display:
        assert isinstance(display, kind)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (65, "1:05"), (3599.5, "1:00:00"), (3725, "1:02:05")]
)
def test_a_clock_by_hand(seconds: float, text: str) -> None:
    assert clock(seconds) == text
