"""The recipes: the settings of every room put together, one model for each task."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from weft.config import FieldProblem, FieldProblems, Settings
from weft.data.augmentation import AugmentationConfig
from weft.data.cleaning import CleaningConfig
from weft.data.corpus import DataConfig
from weft.data.lines import LinesConfig
from weft.decoding.search import DecodingConfig
from weft.metrics.requirements import RequirementsConfig
from weft.models.kinds import LanguageModelSettings, Seq2SeqSettings
from weft.models.transformer import TransformerConfig
from weft.text.kinds import Kind
from weft.text.normalization import Normalization
from weft.text.tokenizer_config import SMALLEST, TokenizerConfig
from weft.text.vocabulary import MASK
from weft.training.config import TrainingConfig
from weft.training.loss_config import GuidedLossConfig, TokenLossConfig

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
    model: Seq2SeqSettings = TransformerConfig()
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


class TextTokenizerConfig(Settings):
    """[tokenizer] of a task that reads one kind of text."""

    kind: Kind = "characters"
    """What pieces are: characters, byte-pair merges or those of a unigram language model, BERT's WordPiece, words."""
    size: int = Field(default=8000, ge=SMALLEST, le=256_000)
    """Most pieces of the vocabulary."""
    normalization: Normalization = "nfc"
    """Unicode form of all text: nfc keeps full-width forms and ligatures apart, nfkc folds them."""


class LanguageModelTrainingConfig(TrainingConfig, TokenLossConfig):
    """The table [training] of a language model's recipe."""

    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the probability that is spread over the whole vocabulary."""
    select_by: Literal["loss", "perplexity"] = "loss"  # pyright: ignore[reportIncompatibleVariableOverride]
    """The validation metric that chooses the best weights and stops early."""


class LanguageModelRecipe(Settings):
    task: Literal["language-model"] = "language-model"
    """What the model learns to do."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Where all random numbers of the run come from."""
    data: LinesConfig
    """Which files, which language."""
    tokenizer: TextTokenizerConfig = TextTokenizerConfig()
    """How text is cut into pieces."""
    model: LanguageModelSettings = LanguageModelSettings()
    """What the model looks like."""
    training: LanguageModelTrainingConfig = LanguageModelTrainingConfig()
    """How it is trained."""


RECIPES: dict[str, type[Settings]] = {"translation": TranslationRecipe, "language-model": LanguageModelRecipe}
