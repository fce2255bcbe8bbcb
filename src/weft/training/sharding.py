"""The model dealt out among several processes, by PyTorch's FSDP2 (Zhao et al. 2023, arXiv 2304.11277).

Of each weight, its gradient and its optimizer state a rank keeps some rows; a layer's weights come together for as long
as it computes. That is FSDP's part. Here stands how it meets the Trainer, whose checkpoints are whole: a run can go on
with another number of processes, or with one.
"""

import copy
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from weft.training.compilation import compile_layers, layers_of
from weft.training.distributed import Learner, Ranks
from weft.training.losses import Loss
from weft.training.run_folder import optimizer_tensors, restore_optimizer
from weft.training.task import BatchOfRows, Task

Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound=BatchOfRows)


class Shards(Learner[Batch], Generic[Model, Batch]):
    """A Learner (distributed.py) that trains a dealt-out copy of the model.

    The model itself stays whole on every rank, for validation and checkpoints: 4 bytes a parameter, beside the 16 of
    weights, gradients and moments that are divided by the ranks.

    The optimizer moves the rows as tensors of their own. That is right for those that treat every number by itself,
    and TrainingConfig refuses the others.
    """

    can_split = False

    def __init__(
        self, ranks: Ranks, model: Model, task: Task[Model, Batch], device: torch.device, *, compiles: bool
    ) -> None:
        assert ranks.prompt is not None  # a model is dealt out among several
        self.ranks, self.model, self.device = ranks, model, device
        self.mesh = DeviceMesh.from_group(ranks.prompt, device.type)
        dealt = copy.deepcopy(model, {id(ranks.common): ranks.common})  # whose layers are drawn with the same numbers
        if compiles:
            compile_layers(dealt, device)
        self.with_loss = WithLoss(dealt, task)
        for module in [*layers_of(dealt), self.with_loss]:
            unit = fully_shard(module, mesh=self.mesh)
            unit.set_gradient_divide_factor(1.0)  # a sum, which is divided by the tokens of all
            unit.set_force_sum_reduction_for_comms(True)
        self.with_loss.train()
        self.sharded = [cast(DTensor, parameter) for parameter in dealt.parameters()]
        self.moved = nn.ParameterList(rows_of(parameter) for parameter in self.sharded)

    def backward(self, batch: Batch) -> Loss:
        total, nll, correct, tokens = self.with_loss(batch.to(self.device))
        total.backward()
        return Loss(total=total, nll=nll, correct=correct, tokens=tokens)

    def gradients(self) -> list[Tensor]:
        # FSDP has added them up already; here they move to where the optimizer looks.
        for rows, parameter in zip(self.moved.parameters(), self.sharded, strict=True):
            rows.grad = None if parameter.grad is None else rows_of(cast(DTensor, parameter.grad))
            parameter.grad = None
        return [rows.grad for rows in self.moved.parameters() if rows.grad is not None]

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        square = nn.utils.get_total_norm(gradients).square()
        dist.all_reduce(square, group=self.ranks.prompt)
        return square.sqrt()

    @torch.no_grad()
    def gather(self) -> None:
        for whole, parameter in zip(self.model.parameters(), self.sharded, strict=True):
            whole.copy_(parameter.full_tensor())

    @torch.no_grad()
    def scatter(self) -> None:
        for whole, parameter in zip(self.model.parameters(), self.sharded, strict=True):
            rows_of(parameter).copy_(self.rows_like(parameter, whole))

    def optimizer_tensors(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
        found = {}
        for name, tensor in optimizer_tensors(optimizer).items():
            whole = self.whole_like(self.parameter_of(optimizer, name), tensor) if tensor.dim() else tensor
            if self.ranks.is_first:
                found[name] = whole.cpu()  # one after the other: a rank has room for its rows
        return found

    def restore_optimizer(self, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
        state = {name: tensor for name, tensor in tensors.items() if name.startswith("optimizer.")}
        rows = {
            name: self.rows_like(self.parameter_of(optimizer, name), tensor) if tensor.dim() else tensor
            for name, tensor in state.items()
        }
        restore_optimizer(optimizer, rows)

    def parameter_of(self, optimizer: torch.optim.Optimizer, name: str) -> DTensor:
        """The parameter that a tensor such as "optimizer.3.exp_avg" belongs to: number 3 in the optimizer's order."""
        order = [rows for group in optimizer.param_groups for rows in group["params"]]
        rows = order[int(name.split(".")[1])]
        return next(p for mine, p in zip(self.moved.parameters(), self.sharded, strict=True) if mine is rows)

    def whole_like(self, parameter: DTensor, rows: Tensor) -> Tensor:
        """The whole of which each rank has these rows."""
        shape, stride = parameter.shape, parameter.stride()
        return DTensor.from_local(
            rows, self.mesh, parameter.placements, run_check=False, shape=shape, stride=stride
        ).full_tensor()

    def rows_like(self, parameter: DTensor, whole: Tensor) -> Tensor:
        """The rows of a whole tensor that this rank keeps of the parameter."""
        whole = whole.to(parameter.device)
        return rows_of(distribute_tensor(whole, self.mesh, parameter.placements, src_data_rank=None))


class WithLoss(nn.Module):
    """A model whose forward is the loss of a task: FSDP brings a module's weights together when its forward begins."""

    def __init__(self, model: nn.Module, task: Task[Any, Any]) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Any) -> tuple[Tensor, Tensor, Tensor, int]:
        loss = self.task.loss(self.model, batch)
        return loss.total, loss.nll, loss.correct, loss.tokens


def rows_of(tensor: DTensor) -> Tensor:
    """What this rank has of a tensor that was dealt out: no copy, and without its gradient."""
    return cast(DTensor, tensor.detach()).to_local()
