"""For the whole test run: shape annotations are checked, and random numbers are the same every time."""

import sys

import pytest
from jaxtyping import install_import_hook

ROOMS_WITH_TENSORS = ["weft.layers", "weft.models", "weft.decoding", "weft.data", "weft.training", "weft.tasks"]

assert not any(name.partition(".")[0] == "weft" for name in sys.modules), "weft was imported before the hook below"
# is_pep484_tower: an int passes where a float is asked for, as it does in Python.
install_import_hook(ROOMS_WITH_TENSORS, "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

import torch  # noqa: E402


@pytest.fixture(autouse=True)
def _same_random_numbers_every_time() -> None:
    torch.manual_seed(1)
