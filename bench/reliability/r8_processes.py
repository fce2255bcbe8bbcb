"""R8: two and three processes, started by torchrun, train one model; are they the run of one process?

`python -m bench.reliability.r8_processes`. Without dropout the steps are the same to rounding: plain SGD, SGD with four
batches to an update and layers that are left out, batches of one pair (which leave a process without rows), Adam; of
AdamW and Muon the losses. Then, with dropout: two processes are asked to stop by a SIGTERM to torchrun and continue,
which must be the run of two that were left alone, bit for bit; and one process continues what two have begun.
"""

from pathlib import Path
from typing import Any

from bench.reliability.place import LONGEST_RUN, differences, finish, last_step, place, wait_for, without_clock
from bench.reliability.record import options_of, record
from bench.reliability.several import finish_together, largest_difference, losses_of, start_together

NAME = "R8"
DOES = {
    "en": "2 and 3 processes (torchrun, gloo, fp32) against one with the same batches; stopped and gone on with",
    "zh": "2 个和 3 个进程（torchrun、gloo、fp32）与批次相同的单个进程比较；停下再继续",
}
FOUND = {
    "en": "after {steps} steps without dropout no weight and no moment differs by more than {most_difference:.1e} in "
    "{runs} pairs of runs (the losses under AdamW by {adamw_difference:.1e}, under Muon by "
    "{muon_difference:.1e}); with dropout 2 processes stopped {late} steps after the signal, and are afterwards bit "
    "for bit those left alone: {same}; one process goes on: {goes_on}",
    "zh": "不用 dropout，{steps} 步之后，{runs} 组对照的权重和优化器的矩相差都不超过 {most_difference:.1e}"
    "（损失：AdamW 相差 {adamw_difference:.1e}，Muon 相差 {muon_difference:.1e}）；用 dropout，"
    "两个进程在信号之后 {late} 步停下，继续之后与不受打扰的逐位相同：{same}；单个进程接着跑：{goes_on}",
}

TOLERANCE = {"most_difference": 1e-6, "adamw_difference": 1e-5, "muon_difference": 1e-5}
"""Of weights and moments, and of losses in nats."""

STEPS = 40

PLAIN = ("model.dropout=0", f"training.steps={STEPS}", "training.precision=fp32", "training.threads=1")
SGD = ("training.optimizer=sgd", "training.momentum=0", "training.learning_rate=0.1")
RECIPES: dict[str, tuple[str, ...]] = {
    "sgd": (*SGD,),
    "accumulated": (*SGD, "training.accumulate=4", "model.layer_dropout=0.3", "model.encoder_layers=3"),
    "one pair at a time": (*SGD, "training.batch_tokens=16"),
    "adam": ("training.optimizer=adam", "training.learning_rate=0.001", "training.epsilon=1e-4"),
}
BY_LOSSES: dict[str, tuple[str, ...]] = {
    "adamw": ("training.optimizer=adamw", "training.learning_rate=0.001"),
    "muon": ("training.optimizer=muon", "training.learning_rate=0.001"),
}
"""With its usual epsilon Adam makes whole steps of gradients that are rounding noise alone: those of the biases of
attention's keys, which the soft-max takes out again; and biases are AdamW's under Muon too. So here the losses are
compared, and the weights above."""

WITH_DROPOUT = ("model.layer_dropout=0.2", "training.threads=1", "training.epochs=8")


def main() -> None:
    options = options_of(__doc__)
    with place() as folder:
        figures = {**compare(folder), **stop_and_go_on(folder)}
    is_one = all(figures[name] < tolerance for name, tolerance in TOLERANCE.items())
    passed = is_one and figures["same"] and figures["goes_on"] and figures["late"] <= 2
    record(options, NAME, figures, passed=passed)


def compare(folder: Path) -> dict[str, Any]:
    """Each recipe with one process and with two, and the first one with three."""
    figures: dict[str, Any] = {"steps": STEPS, "runs": 0, "most_difference": 0.0}
    for name, settings in RECIPES.items():
        finish(folder, name, *PLAIN, *settings)
        for processes in (2, 3) if name == "sgd" else (2,):
            run = f"{name} {processes}"
            finish_together(folder, run, *PLAIN, *settings, processes=processes)
            figures["runs"] += 1
            figures["most_difference"] = max(
                figures["most_difference"], largest_difference(folder / name, folder / run)
            )
    for name, settings in BY_LOSSES.items():
        finish(folder, name, *PLAIN, *settings)
        finish_together(folder, f"{name} 2", *PLAIN, *settings)
        one, two = (losses_of(without_clock(folder / run / "metrics.jsonl")) for run in (name, f"{name} 2"))
        figures[f"{name}_difference"] = max(abs(a - b) for a, b in zip(one, two, strict=True))
    return figures


def stop_and_go_on(folder: Path) -> dict[str, Any]:
    """Two processes with dropout, left alone, stopped in between, and continued by one."""
    finish_together(folder, "left alone", *WITH_DROPOUT)
    late = stop(folder, "stopped")
    finish_together(folder, "stopped", *WITH_DROPOUT)
    stop(folder, "continued")
    said = finish(folder, "continued", *WITH_DROPOUT)
    goes_on = "continuing from step" in said and last_step(folder / "continued") == last_step(folder / "left alone")
    same = not differences(folder / "stopped", folder / "left alone")
    return {"late": late, "same": same, "goes_on": goes_on}


def stop(folder: Path, run: str) -> int:
    """Begin a run of two processes, end torchrun by SIGTERM after some steps; how many they took after the signal."""
    with start_together(folder, run, *WITH_DROPOUT) as running:
        is_training = wait_for(lambda: steps_logged(folder / run) >= 10, running, LONGEST_RUN)
        steps = steps_logged(folder / run)
        running.terminate()
        _, said = running.communicate(timeout=LONGEST_RUN)
    stopped = last_step(folder / run)
    if not is_training or said.count(f"stopped at step {stopped} and saved") != 1:
        raise SystemExit(f"{run} did not stop as it should: {said}")
    return stopped - steps


def steps_logged(run: Path) -> int:
    """Steps that metrics.jsonl knows of."""
    return max((row["step"] for row in without_clock(run / "metrics.jsonl")), default=0)


if __name__ == "__main__":
    main()
