"""Normalization: torch's modules agree, and bf16 inputs are summed in fp32."""

import pytest
import torch
from torch import nn

from weft.layers.norm import NORMS


@pytest.mark.parametrize(
    ("kind", "theirs"), [("layer", nn.LayerNorm(6)), ("rms", nn.RMSNorm(6, eps=1e-6))], ids=["layer", "rms"]
)
def test_each_kind_is_torchs_in_values_and_gradients(kind, theirs):
    ours = NORMS[kind](6)
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    theirs.load_state_dict(ours.state_dict())
    x, direction = torch.randn(2, 3, 6, requires_grad=True), torch.randn(2, 3, 6)
    torch.testing.assert_close(ours(x), theirs(x))
    gradients = [torch.autograd.grad((norm(x) * direction).sum(), [x, *norm.parameters()]) for norm in (ours, theirs)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("kind", NORMS)
def test_in_bf16_the_sums_are_taken_in_fp32(kind):
    x = (torch.randn(1, 4096) + 100).bfloat16()  # sums in bf16 would be off by as much as the deviation
    norm = NORMS[kind](4096)
    torch.testing.assert_close(norm(x).float(), norm(x.float()), rtol=0.01, atol=0.01)
