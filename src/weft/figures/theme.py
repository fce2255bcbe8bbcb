"""The colors and type that every figure shares, as CSS inside the SVG: a figure is complete inline and as a file.

Series colors follow Okabe and Ito (2008), chosen to stay apart for color-blind readers; some are darker here, because a
thin line on white needs it, and all are lighter on a dark ground. A page may set its own values for the variables of
`.weft-figure`. Print is always light. On a phone what shrinks has larger type, to stay legible; what does not keeps the
type that its boxes were measured for.
"""

NUM_COLORS = 6  # --series-0 to --series-5 below

FONT_STACK = (
    'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans","Liberation Sans",Arial,'
    '"PingFang SC","Hiragino Sans GB","Microsoft YaHei","Noto Sans CJK SC","Source Han Sans SC",sans-serif'
)

STYLE = (
    """
.weft-figure{--figure-ground:#fff;--figure-ink:#1d2126;--figure-muted:#5b636d;--figure-grid:#e6e8eb;--figure-axis:#9aa1a9;
--series-0:#0072b2;--series-1:#d55e00;--series-2:#009e73;--series-3:#b8578d;--series-4:#c48600;--series-5:#3f9bd1;
font-family:"""
    + FONT_STACK
    + """;font-size:12px;font-variant-numeric:tabular-nums}
@media screen and (prefers-color-scheme:dark){.weft-figure{
--figure-ground:#15181c;--figure-ink:#e6e8eb;--figure-muted:#a0a8b1;--figure-grid:#2a2f35;--figure-axis:#6b737c;
--series-0:#5ab4e6;--series-1:#f28e4c;--series-2:#35c79b;--series-3:#dd9ac0;--series-4:#e6b13d;--series-5:#a5d4f2}}
.weft-figure text{fill:var(--figure-muted)}
.weft-figure .title{fill:var(--figure-ink);font-size:14px;font-weight:600}
.weft-figure .grid{stroke:var(--figure-grid);stroke-width:1}
.weft-figure .axis{stroke:var(--figure-axis);stroke-width:1}
.weft-figure .line{fill:none;stroke-width:1.5;stroke-linejoin:round;stroke-linecap:round}
.weft-figure .dense{stroke-width:1.25}
.weft-figure .point{stroke:none}
.weft-figure .ring{fill:var(--figure-ground);stroke-width:2}
.weft-figure .note{fill:var(--figure-ink);font-weight:600;stroke:var(--figure-ground);stroke-width:4;paint-order:stroke;
stroke-linejoin:round}
.weft-figure .name,.weft-figure .figure{fill:var(--figure-ink)}
.weft-figure .figure{font-size:11px}
.weft-figure .cell{fill:var(--series-0);stroke:var(--figure-grid);stroke-width:1}
.weft-figure .cell.negative{fill:var(--series-1)}
.weft-figure .outline{fill:none;stroke:var(--figure-ink);stroke-width:1.5}
.weft-figure .edge{fill:none;stroke:var(--figure-axis);stroke-width:1}
.weft-figure .edge.faint{stroke:var(--figure-grid)}
.weft-figure .edge.main{stroke:var(--series-0);stroke-width:2}
.weft-figure .branch rect{fill:var(--figure-ground);stroke:var(--figure-axis);stroke-width:1}
.weft-figure .branch text{fill:var(--figure-ink)}
.weft-figure .branch.main rect{stroke:var(--series-0);stroke-width:2}
.weft-figure .branch.end rect{stroke:var(--series-2);stroke-width:2}
.weft-figure .branch.faint rect{stroke:none}
.weft-figure .branch.faint text{fill:var(--figure-muted)}
@media screen and (max-width:30rem){.shrinks.weft-figure{font-size:14px;overflow:visible}
.shrinks.weft-figure .title{font-size:16px}}
"""
    + "".join(
        f".weft-figure .s{index}{{stroke:var(--series-{index})}}"
        f".weft-figure .point.s{index}{{fill:var(--series-{index})}}\n"
        for index in range(NUM_COLORS)
    )
)
