"""What tracing costs, and when a traced run may be quoted for speed."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.bootstrap import interval, resampled_means

LIMIT = 0.02  # of total time


@dataclass(frozen=True, slots=True)
class Overhead:
    """Time with tracing over time without, minus 1, of requests decoded both ways."""

    mean: float
    ci_low: float
    ci_high: float
    requests: int


def overhead(traced: list[pd.DataFrame], plain: list[pd.DataFrame]) -> Overhead:
    """From repeated interleaved runs of the same inputs, both sides' windows together.

    A request's time is its fastest over the repeats, since other work on a machine only ever adds; the mean is that of
    the log ratios, its interval clustered by image. Raises ValueError where the runs hold different requests.
    """
    fastest = [pd.concat(map(_windows, frames)).groupby(level=[0, 1, 2]).min() for frames in (traced, plain)]
    if not fastest[0].index.equals(fastest[1].index):
        raise ValueError("these runs hold different requests, so their times cannot be compared")
    logs = np.log(fastest[0] / fastest[1]).to_numpy()
    clusters = fastest[0].index.get_level_values("cluster").to_numpy()
    low, high = interval(resampled_means(logs, clusters)[:, 0])
    return Overhead(*(float(np.expm1(value)) for value in (logs.mean(), low, high)), requests=len(logs))


def barred(summary: dict, measured: Overhead | None) -> str:
    """Why a run's speed stays out of the tables, empty where it does not.

    A traced run stays out unless tracing was measured to change total time by less than 2 %. A noisy measurement bars
    too: it shows nothing, and can be repeated.
    """
    if not summary["traced"]:
        return ""
    if measured is None:
        return "traced, and what tracing costs was not measured here"
    if abs(measured.mean) > LIMIT:
        spread = f"[{measured.ci_low:+.1%}, {measured.ci_high:+.1%}]"
        return f"traced, and tracing was measured to change total time by {measured.mean:+.1%} {spread}"
    return ""


def _windows(frame: pd.DataFrame) -> pd.Series:
    """Nanoseconds of both windows by cluster, row and turn."""
    return (frame.measured_ar + frame.measured_method).set_axis(
        pd.MultiIndex.from_frame(frame[["cluster", "row", "turn"]])
    )
