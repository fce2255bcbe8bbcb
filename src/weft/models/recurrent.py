"""Recurrent translation with attention: a network that reads, a network that writes, and attention between them.

With x_t the embedding of target token t-1, m_s the encoder's vector of source token s and d the decoder's layers:

    h_t       = d([x_t; o_{t-1}], h_{t-1})      o_{t-1} with `input_feeding` alone (Luong et al. 2015, section 3.3)
    a_t       = softmax over s of score(h_t, m_s)       layers/source_attention.py has the scores
    c_t       = sum over s of a_t(s) m_s        context
    o_t       = tanh(W_c [c_t; h_t])            Luong's equation 5; the output layer turns it into logits

The encoder reads in both directions, after a convolution over the embeddings if there is one. The decoder begins with
its last states, projected. Each of these is a key of its own:

    coverage             what a token was attended to before counts in its score, and attending to it again costs
                         sum over s of min(a_t(s), what it had before) (See et al. 2017, equations 10 to 13)
    copying              a gate s(w^T [c_t; h_t; x_t] + b) shares the probability between the soft-max and a_t, which
                         copies source tokens (See et al. 2017, equations 8 and 9; Gu et al. 2016)
    scheduled_sampling   in training a token is sometimes the model's own (Bengio et al. 2015); this loss is biased
    weight_drop          dropout of recurrent matrices, one mask a batch (Merity et al. 2018)

Without input feeding, coverage and sampling the whole target is one call. Otherwise `Writing.advance` computes a step,
in training as in a search.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from weft.config import FieldProblem
from weft.errors import UsageError
from weft.layers.dropout import Dropout
from weft.layers.embedding import TokenEmbedding
from weft.layers.fast.deferred_product import Deferred
from weft.layers.fast.packed_linear import PackedLinear
from weft.layers.linear import Linear
from weft.layers.masks import padding_mask
from weft.layers.recurrence import CELLS, Recurrence, State, Stepper, drawn_weight_mask
from weft.layers.source_attention import SourceAttention
from weft.models.contract import Copied, Decoded, ModelSettings, Seq2Seq
from weft.text.vocabulary import FIRST_PIECE


class RecurrentConfig(ModelSettings):
    kind: Literal["recurrent"] = "recurrent"
    """The architecture: a recurrent encoder and decoder with attention."""
    cell: Literal["lstm", "gru", "rnn"] = "lstm"
    """The recurrent cell of all layers; rnn is the plain one."""
    embedding_dim: int = Field(default=256, ge=8, le=8192)
    """Width of the embeddings."""
    hidden_dim: int = Field(default=512, ge=8, le=8192)
    """Width of the decoder's layers."""
    encoder_dim: int | None = Field(default=None, ge=4, le=8192)
    """Width of the encoder's layers in each direction. If not set: half of hidden_dim."""
    encoder_layers: int = Field(default=1, ge=1, le=16)
    """Layers that read the source, in both directions."""
    decoder_layers: int = Field(default=1, ge=1, le=16)
    """Layers that write the target."""
    connections: Literal["none", "residual", "dense", "highway"] = "none"
    """Connections around each layer: none, residual (add the input), highway (a gate interpolates between input and
    output), or dense (the next layer reads both). Residual and highway apply where both are equally wide."""
    convolution: int = Field(default=0, ge=0, le=16)
    """Window of a convolution over the source embeddings, in tokens. 0: none."""
    attention: Literal["none", "dot", "multiplicative", "additive", "scaled"] = "multiplicative"
    """Score of the attention to the source; dot and scaled need hidden_dim = 2 * encoder_dim."""
    input_feeding: bool = True
    """Whether the decoder reads its last output vector; without it the whole target is computed at once in training."""
    coverage: float = Field(default=0.0, ge=0, le=100)
    """Weight of the loss for attending to a token again; above 0, attention also knows what it attended to. 0: off."""
    copying: bool = False
    """Whether source tokens that are pieces of the target vocabulary can be copied by their attention."""
    scheduled_sampling: float = Field(default=0.0, ge=0, le=1)
    """Probability in training that the decoder reads its own prediction instead of the target token."""
    dropout: float = Field(default=0.3, ge=0, lt=1)
    """Probability of dropping an activation, after embeddings, between layers, and before the output."""
    weight_drop: float = Field(default=0.0, ge=0, lt=1)
    """Probability of dropping an entry of a recurrent matrix, drawn once a batch."""
    tie: Literal["none", "decoder", "all"] = "decoder"
    """Share one matrix: none; decoder embedding and output (decoder); or also the encoder embedding (all)."""
    initialization: float | None = Field(default=None, gt=0, le=1)
    """Draw all new weights uniformly from [-initialization, initialization], those of embeddings divided by the square
    root of their width, by which their vectors are multiplied. If not set: Xavier initialization, with a forget-gate
    bias of 1."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.connections == "dense" and self.encoder_layers == self.decoder_layers == 1:
            yield FieldProblem("connections", "joins a layer with the next; set encoder_layers or decoder_layers to 2")
        is_product = self.attention in ("dot", "scaled")
        if self.hidden_dim % 2 and (self.encoder_dim is None or is_product):
            also = 'choose attention = "multiplicative" and ' if is_product else ""
            yield FieldProblem("hidden_dim", f"must be even, or {also}set encoder_dim")
        elif is_product and self.hidden_dim != self.memory_width:
            what = f"multiplies vectors of equal width; set encoder_dim = {self.hidden_dim // 2}, or use multiplicative"
            yield FieldProblem("attention", what)
        for key in ("coverage", "copying"):
            if self.attention == "none" and getattr(self, key):
                yield FieldProblem(key, 'needs attention; it is "none"')

    @property
    def memory_width(self) -> int:
        """Width of the encoder's vectors, both directions together."""
        return 2 * (self.encoder_dim or self.hidden_dim // 2)

    def begins_with(self, layer: int) -> int:
        """The number of the encoder's layer with whose last state a layer of the decoder begins. Of a deeper encoder
        these are the top layers; a deeper decoder's further layers begin with the top one."""
        return min(max(0, self.encoder_layers - self.decoder_layers) + layer, self.encoder_layers - 1)

    @property
    def output_width(self) -> int:
        """Width of o, which a tied output needs to be that of the embeddings."""
        return self.hidden_dim if self.tie == "none" else self.embedding_dim

    @property
    def goes_step_by_step(self) -> bool:
        """Whether a step of the decoder depends on the attention of the last one."""
        return self.input_feeding or self.coverage > 0

    @property
    def width(self) -> int:
        return self.hidden_dim

    @property
    def dropouts(self) -> tuple[float, ...]:
        return (self.dropout,)  # weight_drop is the same for all rows of a batch

    @property
    def needs_one_vocabulary(self) -> bool:
        return self.tie == "all"

    @property
    def attending_layers(self) -> int:
        return int(self.attention != "none")

    @property
    def copies(self) -> bool:
        return self.copying

    def describe(self) -> str:
        return f"{self.encoder_layers}+{self.decoder_layers} {self.cell.upper()} layers, {self.hidden_dim} wide"

    def multiply_adds(self, vocab_size: int, *lengths: Int[np.ndarray, " pairs"]) -> dict[str, int]:
        """As of the Transformer (cost.py): matrix products alone, padding not counted."""
        sources, targets = lengths
        source, target, both = int(sources.sum()), int(targets.sum()), int((sources * targets).sum())
        with torch.device("meta"):
            network = RecurrentSeq2Seq(self, source_vocab_size=8, target_vocab_size=8, padding_id=0)
        entries = {
            name: sum(parameter.numel() for parameter in part.parameters() if parameter.dim() > 1)
            for name, part in network.named_children()
        }
        key = 0 if self.attention in ("none", "dot", "scaled") else self.memory_width * self.hidden_dim
        seen = 0 if self.attention == "none" else self.hidden_dim + self.memory_width
        query = self.hidden_dim**2 if self.attention == "additive" else 0
        return {
            "embeddings": 0,
            "encoder": source * (entries["encoder"] + self.convolution * self.embedding_dim**2),
            "decoder": target * (entries["decoder"] + entries["combine"] + entries.get("gate", 0) + query)
            + len(sources) * entries["begin"]
            + source * key
            + both * seen,
            "output": target * vocab_size * self.output_width,
        }


class Stack(nn.Module):
    """Recurrent layers on top of each other, with the connections of the recipe."""

    def __init__(
        self, inputs: int, width: int, layers: int, config: RecurrentConfig, *, bidirectional: bool = False
    ) -> None:
        super().__init__()
        self.connections, self.weight_drop = config.connections, config.weight_drop
        self.dropout = Dropout(config.dropout)
        self.width = outputs = width * (1 + bidirectional)
        self.layers, self.gates = nn.ModuleList(), nn.ModuleList()
        for _ in range(layers):
            self.layers.append(Recurrence(inputs, width, cell=config.cell, bidirectional=bidirectional))
            is_gated = config.connections == "highway" and inputs == outputs
            self.gates.append(Linear(inputs, outputs) if is_gated else nn.Identity())
            inputs = inputs + outputs if config.connections == "dense" else outputs

    def forward(
        self, x: Float[Tensor, "*batch inputs"], layer: Callable[[int, Tensor], Tensor]
    ) -> Float[Tensor, "*batch outputs"]:
        """The output of the last layer; `layer` computes a layer by its number, over a sequence or a step of it."""
        for number, gate in enumerate(self.gates):
            is_last = number + 1 == len(self.gates)
            y = layer(number, x)
            y = y if is_last else self.dropout(y)
            if self.connections == "dense" and not is_last:
                x = torch.cat([x, y], dim=-1)
            elif self.connections == "residual" and x.size(-1) == y.size(-1):
                x = x + y
            elif isinstance(gate, Linear):
                x = torch.lerp(x, y, torch.sigmoid(gate(x)))
            else:
                x = y
        return x

    def weight_masks(self, generator: torch.Generator | None) -> list[Tensor | None]:
        """The mask of each layer's recurrent matrix in this batch; None without weight drop."""
        drop = self.weight_drop if self.training else 0.0
        layers = [layer for layer in self.layers if isinstance(layer, Recurrence)]
        return [drawn_weight_mask(layer, drop, generator) if drop else None for layer in layers]

    def over_sequences(
        self,
        x: Float[Tensor, "batch time inputs"],
        begin: Sequence[State | None],
        mask: Bool[Tensor, "batch time"] | None,
        kept: Sequence[Tensor | None],
    ) -> tuple[Float[Tensor, "batch time outputs"], list[State]]:
        """The outputs, and the last states of all layers."""
        ends: list[State] = []

        def layer(number: int, below: Tensor) -> Tensor:
            out, end = self.layers[number](below, begin[number], mask, kept[number])
            ends.append(end)
            return out

        return self(x, layer), ends


class RecurrentSeq2Seq(Seq2Seq):
    """Scores of the next target token given a source sentence and the target tokens so far."""

    config: RecurrentConfig

    def __init__(
        self, config: RecurrentConfig, *, source_vocab_size: int, target_vocab_size: int, padding_id: int
    ) -> None:
        super().__init__()
        self.config, self.padding_id = config, padding_id
        embedding, hidden, memory = config.embedding_dim, config.hidden_dim, config.memory_width
        context = memory if config.attention != "none" else 0
        fed = config.output_width if config.input_feeding else 0
        self.source_embedding = TokenEmbedding(source_vocab_size, embedding)
        self.target_embedding = TokenEmbedding(target_vocab_size, embedding)
        self.dropout = Dropout(config.dropout)
        self.convolution = Linear(config.convolution * embedding, embedding) if config.convolution else None
        self.encoder = Stack(embedding, memory // 2, config.encoder_layers, config, bidirectional=True)
        self.decoder = Stack(embedding + fed, hidden, config.decoder_layers, config)
        begun = config.decoder_layers * CELLS[config.cell].states
        self.begin = nn.ModuleList(Linear(memory, hidden, bias=False) for _ in range(begun))
        self.attention = (
            SourceAttention(config.attention, hidden, memory, coverage=config.coverage > 0) if context else None
        )
        self.combine = Linear(context + hidden, config.output_width, bias=False)
        self.gate = Linear(context + hidden + embedding, 1) if config.copying else None
        if config.copying:
            self.register_buffer("target_ids", torch.full((source_vocab_size,), -1), persistent=False)
        self.output = Linear(config.output_width, target_vocab_size, bias=config.tie == "none")
        if config.tie != "none":
            self.output.weight = self.target_embedding.weight
        if config.tie == "all":
            self.source_embedding.weight = self.target_embedding.weight
        if config.initialization is not None:
            self._draw_evenly(config.initialization)

    def _draw_evenly(self, most: float) -> None:
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -most, most)
        for weight in {self.source_embedding.weight, self.target_embedding.weight}:
            weight.data /= self.source_embedding.scale  # so that the vectors are in this range

    def copy_between(self, source_pieces: Sequence[str], target_pieces: Sequence[str]) -> None:
        """Let source pieces be copied to the target pieces of the same text."""
        ids = {piece: number for number, piece in enumerate(target_pieces) if number >= FIRST_PIECE}
        found = [ids.get(piece, -1) if number >= FIRST_PIECE else -1 for number, piece in enumerate(source_pieces)]
        self.target_ids = torch.tensor(found)

    def forward(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Log-probabilities of the token after each target position (teacher forcing); `target` begins with <s>."""
        return self.states(source, target).log_probs(self.output)

    def encode(
        self, source: Int[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source memory"], Bool[Tensor, "batch source"], list[State]]:
        """The encoder's vectors, the mask that is True at tokens, and the decoder's first states."""
        mask = padding_mask(source, self.padding_id)[:, 0, 0]
        # A sentence reaches to its last token; one that augmentation replaced by padding within it is read as zeros.
        within = mask.flip(1).cumsum(1).flip(1) > 0
        x = self.dropout(self.source_embedding(source).to(self.compute_dtype)) * mask[..., None]
        if self.convolution is not None:
            window = self.config.convolution
            before = (window - 1) // 2  # "same" padding, as torch has it: the odd one comes after
            padded = F.pad(x, (0, 0, before, window - 1 - before))
            x = self.convolution(padded.unfold(1, window, 1).flatten(2))
        kept = self.encoder.weight_masks(self.layer_generator)
        memory, ends = self.encoder.over_sequences(x, [None] * len(kept), within, kept)
        first = []
        for number in range(self.config.decoder_layers):
            end = ends[self.config.begins_with(number)]
            projections = self.begin[number * len(end) : (number + 1) * len(end)]
            first.append(tuple(project(each) for project, each in zip(projections, end, strict=True)))
        return self.dropout(memory), mask, first

    def states(self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]) -> Decoded:
        writing = Writing(self, source, 1)
        samples = self.config.scheduled_sampling if self.training else 0.0
        if self.config.goes_step_by_step or samples:
            return writing.step_by_step(target, samples)
        return writing.at_once(target)

    def start(self, source: Int[Tensor, "batch source"], rows_per_sentence: int = 1) -> "Writing":
        """Encode the source and be ready to write `rows_per_sentence` hypotheses for each sentence."""
        return Writing(self, source, rows_per_sentence)

    start_plain = start


class Writing:
    """The decoder over one batch: row r writes a target of sentence r // rows_per_sentence. In training it reads whole
    targets, in a search it is a step function."""

    weights: Float[Tensor, "rows source"] | None = None
    """The attention of the last step."""

    def __init__(self, network: RecurrentSeq2Seq, source: Int[Tensor, "batch source"], rows_per_sentence: int) -> None:
        self.network, self.rows_per_sentence = network, rows_per_sentence
        memory, self.mask, first = network.encode(source)
        self.source = None if network.attention is None else network.attention.prepare(memory, self.mask)
        self.state = [tuple(each.repeat_interleave(rows_per_sentence, 0) for each in state) for state in first]
        rows = len(source) * rows_per_sentence
        self.fed = memory.new_zeros(rows, network.config.output_width)
        self.covered = self.state[0][0].new_zeros(rows, source.size(1))
        self.copied_ids = network.target_ids[source] if network.config.copying else None
        self.kept = network.decoder.weight_masks(network.layer_generator)

    @cached_property
    def steppers(self) -> list[Stepper]:
        layers = [layer for layer in self.network.decoder.layers if isinstance(layer, Recurrence)]
        # In training what embeddings add is computed for all steps at once, in a search it is part of a step's product.
        first = self.network.config.embedding_dim if torch.is_grad_enabled() else 0
        known = [first] + [0] * (len(layers) - 1)
        return [
            Stepper(layer, self.network.compute_dtype, kept, inputs)
            for layer, kept, inputs in zip(layers, self.kept, known, strict=True)
        ]

    @cached_property
    def combine(self) -> Deferred:
        return Deferred(self.network.combine.weight.to(self.network.compute_dtype))

    @cached_property
    def output(self) -> Callable[[Tensor], Tensor]:
        """The output layer, laid out for a search."""
        layer, dtype = self.network.output, self.network.compute_dtype
        can_be_packed = not torch.is_grad_enabled() and dtype != torch.float64
        return PackedLinear.of([layer], dtype) if can_be_packed else layer

    def embedded(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time embedding"]:
        return self.network.dropout(self.network.target_embedding(tokens).to(self.network.compute_dtype))

    def at_once(self, target: Int[Tensor, "batch target"]) -> Decoded:
        """Whole targets, in one call of every layer."""
        x = self.embedded(target)
        hidden, _ = self.network.decoder.over_sequences(x, self.state, None, self.kept)
        combined, _, shares = self.attend(hidden, x)
        return self.decoded(combined, shares)

    def step_by_step(self, target: Int[Tensor, "batch target"], samples: float) -> Decoded:
        """Whole targets, a token at a time; with probability `samples` one is what the model wrote before it."""
        network, x = self.network, self.embedded(target)
        projected = self.steppers[0].project(x).unbind(1) if self.steppers[0].known else repeat(None, x.size(1))
        steps: list[tuple[Tensor, Tensor | None, Tensor | None]] = []
        for place, (newest, known) in enumerate(zip(x.unbind(1), projected, strict=True)):
            if samples and place:
                with torch.no_grad():
                    own = self.decoded(*steps[-1]).log_probs(network.output).argmax(-1)
                draws = torch.rand(len(target), 1, device=target.device) < samples
                newest, known = self.embedded(torch.where(draws, own, target[:, place : place + 1]))[:, 0], None
            steps.append(self.advance(newest, known))
        combined, shares, penalties = zip(*steps, strict=True)
        return self.decoded(
            torch.cat(combined, 1),
            None if shares[0] is None else torch.cat(shares, 1),
            None if penalties[0] is None else torch.cat(penalties, 1),
        )

    def advance(
        self, x: Float[Tensor, "rows embedding"], projected: Float[Tensor, "rows gates"] | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Read one token a row; return the vectors o (sentences, hypotheses, output), the probabilities with which
        source tokens are copied, and the penalties of coverage."""

        def layer(number: int, below: Tensor) -> Tensor:
            given = projected if number == 0 else None
            out, self.state[number] = self.steppers[number](below, self.state[number], given)
            return out

        config = self.network.config
        below = torch.cat([x, self.fed], dim=-1) if config.input_feeding else x
        by_sentence = (len(self.mask), self.rows_per_sentence)
        hidden = self.network.decoder(below, layer).unflatten(0, by_sentence)
        covered = self.covered.unflatten(0, by_sentence) if config.coverage else None
        combined, weights, shares = self.attend(hidden, x.unflatten(0, by_sentence), covered)
        self.fed = combined.flatten(0, 1)
        penalty = None
        if weights is not None:
            self.weights = weights.flatten(0, 1)
            if covered is not None:
                penalty = config.coverage * torch.minimum(weights, covered).sum(-1)
                self.covered = self.covered + self.weights
        return combined, shares, penalty

    def attend(
        self,
        hidden: Float[Tensor, "sentences rows hidden"],
        x: Float[Tensor, "sentences rows embedding"],
        covered: Float[Tensor, "sentences rows source"] | None = None,
    ) -> tuple[
        Float[Tensor, "sentences rows output"],
        Float[Tensor, "sentences rows source"] | None,
        Float[Tensor, "sentences rows source"] | None,
    ]:
        """The vectors o, the attention, and the probabilities with which source tokens are copied."""
        network, weights, shares = self.network, None, None
        if network.attention is not None and self.source is not None:
            context, weights = network.attention(hidden, self.source, covered)
            hidden = torch.cat([context, hidden], dim=-1)
        if network.gate is not None and weights is not None and self.copied_ids is not None:
            gate = torch.sigmoid(network.gate(torch.cat([hidden, x], dim=-1)).to(weights.dtype))
            shares = (1 - gate) * weights * (self.copied_ids >= 0)[:, None]
        combined = self.combine(hidden.flatten(0, 1)).unflatten(0, hidden.shape[:2])
        return network.dropout(torch.tanh(combined)), weights, shares

    def decoded(self, combined: Tensor, shares: Tensor | None, penalty: Tensor | None = None) -> Decoded:
        if shares is None or self.copied_ids is None:
            return Decoded(combined, None, penalty)
        return Decoded(combined, Copied(shares, self.copied_ids.clamp(min=0)), penalty)

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Take the newest token of every row, return log-probabilities (fp32) of the one that follows."""
        decoded = self.decoded(*self.advance(self.embedded(tokens[:, None])[:, 0]))
        return decoded.log_probs(self.output).flatten(0, 1)

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue what row rows[i] was. Rows stay with their sentence; sentences may be left out."""
        self.state = [tuple(each.index_select(0, rows) for each in state) for state in self.state]
        self.fed, self.covered = self.fed.index_select(0, rows), self.covered.index_select(0, rows)
        self.weights = None if self.weights is None else self.weights.index_select(0, rows)
        sentences = rows[:: self.rows_per_sentence] // self.rows_per_sentence
        if len(sentences) < len(self.mask):
            self.mask = self.mask.index_select(0, sentences)
            self.source = None if self.source is None else self.source.of_sentences(sentences)
            self.copied_ids = None if self.copied_ids is None else self.copied_ids.index_select(0, sentences)

    def source_mask(self) -> Bool[Tensor, "sentences source"]:
        """True at the source tokens of each sentence, </s> included, False at padding."""
        return self.mask

    def source_attention(self) -> Float[Tensor, "rows source"]:
        """Attention of each row to the source in the last step. Raises UsageError if the model has none."""
        if self.weights is None:
            raise UsageError('this model has no attention (model.attention = "none")')
        return self.weights

    def head_attention(self) -> Float[Tensor, "1 rows 1 source"]:
        """`source_attention` as that of the only head of the only layer."""
        return self.source_attention()[None, :, None]
