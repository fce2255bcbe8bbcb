"""Explanations of translations as text, or as one HTML page that needs no network. Measures nothing itself."""

import math
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
from jaxtyping import Float

from weft.analysis.page import page
from weft.decoding.beam_tree import Node
from weft.errors import shown
from weft.evaluating.explanation import Explanation, align
from weft.figures.heat_map import Outline, heat_map
from weft.figures.step_tree import Branch, Look, step_tree
from weft.figures.table import Table

NEEDED_MOST = 3
"""How many source words are listed for each target word: those it loses most without."""
WORTH_TELLING = 0.05
"""Smaller values, in nats or as shares, are not shown."""


def as_text(explained: Explanation) -> str:
    """The explanation for a terminal; control characters are escaped."""
    parts = [
        f"source       {explained.source}\ntranslation  {explained.text}\n"
        f"log-probability {minus(explained.log_prob, 2)}, score {minus(explained.score, 3)}",
        steps_table(explained).text(),
    ]
    if explained.target_words:
        parts.append(words_table(explained).text())
    if explained.most_harmful:
        parts.append(harm_in_a_line(explained))
    if explained.beam:
        parts.append("\n".join(["The beam, hypotheses indented below those they extend", *in_lines(explained)]))
    text = "\n\n".join(parts)
    return shown(text, len(text))


def as_html(explained: Sequence[Explanation], model: str) -> str:
    """The explanations by the model of this name on one page, with style and figures in it."""
    sections = "\n".join(section(number, one) for number, one in enumerate(explained, start=1))
    title = "One sentence explained" if len(explained) == 1 else f"{len(explained):,} sentences explained"
    return page(
        kind="weft analysis",
        title=title,
        subtitle=f"by {model}",
        main=sections,
        footer="Written by <code>weft analyze</code>.",
    )


def harm_in_a_line(explained: Explanation) -> str:
    """without 你好，: Welcome to China. (score −0.31 in place of −1.20)"""
    instead = explained.most_harmful
    assert instead is not None
    scores = f"score {minus(instead.score, 2)} in place of {minus(explained.score, 2)}"
    return f"without {instead.removed}: {instead.text} ({scores})"


def section(number: int, explained: Explanation) -> str:
    parts = [
        f'<section>\n<h2 dir="auto">{number}. {escape(explained.source)}</h2>',
        f'<p class="subtitle" dir="auto">{escape(explained.text)}</p>',
        f'<p class="note">Log-probability {minus(explained.log_prob, 2)}, score {minus(explained.score, 3)}.</p>',
        "<h3>At every step</h3>",
        f'<p class="note">{STEPS_NOTE}</p>',
        steps_table(explained).html(),
        "<h3>Attention and alignment</h3>",
        f'<p class="note">{attention_note(explained)}</p>',
        f'<div class="scroll">{attention_figure(explained)}</div>',
    ]
    if explained.occlusion:
        parts += [
            "<h3>Effect of each source word</h3>",
            f'<p class="note">{OCCLUSION_NOTE}</p>',
            f'<div class="scroll">{occlusion_figure(explained)}</div>',
            *([f'<p dir="auto">{escape(harm_in_a_line(explained))}</p>'] if explained.most_harmful else []),
        ]
    if explained.beam:
        parts += [
            "<h3>The beam</h3>",
            f'<p class="note">{BEAM_NOTE}</p>',
            f'<div class="scroll">{beam_figure(explained)}</div>',
        ]
    return "\n".join([*parts, "</section>"])


STEPS_NOTE = (
    "Each piece of the translation, its probability given the pieces before it, and its alternatives. In percent."
)
OCCLUSION_NOTE = (
    "By how many nats a target word becomes less probable when a source word is removed; 0.7 nats make it half as "
    "probable. Negative numbers, in another color: it becomes more probable."
)
BEAM_NOTE = (
    "The hypotheses that the search compared at each step, the most probable on top. It extended those in a frame and "
    "dropped the rest. The thick line leads to the translation; a green frame is another finished hypothesis."
)


def attention_note(explained: Explanation) -> str:
    count = len(explained.heads)
    where = f"all {count} decoder layers" if explained.layer is None else f"decoder layer {explained.layer} of {count}"
    needed = "the source word without which a target word becomes least probable"
    framed = needed if explained.occlusion else "the source word that a target word attends to most"
    return (
        f"Attention from each target piece: the mean over the heads of {where}; each row sums to 100. A frame marks "
        f"{framed}. Attention shows where the model looks, not why it decides."
    )


# Figures


def attention_figure(explained: Explanation) -> str:
    sources, targets = explained.source_words, explained.target_words
    outlines = [
        Outline(
            targets[link.target].first,
            targets[link.target].last,
            sources[link.source].first,
            sources[link.source].last,
        )
        for link in explained.alignment
    ]
    rows, columns = explained.target_pieces, explained.source_pieces
    return map_of_pieces(explained.attention, rows, columns, "Attention", ("target", "source"), outlines)


def occlusion_figure(explained: Explanation) -> str:
    return heat_map(
        explained.occlusion,
        rows=[word.text for word in explained.target_words],
        columns=[word.text for word in explained.source_words],
        title="Loss without a source word, in nats",
        row_label="target",
        column_label="without",
        write=lambda nats: minus(nats, 1) if abs(nats) >= WORTH_TELLING else "",
    )


LOOKS: dict[str, Look] = {"best": "main", "finished": "end", "kept": "plain", "dropped": "faint"}


def beam_figure(explained: Explanation) -> str:
    """The beam as a tree: within a step the most probable hypothesis on top, dropped ones below."""
    nodes = sorted(explained.beam, key=lambda node: (node.step, node.state == "dropped", -node.log_prob))
    places = {node.id: place for place, node in enumerate(nodes)}
    return step_tree(
        [
            Branch(
                explained.beam_pieces[node.id],
                None if node.parent is None else places[node.parent],
                LOOKS[node.state],
                f"{node.state}, log-probability {minus(node.log_prob, 2)}",
            )
            for node in nodes
        ],
        title="Hypotheses, step by step",
    )


def figures_of(explained: Explanation) -> dict[str, str]:
    """Every figure by the name of its file: attention to the source and within both sides, as the mean over the heads
    of all layers and of every head alone, the effect of each source word, and the beam."""
    figures = {"attention": attention_figure(explained)} if explained.source_words else {}
    if explained.occlusion:
        figures["occlusion"] = occlusion_figure(explained)
    if explained.beam:
        figures["beam"] = beam_figure(explained)
    targets, sources = explained.target_pieces, explained.source_pieces
    read = ("<s>", *targets[:-1])
    maps = {"attention": (explained.heads, targets, sources)}
    for side, name, pieces in (("source", "encoder", sources), ("target", "decoder", read)):
        if side in explained.self_attention:
            maps[name] = explained.self_attention[side], pieces, pieces
    for name, (heads, rows, columns) in maps.items():
        if name != "attention":
            figures[name] = map_of_pieces(heads.mean((0, 1)), rows, columns, f"Attention within the {name}")
        for layer, head in np.ndindex(*heads.shape[:2]):
            title = f"{name}, layer {layer + 1}, head {head + 1}"
            figures[f"{name}-layer{layer + 1}-head{head + 1}"] = map_of_pieces(heads[layer, head], rows, columns, title)
    return figures


def map_of_pieces(
    weights: Float[np.ndarray, "query key"],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    sides: tuple[str, str] = ("from", "to"),
    outlines: Sequence[Outline] = (),
) -> str:
    return heat_map(
        weights.tolist(),
        rows=rows,
        columns=columns,
        title=f"{title}, in percent",
        row_label=sides[0],
        column_label=sides[1],
        largest=1.0,
        write=lambda share: f"{100 * share:.0f}" if share >= WORTH_TELLING else "",
        outlines=outlines,
    )


# Tables


def steps_table(explained: Explanation) -> Table:
    """A row for each target piece: its probability and its alternatives."""
    others = max(map(len, explained.alternatives), default=0)
    rows = []
    steps = zip(explained.target_pieces, explained.log_probs, explained.alternatives, strict=True)
    for piece, log_prob, alternatives in steps:
        instead = [f"{one.piece} {percent(one.log_prob)}" for one in alternatives if one.piece != piece]
        rows.append((piece, percent(log_prob), *(instead + [""] * others)[:others]))
    filled = 2 + max((sum(map(bool, row[2:])) for row in rows), default=0)
    header = ("piece", "%", *(["instead"] + [""] * others)[:others])
    return Table("", header[:filled], [row[:filled] for row in rows], texts=frozenset({0, *range(2, filled)}))


def words_table(explained: Explanation) -> Table:
    """A row for each target word: the source word it attends to, and with occlusion the one it comes from and those it
    needs most."""
    looks = {
        link.target: (explained.source_words[link.source].text, f"{100 * link.weight:.0f}")
        for link in align(explained.attention, explained.source_words, explained.target_words)
    }
    comes = {link.target: explained.source_words[link.source].text for link in explained.alignment}
    rows = []
    for number, word in enumerate(explained.target_words):
        attended = looks.get(number, ("", ""))
        rows.append(
            (word.text, comes.get(number, ""), *attended, needed(explained, number))
            if explained.occlusion
            else (word.text, *attended)
        )
    if not explained.occlusion:
        return Table("", ("word", "looks at", "%"), rows, texts=frozenset({0, 1}))
    header = ("word", "comes from", "looks at", "%", "loses without it, in nats")
    return Table("", header, rows, texts=frozenset({0, 1, 2, 4}))


def needed(explained: Explanation, target: int) -> str:
    words = zip(explained.occlusion[target], explained.source_words, strict=True)
    most = sorted(words, key=lambda lost: -lost[0])[:NEEDED_MOST]
    return ", ".join(f"{word.text} {nats:.1f}" for nats, word in most if nats >= WORTH_TELLING)


# The tree in lines


def in_lines(explained: Explanation) -> Iterator[str]:
    """A line for each hypothesis from where it branches off; hypotheses dropped at once are left out."""
    children: dict[int | None, list[Node]] = {}
    for node in explained.beam:
        if node.state != "dropped":
            children.setdefault(node.parent, []).append(node)

    waiting = [(explained.beam[0], 0)]
    while waiting:
        node, depth = waiting.pop()
        pieces, last = [explained.beam_pieces[node.id]], node
        while len(following := children.get(last.id, [])) == 1:
            last = following[0]
            pieces.append(explained.beam_pieces[last.id])
        mark = {"best": "*", "finished": "+"}.get(last.state, " ")
        yield f"{mark} {minus(last.log_prob, 2):>7}  {'  ' * depth}{' '.join(pieces)}"
        waiting += [(child, depth + 1) for child in sorted(following, key=lambda node: node.log_prob)]
    yield "* is the translation, + another finished hypothesis;"
    yield "figures are log-probabilities up to the end of the line"


# Numbers


def percent(log_prob: float) -> str:
    """A log-probability as a percentage."""
    share = 100 * math.exp(log_prob)
    return f"{share:.0f}" if share >= 9.95 else f"{share:.1f}" if share >= 0.05 else "<0.1"


def minus(number: float, decimals: int) -> str:
    """The number with a true minus sign, which a rounded zero lacks."""
    return f"{round(number, decimals) + 0.0:.{decimals}f}".replace("-", "−")
