"""What verbs write never replaces what they read."""

from pathlib import Path

import pytest
from tests.command_line import Weft

DATA = '[data]\nsource = "zh"\ntarget = "en"\ntrain = ["in.tsv"]\nvalid = ["in.tsv"]\n'
FILES = {"in.tsv": "zh\ten\n一\tone\n", "in.txt": "一\n", "other.txt": "二\n", "in.toml": DATA}


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("translate --model nowhere --input in.txt --output {}", "in.txt"),
        ("translate --model nowhere --glossary in.tsv 一 --output {}", "in.tsv"),
        ("translate --model nowhere --memory in.tsv 一 --output {}", "in.tsv"),
        ("evaluate --model nowhere --data in.tsv --json {}", "in.tsv"),
        ("evaluate --model nowhere --data in.tsv --output {}", "in.tsv"),
        ("score --language en --hypotheses in.txt --references other.txt --json {}", "in.txt"),
        ("plan in.toml --json {}", "in.toml"),
        ("doctor in.tsv --source zh --target en --json {}", "in.tsv"),
        ("doctor in.toml --json {}", "in.toml"),
        ("compare in.txt other.txt --data in.tsv --source zh --target en --html {}", "in.txt"),
        ("compare other.txt none.txt --data in.tsv --source zh --target en --train in.txt --json {}", "in.txt"),
    ],
)
def test_an_output_in_the_place_of_an_input_or_a_folder_is_refused_before_anything_is_read(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, read: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_text(content, encoding="utf-8")
    for place, says in ((read, "would overwrite an input"), (".", "is not a file that can be replaced")):
        exit_code, out, error = weft(*command.format(place).split())
        assert (exit_code, out) == (2, "") and says in error
    assert {path.name: path.read_text(encoding="utf-8") for path in Path().iterdir()} == FILES
