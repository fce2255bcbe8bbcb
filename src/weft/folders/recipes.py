"""The recipes: the settings of every room put together, one model for each task."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from weft.config import FieldProblem, FieldProblems, Settings
from weft.data.augmentation import AugmentationConfig
from weft.data.cleaning import CleaningConfig
from weft.data.corpus import DataConfig
from weft.decoding.search import DecodingConfig
from weft.metrics.requirements import RequirementsConfig
from weft.models.kinds import Seq2SeqSettings
from weft.text.tokenizer_config import TokenizerConfig
from weft.text.vocabulary import MASK
from weft.training.config import TrainingConfig
from weft.training.loss_config import GuidedLossConfig

OF_THE_MACHINE = {"training.precision", "training.threads"}
"""Keys that the machine decides where the recipe leaves them to it: anew when a run goes on, perhaps on another one."""


class TranslationTrainingConfig(TrainingConfig, GuidedLossConfig):
    """The table [training] of a translation recipe."""

    select_by: Literal[  # pyright: ignore[reportIncompatibleVariableOverride] (settings are frozen)
        "bleu", "accuracy", "loss", "chrf", "ter", "exact_match", "bleu_1", "bleu_2", "bleu_3", "bleu_4"
    ] = "bleu"
    """Validation metric for choosing the best weights and for early stopping."""


class TranslationRecipe(Settings):
    task: Literal["translation"] = "translation"
    """What the model learns to do."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Where all random numbers of the run come from."""
    data: DataConfig
    """Which files, which languages."""
    cleaning: CleaningConfig | None = None
    """Which training pairs are not worth training on; left out, all are kept."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How text is cut into pieces."""
    augmentation: AugmentationConfig = AugmentationConfig()
    """What noise training pairs get."""
    model: Seq2SeqSettings = Seq2SeqSettings()
    """What the model looks like."""
    training: TranslationTrainingConfig = TranslationTrainingConfig()
    """How it is trained."""
    decoding: DecodingConfig = DecodingConfig()
    """How it translates, unless told otherwise."""
    require: RequirementsConfig = RequirementsConfig()
    """What `weft evaluate` demands of it."""

    @model_validator(mode="after")
    def _tables_fit_together(self) -> "TranslationRecipe":
        if problems := [*self._misfits()]:
            raise FieldProblems(problems)
        return self

    def _misfits(self) -> Iterator[FieldProblem]:
        if self.model.needs_one_vocabulary and not self.tokenizer.shared:
            yield FieldProblem("model.tie", 'needs one vocabulary; set tokenizer.shared = true, or tie = "decoder"')
        kind, amount = self.tokenizer.kind, self.augmentation.subword_sampling
        if amount and kind not in ("bpe", "unigram"):
            yield FieldProblem("augmentation.subword_sampling", f'cuts pieces of bpe and unigram; kind is "{kind}"')
        if amount > 1 and kind == "bpe":
            yield FieldProblem("augmentation.subword_sampling", "is for bpe the share of merges left out, at most 1")
        longest = self.model.longest
        if longest is not None and self.data.max_length > longest - 2:  # a tag and </s>, or <s>
            what = f"leaves no room in model.max_positions = {longest}; try {longest - 2}, or more positions"
            yield FieldProblem("data.max_length", what)
        if self.training.r_drop and not any(self.model.dropouts):
            yield FieldProblem("training.r_drop", "compares passes with different dropout, and model.dropout is 0")

    @property
    def source_tags(self) -> tuple[str, ...]:
        """The tokens that the source's vocabulary needs though no text becomes them."""
        return (*self.data.tags, MASK) if self.augmentation.needs_mask else self.data.tags


RECIPES: dict[str, type[Settings]] = {"translation": TranslationRecipe}
