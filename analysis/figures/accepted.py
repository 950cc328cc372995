"""What of the drafts is accepted: how deep, and from which memory."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.acceptance import by_depth, by_source
from analysis.cells import Cell
from analysis.figures.pooled import pooled
from analysis.figures.style import PAGE, PALETTE, above, method_colour, new, readable

MARKERS = ("o", "s")
SOURCES = {"mixture": "several memories"}


def draw(cells: Sequence[Cell]) -> Figure:
    """Left: steps that accept at least so many tokens; right: RECAP's drafted and accepted nodes by source."""
    frames = pooled(cells)
    figure, (left, right) = new(PAGE, 2.4, 2)
    for (method, frame), marker in zip(frames.items(), MARKERS, strict=False):
        shares = 100 * by_depth(frame)
        left.plot(range(1, len(shares) + 1), shares, marker=marker, color=method_colour(method), label=readable(method))
    left.set(xlabel="depth in the draft tree", ylabel="steps that accept as deep, %")
    left.set_ylim(0, 100)
    left.xaxis.get_major_locator().set_params(integer=True)
    left.grid(True)
    left.legend(loc="upper right")
    _sources(right, frames.get("recap"))
    return figure


def _sources(axis: Axes, frame: pd.DataFrame | None) -> None:
    """Shares of the drafted and of the accepted nodes, and how many of the drafted were accepted."""
    if frame is None:
        axis.set_axis_off()
        return
    counts = pd.DataFrame(by_source(frame)).T
    shares = 100 * counts / counts.sum()
    places = -np.arange(len(counts))
    for name, shift, colour in (("drafted", 0.2, "#BBBBBB"), ("accepted", -0.2, PALETTE[0])):
        axis.barh(places + shift, shares[name], height=0.36, color=colour, label=f"of the {name} nodes")
    for place, (accepted, drafted), end in zip(
        places, counts[["accepted", "drafted"]].to_numpy(), shares.max(axis=1), strict=True
    ):
        axis.text(end + 1.5, place, f"{accepted / drafted:.1%} accepted", va="center", fontsize=7)
    axis.set_yticks(places, [SOURCES.get(source, source) for source in counts.index])
    axis.set_xlim(0, 1.35 * shares.max(axis=None))
    axis.set_xlabel("share, %")
    above(axis, 2)
