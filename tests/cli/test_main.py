"""The `weft` command: quick to start, every verb explained, and one message and an exit code for whatever happens."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.command_line import Weft

import weft as package
from weft.cli import main
from weft.cli.help import EXAMPLES
from weft.errors import RunError, Stopped, UsageError

HEAVY = ["torch", "numpy", "sentencepiece", "sacrebleu", "opencc", "pydantic", "safetensors", "tomlkit", "jaxtyping"]
COMMANDS: Any = typer.main.get_command(main.app)
VERBS = [
    (name, *rest)
    for name, command in COMMANDS.commands.items()
    for rest in ([], *([verb] for verb in getattr(command, "commands", {})))
]


def command_of(verb: tuple[str, ...]) -> Any:
    command = COMMANDS
    for name in verb:
        command = command.commands[name]
    return command


# Starting


def test_nothing_heavy_is_imported_before_a_verb_runs() -> None:
    program = f"""
import json, sys
import weft
after_weft = sorted(sys.modules)
import weft.cli.main
print(json.dumps([[name for name in {HEAVY} if name in sys.modules], [m for m in after_weft if m.startswith("weft.")]]))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == [[], ["weft.version"]]


def test_the_version_is_printed(weft: Weft) -> None:
    assert weft("--version") == (0, f"weft {package.__version__}\n", "")


def test_the_verbs_are_those_that_there_are() -> None:
    assert {*EXAMPLES} <= {*COMMANDS.commands}, "an example is of no verb"
    assert {*COMMANDS.commands} - {*EXAMPLES} == {"augment", "corpus", "config", "models", "inspect"}, "none of a verb"


@pytest.mark.parametrize("verb", [(), *VERBS], ids=" ".join)
def test_every_verb_and_every_option_has_help(weft: Weft, verb: tuple[str, ...]) -> None:
    exit_code, out, error = weft(*verb, "--help")
    assert (exit_code, error) == (0, "")
    assert "Usage: " in out
    command = command_of(verb)
    assert command.help
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


@pytest.mark.parametrize("verb", EXAMPLES)
def test_the_example_of_a_verb_gives_options_that_it_has(verb: str) -> None:
    weft, first, *words = shlex.split(EXAMPLES[verb])
    assert (weft, first) == ("weft", verb)
    parameters = command_of((verb,)).params
    known = {option for parameter in parameters for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not hasattr(command_of(verb), "commands")], ids=" ".join)
def test_the_help_names_values_in_plain_words(weft: Weft, verb: tuple[str, ...]) -> None:
    options = [param for param in command_of(verb).params if param.param_type_name == "option"]
    assert [option.name for option in options if option.metavar is None] == []
    assert "<int>" not in weft(*verb, "--help")[1].partition("Options")[2]


COMPUTING_NOTHING = {
    *("new", "prepare", "watch", "report", "doctor", "tokenize", "detokenize", "import"),
    *(f"models {verb}" for verb in ("list", "get", "show", "verify", "copy", "pack", "unpack")),
    *(f"corpus {verb}" for verb in ("list", "get", "split")),
    *(f"config {verb}" for verb in ("explain", "schema", "show")),
    *("inspect positions", "inspect embeddings"),
}


def test_every_verb_that_computes_with_a_network_takes_threads() -> None:
    commands = {verb: command_of(verb) for verb in VERBS if not hasattr(command_of(verb), "commands")}
    without = {" ".join(verb) for verb, one in commands.items() if "threads" not in [p.name for p in one.params]}
    assert without == COMPUTING_NOTHING


@pytest.mark.parametrize("command", [(), ("corpus",), ("config",)])
def test_without_a_verb_the_help_is_shown_and_the_command_is_wrong(weft: Weft, command: tuple[str, ...]) -> None:
    exit_code, out, error = weft(*command)
    assert exit_code == 2
    assert "Usage: " in out + error


# How it ends


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (RunError("the folder is locked"), 1),
        (UsageError("there is no model"), 2),
        (Stopped("stopped at step 5 and saved"), 3),
    ],
)
def test_an_error_of_a_user_is_one_message_and_its_exit_code(
    weft: Weft, monkeypatch: pytest.MonkeyPatch, error: Exception, exit_code: int
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("weft.runtime.describe_machine", fail)
    assert weft("doctor", "--machine") == (exit_code, "", f"weft: {error}\n")
    code, _, said = weft("--debug", "doctor", "--machine")
    assert code == exit_code and said.startswith("Traceback") and said.endswith(f"weft: {error}\n")


def test_a_defect_of_weft_is_named_as_one_and_shows_its_trace_only_when_asked(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.runtime.describe_machine", lambda: 1 / 0)
    exit_code, out, error = weft("doctor", "--machine")
    assert (exit_code, out) == (1, "")
    assert error.startswith("weft: ZeroDivisionError: division by zero\nThis is a bug in weft; `weft --debug")
    assert "Traceback" not in error
    exit_code, out, error = weft("--debug", "doctor", "--machine")
    assert (exit_code, out) == (1, "")
    assert error.startswith("Traceback") and "1 / 0" in error


@pytest.mark.parametrize(
    "command", [("translate", "--modle", "x"), ("doctor",), ("evaluate",), ("score",), ("config", "explain", "modle")]
)
def test_a_wrong_command_exits_with_2(weft: Weft, command: tuple[str, ...]) -> None:
    exit_code, out, error = weft(*command)
    assert (exit_code, out) == (2, "")
    assert error and "Traceback" not in error


@pytest.mark.parametrize(
    ("command", "advised"),
    [
        (("doctor", "my recipe.toml", "b.tsv"), "run weft doctor 'my recipe.toml'"),
        (("translate", "--model", "nowhere", "my text.txt"), "--input 'my text.txt' reads its lines"),
        (("translate", "--model", "my model.zip", "一"), "weft models unpack 'my model.zip' FOLDER"),
        (("translate", "--model", "my opus", "一"), "weft import 'my opus' --output FOLDER"),
        (("train", "my study.toml"), "weft tune 'my study.toml' trains it"),
        (("tune", "my recipe.toml"), "weft train 'my recipe.toml' trains it"),
    ],
)
def test_an_advised_command_can_be_pasted(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], advised: str
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"my recipe.toml": "[data]\n", "my study.toml": 'base = "x"\n', "my text.txt": "一\n", "my model.zip": ""}
    Path("my opus").mkdir()
    for name, content in {**files, "my opus/config.json": "{}"}.items():
        Path(name).write_text(content, encoding="utf-8")
    exit_code, out, error = weft(*command)
    assert (exit_code, out) == (2, "") and advised in error


def test_a_reader_that_has_gone_away_is_no_defect() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "weft", "corpus", "list", "--json"]
    answer = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (answer.returncode, answer.stderr) == (1, b"")


def in_a_shell(command: str) -> subprocess.CompletedProcess[str]:
    line = ["sh", "-c", f"{sys.executable} -m weft {command}"]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_without_a_stderr_the_work_is_done_and_no_message_gets_into_the_output(tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("我有。\n", encoding="utf-8")
    files = f"--input {tmp_path / 'in.txt'} --output {tmp_path / 'out.txt'}"
    assert in_a_shell(f"translate --model {tiny_run / 'run'} {files} 2>&-").returncode == 0
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").count("\n") == 1


def test_a_reader_of_messages_that_has_gone_away_changes_no_exit_code(tiny_run: Path, tmp_path: Path) -> None:
    program = """
import weft.cli.main
from weft.errors import Stopped
def stop():
    raise Stopped("stopped")
weft.cli.main.app = stop
weft.cli.main.run()
"""
    for command, expected in (
        ([sys.executable, "-c", program], 3),
        ([sys.executable, "-m", "weft", "tokenize", "x"], 2),
        ([sys.executable, "-m", "weft", "models", "verify", str(tiny_run / "run")], 0),
    ):
        reader, writer = os.pipe()
        os.close(reader)
        assert subprocess.run(command, stderr=writer, stdout=subprocess.PIPE, check=False).returncode == expected
        os.close(writer)


def test_an_argument_that_is_no_text_is_named_in_an_error_like_any_other() -> None:
    command = [sys.executable.encode(), b"-m", b"weft", b"config", b"show", b"\xff.toml"]
    answer = subprocess.run(command, capture_output=True, check=False)
    assert (answer.returncode, answer.stderr) == (2, b"weft: there is no recipe \\udcff.toml\n")


# The machine


def test_the_machine_is_described_for_a_bug_report(weft: Weft) -> None:
    exit_code, out, error = weft("doctor", "--machine")
    assert (exit_code, error) == (0, "")
    facts = {line.split("  ", 1)[0].strip(): line.split("  ", 1)[1].strip() for line in out.splitlines()}
    assert facts["weft"] == package.__version__
    assert facts["python"] == sys.version.split()[0]
    expected = {"torch", "system", "processor", "device", "threads", "native bf16"}
    assert expected <= facts.keys() and all(facts.values())


# What can become of stdout


def outcome(*arguments: str, stdout: int | None = None, buffered: bool = True, before: Any = None) -> tuple[int, str]:
    """The exit code and what was said on stderr by a process of its own."""
    world = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    world["PYTHONDONTWRITEBYTECODE"] = "1"  # Python 3.11 keeps a file of it that a limit has cut short
    process = subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=world,
        text=True,
        preexec_fn=before,
    )
    return process.returncode, process.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "PYTHONUNBUFFERED"])
@pytest.mark.parametrize("arguments", [("corpus", "list", "--json"), ("--version",)], ids=" ".join)
def test_a_full_disk_behind_stdout_is_one_message_and_exit_code_1(arguments: tuple[str, ...], buffered: bool) -> None:
    with open("/dev/full", "wb") as full:
        found = outcome(*arguments, stdout=full.fileno(), buffered=buffered)
    assert found == (1, "weft: No space left on device; free some space and run the same command again\n")


@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "PYTHONUNBUFFERED"])
def test_a_file_behind_stdout_that_may_grow_no_more_is_never_taken_for_a_whole_one(
    tmp_path: Path, buffered: bool
) -> None:
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    with open(tmp_path / "list", "wb") as file:
        found = outcome("corpus", "list", stdout=file.fileno(), buffered=buffered, before=limit)
    assert found == (1, "weft: File too large; free some space and run the same command again\n")
    assert (tmp_path / "list").stat().st_size == 100


def test_a_closed_stdout_is_answered_with_what_to_do(tmp_path: Path) -> None:
    code, error = outcome("tokenize", "--model", "zh-en", "a", before=lambda: os.close(1))
    assert (code, error) == (2, "weft: there is no standard output; name a file by --output\n")


def test_a_signal_leaves_nothing_of_a_file_that_was_begun(tmp_path: Path) -> None:
    command = ["tokenize", "--model", "zh-en", "--output", str(tmp_path / "out.txt.gz")]
    with subprocess.Popen(
        [sys.executable, "-m", "weft", *command], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write("一句话。\n")
        process.stdin.flush()
        began = time.monotonic()
        while not [*tmp_path.iterdir()]:
            assert process.poll() is None and time.monotonic() - began < 60
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 3
        assert (
            process.stderr is not None
            and "so nothing was written; the same command starts over" in process.stderr.read()
        )
    assert not [*tmp_path.iterdir()]
