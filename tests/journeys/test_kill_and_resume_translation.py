"""A file that is translated, killed at random moments and begun again each time, ends as if it was left alone.

`make test-slow` runs the version with ten kills.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weft.data.starter import load
from weft.translating import files as bulk
from weft.translating.files import translate_file
from weft.translating.loading import load_translator
from weft.translating.passages import PassageTranslator

SMALL_BLOCKS = 3
PROGRAM = (
    f"from weft.translating import files; files.LINES_AT_ONCE = {SMALL_BLOCKS}; from weft.cli.main import run; run()"
)


@pytest.mark.parametrize(("kills", "size"), [(1, 60), pytest.param(10, 120, marks=pytest.mark.slow)])
def test_a_translation_killed_at_random_moments_ends_byte_for_byte_like_one_left_alone(
    kills: int, size: int, distinct_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "LINES_AT_ONCE", SMALL_BLOCKS)
    source = tmp_path / "in.txt"
    lines = [chinese for chinese, _ in load()["train"][:size]]
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    model = distinct_model
    passages = PassageTranslator(load_translator(model, ["decoding.method=greedy"]))
    translate_file(passages, source, tmp_path / "whole.txt")
    assert len(set((tmp_path / "whole.txt").read_text(encoding="utf-8").splitlines())) > 0.9 * len(set(lines))

    moments = random.Random(kills)
    done = 0
    for kill in range(kills):
        done = kill_behind_line(done + moments.randrange(1, size // (2 * kills)), model, source, tmp_path / "out.txt")
        assert done < size and not (tmp_path / "out.txt").exists(), f"kill {kill} came too late"
    said: list[str] = []
    translate_file(passages, source, tmp_path / "out.txt", say=said.append)
    assert said == [f"continuing after line {done:,}"]
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "whole.txt", "out.txt"}


def kill_behind_line(line: int, model: Path, source: Path, output: Path) -> int:
    """Run the command until so many lines are done, kill it at the next moment, and tell how many were done."""
    command = [sys.executable, "-c", PROGRAM, "translate", "--model", str(model), "--set", "decoding.method=greedy"]
    with subprocess.Popen(
        [*command, "--input", str(source), "--output", str(output)], stderr=subprocess.PIPE
    ) as running:
        while lines_done(output) < line and running.poll() is None:
            time.sleep(0.001)
        running.kill()
    return lines_done(output)


def lines_done(output: Path) -> int:
    try:
        return json.loads(output.with_name(f"{output.name}.partial.json").read_text(encoding="utf-8"))["state"]["lines"]
    except FileNotFoundError:
        return 0
