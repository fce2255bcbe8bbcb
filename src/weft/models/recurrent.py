"""An LSTM that reads, an LSTM that writes, and attention between them.

Luong, Pham and Manning 2015, "Effective Approaches to Attention-based Neural Machine Translation":

    score(t, s)  = h_t^T W h_s                    general score (equation 8) of target place t and source place s
    a_t          = softmax over the source tokens of score(t, .)
    c_t          = sum over s of a_t(s) h_s       context
    h~_t         = tanh(W_c [c_t; h_t])           equation 5; the output layer turns it into logits

The encoder reads in both directions, each half as wide. The decoder begins with tanh(W_0 m), where m is the mean of the
encoder's vectors (Sennrich et al. 2017, "Nematus", section 3.1). It is not fed its last h~, so the whole target is
computed at once in training. The two LSTMs compute in fp32, whatever the precision of the rest.
"""

import threading
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from weft.layers.dropout import Dropout
from weft.layers.embedding import TokenEmbedding
from weft.layers.linear import Linear
from weft.layers.masks import padding_mask
from weft.models.contract import ModelSettings


class RecurrentConfig(ModelSettings):
    kind: Literal["recurrent"] = "recurrent"
    """The architecture: an LSTM encoder and decoder with attention."""
    model_dim: int = Field(default=256, ge=8, le=8192, multiple_of=2)
    """Width of the embeddings, of the LSTMs and of everything between them."""
    encoder_layers: int = Field(default=1, ge=1, le=16)
    """LSTM layers that read the source."""
    decoder_layers: int = Field(default=1, ge=1, le=16)
    """LSTM layers that write the target."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Probability of dropping an activation, after embeddings, between LSTM layers and before the output."""

    @property
    def width(self) -> int:
        return self.model_dim

    @property
    def dropouts(self) -> tuple[float, ...]:
        return (self.dropout,)

    @property
    def attending_layers(self) -> int:
        return 1

    def describe(self) -> str:
        return f"{self.encoder_layers}+{self.decoder_layers} LSTM layers, {self.model_dim} wide"


State = tuple[Float[Tensor, "layers rows model"], Float[Tensor, "layers rows model"]]
"""The hidden vectors and the cells of every layer of the decoder."""


class RecurrentSeq2Seq(nn.Module):
    """Scores of the next target token given a source sentence and the target tokens so far."""

    compute_dtype: torch.dtype = torch.float32
    layer_generator: torch.Generator | None = None
    is_replayable = False  # packing a batch reads its lengths

    def __init__(
        self, config: RecurrentConfig, *, source_vocab_size: int, target_vocab_size: int, padding_id: int
    ) -> None:
        super().__init__()
        self.config, self.padding_id = config, padding_id
        width = config.model_dim
        self.source_embedding = TokenEmbedding(source_vocab_size, width)
        self.target_embedding = TokenEmbedding(target_vocab_size, width)
        self.dropout = Dropout(config.dropout)
        self.encoder = lstm(width, width // 2, config.encoder_layers, config.dropout, bidirectional=True)
        self.decoder = lstm(width, width, config.decoder_layers, config.dropout)
        self.begin = Linear(width, width * config.decoder_layers * 2)
        self.score = Linear(width, width, bias=False)
        self.combine = Linear(2 * width, width, bias=False)
        self.output = Linear(width, target_vocab_size)
        self.computing = threading.RLock()

    def forward(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position (teacher forcing); `target` begins with <s>."""
        return self.output(self.decode(target, *self.encode(source)))

    def encode(
        self, source: Int[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source model"], Bool[Tensor, "batch 1 1 source"]]:
        """The encoder's vectors, zero at padding, and the mask that is True at tokens."""
        mask = padding_mask(source, self.padding_id)
        lengths = mask[:, 0, 0].sum(1).clamp(min=1).cpu()  # a row of padding alone keeps one place
        x = self.dropout(self.source_embedding(source))
        read, _ = self.encoder(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        memory, _ = pad_packed_sequence(read, batch_first=True, total_length=source.size(1))
        return self.dropout(memory).to(self.compute_dtype), mask

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source model"],
        source_mask: Bool[Tensor, "batch 1 1 source"],
    ) -> Float[Tensor, "batch target model"]:
        """The vectors h~ at every target position; each depends on the tokens up to its own alone."""
        hidden, _ = self.decoder(self.dropout(self.target_embedding(target)), self.first_state(memory, source_mask))
        return self.attend(hidden.to(self.compute_dtype), memory, source_mask)[0]

    def first_state(
        self, memory: Float[Tensor, "rows source model"], source_mask: Bool[Tensor, "rows 1 1 source"]
    ) -> State:
        tokens = source_mask[:, 0, 0, :, None]
        mean = (memory.float() * tokens).sum(1) / tokens.sum(1).clamp(min=1)
        begun = torch.tanh(self.begin(mean)).view(len(memory), 2, self.config.decoder_layers, -1)
        hidden, cell = begun.permute(1, 2, 0, 3).contiguous()
        return hidden, cell

    def attend(
        self,
        hidden: Float[Tensor, "rows target model"],
        memory: Float[Tensor, "rows source model"],
        source_mask: Bool[Tensor, "rows 1 1 source"],
    ) -> tuple[Float[Tensor, "rows target model"], Float[Tensor, "rows target source"]]:
        """h~ and the attention a; padding gets exactly none."""
        scores = self.score(hidden) @ memory.mT
        attention = scores.float().masked_fill(~source_mask[:, 0], -torch.inf).softmax(-1)
        context = attention.to(memory.dtype) @ memory
        return self.dropout(torch.tanh(self.combine(torch.cat([context, hidden], -1)))), attention

    def start(self, source: Int[Tensor, "batch source"], rows_per_sentence: int = 1) -> "RecurrentState":
        """Encode the source and be ready to write `rows_per_sentence` hypotheses for each sentence."""
        return RecurrentState(self, source, rows_per_sentence)

    start_plain = start

    def repack(self) -> None:
        """Do nothing: a search reads the weights themselves."""

    def __getstate__(self) -> dict[str, Any]:
        """State for copying and pickling, without the lock, which belongs to this instance."""
        return {name: value for name, value in vars(self).items() if name != "computing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.computing = threading.RLock()


def lstm(inputs: int, width: int, layers: int, dropout: float, *, bidirectional: bool = False) -> nn.LSTM:
    """An LSTM with dropout between its layers; torch warns of a dropout that a single layer has no place for."""
    between = dropout if layers > 1 else 0.0
    return nn.LSTM(inputs, width, layers, batch_first=True, dropout=between, bidirectional=bidirectional)


class RecurrentState:
    """A step function over one batch: row r writes a hypothesis for sentence r // rows_per_sentence."""

    def __init__(self, network: RecurrentSeq2Seq, source: Int[Tensor, "batch source"], rows_per_sentence: int) -> None:
        self.network, self.rows_per_sentence = network, rows_per_sentence
        memory, mask = network.encode(source)
        self.memory, self.mask = (each.repeat_interleave(rows_per_sentence, 0) for each in (memory, mask))
        self.state = network.first_state(self.memory, self.mask)

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Take the newest token of every row, return log-probabilities (fp32) of the one that follows."""
        network = self.network
        hidden, self.state = network.decoder(network.target_embedding(tokens[:, None]), self.state)
        combined, self.attention = network.attend(hidden.to(network.compute_dtype), self.memory, self.mask)
        return F.log_softmax(network.output(combined[:, 0]).float(), dim=-1)

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue what row rows[i] was."""
        self.memory, self.mask = self.memory.index_select(0, rows), self.mask.index_select(0, rows)
        hidden, cell = self.state
        self.state = hidden.index_select(1, rows), cell.index_select(1, rows)
        self.attention = self.attention.index_select(0, rows)

    def source_mask(self) -> Bool[Tensor, "sentences source"]:
        """True at the source tokens of each sentence, </s> included, False at padding."""
        return self.mask[:: self.rows_per_sentence, 0, 0]

    def source_attention(self) -> Float[Tensor, "rows source"]:
        """Attention of each row to the source in the last step."""
        return self.attention[:, 0]

    def head_attention(self) -> Float[Tensor, "1 rows 1 source"]:
        """`source_attention` as that of the only head of the only layer."""
        return self.attention[None, :, None, 0]
