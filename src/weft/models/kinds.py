"""The kinds of networks, by the `kind` of their [model] table. A new kind is a file and a line here."""

from collections.abc import Callable
from typing import Annotated

from pydantic import Field
from torch import nn

from weft.models.contract import Seq2Seq
from weft.models.language_model import (
    RecurrentLanguageModel,
    RecurrentLmConfig,
    TransformerLanguageModel,
    TransformerLmConfig,
    WindowConfig,
    WindowLanguageModel,
)
from weft.models.ngram import NgramConfig, NgramLanguageModel
from weft.models.recurrent import RecurrentConfig, RecurrentSeq2Seq
from weft.models.transformer import Transformer, TransformerConfig

Seq2SeqSettings = Annotated[TransformerConfig | RecurrentConfig, Field(discriminator="kind")]
"""What the [model] table of a translation recipe may be; the first is the default."""

SEQ2SEQ: dict[str, Callable[..., Seq2Seq]] = {"transformer": Transformer, "recurrent": RecurrentSeq2Seq}

LanguageModelSettings = Annotated[
    TransformerLmConfig | RecurrentLmConfig | WindowConfig | NgramConfig, Field(discriminator="kind")
]
"""What the [model] table of a language model's recipe may be; the first is the default."""

LANGUAGE_MODELS: dict[str, Callable[..., nn.Module]] = {
    "transformer": TransformerLanguageModel,
    "recurrent": RecurrentLanguageModel,
    "window": WindowLanguageModel,
    "ngram": NgramLanguageModel,
}
