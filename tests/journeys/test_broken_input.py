"""Whatever is wrong with a recipe, a corpus, a model or a run: one clear error, its exit code, and nothing left behind.

Every case goes through the command line. An error says what is wrong, where (file, key, line) and what to do; exit code
1 means that the work failed, 2 that the command or the recipe is wrong.
"""

import fcntl
import gzip
import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from tests.command_line import Weft
from tests.conftest import copy_model

TRAIN = ("train", "tiny.toml", "--run", "new")
GO_ON = ("train", "tiny.toml", "--run", "run")
TRANSLATE = ("translate", "--model", "model", "我有一个梨。")
EVALUATE = ("evaluate", "--model", "model", "--data", "valid.tsv")


@dataclass(frozen=True)
class Place:
    """A folder with a recipe and its corpus (tiny.toml, train.tsv, valid.tsv), a finished run (run/) and its model."""

    path: Path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def write(self, name: str, content: str | bytes) -> None:
        (self.path / name).write_bytes(content.encode() if isinstance(content, str) else content)

    def replace(self, name: str, old: str, new: str) -> None:
        """Put other text into a text file, which must hold the old one once."""
        text = (self.path / name).read_text(encoding="utf-8")
        assert text.count(old) == 1
        self.write(name, text.replace(old, new))

    def seal(self) -> None:
        """Make the model's manifest true again, as somebody does who wants an altered model to be loaded."""
        manifest = json.loads((self / "model/manifest.json").read_text(encoding="utf-8"))
        for name in manifest["files"]:
            manifest["files"][name] = hashlib.sha256((self / "model" / name).read_bytes()).hexdigest()
        self.write("model/manifest.json", json.dumps(manifest))

    def content(self) -> dict[str, bytes | None]:
        """Every file and folder, and what the files hold."""
        return {
            str(path.relative_to(self.path)): path.read_bytes() if path.is_file() else None
            for path in self.path.rglob("*")
        }


@pytest.fixture
def place(tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    shutil.copytree(tiny_run, tmp_path, dirs_exist_ok=True)
    copy_model(tiny_run, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DATA", raising=False)
    return Place(tmp_path)


@dataclass(frozen=True)
class Case:
    """`breaks` breaks the place, then the command must exit with this code and say all of this."""

    name: str
    command: tuple[str, ...]
    exit_code: int
    says: tuple[str, ...]
    breaks: Callable[[Place], object] = lambda place: None


# Recipes


def recipe(old: str, new: str) -> Callable[[Place], None]:
    return lambda place: place.replace("tiny.toml", old, new)


WRONG = {
    'source = "zh"': "source = 5",
    "model_dim = 16": "model_dim = 1e6\nffdim = 3",
    "num_heads = 2": "num_head = 2",
    "encoder_layers = 1": "encoder_layers = 97",
    "epochs = 1": 'epochs = "ten"\nschedule = "onecycel"\nvalidate_every = "often"\nbetas = [0.9, 2]\nepsilon = nan',
}
"""What stands in the recipe -> what is wrong in its place."""


def wrong_everywhere(place: Place) -> None:
    for old, new in WRONG.items():
        place.replace("tiny.toml", old, new)


MISFITS = [
    *("model.tie=all", "model.positions=learned", "model.max_positions=64", "model.dropout=0"),
    *("tokenizer.kind=words", "augmentation.subword_sampling=0.1", "training.r_drop=5"),
]
"""Four pairs of tables that do not go together."""

RECIPES = [
    Case("no such recipe", ("train", "tinny.toml"), 2, ("there is no recipe tinny.toml", "did you mean tiny.toml?")),
    Case("a folder for a recipe", ("train", "model"), 2, ("model is a folder; a recipe is a TOML file",)),
    Case(
        "recipe not UTF-8",
        TRAIN,
        2,
        ("tiny.toml", "line 2", "is not UTF-8; save the file in that encoding"),
        lambda place: place.write("tiny.toml", b'task = "translation"\nname = "\xff"\n'),
    ),
    Case(
        "recipe of 12 MB",
        TRAIN,
        2,
        ("tiny.toml", "is larger than 1 MiB, so it is probably not a recipe"),
        lambda place: place.write("tiny.toml", b"# \n" * 4_000_000),
    ),
    Case(
        "broken TOML", TRAIN, 2, ("tiny.toml", "line 2"), lambda place: place.write("tiny.toml", "[data]\nsource =\n")
    ),
    Case(
        "tables nested too deeply",
        TRAIN,
        2,
        ("tiny.toml", "nested too deeply"),
        lambda place: place.write("tiny.toml", "x = " + "[" * 500_000),
    ),
    Case(
        "many problems, all said at once",
        (*TRAIN, "--set", "training.warmup=inf", "--set", "training.epoch=3"),
        2,
        (
            *(
                "12 problems",
                "data.source = 5 (line 3)",
                "model.model_dim",
                "model.ffdim = 3",
                "did you mean `ff_dim`?",
            ),
            *("model.num_head = 2 (line 13)", "did you mean `num_heads`?", "model.encoder_layers = 97"),
            *("must be at most 96", 'training.epochs = "ten"', "expected a whole number", "did you mean `onecycle`?"),
            *(
                "training.validate_every",
                'expected an interval such as "200 steps"',
                "training.betas",
                "must be less than 1",
            ),
            *("training.epsilon = nan", "training.warmup=inf", "must be at most", "did you mean `epochs`?"),
        ),
        wrong_everywhere,
    ),
    Case(
        "heads that do not divide the width",
        TRAIN,
        2,
        ("model.num_heads = 3", "must divide model_dim = 16; try"),
        recipe("num_heads = 2", "num_heads = 3"),
    ),
    Case(
        "tables that do not fit together",
        (*TRAIN, *(word for setting in MISFITS for word in ("--set", setting))),
        2,
        (
            *("has 4 problems", "model.tie", "set tokenizer.shared = true", "augmentation.subword_sampling"),
            *("data.max_length", "training.r_drop", "compares passes with different dropout, and model.dropout is 0"),
        ),
    ),
    Case(
        "two batch sizes",
        TRAIN,
        2,
        ("training.batch_sentences", "conflicts with batch_tokens; give one of them"),
        recipe("epochs = 1", "epochs = 1\nbatch_tokens = 99"),
    ),
    Case(
        "an unknown task",
        TRAIN,
        2,
        ("task", "did you mean `translation`?"),
        recipe('task = "translation"', 'task = "translations"'),
    ),
    Case(
        "no table of data",
        TRAIN,
        2,
        ("data.source", "data.train", "missing"),
        lambda place: place.write("tiny.toml", 'task = "translation"\n'),
    ),
    Case("--set without a value", (*TRAIN, "--set", "training.epochs"), 2, ("expected KEY=VALUE",)),
    Case(
        "weights from a model that is not there",
        (*TRAIN, "--set", 'training.init="nowhere"'),
        2,
        ("there is no model nowhere",),
    ),
    Case(
        "weights from a model of another shape",
        (*TRAIN, "--set", 'training.init="model"', "--set", "model.ff_dim=24"),
        2,
        ("model.ff_dim = 24", "has 16; weights cannot be carried over"),
    ),
]


# Corpora


def corpus(content: str | bytes, name: str = "train.tsv") -> Callable[[Place], None]:
    return lambda place: place.write(name, content)


def train_on(files: str) -> tuple[str, ...]:
    return (*TRAIN, "--set", f"data.train=[{files}]")


def unequal_text_files(place: Place) -> None:
    place.write("a.zh", "一\n二\n")
    place.write("a.en", "one\n")


CORPORA = [
    Case(
        "no such corpus",
        train_on("'trian.tsv'"),
        1,
        ("trian.tsv", "does not exist (looked in", "did you mean train.tsv?"),
    ),
    Case(
        "no such data root", (*TRAIN, "--data", "nowhere"), 1, ("train.tsv", "valid.tsv", "does not exist (looked in")
    ),
    Case(
        "commas in place of tabs",
        TRAIN,
        1,
        ("train.tsv: line 1", "has no tab: zh,en", "tabs, not commas"),
        corpus("zh,en\n一,one\n"),
    ),
    Case(
        "corpus not UTF-8",
        TRAIN,
        1,
        ("train.tsv: line 3", "is not UTF-8 (byte 0xb6 at 1)", "convert the file"),
        corpus("zh\ten\n一\tone\n".encode() + "二\ttwo\n".encode("gbk")),
    ),
    Case(
        "text files of unequal length",
        train_on("{source='a.zh', target='a.en'}"),
        1,
        ("a.zh has 2 lines, a.en has 1",),
        unequal_text_files,
    ),
    Case(
        "a torn archive",
        train_on("'a.tsv.gz'"),
        1,
        ("a.tsv.gz", "cannot be read"),
        corpus(gzip.compress(b"zh\ten\n")[:-4], "a.tsv.gz"),
    ),
    Case(
        "every pair too long",
        (*TRAIN, "--set", "data.max_length=1"),
        1,
        ("every training pair is longer than data.max_length = 1 pieces",),
    ),
    Case(
        "a broken file among those to validate on",
        TRAIN,
        1,
        ("2 problems", "train.tsv: line 2", "valid.tsv: line 2"),
        lambda place: [place.write(f"{name}.tsv", "zh\ten\n一\n") for name in ("train", "valid")],
    ),
]


# Model folders


def damaged(name: str, change: Callable[[bytes], bytes], *, sealed: bool = False) -> Callable[[Place], None]:
    def breaks(place: Place) -> None:
        content = (place / "model" / name).read_bytes()
        place.write(f"model/{name}", change(content))
        if sealed:
            place.seal()

    return breaks


def one_byte_changed(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def config(old: str, new: str) -> Callable[[Place], None]:
    return damaged("config.toml", lambda content: content.replace(old.encode(), new.encode()), sealed=True)


def manifest(**changes: object) -> Callable[[Place], None]:
    return damaged("manifest.json", lambda content: json.dumps({**json.loads(content), **changes}).encode())


def other_shapes(place: Place) -> None:
    weights = load_file(place / "model/model.safetensors")
    name = next(name for name in weights if name.startswith("encoder.0") and weights[name].dim() == 2)
    weights[name] = weights[name][:-1].contiguous()
    del weights["decoder_norm.weight"]
    save_file(weights, place / "model/model.safetensors")
    place.seal()


def outside(place: Place) -> None:
    files = json.loads((place / "model/manifest.json").read_text(encoding="utf-8"))["files"]
    manifest(files={**files, "../tiny.toml": hashlib.sha256((place / "tiny.toml").read_bytes()).hexdigest()})(place)


def empty_model_folder(place: Place) -> None:
    shutil.rmtree(place / "model")
    (place / "model").mkdir()


ALTERED = "was changed or damaged: its sha256 is not the manifest's"

MODELS = [
    Case("no such model", ("translate", "--model", "nowhere", "你好"), 2, ("there is no model nowhere",)),
    Case("an empty folder", TRANSLATE, 2, ("model is neither a model folder", "nor a run"), empty_model_folder),
    Case("a file for a model", ("translate", "--model", "tiny.toml", "你好"), 2, ("there is no model tiny.toml",)),
    Case("no manifest", TRANSLATE, 2, ("(no manifest.json)",), lambda place: (place / "model/manifest.json").unlink()),
    Case(
        "no weights",
        TRANSLATE,
        1,
        ("model.safetensors", "is missing"),
        lambda place: (place / "model/model.safetensors").unlink(),
    ),
    Case(
        "one bit of the weights flipped",
        TRANSLATE,
        1,
        ("model.safetensors", ALTERED),
        damaged("model.safetensors", one_byte_changed),
    ),
    Case(
        "weights cut short under a true manifest",
        TRANSLATE,
        1,
        ("model.safetensors", "cannot be read"),
        damaged("model.safetensors", lambda content: content[:-100], sealed=True),
    ),
    Case(
        "weights that claim to be endless",
        TRANSLATE,
        1,
        ("model.safetensors", "cannot be read"),
        damaged("model.safetensors", lambda content: struct.pack("<Q", 2**62) + content[8:], sealed=True),
    ),
    Case(
        "weights of other shapes",
        TRANSLATE,
        1,
        ("2 problems", "decoder_norm.weight", "is missing from the weights", "has shape", "the recipe requires"),
        other_shapes,
    ),
    Case(
        "noise for a tokenizer",
        TRANSLATE,
        1,
        ("tokenizer.source.model", "is not a SentencePiece model"),
        damaged("tokenizer.source.model", lambda _: b"\x00\xff" * 100, sealed=True),
    ),
    Case(
        "a billion layers",
        TRANSLATE,
        1,
        ("config.toml", "model.encoder_layers = 1000000000", "must be at most 96"),
        config("encoder_layers = 1 ", "encoder_layers = 1000000000 "),
    ),
    Case(
        "a model as large as a recipe may ask for",
        TRANSLATE,
        1,
        ("has shape [300, 16]; the recipe requires [300, 8192]", "... and", "more"),
        config("model_dim = 16 ", "model_dim = 8192 "),
    ),
    Case(
        "broken configuration",
        TRANSLATE,
        1,
        ("config.toml", "line 5"),
        config("[data]", "[data"),
    ),
    Case(
        "a model that leaves its script open",
        TRANSLATE,
        1,
        ("tokenizer.source_script", "is still `auto`"),
        config('source_script = "simplified"', 'source_script = "auto"'),
    ),
    Case("a newer format", TRANSLATE, 1, ("manifest.json", "has format 2", "reads format 1"), manifest(format=2)),
    Case("a file outside the folder", TRANSLATE, 1, ("../tiny.toml", "leads out of the folder"), outside),
    Case(
        "a manifest of something else",
        TRANSLATE,
        1,
        ("manifest.json", "is not a manifest of a weft model"),
        damaged("manifest.json", lambda _: b'["not", "ours"]'),
    ),
    Case(
        "a manifest that names nothing",
        TRANSLATE,
        1,
        ("config.toml", "model.safetensors", "is not in the manifest"),
        manifest(files={}),
    ),
    Case("evaluating a damaged model", EVALUATE, 1, (ALTERED,), damaged("model.safetensors", one_byte_changed)),
]


# Run folders


def one_pair_more(place: Place) -> None:
    with open(place / "train.tsv", "a", encoding="utf-8") as file:
        file.write("好\tGood.\n")


def torn_run_json(place: Place) -> None:
    place.write("run/run.json", (place / "run/run.json").read_bytes()[:20])


def lost_checkpoint(place: Place) -> None:
    shutil.rmtree(place / "run/checkpoints")
    (place / "run/checkpoints").mkdir()


RUNS = [
    Case(
        "a run of another recipe",
        (*GO_ON, "--set", "model.ff_dim=24"),
        1,
        ("run was started with another recipe", "model.ff_dim: was 16, is 24", "--run run-2"),
    ),
    Case(
        "a run of other data",
        (*GO_ON, "--set", "training.epochs=2"),
        1,
        ("run was trained on other data", "train train.tsv", "--run run-2"),
        one_pair_more,
    ),
    Case("a damaged run.json", GO_ON, 1, ("run.json is damaged; restore it, or start a new run",), torn_run_json),
    Case(
        "translating with a damaged run.json",
        ("translate", "--model", "run", "你好"),
        1,
        ("run.json is damaged",),
        torn_run_json,
    ),
    Case(
        "one bit of the optimizer flipped",
        (*GO_ON, "--set", "training.epochs=2"),
        1,
        ("step-2", "training.safetensors", "was changed or damaged"),
        lambda place: place.write(
            "run/checkpoints/step-2/training.safetensors",
            one_byte_changed((place / "run/checkpoints/step-2/training.safetensors").read_bytes()),
        ),
    ),
    Case("a lost checkpoint", GO_ON, 1, ("checkpoints/step-2",), lost_checkpoint),
    Case("a file for a run folder", ("train", "tiny.toml", "--run", "train.tsv"), 1, ("train.tsv cannot be written",)),
    Case("a run folder below a file", ("train", "tiny.toml", "--run", "train.tsv/x"), 1, ("cannot be written",)),
    Case("a report of no run", ("report", "nowhere"), 1, ("nowhere is not a run",)),
]


# What is translated and evaluated


INPUTS = [
    Case(
        "text to translate not UTF-8",
        ("translate", "--model", "model", "--input", "in.txt", "--output", "out.txt"),
        1,
        ("in.txt", "line 2", "is not UTF-8 (byte 0xff at 1)"),
        corpus("一\n".encode() + b"\xff\n", "in.txt"),
    ),
    Case(
        "no text to translate",
        ("translate", "--model", "model", "--input", "in.txt"),
        1,
        ("in.txt", "does not exist (looked in"),
    ),
    Case(
        "a torn archive to translate",
        ("translate", "--model", "model", "--input", "in.gz", "--output", "out.txt"),
        1,
        ("in.gz", "cannot be read"),
        corpus(gzip.compress(b"abc\n")[:-4], "in.gz"),
    ),
    Case(
        "text named as an archive to translate",
        ("translate", "--model", "model", "--input", "in.gz", "--output", "out.txt"),
        1,
        ("in.gz", "cannot be read"),
        corpus("abc\n", "in.gz"),
    ),
    Case(
        "nowhere to write the translations",
        ("translate", "--model", "model", "--output", "nowhere/out.txt", "你好"),
        2,
        ("nowhere/out.txt cannot be written", "is not a folder"),
    ),
    Case("sentences and a file", (*TRANSLATE, "--input", "in.txt"), 2, ("--input cannot be combined with TEXT",)),
    Case("no model given", ("translate", "你好"), 2, ("--model",)),
    Case("a beam of nothing", (*TRANSLATE, "--set", "decoding.beam_size=0"), 2, ("must be at least 1",)),
    Case("setting what is fixed", (*TRANSLATE, "--set", "model.ff_dim=8"), 2, ("model.ff_dim=8", "cannot be changed")),
    Case(
        "no data to evaluate on",
        ("evaluate", "--model", "model", "--data", "test.tsv"),
        1,
        ("test.tsv", "does not exist (looked in"),
    ),
    Case("nowhere to write the scores", (*EVALUATE, "--json", "nowhere/s.json"), 2, ("nowhere/s.json", "not a folder")),
    Case("an unknown verb", ("trian",), 2, ("No such command 'trian'",)),
]

CASES = [*RECIPES, *CORPORA, *MODELS, *RUNS, *INPUTS]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_it_ends_in_one_clear_error_and_leaves_nothing_behind(case: Case, place: Place, weft: Weft) -> None:
    case.breaks(place)
    before = place.content()
    exit_code, out, error = weft(*case.command)
    assert (exit_code, out) == (case.exit_code, ""), error
    for fragment in case.says:
        assert fragment in error
    assert "Traceback" not in error and "bug in weft" not in error
    assert error.count("weft: ") <= 1
    after = place.content()
    assert after.keys() == before.keys()
    assert after == before


def test_there_are_at_least_thirty_kinds_and_each_has_its_own_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 30


def test_a_run_that_another_process_trains_in_is_refused_and_left_alone(place: Place, weft: Weft) -> None:
    before = place.content()
    with open(place / "run/lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        exit_code, out, error = weft(*GO_ON)
    assert (exit_code, out) == (1, "")
    assert "another process works in run; wait for it, or choose another --run" in error
    assert place.content() == before


def test_the_unbroken_place_works(place: Place, weft: Weft) -> None:
    for command in (GO_ON, TRANSLATE, EVALUATE, TRAIN):
        exit_code, _, error = weft(*command)
        assert exit_code == 0, error
