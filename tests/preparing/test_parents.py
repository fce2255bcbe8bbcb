"""The models that another began with, learned from or got pairs from, as its card tells of them."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.errors import RecipeError
from weft.files import sha256
from weft.folders.card import BEFORE, license_of, recorded_files
from weft.preparing.parents import parent_of
from weft.runs.augment import from_text


def recipe(**training: Any) -> dict[str, Any]:
    data = {"source": "zh", "target": "en", "train": ["other.tsv"], "valid": ["valid.tsv"]}
    return {"data": data, "training": {"steps": 1, "precision": "fp32", **training}}


@pytest.fixture
def parent(tiny_run: Path, tmp_path: Path) -> Path:
    """The model of tiny_run under a licence; other.tsv has other pairs than it has seen."""
    folder = tmp_path / "parent"
    folder.mkdir()
    for file in (tiny_run / "run").iterdir():
        if file.is_file() and file.name != "run.json":
            shutil.copy(file, folder / file.name)
    card = folder / "README.md"
    card.write_text(card.read_text().replace("license: unknown", "license: cc-by-2.0"))
    shutil.copy(tiny_run / "valid.tsv", tmp_path / "valid.tsv")
    (tmp_path / "other.tsv").write_text("zh\ten\n" + "".join(f"天{n}地\tsky {n} earth\n" for n in range(40)))
    return folder


def test_a_card_names_the_model_that_its_own_began_with_its_licence_and_what_that_had_seen(
    parent: Path, tmp_path: Path, tiny_run: Path
) -> None:
    run = weft.train(recipe(init=str(parent)), run=tmp_path / "run", data=tmp_path)
    card = (run / "README.md").read_text()
    assert recorded_files(card, "init") == {sha256(parent / "manifest.json"): str(parent)}
    assert recorded_files(card, BEFORE) == {sha256(tiny_run / "train.tsv"): "train.tsv"}
    assert f"- Its weights began as those of `{parent}`, license: cc-by-2.0." in card
    assert "The license of the weights follows from these files and models" in card
    assert "for 1 step on 40 pairs" in card


def test_what_a_model_of_thousands_of_files_has_seen_is_read_whole(parent: Path) -> None:
    card = parent / "README.md"
    row = next(line for line in card.read_text().splitlines() if line.startswith("| train | "))
    rows = [row.replace("train.tsv", f"{number}.tsv").replace(row[-67:-59], f"{number:08x}") for number in range(5000)]
    card.write_text(card.read_text().replace(row, "\n".join([*rows, row])))
    assert card.stat().st_size > 400_000 and len(set(parent_of("init", str(parent)).seen)) == 5001


def test_a_teacher_is_known_by_what_those_before_it_had_seen(parent: Path, tmp_path: Path, tiny_run: Path) -> None:
    child = weft.train(recipe(init=str(parent)), run=tmp_path / "child", data=tmp_path)
    grandchild = weft.train(recipe(init=str(child)), run=tmp_path / "grandchild", data=tmp_path)
    asked = recipe(teachers=[str(grandchild)])
    asked["data"]["valid"] = [str(tiny_run / "train.tsv")]
    with pytest.raises(RecipeError, match=r"was trained on .*train\.tsv, whose text is held out for validation"):
        weft.train(asked, run=tmp_path / "run", data=tmp_path)


def test_nothing_begins_with_a_model_that_knows_the_valid_files_nor_on_pairs_that_it_made(
    parent: Path, tmp_path: Path, tiny_run: Path
) -> None:
    (tmp_path / "mono.zh").write_text("我有一个苹果。\n你好。\n")
    from_text("self-training", parent, tmp_path / "mono.zh", tmp_path / "made.tsv", max_ratio=99)
    shutil.copy(tiny_run / "train.tsv", tmp_path / "renamed.tsv")
    asked = recipe(init=str(parent))
    asked["data"] |= {"train": ["other.tsv", "made.tsv"], "valid": ["valid.tsv", "renamed.tsv"]}
    with pytest.raises(RecipeError) as caught:
        weft.train(asked, run=tmp_path / "run", data=tmp_path)
    why = "was trained on renamed.tsv, whose text is held out for validation; take another model or other valid files"
    assert [(each.where, each.what) for each in caught.value.problems] == [
        (f"training.init = {parent}", why),
        (f"data.train, pairs made by {parent}", why),
    ]


def test_a_run_knows_the_model_that_it_began_with_also_when_that_is_gone(
    parent: Path, tmp_path: Path, tiny_run: Path
) -> None:
    digest = sha256(parent / "manifest.json")
    run = weft.train(recipe(init=str(parent)), run=tmp_path / "run", data=tmp_path)
    shutil.rmtree(parent)
    weft.train(recipe(init=str(parent)), run=run, data=tmp_path, overrides=["training.steps=2"])
    for folder in (run, run / "checkpoints" / "step-2"):
        card = (folder / "README.md").read_text()
        assert recorded_files(card, "init") == {digest: str(parent)}
        assert recorded_files(card, BEFORE) == {sha256(tiny_run / "train.tsv"): "train.tsv"}


def test_a_card_without_licence_is_said_to_have_none(parent: Path, tmp_path: Path) -> None:
    card = parent / "README.md"
    card.write_text(card.read_text().replace("license: cc-by-2.0", "license: unknown"))
    run = weft.train(recipe(init=str(parent)), run=tmp_path / "run", data=tmp_path)
    assert f"`{parent}`, whose card states no license." in (run / "README.md").read_text()


def test_a_card_names_the_models_that_made_pairs_as_long_as_these_are_what_was_made(
    parent: Path, tmp_path: Path, tiny_run: Path
) -> None:
    (tmp_path / "mono.zh").write_text("我有一个苹果。\n你好。\n")
    for name in ("one.tsv", "two.tsv", "edited.tsv"):
        from_text("self-training", parent, tmp_path / "mono.zh", tmp_path / name, max_ratio=99)
    with open(tmp_path / "edited.tsv", "a") as file:
        file.write("天\tsky\n")
    (tmp_path / "other.tsv.json").write_text('{"sha256": 1}')

    def card(*files: str) -> str:
        asked = {**recipe(epochs=1), "model": {"model_dim": 16, "num_heads": 2, "ff_dim": 16}}
        asked["data"]["train"] = list(files)
        return (weft.train(asked, run=tmp_path / f"run of {files[0]}", data=tmp_path) / "README.md").read_text()

    made = card("other.tsv", "one.tsv", "two.tsv")
    assert recorded_files(made, "maker") == {sha256(parent / "manifest.json"): str(parent)}
    assert recorded_files(made, BEFORE) == {sha256(tiny_run / "train.tsv"): "train.tsv"}
    assert made.count(f"- It was trained on pairs made by `{parent}`, license: cc-by-2.0.") == 1
    assert not recorded_files(card("edited.tsv", "other.tsv"), "maker")


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("---\nlicense: mit\n---\n", "mit"),
        ("---\nlanguage: [zh, en]\nlicense:   cc-by-2.0 \ntags: x\n---\n", "cc-by-2.0"),
        ("---\nlicense: unknown\n---\n", None),
        ("---\nlanguage: zh\n---\nlicense: mit\n", None),
        ("license: mit\n", None),
        ("", None),
    ],
)
def test_the_licence_of_a_card_stands_in_its_header(card: str, expected: str | None) -> None:
    assert license_of(card) == expected


def test_a_share_held_out_of_a_text_must_be_held_out_by_the_parent_too(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("the cat sat on a mat\na dog ate the cat\n" * 40, encoding="utf-8")

    def run(name: str, share: float, **training: str) -> Path:
        recipe = {
            "task": "language-model",
            "data": {"language": "en", "train": ["book.txt"], "valid_share": share},
            "training": {"epochs": 1, "precision": "fp32", **training},
        }
        small = {"model": {"model_dim": 16, "num_heads": 2, "num_layers": 1, "ff_dim": 16}}
        return weft.train(recipe if training else recipe | small, run=tmp_path / name, data=tmp_path)

    parent = str(run("parent", 0.1))
    run("less", 0.05, init=parent)
    with pytest.raises(RecipeError, match=r"was trained on .*book\.txt, whose text is held out for validation"):
        run("more", 0.2, init=parent)
