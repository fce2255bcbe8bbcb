"""The model that this process trains: its forward and backward passes, its gradients, and the optimizer's step.

The Trainer (trainer.py) calls these methods in this order for every update. On a GPU `Recorded` (recording.py) replays
what stands here.
"""

from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from weft.training.distributed import Ranks
from weft.training.run_folder import restore_optimizer
from weft.training.task import BatchOfRows, Loss, Task

Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound=BatchOfRows)


class Replica(Generic[Model, Batch]):
    """The whole model on this rank; other ranks hold the same weights and take the same steps.

    A parameter that a step leaves out (its gradient is None) must be left out by all ranks. What is left out is drawn
    from Ranks.common, which is seeded for each part of a batch, so it does not depend on the number of parts.
    """

    def __init__(self, ranks: Ranks, model: Model, task: Task[Model, Batch], device: torch.device) -> None:
        self.ranks, self.model, self.task, self.device = ranks, model, task, device

    @property
    def is_settled(self) -> bool:
        """Whether steps take as long now as later ones will."""
        return True

    def zero_grad(self) -> None:
        """Clear the gradients before those of a new update are computed."""
        self.model.zero_grad()

    def backward(self, batch: Batch) -> Loss:
        """Add the gradients of this rank's rows to those that are there, and return their loss."""
        loss = self.task.loss(self.model, batch.to(self.device))
        loss.total.backward()
        return loss

    def gradients(self) -> list[Tensor]:
        """Gradients of the loss summed over all ranks; the tensors are the optimizer's own, so in-place changes take
        effect."""
        found = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        self.ranks.add_up_in_place(found)
        return found

    def step(self, optimizer: torch.optim.Optimizer, rate: float) -> None:
        """Update the weights at this learning rate."""
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()

    def measured_step(self, optimizer: torch.optim.Optimizer, rate: float) -> Tensor:
        """`step`, and the norm of the change of all weights as a share of their norm."""
        weights = [weight.detach() for weight in self.model.parameters() if weight.requires_grad]
        before = [weight.clone() for weight in weights]
        self.step(optimizer, rate)
        change = torch._foreach_sub(weights, before)  # pyright: ignore[reportPrivateImportUsage]
        return nn.utils.get_total_norm(change) / nn.utils.get_total_norm(before)

    def restore_optimizer(self, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
        """Load the optimizer's state from the tensors of a checkpoint."""
        restore_optimizer(optimizer, tensors)

    def free_memory(self) -> bool:
        """Give up memory that training can do without; returns whether there was any."""
        return False
