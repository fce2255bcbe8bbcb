"""All tests of the server, one after the other: `make bench-serving`, or `python -m bench.serving --model DIR`.

They are the modules v*.py of this folder; see place.py for what each has. `--only v1 v3` runs some, `--quick` runs all
in little time, to see that they work. `--docs` puts the last line of each into docs/*/serving.md, and with `--table`
nothing is run.
"""

from bench.serving.place import LINES
from bench.suite import Suite

SUITE = Suite(
    folder="serving",
    lines=LINES,
    quick={
        "v1_malformed": ["--malformed", "500", "--examples", "20"],
        "v2_soak": ["--seconds", "5"],
        "v3_overload": ["--seconds", "4"],
        "v4_clients": ["--clients", "50", "--silent", "10"],
        "v5_drain": ["--rounds", "1"],
        "v6_keys": ["--samples", "500"],
        "v11_batches": ["--texts", "200"],
        "v12_swap": ["--swaps", "2"],
        "v13_start": ["--rounds", "2"],
        "v14_attacks": ["--seconds", "3"],
    },
    captions={
        "en": "Measured on {date}, weft {commit}, {cores} cores of {processor}, torch {torch}; model {model}. The "
        "clients ran on the same "
        "cores as the server.",
        "zh": "测量于 {date}，weft {commit}，{processor} 的 {cores} 个核，torch {torch}；模型 {model}。"
        "客户端与服务器用的是同样的核。",
    },
    passed_on={"model": "a zh-en model to serve (left out: a tiny one is trained for each)"},
)

if __name__ == "__main__":
    SUITE.main()
