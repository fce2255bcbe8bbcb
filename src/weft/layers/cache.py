"""Keys and values of the positions decoded so far, kept so that no position is computed twice."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


class KeyValueCache:
    """A buffer that grows by at least `chunk` positions, and whose rows can be reordered, repeated or dropped."""

    chunk = 16

    def __init__(self) -> None:
        self.length = 0
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def append(
        self,
        key: Float[Tensor, "rows heads new head_dim"],
        value: Float[Tensor, "rows heads new head_dim"],
    ) -> tuple[Float[Tensor, "rows heads time head_dim"], Float[Tensor, "rows heads time head_dim"]]:
        """Add positions and return all of them, the new ones last."""
        self.keys = self._with_room(self.keys, key)
        self.values = self._with_room(self.values, value)
        end = self.length + key.size(2)
        self.keys[:, :, self.length : end] = key
        self.values[:, :, self.length : end] = value
        self.length = end
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Row i becomes what row rows[i] was."""
        if self.keys is not None and self.values is not None:
            self.keys = self.keys.index_select(0, rows)
            self.values = self.values.index_select(0, rows)

    def _with_room(self, buffer: Tensor | None, new: Tensor) -> Tensor:
        rows, heads, positions, head_dim = new.shape
        missing = self.length + positions - (0 if buffer is None else buffer.size(2))
        if buffer is not None and missing <= 0:
            return buffer
        room = new.new_empty(rows, heads, max(self.chunk, missing), head_dim)
        return room if buffer is None else torch.cat([buffer, room], dim=2)
