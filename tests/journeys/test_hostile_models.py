"""Models that mean harm: nothing in one runs, and whatever is wrong with one earns an error soon and in little memory.

The long form of the third part: `python -m bench.reliability.fuzz_models`, 20,000 cases and more.
"""

import ast
import hashlib
import json
import os
import re
import shutil
import time
import tomllib
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from bench.reliability.fuzz_models import LONGEST_CASE, SPOILERS, attempts, make_model
from tests.command_line import Weft
from tests.conftest import copy_model
from tests.pickles import PICKLES, open_carelessly
from torch.autograd.profiler import profile

from weft.errors import ModelError
from weft.folders import model_folder
from weft.folders.kinds import KINDS
from weft.folders.manifest import check_manifest
from weft.folders.model_folder import load_model

ROOT = Path(__file__).parents[2]


@pytest.fixture
def model(tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a model, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return copy_model(tiny_run, tmp_path / "model")


def put(model: Path, name: str, content: bytes) -> None:
    """Replace a file and make the manifest true again, as somebody does who wants it to be read."""
    (model / name).write_bytes(content)
    manifest = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"][name] = hashlib.sha256(content).hexdigest()
    (model / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


# Nothing runs


@pytest.mark.parametrize("kind", PICKLES)
def test_these_payloads_work(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PICKLES[kind](Path("x"))
    open_carelessly(Path("x"), kind)
    assert Path("owned").exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *product(["x.pt", "x.pth", "x.ckpt"], ["PyTorch's archive"]),
        *product(["x.npy", "x.npz"], ["NumPy's file"]),
        *[("x.bin", "a pickle"), ("x.pkl", "an old pickle")],
    ],
)
def test_a_pickle_for_a_model_is_refused_with_how_to_convert_it(weft: Weft, model: Path, name: str, kind: str) -> None:
    PICKLES[kind](Path(name))
    for command in ("translate", "--model", name, "你好"), ("models", "show", name), ("models", "pack", name, "x.zip"):
        exit_code, out, error = weft(*command)
        assert (exit_code, out) == (2, "")
        assert f"there is no model {name}: it may hold a pickle" in error and "safetensors.torch.save_file(" in error
    Path("folder").mkdir()
    shutil.move(name, "folder")
    exit_code, out, error = weft("translate", "--model", "folder", "你好")
    assert (exit_code, out) == (2, "") and f"{name} may hold a pickle" in error and "save_file(" in error
    assert not Path("owned").exists()


@pytest.mark.parametrize("is_sealed", [False, True], ids=["altered", "under a true manifest"])
@pytest.mark.parametrize("kind", PICKLES)
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.source.model", "config.toml"])
def test_a_pickle_under_another_name_is_refused(weft: Weft, model: Path, kind: str, name: str, is_sealed: bool) -> None:
    PICKLES[kind](model / name)
    if is_sealed:
        put(model, name, (model / name).read_bytes())
    for command in ("translate", "--model", "model", "你好"), ("models", "verify", "model"):
        exit_code, out, error = weft(*command)
        assert (exit_code, out) == (1, "") and name in error and "bug in weft" not in error
    if name == "model.safetensors" and is_sealed and kind != "an old pickle":
        assert "it begins like a pickle" in error and "safetensors.torch.save_file(" in error
    assert not Path("owned").exists()


@pytest.mark.parametrize("kind", PICKLES)
def test_a_run_does_not_go_on_from_a_pickle(
    weft: Weft, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = shutil.copytree(tiny_run, tmp_path / "place")
    monkeypatch.chdir(place)
    PICKLES[kind](place / "run/checkpoints/step-2/training.safetensors")
    exit_code, _, error = weft("train", "tiny.toml", "--run", "run", "--set", "training.epochs=2")
    assert exit_code == 1 and "training.safetensors or training.json" in error
    assert not Path("owned").exists()


# Nothing in this project could run it


FORBIDDEN = {
    "a module that runs what it reads": "import pickle",
    "from such a module": "from marshal import loads",
    "below such a module": "import joblib.memory",
    "eval": "eval(text)",
    "exec": "exec(text)",
    "yaml.load": "yaml.load(text)",
    "weights_only": "torch.load(path, weights_only=False)",
    "allow_pickle": "np.load(path, allow_pickle=True)",
    "a shell": "subprocess.run(command, shell=True)",
    "a shell, the old way": "os.system(command)",
    "a shell by its bare name": "from os import system",
    "a shell for what it says": "subprocess.getoutput(command)",
    "that by its bare name": "from subprocess import getstatusoutput",
    "a module of any name": "importlib.import_module(name)",
    "that by its bare name and another": "from importlib import import_module as load",
    "that without a library": "__import__(name)",
    "the network": "import urllib.request",
    "from the network": "from urllib import request",
    "below the network": "from http.client import HTTPSConnection",
    "a socket": "import socket",
    "the network by a library": "import requests",
}
MODULES = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
NETWORK = {"urllib.request", "http.client", "http.server", "socket", "socketserver", "ssl", "ftplib", "smtplib"}
NETWORK |= {"xmlrpc", "requests", "httpx", "aiohttp", "urllib3", "websockets", "huggingface_hub"}
RUNNERS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "importlib.import_module"}
RUNNERS |= {"yaml.load", "yaml.unsafe_load", "yaml.full_load"}
SWITCHES = {("weights_only", False), ("allow_pickle", True), ("shell", True)}
ALLOWED = {
    "src/weft/__init__.py": {"importlib.import_module"},  # by a table of its own
    "bench/suite.py": {"importlib.import_module"},  # what lies in a folder of the project
    "bench/memories.py": {"importlib.import_module", "exec"},  # the peers that it names itself; the docs' snippets
    "src/weft/data/download.py": {"http.client", "ssl", "urllib.request"},  # who calls it has asked for a download
    "src/weft/data/cluster.py": {"socket"},  # whether the cluster that the user names answers
    "src/weft/serving/server.py": {"socket"},  # listens
    "bench/serving/place.py": {"urllib.request"},  # asks a server on this machine
    "bench/serving/v6_keys.py": {"socket"},  # likewise
    "bench/serving/v14_attacks.py": {"socket"},  # likewise
}
"""What is forbidden elsewhere."""


def forbidden(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines of a program that could run what somebody else wrote, or ask the network, and by what."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names if is_forbidden(name.name))
            case ast.ImportFrom(module=str(module), names=names):
                whole = [f"{module}.{name.name}" for name in names]
                yield from ((node.lineno, name) for name in whole if is_forbidden(name))
            case ast.Name(id="eval" | "exec" | "__import__" as name):
                yield node.lineno, name
            case ast.Attribute(value=ast.Name(id=module), attr=name) if f"{module}.{name}" in RUNNERS:
                yield node.lineno, f"{module}.{name}"
            case ast.keyword(arg=str(name), value=ast.Constant(value=value)) if (name, value) in SWITCHES:
                yield node.lineno, name


def is_forbidden(name: str) -> bool:
    """Also what is in a module that is forbidden."""
    parts = name.split(".")
    beginnings = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return not beginnings.isdisjoint(MODULES | NETWORK | RUNNERS)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_search_finds(name: str) -> None:
    assert [line for line, _ in forbidden(ast.parse(FORBIDDEN[name]))] == [1]


def test_the_search_leaves_alone_what_only_looks_like_it() -> None:
    harmless = "model.eval()\nexecute(text)\n'eval(x), import pickle'\ntorch.load(path, weights_only=True)\n"
    harmless += (
        "from urllib.parse import urlsplit\nfrom weft.serving.requests import Key\nfrom http import HTTPStatus\n"
    )
    harmless += "from importlib.util import find_spec\nsubprocess.run([name], check=True)\nimport urllib.parse\n"
    assert list(forbidden(ast.parse(harmless))) == []


def test_no_program_of_this_project_could_run_what_it_reads_or_asks_the_network_unasked() -> None:
    found, used, seen = [], {}, 0
    for path in (path for room in ("src", "bench", "scripts") for path in sorted((ROOT / room).rglob("*"))):
        place = str(path.relative_to(ROOT))
        if not path.is_file() or "__pycache__" in place:
            continue
        if path.suffix == ".py":
            seen += 1
            for line, name in forbidden(ast.parse(path.read_text(encoding="utf-8"))):
                if name in ALLOWED.get(place, ()):
                    used.setdefault(place, set()).add(name)
                else:
                    found.append(f"{place}:{line}: {name}")
        elif path.suffix in ("", ".sh"):
            lines = path.read_text(encoding="utf-8").splitlines()
            risky = r"\beval\b|\bpickle\b|shell=True|allow_pickle|weights_only=False"
            found += [f"{place}:{number}" for number, line in enumerate(lines, start=1) if re.search(risky, line)]
    assert found == [] and used == ALLOWED
    assert seen > 50


# Whatever the bytes are


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    make_model(folder)
    return folder


@pytest.mark.parametrize("kind", SPOILERS)
def test_a_spoiled_file_earns_an_error_or_does_no_harm(small_model: Path, kind: str) -> None:
    answers = list(attempts(small_model, kind, range(60), seed=2))
    assert {answer["outcome"] for answer in answers} <= {"refused", "loaded"}
    assert max(answer["seconds"] for answer in answers) < LONGEST_CASE
    assert sum(answer["outcome"] == "refused" for answer in answers) > 30


ENDLESS = {
    "a key of many parts": b"a." * 65_000 + b"a = 1",
    "a key of many quoted parts": b"\"=,#\" . '.'." * 10_900 + b"a = 1",
    "a header of many parts": b"[" + b"a." * 65_000 + b"a]",
    "many unknown keys": b"[model]\n" + b"".join(b"k%d = 1\n" % number for number in range(12_900)),
    "many wrong values": b"[data]\ntrain = [" + b"1," * 65_000 + b"]",
    "many wrong values in a list that is one of two kinds": b"[data]\ncolumns.target = [" + b"1," * 65_000 + b"]",
    "one value on many lines": b'x = """\n' + (b"y" * 1000 + b"\n") * 130 + b'"""\n',
    "many values on many lines": b"".join(b"k%d = [\n" % n + b"1,\n" * 150 + b"]\n" for n in range(284)),
    "a number of many digits": b"seed = 0x" + b"f" * 130_000,
    "a long name": b"[model]\n" + b"k" * 130_000 + b" = 1\n",
    "brackets": b"x = " + b"[" * 130_000,
    "tables": b"[[x]]\n" * 21_800,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_configuration_that_takes_forever_to_read_is_given_up_soon(model: Path, name: str) -> None:
    put(model, "config.toml", ENDLESS[name])
    error = refused_within(20, model)
    assert error.problems[0].where == "config.toml" and len(str(error)) < 10_000


ORDINARY = "".join(f"key{number} = {number}.5  # default\n" for number in range(4750))
"""Valid TOML of 128 KiB. The time `tomllib` takes for it is the unit of the bounds, as machines differ."""


def refused_within(units: float, model: Path) -> ModelError:
    """The error of a model that is refused within so many times the processor time of reading `ORDINARY`."""
    for _ in range(3):  # a collection of other tests' garbage may fall into one of them
        begin = time.process_time()
        tomllib.loads(ORDINARY)
        middle = time.process_time()
        with pytest.raises(ModelError) as raised:
            load_model(model)
        if time.process_time() - middle < units * (middle - begin):
            return raised.value
    pytest.fail(f"took longer than reading {units} ordinary configurations three times")


@pytest.mark.parametrize("name", ["config.toml", "manifest.json", "tokenizer.source.model"])
def test_a_file_far_too_large_for_what_it_is_is_not_read(model: Path, name: str) -> None:
    with open(model / name, "ab") as file:
        file.truncate(1 << 40)
    assert re.search(rf"{re.escape(name)} +is larger than", str(refused_within(1, model)))


def test_a_run_that_says_endless_things_of_itself_is_not_read(weft: Weft, model: Path) -> None:
    with open(model / "run.json", "wb") as file:
        file.truncate(1 << 40)
    exit_code, _, error = weft("translate", "--model", "model", "你好")
    assert exit_code == 2 and "model/run.json is larger than 128 KiB" in error


# Settings are numbers and words, looked up and bounded


REFUSED_SETTINGS = {
    "a language that is a slow expression": ('source = "zh" ', 'source = "(a+)+" '),
    "a language that is any text": ('target = "en" ', 'target = ".*" '),
    "a language of a thousand letters": ('source = "zh" ', f'source = "{"zh" * 500}" '),
    "a language of a thousand parts": ('source = "zh" ', f'source = "zh{"-a" * 1000}" '),
    "a language that closes a group": ('target = "en" ', 'target = "en)|(" '),
    "no language": ('target = "en" ', 'target = "" '),
    "a line end in a language": ('target = "en" ', 'target = "en\\n" '),
    "a class path for a model": ('kind = "transformer"', 'kind = "torch.nn.Transformer"'),
    "a class path for a function": ('activation = "relu"', 'activation = "os.system"'),
    "a module for a task": ('task = "translation"', 'task = "evil.module"'),
    "a class path under a new key": ("[model]", '[model]\n_target_ = "os.system"'),
    "a billion layers": ("encoder_layers = 1 ", "encoder_layers = 1000000000 "),
    "a billion heads": ("num_heads = 2 ", "num_heads = 1000000000 "),
    "a width below zero": ("model_dim = 16 ", "model_dim = -16 "),
    "a width of nothing": ("ff_dim = 16 ", "ff_dim = 0 "),
    "a beam of a billion": ("beam_size = 3 ", "beam_size = 1000000000 "),
    "a width that is no number": ("ff_dim = 16 ", "ff_dim = inf "),
    "a number beyond all machines": ("model_dim = 16 ", "model_dim = 0x" + "f" * 50 + " "),
}


@pytest.mark.parametrize("name", REFUSED_SETTINGS)
def test_it_is_refused_before_anything_is_built_or_any_memory_taken(
    model: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = REFUSED_SETTINGS[name]
    config = (model / "config.toml").read_text(encoding="utf-8")
    assert config.count(old) >= 1
    put(model, "config.toml", config.replace(old, new, 1).encode())

    def reached(*_: object) -> None:
        pytest.fail("built something out of settings that cannot be")

    monkeypatch.setitem(KINDS, "translation", replace(KINDS["translation"], build=reached))
    monkeypatch.setattr(model_folder, "load_vocabularies", reached)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=r"config\.toml"):
            load_model(model)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_the_largest_model_that_settings_may_ask_for_takes_no_memory_before_its_weights_are_there(model: Path) -> None:
    config = (model / "config.toml").read_text(encoding="utf-8")
    for old, new in (("_layers = 1 ", "_layers = 96 "), ("model_dim = 16 ", "model_dim = 8192 ")):
        config = config.replace(old, new)
    config = config.replace("ff_dim = 16 ", "ff_dim = 65536 ")
    put(model, "config.toml", config.encode())
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match="is missing from the weights"):
            load_model(model)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()

    # Tensors are not traced. The tables of rotary positions are as wide as a head; eight show what 192 take.
    one_head = re.sub("num_heads = [0-9]+", "num_heads = 1", config.replace("_layers = 96 ", "_layers = 4 "))
    put(model, "config.toml", re.sub('positions = "[a-z]+"', 'positions = "rotary"', one_head).encode())
    with pytest.raises(ModelError, match="is missing from the weights"), (profiled := profile(profile_memory=True)):
        load_model(model)
    made = sum(max(0, event.self_cpu_memory_usage) for event in profiled.function_events or ())
    assert 0 < made < 8 * (1 << 20)


# Altered, or leading elsewhere


def test_one_byte_changed_in_any_file_is_refused_and_the_file_named(model: Path) -> None:
    for name in json.loads((model / "manifest.json").read_text())["files"]:
        content = (model / name).read_bytes()
        for place in (0, len(content) // 2, len(content) - 1):
            (model / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(ModelError) as raised:
                load_model(model)
            assert [problem.where for problem in raised.value.problems] == [name]
        (model / name).write_bytes(content)
    load_model(model)


def test_one_byte_changed_in_the_manifest_is_refused_wherever_it_is(model: Path) -> None:
    content = (model / "manifest.json").read_bytes()
    names = {"manifest.json", *json.loads(content)["files"]}
    for place in range(len(content)):
        (model / "manifest.json").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ModelError) as raised:
            check_manifest(model)
        wrong = {problem.where for problem in raised.value.problems}
        is_misnamed = all(len(name) in map(len, names) for name in wrong)  # a letter of a name was changed
        assert wrong and (wrong & names or is_misnamed)


@pytest.mark.parametrize("name", ["README.md", "manifest.json", "config.toml", "model.safetensors", "notes", "gone"])
def test_a_link_anywhere_in_the_folder_is_refused(model: Path, name: str) -> None:
    target = model.parent / "elsewhere"
    if (model / name).exists():
        (model / name).rename(target)
    elif name != "gone":
        target.write_text("private")
    (model / name).symlink_to(target)
    with pytest.raises(ModelError) as raised:
        load_model(model)
    assert [problem.where for problem in raised.value.problems] == [name]
    assert "is a link" in str(raised.value)


def test_the_folder_itself_may_be_reached_by_a_link(model: Path) -> None:
    Path("link").symlink_to(model)
    assert load_model(Path("link")).count_parameters() == load_model(model).count_parameters()


@pytest.mark.parametrize("name", ["model.safetensors", "manifest.json"])
def test_a_pipe_for_a_file_is_refused_and_not_waited_for(model: Path, name: str) -> None:
    (model / name).unlink()
    os.mkfifo(model / name)
    with pytest.raises(ModelError, match=re.escape(name)):
        load_model(model)


def test_what_a_file_is_called_in_an_error_steers_no_terminal(weft: Weft, model: Path) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["files"] |= {"\x1b[2J\u202egone": "0", "\ud800": "0", "n" * 100_000: "0"}
    (model / "manifest.json").write_text(json.dumps(manifest))
    exit_code, out, error = weft("translate", "--model", "model", "你好")
    assert (exit_code, out) == (1, "") and len(error) < 2000
    assert "\\x1b[2J\\u202egone" in error and "\\ud800" in error and "\x1b" not in error
