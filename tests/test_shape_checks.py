"""The test run itself: shape annotations are enforced, so what they say about every tested function is true."""

import pytest
import torch
from jaxtyping import TypeCheckError

from weft.data.batching import Batch
from weft.decoding.length import adaptive
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
        adaptive(torch.ones(3, dtype=torch.long), torch.ones(2, dtype=torch.long), 1.0)


def test_methods_are_checked():
    model = Transformer(
        TransformerConfig(model_dim=8, num_heads=1, ff_dim=8), source_vocab_size=5, target_vocab_size=5, padding_id=0
    )
    with pytest.raises(TypeCheckError):
        model(torch.ones(2, 3, dtype=torch.long), torch.ones(3, 3, dtype=torch.long))


def test_fields_of_a_dataclass_are_checked():
    with pytest.raises(TypeCheckError):
        Batch(source=torch.ones(2, 3, dtype=torch.long), target=torch.ones(4, 3, dtype=torch.long))
