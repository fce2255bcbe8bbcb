"""The test run itself: shape annotations are enforced, so what they say about every tested function is true."""

from contextlib import nullcontext
from typing import Any, Literal

import pytest
import torch
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from tests.shape_checks import check_new_calls

from weft.data.batching import Batch
from weft.decoding.length import Scoring
from weft.layers.masks import padding_mask
from weft.models.transformer import Transformer, TransformerConfig
from weft.training.losses import cross_entropy


def test_a_tensor_of_the_wrong_rank_is_refused():
    one_sentence_too_deep = torch.ones(2, 3, 4, dtype=torch.long)  # indexing alone would let it pass
    with pytest.raises(TypeCheckError):
        padding_mask(one_sentence_too_deep, 0)


def test_a_tensor_of_the_wrong_type_is_refused():
    with pytest.raises(TypeCheckError):
        padding_mask(torch.ones(2, 3), 0)


def test_two_tensors_that_disagree_about_an_axis_are_refused():
    with pytest.raises(TypeCheckError):
        cross_entropy(torch.zeros(3, 5), torch.zeros(2, dtype=torch.long), 0.0)
    with pytest.raises(TypeCheckError):
        Scoring("adaptive")(torch.zeros(3), torch.ones(3, dtype=torch.long), torch.ones(2, dtype=torch.long))


def test_methods_are_checked():
    model = Transformer(
        TransformerConfig(model_dim=8, num_heads=1, ff_dim=8), source_vocab_size=5, target_vocab_size=5, padding_id=0
    )
    with pytest.raises(TypeCheckError):
        model(torch.ones(2, 3, dtype=torch.long), torch.ones(3, 3, dtype=torch.long))


def test_fields_of_a_dataclass_are_checked():
    with pytest.raises(TypeCheckError):
        Batch(source=torch.ones(2, 3, dtype=torch.long), target=torch.ones(4, 3, dtype=torch.long))


def test_a_call_is_checked_again_where_shapes_or_types_differ_from_one_that_passed():
    tokens = torch.ones(2, 3, dtype=torch.long)
    for _ in range(2):
        padding_mask(tokens, 0)
    others: list[Any] = [(tokens.float(), 0), (tokens[None], 0), (tokens.numpy(), 0), (tokens, 0.5)]
    for other in others:
        with pytest.raises(TypeCheckError):
            padding_mask(*other)


def test_a_result_is_checked_where_only_it_differs_from_one_that_passed():
    results = [torch.ones(2), torch.ones(2), torch.ones(3), torch.ones(2)]

    def pop(size: Float[torch.Tensor, " n"]) -> Float[torch.Tensor, " n"]:
        return results.pop(0)

    checked = check_new_calls(pop, typechecker=beartype)
    for right in (True, True, False, True):
        with nullcontext() if right else pytest.raises(TypeCheckError):
            checked(torch.zeros(2))
    assert results == []  # each call is made once


def test_each_value_of_a_literal_is_checked():
    def side(name: Literal["source", "target"]) -> str:
        return name

    checked = check_new_calls(side, typechecker=beartype)
    assert checked("source") == checked("source") == "source"
    with pytest.raises(TypeCheckError):
        checked("other")


def test_each_length_of_a_collection_is_checked_and_long_ones_each_time():
    def first(rows: tuple[Float[torch.Tensor, "n n"], ...]) -> int:
        return len(rows)

    checked = check_new_calls(first, typechecker=beartype)
    for count in (1, 2, 40, 40):
        assert checked((torch.ones(2, 2),) * count) == count
        with pytest.raises(TypeCheckError):
            checked((torch.ones(2, 3),) * count)
