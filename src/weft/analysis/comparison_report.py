"""A comparison of systems as text, Markdown, LaTeX or one HTML page that needs no network. Measures nothing itself."""

from collections.abc import Sequence

from weft.analysis.page import page_of_tables
from weft.errors import shown
from weft.evaluating.comparison import Changed, Comparison
from weft.evaluating.seeds import Seeds
from weft.figures.table import Table, padded, signed, width_of


def as_text(compared: Comparison | Seeds, most_changed: int) -> str:
    """The comparison for a terminal; control characters are escaped."""
    parts = [table.text() for table in compared.tables()]
    if isinstance(compared, Comparison):
        parts += [
            "\n".join([title, *(in_lines(one, names) for one in sentences)])
            for title, names, sentences in changed_sentences(compared, most_changed)
        ]
    text = "\n\n".join(parts)
    return shown(text, len(text))


def in_lines(changed: Changed, names: tuple[str, str]) -> str:
    titles = ("source", "reference", *names)
    texts = (changed.source, changed.reference, changed.baseline, changed.other)
    width = max(map(width_of, titles))
    lines = [
        f"    {padded(title, width, True)}  {flat(text)}".rstrip() for title, text in zip(titles, texts, strict=True)
    ]
    return "\n".join([f"sentence {changed.number}, chrF {signed(changed.gain, 1)}", *lines])


def as_markdown(compared: Comparison | Seeds, most_changed: int) -> str:
    """The comparison as Markdown, the changed sentences as tables; line breaks within a sentence become spaces."""
    return "\n\n".join(table.markdown() for table in all_tables(compared, most_changed)) + "\n"


def as_latex(compared: Comparison | Seeds) -> str:
    """The tables of figures, each a `table` for booktabs; without the changed sentences."""
    return "\n\n".join(table.latex() for table in compared.tables()) + "\n"


def as_html(compared: Comparison | Seeds, most_changed: int) -> str:
    """The comparison as one HTML page with its style in it."""
    systems = compared.systems if isinstance(compared, Comparison) else [s for g in compared.groups for s in g.systems]
    title = " · ".join(system.name for system in systems)
    tables = all_tables(compared, most_changed)
    return page_of_tables("weft comparison", title, ", ".join(compared.data), tables, made_by="weft compare")


def all_tables(compared: Comparison | Seeds, most_changed: int) -> list[Table]:
    if isinstance(compared, Seeds):
        return compared.tables()
    return compared.tables() + [
        Table(
            title,
            ("sentence", "source", "reference", *names, "chrF"),
            [
                tuple(map(flat, (str(c.number), c.source, c.reference, c.baseline, c.other, signed(c.gain, 1))))
                for c in sentences
            ],
            texts=frozenset({1, 2, 3, 4}),
        )
        for title, names, sentences in changed_sentences(compared, most_changed)
    ]


def changed_sentences(compared: Comparison, most_changed: int) -> list[tuple[str, tuple[str, str], Sequence[Changed]]]:
    """A title, the names of both systems and the sentences to show, for every system compared with the first; systems
    without changed sentences are left out."""
    baseline, *others = compared.systems
    return [
        (
            f"Sentences that changed most, of {len(changed):,} that differ between {baseline.name} and {other.name}",
            (baseline.name, other.name),
            shown,
        )
        for other, changed in zip(others, compared.changed, strict=True)
        if (shown := changed[:most_changed])
    ]


def flat(text: str) -> str:
    return " ".join(text.splitlines())
