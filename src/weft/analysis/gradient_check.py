"""Are the gradients right? `weft check-gradients` compares those of a network with central differences, in float64.

Of the network as a whole each parameter is checked, and of each module that computes a part of it what it gives back to
its inputs and to its parameters, so that a wrong backward pass is found where it is. Along a random direction v

    (f(x + eps v) - f(x - eps v)) / (2 eps)  should be  <gradient, v>

and the error is relative to the larger of both and of the gradient's norm, which is their usual size. A kink, such as
that of a ReLU, may lie between the two points, so a check that fails is repeated elsewhere with a shorter step.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.data.batching import Batch
from weft.errors import UsageError
from weft.figures.table import Table
from weft.folders.finding import find_model
from weft.folders.kinds import KINDS
from weft.folders.model_folder import load_model
from weft.models.contract import Seq2Seq
from weft.models.language_model import Autoregressive
from weft.preparing.corpora import find_recipe
from weft.tasks.translation import loss_of
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID
from weft.training.losses import blocked_cross_entropy

STEPS = (1e-6, 1e-7, 1e-8)
"""eps of the first check, and of those that repeat it."""
TOLERANCE = 1e-6
"""Largest relative error of a right gradient."""
SMALLEST = 1e-12
"""What is smaller is zero."""
SEED = 1
"""Seed of every call, so that dropout drops the same at both points."""
VOCABULARY = 24
"""Pieces of a vocabulary that a recipe's network is built for."""


@dataclass(frozen=True)
class Checked:
    """A gradient that was compared."""

    part: str
    """The class of the module, or "network" for a parameter of the whole."""
    place: str
    error: float


@dataclass(frozen=True)
class GradientCheck:
    name: str
    checks: Sequence[Checked]
    seconds: float

    @property
    def wrong(self) -> list[Checked]:
        """The places whose gradients are wrong, the innermost modules first; the parameters of the network where every
        module is right by itself."""
        wrong = [checked for checked in self.checks if not checked.error <= TOLERANCE]
        modules = [checked for checked in wrong if checked.part != "network"]
        return sorted(modules or wrong, key=lambda checked: -checked.place.count("."))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"model": self.name, "seconds": self.seconds, "checks": [asdict(checked) for checked in self.checks]}

    def table(self) -> str:
        """For a terminal: the worst of each kind of part."""
        parts = dict.fromkeys(checked.part for checked in self.checks)
        rows = []
        for part in parts:
            of_part = [checked for checked in self.checks if checked.part == part]
            worst = max(of_part, key=lambda checked: checked.error)
            rows.append((part, worst.place, str(len(of_part)), f"{worst.error:.1e}"))
        title = f"{self.name}: gradients beside central differences, {self.seconds:.0f} s"
        verdict = f"{len(self.wrong)} wrong" if self.wrong else f"all {len(self.checks):,} are right, to {TOLERANCE:g}"
        return Table(title, ("part", "worst at", "checks", "error"), rows, (verdict,), texts=frozenset({0, 1})).text()


def check_model(name: str | Path, overrides: Sequence[str] = ()) -> GradientCheck:
    """Check the gradients of a model's network, or of the one that a recipe describes, with new weights.

    Raises UsageError for a network that is not trained by gradients.
    """
    if str(name).endswith(".toml"):
        resolved, _, _ = find_recipe(name, run=Path(name).parent, data=None, overrides=overrides)  # as it was trained
        recipe, pieces = resolved.recipe, [f"piece {number}" for number in range(VOCABULARY)]
        torch.manual_seed(SEED)
        network: Any = KINDS[recipe.task].build(recipe, defaultdict(lambda: VOCABULARY))
        if recipe.model.copies:
            network.copy_between(pieces, pieces)
        size = VOCABULARY
    else:
        if overrides:
            raise UsageError("--set changes a recipe; a model is checked as it is")
        learned = load_model(find_model(name))
        network, size = learned.network, min(v.vocab_size for v in learned.vocabularies.values())
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise UsageError(f"{name} is not trained by gradients")
    network.double().train()
    network.compute_dtype = torch.float64
    begun = time.monotonic()
    checks = list(check_gradients(network, example_loss(network, size)))
    return GradientCheck(str(name), checks, time.monotonic() - begun)


def example_loss(network: nn.Module, vocab_size: int) -> Callable[[], Tensor]:
    """The training loss of a small batch of random rows of different lengths."""
    generator = torch.Generator().manual_seed(SEED)

    def rows(*lengths: int) -> Tensor:
        made = torch.full((len(lengths), max(lengths) + 2), PADDING_ID)
        for row, length in enumerate(lengths):
            made[row, 0], made[row, length + 1] = BEGIN_ID, END_ID
            made[row, 1 : length + 1] = torch.randint(END_ID + 1, vocab_size, (length,), generator=generator)
        return made

    if isinstance(network, Seq2Seq):
        batch = Batch(rows(6, 3, 5)[:, 1:], rows(4, 7, 2))
        return lambda: loss_of(network, batch, 0.1).total
    if isinstance(network, Autoregressive):
        text = rows(6, 3, 5)
        given, expected = text[:, :-1], text[:, 1:]
        is_token = expected != PADDING_ID
        return lambda: (
            blocked_cross_entropy(network(given)[is_token], network.output.weight, expected[is_token], 0.1).total
        )
    raise UsageError(
        f"cannot check the gradients of a {type(network).__name__}, only of translators and language models"
    )


def check_gradients(network: nn.Module, loss: Callable[[], Tensor]) -> Iterator[Checked]:
    """Compare the gradients of the loss by every parameter, and of every module by its inputs and parameters.

    Raises UsageError for a network in another precision than float64: in fp32 differences are noise.
    """
    if any(parameter.dtype != torch.float64 for parameter in network.parameters()):
        raise UsageError("gradients are checked in float64: in fp32 the differences would be noise")
    calls = recorded_calls(network, loss)
    named, of_network = dict(network.named_parameters()), seeded(loss, network)
    for (name, parameter), gradient in zip(named.items(), gradients_of(of_network, list(named.values())), strict=True):
        yield Checked("network", name, error_of(of_network, [parameter], [gradient]))
    for name, (module, arguments) in calls.items():
        inputs = [each for each in flat(arguments) if isinstance(each, Tensor) and each.is_floating_point()]
        parameters, of_module = list(module.parameters()), seeded(random_sum(module, arguments), network)
        gradients = gradients_of(of_module, [*inputs, *parameters]) if inputs or parameters else []
        for what, tensors, theirs in (
            ("inputs", inputs, gradients[: len(inputs)]),
            ("parameters", parameters, gradients[len(inputs) :]),
        ):
            if tensors:
                error = error_of(of_module, tensors, theirs)
                yield Checked(type(module).__name__, f"{name}, its {what}", error)


def recorded_calls(network: nn.Module, loss: Callable[[], Tensor]) -> dict[str, tuple[nn.Module, Any]]:
    """Name -> module and the arguments of its first call, of the modules that are called with tensors alone."""
    calls: dict[str, tuple[nn.Module, Any]] = {}

    def note(name: str, module: nn.Module, given: Any, named: Any) -> None:
        leaves = list(flat((given, named)))
        if name not in calls and all(isinstance(leaf, Tensor | int | float | None) for leaf in leaves):
            calls[name] = module, copied((given, named))

    hooks = [
        module.register_forward_pre_hook(partial(note, name), with_kwargs=True)
        for name, module in network.named_modules()
        if name
    ]
    seeded(loss, network)()
    for hook in hooks:
        hook.remove()
    return calls


def flat(value: Any) -> Iterator[Any]:
    """What stands in nested tuples, lists, dicts and dataclasses."""
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, tuple | list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from flat(each)
    else:
        yield value


def copied(value: Any) -> Any:
    """Nested arguments with tensors of their own, which want a gradient."""
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.is_floating_point())
    if isinstance(value, dict):
        return {name: copied(each) for name, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: copied(getattr(value, field.name)) for field in fields(value)})
    return type(value)(copied(each) for each in value) if isinstance(value, tuple | list) else value


def seeded(function: Callable[[], Tensor], network: nn.Module) -> Callable[[], Tensor]:
    """The function with the same random numbers at every call."""

    def call() -> Tensor:
        torch.manual_seed(SEED)
        network.layer_generator = torch.Generator().manual_seed(SEED)  # type: ignore[assignment]
        return function()

    return call


def random_sum(module: nn.Module, arguments: Any) -> Callable[[], Tensor]:
    """A sum of everything that the module returns, each number with a random weight of its own."""

    def call() -> Tensor:
        given, named = arguments
        outputs = [each for each in flat(module(*given, **named)) if isinstance(each, Tensor)]
        generator = torch.Generator().manual_seed(SEED)
        weighed = [
            (each * torch.randn(each.shape, generator=generator)).sum() for each in outputs if each.is_floating_point()
        ]
        return torch.stack(weighed).sum()

    return call


def gradients_of(function: Callable[[], Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """The gradients by these tensors, which are 0 by those that the function does not use."""
    given = torch.autograd.grad(function(), tensors, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(tensors, given, strict=True)]


def error_of(function: Callable[[], Tensor], tensors: Sequence[Tensor], gradients: Sequence[Tensor]) -> float:
    """The least relative error of these gradients over some directions."""
    norm = float(torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt())
    generator, errors = torch.Generator().manual_seed(SEED), []
    for step in STEPS:
        direction = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in tensors]
        expected = sum(float((g * v).sum()) for g, v in zip(gradients, direction, strict=True))
        found = []
        for sign in (1, -1):
            with torch.no_grad():
                before = [x.clone() for x in tensors]
                for x, v in zip(tensors, direction, strict=True):
                    x += sign * step * v
                found.append(float(function()))
                for x, old in zip(tensors, before, strict=True):
                    x.copy_(old)
        difference = (found[0] - found[1]) / (2 * step)
        size = max(abs(difference), abs(expected), norm)
        error = 0.0 if size <= SMALLEST else abs(difference - expected) / size
        errors.append(math.inf if math.isnan(error) else error)  # such as of a gradient that is NaN
        if errors[-1] <= TOLERANCE:
            break
    return min(errors)
