"""The figures of `weft inspect`: name -> SVG."""

import math

from weft.evaluating.embeddings import EmbeddingReport
from weft.evaluating.heads import HeadReport
from weft.evaluating.layers import LayerReport
from weft.evaluating.positions import PositionReport
from weft.evaluating.word_errors import CLASSES, ErrorReport
from weft.figures.dense_map import Panel, dense_map
from weft.figures.heat_map import heat_map
from weft.figures.line_chart import Series, line_chart
from weft.figures.scatter import scatter


def head_figures(found: HeadReport) -> dict[str, str]:
    """A map of every measure of importance: rows are attentions, columns heads."""
    figures = {}
    for by, unit, scale, digits in (("gradient", "", 1, 2), ("ablation", ", thousandths of a nat a token", 1000, 1)):
        values = [[scale * value for value in row] for row in found.rows(found.importance[by], math.nan)]
        figures[f"heads-{by}"] = heat_map(
            values,
            rows=list(map(str, found.places)),
            columns=[f"head {number}" for number in range(1, len(values[0]) + 1)],
            title=f"Importance of heads by {by}{unit}",
            row_label="attention",
            column_label="head",
            write=lambda value, digits=digits: f"{value:.{digits}f}",
        )
    return figures


def position_figures(found: PositionReport) -> dict[str, str]:
    """The formulas side by side."""
    panels = [Panel(name, vectors.tolist()) for name, vectors in found.vectors.items()]
    return {"positions": dense_map(panels, title="Position vectors", row_label="position", column_label="dimension")}


def layer_figures(found: LayerReport) -> dict[str, str]:
    """The loss and BLEU by the layers that are left of each stack."""
    figures = {}
    for measure, name in (("loss", "nats a token"), ("bleu", "sacreBLEU")):
        series = [
            Series(f"{stack} layers", *zip(*((getattr(d, stack), getattr(d, measure)) for d in depths), strict=True))
            for stack in ("encoder", "decoder")
            if (depths := sorted(found.of_stack(stack), key=lambda one: getattr(one, stack)))
        ]
        title = f"{'Loss' if measure == 'loss' else 'BLEU'} without the top layers"
        figures[f"layers-{measure}"] = line_chart(series, title=title, x_label="layers left", y_label=name)
    return figures


def embedding_figures(found: EmbeddingReport) -> dict[str, str]:
    """The most frequent pieces on the plane of two principal components."""
    title = f"{found.side.capitalize()} embeddings: {len(found.points)} {found.ranked_by}"
    axes = [f"component {axis}, {share:.0%} of the variance" for axis, share in enumerate(found.explained, 1)]
    return {f"embeddings-{found.side}": scatter(found.points, title=title, x_label=axes[0], y_label=axes[1])}


def error_figures(found: ErrorReport) -> dict[str, str]:
    """Errors a hundred words by the length of the reference."""
    lengths = sorted({min(one.length // 5 * 5, 40) for one in found.sentences})

    def rate(kind: str, length: int) -> float:
        of = [one for one in found.sentences if min(one.length // 5 * 5, 40) == length]
        return 100 * sum(len(one.words[kind]) for one in of) / max(1, sum(one.length for one in of))

    return {
        "errors": line_chart(
            [Series(kind, lengths, [rate(kind, length) for length in lengths]) for kind in CLASSES],
            title="Errors by the length of the reference",
            x_label="words of the reference, in steps of 5",
            y_label="errors per 100 words",
            from_zero=True,
        )
    }
