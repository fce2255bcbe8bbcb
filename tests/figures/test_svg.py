"""What fits into a place of a figure, by the widths that it goes by."""

from weft.figures.svg import fit, svg_figure, text_width

TEXTS = ["", "a", "中", "abc", "中文 and English", "ｆｕｌｌ", "wide 宽 wide 宽 wide", "…", "e\u0301e\u0301e\u0301"]


def longest_that_fits(text: str, width: float) -> str:
    """fit(), letter by letter from the end."""
    if text_width(text) <= width:
        return text
    kept = text
    while kept and text_width(kept + "…") > width:
        kept = kept[:-1]
    return kept + "…"


def test_as_much_as_fits_is_kept() -> None:
    for text in TEXTS:
        for width in range(0, 150):
            assert fit(text, width) == longest_that_fits(text, width), (text, width)


def test_a_text_of_a_million_letters_is_cut_as_any_other() -> None:
    assert fit("中" * 1_000_000, 50) == "中" * 3 + "…"


def test_only_a_figure_that_shrinks_has_larger_type_on_a_phone() -> None:
    shrinking, rigid = (svg_figure("A", "B", [], 100, 100, shrinks=shrinks) for shrinks in (True, False))
    assert "(max-width:30rem){.shrinks.weft-figure{font-size:" in rigid
    assert 'class="weft-figure shrinks"' in shrinking and 'class="weft-figure"' in rigid
