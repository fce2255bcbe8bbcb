"""Language models of tiny Shakespeare after equal time: `python -m bench.language_models --data DIR --budget 1m`.

Trains recipes/tiny-shakespeare-KIND.toml with a budget each, and an n-gram model of every order from 1 to 8, and prints
one table. DIR holds tiny-shakespeare/input.txt; all are measured on the whole last tenth of it. With --nanogpt FOLDER,
which holds nanoGPT at commit 3adf61e with its data prepared (data/shakespeare_char), its trainer runs its CPU recipe
beside weft, and both are measured on the same windows: `like-nanogpt` has the same architecture, size, batches, steps
and precision; `like-nanogpt-faster` has the same architecture, size and number of characters, in larger batches and in
bf16 where the machine has it.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from bench.machine import (
    RESULTS,
    ROOT,
    Line,
    append_line,
    circumstances,
    environment,
    last_session,
    markdown_table,
    read_lines,
    say,
)

from weft import load
from weft.data.lines import read_lines as read_lines_of
from weft.data.lines import without_end
from weft.data.running import windows_of
from weft.folders.model_folder import load_model
from weft.tasks.generating import LanguageModel
from weft.tasks.perplexity import HeldOutText
from weft.training.run_folder import RunStatus

LINES = RESULTS / "language-models.jsonl"
KINDS = ("window", "rnn", "lstm", "transformer")
LIKE_NANOGPT = (
    *("data.context=64", "data.overlap=0", "model.model_dim=128", "model.num_heads=4", "model.num_layers=4"),
    *("model.ff_dim=512", "model.dropout=0.0", "model.activation=gelu", "model.positions=learned"),
    *(
        "model.max_positions=64",
        "training.learning_rate=1e-3",
        "training.batch_sentences=12",
        "training.steps=2000",
        "training.epochs=2",
    ),
    *("training.optimizer=adamw", "training.weight_decay=0.1", "training.betas=[0.9, 0.99]", "training.warmup=100"),
    "training.precision=fp32",  # as nanoGPT's on a CPU
    *("training.schedule=cosine", "training.final_share=0.1", "training.validate_every='2000 steps'"),
)
FASTER = (
    *LIKE_NANOGPT,
    *("training.precision=auto", "training.batch_sentences=32", "training.steps=750", "training.warmup=40"),
    *("training.learning_rate=2e-3", "training.validate_every='750 steps'"),
)
"""As many characters as LIKE_NANOGPT, 2,048 instead of 768 a step."""
LIKE = {
    "like-nanogpt": ("transformer like nanoGPT", LIKE_NANOGPT),
    "like-nanogpt-faster": ("transformer like nanoGPT, larger batches", FASTER),
}
NANOGPT = (
    *("config/train_shakespeare_char.py", "--device=cpu", "--compile=False", "--eval_iters=20", "--log_interval=500"),
    *("--block_size=64", "--batch_size=12", "--n_layer=4", "--n_head=4", "--n_embd=128", "--max_iters=2000"),
    *("--lr_decay_iters=2000", "--dropout=0.0"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--budget", default="1m")
    parser.add_argument("--only", nargs="*", default=["ngram", *KINDS], choices=["ngram", *KINDS, *LIKE])
    parser.add_argument("--set", nargs="*", default=[], help="overrides of the recipes")
    parser.add_argument("--nanogpt", type=Path)
    parser.add_argument("--mix", nargs=2, help="two runs whose probabilities are mixed")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    facts = {**circumstances(), "session": time.time_ns(), "threads": given.threads}
    for name in given.only:
        if name == "ngram":
            for order in range(1, 9):
                keep(facts, f"ngram {order}", trained("ngram", given, [f"model.order={order}"]))
        elif name in LIKE:
            title, settings = LIKE[name]
            keep(facts, title, trained("transformer", given, [*settings, *given.set]))
        else:
            keep(facts, name, {**trained(name, given, given.set, budget=given.budget), "budget": given.budget})
    if given.mix is not None:
        say(mixed(given.mix[0], given.mix[1], given.data))
    if given.nanogpt is not None:
        keep(facts, "nanoGPT", nanogpt(given.nanogpt.resolve(), given.threads))
    show()


def keep(facts: Line, name: str, found: Line) -> None:
    append_line(LINES, {**facts, "name": name, **found})
    took = f"{found['seconds']:.1f} s ({found['cpu_seconds']:.1f} s of the processor)"
    say(f"{name}: {found['nats']:.4f} nats a character in {took}")


def trained(kind: str, given: argparse.Namespace, overrides: list[str], budget: str | None = None) -> Line:
    """Train a recipe in a process of its own; the seconds are those from its start to its exit."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / kind
        command = ["-m", "weft", "train", str(ROOT / "recipes" / f"tiny-shakespeare-{kind}.toml"), "--run", str(run)]
        command += [] if budget is None else ["--budget", budget]
        command += [part for override in overrides for part in ("--set", override)]
        seconds = timed([sys.executable, *command], ROOT, given.threads, given.data)
        (scores,) = json.loads((run / "scores.json").read_text(encoding="utf-8"))
        parameters, steps = load_model(run).count_parameters(), RunStatus.read(run / "run.json").last
    figures = {name: scores["scores"][name]["value"] for name in ("nats", "bits_per_character")}
    signature = scores["scores"]["nats"]["signature"]
    return {**figures, "signature": signature, **seconds, "parameters": parameters, "steps": steps}


def timed(command: list[str], folder: Path, threads: int, data: Path) -> Line:
    """The seconds from a program's start to its exit, and those of the processor, which others that run at the same
    time change less."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment(threads, data), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.monotonic() - began, "cpu_seconds": used}


def mixed(first: str, second: str, data: Path) -> str:
    """The mean of two models' probabilities, weighted by what is best on the first half of the held-out text."""
    lines = read_lines_of(["tiny-shakespeare/input.txt"], data, keeps_blank=True)
    texts = without_end(lines, 0.1)[1].texts
    one, other = (log_probs_in_order(load(name), texts) for name in (first, second))
    half, weights = len(one) // 2, np.linspace(0.01, 0.99, 99)
    mixes = [np.logaddexp(np.log(weight) + one, np.log1p(-weight) + other) for weight in weights]
    best = max(range(len(mixes)), key=lambda n: mixes[n][:half].mean())
    alone = ", ".join(f"{-each.mean():.4f} ({-each[half:].mean():.4f})" for each in (one, other))
    figures = f"{-mixes[best].mean():.4f} nats on the whole, {-mixes[best][half:].mean():.4f} on the second half"
    return f"{weights[best]:.2f} {first} + {1 - weights[best]:.2f} {second}: {figures}; alone {alone}"


def log_probs_in_order(model: LanguageModel, texts: Sequence[str]) -> np.ndarray:
    held_out = HeldOutText(model.learned, texts)
    windows, _, _ = windows_of(held_out.ids, *held_out.window)
    found = [log_probs for _, log_probs in held_out.log_probs(model.network)]
    in_order = np.argsort(np.argsort(-windows.lengths, kind="stable"))  # they came by length
    return np.concatenate([found[place] for place in in_order])


def nanogpt(folder: Path, threads: int) -> Line:
    seconds = timed([sys.executable, "train.py", *NANOGPT], folder, threads, folder)
    sys.path.insert(0, str(folder))
    from model import GPT, GPTConfig  # type: ignore[import-not-found]  (nanoGPT's own)

    saved = torch.load(folder / "out-shakespeare-char" / "ckpt.pt", map_location="cpu", weights_only=True)
    model = GPT(GPTConfig(**saved["model_args"]))
    model.load_state_dict(saved["model"])
    model.eval()
    text = torch.from_numpy(np.fromfile(folder / "data/shakespeare_char/val.bin", dtype=np.uint16).astype(np.int64))
    length, nats = saved["model_args"]["block_size"], 0.0
    whole = (len(text) - 1) // length * length  # in windows that do not overlap, and a shorter one
    for first, last, size in ((0, whole, length), (whole, len(text) - 1, len(text) - 1 - whole)):
        read, labels = text[first:last].view(-1, size), text[first + 1 : last + 1].view(-1, size)
        with torch.inference_mode():
            for some, label in zip(read.split(64), labels.split(64), strict=True):
                logits, _ = model(some, label)
                nats += float(torch.nn.functional.cross_entropy(logits.mT, label, reduction="sum"))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"nats": nats / (len(text) - 1), **seconds, "parameters": parameters, "steps": saved["iter_num"]}


def show() -> None:
    rows: list[list[str]] = []
    for line in last_session(read_lines(LINES)):
        size = f"{line['parameters'] / 1e6:.2f} M"
        rows.append(
            [
                line["name"],
                f"{line['nats']:.3f}",
                f"{line['seconds']:.0f}",
                f"{line['cpu_seconds']:.0f}",
                f"{line['steps']:,}",
                size,
            ]
        )
    say(markdown_table(["model", "nats a character", "seconds", "of the processor", "steps", "parameters"], rows))


if __name__ == "__main__":
    main()
