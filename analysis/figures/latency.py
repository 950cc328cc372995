"""How long a token takes, request by request."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from analysis.cells import Cell
from analysis.figures.pooled import pooled
from analysis.figures.style import COLUMN, above, method_colour, new, readable
from analysis.metrics import rates

STYLES = {"AR": "-", "recap": "-", "token_recycling": "--"}


def draw(cells: Sequence[Cell]) -> Figure:
    """Shares of requests that decode a token in at most so many milliseconds, vision and prefill left out."""
    frames = pooled(cells)
    figure, (axis,) = new(COLUMN, 2.3)
    beside = next(iter(frames.values()))
    curves = {"AR": _ms(beside, "ar")} | {method: _ms(frame, "method") for method, frame in frames.items()}
    for name, ms in curves.items():
        label = f"{readable(name)}, median {np.median(ms):.2f} ms"
        axis.ecdf(ms, color=method_colour(name), ls=STYLES[name], label=label)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set(xlabel="milliseconds a decoded token, mean of a request", ylabel="share of requests")
    axis.grid(True)
    above(axis, 1)
    return figure


def _ms(frame: pd.DataFrame, side: str) -> np.ndarray:
    """Decode milliseconds a token of each request with a step."""
    return 1000 / rates(frame, "decode", side).dropna().to_numpy()
