"""Truncated back-propagation through time: what a network remembers goes on from batch to batch, the gradient does not.

batch n - 1            batch n                batch n + 1
[h0 -> ... -> h1]  ->  [h1 -> ... -> h2]  ->  [h2 -> ... -> h3]
     gradient               gradient               gradient
"""

import torch
from torch import Tensor

from weft.data.lines import LineBatch
from weft.models.language_model import Carried
from weft.training.distributed import Ranks


class StreamStates:
    """The state of each stream after the last batch.

    A batch may come in parts. If memory runs out, all batches of the update come again, so the state before each of
    them is kept. A batch that neither follows the last one nor is one of these begins anew. All of it is in every
    checkpoint, for the streams of all ranks.
    """

    def __init__(self, ranks: Ranks, *, batches_of_update: int = 1) -> None:
        self.ranks, self.batches_of_update = ranks, batches_of_update
        self.place: tuple[int, int] | None = None
        self.before: dict[tuple[int, int], tuple[Tensor, ...]] = {}
        """By the place of the batch; no tensors where it began anew."""
        self.after: list[tuple[Tensor, ...]] = []

    def of(self, batch: LineBatch) -> Carried | None:
        """The state before a batch or a part of it; None if the batch begins anew."""
        assert batch.place is not None
        if batch.place != self.place:
            epoch, number = batch.place
            if number > 0 and self.place == (epoch, number - 1):
                self.before[batch.place] = self.joined()
            else:
                self.before.setdefault(batch.place, ())
            for place in list(self.before)[: -self.batches_of_update]:
                del self.before[place]
            self.place = batch.place
        if batch.first == 0:
            self.after = []
        before, rows = self.before[batch.place], slice(batch.first, batch.first + len(batch.tokens))
        return Carried(tuple(tensor[rows] for tensor in before)) if before else None

    def keep(self, state: Carried) -> None:
        """The state after a part. Numbers that are not finite, after a step that is skipped, become zero."""
        self.after.append(tuple(tensor.detach().nan_to_num(0.0, 0.0, 0.0) for tensor in state.tensors))

    def joined(self) -> tuple[Tensor, ...]:
        return tuple(torch.cat(parts) for parts in zip(*self.after, strict=True))

    def tensors(self) -> dict[str, Tensor]:
        """The states of all ranks, stream by stream, for a checkpoint; empty before the first batch."""
        own = self.joined()
        if self.place is None or not own:
            return {}
        streams = self.ranks.together([[tensor[row].cpu() for tensor in own] for row in range(len(own[0]))])
        states = {f"carried.{n}": torch.stack(list(rows)) for n, rows in enumerate(zip(*streams, strict=True))}
        return {**states, "carried.place": torch.tensor(self.place)}

    def restore(self, tensors: dict[str, Tensor], device: torch.device) -> None:
        """Continue from what `tensors` returned."""
        self.place, self.before, self.after = None, {}, []
        if "carried.place" in tensors:
            states = sum(name.startswith("carried.") for name in tensors) - 1
            first, every = self.ranks.part
            epoch, number = tensors["carried.place"].tolist()
            self.place = epoch, number
            # A process beyond the last stream has a row without predictions, of which the state has no effect.
            own = slice(first, None, every) if first < len(tensors["carried.0"]) else slice(1)
            self.after = [tuple(tensors[f"carried.{n}"][own].to(device) for n in range(states))]
