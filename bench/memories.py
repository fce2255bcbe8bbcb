"""The associative memories against exact results and other libraries: `python -m bench.memories [CHECK ...]`.

Each check appends a line to bench/results/memories.jsonl, with what was asked and what was found. `--table` runs no
check and prints the newest line of each; `--docs` also puts that into the docs. `--page` runs the snippets of
docs/en/memories.md, which draw its figures into docs/figures. Times are of one thread, in CPU-seconds, so that other
programs disturb them little. `--data` names the folder that holds mnist-t10k. scikit-learn and peapods are the peers of
two checks: `pip install scikit-learn peapods`.
"""

import argparse
import importlib
import math
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.machine import (
    LANGUAGES,
    RESULTS,
    ROOT,
    Line,
    append_line,
    circumstances,
    fill_page,
    markdown_table,
    read_lines,
    say,
)
from torch import Tensor, nn

from weft.data.images import ImageBatches, read_idx
from weft.models.memories.dbn import classifier
from weft.models.memories.hopfield import Hopfield
from weft.models.memories.ising import CRITICAL, Ising, exact_energy, exact_magnetization
from weft.models.memories.modern import ModernHopfield
from weft.models.memories.rbm import RBM
from weft.runs.train import Silent
from weft.runtime import keep_memory_pages
from weft.tasks.memories import Classification, ContrastiveDivergence, labelled, learn, learn_deep

FILE = RESULTS / "memories.jsonl"
PAGE = ROOT / "docs" / "en" / "memories.md"
SEEDS = (1, 2, 3)
Samples = tuple[np.ndarray, np.ndarray]
"""Energies and squared magnetizations, (samples, lattices)."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.memories", description="The associative memories, measured.")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)}; left out: all")
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="left out: WEFT_DATA")
    parser.add_argument("--page", action="store_true", help="run the snippets of the page")
    parser.add_argument("--table", action="store_true", help="run nothing, print the table")
    parser.add_argument("--docs", action="store_true", help="also put the table into the docs")
    options = parser.parse_args()
    if unknown := set(options.checks) - CHECKS.keys():
        parser.error(f"no check {', '.join(sorted(unknown))}; there are: {', '.join(CHECKS)}")
    torch.set_num_threads(1)
    keep_memory_pages()
    if options.page:
        begin = time.perf_counter()
        run_page(options.data, ROOT / "docs" / "figures")
        say(f"the page took {time.perf_counter() - begin:.0f} s")
        return
    for name in () if options.table else options.checks or CHECKS:
        torch.manual_seed(1)
        begin = time.process_time()
        figures = CHECKS[name](options.data)
        spent = {"cpu_seconds": round(time.process_time() - begin, 1)}
        append_line(FILE, {"check": name, **figures, **spent, **circumstances()})
        say(f"{name}: {figures}")
    texts = {language: table(language) for language in LANGUAGES}
    print(texts["en"])
    if options.docs:
        fill_page("memories.md", "measured", texts)


def run_page(data: Path, figures: Path) -> dict[str, Any]:
    """Run the Python snippets of the page one after the other; they draw into `figures`. Returns their names."""
    snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work:
        before, places = Path.cwd(), {"WEFT_DATA": str(data.resolve()), "FIGURES": str(figures.resolve())}
        os.environ.update(places)
        try:
            os.chdir(work)
            for number, snippet in enumerate(snippets, start=1):
                exec(compile(snippet, f"snippet {number} of {PAGE.name}", "exec"), names)  # noqa: S102 (our own page)
        finally:
            os.chdir(before)
    return names


# Ising


def ising_speed(data: Path) -> Line:
    """Millions of spin updates in a CPU-second: 16 lattices of 64 x 64 at the critical temperature."""
    temperatures, sweeps = [CRITICAL] * 16, 500
    speeds: Line = {}
    for rule in ("metropolis", "heat-bath"):
        lattice = Ising((64, 64), temperatures, rule=rule)  # type: ignore[arg-type]
        lattice.sweep(20)
        speeds[rule] = million_updates(lambda lattice=lattice: lattice.sweep(sweeps), 16 * 64 * 64 * sweeps)
    peer = peer_library("peapods").Ising((64, 64), temperatures=np.full(16, CRITICAL, np.float32), n_replicas=1)
    speeds["peapods"] = million_updates(
        lambda: peer.sample(sweeps, sweep_mode="metropolis", warmup_ratio=0.0), 16 * 64 * 64 * sweeps
    )
    return {"goal": "40 M updates a CPU-second", "met": speeds["metropolis"] >= 40, **speeds}


def million_updates(run: Callable[[], Any], updates: int) -> float:
    """The best of three."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return round(updates / min(times) / 1e6, 1)


def ising_exact(data: Path) -> Line:
    """Energy and magnetization of 64 x 64 against Onsager and Yang; above the transition m itself, whose mean is 0."""
    temperatures, replicas = (1.8, 2.0, 2.6), 32
    lattice = Ising((64, 64), np.repeat(temperatures, replicas).tolist(), rule="heat-bath", seed=1)
    energies, magnetizations = lattice.measure(4000, discard=1000, every=5)
    found: Line = {}
    for place, temperature in enumerate(temperatures):
        mine = slice(place * replicas, (place + 1) * replicas)
        m = magnetizations if temperature > CRITICAL else np.abs(magnetizations)
        for name, runs, exact in (("E", energies, exact_energy), ("m", m, exact_magnetization)):
            means = runs[:, mine].mean(0)
            error = means.std(ddof=1) / math.sqrt(replicas)
            found[f"{name}({temperature})"] = {
                "found": round(float(means.mean()), 6),
                "exact": round(exact(temperature), 6),
                "errors": round(float((means.mean() - exact(temperature)) / error), 2),
            }
    met = all(abs(each["errors"]) <= 3 for each in found.values())
    return {"goal": "within 3 standard errors", "met": met, **found}


def binder_crossings(data: Path) -> Line:
    """Where the cumulants of two sizes cross, by reweighting samples at the exact critical temperature."""
    samples: dict[int, Samples] = {}
    for length, sweeps in ((16, 60_000), (32, 60_000), (64, 80_000)):
        lattice = Ising((length, length), [CRITICAL] * 48, seed=length)
        energies, m = lattice.measure(sweeps, discard=6000 * length // 64, every=length // 4)
        samples[length] = energies * length**2, m**2
        say(f"binder: {length} x {length}, {energies.shape[0]:,} samples of 48 lattices")
    found: Line = {}
    for small, large in ((16, 32), (32, 64)):
        kept = [slice(None), *(np.arange(48) != left for left in range(48))]  # all, and all but one: the jackknife
        each = [crossing(chosen(samples[small], some), chosen(samples[large], some)) for some in kept]
        whole, jackknife = np.array(each[0]), np.array(each[1:])
        errors = np.sqrt(47 * jackknife.var(0))
        found[f"{small}/{large}"] = {
            "T": round(float(whole[0]), 5),
            "T error": round(float(errors[0]), 5),
            "off": f"{100 * abs(whole[0] / CRITICAL - 1):.3f} %",
            "U*": round(float(whole[1]), 4),
            "U* error": round(float(errors[1]), 4),
        }
    met = all(abs(f["T"] / CRITICAL - 1) < 0.003 and abs(f["U*"] - 0.611) <= 0.006 for f in found.values())
    return {"goal": "T within 0.3 % of 2.26919, U* .611 ± .006", "met": met, **found}


def chosen(samples: Samples, lattices: Any) -> Samples:
    energies, squares = samples
    return energies[:, lattices], squares[:, lattices]


def crossing(small: Samples, large: Samples) -> tuple[float, float]:
    """Temperature and height at which the cumulants are equal, by bisection."""
    low, high = 0.98 * CRITICAL, 1.02 * CRITICAL
    while high - low > 1e-6:
        middle = (low + high) / 2
        ordered = cumulant(*large, middle) > cumulant(*small, middle)
        low, high = (middle, high) if ordered else (low, middle)
    return low, cumulant(*large, low)


def cumulant(energies: np.ndarray, squares: np.ndarray, temperature: float) -> float:
    """U at another temperature than the samples' (Ferrenberg and Swendsen 1988)."""
    exponents = -(1 / temperature - 1 / CRITICAL) * (energies - energies.mean())
    weights = np.exp(exponents - exponents.max())
    return 1 - (weights * squares**2).mean() * weights.mean() / (3 * (weights * squares).mean() ** 2)


def peer_library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise SystemExit(f"{name} is missing; the peers are installed by: pip install scikit-learn peapods") from None


# Hopfield


def random_patterns(patterns: int, units: int, seed: int) -> Tensor:
    return torch.randint(0, 2, (patterns, units), generator=torch.Generator().manual_seed(seed)).float() * 2 - 1


def hopfield_capacity(data: Path) -> Line:
    """The load at which half of the patterns are recalled (overlap over .95), and exact recall at N / (2 log N)."""
    loads: Line = {}
    for units, networks in ((200, 20), (400, 10), (1000, 4), (2000, 2)):
        shares = []
        grid = [round(0.13 + 0.0075 * step, 4) for step in range(10)]
        for load in grid:
            found = []
            for seed in range(networks):
                patterns = random_patterns(round(load * units), units, seed)
                recalled = Hopfield.fit(patterns).recall(patterns)
                found.append(float(((recalled * patterns).mean(1) > 0.95).float().mean()))
            shares.append(statistics.mean(found))
            if shares[-1] < 0.3:
                break
        loads[f"N = {units}"] = round(half(grid, shares), 4)
        say(f"hopfield: {units} units, {dict(zip(grid, [round(s, 3) for s in shares], strict=False))}")
    least = round(400 / (2 * math.log(400)))
    exact = [exactly_recalled(least, 400, seed) for seed in range(20)]
    patterns = random_patterns(399, 400, 1).double()
    inverse = bool(torch.equal(Hopfield.fit(patterns, "pseudo-inverse").recall(patterns), patterns))
    in_order = list(loads.values())
    met = in_order == sorted(in_order, reverse=True) and 0.143 <= in_order[-1] <= 0.160
    met = met and statistics.mean(exact) >= 0.9 and inverse
    return {
        "goal": "half recall falls with N, in [.143, .160] at 2000; 90 % exact at N / (2 log N); pseudo-inverse N - 1",
        "met": met,
        **loads,
        f"exact at {least} of 400": round(statistics.mean(exact), 4),
        "pseudo-inverse at 399 of 400": inverse,
    }


def exactly_recalled(patterns: int, units: int, seed: int) -> float:
    stored = random_patterns(patterns, units, seed)
    return float((Hopfield.fit(stored).recall(stored) == stored).all(1).float().mean())


def half(grid: list[float], shares: list[float]) -> float:
    """Where the shares first fall through one half, between two loads by a straight line."""
    below = next(place for place, share in enumerate(shares) if share < 0.5)
    above, under = shares[below - 1], shares[below]
    return grid[below - 1] + (above - 0.5) / (above - under) * (grid[below] - grid[below - 1])


def modern_patterns(data: Path) -> Line:
    """One update from a pattern plus noise of deviation 1: the share with a cosine over .99 to the pattern."""
    found: Line = {}
    for count in (1000, 10_000, 100_000):
        patterns = nn.functional.normalize(torch.randn(count, 64), dim=1) * 8
        query = patterns[:1000] + torch.randn(1000, 64)
        for name, beta in (("1/sqrt(d)", 1 / 8), ("0.5", 0.5), ("1", 1.0)):
            updated = torch.cat([ModernHopfield(patterns, beta).update(some) for some in query.split(100)])
            cosine = nn.functional.cosine_similarity(updated, patterns[:1000])
            found[f"{count:,}, beta {name}"] = round(float((cosine > 0.99).float().mean()), 3)
    met = found["10,000, beta 1"] >= 0.99 and found["10,000, beta 1/sqrt(d)"] <= 0.05
    return {"goal": "10,000 patterns: at least .99 at beta 1, at most .05 at 1/sqrt(d)", "met": met, **found}


# Restricted Boltzmann machines


def mnist(data: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, held-out ones: a random split of seed 0 into 8,000 and 2,000."""
    folder = data / "mnist-t10k"
    images = torch.from_numpy(read_idx(folder / "t10k-images-idx3-ubyte.gz")).flatten(1) / 255
    labels = torch.from_numpy(read_idx(folder / "t10k-labels-idx1-ubyte.gz")).long()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(images)))
    train, valid = order[:8000], order[8000:]
    return images[train], labels[train], images[valid], labels[valid]


PLAIN: Line = {"optimizer": "sgd", "momentum": 0.0, "schedule": "constant"}


def ais(data: Path) -> Line:
    """log Z of a machine of 784 x 20 units, trained on MNIST by the Trainer: estimated, and summed over 2^20 states."""
    train, _, valid, _ = mnist(data)
    rbm, task = RBM(784, 20, chains=100), ContrastiveDivergence(valid)
    with tempfile.TemporaryDirectory() as run:
        learn(rbm, task, train, Path(run) / "run", Silent(), epochs=10, learning_rate=0.05, **PLAIN)
    estimate, error = rbm.ais_log_z(train.mean(0).clamp(0.01, 0.99).logit())
    exact = rbm.exact_log_z()
    met = abs(estimate - exact) <= 0.1
    figures = {"estimate": round(estimate, 3), "error": round(error, 3), "exact": round(exact, 3)}
    return {"goal": "within 0.1 nat", "met": met, **figures, "log p of held-out": mean_log_prob(rbm, valid, exact)}


def mean_log_prob(rbm: RBM, images: Tensor, log_z: float) -> float:
    with torch.no_grad():
        return round(float(-rbm.free_energy(images.round()).mean()) - log_z, 2)


def rbm_speed(data: Path) -> Line:
    """Samples a CPU-second of PCD-1 on 784 x 256 units, and the pseudo-likelihood after as many epochs."""
    train, _, valid, _ = mnist(data)
    found: Line = {}
    for batch, goal, rate in ((100, 1.5, 0.05), (10, 3.0, 0.01)):
        speeds: dict[str, list[float]] = {name: [] for name in LEARNERS}
        quality: dict[str, float] = {}
        for _ in range(3):
            for name, learner in LEARNERS.items():
                begin = time.process_time()
                rbm = learner(train, batch, rate)
                speeds[name].append(EPOCHS * len(train) / (time.process_time() - begin))
                quality[name] = round(pseudo_likelihood(rbm, valid), 2)
        middle = {name: statistics.median(values) for name, values in speeds.items()}
        found[f"batch {batch}"] = {
            "samples a CPU-second:": {name: round(value) for name, value in middle.items()},
            "times sklearn:": {name: round(middle[name] / middle["sklearn"], 2) for name in ("update", "Trainer")},
            "asked": goal,
            "pseudo-log-likelihood:": quality,
        }
    met = all(each["times sklearn:"]["update"] >= each["asked"] for each in found.values())
    return {"goal": "1.5 times scikit-learn at batch 100, 3 times at batch 10", "met": met, **found}


EPOCHS = 5


def by_sklearn(train: Tensor, batch: int, rate: float) -> RBM:
    settings = {"learning_rate": rate, "batch_size": batch, "n_iter": EPOCHS, "random_state": 1}
    peer, rbm = peer_library("sklearn.neural_network").BernoulliRBM(256, **settings), RBM(784, 256)
    with peer_library("threadpoolctl").threadpool_limits(1):
        peer.fit(train.numpy())
    rbm.weight.data = torch.tensor(peer.components_.T.copy())
    rbm.visible_bias.data = torch.tensor(peer.intercept_visible_)
    rbm.hidden_bias.data = torch.tensor(peer.intercept_hidden_)
    return rbm


def by_update(train: Tensor, batch: int, rate: float) -> RBM:
    rbm, batches = RBM(784, 256, chains=batch), ImageBatches(train, batch, 1)
    for epoch in range(EPOCHS):
        for some in batches.epoch(epoch):
            rbm.update(some, rate)
    return rbm


def by_trainer(train: Tensor, batch: int, rate: float) -> RBM:
    rbm, task = RBM(784, 256, chains=batch), ContrastiveDivergence(train[:100])
    settings = {**PLAIN, "learning_rate": rate, "epochs": EPOCHS, "validate_every": f"{EPOCHS} epochs"}
    with tempfile.TemporaryDirectory() as run:
        learn(rbm, task, train, Path(run) / "run", Silent(), batch=batch, **settings)
    return rbm


LEARNERS = {"sklearn": by_sklearn, "update": by_update, "Trainer": by_trainer}


@torch.no_grad()
def pseudo_likelihood(rbm: RBM, images: Tensor) -> float:
    """The mean over the images and 20 units of each."""
    torch.manual_seed(0)
    return float(torch.stack([rbm.pseudo_log_likelihood(images).mean() for _ in range(20)]).mean())


def dbn(data: Path) -> Line:
    """Accuracy of 500-500 with greedy pretraining, and of the same network without, fine-tuned alike; last weights."""
    train, labels, valid, valid_labels = mnist(data)
    rows, task = labelled(train, labels), Classification(labelled(valid, valid_labels))
    greedy: Line = {**PLAIN, "momentum": 0.5, "schedule": "linear", "learning_rate": 0.1}
    greedy |= {"weight_decay": 2e-4, "batch": 50, "epochs": 20}
    found: Line = {"pretrained": [], "not pretrained": []}
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as work:
            run = Path(work)
            deep = learn_deep((500, 500), train, valid, run / "deep", Silent(), seed=seed, **greedy)
            torch.manual_seed(seed)
            fresh = [RBM(784, 500), RBM(500, 500)]
            for machine in fresh:
                nn.init.xavier_uniform_(machine.weight)
            for name, machines in (("pretrained", deep), ("not pretrained", fresh)):
                network = classifier(machines, 10, dropout=0.2)
                if machines is fresh:
                    nn.init.xavier_uniform_(network[-1].weight)  # type: ignore[arg-type]
                learn(network, task, rows, run / name.replace(" ", "-"), Silent(), seed=seed, epochs=40)
                with torch.no_grad():
                    accuracy = task.evaluate(network.eval()).metrics["valid_accuracy"]
                found[name].append(round(100 * accuracy, 2))
                say(f"dbn: seed {seed}, {name}: {accuracy:.4f}")
    means = {name: round(statistics.mean(values), 2) for name, values in found.items()}
    met = means["pretrained"] >= 96.0 and means["pretrained"] >= means["not pretrained"] + 0.4
    return {"goal": "at least 96.0 %, and 0.4 over the same without pretraining", "met": met, **found, "mean": means}


CHECKS: dict[str, Callable[[Path], Line]] = {
    "ising-speed": ising_speed,
    "ising-exact": ising_exact,
    "binder": binder_crossings,
    "hopfield": hopfield_capacity,
    "modern": modern_patterns,
    "ais": ais,
    "rbm-speed": rbm_speed,
    "dbn": dbn,
}

HEADERS = {"en": ["check", "asked", "found", "met", "CPU-s"], "zh": ["检查", "要求", "结果", "达到", "CPU 秒"]}
NOT_SHOWN = {"check", "goal", "met", "cpu_seconds", *circumstances()}


def table(language: str) -> str:
    """The newest line of each check as Markdown."""
    lines = read_lines(FILE)
    if not lines:
        raise SystemExit("no measurement yet")
    newest = {line["check"]: line for line in lines}
    rows = [
        [
            f"`{name}`",
            line["goal"],
            told({key: value for key, value in line.items() if key not in NOT_SHOWN}),
            {"en": ("no", "yes"), "zh": ("否", "是")}[language][line["met"]],
            f"{line['cpu_seconds']:,.0f}",
        ]
        for name in CHECKS
        if (line := newest.get(name))
    ]
    where = {
        "en": "One thread of an {processor}, torch {torch}, {date}.",
        "zh": "{processor} 的一个线程，torch {torch}，{date}。",
    }
    return markdown_table(HEADERS[language], rows, text_columns=4) + "\n\n" + where[language].format(**lines[-1])


def told(value: Any, separator: str = "; ") -> str:
    """A figure with its error, or several with their names; those within others are listed by commas."""
    if not isinstance(value, dict):
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    if value.keys() == {"found", "exact", "errors"}:
        return f"{value['found']} ({value['errors']} standard errors from {value['exact']})"
    parts = []
    for key, inner in value.items():
        if not key.endswith(" error"):
            error = f" ± {value[f'{key} error']}" if f"{key} error" in value else ""
            parts.append(f"{key} {told(inner, ', ')}{error}")
    return separator.join(parts)


if __name__ == "__main__":
    main()
