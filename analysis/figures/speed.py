"""Speedup and tau, by benchmark and by method: the numbers of the tables, published ones beside them."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.style import PAGE, PALETTE, above, dots, new, readable, rows
from analysis.published import PRESETS
from analysis.reproduction import NOT_RUN

MEASURES = {"end_to_end": "speedup, end to end", "decode_only": "speedup, decode only", "tau": "tau, tokens a step"}
PUBLISHED = {"end_to_end": "speedup", "tau": "tau"}  # columns of the tables
SPREAD = 0.6  # of a row, that the methods in it take
MARKERS = ("o", "s", "^", "D")


def by_benchmark(lines: Mapping[str, pd.DataFrame]) -> Figure:
    """The paper's two methods on every benchmark; open marks are published values of the very same runs.

    A method that was measured with several options has a mark a variant, the first four in all.
    """
    frame = pd.concat([_named(name, table) for name, table in lines.items()])
    labels = [label for method in PRESETS for label in sorted(set(frame.method)) if label.split(" (")[0] == method]
    labels = labels[: len(MARKERS)]
    frame = frame[frame.method.isin(labels)]
    names = list(dict.fromkeys(frame.inputs_of))
    figure, axes = new(PAGE, 1.0 + 0.22 * len(names), len(MEASURES), sharey=True)
    for axis, (measure, label) in zip(axes, MEASURES.items(), strict=True):
        for k, method in enumerate(labels):
            part, look = frame[frame.method == method], (PALETTE[k], MARKERS[k])
            places = [-names.index(of) + SPREAD * (0.5 - (k + 0.5) / len(labels)) for of in part.inputs_of]
            dots(axis, part, measure, places, *look, readable(method))
            if measure in PUBLISHED:
                _published(axis, part, PUBLISHED[measure], places, *look)
        rows(axis, names, label, null=1)
    above(axes[0], 2)
    return figure


def by_method(lines: Mapping[str, pd.DataFrame]) -> Figure:
    """Every method on the benchmark that has most of them, the fastest first."""
    frame = pd.concat([_named(name, table) for name, table in lines.items()])
    bench = frame.groupby("inputs_of", sort=False).size().idxmax()
    part = frame[frame.inputs_of == bench].sort_values("decode_only", ascending=False)
    figure, axes = new(PAGE, 1.0 + 0.17 * len(part), len(MEASURES), sharey=True)
    for axis, (measure, label) in zip(axes, MEASURES.items(), strict=True):
        dots(axis, part, measure, [-row for row in range(len(part))], PALETTE[0], "o")
        rows(axis, list(part.method), label, null=1)
    axes[0].set_title(f"on {readable(bench)}")
    return figure


def _named(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """MMSpec as one line, under its own name; the mean over sets under what it is."""
    if name == "mmspec":
        table = table[table.inputs_of == "overall"]
    return table.replace({"inputs_of": {"overall": "mmspec", "mean": "mean of the seven"}})


def _published(axis: Axes, part: pd.DataFrame, name: str, places: Sequence[float], colour: str, marker: str) -> None:
    """Published values of lines that were run as the paper ran them."""
    judged = (part[f"{name}_published"].notna() & (part[f"{name}_verdict"] != NOT_RUN)).to_numpy()
    shown = part[f"{name}_published"][judged].astype(float)
    at = [place for place, one in zip(places, judged, strict=True) if one]
    axis.plot(shown, at, ls="", marker=marker, mfc="none", color=colour, ms=7)
