"""What the report of a run shows of its model and of its translations of the held-out sources: details.json.

Measured when a run ends, from what is translated for its scores anyway; nothing is translated again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from weft.data.bins import binned
from weft.data.measures import count_characters, length
from weft.errors import UsageError
from weft.evaluating.comparison import LENGTHS, by_size
from weft.evaluating.evaluation import EvaluatedSet
from weft.evaluating.explanation import explain
from weft.layers.positions import RotaryPositions
from weft.translating.translator import Translator

SENTENCES_SHOWN = 8
"""Sentences of the best and of the worst chrF each."""
ATTENDED = (5, 15)
"""Fewest and most words of a source whose attention is shown."""
POSITIONS_SHOWN, DIMENSIONS_SHOWN = 64, 256


def details(translator: Translator, evaluated: EvaluatedSet) -> dict[str, Any]:
    """Scores by the length of the source, lengths, chrF of the sentences, the best and the worst of them, attention in
    three, and the vectors of positions; for json.dumps."""
    sources = [translation.source for translation in evaluated.translations]
    source, target = evaluated.languages
    texts = [(sources, source), (evaluated.references[0], target), (evaluated.hypotheses, target)]
    lengths = [length(count_characters(lines), language) for lines, language in texts]
    chrf = evaluated.statistics["chrf"].by_sentence()
    order = np.lexsort((-lengths[0], -chrf))  # of equally good ones the longest first
    members = list(by_size(lengths[0], LENGTHS).values())
    by_length = {
        score: [round(evaluated.statistics[score].score(chosen), 2) if chosen.any() else None for chosen in members]
        for score in ("sacrebleu", "chrf")
    }
    limits, (references, translations) = binned(lengths[1:])
    limits_of_chrf, (of_chrf,) = binned([np.floor(chrf)], range(9, 99, 10))
    rows = [
        {"source": source, "reference": reference, "hypothesis": hypothesis, "chrf": round(float(score), 1)}
        for source, reference, hypothesis, score in zip(
            sources, evaluated.references[0], evaluated.hypotheses, chrf, strict=True
        )
    ]
    shown = min(SENTENCES_SHOWN, max(1, len(rows) // 2))
    fit = [place for place in order if ATTENDED[0] <= lengths[0][place] <= ATTENDED[1] and evaluated.hypotheses[place]]
    attended = [fit[0], fit[len(fit) // 2], fit[-1]] if len(fit) >= 3 else fit
    return {
        "data": dict(evaluated.data),
        "buckets": {"limits": LENGTHS, "sentences": [int(chosen.sum()) for chosen in members], **by_length},
        "lengths": {"limits": limits, "references": references, "translations": translations},
        "chrf": {"limits": limits_of_chrf, "sentences": of_chrf},
        "best": [rows[place] for place in order[:shown]],
        "worst": [rows[place] for place in order[::-1][:shown]],
        "attention": attention_in(translator, [rows[place] for place in attended]),
        "positions": rounded(position_vectors(translator.model.network)),
    }


def attention_in(translator: Translator, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """From each target piece to the source, the mean over heads and layers; without what cannot be explained."""
    found = []
    for row in rows if translator.model.recipe.model.attending_layers else ():
        try:
            explained = explain(translator, row["source"], target=row["hypothesis"], occlusion=False)
        except UsageError:  # an empty translation, a very long one
            continue
        pieces = {"source": explained.source_pieces, "target": explained.target_pieces}
        found.append({**pieces, "chrf": row["chrf"], "weights": rounded(torch.from_numpy(explained.attention))})
    return found


def position_vectors(network: Any) -> Float[Tensor, "positions dimensions"]:
    """What the network adds to the vectors of its source at each position. Rotary positions add nothing: of them the
    cosines and then the sines of the rotation. Empty without either."""
    added = getattr(network, "source_positions", None)
    rotary = next((module for module in network.modules() if isinstance(module, RotaryPositions)), None)
    with torch.inference_mode():
        if added is not None:
            count = min(POSITIONS_SHOWN, getattr(added, "weight", torch.empty(POSITIONS_SHOWN)).size(0))
            parameter = next(network.parameters())
            return added(torch.zeros(1, count, network.config.model_dim, device=parameter.device))[
                0, :, :DIMENSIONS_SHOWN
            ]
        if rotary is not None:
            turned = torch.zeros(1, 1, POSITIONS_SHOWN, rotary.turns.size(-1), device=rotary.turns.device)
            turned[..., : turned.size(-1) // 2] = 1
            return rotary(turned)[0, 0]
    return torch.empty(0, 0)


def rounded(values: Tensor) -> list[list[float]]:
    return [[round(value, 2) for value in row] for row in values.tolist()]
