"""What a recipe leaves open, chosen from the number of training pairs: vocabulary, shape, dropout, batch, epochs.

`TABLE` holds all of it. Between two of its rows the values are interpolated over the logarithm of the pairs; beyond its
ends the first or the last row counts. Which way each column goes is known from studies of small corpora:

- Few sentences teach few rare pieces: smaller vocabularies (Sennrich and Zhang 2019, "Revisiting Low-Resource Neural
  Machine Translation"; Gowda and May 2020, "Finding the Optimal Vocabulary Size").
- Few sentences are soon known by heart: fewer layers, narrower ones with fewer heads, more dropout (Araabi and Monz
  2020, "Optimizing Transformer for Low-Resource Neural Machine Translation").
- Few sentences make few updates: smaller batches (Sennrich and Zhang 2019) and more epochs. Warm-up is a share of all
  updates, so it follows by itself.
- Wider networks want lower rates: with the root of the width, as in Vaswani et al. 2017, equation 3.

The optimizer is Muon at every size: it learns in fewer steps than AdamW by far more than a step of it is slower (`make
bench-choices`). A rate that a recipe gives was meant for the optimizer that stands in the tables, so it keeps that one.

Positions are rotary at every size: on zh-en-50k they gain more than any other choice (`make bench-choices`).

The numbers are weft's own; `make bench-sizes` measures them.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.config import Resolved, changed, leaves
from weft.folders.recipes import TranslationRecipe
from weft.models.contract import ModelSettings
from weft.models.transformer import TransformerConfig, fitting_heads
from weft.training.config import TrainingConfig


@dataclass(frozen=True)
class Size:
    """Defaults for a corpus of this many pairs."""

    pairs: int
    vocabulary: int
    """Pieces a language."""
    layers: int
    """Number of encoder layers, and of decoder layers."""
    model_dim: int
    dropout: float
    batch_tokens: int
    learning_rate: float
    """Learning rate of Adam and AdamW at this width."""
    epochs: int

    def hurried(self, share: float) -> "Size":
        """What suits as many pairs where time is short: for `share` of the epochs with the model of this size.

        Of what can be computed, half the orders of magnitude go to parameters and half to tokens (Hoffmann et al. 2022,
        "Training Compute-Optimal Large Language Models"): layers * width ** 2 shrinks with the root of the share. What
        is seen more seldom is also known by heart later, and needs less dropout; but some, for R-Drop.
        """
        factor = share ** (1 / 6)
        width = to_step(self.model_dim * factor, HEAD_DIM)
        return replace(
            self,
            layers=max(1, round(self.layers * factor)),
            model_dim=width,
            dropout=max(0.01, round(self.dropout * share**0.25, 2)),
            learning_rate=self.learning_rate * math.sqrt(self.model_dim / width),
        )


# fmt: off
TABLE = [
    #         pairs  pieces layers width dropout  batch    rate epochs
    Size(     1_000,  1_000,     2,  128,   0.30,  1_024, 2.0e-3, 200),
    Size(     5_000,  2_000,     3,  256,   0.30,  2_048, 1.5e-3, 100),
    Size(    20_000,  4_000,     3,  256,   0.25,  3_072, 1.5e-3,  50),
    Size(    50_000,  8_000,     4,  256,   0.25,  4_096, 1.5e-3,  25),
    Size(   200_000, 12_000,     5,  384,   0.10,  8_192, 1.2e-3,  20),
    Size( 1_000_000, 16_000,     6,  512,   0.10, 16_384, 1.0e-3,  12),
    Size(10_000_000, 32_000,     6,  512,   0.10, 32_768, 1.0e-3,   4),
]
# fmt: on
HEAD_DIM = 64
"""Width of a head, as near as the model's width allows."""
FF_FACTOR = 4
"""Inner width of the feed-forward networks in widths of the model."""
RATE_FACTORS = {"adam": 1, "adamw": 1, "muon": 2}
"""Rates of the optimizers in the table's."""
OWN_RATES = {"sgd": 0.3, "adafactor": 0.02}
"""Learning rates, for any corpus size, of the optimizers whose rates are on another scale."""
MUON_KINDS = ("transformer",)
"""The kinds of models for which Muon was measured against AdamW."""
NOAM_FACTOR = 1.0
"""Factor of Vaswani et al. 2017, equation 3, which has none."""

HURRIES_BELOW = 0.5
"""Share of the epochs below which a budget asks for a smaller model."""
OF_THE_MODEL = frozenset(
    {f"model.{key}" for key in ("model_dim", "num_heads", "encoder_layers", "decoder_layers", "ff_dim", "dropout")}
    | {"model.positions", "training.optimizer", "training.learning_rate"}
)
"""Keys that are chosen together with the model's size."""
OPEN = OF_THE_MODEL | {"tokenizer.source_size", "tokenizer.target_size", "training.batch_tokens", "training.epochs"}
"""Keys that are chosen from the number of training pairs, where a recipe leaves them out."""

SIZE_MATTERS = "a corpus of fewer pairs supports fewer pieces and parameters, overfits sooner, and needs more epochs"
REASONS = {
    (
        "model.positions",
        "rotary",
    ): "with rotary positions a model learns more from the same tokens than with added ones",
    ("model.positions", "sinusoidal"): "heads of this width cannot have rotary positions",
    ("training.optimizer", "muon"): "with Muon a model learns more from the same tokens than with Adam",
}
"""Choices that are the same for every corpus size."""


def choose_open_settings(resolved: Resolved[TranslationRecipe], pairs: int, share: float = 1.0) -> dict[str, Any]:
    """Dotted key -> value for everything that this recipe leaves open and the number of pairs decides; and the time,
    where it suffices for a `share` of the epochs alone.

    What the recipe gives stays, and the rest is chosen to go with it. Another model's weights (`training.init`) leave
    nothing open but a rate of another kind than the one that stands in `[training]`.
    """
    recipe, size = resolved.recipe, size_for(pairs).hurried(share)
    is_open = {key for key, origin in resolved.origins.items() if origin == "default"}
    to_choose = is_open - set(keys_without_use(recipe, is_open))
    shape, width = shape_for(recipe.model, size, is_open)
    optimizer = recipe.training.optimizer
    if "training.optimizer" in to_choose and recipe.model.kind in MUON_KINDS:
        optimizer = "muon"
    settings: dict[str, Any] = {
        "tokenizer.source_size": size.vocabulary,
        "tokenizer.target_size": size.vocabulary,
        **{f"model.{key}": value for key, value in shape.items()},
        "training.batch_tokens": size.batch_tokens,
        "training.optimizer": optimizer,
        "training.learning_rate": rate_for(recipe.training, optimizer, size, width),
        "training.epochs": size.epochs,
    }
    return {key: settings[key] for key in settings if key in to_choose}


def open_keys(resolved: Resolved[TranslationRecipe]) -> set[str]:
    """Keys of OPEN that the recipe leaves out."""
    return set(choose_open_settings(resolved, TABLE[0].pairs))


def usual_epochs(resolved: Resolved[TranslationRecipe], pairs: int) -> int:
    """The recipe's epochs; where it leaves them out, those of as many pairs, as if it left out the steps as well."""
    endless = changed(resolved, {"training.steps": None}, "default")
    chosen = choose_open_settings(endless, pairs)
    return chosen.get("training.epochs", endless.recipe.training.epochs)


def keys_without_use(recipe: TranslationRecipe, is_open: set[str]) -> list[str]:
    """Keys that something else in the recipe takes the place of, or gives another meaning."""
    training = recipe.training
    keys = ["tokenizer.target_size"] if recipe.tokenizer.shared or recipe.tokenizer.target_vocabulary else []
    keys += ["tokenizer.source_size"] if recipe.tokenizer.source_vocabulary else []
    keys += ["training.batch_tokens"] if training.batch_sentences is not None else []
    keys += ["training.epochs"] if training.steps is not None else []
    if training.init is not None:
        has_usual_rate = training.optimizer in RATE_FACTORS and training.schedule != "noam"
        keys += is_open if has_usual_rate else is_open - {"training.learning_rate"}
    if "training.learning_rate" not in is_open or training.schedule == "noam":
        keys.append("training.optimizer")
    return keys


def shape_for(model: ModelSettings, size: Size, is_open: set[str]) -> tuple[dict[str, Any], int]:
    """The keys of [model] for a corpus of this size, and the width that goes with what the recipe gives."""
    if not isinstance(model, TransformerConfig):
        width = size.model_dim if "model.model_dim" in is_open else model.width
        return {"model_dim": width, "dropout": size.dropout}, width
    width = width_for(model, size, is_open)
    positions = positions_for(model, width, is_open)
    shape = {
        "model_dim": width,
        "num_heads": heads_for(positions, width),
        "encoder_layers": size.layers,
        "decoder_layers": size.layers,
        "ff_dim": FF_FACTOR * width,
        "dropout": size.dropout,
        "positions": positions,
    }
    return shape, width


def rate_for(training: TrainingConfig, optimizer: str, size: Size, width: int) -> float:
    """What `training.learning_rate` is for this optimizer and schedule."""
    if training.schedule == "noam":
        return NOAM_FACTOR
    if optimizer in OWN_RATES:
        return OWN_RATES[optimizer]
    return two_digits(size.learning_rate * math.sqrt(size.model_dim / width) * RATE_FACTORS[optimizer])


def width_for(model: TransformerConfig, size: Size, is_open: set[str]) -> int:
    """The recipe's width; else the table's, or where heads are given the nearest that gives them 8, 16, ... each."""
    if "model.model_dim" not in is_open:
        return model.model_dim
    if "model.num_heads" in is_open:
        return size.model_dim
    return to_step(size.model_dim, 8 * model.num_heads)


def positions_for(model: TransformerConfig, width: int, is_open: set[str]) -> str:
    """Rotary where nothing else is asked; but they turn pairs of a head's dimensions, so where heads of an even width
    do not fit, or would have to be wide ones, the waves of the paper are kept."""
    if "model.num_heads" in is_open:
        can_turn = width % 2 == 0 and width / heads_for("rotary", width) < 2 * HEAD_DIM
    else:
        can_turn = width % (2 * model.num_heads) == 0
    return "rotary" if "model.positions" in is_open and can_turn else model.positions


def heads_for(positions: str, width: int) -> int:
    """How many heads share this width evenly, each about HEAD_DIM wide."""
    fitting = fitting_heads(width, 2 if positions == "rotary" else 1)
    return min(fitting, key=lambda heads: abs(heads - width / HEAD_DIM))


def size_for(pairs: int) -> Size:
    """The row of the table for any number of pairs, in round numbers."""

    def between(column: str, scale: Any = math.log, back: Any = math.exp) -> float:
        """The column's value: in equal ratios between two rows, or on another scale."""
        places = [math.log(row.pairs) for row in TABLE]
        return back(float(np.interp(math.log(max(1, pairs)), places, [scale(getattr(row, column)) for row in TABLE])))

    return Size(
        pairs=pairs,
        vocabulary=to_step(between("vocabulary"), 500),
        layers=round(between("layers", float, float)),
        model_dim=to_step(between("model_dim"), 128),
        dropout=round(between("dropout", float, float), 2),
        batch_tokens=to_step(between("batch_tokens"), 512),
        learning_rate=two_digits(between("learning_rate")),
        epochs=round(between("epochs")),
    )


def to_step(number: float, step: int) -> int:
    """The nearest multiple of the step, but not 0."""
    return step * max(1, round(number / step))


def two_digits(number: float) -> float:
    return float(f"{number:.1e}")


def choose_smaller(
    resolved: Resolved[TranslationRecipe], chosen: TranslationRecipe, pairs: int, epochs: float
) -> tuple[dict[str, Any], str]:
    """Dotted key -> value for what is chosen otherwise than in `chosen` where a budget leaves time for so many epochs
    of that, and the message that says so; nothing where they are most of the table's, or where the recipe leaves
    nothing of the model open."""
    usual = size_for(pairs).epochs
    if epochs / usual >= HURRIES_BELOW or not isinstance(chosen.model, TransformerConfig):  # only its sizes are
        return {}, ""
    settings, before = choose_open_settings(resolved, pairs, epochs / usual), leaves(chosen)
    smaller = {key: value for key, value in settings.items() if key in OF_THE_MODEL and value != before[key]}
    has_less = not smaller.keys().isdisjoint(["model.model_dim", "model.encoder_layers", "model.decoder_layers"])
    why = " (a smaller model sees the pairs more often in the same time)" if has_less else ""
    return smaller, (
        f"that is {epochs:.2g} of the {usual:,} epochs that suit this many pairs; chosen instead: "
        f"{in_tables(smaller)}{why}"
    )


def in_tables(settings: dict[str, Any]) -> str:
    tables: dict[str, list[str]] = {}
    for key, value in settings.items():
        table, _, name = key.partition(".")
        tables.setdefault(table, []).append(f"{name} = {value}")
    return "; ".join(f"[{table}] {', '.join(values)}" for table, values in tables.items())


def describe(settings: dict[str, Any], pairs: int) -> str:
    """The message that says what was chosen, and why."""
    why = [REASONS[item] for item in settings.items() if item in REASONS]
    if any(item not in REASONS for item in settings.items()):
        why.insert(0, SIZE_MATTERS)
    return f"not set by the recipe and chosen for {pairs:,} training pairs: {in_tables(settings)} ({'; '.join(why)})"
