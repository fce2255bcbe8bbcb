"""What the tests of the engines share: models with random weights, and what weft itself finds with them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import Hypothesis, StepFunction
from weft.models.transformer import Transformer, TransformerConfig
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID, SPECIAL_PIECES

VOCAB_SIZE = 40

# Every value of every key that shapes the forward pass, but not every combination of them.
FORMS: list[dict[str, Any]] = [
    {"norm": "pre", "positions": "sinusoidal", "activation": "relu", "tie": "none"},
    {"norm": "post", "positions": "learned", "activation": "gelu", "tie": "decoder", "max_positions": 32},
    {"norm": "pre", "positions": "scaled-sinusoidal", "activation": "silu", "tie": "all", "norm_layer": "rms"},
    {"norm": "post", "positions": "rotary", "activation": "swiglu", "tie": "none", "norm_layer": "rms"},
    {"norm": "pre", "positions": "rotary", "activation": "glu", "tie": "decoder"},
    {"norm": "pre", "positions": "sinusoidal", "activation": "reglu", "tie": "all"},
    {"norm": "post", "positions": "scaled-sinusoidal", "activation": "geglu", "tie": "none"},
    {"norm": "pre", "positions": "rotary", "encoder_heads": (1, 1), "decoder_heads": (1, 1), "cross_heads": (1, 1)},
]


@pytest.fixture(params=FORMS, ids=lambda form: "-".join(str(value) for value in form.values()))
def form(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


@pytest.fixture
def lively() -> Callable[..., Transformer]:
    """Makes a model of 2+2 layers with random weights, norms and biases among them, whose sentences differ and end."""

    def lively(**form: Any) -> Transformer:
        size = {"model_dim": 16, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "ff_dim": 24}
        config = TransformerConfig(**{**size, **form})
        sizes = {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE}
        model = Transformer(config, **sizes, padding_id=PADDING_ID)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    nn.init.normal_(parameter, 1.0 if name.endswith("norm.weight") else 0.0, 0.3)
                elif "coder" in name:
                    parameter.mul_(2)  # so that what was read and written outweighs the newest token
            model.output.weight[END_ID].mul_(4)  # so that it is often the best or far from it
        return model.eval()

    return lively


@pytest.fixture
def sources() -> list[list[int]]:
    return [[5, 6, 7, 8, 3], [9, 10, 11, 3], [12, 3], [13, 14, 15, 16, 17, 18, 19, 3], [20, 21, 3], [8, 7, 6, 5, 3]]


@pytest.fixture
def pieces() -> list[str]:
    return [*SPECIAL_PIECES, *(f"piece{number}" for number in range(4, VOCAB_SIZE))]


@pytest.fixture
def find() -> Callable[..., list[Hypothesis]]:
    """weft's search by any step function: the best hypothesis of each source."""

    def find(
        start: Callable[[torch.Tensor, int], StepFunction], sources: Sequence[Sequence[int]], config: DecodingConfig
    ) -> list[Hypothesis]:
        lengths = torch.tensor([len(source) - 1 for source in sources])
        longest = max(map(len, sources))
        padded = torch.tensor([[*source, *[PADDING_ID] * (longest - len(source))] for source in sources])
        with torch.inference_mode():
            state = start(padded, config.rows(1))
            found = search(state, lengths, config, begin_id=BEGIN_ID, end_id=END_ID)
        return [hypotheses[0] for hypotheses in found]

    return find
