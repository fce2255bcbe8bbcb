"""The recipes: the settings of all packages combined, one Pydantic model for each task."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from weft.config import FieldProblem, Settings
from weft.data.augmentation import AugmentationConfig
from weft.data.cleaning import CleaningConfig
from weft.data.corpus import DataConfig
from weft.data.lines import LinesConfig
from weft.data.questions import KnowledgeDataConfig
from weft.decoding.search import DecodingConfig
from weft.metrics.requirements import RequirementsConfig
from weft.models.kinds import LanguageModelSettings, Seq2SeqSettings
from weft.models.language_model import TransformerLmConfig
from weft.models.transformer import TransformerConfig
from weft.text.chinese import Script
from weft.text.kinds import Kind
from weft.text.normalization import Normalization
from weft.text.punctuation import Punctuation
from weft.text.tokenizer_config import SMALLEST, TokenizerConfig
from weft.text.vocabulary import MASK
from weft.training.config import GuidedLossConfig, TokenLossConfig, TrainingConfig

OF_THE_MACHINE = {"training.precision", "training.threads"}
"""Keys whose automatic values depend on the machine: resuming a run determines them again."""


class TranslationTrainingConfig(TrainingConfig, GuidedLossConfig):
    """The table [training] of a translation recipe."""

    select_by: Literal[  # pyright: ignore[reportIncompatibleVariableOverride] (settings are frozen)
        "bleu", "accuracy", "loss", "chrf", "ter", "exact_match", "bleu_1", "bleu_2", "bleu_3", "bleu_4"
    ] = "bleu"
    """Validation metric for choosing the best weights and for early stopping."""


class TranslationRecipe(Settings):
    task: Literal["translation"] = "translation"
    """The task that the model is trained for."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Seed of all random numbers of the run."""
    data: DataConfig
    """Training and validation files, and their languages."""
    cleaning: CleaningConfig | None = None
    """Rules that remove training pairs; without this table all pairs are kept."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How text is cut into pieces."""
    augmentation: AugmentationConfig = AugmentationConfig()
    """Noise and other random changes of the training pairs."""
    model: Seq2SeqSettings = TransformerConfig()
    """The architecture and its sizes."""
    training: TranslationTrainingConfig = TranslationTrainingConfig()
    """The optimizer, the schedule, the loss and the length of training."""
    decoding: DecodingConfig = DecodingConfig()
    """The default settings of the search for a translation."""
    require: RequirementsConfig = RequirementsConfig()
    """Scores that the model must reach for `weft evaluate` to succeed."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.model.needs_one_vocabulary and not self.tokenizer.shared:
            yield FieldProblem("model.tie", 'needs one vocabulary; set tokenizer.shared = true, or tie = "decoder"')
        kind, amount = self.tokenizer.kind, self.augmentation.subword_sampling
        if amount and kind not in ("bpe", "unigram"):
            yield FieldProblem("augmentation.subword_sampling", f'works with bpe and unigram; kind is "{kind}"')
        if amount > 1 and kind == "bpe":
            yield FieldProblem("augmentation.subword_sampling", "is a share of merges for bpe, at most 1")
        if self.tokenizer.copying and self.augmentation.joining:
            what = "does not work with tokenizer.copying, which numbers the items of each pair; turn one of them off"
            yield FieldProblem("augmentation.joining", what)
        longest = self.model.longest
        if longest is not None and self.data.max_length > longest - 2:  # a tag and </s>, or <s>
            what = f"does not fit into model.max_positions = {longest}; try {longest - 2}, or more positions"
            yield FieldProblem("data.max_length", what)
        not_with = {"copying": ("r_drop", "teachers", "z_loss"), "scheduled_sampling": ("r_drop", "teachers")}
        for switch, keys in not_with.items():
            for key in keys:
                if getattr(self.model, switch, False) and getattr(self.training, key):
                    yield FieldProblem(f"training.{key}", f"does not work with model.{switch}; turn one of them off")
        if self.training.r_drop and not any(self.model.dropouts):
            yield FieldProblem("training.r_drop", "compares passes with different dropout, and model.dropout is 0")

    @property
    def source_tags(self) -> tuple[str, ...]:
        """Tokens of the source vocabulary that no text is encoded to."""
        return (*self.data.tags, MASK) if self.augmentation.needs_mask else self.data.tags


class TextTokenizerConfig(Settings):
    """The table [tokenizer] of a task with one vocabulary."""

    kind: Kind = "characters"
    """Kind of pieces: characters, byte-pair merges (bpe), unigram language model, BERT's WordPiece, words, or
    whitespace (words as the text is spaced)."""
    size: int = Field(default=8000, ge=SMALLEST, le=256_000)
    """Largest number of pieces in the vocabulary."""
    normalization: Normalization = "nfc"
    """Unicode normalization of all text: nfc keeps full-width forms and ligatures, nfkc replaces them, folded also
    removes format characters and lowercases a sentence that is all capitals."""
    punctuation: Punctuation = "keep"
    """Form of quotation marks, dashes, ellipses and wide punctuation: keep, ascii or chinese."""
    script: Script = "keep"
    """Script to convert Chinese text to: keep, simplified or traditional."""
    copying: bool = False
    """Read numbers, addresses and codes as symbols, as a translator that copies them writes them; comes with
    vocabulary_of."""
    vocabulary_of: str | None = Field(default=None, min_length=1)
    """A translation model whose target vocabulary is used, as decoding.language_model of that model needs it; kind,
    normalization, punctuation, script and copying are then its own, and size has no effect."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.copying and self.vocabulary_of is None:
            yield FieldProblem("copying", "needs vocabulary_of, a translator that copies")


class LanguageModelTrainingConfig(TrainingConfig, TokenLossConfig):
    """The table [training] of a language model's recipe."""

    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the target probability that is spread evenly over the vocabulary."""
    select_by: Literal["loss", "perplexity"] = "loss"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Validation metric for choosing the best weights and for early stopping."""


class LanguageModelRecipe(Settings):
    task: Literal["language-model"] = "language-model"
    """The task that the model is trained for."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Seed of all random numbers of the run."""
    data: LinesConfig
    """Training and validation files, and their language."""
    tokenizer: TextTokenizerConfig = TextTokenizerConfig()
    """How text is cut into pieces."""
    model: LanguageModelSettings = TransformerLmConfig()
    """The architecture and its sizes."""
    training: LanguageModelTrainingConfig = LanguageModelTrainingConfig()
    """The optimizer, the schedule and the length of training."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.model.longest is not None and self.model.longest < self.data.longest_row:
            cause = "data.context" if self.data.running or self.data.context else "data.max_length"
            what = f"is less than {self.data.longest_row:,}, the most tokens of a row; raise it, or lower {cause}"
            yield FieldProblem("model.max_positions", what)


class KnowledgeTrainingConfig(LanguageModelTrainingConfig):
    """The table [training] of a recipe for answering questions."""

    select_by: Literal["exact_match", "loss"] = "exact_match"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Validation metric for choosing the best weights and for early stopping."""


class KnowledgeRecipe(Settings):
    task: Literal["knowledge"] = "knowledge"
    """The task that the model is trained for."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Seed of all random numbers of the run."""
    data: KnowledgeDataConfig
    """Training and validation files, their language, and what is hidden of documents."""
    tokenizer: TextTokenizerConfig = TextTokenizerConfig()
    """How text is cut into pieces."""
    model: TransformerLmConfig = TransformerLmConfig()
    """The architecture and its sizes."""
    training: KnowledgeTrainingConfig = KnowledgeTrainingConfig()
    """The optimizer, the schedule and the length of training."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.model.longest is not None and self.model.longest < self.data.context:
            what = f"is less than data.context = {self.data.context}, the most tokens of a row"
            yield FieldProblem("model.max_positions", what)
        if self.tokenizer.vocabulary_of is not None:
            yield FieldProblem("tokenizer.vocabulary_of", "has no effect here: a translator's vocabulary has no [MASK]")


RECIPES: dict[str, type[Settings]] = {
    "translation": TranslationRecipe,
    "language-model": LanguageModelRecipe,
    "knowledge": KnowledgeRecipe,
}
"""Task name -> its recipe."""
