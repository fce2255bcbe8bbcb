"""Diverse beam search (Vijayakumar et al. 2018, arXiv 1610.02424): groups of hypotheses that avoid each other's pieces.

The beam is divided into groups that are extended one after the other. Where a group compares its extensions, a piece is
worth less by `strength` nats for every hypothesis of an earlier group that has just taken it (the paper's Hamming
diversity). The sums themselves stay the model's, so what is found in all groups can be ranked together at the end.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.beam import Beams, Stopping, extend, is_settled
from weft.decoding.length import PLAIN_SUM, Scoring
from weft.decoding.step import Hypothesis, Searching, StepFunction, to_the_end


def diverse_beam_steps(
    step_function: StepFunction,
    max_lengths: Int[Tensor, " sentences"],
    source_lengths: Int[Tensor, " sentences"],
    *,
    beam_size: int,
    groups: int,
    strength: float,
    begin_id: int,
    end_id: int,
    scoring: Scoring = PLAIN_SUM,
    stopping: Stopping = "exact",
    patience: float = 1.0,
    best: int = 1,
) -> Searching[list[list[Hypothesis]]]:
    """Beam search (beam.py) with beam_size / groups hypotheses in each group; one group is plain beam search.

    Each group keeps its beam_size / groups best finished hypotheses; the answers are the `best` different ones of all
    groups.
    """
    if beam_size % groups:
        raise ValueError(f"groups = {groups} must divide beam_size = {beam_size}")
    size = beam_size // groups
    parts = [Beams.begin(max_lengths, source_lengths, size, begin_id) for _ in range(groups)]
    found: dict[tuple[int, int], list[Hypothesis]] = {}  # (sentence, group) -> what it had when it was settled
    while len(parts[0].sentence):
        newest = torch.cat([part.newest for part in parts], dim=1)  # (sentences, beam)
        log_probs = step_function.step(newest.flatten()).unflatten(0, (-1, groups, size))
        taken = torch.zeros_like(log_probs[:, 0, 0])  # (sentences, vocab): how many hypotheses took a piece
        parents, all_settled = [], torch.ones_like(parts[0].sentence, dtype=torch.bool)
        for number, part in enumerate(parts):
            ended = part.finished_count
            parts[number], parent = extend(part, log_probs[:, number], end_id, scoring, handicap=strength * taken)
            taken = count(taken, parts[number])
            taken[:, end_id] += parts[number].finished_count - ended
            parents.append(parent + number * size)
            settled = is_settled(parts[number], stopping, min(best, size), patience * size, scoring)
            for index in settled.nonzero().squeeze(1).tolist():
                key = int(parts[number].sentence[index]), number
                if key not in found:  # the group is still extended, but its answer stays
                    found[key] = parts[number].finished_hypotheses(index, size)
            all_settled = all_settled & settled
        still_open = (~all_settled).nonzero().squeeze(1)
        parent = torch.cat(parents, dim=1)
        rows = (torch.arange(len(parent), device=parent.device)[:, None] * beam_size + parent)[still_open]
        step_function.reorder(rows.flatten())
        parts = [part.select(still_open) for part in parts]
        yield None  # no piece is certain: groups avoid each other's pieces from the first on
    return [
        best_of([h for group in range(groups) for h in found[sentence, group]], best)
        for sentence in range(len(max_lengths))
    ]


diverse_beam_search = to_the_end(diverse_beam_steps)


def count(taken: Float[Tensor, "sentences vocab"], beams: Beams) -> Float[Tensor, "sentences vocab"]:
    """`taken` with the newest pieces of these open hypotheses."""
    return taken.scatter_add(1, beams.newest, (beams.log_prob > -torch.inf).to(taken.dtype))


def best_of(hypotheses: list[Hypothesis], best: int) -> list[Hypothesis]:
    """The highest-scoring ones, of equal ones the first; groups may find the same."""
    different = {hypothesis.tokens: hypothesis for hypothesis in reversed(hypotheses)}
    return sorted(reversed(different.values()), key=lambda hypothesis: -hypothesis.score)[:best]
