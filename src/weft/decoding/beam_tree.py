"""The hypotheses of a beam search as a tree, recorded between the search and its step function.

The search is not changed. What `step` returns tells which extensions were compared; the rows passed to `reorder`, and
the pieces passed to the next `step`, tell which of them the search continued.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import Hypothesis, StepFunction

State = Literal["best", "finished", "kept", "dropped"]


@dataclass(frozen=True)
class Node:
    """A hypothesis: its parent's and one more piece. The root is <s>, at step 0, and has no parent.

    best       the answer, and every node on the way to it
    finished   ended with </s> among the best extensions of its step
    kept       continued by the search
    dropped    compared, then given up at its own step or because the search stopped there
    """

    id: int
    parent: int | None
    step: int
    token: int
    log_prob: float
    """Sum over all pieces so far, in nats, after the rules of the search (rules.py)."""
    state: State


class BeamRecorder:
    """A step function that returns what `inner` does and records the tree of greedy or beam search over one sentence.

    The 2 * beam_size best extensions of each step, those that beam search compares, become nodes, unless they are
    impossible. `max_length` is that of the search: a hypothesis of this many pieces can only end.
    """

    def __init__(self, inner: StepFunction, *, beam_size: int, max_length: int, begin_id: int, end_id: int) -> None:
        self.inner = inner
        self.beam_size, self.max_length, self.end_id = beam_size, max_length, end_id
        self.nodes = [Node(0, None, 0, begin_id, 0.0, "kept")]
        self.length = 0
        """Pieces of every open hypothesis."""
        self.places = [0] * beam_size
        """The node of each row; all rows are the root at first, and only the first of them counts."""
        self.log_prob = torch.tensor([0.0] + [-torch.inf] * (beam_size - 1))
        self.came_from = list(range(beam_size))
        self.sums: Float[Tensor, "beam vocab"] = self.log_prob[:, None]
        self.compared: dict[tuple[int, int], int] = {}
        """(row, piece) -> the node that the last step made of it."""

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        if self.compared:
            self._continue_with(tokens.tolist())
        log_probs = self.inner.step(tokens)
        self._compare(log_probs)
        self.came_from = list(range(self.beam_size))
        return log_probs

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        self.inner.reorder(rows)
        self.came_from = rows.tolist()

    def tree(self, answer: Hypothesis) -> tuple[Node, ...]:
        """All nodes, parents before children, with the nodes on the way to the answer marked as best."""
        best = set(self._way_to(answer))
        return tuple(replace(node, state="best") if node.id in best else node for node in self.nodes)

    def _continue_with(self, tokens: list[int]) -> None:
        """Row i is now what row came_from[i] was, followed by this piece."""
        taken = list(zip(self.came_from, tokens, strict=True))
        rows, pieces = torch.tensor(taken, device=self.sums.device).T
        self.log_prob = self.sums[rows, pieces]
        self.length += 1
        self.places = [
            self._kept(row, token) if log_prob > -torch.inf else 0  # an unused place, whose extensions are impossible
            for (row, token), log_prob in zip(taken, self.log_prob.tolist(), strict=True)
        ]

    def _kept(self, row: int, token: int) -> int:
        if (row, token) not in self.compared:  # where hypotheses are equal, the search may prefer another one
            self._add(row, token, float(self.sums[row, token]), "kept")
        number = self.compared[row, token]
        self.nodes[number] = replace(self.nodes[number], state="kept")
        return number

    def _compare(self, log_probs: Float[Tensor, "beam vocab"]) -> None:
        vocab_size = log_probs.size(1)
        if self.length >= self.max_length:
            continues = torch.arange(vocab_size, device=log_probs.device) != self.end_id
            log_probs = log_probs.masked_fill(continues, -torch.inf)
        self.sums = self.log_prob.to(log_probs.device)[:, None] + log_probs
        self.compared = {}
        best = self.sums.flatten().topk(min(2 * self.beam_size, self.sums.numel()))
        for rank, (log_prob, flat) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True)):
            if log_prob > -torch.inf:
                row, token = divmod(flat, vocab_size)
                is_finished = token == self.end_id and rank < self.beam_size
                self._add(row, token, log_prob, "finished" if is_finished else "dropped")

    def _add(self, row: int, token: int, log_prob: float, state: State) -> None:
        number = self.compared[row, token] = len(self.nodes)
        self.nodes.append(Node(number, self.places[row], self.length + 1, token, log_prob, state))

    def _way_to(self, answer: Hypothesis) -> Iterator[int]:
        children = {(node.parent, node.token): node.id for node in self.nodes}
        place: int | None = 0
        yield 0
        for token in (*answer.tokens, self.end_id):
            place = children[place, token]
            yield place
