"""The course of a stream as a figure: time a token of both sides, and accepted tokens a step, input by input."""

from pathlib import Path

import matplotlib
import pandas as pd

from analysis.metrics import accepted_per_step, rates

matplotlib.use("Agg")  # files only, so no display is needed

import matplotlib.pyplot as plt

COLOURS = {"ar": "#999999", "method": "#0072B2"}  # of Okabe and Ito's palette
SMOOTHED = 10  # requests in the mean that is drawn over the points


def draw(frame: pd.DataFrame, title: str, path: Path) -> Path:
    """Draw one cell into a file whose name says the format."""
    figure, (time, accepted) = plt.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
    for side, label in (("ar", "AR"), ("method", "method")):
        _points(time, frame["index"], 1e3 / rates(frame, "decode", side), COLOURS[side], label)
    _points(accepted, frame["index"], accepted_per_step(frame), COLOURS["method"], "method")
    time.set_title(title, loc="left", fontsize=10)
    time.set_ylabel("decode ms a token", fontsize=9)
    time.legend(frameon=False, fontsize=9)
    accepted.set_ylabel("accepted tokens a step", fontsize=9)
    accepted.set_xlabel(f"input; line: mean of the last {SMOOTHED} requests", fontsize=9)
    for axis in (time, accepted):
        axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _points(axis, places: pd.Series, values: pd.Series, colour: str, label: str) -> None:
    axis.plot(places, values, ".", color=colour, markersize=3, alpha=0.5)
    axis.plot(places, values.rolling(SMOOTHED, min_periods=1).mean(), color=colour, linewidth=1.2, label=label)
