"""What a recipe may say, how its problems are told, and that it survives being written and read."""

import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError, field_validator

from weft.config import (
    Difference,
    FieldProblem,
    Resolved,
    Settings,
    changed,
    choose_recipe_model,
    differences,
    explain,
    from_defaults,
    json_schema,
    parse_rendered,
    read_recipe,
    render,
    resolve,
)
from weft.config.recipe import parse_toml
from weft.config.toml import line_numbers, statements, write_value
from weft.errors import RecipeError, UsageError


class Corpus(Settings):
    """One corpus among several."""

    path: str
    """Where it is."""
    weight: float = Field(default=1.0, gt=0)
    """How often it is drawn from."""
    tag: str | None = None


class Data(Settings):
    """Which text is learned from."""

    source: str
    """Language of the source."""
    train: tuple[str | Corpus, ...]
    """What is learned from."""
    columns: dict[str, str | tuple[str, ...]] = Field(default_factory=dict)


class Model(Settings):
    """The shape of the model."""

    model_dim: int = Field(default=512, gt=0, multiple_of=4)
    num_heads: int = Field(default=8, gt=0)
    """Attention heads a layer;
    must divide model_dim."""
    activation: Literal["relu", "gelu", "silu"] = "relu"
    dropout: float = Field(default=0.1, ge=0, lt=1)
    max_positions: int | None = None

    def misfits(self) -> Iterator[FieldProblem]:
        if self.model_dim % self.num_heads:
            yield FieldProblem("num_heads", f"must divide model_dim = {self.model_dim}; try 4 or 8")


class Averaging(Settings):
    last: int = 5


class Training(Settings):
    learning_rate: float = Field(default=1e-3, gt=0)
    warmup: float | int = 0.08
    threads: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    betas: tuple[float, float] = (0.9, 0.98)
    save: bool = True
    every: str = "1 epoch"
    averaging: Averaging | None = None

    @field_validator("every")
    @classmethod
    def _has_a_unit(cls, every: str) -> str:
        if " " not in every:
            raise ValueError("needs a unit, such as 200 steps")
        return every

    def misfits(self) -> Iterator[FieldProblem]:
        yield from (FieldProblem(f"betas.{place}", "must be below 1") for place in (0, 1) if self.betas[place] >= 1)


class Recipe(Settings):
    """A whole recipe."""

    task: str = "translation"
    seed: int = 1
    data: Data
    model: Model = Model()
    training: Training = Training()

    def misfits(self) -> Iterator[FieldProblem]:
        if self.model.model_dim < 8 and self.training.learning_rate < 1e-6:
            yield FieldProblem("training.learning_rate", "is too small for this model")
        if self.seed == 13:
            raise ValueError("is unlucky\nbrings bad luck")


DATA = '[data]\nsource = "zh"\ntrain = ["train.tsv"]\n'


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str | bytes, *overrides: str) -> Resolved[Recipe]:
        path = tmp_path / "r.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_recipe(path, Recipe, overrides)

    return read


@pytest.fixture
def problems(read):
    """All that is wrong with a recipe, as [(where, what)]."""

    def problems(text: str | bytes, *overrides: str) -> list[tuple[str, str]]:
        with pytest.raises(RecipeError) as caught:
            read(text, *overrides)
        return [(problem.where, problem.what) for problem in caught.value.problems]

    return problems


# What a file says


def test_values_come_from_the_file_the_command_line_and_the_defaults_and_it_is_remembered(read):
    resolved = read(DATA + "[model]\nnum_heads = 4\ndropout = 0.3\n", "model.dropout=0.2", "seed=7")
    assert (resolved.recipe.model.num_heads, resolved.recipe.model.dropout, resolved.recipe.seed) == (4, 0.2, 7)
    origins = resolved.origins
    assert origins["model.num_heads"] == origins["data.train"] == "recipe"
    assert origins["model.dropout"] == origins["seed"] == "command line"
    assert origins["model.model_dim"] == origins["training.averaging"] == "default"
    assert "model" not in origins


def test_the_example_of_the_style_guide_comes_out_so(read):
    with pytest.raises(RecipeError) as caught:
        read(DATA + "[model]\nnum_heads = 6\n[training]\nlearning_rat = 1e-3\n")
    assert str(caught.value).partition(" has ")[2] == (
        "2 problems\n"
        "  model.num_heads = 6 (line 5)            must divide model_dim = 512; try 4 or 8\n"
        "  training.learning_rat = 0.001 (line 7)  unknown key; did you mean `learning_rate`?"
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("table", "line", "what"),
    [
        ("model", 'num_heads = "six"', "expected a whole number, found the text 'six'"),
        ("model", "num_heads = true", "expected a whole number, found true"),
        ("model", "num_heads = 8.0", "expected a whole number, found 8.0"),
        ("model", "num_heads = -3", "must be greater than 0, found -3"),
        ("model", "num_heads = 2024-01-01", "expected a whole number, found the date 2024-01-01"),
        ("model", "model_dim = 6", "must be a multiple of 4, found 6"),
        ("model", "dropout = 1", "must be less than 1, found 1"),
        ("model", "dropout = nan", "must be less than 1, found nan"),
        ("model", 'activation = "rleu"', "expected one of relu, gelu, silu; did you mean `relu`?"),
        ("model", 'activation = "tanh"', "expected one of relu, gelu, silu, found the text 'tanh'"),
        ("model", "activation = 3", "expected one of relu, gelu, silu, found 3"),
        ("model", "learning_rate = 3", "unknown key here; belongs in [training]"),
        ("model", "seed = 3", "unknown key here; belongs above the first table"),
        ("model", "learning_rte = 3", "unknown key; did you mean `training.learning_rate`?"),
        ("model", "lr = 3", "unknown key; did you mean `training.learning_rate`?"),
        ("model", "nhead = 3", "unknown key; did you mean `num_heads`?"),
        ("model", "x = 3", "unknown key; known here: model_dim, num_heads, activation, dropout, max_positions"),
        ("training", "threads = 0", "must be at least 1, found 0"),
        ("training", 'threads = "aut"', "expected auto or a whole number that is at least 1; did you mean `auto`?"),
        ("training", "threads = [1]", "expected auto or a whole number that is at least 1, found a list"),
        ("training", "warmup = nan", "must not be nan"),
        ("training", 'warmup = "x"', "expected a number, found the text 'x'"),
        ("training", "save = 1", "expected true or false, found 1"),
        ("training", 'every = "200"', "needs a unit, such as 200 steps"),
        ("training", "averaging = 3", "expected a table, found 3"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(problems, table, line, what):
    assert problems(DATA + f"[{table}]\n{line}\n") == [(f"{table}.{line} (line 5)", what)]


def test_problems_inside_lists_and_tables_are_named_at_their_place(problems):
    text = """[data]
source = "zh"
train = [
  "a.tsv",
  { pth = "b.tsv" },
  { path = "c.tsv", weight = 0 },
  3,
]
columns = { source = 1, target = ["en", 2] }
[training]
betas = [0.9]
"""
    assert problems(text) == [
        ('data.train[1].pth = "b.tsv" (line 3)', "unknown key; did you mean `path`?"),
        ("data.train[2].weight = 0 (line 3)", "must be greater than 0, found 0"),
        ("data.train[3] = 3 (line 3)", "expected text or a table, found 3"),
        ("data.columns.source = 1 (line 9)", "expected text or a list, each entry text, found 1"),
        ("data.columns.target[1] = 2 (line 9)", "expected text, found 2"),
        ("training.betas[1]", "missing; expected a number"),
    ]


def test_a_strange_key_is_quoted_so_that_it_stays_on_its_line(problems):
    assert problems(DATA + 'columns = { "a\\nb" = 1 }\n"\\u001b[31m" = 1\n') == [
        (r'data.columns."a\nb" = 1 (line 4)', "expected text or a list, each entry text, found 1"),
        (r'data."\u001b[31m" = 1 (line 5)', "unknown key; known here: source, train, columns"),
    ]


def test_what_is_missing_is_named_even_if_its_whole_table_is_missing(problems):
    assert problems("seed = 1\n") == [
        ("data.source", "missing; expected text"),
        ("data.train", "missing; expected a list, each entry text or a table"),
    ]


def test_a_key_under_a_wrong_name_is_not_missing_as_well(problems):
    assert [where for where, _ in problems('[dta]\nsource = "zh"\n')] == ["dta (line 1)"]
    assert problems('[data]\nsource = "zh"\n[model]\ntrain = ["a"]\n') == [
        ('model.train = ["a"] (line 4)', "unknown key here; belongs in [data]")
    ]


def test_the_member_of_a_union_that_a_table_was_meant_for_is_the_one_reported():
    class Plain(Settings):
        kind: Literal["plain"] = "plain"
        size: int = 1

    class Deep(Settings):
        kind: Literal["deep"]
        layers: int = Field(default=1, gt=0)

    class Union(Settings):
        model: Plain | Deep = Plain()
        parts: tuple[Annotated[Plain | Deep, Field(discriminator="kind")], ...] = ()

    wrong = {"kind": "deep", "layers": 0}
    with pytest.raises(RecipeError) as caught:
        resolve({"model": wrong, "parts": [{"kind": "plain"}, wrong]}, Union, "x")
    assert [(problem.where, problem.what) for problem in caught.value.problems] == [
        ("model.layers = 0", "must be greater than 0, found 0"),
        ("parts[1].layers = 0", "must be greater than 0, found 0"),
    ]


def test_problems_between_fields_are_named_at_a_field(problems):
    assert problems(DATA + "[training]\nbetas = [1.5, 2]\n") == [
        ("training.betas[0] = 1.5 (line 5)", "must be below 1"),
        ("training.betas[1] = 2 (line 5)", "must be below 1"),
    ]
    assert problems(DATA + "[model]\nmodel_dim = 12\n") == [
        ("model.num_heads = 8 (default)", "must divide model_dim = 12; try 4 or 8")
    ]
    assert problems(DATA + "[model]\nmodel_dim = 4\nnum_heads = 4\n[training]\nlearning_rate = 1e-7\n") == [
        ("training.learning_rate = 1e-07 (line 8)", "is too small for this model")
    ]
    assert problems("seed = 13\n" + DATA) == [
        ("the recipe", "is unlucky"),
        ("the recipe", "brings bad luck"),
    ]


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (b"seed = \n", "line 1, column 8", "Invalid value"),
        (b"seed = 1\nseed = 2\n", "line 2, column 9", "Cannot overwrite a value"),
        (b'task = "x', "end of document", "Unterminated string"),
        (b"seed = 1\ntask = '\xff'\n", "line 2", "is not UTF-8; save the file in that encoding"),
        (b"#" * (2**20 + 1), "the file", "is larger than 1 MiB, so it is probably not a recipe"),
        (b"x = " + b"[" * 5000, "the file", "tables or lists are nested too deeply"),
        (b".".join([b"x"] * 5000) + b" = 1", "the file", "tables or lists are nested too deeply"),
    ],
)
def test_a_file_that_is_no_toml_is_refused_with_the_place(problems, content, where, what):
    assert problems(content) == [(where, what)]


def test_a_number_with_thousands_of_digits_is_refused(problems):
    ((where, what),) = problems("seed = " + "9" * 5000)
    assert where == "the file" and "digits" in what


def test_a_file_that_is_not_there_is_a_usage_error_with_the_near_match(tmp_path):
    (tmp_path / "zh-en.toml").touch()
    with pytest.raises(UsageError, match=r"there is no recipe .*zh-en.tml; did you mean .*zh-en.toml\?"):
        read_recipe(tmp_path / "zh-en.tml", Recipe)
    with pytest.raises(UsageError, match="there is no recipe"):
        read_recipe(tmp_path / "no" / "such.toml", Recipe)
    with pytest.raises(UsageError, match="is a folder; a recipe is a TOML file"):
        read_recipe(tmp_path, Recipe)
    with pytest.raises(UsageError, match="cannot read the recipe"):
        read_recipe("\0", Recipe)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(read):
    assert read(b"\xef\xbb\xbf" + DATA.replace("\n", "\r\n").encode()).recipe.data.source == "zh"


# --set


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("model.num_heads=4", "num_heads", 4),
        ("model.num_heads = 4", "num_heads", 4),
        ("model.activation=gelu", "activation", "gelu"),
        ('model.activation="gelu"', "activation", "gelu"),
        ("model={ num_heads = 4 }", "num_heads", 4),
        ("model.max_positions=99", "max_positions", 99),
    ],
)
def test_an_override_is_a_toml_value_or_a_bare_word(read, override, key, value):
    resolved = read(DATA, override)
    assert getattr(resolved.recipe.model, key) == value
    assert resolved.origins[f"model.{key}"] == "command line"


def test_an_override_may_hold_spaces_equal_signs_and_lists(read):
    resolved = read(DATA, "training.every=200 steps", "data.source=a=b", 'data.train=["x", { path = "y" }]')
    assert resolved.recipe.training.every == "200 steps"
    assert resolved.recipe.data.source == "a=b"
    assert resolved.recipe.data.train == ("x", Corpus(path="y"))


def test_an_override_inside_a_table_keeps_the_rest_of_the_table(read):
    resolved = read(DATA + 'columns = { source = "a", target = "b" }\n', "data.columns.target=c")
    assert resolved.recipe.data.columns == {"source": "a", "target": "c"}
    assert resolved.origins["data.columns"] == "command line"


def test_the_last_override_of_a_key_counts(read):
    assert read(DATA, "seed=2", "seed=3").recipe.seed == 3


def test_problems_of_overrides_name_the_override_and_come_with_those_of_the_file(problems):
    overrides = [
        "model.num_heads=6",
        "training.wormup=1",
        "modl.x=1",
        "seed.x=1",
        "data.train=[",
        "seed",
        "=1",
        "a..b=1",
    ]
    assert problems("seed = 3\n" + DATA + "[training]\nsave = 3\n", *overrides) == [
        ("--set data.train=[", "the value is not valid TOML: Invalid value (at end of document)"),
        ("--set seed", "expected KEY=VALUE, such as training.epochs=30"),
        ("--set =1", "expected KEY=VALUE, such as training.epochs=30"),
        ("--set a..b=1", "expected KEY=VALUE, such as training.epochs=30"),
        ("--set seed.x=1", "`seed` is 3, not a table; set the whole key"),
        ("--set model.num_heads=6", "must divide model_dim = 512; try 4 or 8"),
        ("training.save = 3 (line 6)", "expected true or false, found 3"),
        ("--set training.wormup=1", "unknown key; did you mean `warmup`?"),
        ("--set modl.x=1", "unknown key; did you mean `model`?"),
    ]


def test_an_override_of_a_key_with_thousands_of_parts_is_one_problem(problems):
    override = "a." * 3000 + "b=1"
    assert problems(DATA, override) == [(f"--set {override}", "expected KEY=VALUE, such as training.epochs=30")]


# A dict in place of a file


def test_a_dict_is_checked_like_a_file():
    document = {"data": {"source": "zh", "train": ["a.tsv"]}, "model": {"num_heads": 6}}
    with pytest.raises(RecipeError, match=r"the argument has 1 problem\n  model\.num_heads = 6  must divide"):
        resolve(document, Recipe, "the argument")
    assert resolve(document, Recipe, "the argument", ["model.num_heads=4"]).recipe.model.num_heads == 4


def test_a_dict_may_hold_ready_settings():
    resolved = resolve(
        {"data": Data(source="zh", train=("a",)), "model": Model(num_heads=4)}, Recipe, "x", origin="corpus"
    )
    assert resolved.origins["model.dropout"] == "corpus"
    assert resolved.origins["training.save"] == "default"


def test_a_dict_may_hold_paths_for_text_and_whole_numbers_of_numpy():
    document = {"seed": np.int64(3), "data": {"source": "zh", "train": [Path("a/b.tsv"), {"path": Path("c.tsv")}]}}
    recipe = resolve(document, Recipe, "x").recipe
    assert recipe.seed == 3 and type(recipe.seed) is int
    assert recipe.data.train == (str(Path("a/b.tsv")), Corpus(path="c.tsv"))


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([3], [("some[0] = 3", "expected text or a table, found 3")]),
        ([{"path": "a", "weigth": 2}], [("some[0].weigth = 2", "unknown key; did you mean `weight`?")]),
        ([], [("some = []", "must have a length of at least 1, found 0")]),
    ],
)
def test_a_list_is_not_too_short_because_an_entry_is_wrong(entries, found):
    class Some(Settings):
        some: tuple[str | Corpus, ...] = Field(min_length=1)

    with pytest.raises(RecipeError) as caught:
        resolve({"some": entries}, Some, "x")
    assert [(problem.where, problem.what) for problem in caught.value.problems] == found


def test_settings_are_frozen_strict_and_take_a_list_for_a_tuple():
    assert Training.model_validate({"betas": [1 / 2, 0]}).betas == (0.5, 0.0)
    with pytest.raises(ValidationError, match="frozen"):
        Training().save = False  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValidationError):
        Training.model_validate({"learning_rate": "0.1"})


# Values that a run finds out


def test_changed_values_are_checked_and_have_the_new_origin(read):
    resolved = read(DATA)
    measured = changed(resolved, {"training.threads": 2, "training.averaging.last": 3, "seed": 2}, "measured")
    assert (measured.recipe.training.threads, measured.recipe.seed) == (2, 2)
    assert measured.recipe.training.averaging == Averaging(last=3)
    assert measured.origins["training.threads"] == measured.origins["training.averaging.last"] == "measured"
    assert measured.origins["data.source"] == "recipe" and measured.origins["training.save"] == "default"
    assert resolved.origins["training.threads"] == "default"
    with pytest.raises(RecipeError, match=r"with its measured values has 1 problem\n  training.threads = 0"):
        changed(resolved, {"training.threads": 0}, "measured")
    with pytest.raises(RecipeError, match="did you mean `threads`"):
        changed(resolved, {"training.thread": 1}, "measured")
    with pytest.raises(RecipeError, match="not a table"):
        changed(resolved, {"training.threads.x": 1}, "measured")


def test_a_changed_or_dropped_value_of_the_recipe_is_a_difference(read):
    run = read(DATA, "seed=2", "training.averaging.last=3")
    assert differences(run, read(DATA)) == [
        Difference("seed", 2, 1),
        Difference("training.averaging.last", 3, None),
    ]
    assert differences(run, run) == []


def test_what_a_recipe_sets_to_its_default_does_not_differ_from_the_defaults(read):
    assert from_defaults(read(DATA, "model.num_heads=8", "model.model_dim=256").recipe) == [
        Difference("data.source", None, "zh"),
        Difference("data.train", None, ("train.tsv",)),
        Difference("model.model_dim", 512, 256),
    ]


# Writing and reading back


def test_a_recipe_is_rendered_with_the_origin_of_every_value(read):
    assert render(read(DATA + "[model]\nnum_heads = 4\n", "seed=2")) == (
        'task = "translation"  # default\n'
        "seed = 2  # command line\n"
        "\n"
        "[data]\n"
        'source = "zh"  # recipe\n'
        'train = ["train.tsv"]  # recipe\n'
        "columns = {}  # default\n"
        "\n"
        "[model]\n"
        "model_dim = 512  # default\n"
        "num_heads = 4  # recipe\n"
        'activation = "relu"  # default\n'
        "dropout = 0.1  # default\n"
        "# max_positions is left out  # default\n"
        "\n"
        "[training]\n"
        "learning_rate = 0.001  # default\n"
        "warmup = 0.08  # default\n"
        'threads = "auto"  # default\n'
        "betas = [0.9, 0.98]  # default\n"
        "save = true  # default\n"
        'every = "1 epoch"  # default\n'
        "# averaging is left out  # default\n"
    )


texts = st.text() | st.sampled_from(["#", "a  # default", '"#', "你好。", "'''", "\\", "\r\n", "\x7f", "\u2028", ""])
files = texts | st.builds(Corpus, path=texts, weight=st.floats(min_value=1e-300), tag=st.none() | texts)


@st.composite
def resolved_recipes(draw: st.DrawFn) -> Resolved[Recipe]:
    recipe = Recipe(
        task=draw(texts),
        seed=draw(st.integers().filter(lambda seed: seed != 13)),
        data=Data(
            source=draw(texts),
            train=tuple(draw(st.lists(files, max_size=3))),
            columns=draw(st.dictionaries(texts, texts | st.lists(texts, max_size=2).map(tuple), max_size=3)),
        ),
        model=Model(dropout=draw(st.floats(0, 0.99)), max_positions=draw(st.none() | st.integers())),
        training=Training(
            learning_rate=draw(st.floats(min_value=1e-5)),
            warmup=draw(st.integers() | st.floats(allow_nan=False)),
            averaging=draw(st.none() | st.builds(Averaging, last=st.integers())),
        ),
    )
    origins = st.sampled_from(["recipe", "command line", "default", "corpus", "measured", "language"])
    keys = resolve({"data": recipe.data, **dict(recipe)}, Recipe, "x").origins
    return Resolved(recipe, {key: draw(origins) for key in keys})


@settings(max_examples=60)
@given(resolved_recipes())
def test_what_is_rendered_reads_back_with_the_same_values_and_origins(resolved):
    text = render(resolved)
    again = parse_rendered(text, Recipe, "x")
    assert again == resolved
    assert type(again.recipe.training.warmup) is type(resolved.recipe.training.warmup)
    assert render(again) == text
    assert resolve(tomllib.loads(text), Recipe, "x").recipe == resolved.recipe


def test_none_in_place_of_a_default_reads_back_as_none():
    class Table(Settings):
        size: int | None = 3

    resolved = changed(resolve({}, Table, "x"), {"size": None}, "measured")
    assert parse_rendered(render(resolved), Table, "x") == resolved


def test_a_value_that_a_person_added_without_a_comment_comes_from_the_recipe(read):
    text = render(read(DATA)).replace("seed = 1  # default", "seed = 5")
    assert parse_rendered(text, Recipe, "x").origins["seed"] == "recipe"


def test_a_table_that_a_person_added_beside_the_line_that_leaves_it_out_counts(read):
    text = render(read(DATA)) + "[training.averaging]\nlast = 2\n"
    assert parse_rendered(text, Recipe, "x").recipe.training.averaging == Averaging(last=2)


def test_what_one_machine_has_measured_is_no_wish_for_another(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        DATA + "[training]\nthreads = 2  # measured\nlearning_rate = 2.0  # measured\nsave = false # measured once\n"
    )
    keys = {"training.threads", "training.save", "training.every"}
    again = read_recipe(path, Recipe, of_the_machine=keys)
    assert (again.recipe.training.threads, again.origins["training.threads"]) == ("auto", "default")
    assert again.recipe.training.learning_rate == 2.0 and not again.recipe.training.save
    assert read_recipe(path, Recipe).recipe.training.threads == 2
    given = read_recipe(path, Recipe, ["training.threads=3"], of_the_machine=keys)
    assert given.origins["training.threads"] == "command line"


def test_a_retired_key_is_dropped_from_what_weft_has_written_and_refused_from_a_person(tmp_path):
    class Trimmed(Training):
        RETIRED: ClassVar = {"parallel": "remove it"}

    class Trimmer(Settings):
        data: Data
        training: Trimmed = Trimmed()

    older = DATA + '[training]\nparallel = "ddp"  # default\nsave = false  # recipe\n'
    (tmp_path / "config.toml").write_text(older)
    for again in (parse_rendered(older, Trimmer, "x"), read_recipe(tmp_path / "config.toml", Trimmer)):
        assert not again.recipe.training.save and "training.parallel" not in again.origins
    asked = older.replace("# default", "# recipe")
    assert parse_rendered(asked, Trimmer, "x").recipe == again.recipe
    (tmp_path / "config.toml").write_text(asked)
    with pytest.raises(RecipeError, match=r'training.parallel = "ddp" \(line \d+\) +is no longer a key; remove it'):
        read_recipe(tmp_path / "config.toml", Trimmer)


def test_a_rendered_recipe_that_was_damaged_is_refused_like_any_other():
    with pytest.raises(RecipeError, match="line 1"):
        parse_rendered("seed = \n", Recipe, "config.toml")
    with pytest.raises(RecipeError, match=r"seed = \"x\" \(line 1\)"):
        parse_rendered('seed = "x"  # recipe\n' + DATA, Recipe, "config.toml")


values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_a_written_value_reads_back_the_same_on_one_line(value):
    written = write_value(value)
    assert "\n" not in written
    assert tomllib.loads(f"value = {written}")["value"] == value


def test_infinity_and_nan_are_written_as_toml_has_them():
    assert [write_value(value) for value in (math.inf, -math.inf, math.nan)] == ["inf", "-inf", "nan"]


# Where a key stands in a text


def test_every_key_is_found_on_the_line_where_its_statement_begins():
    text = """# a comment with [brackets]
a.b = 1
"quoted # key" = '''
[not a table]
x = 1
'''
[t]  # a comment
x = [
  1,  # "x = 2"

  { y = 3 },
]
[t.u]
z = "[w]"
[[l]]
k = 1

[[l]]
k = 2
[l.m]
n = 1
"""
    assert line_numbers(text) == {
        ("a",): 2,
        ("a", "b"): 2,
        ("quoted # key",): 3,
        ("t",): 7,
        ("t", "x"): 8,
        ("t", "u"): 13,
        ("t", "u", "z"): 14,
        ("l",): 15,
        ("l", 0): 15,
        ("l", 0, "k"): 16,
        ("l", 1): 18,
        ("l", 1, "k"): 19,
        ("l", 1, "m"): 20,
        ("l", 1, "m", "n"): 21,
    }


def test_only_what_follows_a_value_is_a_comment():
    lines = ['a = "x # y"', "a = '#' # z", "a = 1", "# only", "a = '''\n# no\n'''  # yes", "[t]  # head"]
    assert [statements(line)[0].comment for line in lines] == ["", "z", "", "only", "yes", "head"]


def test_the_search_for_lines_gives_up_on_an_endless_statement_rather_than_take_forever():
    text = "a = 1\nb = [\n" + "1,\n" * 5000 + "]\nc = 1\n"
    assert line_numbers(text) == {("a",): 1}


# Which model, and what the keys mean


def test_the_task_chooses_the_model_and_an_override_chooses_the_task(tmp_path):
    models: dict[str, type[Settings]] = {"translation": Recipe, "tagging": Model}
    path = tmp_path / "r.toml"
    path.write_text('task = "tagging"\n')
    assert choose_recipe_model({}, models) is Recipe
    assert choose_recipe_model(path, models) is Model
    assert choose_recipe_model(path, models, ["task=translation"]) is Recipe
    assert _choice_problem({"task": "taging"}, models) == (
        'the recipe has 1 problem\n  task = "taging"  expected one of translation, tagging; did you mean `tagging`?'
    )
    assert _choice_problem({"task": 3}, models).endswith("task = 3  expected one of translation, tagging; found 3")
    assert "--set task=x  expected one of" in _choice_problem({}, models, ["task=x"])


def _choice_problem(document: dict[str, Any], models: dict[str, type[Settings]], overrides: Sequence[str] = ()) -> str:
    with pytest.raises(RecipeError) as caught:
        choose_recipe_model(document, models, overrides)
    return str(caught.value)


def test_a_key_is_explained_by_its_docstring_type_bounds_and_default():
    assert explain(Recipe, "model.num_heads") == (
        "model.num_heads\n"
        "  Attention heads a layer;\n"
        "  must divide model_dim.\n"
        "\n"
        "  type     a whole number\n"
        "  bounds   greater than 0\n"
        "  default  8"
    )
    assert "type     auto or a whole number that is at least 1" in explain(Recipe, "training.threads")
    assert "default  not set" in explain(Recipe, "model.max_positions")
    assert "default  none (required)" in explain(Recipe, "data.source")


def test_a_table_is_explained_by_its_keys():
    assert explain(Recipe, "data") == (
        "data\n"
        "  Which text is learned from.\n"
        "\n"
        "  type  a table\n"
        "\n"
        "  source   Language of the source. (default: none (required))\n"
        "  train    What is learned from. (default: none (required))\n"
        "  columns  a table (default: {})"
    )
    assert "weight  How often it is drawn from. (default: 1.0)" in explain(Recipe, "data.train")
    assert explain(Recipe).startswith("A whole recipe.\n\n  task ")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("num_heads", "`model.num_heads`"),
        ("model.num_head", "`model.num_heads`"),
        ("model.warmup", "`training.warmup`"),
        ("training.lr", "`training.learning_rate`"),
        ("d_model", "`model.model_dim`"),
    ],
)
def test_explaining_an_unknown_key_names_the_near_match(key, meant):
    with pytest.raises(UsageError, match=f"there is no key `{key}`; did you mean {meant}"):
        explain(Recipe, key)


def test_the_schema_is_closed_and_carries_the_help_texts():
    schema = json_schema(Recipe)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "Recipe" and schema["required"] == ["data"]
    tables = [schema, *schema["$defs"].values()]
    assert all(table["additionalProperties"] is False for table in tables)
    assert schema["$defs"]["Corpus"]["properties"]["weight"]["description"] == "How often it is drawn from."


# A table that takes one of several forms


class Transformer(Settings):
    """Attention alone."""

    kind: Literal["transformer"] = "transformer"
    """The architecture."""
    model_dim: int = Field(default=512, gt=0)
    """Width of every layer."""
    num_heads: int = 8
    """Heads of attention."""
    dropout: float = 0.1


class Recurrent(Settings):
    """One step after another."""

    RETIRED: ClassVar = {"num_heads": "leave it out"}

    kind: Literal["recurrent"] = "recurrent"
    model_dim: int = Field(default=512, gt=0)
    """Width of every layer."""
    cell: Literal["lstm", "gru"] = "lstm"
    """The cell."""
    dropout: float = 0.3

    def misfits(self) -> Iterator[FieldProblem]:
        if self.cell == "gru" and self.model_dim > 1000:
            yield FieldProblem("model_dim", "is too wide for a gru")


class EitherRecipe(Settings):
    seed: int = 1
    model: Transformer | Recurrent = Field(default=Transformer(), discriminator="kind")


def either(document: dict[str, Any], *overrides: str) -> Resolved[EitherRecipe]:
    return resolve({"model": document}, EitherRecipe, "x", overrides)


def test_the_kind_chooses_the_form_of_a_table_and_without_one_it_has_the_first():
    assert either({}).recipe.model == either({"kind": "transformer"}).recipe.model == Transformer()
    assert EitherRecipe.model_validate({"model": {"num_heads": 4}}).model == Transformer(num_heads=4)
    resolved = either({"kind": "recurrent", "model_dim": 8}, "model.cell=gru")
    assert resolved.recipe.model == Recurrent(model_dim=8, cell="gru")
    origins = {key: resolved.origins[f"model.{key}"] for key in ("kind", "model_dim", "cell", "dropout")}
    assert origins == {"kind": "recipe", "model_dim": "recipe", "cell": "command line", "dropout": "default"}
    assert either({"num_heads": 4}).origins["model.kind"] == "default"
    assert changed(resolved, {"model.model_dim": 16}, "measured").recipe.model == Recurrent(model_dim=16, cell="gru")
    assert resolve({}, EitherRecipe, "x", ["model.kind=recurrent"]).recipe.model == Recurrent()
    assert parse_rendered(render(resolved), EitherRecipe, "x") == resolved


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (
            {"kind": "recurent", "num_heads": 4, "cel": "gru"},
            [
                ('model.kind = "recurent"', "expected one of transformer, recurrent; did you mean `recurrent`?"),
                ('model.cel = "gru"', "unknown key; did you mean `cell`?"),
            ],
        ),
        (
            {"kind": "gru"},
            [
                (
                    'model.kind = "gru"',
                    "expected one of transformer, recurrent, found the text 'gru'; "
                    'did you mean kind = "recurrent" with cell = "gru"?',
                )
            ],
        ),
        ({"kind": 3}, [("model.kind = 3", "expected one of transformer, recurrent, found 3")]),
        ({"kind": ["a"]}, [('model.kind = ["a"]', "expected one of transformer, recurrent, found a list")]),
        (3, [("model = 3", "expected a table, found 3")]),
        (
            {"kind": "recurrent", "num_heads": 4, "model_dim": "x", "cell": "gur", "dropot": 1},
            [
                ('model.model_dim = "x"', "expected a whole number, found the text 'x'"),
                ('model.cell = "gur"', "expected one of lstm, gru; did you mean `gru`?"),
                ("model.num_heads = 4", 'belongs to kind = "transformer"; this is kind = "recurrent"'),
                ("model.dropot = 1", "unknown key; did you mean `dropout`?"),
            ],
        ),
        ({"cell": "gru"}, [('model.cell = "gru"', 'belongs to kind = "recurrent"; this is kind = "transformer"')]),
        ({"layers": 4}, [("model.layers = 4", "unknown key; known here: kind, model_dim, num_heads, dropout")]),
        (
            {"kind": "recurrent", "cell": "gru", "model_dim": 2000},
            [("model.model_dim = 2000", "is too wide for a gru")],
        ),
    ],
)
def test_what_is_wrong_in_a_table_of_several_forms_is_said_once_and_of_the_form_that_it_has(model, found):
    with pytest.raises(RecipeError) as caught:
        either(model)
    assert [(problem.where, problem.what) for problem in caught.value.problems] == found


def test_a_key_that_one_kind_has_retired_stays_a_key_of_another():
    older = '[model]\nkind = "{}"\nnum_heads = 4  # recipe\n'
    assert parse_rendered(older.format("recurrent"), EitherRecipe, "x").recipe.model == Recurrent()
    assert parse_rendered(older.format("transformer"), EitherRecipe, "x").recipe.model == Transformer(num_heads=4)


def test_an_override_of_a_kind_is_named_with_the_kinds_there_are():
    with pytest.raises(RecipeError, match=r"--set model.kind=recurent  expected one of .* did you mean `recurrent`"):
        resolve({"seed": 2}, EitherRecipe, "x", ["model.kind=recurent"])
    with pytest.raises(RecipeError, match=r"--set model.cell=gru  belongs to kind"):
        either({}, "model.cell=gru")
    with pytest.raises(RecipeError, match=r"model.model_dim = 512 \(default\)  is bad"):

        class Bad(EitherRecipe):
            def misfits(self) -> Iterator[FieldProblem]:
                yield FieldProblem("model.model_dim", "is bad")

        resolve({"model": {"kind": "recurrent"}}, Bad, "x")


def test_a_key_of_one_kind_is_explained_with_its_kind():
    assert explain(EitherRecipe, "model.cell") == (
        "model.cell\n  The cell.\n\n"
        '  only if  model.kind is "recurrent"\n  type     one of lstm, gru\n  default  "lstm"'
    )
    assert explain(EitherRecipe, "model.kind") == (
        'model.kind\n  The architecture.\n\n  type     one of transformer, recurrent\n  default  "transformer"'
    )
    assert "only" not in explain(EitherRecipe, "model.model_dim")
    assert explain(EitherRecipe, "model.dropout").count('only if  model.kind is "') == 2
    assert explain(EitherRecipe, "model") == (
        "model\n  Attention alone.\n  One step after another.\n\n  type  a table\n\n"
        '  kind       The architecture. (default: "transformer")\n'
        "  model_dim  Width of every layer. (default: 512)\n\n"
        '  only if kind is "transformer":\n'
        "  num_heads  Heads of attention. (default: 8)\n"
        "  dropout    a number (default: 0.1)\n\n"
        '  only if kind is "recurrent":\n'
        '  cell     The cell. (default: "lstm")\n'
        "  dropout  a number (default: 0.3)"
    )
    with pytest.raises(UsageError, match=r"did you mean `model\.cell`"):
        explain(EitherRecipe, "cell")


def test_the_schema_chooses_the_form_by_the_kind():
    definitions = json_schema(EitherRecipe)["$defs"]
    assert definitions["Recurrent"]["required"] == ["kind"] and "required" not in definitions["Transformer"]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("source = “zh”", '; it has “, a sign of Chinese typing: write "'),
        ("model_dim = 32，", "; it has ，, a sign of Chinese typing: write ,"),
        ("model_dim = 32 4  # 宽度，可以更大", ""),
        ("source = 'zh，' 4 # “zh”", ""),
        ('train = ["语料，一.tsv"] 4', ""),
        ('train = ["语料，一.tsv"，"b.tsv"]', "; it has ，, a sign of Chinese typing: write ,"),
        ('train = ["语料，a.tsv”, "b.tsv"]', '; it has ”, a sign of Chinese typing: write "'),
    ],
)
def test_a_sign_of_chinese_typing_is_named_where_a_line_cannot_be_read(line: str, hint: str) -> None:
    with pytest.raises(RecipeError) as raised:
        parse_toml(f"[data]\n{line}\n", "x.toml")
    (problem,) = raised.value.problems
    assert (
        problem.where.startswith("line 2") and problem.what.endswith(hint) and ("Chinese" in problem.what) is bool(hint)
    )


def test_an_override_with_a_wide_sign_is_told_so() -> None:
    with pytest.raises(RecipeError, match=r"expected KEY=VALUE.*; it has ＝, a sign of Chinese typing: write ="):
        resolve({}, EitherRecipe, "x", ["model.kind＝recurrent"])
