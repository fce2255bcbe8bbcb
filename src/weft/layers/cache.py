"""Keys and values of the positions decoded so far, kept so that no position is computed twice."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


class KeyValueCache:
    """A buffer that grows by `chunk` positions at a time and whose rows can be reordered, repeated or dropped."""

    chunk = 16

    def __init__(self) -> None:
        self.length = 0
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def append(
        self,
        key: Float[Tensor, "rows heads 1 head_dim"],
        value: Float[Tensor, "rows heads 1 head_dim"],
    ) -> tuple[Float[Tensor, "rows heads time head_dim"], Float[Tensor, "rows heads time head_dim"]]:
        """Add one position and return all of them, the new one last."""
        self.keys = self._with_room(self.keys, key)
        self.values = self._with_room(self.values, value)
        self.keys[:, :, self.length] = key[:, :, 0]
        self.values[:, :, self.length] = value[:, :, 0]
        self.length += 1
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Row i becomes what row rows[i] was."""
        if self.keys is not None and self.values is not None:
            self.keys = self.keys.index_select(0, rows)
            self.values = self.values.index_select(0, rows)

    def _with_room(self, buffer: Tensor | None, new: Tensor) -> Tensor:
        rows, heads, _, head_dim = new.shape
        if buffer is None:
            return new.new_empty(rows, heads, self.chunk, head_dim)
        if self.length < buffer.size(2):
            return buffer
        return torch.cat([buffer, new.new_empty(rows, heads, self.chunk, head_dim)], dim=2)
