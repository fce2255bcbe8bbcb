"""Language models: the probability of the next token given those before it.

    p(w_1 ... w_n) = product over t of p(w_t | w_1 ... w_{t-1})

window        a network over the last tokens (Bengio et al. 2003, "A Neural Probabilistic Language Model")
recurrent     an Elman network, LSTM or GRU (Mikolov et al. 2010; Hochreiter and Schmidhuber 1997; Cho et al. 2014)
transformer   the decoder-only Transformer (Radford et al. 2018): the translator's encoder layers under a causal mask

All are `Autoregressive`: `forward` reads whole sequences, `extend` continues from a state, and `start` makes a step
function for the searches of decoding/.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from weft.errors import counted
from weft.layers.cache import KeyValueCache
from weft.layers.dropout import Dropout
from weft.layers.embedding import TokenEmbedding
from weft.layers.initialization import draw_normal
from weft.layers.linear import Linear
from weft.layers.masks import causal_mask
from weft.layers.recurrence import CELLS, Recurrence, drawn_weight_mask
from weft.models.contract import ModelSettings, Network
from weft.models.cost import multiply_adds
from weft.models.transformer import EncoderLayer, LayerSettings, active_layers, added_positions, last_norm
from weft.text.vocabulary import PADDING_ID


@dataclass
class Carried:
    """The state of a network, which is of one size after every token: tensors with rows first."""

    tensors: tuple[Tensor, ...]

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        self.tensors = tuple(tensor.index_select(0, rows) for tensor in self.tensors)


@dataclass
class Cached:
    """The state of a Transformer: the keys and values of all earlier tokens, by layer."""

    caches: list[KeyValueCache]

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        for cache in self.caches:
            cache.reorder(rows)


class Autoregressive(Network, ABC):
    """A language model: at each place of a sequence the vector from which `output` predicts the token that follows.

    A kind of language model is a subclass that is made by Class(settings, vocab_size=...) and a line in LANGUAGE_MODELS
    (kinds.py). No vector depends on a later token, and padding stands only after the tokens.
    """

    config: Any
    output: nn.Linear
    """Turns vectors into logits; it has no bias, and the loss reads its weight."""

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time model"]:
        """The vectors of whole sequences."""
        return self.extend(tokens)[0]

    @abstractmethod
    def extend(
        self, tokens: Int[Tensor, "rows time"], state: Any = None
    ) -> tuple[Float[Tensor, "rows time model"], Any]:
        """The vectors of tokens that follow those of a state, `Carried` or `Cached`, and the state after them. None
        begins anew. The state given is used up."""

    def start(
        self, rows: int, prompt: Int[Tensor, " time"] | None = None, context: int | None = None
    ) -> "LanguageModelSteps":
        """Be ready to write `rows` texts after a prompt, whose last token is not in it: a search gives that first.

        `context` is the most tokens that a network sees at once if it was trained on as many and its state grows.
        """
        return LanguageModelSteps(self, rows, prompt)


class WindowConfig(ModelSettings):
    kind: Literal["window"] = "window"
    """The architecture: a feed-forward network over a fixed window."""
    carries_state: ClassVar[bool] = True
    window: int = Field(default=16, ge=1, le=1024)
    """Number of tokens before the next one that the network sees."""
    embedding_dim: int = Field(default=32, ge=1, le=8192)
    """Width of the embeddings, of which `window` are concatenated."""
    model_dim: int = Field(default=256, ge=8, le=8192)
    """Width of the hidden layer."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability of dropping an activation of the embeddings or of the hidden layer."""

    @property
    def width(self) -> int:
        return self.model_dim

    @property
    def reach(self) -> int:
        return self.window

    @property
    def dropouts(self) -> tuple[float, ...]:
        return (self.dropout,)

    def describe(self) -> str:
        return f"{self.window} tokens of {self.embedding_dim}, {self.model_dim} wide"

    def multiply_adds(self, vocab_size: int, *lengths: Int[np.ndarray, " rows"]) -> dict[str, int]:
        tokens = int(lengths[-1].sum())
        hidden = self.window * self.embedding_dim * self.model_dim
        return {"embeddings": 0, "hidden": tokens * hidden, "output": tokens * self.model_dim * vocab_size}


class WindowLanguageModel(Autoregressive):
    """With C(w) the embedding of w, equation (1) of Bengio et al. 2003 without direct connections and output bias:

        x_t = (C(w_{t-1}), ..., C(w_{t-n}))        y_t = U tanh(H x_t + d)

    Before the first token there is padding, which has an embedding of its own.
    """

    def __init__(self, config: WindowConfig, *, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(vocab_size, config.embedding_dim)
        self.dropout = Dropout(config.dropout)
        self.hidden = Linear(config.window * config.embedding_dim, config.model_dim)
        self.output = Linear(config.model_dim, vocab_size, bias=False)

    def extend(
        self, tokens: Int[Tensor, "rows time"], state: Carried | None = None
    ) -> tuple[Float[Tensor, "rows time model"], Carried]:
        """The state is the last window - 1 tokens."""
        rows, time = tokens.shape
        unseen = tokens.new_full((rows, self.config.window - 1), PADDING_ID)
        read = torch.cat([unseen if state is None else state.tensors[0], tokens], dim=1)
        embedded = self.dropout(self.embedding(read).to(self.compute_dtype))
        windows = embedded.unfold(1, self.config.window, 1).flatten(2)  # (rows, time, embedding * window)
        hidden = self.dropout(torch.tanh(self.hidden(windows)))
        return hidden, Carried((read[:, time:],))


class RecurrentLmConfig(ModelSettings):
    kind: Literal["recurrent"] = "recurrent"
    """The architecture: a stack of recurrent layers."""
    carries_state: ClassVar[bool] = True
    cell: Literal["rnn", "gru", "lstm"] = "lstm"
    """The recurrent unit: Elman's with tanh (rnn), the gated recurrent unit (gru), or long short-term memory (lstm)."""
    model_dim: int = Field(default=256, ge=8, le=8192)
    """Width of the embeddings and of every layer."""
    num_layers: int = Field(default=1, ge=1, le=16)
    """Number of recurrent layers; each reads the vectors of the one below."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropping an activation, after the embeddings and after every layer."""
    variational: bool = False
    """Drop the same activations at all places of a row, instead of others at each (Gal and Ghahramani 2016)."""
    weight_drop: float = Field(default=0.0, ge=0, lt=1)
    """Probability of dropping an entry of the recurrent matrices, drawn for each batch (Merity et al. 2018)."""
    tie: bool = True
    """Share one matrix between the embeddings and the output."""

    @property
    def width(self) -> int:
        return self.model_dim

    @property
    def dropouts(self) -> tuple[float, ...]:
        return (self.dropout,)

    def describe(self) -> str:
        return f"{counted(self.num_layers, f'{self.cell.upper()} layer')}, {self.model_dim} wide"

    def multiply_adds(self, vocab_size: int, *lengths: Int[np.ndarray, " rows"]) -> dict[str, int]:
        tokens, gates = int(lengths[-1].sum()), CELLS[self.cell].gates
        layers = self.num_layers * gates * 2 * self.model_dim**2
        return {"embeddings": 0, "layers": tokens * layers, "output": tokens * self.model_dim * vocab_size}


class RecurrentLanguageModel(Autoregressive):
    """h_t = cell(w_t, h_{t-1}), layer upon layer (layers/recurrence.py); the last h_t gives the logits of w_{t+1}."""

    def __init__(self, config: RecurrentLmConfig, *, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        width = config.model_dim
        self.embedding = TokenEmbedding(vocab_size, width)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Recurrence(width, width, cell=config.cell) for _ in range(config.num_layers))
        self.output = Linear(width, vocab_size, bias=False)
        tie_output(self.output, self.embedding if config.tie else None)

    def extend(
        self, tokens: Int[Tensor, "rows time"], state: Carried | None = None
    ) -> tuple[Float[Tensor, "rows time model"], Carried]:
        """The state is what the units hold, layer after layer: h, and of an LSTM also its cell."""
        x, after = self.drop(self.embedding(tokens).to(self.compute_dtype)), list[Tensor]()
        size = CELLS[self.config.cell].states
        for number, layer in enumerate(self.layers):
            before = None if state is None else state.tensors[number * size : (number + 1) * size]
            kept = None
            if self.training and self.config.weight_drop:
                kept = drawn_weight_mask(layer, self.config.weight_drop, self.layer_generator)  # type: ignore[arg-type]
            x, held = layer(x, before, None, kept)
            x = self.drop(x)
            after += held
        return x, Carried(tuple(after))

    def drop(self, x: Float[Tensor, "rows time model"]) -> Float[Tensor, "rows time model"]:
        if not self.config.variational:
            return self.dropout(x)
        return x * self.dropout(torch.ones_like(x[:, :1])) if self.training else x


class TransformerLmConfig(LayerSettings):
    kind: Literal["transformer"] = "transformer"
    """The architecture: a Transformer without an encoder."""
    num_layers: int = Field(default=4, ge=1, le=96)
    """Number of layers."""
    positions: Literal[  # pyright: ignore[reportIncompatibleVariableOverride] (settings are frozen)
        "sinusoidal", "scaled-sinusoidal", "learned", "rotary", "none"
    ] = "rotary"
    """Encoding of positions: sinusoidal, scaled-sinusoidal (with shorter wavelengths), learned vectors, rotary, or
    none, where only the causal mask tells the order."""
    tie: bool = True
    """Share one matrix between the embeddings and the output."""

    def describe(self) -> str:
        return f"{counted(self.num_layers, 'layer')}, {self.model_dim} wide"

    def multiply_adds(self, vocab_size: int, *lengths: Int[np.ndarray, " rows"]) -> dict[str, int]:
        settings = {"width": self.model_dim, "feed_forward": self.feed_forward_entries, "vocab_size": vocab_size}
        settings["attention_steps"] = self.attention_steps
        layers, heads_width = (self.num_layers, 0), (self.num_layers * self.model_dim, 0, 0)
        counts = multiply_adds(
            layers=layers, heads_width=heads_width, sources=lengths[-1], targets=lengths[-1], **settings
        )
        return {"embeddings": 0, "layers": counts["encoder"], "output": counts["output"]}


class TransformerLanguageModel(Autoregressive):
    """Layers of self-attention and feed-forward networks, in which a token sees itself and those before it."""

    @property
    def is_replayable(self) -> bool:
        return not self.config.layer_dropout

    def __init__(self, config: TransformerLmConfig, *, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(vocab_size, config.model_dim)
        self.positions = added_positions(config)
        self.embedding_dropout = Dropout(config.dropout_unless(config.embedding_dropout))
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        self.norm = last_norm(config)
        self.output = Linear(config.model_dim, vocab_size, bias=False)
        tie_output(self.output, self.embedding if config.tie else None)

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time model"]:
        x, allowed_mask = self.embed(tokens), causal_mask(tokens.size(1), tokens.device)
        for layer in active_layers(self, self.layers):
            x = layer(x, allowed_mask)
        return self.norm(x)

    def extend(
        self, tokens: Int[Tensor, "rows time"], state: Cached | None = None
    ) -> tuple[Float[Tensor, "rows time model"], Cached]:
        """The state is changed in place and returned."""
        state = state or Cached([KeyValueCache() for _ in self.layers])
        x = self.embed(tokens, state.caches[0].length)
        for layer, cache in zip(self.layers, state.caches, strict=True):
            x = layer.step(x, cache)  # type: ignore[operator] (nn.ModuleList forgets what it holds)
        return self.norm(x), state

    def embed(self, tokens: Int[Tensor, "batch time"], offset: int = 0) -> Float[Tensor, "batch time model"]:
        x = self.embedding(tokens)
        if self.positions is not None:
            x = self.positions(x, offset)
        return self.embedding_dropout(x.to(self.compute_dtype))

    def start(
        self, rows: int, prompt: Int[Tensor, " time"] | None = None, context: int | None = None
    ) -> "LanguageModelSteps":
        limits = [limit for limit in (context, self.config.longest) if limit is not None]
        return LanguageModelSteps(self, rows, prompt, context=min(limits, default=None))


def tie_output(output: Linear, embedding: TokenEmbedding | None) -> None:
    """Let the output have the embedding's matrix (Press and Wolf 2017), or fresh weights of the same size."""
    if embedding is None:
        draw_normal(output.weight, output.in_features**-0.5)
    else:
        output.weight = embedding.weight


class LanguageModelSteps:
    """A step function over one text a row, all of which begin with the same prompt (without its last token, which is
    the first that a search gives).

    `context` is the number of tokens that the network can see at once. When it is reached, the last half of them is
    read anew, so every token is predicted from at least half of the context once that much has been read.
    """

    def __init__(
        self,
        network: Autoregressive,
        rows: int,
        prompt: Int[Tensor, " time"] | None = None,
        *,
        context: int | None = None,
    ) -> None:
        self.network, self.context = network, context
        self.state: Carried | Cached | None = None
        self.seen = None if prompt is None or not len(prompt) else prompt[None, -(context or len(prompt)) :]
        if self.seen is not None:
            _, self.state = network.extend(self.seen)
            self.reorder(self.seen.new_zeros(rows))
        if context is None:
            self.seen = None  # it is not read again

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Take the newest token of every row, return the log-probabilities (fp32) of the one that follows."""
        new = tokens[:, None]
        if self.context is not None:
            self.seen = new if self.seen is None else torch.cat([self.seen, new], dim=1)
            if self.seen.size(1) > self.context:
                self.seen = new = self.seen[:, -max(1, self.context // 2) :]
                self.state = None
        hidden, self.state = self.network.extend(new, self.state)
        return F.log_softmax(self.network.output(hidden[:, -1]).float(), dim=-1)

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue what row rows[i] was."""
        if self.state is not None:
            self.state.reorder(rows)
        if self.seen is not None:
            self.seen = self.seen.index_select(0, rows)
