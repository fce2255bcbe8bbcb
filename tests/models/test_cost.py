"""What a Transformer costs: numbers one can count by hand, and the products that torch counts while it runs."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from weft.models.cost import PRODUCTS_IN_AN_UPDATE, parameters_by_part
from weft.models.transformer import Transformer, TransformerConfig
from weft.training.losses import blocked_cross_entropy

SOURCE_VOCAB, TARGET_VOCAB = 11, 13
PAIRS, SOURCE, TARGET = 3, 32, 16  # whole vectors, so that no attention fills its keys up

SHAPES: list[dict[str, Any]] = [
    {},
    {"tie": "none", "norm": "post"},
    {"encoder_layers": 3, "decoder_layers": 1, "activation": "swiglu"},
    {"positions": "rotary", "norm_layer": "rms"},
    {"positions": "learned", "max_positions": 32},
    {"attention_steps": 3, "attention_beta": "learned"},
    {"encoder_heads": (1, 2), "decoder_heads": (2, 1), "cross_heads": (1, 1)},
]


def make(**changes: Any) -> Transformer:
    tiny = {"model_dim": 8, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "ff_dim": 20, "dropout": 0.1}
    config = TransformerConfig(**{**tiny, **changes})
    return Transformer(config, source_vocab_size=SOURCE_VOCAB, target_vocab_size=TARGET_VOCAB, padding_id=0)


def multiply_adds(model: Transformer, sources: np.ndarray, targets: np.ndarray) -> dict[str, int]:
    return model.config.multiply_adds(TARGET_VOCAB, sources, targets)


def counted(model: Transformer) -> dict[str, int]:
    """Of PAIRS pairs of one length, so that there is no padding."""
    return multiply_adds(model, np.full(PAIRS, SOURCE), np.full(PAIRS, TARGET))


# Numbers


def test_the_numbers_of_one_layer_a_side_can_be_counted_by_hand() -> None:
    model = make(encoder_layers=1, decoder_layers=1)
    attention = 4 * (8 * 8 + 8)  # queries, keys, values, output: a matrix and a bias each
    feed_forward = (8 * 20 + 20) + (20 * 8 + 8)
    norm = 8 + 8
    assert parameters_by_part(model) == {
        "embeddings": 11 * 8 + 13 * 8,
        "encoder": attention + feed_forward + 2 * norm + norm,
        "decoder": 2 * attention + feed_forward + 3 * norm + norm,
        "output": 0,  # the embedding of the target is its matrix
    }


def test_an_untied_output_counts_in_its_own_part_and_a_shared_embedding_once() -> None:
    assert parameters_by_part(make(tie="none"))["output"] == 13 * 8
    config = TransformerConfig(model_dim=8, num_heads=2, tie="all")
    one_vocabulary = Transformer(config, source_vocab_size=13, target_vocab_size=13, padding_id=0)
    assert parameters_by_part(one_vocabulary)["embeddings"] == 13 * 8


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_parts_hold_all_parameters(shape: dict[str, Any]) -> None:
    model = make(**shape)
    assert sum(parameters_by_part(model).values()) == sum(parameter.numel() for parameter in model.parameters())


# Multiply-adds


def test_the_products_of_one_pair_can_be_counted_by_hand() -> None:
    model = make(encoder_layers=1, decoder_layers=1)
    projections, feed_forward = 8 * 8, 2 * 8 * 20
    assert multiply_adds(model, np.array([5]), np.array([4])) == {
        "embeddings": 0,
        "encoder": 5 * (4 * projections + feed_forward) + 2 * 5 * 5 * 8,
        "decoder": 4 * (4 * projections + 2 * projections + feed_forward)  # self-attention, query and output, ff
        + 5 * 2 * projections  # keys and values of the source
        + 2 * 4 * 4 * 8  # the target looks at itself
        + 2 * 4 * 5 * 8,  # and at the source
        "output": 4 * 13 * 8,
    }


def test_pairs_of_several_lengths_add_up() -> None:
    model = make()
    whole = multiply_adds(model, np.array([5, 2, 7]), np.array([4, 6, 1]))
    alone = [multiply_adds(model, np.array([s]), np.array([t])) for s, t in ((5, 4), (2, 6), (7, 1))]
    assert whole == {part: sum(one[part] for one in alone) for part in whole}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_torch_counts_two_operations_for_each_multiply_add_of_a_forward_pass(shape: dict[str, Any]) -> None:
    model = make(**shape).eval()
    source, target = torch.randint(3, SOURCE_VOCAB, (PAIRS, SOURCE)), torch.randint(3, TARGET_VOCAB, (PAIRS, TARGET))
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(source, target)
    assert counter.get_total_flops() == 2 * sum(counted(model).values())


def operations_of_addmm(total: torch.Size, left: torch.Size, right: torch.Size, **others: Any) -> int:
    """Of total += left right, which torch's counter does not know in place."""
    return 2 * left[0] * left[1] * right[1]


def operations_of_linear(x: torch.Size, weight: torch.Size, *others: Any, **more: Any) -> int:
    """Of x W^T by oneDNN, which torch's counter does not know either."""
    return 2 * x.numel() * weight[0]


OPERATIONS: dict[Any, Any] = {torch.ops.aten.addmm_: operations_of_addmm}
if torch.backends.mkldnn.is_available():
    OPERATIONS[torch.ops.mkldnn._linear_pointwise] = operations_of_linear


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_update_multiplies_three_times_as_much_as_a_forward_pass(shape: dict[str, Any]) -> None:
    model = make(**shape).train()
    source, target = torch.randint(3, SOURCE_VOCAB, (PAIRS, SOURCE)), torch.randint(3, TARGET_VOCAB, (PAIRS, TARGET))
    with FlopCounterMode(display=False, custom_mapping=OPERATIONS) as counter:
        hidden = model.decode(target, *model.encode(source))
        labels = torch.randint(3, TARGET_VOCAB, (PAIRS * TARGET,))
        blocked_cross_entropy(hidden.flatten(0, 1), model.output.weight, labels, 0.1).total.backward()
    assert counter.get_total_flops() == PRODUCTS_IN_AN_UPDATE * 2 * sum(counted(model).values())
