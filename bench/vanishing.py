"""How far a gradient reaches through recurrent cells: `python -m bench.vanishing`, a second; `--docs` draws it.

Sequences of random inputs go through a layer with new weights; the loss is a random sum of its last output. What is
measured is the norm of the gradient by the input so many steps before. A plain network multiplies it by U and a slope
below 1 at each step: it vanishes, or explodes where U is large, which clipping the norm of the whole gradient bounds
without bringing anything nearer. An LSTM multiplies it by its forget gate.
"""

import argparse

import torch
from bench.machine import (
    LANGUAGES,
    RESULTS,
    ROOT,
    Line,
    append_line,
    last_session,
    markdown_table,
    new_session,
    read_lines,
    show_last_session,
)

from weft.figures.line_chart import Series, line_chart
from weft.layers.recurrence import Recurrence

LINES = RESULTS / "vanishing.jsonl"
WIDTH, STEPS, ROWS, SEEDS = 128, 60, 32, 5
SHOWN = (1, 5, 10, 20, 40)

Variant = tuple[str, str, float, float, bool]
VARIANTS: list[Variant] = [  # name, cell, factor of U, forget bias, clipped
    ("RNN", "rnn", 1.0, 0.0, False),
    ("RNN, U * 2", "rnn", 2.0, 0.0, False),
    ("RNN, U * 2, clipped to 1", "rnn", 2.0, 0.0, True),
    ("GRU", "gru", 1.0, 0.0, False),
    ("LSTM, forget bias 1", "lstm", 1.0, 1.0, False),
    ("LSTM, forget bias 4", "lstm", 1.0, 4.0, False),
]


def main() -> None:
    parser = argparse.ArgumentParser(description="How far a gradient reaches through recurrent cells.")
    parser.add_argument("--docs", action="store_true", help="also write the figure and the table into docs/")
    options = parser.parse_args()
    session = new_session()
    for variant in VARIANTS:
        append_line(LINES, {**session, "variant": variant[0], "norms": measured(variant)})
    if options.docs:
        for language in LANGUAGES:
            path = ROOT / "docs" / "figures" / f"vanishing-{language}.svg"
            path.write_text(figure(last_session(read_lines(LINES)), language), encoding="utf-8")
    show_last_session(LINES, table, "recurrent.md", "vanishing", docs=options.docs)


def measured(variant: Variant) -> list[float]:
    """The mean norm over the rows and seeds, by the distance in steps."""
    _, cell, factor, forget, is_clipped = variant
    sums = torch.zeros(STEPS)
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        layer = Recurrence(WIDTH, WIDTH, cell=cell)
        with torch.no_grad():
            layer.recurrent_weight.mul_(factor)
            if cell == "lstm":
                layer.bias.unflatten(0, (4, -1))[1] = forget
        x = torch.randn(ROWS, STEPS, WIDTH).requires_grad_()
        out, _ = layer(x)
        (out[:, -1] * torch.randn(ROWS, WIDTH)).sum().backward()
        assert x.grad is not None
        norms = x.grad.norm(dim=-1).mean(0).flip(0)
        if is_clipped:
            whole = torch.nn.utils.get_total_norm([p.grad for p in layer.parameters() if p.grad is not None])
            norms = norms / whole.clamp(min=1)
        sums += norms
    return [float(f"{norm:.3g}") for norm in sums / SEEDS]


TITLES = {"en": "Norm of the gradient by the input d steps before the loss", "zh": "损失对 d 步之前输入的梯度范数"}
AXES = {"en": ("steps before", "norm"), "zh": ("相隔步数", "范数")}
CAPTIONS = {
    "en": "`python -m bench.vanishing`, {} wide, {} seeds, weft {commit}, {date}.",
    "zh": "`python -m bench.vanishing`，宽 {}，{} 个种子，weft {commit}，{date}。",
}
CHINESE = {"clipped to": "裁剪到", "forget bias": "遗忘门偏置", ", ": "，", "*": "×"}


def named(variant: str, language: str) -> str:
    for english, chinese in CHINESE.items() if language == "zh" else ():
        variant = variant.replace(english, chinese)
    return variant


def figure(lines: list[Line], language: str) -> str:
    series = [Series(named(line["variant"], language), range(STEPS), line["norms"]) for line in lines]
    x_label, y_label = AXES[language]
    title = TITLES[language]
    return line_chart(series, title=title, x_label=x_label, y_label=y_label, log_y=True, language=language)


def table(lines: list[Line], language: str) -> str:
    """The figure, and the norms at some distances, as Markdown."""
    header = [AXES[language][0], *map(str, SHOWN)]
    rows = [
        [named(line["variant"], language), *(f"{line['norms'][distance]:.2g}" for distance in SHOWN)] for line in lines
    ]
    image = f"![{TITLES[language]}](../figures/vanishing-{language}.svg)"
    made = CAPTIONS[language].format(WIDTH, SEEDS, commit=lines[0]["commit"], date=lines[0]["date"])
    return f"{image}\n\n{markdown_table(header, rows)}\n\n{made}"


if __name__ == "__main__":
    main()
