"""The settings of a study: what varies, for how long each trial trains, and how trials are compared."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from weft.config import FieldProblem, Resolved, Settings, check_value, resolve
from weft.config.recipe import dotted, parse_toml, read_text
from weft.errors import Problem, RecipeError, UsageError
from weft.folders.metrics import HEADLINES, METRICS
from weft.text.kinds import KINDS
from weft.training.metric import Metric


class Range(Settings):
    """A range of values, whole numbers if both ends are."""

    low: int | float
    """The least value."""
    high: int | float
    """The largest value."""
    log: bool = False
    """Draw on a logarithmic scale."""

    def misfits(self) -> Iterator[FieldProblem]:
        if not self.low < self.high:
            yield FieldProblem("high", f"must be above low = {self.low}")
        if self.log and self.low <= 0:
            yield FieldProblem("low", "must be above 0 on a logarithmic scale")

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


Values = tuple[Any, ...] | Range


class BudgetConfig(Settings):
    """How long each trial trains; give one of the first three. Without any, as long as the recipe says."""

    target_tokens: int | None = Field(default=None, ge=1)
    """Number of target tokens to train on; </s> counts, padding does not."""
    steps: int | None = Field(default=None, ge=1)
    """Number of updates."""
    epochs: float | None = Field(default=None, gt=0)
    """Number of passes over the training data; may be a fraction."""

    def misfits(self) -> Iterator[FieldProblem]:
        given = [name for name, value in self if value is not None]
        if len(given) > 1:
            yield FieldProblem(given[1], f"conflicts with {given[0]}; give one of them")


class HalvingConfig(Settings):
    """Successive halving: train all points to the first rung, the best ones on to the next, and so on."""

    eta: float = Field(default=4.0, gt=1)
    """Keep 1/eta of the points at each rung."""
    rungs: tuple[float, ...] = Field(min_length=1)
    """Shares of the whole training at which points are compared, such as [0.125, 0.5]."""

    def misfits(self) -> Iterator[FieldProblem]:
        if not all(a < b for a, b in zip((0.0, *self.rungs), (*self.rungs, 1.0), strict=True)):
            yield FieldProblem("rungs", "must rise, and lie between 0 and 1")


class ConfirmConfig(Settings):
    """Train the chosen point again with seeds that the choice has not seen, and score it on the other half of valid."""

    seeds: tuple[int, ...] = Field(min_length=1)
    """Seeds that are not among those of the study."""


class ClaimConfig(Settings):
    """What somebody has reported about two cells; the study says whether it agrees."""

    says: str = Field(min_length=1)
    """The claim, in a sentence."""
    source: str = ""
    """Who reported it, and what it rests on."""
    better: Mapping[str, Any] = {}
    """The cell that is said to be better: keys of the space, and `arm`."""
    worse: Mapping[str, Any] = {}
    """The cell that is said to be worse."""
    equal: tuple[Mapping[str, Any], ...] = ()
    """Two cells that are said to be equal, instead of better and worse; needs `margin`."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.equal and (self.better or self.worse or len(self.equal) != 2):
            yield FieldProblem("equal", "must list exactly two cells; leave out better and worse")
        if not self.equal and not (self.better and self.worse):
            missing = "worse" if self.better else "better"
            yield FieldProblem(missing, "is missing; give better and worse, one cell each, or equal with two cells")

    @property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        """The two cells; the one that is said to be better is the second."""
        return self.equal or (self.worse, self.better)


class StudyConfig(Settings):
    """A study: trials of one recipe that differ in some keys."""

    base: str = Field(min_length=1)
    """The recipe, a TOML file; relative to the study's own file."""
    space: Mapping[str, Values] = {}
    """Key of the recipe -> a list of values, or { low = ..., high = ..., log = true }."""
    arms: Mapping[str, Mapping[str, Any]] = {}
    """Name -> keys and values that are set together; crossed with the space."""
    nuisance: Mapping[str, Values] = {}
    """Further keys, of which the best value is taken inside each cell."""
    fixed: Mapping[str, Any] = {}
    """Keys and values that every trial has instead of the recipe's own."""
    baseline: Mapping[str, Any] = {}
    """The cell that others are compared with: keys of the space, and `arm`. By default the recipe's own values, or the
    first cell if they are not among the cells."""
    sampler: Literal["grid", "random", "tpe"] = "grid"
    """All combinations of the lists, or points that are drawn (random) or proposed by Optuna (tpe)."""
    trials: int | None = Field(default=None, ge=1)
    """Number of points to draw."""
    seeds: tuple[int, ...] = Field(default=(1,), min_length=1)
    """Seeds with which each point is trained."""
    budget: BudgetConfig = BudgetConfig()
    """How long each trial trains."""
    validations: int = Field(default=5, ge=1)
    """Number of validations of a trial, evenly spread; with halving more, if the rungs need them."""
    pairs: int | None = Field(default=None, ge=1)
    """Number of pairs to train on: the first ones of the shuffled training file."""
    metric: str | None = None
    """What trials are compared by. By default the recipe's training.select_by, or sacrebleu if decoding keys vary."""
    cost: Literal["seconds", "parameters"] | None = None
    """A second figure, less of which is better: the table marks the cells that no other beats in both."""
    margin: float | None = Field(default=None, gt=0)
    """The smallest difference in the metric that matters; cells that certainly differ by less count as equal."""
    claims: tuple[ClaimConfig, ...] = ()
    """What others have reported, to agree or disagree with."""
    halving: HalvingConfig | None = None
    """Stop bad points early."""
    confirm: ConfirmConfig | None = None
    """Confirm the choice."""

    def misfits(self) -> Iterator[FieldProblem]:
        varied = self.varied
        if not varied and not self.arms:
            yield FieldProblem("space", "is empty, and so are nuisance and arms: nothing varies")
        for key in self.space.keys() & self.nuisance.keys():
            yield FieldProblem("nuisance", f"names {key}, which is in space as well")
        for arm, keys in self.arms.items():
            yield from (FieldProblem("arms", f'"{arm}" sets {key}, which varies') for key in keys.keys() & varied)
        for table in ("space", "nuisance"):
            for key, values in getattr(self, table).items():
                if isinstance(values, Range) and self.sampler == "grid":
                    yield FieldProblem(table, f'{key} is a range; list its values, or set sampler = "random"')
                if isinstance(values, tuple) and (not values or len({repr(value) for value in values}) < len(values)):
                    yield FieldProblem(table, f"{key} has no values, or the same one twice")
        if self.sampler != "grid" and self.trials is None:
            yield FieldProblem("trials", f'is needed by sampler = "{self.sampler}"')
        if self.sampler == "grid" and self.trials is not None:
            yield FieldProblem("trials", "has no effect on a grid, which has as many points as there are combinations")
        if self.sampler == "tpe" and self.halving:
            yield FieldProblem("halving", 'does not work with sampler = "tpe"; use "grid" or "random"')
        if self.sampler != "grid" and any(is_of_decoding(key) for key in self.keys):
            yield FieldProblem("sampler", "must be grid for decoding keys, which are measured without training")
        if self.halving and "training.validate_every" in (*self.keys, *self.fixed):
            yield FieldProblem("halving", "has its rungs at validations, so training.validate_every cannot vary")
        for key in self.fixed.keys() & set(self.keys):
            yield FieldProblem("fixed", f"names {key}, which varies")
        if self.margin is None and any(claim.equal for claim in self.claims):
            yield FieldProblem("margin", "is needed to call two cells equal")
        if len(set(self.seeds)) < len(self.seeds):
            yield FieldProblem("seeds", "names a seed twice")
        if self.confirm and (seen := set(self.confirm.seeds) & set(self.seeds)):
            yield FieldProblem(
                "confirm.seeds", f"contains {', '.join(map(str, sorted(seen)))}, also in seeds; use other seeds"
            )

    @property
    def varied(self) -> dict[str, Values]:
        """Keys with values of their own in every cell, those of arms aside."""
        return {**self.space, **self.nuisance}

    @property
    def keys(self) -> tuple[str, ...]:
        """The recipe's keys that vary."""
        in_arms = (key for keys in self.arms.values() for key in keys)
        return tuple(dict.fromkeys((*self.varied, *in_arms)))


MAY_GROW = ("seeds", "trials", "arms", "confirm", "cost", "baseline", "margin", "claims")
"""Keys that may be changed while a study is under way."""
DECIDED = {
    "seed": "list `seeds` instead",
    "training.epochs": "`budget` says how long a trial trains",
    "training.steps": "`budget` says how long a trial trains",
}
"""Keys of the recipe that a study decides itself -> what to set instead."""
OF_VALIDATION = (
    *("data.source", "data.target", "data.language"),
    *("data.valid", "data.valid_share", "data.columns", "data.column", "data.header"),
    *("data.empty_sides", "data.detokenize", "data.running"),
)
"""Keys of recipes that change the validation data."""


def is_of_decoding(key: str) -> bool:
    """Whether a key changes only the search, so that a trained model serves all its values."""
    return key.startswith("decoding.")


def read_study(path: Path) -> Resolved[StudyConfig]:
    """Read a study's file. Raises UsageError or RecipeError with all its problems."""
    text = read_text(path, "study")
    document = parse_toml(text, path)
    if "data" in document:
        raise UsageError(
            f"{path} is a recipe, not a study; weft train {shlex.quote(str(path))} trains it, and a study names it as "
            "`base`"
        )
    return resolve(flattened(document), StudyConfig, path, text=text)


def flattened(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with `training.learning_rate = [...]` in its tables of keys as one dotted key, quoted or not."""
    flat = dict(document)
    for name in ("space", "nuisance", "baseline", "fixed"):
        if isinstance(flat.get(name), Mapping):
            flat[name] = dotted(flat[name], ("low", "high"))
    if isinstance(flat.get("arms"), Mapping):
        flat["arms"] = {arm: dotted(keys) if isinstance(keys, Mapping) else keys for arm, keys in flat["arms"].items()}
    if isinstance(flat.get("claims"), list):
        flat["claims"] = [claim_flattened(claim) if isinstance(claim, Mapping) else claim for claim in flat["claims"]]
    return flat


def claim_flattened(claim: Mapping[str, Any]) -> dict[str, Any]:
    tables = [name for name in ("better", "worse") if isinstance(claim.get(name), Mapping)]
    cells: dict[str, Any] = {name: dotted(claim[name]) for name in tables}
    if isinstance(claim.get("equal"), list):
        cells["equal"] = [dotted(each) if isinstance(each, Mapping) else each for each in claim["equal"]]
    return {**claim, **cells}


def check_against(config: StudyConfig, recipe: Any, subject: str | Path) -> None:
    """Raise RecipeError for keys that the recipe does not have, and for values that no recipe may have."""
    problems: list[Problem] = []
    for table in ("space", "nuisance"):
        for key, values in getattr(config, table).items():
            listed = (values.low, values.high) if isinstance(values, Range) else values
            problems += problems_of(type(recipe), f"{table}.{key}", key, listed)
    for arm, keys in config.arms.items():
        for key, value in keys.items():
            problems += problems_of(type(recipe), f'arms."{arm}".{key}', key, (value,))
    for key, value in config.fixed.items():
        problems += problems_of(type(recipe), f"fixed.{key}", key, (value,))
    problems += [
        Problem(key, "cannot vary: trials are compared on one validation set")
        for key in config.keys
        if key in OF_VALIDATION or (recipe.task == "language-model" and key in OF_THE_TEXT)
    ]
    is_validated = config.metric is not None and not check_value(type(recipe), "training.select_by", config.metric)
    problems += [
        Problem(f"fixed.{key}", f"is for the study to say: set `{setting}`")
        for key, setting in (("training.validate_every", "validations"), ("training.select_by", "metric"))
        if key in config.fixed and (key != "training.select_by" or is_validated)
    ]
    known = {*config.space, *(["arm"] if config.arms else [])}
    cells = [("baseline", config.baseline)]
    cells += [(f"claims[{i}]", names) for i, claim in enumerate(config.claims) for names in claim.cells]
    problems += [
        Problem(f"{where}.{key}", "is not in space, and not `arm`")
        for where, names in cells
        for key in names
        if key not in known
    ]
    names = [metric.name for metric in known_metrics(recipe)]
    if config.metric is not None and config.metric not in names:
        problems.append(Problem(f'metric = "{config.metric}"', f"expected one of {', '.join(names)}"))
    name = metric_of(config, recipe).name if config.metric in (None, *names) else ""
    parts, given = (recipe.tokenizer, recipe.training), ("vocabularies", "vocabulary_of", "init", "teachers")
    learns = not any(getattr(part, key, None) for part in parts for key in given)
    teachers = values_of(config, "training.teachers", getattr(recipe.training, "teachers", ()))
    first = {tuple(some)[:1] for some in teachers if isinstance(some, Sequence)}
    of_pieces = (*OF_THE_PIECES, *(LEARNED_FROM if learns else ()))
    if len(first) > 1 and getattr(recipe.training, "init", None) is None:
        of_pieces = (*of_pieces, "training.teachers")
    some = [key for key in config.keys if key.startswith(of_pieces)]
    if name in BY_THE_PIECE and some:
        what = f"{name} is by the piece, and {some[0]} changes the pieces; {INSTEAD[recipe.task]}"
        problems.append(Problem("metric", what))
    kinds = values_of(config, "tokenizer.kind", recipe.tokenizer.kind)
    unspelled = [kind for kind in kinds if isinstance(kind, str) and kind in KINDS and not KINDS[kind].spells_bytes]
    if name in BY_THE_CHARACTER and some and unspelled:
        what = (
            f'with pieces of kind "{unspelled[0]}" the unknown words of a vocabulary are cheap, and {some[0]} changes '
        )
        problems.append(Problem("metric", f"{what}it; compare such models with one vocabulary"))
    for where, seeds in (("seeds", config.seeds), ("confirm.seeds", config.confirm.seeds if config.confirm else ())):
        problems += [Problem(f"{where}: {n}", what) for n in seeds for what in check_value(type(recipe), "seed", n)]
    if config.sampler != "grid":
        what = "names a cell of a grid; points that are drawn are compared with the first"
        problems += [Problem(key, what) for key in ("baseline", "claims") if getattr(config, key)]
    if config.pairs is not None and getattr(recipe.data, "running", False):
        problems.append(Problem("pairs", "shuffles the lines, and data.running reads them as one text; leave it out"))
    if config.metric in OF_VALIDATIONS and any(map(is_of_decoding, config.keys)):
        problems.append(Problem(f'metric = "{config.metric}"', "does not depend on decoding keys; try sacrebleu"))
    if problems:
        raise RecipeError(subject, problems)


OF_VALIDATIONS = ("bleu", "accuracy", "loss")
"""Metrics of translation that validations measure, so that valid is not searched after training."""
OF_THE_PIECES = ("tokenizer.", "training.init")
LEARNED_FROM = ("cleaning.", "data.train")
"""Keys that change a vocabulary, and those that change one that is learned from the training pairs."""
OF_THE_TEXT = ("tokenizer.normalization", "tokenizer.punctuation", "tokenizer.script")
"""Keys that change the text that a language model predicts."""
BY_THE_PIECE = ("accuracy", "loss", "perplexity")
BY_THE_CHARACTER = ("bits_per_character", "word_perplexity")
INSTEAD = {
    "translation": 'set metric = "sacrebleu"',
    "language-model": 'set metric = "bits_per_character"',
    "knowledge": 'set metric = "exact_match"',
}
"""Task -> what to do where a metric by the piece compares nothing."""


def values_of(config: StudyConfig, key: str, of_base: Any) -> list[Any]:
    """The values that trials have of a key without a range, right or wrong."""
    if isinstance(values := config.varied.get(key), Sequence):
        return [*values]
    usual = config.fixed.get(key, of_base)
    return [keys.get(key, usual) for keys in config.arms.values()] or [usual]


def problems_of(model: type[Settings], where: str, key: str, values: Sequence[Any]) -> list[Problem]:
    if key in DECIDED:
        return [Problem(where, f"cannot vary: {DECIDED[key]}")]
    found = [(value, what) for value in values for what in check_value(model, key, value)]
    if found and found[0][1].startswith("unknown key"):
        return [Problem(where, found[0][1])]
    return [Problem(f"{where}: {value!r}", what) for value, what in found]


def known_metrics(recipe: Any) -> list[Metric]:
    """Everything that trials of this recipe can be compared by."""
    return [*METRICS[recipe.task], *(m for m in [HEADLINES[recipe.task]] if m not in METRICS[recipe.task])]


def metric_of(config: StudyConfig, recipe: Any) -> Metric:
    """What trials are compared by."""
    varies_search = any(map(is_of_decoding, config.keys))
    name = config.metric or (HEADLINES[recipe.task].name if varies_search else recipe.training.select_by)
    metrics = {metric.name: metric for metric in reversed(known_metrics(recipe))}
    return metrics[name or METRICS[recipe.task][0].name]
