"""Two people's whole way: an engineer with two text files, and a student with the table of the course."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest
from tests.command_line import Weft
from tests.conftest import TINY_RECIPE

import weft as library
from weft.serving.models import Models, Source
from weft.serving.translating import TranslationOptions, translate

NUMBERS = {"ein": "one", "zwei": "two", "drei": "three", "vier": "four", "fünf": "five", "sechs": "six"}
NOUNS = {"Apfel": "apple", "Becher": "cup", "Freund": "friend", "Rätsel": "riddle", "Birne": "pear", "Tasche": "bag"}
PAIRS = [(f"Ich habe {n} {it}.", f"I have {m} {its}.") for n, m in NUMBERS.items() for it, its in NOUNS.items()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def done(weft: Weft, *command: str, codes: tuple[int, ...] = (0,)) -> str:
    """What a command prints and says."""
    exit_code, out, error = weft(*command)
    assert exit_code in codes, error
    return out + error


@pytest.mark.parametrize("engine", ["ctranslate2", "onnx"])
def test_two_text_files_with_crlf_go_from_the_doctor_to_the_server(weft: Weft, place: Path, engine: str) -> None:
    for part, pairs in (("train", PAIRS[6:]), ("valid", PAIRS[:6])):
        for code, side in (("de", 0), ("en", 1)):
            (place / f"{part}.{code}").write_bytes("".join(f"{pair[side]}\r\n" for pair in pairs).encode())
    assert "train.de: 30 pairs" in done(weft, "doctor", "train.de", "train.en", codes=(0, 1))
    recipe = TINY_RECIPE.replace('"zh"', '"de"').replace("[tokenizer]", '[tokenizer]\nkind = "characters"')
    recipe = recipe.replace('["train.tsv"]', '["train.de", "train.en"]').replace(
        '["valid.tsv"]', '["valid.de", "valid.en"]'
    )
    Path("mine.toml").write_text(recipe, encoding="utf-8")
    assert "try it: weft translate --model runs/mine" in done(weft, "train", "mine.toml")
    assert "sacrebleu" in done(weft, "evaluate", "--model", "runs/mine", "--data", "valid.de", "valid.en")
    exported = done(weft, "export", "--model", "runs/mine", "--to", engine, "--output", "out")
    assert "6 sentences of valid.de and valid.en" in exported and "6 of 6 texts are the same" in exported
    compared = done(weft, "compare", "runs/mine", "out", "valid.en", "--data", "valid.de", "valid.en", "--json", "-")
    assert list(json.loads(compared)["systems"]) == ["mine", "out", "valid.en"]
    assert "log_prob" in done(weft, "score", "--model", "runs/mine", "--data", "valid.de", "valid.en")
    text = PAIRS[0][0]
    answers = [
        library.load(name, ["decoding.stopping=first-k"]).translate([text])[0].text for name in ("runs/mine", "out")
    ]
    Path("memory.csv").write_text(f'de,en\n"{PAIRS[7][0]}","From the memory."\n', encoding="utf-8")
    served = Models([Source("out", memory=Path("memory.csv"))])

    async def ask() -> list[str]:
        (model,) = served
        found = await translate(model, [text, PAIRS[7][0]], TranslationOptions())
        return [one.text for one in found]

    try:
        first, remembered = asyncio.run(ask())
    finally:
        served.close(5)
    assert answers[0] == answers[1] == first and remembered == "From the memory."


def test_a_glossary_holds_for_every_request_and_that_of_a_request_goes_first(distinct_model: Path, place: Path) -> None:
    Path("terms.csv").write_text("zh,en\n苹果,pear\n杯子,bag\n", encoding="utf-8")
    served = Models([Source(str(distinct_model), glossary=Path("terms.csv"))])

    async def ask(**options: object) -> list[str]:
        (model,) = served
        found = await translate(model, ["我有苹果和杯子。"], TranslationOptions(**options))  # type: ignore[arg-type]
        return [one.text for one in found]

    try:
        (alone,), (own,) = asyncio.run(ask()), asyncio.run(ask(terms=(("苹果", "friend"),)))
    finally:
        served.close(5)
    assert "pear" in alone and "bag" in alone
    assert "friend" in own and "bag" in own and "pear" not in own


def test_two_commands_make_the_table_of_positions_by_search(weft: Weft, place: Path, tiny_run: Path) -> None:
    for name in ("train.tsv", "valid.tsv", "tiny.toml"):
        shutil.copy(tiny_run / name, name)
    for positions in ("sinusoidal", "rotary"):
        done(weft, "train", "tiny.toml", "--run", positions, "--set", f"model.positions={positions}")
    limits = ("--set", "require.min_bleu_1=0.395", "--set", "require.min_bleu_2=0.25")
    table = done(
        weft,
        "compare",
        "sinusoidal",
        "rotary",
        "--methods",
        "greedy,beam:3,beam:5",
        "--data",
        "valid.tsv",
        *limits,
        "--latex",
        "table.tex",
        "--markdown",
        "table.md",
    )
    names = [
        f"{positions} {search}" for positions in ("sinusoidal", "rotary") for search in ("greedy", "beam:3", "beam:5")
    ]
    markdown = Path("table.md").read_text(encoding="utf-8")
    header = "| system | BLEU-1 | BLEU-2 | BLEU-3 | BLEU-4 | sacreBLEU | chrF | required |"
    assert header in markdown and all(
        re.search(rf"^\| {name} \| .* \| (PASS|FAIL) \|$", markdown, re.MULTILINE) for name in names
    )
    assert all(line in table for line in (f"{name}: FAIL  bleu_1" for name in names))
    assert Path("table.tex").read_text(encoding="utf-8").count("nrefs") == 3  # once below, not in a cell
