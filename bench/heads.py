"""Heads cut out of the shipped zh-en model: `python -m bench.heads --data DIR`; `--docs` fills the page.

DIR has zh-en-50k; only its pairs from Tatoeba are used, whose valid part no shipped model was trained on. Which heads
matter is measured on the last 300 of them, the loss without the least important ones on the first 300. Further training
takes 300 steps of 128 target tokens on pairs from the training part. What is measured is kept, so that a call after an
interrupted one goes on; `--again` begins anew.
"""

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import prod
from pathlib import Path

import torch
from bench.machine import (
    RESULTS,
    ROOT,
    Line,
    append_line,
    circumstances,
    last_session,
    markdown_table,
    read_lines,
    say,
    show_last_session,
)
from bench.pairs import write_pairs
from bench.shipped import tatoeba_rows

from weft.data.corpus import read_given
from weft.evaluating.forced import batches_of
from weft.evaluating.heads import Batches, importance_by_ablation, importance_by_gradient, loss_of, to_prune
from weft.export.folder import export_model
from weft.folders.model_folder import read_header
from weft.folders.pruning import save_pruned
from weft.folders.weight_storage import weights_in
from weft.models.pruning import Head, heads_of, masked
from weft.runs.train import Silent, train
from weft.translating.exported import load_for
from weft.translating.loading import load_translator
from weft.translating.translator import Translator

LINES, MODEL, PAIRS = RESULTS / "heads.jsonl", "zh-en", 300
SHARES = (0.0, 0.15, 0.25, 0.4, 0.5, 0.65, 0.75)
CHOSEN_BY = ("ablation", "gradient", "random 1")
TRAINED = [("gradient", 0.0), *((by, share) for by in CHOSEN_BY for share in (0.5, 0.75, 0.25))]
WAYS = ("gradient", "ablation", *(f"random {seed}" for seed in range(1, 6)))
STEPS, ROUNDS = 300, 3
RECIPE = f"""
[data]
source = "zh"
target = "en"
train = ["train.tsv"]
valid = ["few.tsv"]
[training]
steps = {STEPS}
epochs = 1000
batch_tokens = 128
precision = "fp32"
optimizer = "adamw"
learning_rate = 1e-4
schedule = "onecycle"
validate_every = "{STEPS} steps"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Heads cut out of the shipped zh-en model.")
    parser.add_argument("--data", type=Path, help="the folder with zh-en-50k; left out: only show what is known")
    parser.add_argument("--docs", action="store_true", help="also write the table into docs/")
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    options = parser.parse_args()
    if options.data is not None:
        measure(options.data, options.again)
    show_last_session(LINES, table, "inspecting.md", "heads", docs=options.docs)


def measure(data: Path, again: bool) -> None:
    known = [] if again or not LINES.exists() else last_session(read_lines(LINES))
    session = known[0]["session"] if known else datetime.now(UTC).isoformat(timespec="seconds")
    done = {(line["stage"], line["by"], line["share"]) for line in known}

    def keep(stage: str, by: str, share: float, found: Callable[[], Line]) -> None:
        if (stage, by, share) not in done:
            line = {"session": session, **circumstances(), "stage": stage, "by": by, "share": share, **found()}
            append_line(LINES, line)
            say(f"{stage} {by} {share:.0%}: {line.get('loss', line.get('seconds'))}")

    with tempfile.TemporaryDirectory() as home:
        work, translator = Path(home), load_translator(MODEL)
        valid = tatoeba_rows(data / "zh-en-50k", "valid")
        for name, rows in (("first", valid[:PAIRS]), ("last", valid[-PAIRS:])):
            write_pairs(work / f"{name}.tsv", rows)
        pairs = {name: read_given([work / f"{name}.tsv"], translator.model.recipe.data) for name in ("first", "last")}
        batches = {name: batches_of(translator, of) for name, of in pairs.items()}
        network, rank = translator.model.network, {}
        for by, importance in (("gradient", importance_by_gradient), ("ablation", importance_by_ablation)):
            keep("importance", by, 0.0, lambda by=by, of=importance: {"heads": listed(of(network, batches["last"]))})
            line = next(
                line for line in last_session(read_lines(LINES)) if (line["stage"], line["by"]) == ("importance", by)
            )
            rank[by] = dict(zip(heads_of(network), line["heads"], strict=True))
        for seed in range(1, 6):
            draw = random.Random(seed)
            rank[f"random {seed}"] = {head: draw.random() for head in heads_of(network)}
        for by, share in ((by, share) for by in WAYS for share in SHARES):
            chosen = to_prune(rank[by], share)
            with masked(network, chosen):
                keep("before", by, share, lambda: {"loss": loss_of(network, batches["first"])})
        half = to_prune(rank["ablation"], 0.5)
        keep("exact", "ablation", 0.5, lambda: exactness(translator, half, batches["first"], work / "exact"))
        if ("speed", "onnx", 0.5) not in done:
            time_half(translator, half, work, pairs["first"].sources, keep)
        for by, share in TRAINED:
            keep(
                "after",
                by,
                share,
                lambda b=by, s=share: {"loss": trained(translator, to_prune(rank[b], s), data, b, s)},
            )


def listed(importance: dict[Head, float]) -> list[float]:
    return [round(value, 7) for value in importance.values()]


def exactness(translator: Translator, heads: list[Head], batches: Batches, folder: Path) -> Line:
    """The largest difference of a logit of the cut model from the masked one's, and what its file saves in numbers."""
    network, smaller = translator.model.network, save_pruned(MODEL, translator.model, heads, folder)
    with masked(network, heads), torch.inference_mode():
        most = max(
            float((smaller.network(source, target) - network(source, target)).abs().max()) for source, target in batches
        )
    stored = sum(prod(shape) for shape, _ in weights_in(read_header(folder)).values())
    saved, width = translator.model.count_parameters() - stored, network.config.model_dim
    return {
        "difference": most,
        "saved": saved,
        "formula": len(heads) * (width // network.config.num_heads) * (4 * width + 3),
    }


def trained(translator: Translator, heads: list[Head], data: Path, by: str, share: float) -> float:
    """The loss of the model without these heads after STEPS more. A run that was interrupted goes on."""
    home = ROOT / "runs" / "heads" / f"{by} {share}".replace(" ", "-")
    home.mkdir(parents=True, exist_ok=True)
    valid = tatoeba_rows(data / "zh-en-50k", "valid")
    write_pairs(home / "few.tsv", valid[:20])
    write_pairs(home / "first.tsv", valid[:PAIRS])
    write_pairs(home / "train.tsv", tatoeba_rows(data / "zh-en-50k", "train"))
    (home / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    if not (home / "pruned").exists():
        save_pruned(MODEL, translator.model, heads, home / "pruned")
    overrides = [f"training.init={home / 'pruned'}"]
    train(home / "recipe.toml", run=home / "run", data=home, overrides=overrides, listener=Silent())
    after = load_translator(home / "run")
    pairs = read_given([home / "first.tsv"], after.model.recipe.data)
    found = loss_of(after.model.network, batches_of(after, pairs))
    shutil.rmtree(home)
    return found


def time_half(
    translator: Translator, heads: list[Head], work: Path, sources: list[str], keep: Callable[..., None]
) -> None:
    """Seconds for a third of the sentences with the whole model and with the half, in turn, by both engines."""
    save_pruned(MODEL, translator.model, heads, work / "half")
    for engine in ("native", "onnx"):
        folders = {"whole": MODEL, "half": str(work / "half")}
        if engine == "onnx":
            for name, folder in folders.items():
                export_model(folder, work / f"{name}.onnx", engine="onnx", sentences=10, accepts_differences=True)
            folders = {name: str(work / f"{name}.onnx") for name in folders}
        models = {name: load_for(folder, ()) for name, folder in folders.items()}
        for one in models.values():
            one.translate(sources[:5])
        seconds: dict[str, list[float]] = {name: [] for name in models}
        for _ in range(ROUNDS):
            for name, one in models.items():
                begin = time.process_time()
                one.translate(sources[: PAIRS // 3])
                seconds[name].append(round(time.process_time() - begin, 2))
        for name, share in (("whole", 0.0), ("half", 0.5)):
            found = {"seconds": seconds[name], "parameters": models[name].model.count_parameters()}
            keep("speed", engine, share, lambda found=found: found)


HEADERS = {
    "en": [
        "heads cut out",
        "by gradient",
        "by ablation",
        "random (5)",
        "further: by gradient",
        "further: by ablation",
        "further: random (1)",
    ],
    "zh": ["剪掉的头", "按梯度", "按消融", "随机（5 次）", "再训练：按梯度", "再训练：按消融", "再训练：随机（1 次）"],
}
NOTES = {
    "en": "Half cut out by ablation, {engine}: {parameters:.2f} instead of "
    "{whole:.2f} million parameters, {half} instead of {before} CPU seconds, median of {rounds} rounds in turn.",
    "zh": "按消融剪掉一半，{engine}：参数由 {whole:.2f} 百万变为 "
    "{parameters:.2f} 百万，CPU 秒数由 {before} 变为 {half}，轮流 {rounds} 轮的中位数。",
}

UNIT = {"en": "Nats a token; random: mean [least, most].", "zh": "每个词元的 nat 数；随机：均值 [最小, 最大]。"}
EXACT = {
    "en": "Cut and masked model differ by at most {difference:.1e} in a logit; {saved:,} numbers fewer in the file, "
    "{formula:,} by the formula.",
    "zh": "剪枝与屏蔽的模型，logit 最多相差 {difference:.1e}；文件里少了 {saved:,} 个数，按公式是 {formula:,} 个。",
}


def losses_of(lines: list[Line], stage: str, by: str) -> dict[float, list[float]]:
    found: dict[float, list[float]] = {}
    for line in lines:
        is_whole = line["share"] == 0.0 and stage == "after"  # trained once: no head is chosen
        if line["stage"] == stage and (line["by"].split()[0] == by or is_whole):
            found.setdefault(line["share"], []).append(line["loss"])
    return found


def table(lines: list[Line], language: str) -> str:
    """A row for each share, and below it how long translating takes."""
    columns = [
        losses_of(lines, stage, by) for stage in ("before", "after") for by in ("gradient", "ablation", "random")
    ]
    header, *names = HEADERS[language]
    shown = [(name, of) for name, of in zip(names, columns, strict=True) if len(of) > 1]  # not yet trained: left out
    rows = [[f"{share:.0%}", *(band(of.get(share, [])) for _, of in shown)] for share in columns[0]]
    speeds = {(line["by"], line["share"]): line for line in lines if line["stage"] == "speed"}
    notes = [
        NOTES[language].format(
            engine=engine,
            parameters=half["parameters"] / 1e6,
            whole=whole["parameters"] / 1e6,
            half=statistics.median(half["seconds"]),
            before=statistics.median(whole["seconds"]),
            rounds=len(half["seconds"]),
        )
        for engine in ("native", "onnx")
        if (half := speeds.get((engine, 0.5))) and (whole := speeds.get((engine, 0.0)))
    ]
    notes += [EXACT[language].format(**line) for line in lines if line["stage"] == "exact"]
    commits = ", ".join(dict.fromkeys(line["commit"] for line in lines))
    made = f"`python -m bench.heads`, weft {commits}, {lines[0]['date']}, {lines[0]['processor']}."
    return (
        markdown_table([header, *(name for name, _ in shown)], rows)
        + "\n\n"
        + "\\\n".join([UNIT[language], *notes, made])
    )


def band(values: list[float]) -> str:
    if len(set(values)) < 2:
        return f"{values[0]:.3f}" if values else ""
    return f"{statistics.mean(values):.3f} [{min(values):.3f}, {max(values):.3f}]"


if __name__ == "__main__":
    main()
