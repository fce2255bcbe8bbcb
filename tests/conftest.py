"""For the whole test run: shape annotations are checked, and random numbers are the same every time."""

import gc
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, settings
from tests.command_line import Weft
from tests.shape_checks import check_new_calls

if TYPE_CHECKING:
    from weft.folders.model_folder import TranslationModel
    from weft.translating.translator import Translator

SOURCES = Path(__file__).parents[1] / "src"
# A module without such annotations has types alone, which `make check` proves; checking them took a third of the time.
MODULES_WITH_SHAPES = [
    ".".join(file.relative_to(SOURCES).with_suffix("").parts)
    for file in SOURCES.rglob("*.py")
    if "from jaxtyping import" in file.read_text(encoding="utf-8")
]

assert not any(name.partition(".")[0] == "weft" for name in sys.modules), "weft was imported before the hook below"
jaxtyping.jaxtyped = check_new_calls  # which the hook puts on each function
# is_pep484_tower: an int passes where a float is asked for, as it does in Python.
jaxtyping.install_import_hook(
    MODULES_WITH_SHAPES, "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The folders whose files take longest first, so that no core waits for another in the end."""
    items.sort(key=lambda item: not {"journeys", "tuning", "bench"} & {*item.path.parts})


def pytest_configure() -> None:
    """CTranslate2 reads its environment once, when it is imported: here perhaps by a test instead of by weft."""
    from weft.engines.ctranslate2 import choose_products
    from weft.runtime import processor_flags

    choose_products(processor_flags())
    # No test can see whether the disk has what was written, and waiting for it takes a third of a short run.
    os.fsync = lambda handle: None


# How fast the machine is, and what else it does, makes no property wrong; and a run finds what the run before found.
settings.register_profile("weft", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weft")


@pytest.fixture(autouse=True, scope="module")
def _what_was_imported_is_not_searched_for_garbage() -> None:
    """Every new trainer collects garbage, and would look through all of torch each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_random_numbers_every_time() -> None:
    torch.manual_seed(1)


TINY_RECIPE = """\
task = "translation"
[data]
source = "zh"
target = "en"
train = ["train.tsv"]
valid = ["valid.tsv"]
[tokenizer]
source_size = 300
target_size = 300
[model]
model_dim = 16
num_heads = 2
encoder_layers = 1
decoder_layers = 1
ff_dim = 16
[training]
batch_sentences = 30
epochs = 1
precision = "fp32"
[decoding]
max_length_ratio = 1.0
max_length_extra = 2
"""


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe (tiny.toml), its corpus (train.tsv, valid.tsv) and its run (run/), trained for two steps.

    It belongs to all tests: one that changes something copies it first.
    """
    from weft.runs.train import train

    folder = tmp_path_factory.mktemp("tiny")
    numbers = {"一": "one", "两": "two", "三": "three", "四": "four", "五": "five", "六": "six", "十": "ten"}
    nouns = {"苹果": "apple", "杯子": "cup", "朋友": "friend", "问题": "problem", "梨": "pear", "书包": "bag"}
    pairs = [(f"我有{n}个{it}。", f"I have {m} {its}s.") for n, m in numbers.items() for it, its in nouns.items()]
    for name, part in (("train", pairs), ("valid", pairs[::10])):
        lines = ["zh\ten", *("\t".join(pair) for pair in part)]
        (folder / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "tiny.toml").write_text(TINY_RECIPE, encoding="utf-8")
    train(folder / "tiny.toml", run=folder / "run")
    return folder


def copy_model(tiny_run: Path, folder: Path) -> Path:
    """Copy the model of tiny_run, without the run, into a new folder."""
    from weft.folders.manifest import model_files

    folder.mkdir(parents=True)
    for name in model_files(tiny_run / "run"):
        shutil.copy(tiny_run / "run" / name, folder)
    return folder


def untrained(run: Path, more: dict[str, object]) -> "TranslationModel":
    """2+2 layers, 64 wide, random weights, the vocabularies of a run; `more` are further changes of its recipe."""
    from weft.config import changed
    from weft.folders.finding import find_model
    from weft.folders.kinds import build_seq2seq
    from weft.folders.model_folder import Learned, load_model

    trained = load_model(find_model(run))
    changes: dict[str, object] = {f"model.{layers}_layers": 2 for layers in ("encoder", "decoder")}
    changes |= {"model.model_dim": 64, "model.num_heads": 4, "model.ff_dim": 128}
    changes["model.tie"] = "none"  # random weights that are tied write the token again that they have just read
    resolved = changed(trained.resolved, changes | more, "a test")
    sizes = trained.vocabularies["source"].vocab_size, trained.vocabularies["target"].vocab_size
    network = build_seq2seq(resolved.recipe, *sizes).eval()
    with torch.no_grad():
        network.output.weight.mul_(3)  # sharper than at its start, so that no two answers are near a tie
    return Learned(resolved, network, trained.vocabularies)


def without_bytes(model: "TranslationModel") -> None:
    """Make the bytes, which are most pieces of a small vocabulary, improbable, so that the model writes words."""
    from weft.text.kinds import pieces_of
    from weft.text.word_ranges import BYTE

    is_byte = [bool(BYTE.fullmatch(piece)) for piece in pieces_of(model.vocabularies["target"], "bpe")]
    with torch.no_grad():
        model.network.output.weight[is_byte] = 0.0


@pytest.fixture(scope="session")
def distinct_model(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder whose answers are words, and different ones for different sources, as tiny_run's are not.

    Random weights and the vocabularies of tiny_run. It reads its source closely, and bytes are improbable.
    """
    from weft.folders.model_folder import save_model

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(3)
        model = untrained(tiny_run / "run", {"decoding.max_length_extra": 4})
        for name, weights in model.network.named_parameters():
            if "cross_attention" in name:
                weights.mul_(4)
    without_bytes(model)
    folder = tmp_path_factory.mktemp("distinct")
    save_model(folder, model, "")
    return folder


@pytest.fixture(scope="session")
def zh_en() -> "Translator":
    """The shipped translator, which belongs to all tests."""
    from weft import load

    return load("zh-en")


@pytest.fixture
def random_model(tiny_run: Path) -> "TranslationModel":
    """2+2 layers, 64 wide, random weights, the vocabularies of tiny_run."""
    return untrained(tiny_run / "run", {"model.positions": "sinusoidal"})


@pytest.fixture
def wordy_model(random_model: "TranslationModel") -> "TranslationModel":
    """The same, writing words."""
    without_bytes(random_model)
    return random_model


@pytest.fixture
def weft(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Weft:
    """Run the command line in this process: exit code, standard output, standard error."""
    from weft.cli.main import run

    def weft(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["weft", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        code = ended.value.code or 0
        assert isinstance(code, int)
        out, error = capsys.readouterr()
        return code, out, error

    return weft
