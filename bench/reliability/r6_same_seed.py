"""R6: does the same command twice give the same model?

`python -m bench.reliability.r6_same_seed`. Two processes, with other hash seeds of Python, take the same batches (every
step's loss is in the log) and end with the same weights; a third with another seed of weft does not.
"""

import os

from bench.reliability.place import differences, finish, last_step, place
from bench.reliability.record import options_of, record

NAME = "R6"
DOES = {"en": "the same seed twice, in two processes", "zh": "同一个种子，在两个进程里各训练一次"}
FOUND = {
    "en": "{steps} steps each; {different} files differ, with another seed {otherwise} do",
    "zh": "各 {steps} 步；有 {different} 个文件不同，换一个种子则有 {otherwise} 个",
}


def main() -> None:
    options = options_of(__doc__)
    with place() as folder:
        for number in ("1", "2"):
            finish(folder, f"run-{number}", env={**os.environ, "PYTHONHASHSEED": number})
        finish(folder, "run-3", "seed=2")
        figures = {
            "steps": last_step(folder / "run-1"),
            "different": len(differences(folder / "run-1", folder / "run-2")),
            "otherwise": len(differences(folder / "run-1", folder / "run-3")),
        }
    record(options, NAME, figures, passed=figures["otherwise"] > figures["different"] == 0)


if __name__ == "__main__":
    main()
