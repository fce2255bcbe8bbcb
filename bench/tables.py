"""What the lines of a grid show: a Markdown table in either language, and loss curves as SVG."""

import math
import statistics
from typing import Any

from bench.machine import ROOT, SEPARATORS, Line, markdown_table
from bench.variants import variants_of

from weft.figures.line_chart import Series, line_chart

HEADERS = {
    "en": {
        "choice": "choice",
        "beam": "sacreBLEU, beam",
        "gain": "gain",
        "greedy": "greedy",
        "chrf": "chrF, beam",
        "loss": "valid loss",
        "accuracy": "accuracy",
        "tokens": "target tokens",
        "steps": "steps",
        "repeats": "repeating, %",
        "parameters": "parameters",
        "speed": "tokens a second",
    },
    "zh": {
        "choice": "选项",
        "beam": "sacreBLEU（束搜索）",
        "gain": "增减",
        "greedy": "贪心",
        "chrf": "chrF（束搜索）",
        "loss": "验证损失",
        "accuracy": "准确率",
        "tokens": "目标词元",
        "steps": "步数",
        "repeats": "重复，%",
        "parameters": "参数",
        "speed": "词元数/秒",
    },
}
COLUMNS = ["choice", "beam", "gain", "greedy", "loss", "accuracy", "repeats", "parameters", "speed"]
COLUMNS_ACROSS_PIECES = ["choice", "beam", "gain", "greedy", "chrf", "tokens", "steps", "parameters", "speed"]
"""Of a grid whose variants cut text into other pieces: a loss or an accuracy by the piece compares none of them."""
PAIRS = {"en": "{:,} pairs", "zh": "{:,} 句对"}
CAPTIONS = {
    "en": "zh-en-50k/valid after {budget}; base `{base}`. Gain: over `{first}`, in sacreBLEU, on the seeds that both "
    "have. ± is the standard error over {seeds} seeds; without it, one seed. Signature {signatures}.",
    "zh": "zh-en-50k/valid，训练 {budget}后；基准配方 `{base}`。增减：相对于 `{first}` 的 sacreBLEU 之差，"
    "只比较双方都有的种子。± 是 {seeds} 个种子的标准误；没有 ± 的只有一个种子。签名 {signatures}。",
}
AT_LEAST_TWO = {"en": "2+", "zh": "≥ 2"}
SPEEDS = {
    "en": "Tokens a second: each alone for {seconds} seconds, {threads} threads, {precision}, {processor}, "
    "torch {torch}, weft {commit}, {date}.",
    "zh": "词元数/秒：每个选项单独运行 {seconds} 秒，{threads} 线程，{precision}，{processor}，torch {torch}，"
    "weft {commit}，{date}。",
}
ON_GPU = {"en": " On an {device}: {rows}.", "zh": "在 {device} 上训练的：{rows}。"}
BUDGETS = {
    "en": {"target_tokens": "{:,} target tokens", "steps": "{:,} steps", "epochs": "{:,} epochs"},
    "zh": {"target_tokens": "{:,} 个目标词元", "steps": "{:,} 步", "epochs": "{:,} 轮"},
}


def table(name: str, lines: list[Line], language: str) -> str:
    """The grid as Markdown, in the order of grids.py; what has not run yet is left out."""
    variants = variants_of(name)
    runs = {id(v): [line for line in lines if v.owns_run(line)] for v in variants}
    ((unit, amount),) = variants[0].budget.items()
    columns = COLUMNS_ACROSS_PIECES if unit == "epochs" else COLUMNS
    of_base = runs[id(variants[0])]
    columns = [column for column in columns if column != "repeats" or any("repeats" in line for line in of_base)]
    metrics = ["sacrebleu", "chrf"] if "chrf" in columns else ["sacrebleu"]
    rows = []
    for variant in variants:
        if not (mine := runs[id(variant)]):
            continue
        first = next(v for v in variants if v.pairs == variant.pairs)
        speeds = [line["target_tokens_per_second"] for line in lines if variant.owns_speed(line)]
        repeats = [100 * line["repeats"] for line in mine if "repeats" in line]
        label = f"`{variant.name}`"
        if variant.pairs is not None:
            label = f"{PAIRS[language].format(variant.pairs)}, {label}"
        cells = {
            "choice": label,
            "beam": with_error([line["scores"]["sacrebleu"] for line in mine], ".2f"),
            "gain": "" if variant is first else gain(mine, runs[id(first)]),
            "greedy": with_error([line["greedy_sacrebleu"] for line in mine], ".2f"),
            "chrf": with_error([line["scores"]["chrf"] for line in mine], ".2f"),
            "loss": with_error([line["valid_loss"] for line in mine], ".3f"),
            "accuracy": with_error([100 * line["valid_accuracy"] for line in mine], ".1f"),
            "tokens": f"{mine[0]['target_tokens'] / 1e6:.2f} M",
            "steps": f"{mine[0]['steps']:,}",
            "repeats": with_error(repeats, ".1f") if repeats else "",
            "parameters": f"{mine[0]['parameters'] / 1e6:.1f} M",
            "speed": f"{statistics.median(speeds):,.0f}" if speeds else "",
        }
        rows.append([cells[column] for column in columns])
    if not rows:
        raise SystemExit(f"no line of the grid {name} yet")
    any_run = next(line for mine in runs.values() for line in mine)
    seeds = sorted({len(mine) for mine in runs.values() if len(mine) > 1})
    several = f"{seeds[0]}–{seeds[-1]}" if len(seeds) > 1 else str(*seeds) or AT_LEAST_TWO[language]
    caption = CAPTIONS[language].format(
        budget=BUDGETS[language][unit].format(amount),
        base=variants[0].base,
        first=variants[0].name,
        seeds=several,
        signatures=SEPARATORS[language].join(f"`{any_run['signatures'][metric]}`" for metric in metrics),
    )
    measured = [line for line in lines for variant in variants if variant.owns_speed(line)]
    caption += where_trained([line for mine in runs.values() for line in mine], language)
    parts = [markdown_table([HEADERS[language][column] for column in columns], rows), caption]
    return "\n\n".join([*parts, *how_fast(measured, language)])


def where_trained(lines: list[Line], language: str) -> str:
    """Which rows were trained on which GPU, where not all were trained on a CPU."""
    by_device: dict[str, list[str]] = {}
    for line in lines:
        name = f"`{line['name']}`"
        if name not in (named := by_device.setdefault(line["device"], [])):
            named.append(name)
    on_gpus = {device: names for device, names in by_device.items() if device != "cpu"}
    return "".join(
        ON_GPU[language].format(device=device, rows=SEPARATORS[language].join(names))
        for device, names in on_gpus.items()
    )


def how_fast(lines: list[Line], language: str) -> list[str]:
    """On what the speeds were measured: a sentence for each kind of machine."""
    sentences = {}
    for line in lines:
        what = {key: line[key] for key in ("threads", "processor", "torch")}
        precision = "bf16" if line["native bf16"] == "yes" else "fp32"
        seconds = round(line["seconds"])
        sentences[precision, *what.values()] = SPEEDS[language].format(
            **what, precision=precision, seconds=seconds, commit=line["commit"], date=line["date"]
        )
    return list(sentences.values())


def with_error(values: list[float], form: str) -> str:
    """The mean, with its standard error where there are several values."""
    error = f" ± {standard_error(values):{form}}" if len(values) > 1 else ""
    return f"{statistics.mean(values):{form}}{error}"


def gain(mine: list[Line], base: list[Line]) -> str:
    """The mean difference in sacreBLEU on the seeds that both have, with the standard error of a difference."""
    ours, theirs = ({line["seed"]: line["scores"]["sacrebleu"] for line in lines} for lines in (mine, base))
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return ""
    mean = statistics.mean(ours[seed] - theirs[seed] for seed in shared)
    if len(shared) == 1:
        return f"{mean:+.2f}"
    # Runs of one seed share the order of the data but little else, so the two are taken as independent.
    error = math.hypot(*(standard_error([scores[seed] for seed in shared]) for scores in (ours, theirs)))
    return f"{mean:+.2f} ± {error:.2f}"


def standard_error(values: list[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


CURVES = {
    "en": {
        "title": "Training loss of {variants}",
        "mean": ", mean of {seeds} seeds",
        "x": "step",
        "y": "nats a target token",
    },
    "zh": {"title": "{variants} 的训练损失", "mean": "，{seeds} 个种子的平均", "x": "步", "y": "每个目标词元的 nat 数"},
}


def draw_curves(name: str, lines: list[Line], language: str) -> str:
    """Write docs/figures/NAME-LANGUAGE.svg, a line for the mean of each variant, and return how a page shows it."""
    runs = {v.name: [line["curve"] for line in lines if v.owns_run(line)] for v in variants_of(name)}
    drawn = {variant: curves for variant, curves in runs.items() if curves}
    words = CURVES[language]
    title, seeds = words["title"].format(variants=SEPARATORS[language].join(drawn)), min(map(len, drawn.values()))
    if seeds > 1:
        title += words["mean"].format(seeds=seeds)
    series = [Series(variant, *mean_curve(curves)) for variant, curves in drawn.items()]
    path = ROOT / "docs" / "figures" / f"{name}-{language}.svg"
    path.parent.mkdir(exist_ok=True)
    svg = line_chart(series, title=title, x_label=words["x"], y_label=words["y"], language=language)
    path.write_text(svg, encoding="utf-8")
    return f"![{title}](../figures/{path.name})"


def mean_curve(curves: list[list[Any]]) -> tuple[list[float], list[float]]:
    """The steps that all curves have, and the mean of their values there."""
    by_step: dict[int, list[float]] = {}
    for step, value in (point for curve in curves for point in curve):
        by_step.setdefault(step, []).append(value)
    steps = [step for step, values in sorted(by_step.items()) if len(values) == len(curves)]
    return [float(step) for step in steps], [statistics.mean(by_step[step]) for step in steps]
