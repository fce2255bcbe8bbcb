"""One table in four forms."""

from weft.figures.table import Table, signed

TABLE = Table("Scores & co", ("system", "chrF"), [("模型_a", "23.61"), ("b|c", "7")], ["50% of <all>"])


def test_han_characters_take_two_places_in_a_terminal() -> None:
    assert TABLE.text().split("\n") == [
        "Scores & co",
        "system   chrF",
        "模型_a  23.61",
        "b|c         7",
        "50% of <all>",
    ]


def test_columns_without_room_follow_with_the_keys_or_the_numbers_of_their_rows() -> None:
    rows = [("0.1", "post", "6.5811", "worse"), ("0.1", "pre", "4.2", "")]
    table = Table("", ("rate", "norm", "loss", "verdict"), rows, texts=frozenset({0, 1, 3}), keys=2)
    assert table.text(20).split("\n") == [
        "rate  norm    loss",
        "0.1   post  6.5811",
        "0.1   pre      4.2",
        "",
        "rate  norm  verdict",
        "0.1   post  worse",
        "0.1   pre",
    ]
    assert table.text(18).split("\n") == [
        "#  rate  norm",
        "1  0.1   post",
        "2  0.1   pre",
        "",
        "#    loss  verdict",
        "1  6.5811  worse",
        "2     4.2",
    ]


def test_markdown_aligns_figures_to_the_right_and_a_bar_ends_no_cell() -> None:
    assert TABLE.markdown().split("\n") == [
        "### Scores & co",
        "",
        "| system | chrF |",
        "| --- | ---: |",
        r"| 模型\_a | 23.61 |",
        r"| b\|c | 7 |",
        "",
        r"- 50% of \<all\>",
    ]


def test_latex_escapes_what_it_would_take_for_commands() -> None:
    text = TABLE.latex()
    assert r"\caption{Scores \& co}" in text and r"\begin{tabular}{lr}" in text
    assert "模型\\_a & 23.61 \\\\" in text and r"b\textbar{}c & 7 \\" in text
    assert r"50\% of \textless{}all\textgreater{}" in text
    assert text.count("{") == text.count("}")


def test_latex_sets_a_minus_in_figures_and_the_hyphens_of_an_option_apart() -> None:
    table = Table("", ("zh-en", "x"), [("a-1", "-1.72 [-2.0, -1.5]"), ("--train", "1e-3")], ["give ---x, 2020-11"])
    text = table.latex()
    assert "{}zh-en & x " in text and "a-1 & $-$1.72 [$-$2.0, $-$1.5] " in text and "& 1e-3 " in text
    assert "-{}-train &" in text and "give -{}-{}-x, 2020-11" in text
    assert "--" not in text


def test_html_escapes_text_and_marks_figures() -> None:
    text = TABLE.html()
    assert '<td dir="auto">模型_a</td><td class="number">23.61</td>' in text
    assert "50% of &lt;all&gt;" in text


def test_html_lets_a_signature_break_after_each_part() -> None:
    table = Table("Scores", ("score", "signature"), [("chrF", "nrefs:1|case:mixed")], texts=frozenset({0, 1}))
    assert '<td dir="auto">nrefs:1|<wbr>case:mixed</td>' in table.html()


def test_a_difference_too_small_to_be_shown_is_not_negative() -> None:
    assert [signed(number, 2) for number in (0.125, -0.126, -0.004, 0.0)] == ["+0.12", "-0.13", "+0.00", "+0.00"]


def test_no_cell_breaks_a_line_or_begins_an_argument() -> None:
    table = Table("of b*_<i>", ("system", "chrF"), [("[y].txt", "1"), ("a\rb", "2")], ["lost\n\n# x"])
    markdown, latex = table.markdown(), table.latex()
    assert "### of b\\*\\_\\<i\\>" in markdown and "| a b | 2 |" in markdown and "- lost  # x" in markdown
    assert Table("a", ("b",), [("A&amp;B ~~c~~ $x$",)]).markdown().endswith(r"| A\&amp;B \~\~c\~\~ \$x\$ |")
    assert "\n{}[y].txt & 1" in latex and "a b & 2" in latex
