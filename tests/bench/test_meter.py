"""The meter that counts the tokens of other people's training loops."""

import fcntl
import json
import os
from pathlib import Path

import pytest
from bench.peers import meter


class Ended(Exception): ...


def test_only_whole_steps_between_warm_up_and_end_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def end(status: int) -> None:
        raise Ended

    clock = 0.0
    monkeypatch.setattr(meter.time, "perf_counter", lambda: clock)
    monkeypatch.setattr(meter.os, "_exit", end)
    output = tmp_path / "figures.json"
    counted = meter.Meter(warmup=2, seconds=3, output=output, system={"version": "1"})
    with pytest.raises(Ended):
        for step in range(100):  # a step takes one second; step k has 10 k tokens
            clock = float(step)
            counted.step_begins(10 * step)
    figures = json.loads(output.read_text(encoding="utf-8"))
    assert (figures["steps"], figures["target_tokens"]) == (3, 20 + 30 + 40)
    assert (figures["seconds"], figures["target_tokens_per_second"], figures["version"]) == (3.0, 30.0, "1")


def test_of_processes_that_take_turns_one_counts_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "turn"
    monkeypatch.setenv("METER_TURN", str(file))
    counted = meter.Meter(warmup=0, seconds=1e6, output=tmp_path / "figures.json", system={})
    counted.step_begins(1)
    assert counted.window is not None and counted.turn is not None
    with open(file, "a", encoding="ascii") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(counted.turn)  # as the end of the process does
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_other_programs_took_is_a_share_of_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    now, own, busy = 0.0, 0.0, 100.0
    monkeypatch.setattr(meter.time, "perf_counter", lambda: now)
    monkeypatch.setattr(meter.time, "process_time", lambda: own)
    monkeypatch.setattr(meter.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(meter, "busy_cpu_seconds", lambda: busy)
    watch = meter.CpuWatch()
    now, own, busy = 10.0, 15.0, 117.0  # of 20 core seconds we took 15, and others 2
    assert watch.others() == pytest.approx(0.1)
