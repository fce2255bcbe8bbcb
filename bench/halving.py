"""Does successive halving choose what the whole grid would have chosen, and for how many target tokens?

`python -m bench.halving`: sixteen points of a small Transformer on the starter corpus, as a grid and with halving; then
the grid's best point with five seeds, whose deviation says what a difference between two points means. The result is a
line of bench/results/halving.jsonl.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.machine import RESULTS, append_line, circumstances
from bench.reliability.place import RECIPE, furnish

from weft.tuning.cells import Cell
from weft.tuning.halving import saved, trust
from weft.tuning.opening import open_study
from weft.tuning.study import Study
from weft.tuning.working import work

LINES = RESULTS / "halving.jsonl"
MOST_TOKENS = 0.45
"""Share of the grid's target tokens."""
STUDY = """\
base = "tiny.toml"
metric = "loss"
budget = { steps = 240 }
validations = 8
"""
SPACE = """\
[space]
training.learning_rate = [1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2, 1.28e-1]
training.label_smoothing = [0.0, 0.2]
"""
HALVING = "[halving]\neta = 4\nrungs = [0.25, 0.5]\n"


def main() -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = furnish(Path(folder), pairs=600)
        (place / "tiny.toml").write_text(RECIPE.replace('checkpoint_every = "3 steps"', "threads = 1"), "utf-8")
        grid = finished(place, "grid", STUDY + SPACE)
        halved = finished(place, "halved", STUDY + SPACE + HALVING)
        best, chosen = best_of(grid), best_of(halved)
        alone = "".join(f"{key} = [{value!r}]\n" for key, value in best.values.items())
        seeds = finished(place, "seeds", f"seeds = [1, 2, 3, 4, 5]\n{STUDY}[space]\n{alone}")
        deviation = statistics.stdev(seeds.values(best_of(seeds)).values())
        losses = [grid.values(cell)[1] for cell in (best, chosen)]
        taken, whole = saved(halved)
        figures = {
            "points": len(grid.cells()),
            "share_of_tokens": round(taken / whole, 4),
            "best": dict(best.values),
            "chosen": dict(chosen.values),
            "loss_of_best": losses[0],
            "loss_of_chosen": losses[1],
            "deviation": deviation,
            "same_weights": grid_and_halved_agree(grid, halved, chosen),
            "trust": [vars(one) for one in trust(halved)],
        }
    passed = taken <= MOST_TOKENS * whole and losses[1] - losses[0] <= 2 * deviation and figures["same_weights"]
    line = {"passed": passed, **figures, "seconds": round(time.monotonic() - began, 1), **circumstances()}
    print(json.dumps(line, ensure_ascii=False), flush=True)
    append_line(LINES, line)
    sys.exit(0 if passed else 1)


def finished(place: Path, name: str, text: str) -> Study:
    """A study by this text, worked to its end."""
    (place / f"{name}.toml").write_text(text, encoding="utf-8")
    study = open_study(place / f"{name}.toml", folder=place / name)
    work(study)
    return study


def best_of(study: Study) -> Cell:
    best = study.best()
    assert best is not None
    return best


def grid_and_halved_agree(grid: Study, halved: Study, cell: Cell) -> bool:
    """Whether the trial of this cell ended with the same weights in both studies, bit for bit."""
    found = []
    for study in (grid, halved):
        (number,) = (result.number for result in study.results() if dict(result.settings) == cell.settings)
        found.append((study.trials_folder / f"{number:04}" / "run" / "model.safetensors").read_bytes())
    return found[0] == found[1]


if __name__ == "__main__":
    main()
