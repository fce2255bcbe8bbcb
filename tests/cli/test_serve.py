"""`weft serve` from the command line: what it refuses before it listens, and keys."""

import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.command_line import Weft

from weft.cli.main import app
from weft.cli.serve import LIBRARIES
from weft.serving import server
from weft.serving.keys import read_keys
from weft.serving.limits import Limits


def test_a_public_address_needs_a_key_or_a_word(weft: Weft, tiny_run: Path) -> None:
    code, out, error = weft("serve", "--model", str(tiny_run / "run"), "--host", "0.0.0.0")
    assert (code, out) == (2, "")
    assert "--api-keys FILE" in error and "--insecure" in error


def test_what_is_wrong_is_said_before_it_listens(weft: Weft, tmp_path: Path) -> None:
    assert weft("serve")[0] == 2
    assert "there is no model" in weft("serve", "--model", str(tmp_path / "none"))[2]
    assert "cannot be read" in weft("serve", "--model", "x", "--api-keys", str(tmp_path / "none"))[2]
    assert "equal to 1" in weft("serve", "--model", "x", "--max-queue", "0")[2]
    assert "equal to 0" in weft("serve", "--model", "x", "--max-alternatives", "-3")[2]
    assert "--max-seconds" in weft("serve", "--model", "x", "--max-seconds", "inf")[2]
    assert "--grace" in weft("serve", "--model", "x", "--grace", "nan")[2]


def test_every_library_of_the_extra_is_looked_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    extra = project["project"]["optional-dependencies"]["serve"]
    assert [re.split(r"[^\w-]", one)[0] for one in extra] == [name.lower() for name in LIBRARIES.values()]


def test_an_address_that_is_taken_is_named(weft: Weft, tiny_run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        code, _, error = weft("serve", "--model", str(tiny_run / "run"), "--port", port)
    assert code == 2 and f"port {port}: Address already in use" in error


def test_a_new_key_is_printed_once_and_its_hash_is_kept(weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    code, out, _ = weft("serve", "--make-key", "a page", "--api-keys", str(file))
    assert code == 0 and out.startswith("weft-") and out.count("\n") == 1
    assert read_keys(file).admit(out.strip().encode())
    code, out, error = weft("serve", "--make-key", "another")
    assert code == 0 and "another" in error and out.strip() not in error


def test_a_key_that_nobody_sees_is_not_kept(tmp_path: Path) -> None:
    command = f"{sys.executable} -m weft serve --make-key x --api-keys {tmp_path / 'keys'} >&-"
    answer = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == 2 and "there is no standard output" in answer.stderr
    assert not (tmp_path / "keys").exists()


def test_no_key_is_printed_for_what_is_no_file_of_keys(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("zh\ten\n", encoding="utf-8")
    for place, said in ((tmp_path / "pairs.tsv", "line 1"), (Path("/dev/full"), "is not a file")):
        code, out, error = weft("serve", "--make-key", "x", "--api-keys", str(place))
        assert code != 0 and out == "" and said in error


def test_making_a_key_looks_at_nothing_else(weft: Weft) -> None:
    code, _, error = weft("serve", "--make-key", "x", "--model", "nope", "--insecure")
    assert code == 2 and "--make-key cannot be combined with --model and --insecure" in error


@pytest.mark.parametrize(
    ("option", "values"),
    [
        (
            "--allow-host",
            ["example.org:5812", "*", "https://example.org", "example.org/a", "例子.com", "::1", "a b", ""],
        ),
        (
            "--allow-origin",
            ["https://example.org/", "HTTPS://example.org", "https://Example.org", "example.org", "*.org"],
        ),
        (
            "--allow-origin",
            ["https://example.org:443", "http://example.org:80", "https://*.example.org", "https://", ""],
        ),
        ("--trust-proxy", ["localhost", "10.0.0.1/8", "127.0.0.1:80", "[::1]", "10.0.0.*", ""]),
    ],
)
def test_a_name_that_no_request_could_have_is_refused(weft: Weft, option: str, values: list[str]) -> None:
    for value in values:
        code, _, error = weft("serve", "--model", "x", option, value)
        assert code == 2 and option in error and "no model" not in error, value


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--allow-host", ["Example.org", "weft", "my_host", "10.0.0.1", "[::1]", "xn--fsqu00a.com"]),
        (
            "--allow-origin",
            ["https://example.org", "http://localhost:3000", "http://[::1]:80801", "*", "null", "app://a"],
        ),
        ("--trust-proxy", ["127.0.0.1", "10.0.0.0/8", "::1", "*"]),
    ],
)
def test_a_name_that_a_request_may_have_is_taken(weft: Weft, option: str, values: list[str]) -> None:
    for value in values:
        assert "there is no model" in weft("serve", "--model", "x", option, value)[2], value


def test_a_negative_number_of_requests_is_none(weft: Weft) -> None:
    assert "--max-requests" in weft("serve", "--model", "x", "--max-requests", "-7")[2]


@pytest.mark.parametrize(
    ("options", "hosts", "rate"),
    [
        ([], {"localhost", "127.0.0.1", "[::1]"}, 0),
        (["--host", "0.0.0.0", "--insecure"], None, 60),
        (["--host", "0.0.0.0", "--insecure", "--allow-host", "Example.org", "--max-requests", "0"], {"example.org"}, 0),
    ],
)
def test_what_is_asked_for_reaches_the_server(
    weft: Weft, tiny_run: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], hosts: set[str] | None, rate: int
) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(server, "run", lambda *arguments: ran.append(arguments))
    wanted = {"bytes": 11, "characters": 12, "texts": 13, "alternatives": 14, "beam": 15, "queue": 16}
    wanted |= {"seconds": 17, "document-seconds": 18}
    limits = [word for name, value in wanted.items() for word in (f"--max-{name}", str(value))]
    assert weft("serve", "--model", str(tiny_run / "run"), "--port", "0", *limits, *options)[0] == 0
    _, service, address = ran[0]
    assert service.state.limits == Limits(
        body_bytes=11,
        characters=12,
        texts=13,
        alternatives=14,
        beam_size=15,
        queue=16,
        seconds=17,
        document_seconds=18,
        requests_per_minute=rate,
    )
    assert (service.state.hosts is None) if hosts is None else (service.state.hosts >= hosts)
    assert address.port == 0


def test_what_is_deployed_uses_options_that_exist_and_installs_what_the_readme_does() -> None:
    root = Path(__file__).parents[2]
    options = {option for parameter in verbs().commands["serve"].params for option in parameter.opts}
    unit, container = ((root / "deploy" / name).read_text() for name in ("weft.service", "Dockerfile"))
    given = set(re.findall(r"--[a-z-]+", " ".join(re.findall(r"ExecStart=.*", unit))))
    given |= set(re.findall(r"--[a-z-]+", " ".join(re.findall(r"(?:ENTRYPOINT|CMD) \[\"(?:weft|--).*", container))))
    assert {"--model", "--api-keys", "--host"} <= given <= options
    torch = re.search(r"torch==[\d.]+", (root / "scripts" / "install").read_text())
    assert torch is not None and torch[0] in container and "EXTRAS=serve,zh,export" in container


def verbs() -> Any:
    return typer.main.get_command(app)
