"""The figures of `weft inspect`: name -> SVG."""

from weft.evaluating.heads import HeadReport
from weft.evaluating.positions import PositionReport
from weft.figures.dense_map import Panel, dense_map
from weft.figures.heat_map import heat_map
from weft.models.pruning import Head


def head_figures(found: HeadReport) -> dict[str, str]:
    """A map of every measure of importance: rows are attentions, columns heads."""
    figures = {}
    for by, of in found.importance.items():
        places = list(dict.fromkeys(head.place for head in of))
        most = max(head.number for head in of) + 1
        in_thousandths = 1000 if by == "ablation" else 1
        figures[f"heads-{by}"] = heat_map(
            [[in_thousandths * of.get(Head(place, number), 0.0) for number in range(most)] for place in places],
            rows=list(map(str, places)),
            columns=[f"head {number + 1}" for number in range(most)],
            title=f"Importance of heads by {by}" + (", thousandths of a nat a token" if by == "ablation" else ""),
            row_label="attention",
            column_label="head",
            write=lambda value, digits=1 if by == "ablation" else 2: f"{value:.{digits}f}",
        )
    return figures


def position_figures(found: PositionReport) -> dict[str, str]:
    """The formulas side by side."""
    panels = [Panel(name, vectors.tolist()) for name, vectors in found.vectors.items()]
    return {"positions": dense_map(panels, title="Position vectors", row_label="position", column_label="dimension")}
