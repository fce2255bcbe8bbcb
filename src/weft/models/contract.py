"""What the rest of weft asks of a model.

ModelSettings  the [model] table of a recipe, whatever the architecture
Decoded        what a network predicts from, of all target places at once
Seq2Seq        the network that a translation loss trains and a search steps through

The other kind of network, a language model, is `Autoregressive` (language_model.py).
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from weft.config import Settings


class ModelSettings(Settings):
    """The base of every [model] table. `kind` names the architecture and decides which other keys there are."""

    kind: Any
    """The architecture; a `Literal` of its name in every subclass."""
    is_counted: ClassVar[bool] = False
    """Whether the model is learned at once, from counts (`TaskKind.fit`), and not by steps of the Trainer."""
    carries_state: ClassVar[bool] = False
    """Whether a language model is trained on a running text from the state after the text before (see
    `Autoregressive.extend`), which then is of one size whatever came before."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Size of the vectors between layers; Noam's learning rate is proportional to its inverse square root."""

    @property
    def longest(self) -> int | None:
        """Most tokens of a sentence on either side, <s> or </s> counted; None where there is no limit."""
        return None

    @property
    def dropouts(self) -> tuple[float, ...]:
        """The dropout probabilities in force, one for each place that drops activations."""
        return ()

    @property
    def needs_one_vocabulary(self) -> bool:
        """Whether source and target share a matrix, and so must share their vocabulary."""
        return False

    @property
    def attending_layers(self) -> int:
        """Layers that attend to the source and tell how (`AttendingSteps`)."""
        return 0

    @abstractmethod
    def describe(self) -> str:
        """The size in a few words, such as "4+4 layers, 256 wide"."""

    @property
    def reach(self) -> int | None:
        """The most earlier tokens that a language model's prediction depends on; None if there is no bound."""
        return None

    @property
    def copies(self) -> bool:
        """Whether the network copies source tokens, so that probabilities are more than a soft-max of its output."""
        return False

    def multiply_adds(self, vocab_size: int, *lengths: Int[np.ndarray, " rows"]) -> dict[str, int] | None:
        """Multiply-adds of a forward pass, by part of the network (cost.py); None where they are not counted.

        `lengths` holds the tokens of every row, an array for each column of the data: of pairs the source tokens with
        </s>, and the target tokens to predict. `vocab_size` is the number of pieces that the output ranks.
        """
        return None


@dataclass(frozen=True)
class Copied:
    """Probabilities with which source tokens are copied; what they leave to 1 is that of the output's soft-max."""

    shares: Float[Tensor, "batch target source"]
    ids: Int[Tensor, "batch source"]
    """Target ids of the source tokens; any id for a token that the target vocabulary lacks, whose share is 0."""


@dataclass(frozen=True)
class Decoded:
    """What a decoder knows at each target place."""

    hidden: Float[Tensor, "batch target model"]
    """What `output` turns into logits of the next token."""
    copied: Copied | None = None
    penalty: Float[Tensor, "batch target"] | None = None
    """What the network adds to the loss of each place."""

    def log_probs(self, output: Callable[[Tensor], Tensor]) -> Float[Tensor, "batch target vocab"]:
        """Log-probabilities of the next token, in fp32."""
        logits = output(self.hidden)
        generated = F.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
        if self.copied is None:
            return generated
        shares = self.copied.shares.to(generated.dtype)
        left = (1 - shares.sum(-1, keepdim=True)).clamp(min=0)
        ids = self.copied.ids[:, None].expand_as(shares)
        mixed = (left * generated.exp()).scatter_add(-1, ids, shares)
        return mixed.clamp(min=torch.finfo(mixed.dtype).tiny).log()


@runtime_checkable
class Steps(Protocol):
    """What `Seq2Seq.start` returns: weft.decoding searches it (decoding/step.py has the same protocol)."""

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Take the newest token of every row, return the log-probabilities (fp32) of the one that follows."""
        ...

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue what row rows[i] was."""
        ...


@runtime_checkable
class AttendingSteps(Steps, Protocol):
    """Steps that also tell where they look in the source."""

    def head_attention(self) -> Float[Tensor, "layers rows heads source"]:
        """Attention of each row to the source in the last step, by every head of every layer."""
        ...


class Network(nn.Module):
    """What networks of every kind have."""

    compute_dtype: torch.dtype = torch.float32
    """Precision of the activations; the parameters are fp32 whatever it is (layers/linear.py)."""
    layer_generator: torch.Generator | None = None
    """Draws what all rows of a batch have in common: the layers that a training step skips, the masks of weight drop.
    Processes that train together share one. None: torch's own."""

    @property
    def is_replayable(self) -> bool:
        """Whether passes over batches of one shape are the same operations, so that a GPU can replay a recorded one.
        False where that is untested."""
        return False


class Seq2Seq(Network, ABC):
    """A network that reads a source and predicts a target, one token after another.

    A kind of network is a subclass that is made by

        Class(settings, source_vocab_size=..., target_vocab_size=..., padding_id=...)

    and a line in SEQ2SEQ (kinds.py).
    """

    config: Any
    output: nn.Linear
    """Turns `Decoded.hidden` into logits; the loss reads its weight and bias."""

    def __init__(self) -> None:
        super().__init__()
        self.computing = threading.RLock()
        """Held by the thread that computes in a precision of its own."""

    @abstractmethod
    def states(self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]) -> Decoded:
        """What the decoder knows at each target place, given the source and the target tokens up to it (teacher
        forcing). This is what losses and forced scores ask for."""

    @abstractmethod
    def start(self, source: Int[Tensor, "batch source"], rows_per_sentence: int = 1) -> Steps:
        """Encode the source and be ready to write `rows_per_sentence` hypotheses for each sentence."""

    @abstractmethod
    def start_plain(self, source: Int[Tensor, "batch source"], rows_per_sentence: int = 1) -> AttendingSteps:
        """`start` in a form that also tells the attention of every head."""

    def repack(self) -> None:
        """Let the next `start` read the weights anew, after they have changed. Does nothing where it always does."""

    def __getstate__(self) -> dict[str, Any]:
        """State for copying and pickling, without packed weights and the lock, which belong to this instance."""
        return {name: value for name, value in vars(self).items() if name not in ("packed", "computing")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.computing = threading.RLock()
