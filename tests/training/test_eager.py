"""The optimizers without torch's compiler are torch's own."""

import subprocess
import sys

import pytest
import torch
from tests.training.test_optimizers import small_model, take_steps

from weft.training import eager
from weft.training.optimizers import WEIGHT_DECAY


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adafactor"])
def test_their_steps_are_torchs_to_the_bit_and_begin_anew_from_a_saved_state(name: str) -> None:
    ours, theirs = small_model(), small_model()
    settings = {"lr": 0.1, "weight_decay": 0.03} | ({"momentum": 0.9} if name == "SGD" else {})
    first, second = (getattr(eager, name)(ours.parameters(), **settings) for _ in range(2))
    torchs = getattr(torch.optim, name)(theirs.parameters(), **settings)
    take_steps(ours, first)
    take_steps(theirs, torchs)
    second.load_state_dict(first.state_dict())
    second.zero_grad()
    assert all(parameter.grad is None for parameter in ours.parameters())
    for mine, torch_s in zip(take_steps(ours, second), take_steps(theirs, torchs), strict=True):
        assert torch.equal(mine, torch_s)


def test_no_optimizer_imports_the_compiler_to_update_save_or_load() -> None:
    program = f"""
import sys
from tests.training.test_optimizers import optimizer_of, small_model, take_steps
for name in {list(WEIGHT_DECAY)}:
    model = small_model()
    optimizer = optimizer_of(model, name)
    take_steps(model, optimizer)
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    take_steps(model, optimizer)
print("torch._dynamo" in sys.modules)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
