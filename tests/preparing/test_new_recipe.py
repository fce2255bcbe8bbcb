"""`weft new`: what files are is seen from them, and the recipe that is written trains as it stands."""

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Weft

from weft.config import leaves, read_recipe, resolve
from weft.errors import CorpusError, UsageError
from weft.folders.recipes import RECIPES
from weft.preparing.defaults import choose_open_settings
from weft.preparing.new_recipe import Asked, guessed_language, new_recipe

PAIRS = [(f"我有{n}个苹果。", f"I have {n} apples.") for n in range(60)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DATA", raising=False)
    return tmp_path


def write(path: str, *lines: str) -> Path:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Path(path)


def table(path: str, header: str = "zh\ten") -> Path:
    return write(path, *([header] if header else []), *("\t".join(pair) for pair in PAIRS))


def data_of(recipe: Path, task: str = "translation") -> dict[str, Any]:
    model: Any = RECIPES[task]
    found = read_recipe(recipe, model).recipe
    assert found.task == task
    return found.data.model_dump(exclude_defaults=True)


def test_a_folder_is_taken_by_the_names_of_its_files_and_trains_as_printed(
    weft: Weft, place: Path, tiny_run: Path
) -> None:
    (place / "mine").mkdir()
    for name in ("train.tsv", "valid.tsv"):
        shutil.copy(tiny_run / name, place / "mine" / name)
    write("mine/README.md", "Pairs.")
    code, out, error = weft("new", "mine")
    assert (code, out) == (0, "mine.toml\n"), error
    assert data_of(Path("mine.toml")) == {
        "source": "zh",
        "target": "en",
        "train": ("mine/train.tsv",),
        "valid": ("mine/valid.tsv",),
    }
    assert "42 pairs" in Path("mine.toml").read_text(encoding="utf-8")
    code, _, error = weft("train", "mine.toml", "--set", "training.steps=2")
    assert code == 0, error
    assert (place / "runs/mine/model.safetensors").is_file()


def test_what_is_written_is_what_weft_would_choose_by_itself(place: Path) -> None:
    table("train.tsv")
    table("valid.tsv")
    path, _ = new_recipe([Path("train.tsv"), Path("valid.tsv")], Path("x.toml"), asked())
    model: Any = RECIPES["translation"]
    given = read_recipe(path, model)
    data = {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]}
    chosen = choose_open_settings(resolve({"data": data}, model, "x"), len(PAIRS))
    assert {key: leaves(given.recipe)[key] for key in chosen} == chosen


def asked(source: str | None = None, target: str | None = None, **given: Any) -> Asked:
    from weft.cli.options import layout_of

    def layout(source: str, target: str, entries: Any) -> Any:
        return layout_of(source, target, given.get("columns"), given.get("header"), entries, "weft new")

    return Asked(source, target, layout)


def test_without_a_file_for_validation_pairs_are_held_out_beside_the_recipe(place: Path) -> None:
    before = table("all.tsv").read_bytes()
    path, draft = new_recipe([Path("all.tsv")], None, asked())
    assert path == Path("all.toml") and draft.made == [Path(f"all/{part}.tsv") for part in ("train", "valid", "test")]
    rows = [line for file in draft.made for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    assert sorted(rows) == sorted("\t".join(pair) for pair in PAIRS)
    assert data_of(path) == {"source": "zh", "target": "en", "train": ("all/train.tsv",), "valid": ("all/valid.tsv",)}
    assert Path("all.tsv").read_bytes() == before
    table("mine/train.tsv")
    test = write("mine/test.tsv", "zh\ten", "你好\tHello")
    _, draft = new_recipe([Path("mine")], None, asked())
    assert [file.name for file in draft.made] == ["train.tsv", "valid.tsv"]
    assert f"3 pairs were drawn for it; the last test is {test}. None of the drawn" in draft.about[0]


@pytest.mark.parametrize(
    ("files", "said", "expected"),
    [
        ({"train.zh": 0, "train.en": 1, "dev.zh": 0, "dev.en": 1}, {}, {"source": "zh", "target": "en"}),
        ({"train.tsv": "src\ttgt", "valid.tsv": "src\ttgt"}, {"source": "zh", "target": "en", "columns": "src,tgt"},
         {"columns": {"source": "src", "target": "tgt"}}),
        ({"train.tsv": "", "valid.tsv": ""}, {"source": "zh", "target": "en", "header": False}, {"header": False}),
        ({"train.tsv": "zh\ten", "valid.tsv": "zh\ten"}, {"source": "en", "target": "zh"},
         {"source": "en", "target": "zh"}),
        ({"train.tsv": "zh\ten", "valid.tsv": "zh\ten"}, {"source": "en"}, {"source": "en", "target": "zh"}),
        ({"train.zh": 0, "train.en": 1, "dev.zh": 0, "dev.en": 1}, {"target": "zh"}, {"source": "en", "target": "zh"}),
    ],
)  # fmt: skip
def test_pairs_in_these_files_are_read_so(
    files: dict[str, Any], said: dict[str, Any], expected: dict[str, Any], place: Path
) -> None:
    for name, kind in files.items():
        if isinstance(kind, str):
            table(name, kind)
        else:
            write(name, *(pair[kind] for pair in PAIRS))
    path, _ = new_recipe([place / name for name in files], Path("x.toml"), asked(**said))
    assert expected.items() <= data_of(path).items()


def test_a_column_is_no_language_for_having_three_letters_and_an_option_that_fits_nothing_is_refused(
    place: Path,
) -> None:
    with pytest.raises(CorpusError, match="which columns are a pair"):
        new_recipe([table("rows.tsv", "idx\ttext")], None, asked())
    with pytest.raises(CorpusError, match="is doc a language"):
        new_recipe([table("rows.tsv", "doc\ten")], None, asked())
    both = table("all.tsv")
    with pytest.raises(UsageError, match="--source de: the files hold zh and en"):
        new_recipe([both], None, asked(source="de"))
    with pytest.raises(UsageError, match=r"name it mine\.toml"):
        new_recipe([both], Path("mine"), asked())
    assert not Path("mine").exists()


def test_pairs_that_are_in_no_part_are_told(place: Path) -> None:
    Path("all").mkdir()
    all_of_them = table("all.tsv")
    with open(all_of_them, "a", encoding="utf-8") as file:
        file.write("好\t\n")
    _, draft = new_recipe([all_of_them], None, asked())
    assert draft.made[0].parent == Path("all-split") and draft.about[-1] == "In no part: 1 pairs with an empty side."


def test_a_plain_text_is_for_a_language_model(weft: Weft, place: Path) -> None:
    write(
        "book.txt",
        *(line for n in range(1000) for line in (f"The {n}th cup that I have seen is", "full of green tea.", "")),
    )
    path, _ = new_recipe([Path("book.txt")], None, asked())
    expected = {"language": "en", "train": ("book.txt",), "valid_share": 0.05, "running": True}
    assert data_of(path, "language-model") == expected
    code, _, error = weft("train", str(path), "--set", "training.steps=2")
    assert code == 0, error
    sentences = write("news.zh", *(zh for zh, _ in PAIRS))
    path, _ = new_recipe([sentences], None, asked())
    assert data_of(path, "language-model") == {"language": "zh", "train": ("news.zh",), "valid_share": 0.05}
    (place / "one.tsv.gz").write_bytes(gzip.compress(b"id\ten\n1\tone cup\n2\ttwo cups\n"))
    path, _ = new_recipe([Path("one.tsv.gz")], None, asked())
    assert data_of(path, "language-model")["column"] == "en"


def test_a_text_of_one_line_without_a_file_for_validation_is_refused(place: Path) -> None:
    text = write("text.txt", "one line " * 9, "")
    with pytest.raises(CorpusError, match="the text has 1 line; break it"):
        new_recipe([text], None, asked())
    new_recipe([text, write("valid.txt", "another line")], Path("x.toml"), asked())
    with pytest.raises(CorpusError, match="holds no text"):
        new_recipe([write("blank.txt", "", "")], None, asked())
    assert not Path("text.toml").exists()


def test_texts_in_two_languages_are_no_language_model_unless_one_is_asked_for(place: Path) -> None:
    files = [write("train.zh", *(zh for zh, _ in PAIRS)), write("valid.en", *(en for _, en in PAIRS))]
    with pytest.raises(CorpusError, match=r"valid\.en  is in en, the training data in zh; for a translator"):
        new_recipe(files, None, asked())
    path, _ = new_recipe(files, Path("x.toml"), asked(source="zh"))
    assert data_of(path, "language-model")["language"] == "zh"


def test_the_language_of_a_text_is_guessed_from_its_script() -> None:
    assert guessed_language([zh for zh, _ in PAIRS]) == "zh"
    assert guessed_language([en for _, en in PAIRS]) == "en"
    assert guessed_language(["今日は天気がいいですね。", "私は東京大学の学生です。"]) == "ja"


def test_a_region_at_the_end_of_a_name_makes_it_no_longer(place: Path) -> None:
    for part in ("train", "valid"):
        for language, words in (("pt-BR", "olá"), ("en", "hello")):
            write(f"data/{part}.{language}", *(f"{words} {number}" for number in range(len(PAIRS))))
    path, _ = new_recipe([Path("data")], None, asked())
    data = data_of(path)
    assert {data["source"], data["target"]} == {"pt-br", "en"} and len(data["train"]) == len(data["valid"]) == 1


def test_of_two_regions_of_one_language_the_one_that_is_asked_for_is_the_source(place: Path) -> None:
    both = table("both.tsv", "zh-CN\tzh-TW")
    for number, (said, source) in enumerate(
        [({"source": "zh-TW"}, "zh-TW"), ({"source": "zh_cn"}, "zh-CN"), ({"target": "zh-CN"}, "zh-TW")]
    ):
        path, _ = new_recipe([both], Path(f"{number}.toml"), asked(**said))
        assert data_of(path)["source"] == source


def test_of_a_folder_files_are_left_out_whose_names_only_add_words_to_another(place: Path) -> None:
    for name in ("birth_train.tsv", "birth_dev.tsv", "birth_train.attribution.tsv", "train-ted-talks-2.tsv"):
        table(f"data/{name}")
    write("data/wiki.txt", "a text")
    write("data/birth_train.raw.jsonl", "{}")
    path, draft = new_recipe([Path("data")], None, asked())
    assert data_of(path)["train"] == ("data/birth_train.tsv", "data/train-ted-talks-2.tsv")
    assert data_of(path)["valid"] == ("data/birth_dev.tsv",)
    (said,) = draft.about
    assert said.startswith(
        "Not used: birth_train.attribution.tsv, birth_train.raw.jsonl, wiki.txt. Of a folder, files called train"
    )


def test_all_that_cannot_be_trained_on_is_told_at_once_and_nothing_is_written(place: Path) -> None:
    table("train.tsv", "id\ttext")
    for name, content in {
        "train.png": b"\x89PNG",
        "valid.conllu": b"1\tone\n",
        "train.toml": b'task = "translation"\n',
        "test.tsv": b"ELF\x02\x01\0\0\0\n",
    }.items():
        (place / name).write_bytes(content)
    names = ["train.tsv", "train.png", "valid.conllu", "train.toml", "test.tsv", "train-2.tsv"]
    before = sorted(place.iterdir())
    with pytest.raises(CorpusError) as found:
        new_recipe([Path(name) for name in names], None, asked())
    assert {problem.where for problem in found.value.problems} == set(names)
    assert sorted(place.iterdir()) == before


def test_a_table_that_is_called_a_text_is_not_taken_for_a_language_model(place: Path) -> None:
    write("pairs.txt", "zh\ten", "你好\tHello")
    with pytest.raises(
        CorpusError, match=r"has a tab in every line, as a table has; give it a name that ends with \.tsv"
    ):
        new_recipe([Path("pairs.txt")], None, asked())


def test_commands_to_go_on_with_can_be_pasted(place: Path) -> None:
    table("国标 语料.tsv")
    path, _ = new_recipe([Path("国标 语料.tsv")], None, asked())
    assert "weft plan '国标 语料.toml' tells" in path.read_text(encoding="utf-8")


def test_a_wrong_line_of_any_file_is_told(place: Path) -> None:
    write("train.tsv", "zh\ten", "一\tone\ttoo many")
    write("valid.tsv", "zh\ten", "二")
    with pytest.raises(CorpusError) as found:
        new_recipe([Path("train.tsv"), Path("valid.tsv")], None, asked())
    assert [problem.where for problem in found.value.problems] == ["train.tsv: line 2", "valid.tsv: line 2"]


def test_an_empty_side_is_dropped_and_told(place: Path) -> None:
    write("train.tsv", "zh\ten", "一\tone", "二\t")
    write("valid.tsv", "zh\ten", "三\tthree")
    path, draft = new_recipe([Path("train.tsv"), Path("valid.tsv")], None, asked())
    assert data_of(path)["empty_sides"] == "drop"
    assert draft.notes["empty_sides"] == "1 pairs have an empty side"


def test_no_file_is_overwritten(place: Path) -> None:
    table("all.tsv")
    write("all.toml", "mine")
    with pytest.raises(UsageError, match=r"all\.toml exists already"):
        new_recipe([Path("all.tsv")], None, asked())
    write("x/kept.txt")
    write("x-split/kept.txt")
    with pytest.raises(UsageError, match="x-split exists already"):
        new_recipe([Path("all.tsv")], Path("x.toml"), asked())
    assert not Path("x.toml").exists() and Path("all.toml").read_text(encoding="utf-8") == "mine\n"


def test_paths_are_those_that_training_looks_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table("data/train.tsv")
    table("data/valid.tsv")
    Path("recipes").mkdir()
    path, _ = new_recipe([Path("data")], Path("recipes/a.toml"), asked())
    assert data_of(path)["train"] == ("../data/train.tsv",)
    monkeypatch.setenv("WEFT_DATA", str(place / "data"))
    path, _ = new_recipe([Path("data")], Path("recipes/b.toml"), asked())
    assert data_of(path)["train"] == ("train.tsv",)
