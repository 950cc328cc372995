"""What keys of one, two and three tokens know, and what backing off from the long to the short gains."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.diagnostics import difference_table, recall_table, swapped_table
from analysis.figures.style import COLUMN, PAGE, PALETTE, above, colours, dots, ends, new, readable, rows

MARKERS = {"M1": "o", "M2": "s", "M3": "D"}
KEYS = {"M1": "M1, one token", "M2": "M2, two tokens", "M3": "M3, three tokens"}
GAINS = (("backoff", "M1"), ("mixture", "backoff"))
GAIN_MARKERS = ("o", "^")


def draw(recall: pd.DataFrame) -> Figure:
    """Left: coverage against conditional recall of each memory; right: the paired gain in recall of backing off."""
    table, gains = recall_table(recall), difference_table(recall, GAINS)
    benches = list(dict.fromkeys(table.bench))
    hues = colours(benches)
    figure, (left, right) = new(PAGE, 3.2, 2, width_ratios=(3, 2))
    for bench in benches:
        _path(left, table[table.bench == bench].set_index("source"), hues[bench])
    left.set(xlabel="coverage: states with a row, %", ylabel="Recall@8 where covered, %")
    left.grid(True)
    shapes = [Line2D([], [], marker=m, color="#444444", ls="", label=KEYS[s]) for s, m in MARKERS.items()]
    above(left, 3, handles=shapes)
    lines = [Line2D([], [], marker="o", color=hues[bench], label=readable(bench)) for bench in benches]
    figure.legend(handles=lines, loc="outside lower left", ncols=min(len(benches), 6), columnspacing=1.2)
    for place, ((source, over), marker) in enumerate(zip(GAINS, GAIN_MARKERS, strict=True)):
        part = gains[(gains.source == source) & (gains.over == over)]
        places = [-row + 0.15 - 0.3 * place for row in range(len(part))]
        dots(right, part, "recall", places, PALETTE[place], marker, f"{source} over {over}")
    rows(right, benches, "gain in Recall@8, points, paired", null=0)
    above(right, 2)
    return figure


def draw_swapped(swapped: pd.DataFrame) -> Figure:
    """Recall with the true image's rows minus recall with another image's, by benchmark."""
    table = swapped_table(swapped)
    part = table[table.source == "mixture"]
    figure, (axis,) = new(COLUMN, 0.9 + 0.2 * len(part))
    dots(axis, part, "gain", [-row for row in range(len(part))], PALETTE[0], "o")
    rows(axis, list(part.bench), "gain of the own image's rows, Recall@8, points", null=0)
    return figure


def _path(axis: Axes, table: pd.DataFrame, colour: str) -> None:
    """One benchmark from short keys to long ones."""
    known = table.loc[[source for source in MARKERS if source in table.index]]
    axis.plot(100 * known.coverage, 100 * known.conditional, color=colour, lw=0.9)
    for source, line in known.iterrows():
        axis.errorbar(
            100 * line.coverage, 100 * line.conditional,
            xerr=100 * ends([line.coverage], [line.coverage_low], [line.coverage_high]),
            yerr=100 * ends([line.conditional], [line.conditional_low], [line.conditional_high]),
            color=colour, elinewidth=0.5, alpha=0.6,
        )  # fmt: skip
        axis.plot(
            100 * line.coverage, 100 * line.conditional, marker=MARKERS[source], color=colour, mec="white", mew=0.4
        )
