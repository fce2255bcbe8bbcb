"""Language models: the probability of the next token given those before it.

GRU       Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder", section 2.3
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from weft.layers.dropout import Dropout
from weft.layers.embedding import TokenEmbedding
from weft.layers.linear import Linear
from weft.models.contract import ModelSettings


class GruConfig(ModelSettings):
    kind: Literal["gru"] = "gru"
    """The architecture: gated recurrent units."""
    model_dim: int = Field(default=256, ge=8, le=8192)
    """Width of the embeddings and of every layer."""
    num_layers: int = Field(default=1, ge=1, le=16)
    """Number of GRU layers; each reads the vectors of the one below."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropping an activation, after the embeddings, between layers and before the output."""

    @property
    def width(self) -> int:
        return self.model_dim

    @property
    def dropouts(self) -> tuple[float, ...]:
        return (self.dropout,)

    def describe(self) -> str:
        return f"{self.num_layers} GRU layer{'s' * (self.num_layers > 1)}, {self.model_dim} wide"


class GruLanguageModel(nn.Module):
    """A stack of GRUs over a sequence, whose embeddings are also the matrix of its output."""

    compute_dtype: torch.dtype = torch.float32

    def __init__(self, config: GruConfig, *, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        width, between = config.model_dim, config.dropout if config.num_layers > 1 else 0.0
        self.embedding = TokenEmbedding(vocab_size, width)
        self.layers = nn.GRU(width, width, config.num_layers, batch_first=True, dropout=between)
        self.dropout = Dropout(config.dropout)
        self.output = Linear(width, vocab_size, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time model"]:
        """The vectors that `output` turns into logits of the token after each place."""
        hidden, _ = self.layers(self.dropout(self.embedding(tokens)))
        return self.dropout(hidden).to(self.compute_dtype)
