"""All reliability tests, one after the other: `make bench-reliability`, or `python -m bench.reliability`.

They are the modules r*.py of this folder; see record.py for what each has. `--only r1 r4` runs some, `--quick` runs all
with few repetitions, to see that they work. `--docs` puts the last line of each test into docs/*/reliability.md, and
with `--table` nothing is run.
"""

from bench.reliability.record import LINES
from bench.suite import Suite

SUITE = Suite(
    folder="reliability",
    lines=LINES,
    quick={"r1_kills": ["--kills", "3"], "r3_signals": ["--rounds", "1"], "r11_soak": ["--minutes", "0.3"]},
    captions={
        "en": "Measured on {date}, weft {commit}, {processor}, torch {torch}.",
        "zh": "测量于 {date}，weft {commit}，{processor}，torch {torch}。",
    },
)

if __name__ == "__main__":
    SUITE.main()
