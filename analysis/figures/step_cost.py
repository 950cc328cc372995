"""What a verification pass costs by the nodes it verifies, and the line a + b n through it."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.cells import Cell
from analysis.cost import passes, step_cost
from analysis.figures.pooled import pooled
from analysis.figures.style import COLUMN, PAGE, method_colour, new, readable

LEAST = 10  # passes of one size below which no median is shown
WIDTH = 8  # nodes of a size class; passes without a draft are one of their own


def draw(cells: Sequence[Cell]) -> Figure:
    """A panel a method: medians by size with the middle eighty of a hundred passes, and the fitted line."""
    frames = pooled(cells)
    figure, axes = new(PAGE if len(frames) > 1 else COLUMN, 2.5, len(frames), sharey=True)
    for axis, (method, frame) in zip(axes, frames.items(), strict=True):
        _panel(axis, method, frame)
    axes[0].set_ylabel("ms a pass, median and 10-90 %")
    axes[0].set_ylim(0, None)
    return figure


def _panel(axis: Axes, method: str, frame: pd.DataFrame) -> None:
    cost, table = step_cost(frame), passes(frame)
    sizes = table.groupby((table.nodes + WIDTH - 1) // WIDTH).agg(
        nodes=("nodes", "mean"), count=("ms", "size"), low=("ms", lambda ms: ms.quantile(0.1)),
        middle=("ms", "median"), high=("ms", lambda ms: ms.quantile(0.9)),
    )  # fmt: skip
    sizes = sizes[sizes["count"] >= LEAST]
    lengths = np.stack([sizes.middle - sizes.low, sizes.high - sizes.middle])
    axis.errorbar(
        sizes.nodes, sizes.middle, yerr=lengths, ls="", marker="o", color=method_colour(method), elinewidth=0.8
    )
    title = readable(method)
    if np.isfinite(cost.b_ms_per_node):
        ends = np.array([0, table.nodes.max()])
        title += f": {cost.a_ms:.3g} ms + {1000 * cost.b_ms_per_node:.3g} µs n"
        axis.plot(ends, cost.a_ms + cost.b_ms_per_node * ends, color="#444444")
    axis.set_title(title)
    axis.set_xlabel("drafted nodes n")
    axis.grid(True)
