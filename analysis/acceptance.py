"""What was accepted, by step, depth and source, and along the stream. Never one "rate": drafts are trees."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.bootstrap import Effect, interval, resampled_sums
from analysis.metrics import accepted_per_step

MEMORIES = {1: "M1", 2: "M2", 4: "M3", 8: "suffix"}  # source bits
SOURCES = ("M1", "M2", "M3", "mixture", "suffix", "other")


def summarise(frame: pd.DataFrame) -> dict:
    """The part of summary.json on acceptance; integers where a reader may want to derive more."""
    return {
        "per_step": per_step(frame),
        "steps_with_draft": int((_flat(frame.nodes_each_method) > 0).sum()),
        "by_depth": by_depth(frame).tolist(),
        "drafted_by_depth": _summed(frame.depths_method).tolist(),
        "by_source": by_source(frame),
        "trend_per_100_inputs": trend(frame).summary(),
    }


def per_step(frame: pd.DataFrame) -> dict[str, float]:
    """Two means of committed - 1, over all steps (pooled tau less one) and over the steps that had a draft.

    NaN over drafted steps where drafts are not seen (an outside peer).
    """
    gained = _flat(frame.committed_each_method) - 1
    nodes = _flat(frame.nodes_each_method)
    drafted = gained[nodes > 0] if len(nodes) == len(gained) else np.empty(0)
    return {"all_steps": _mean(gained), "steps_with_draft": _mean(drafted)}


def by_depth(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Share of all steps that accept at least d nodes, d = 1, 2, ... up to the longest path accepted."""
    accepted = _flat(frame.accepted_each_method)
    return np.array([(accepted >= depth).mean() for depth in range(1, accepted.max(initial=0) + 1)])


def by_source(frame: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Accepted and drafted nodes by the memory that proposed them; a node that several hold is `mixture`'s.

    `other` holds the nodes of drafters that name no memory.
    """
    drafted = _summed(frame.drafted_method)
    accepted = np.bincount(_flat(frame.sources_method), minlength=len(drafted))
    counts = {source: {"accepted": 0, "drafted": 0} for source in SOURCES}
    for bits in range(len(drafted)):
        source = MEMORIES.get(bits, "mixture" if bits else "other")
        counts[source]["accepted"] += int(accepted[bits])
        counts[source]["drafted"] += int(drafted[bits])
    return {source: count for source, count in counts.items() if count["drafted"]}


def trend(frame: pd.DataFrame) -> Effect:
    """Change of the accepted tokens a step over 100 inputs of the stream: the slope of a request's mean by input index.

    A method that learns from the stream has a slope above zero; the interval resamples clusters.
    """
    a = accepted_per_step(frame)
    known = frame[a.notna()]
    if known["index"].nunique() < 2:
        return Effect(np.nan, np.nan, np.nan, 0)
    x, y = known["index"].to_numpy(float) / 100, a[a.notna()].to_numpy()
    x = x - x.mean()
    moments = np.column_stack([np.ones(len(x)), x, y, x * x, x * y])
    slopes = _slope(resampled_sums(moments, known.cluster.to_numpy()))
    return Effect(float(_slope(moments.sum(axis=0))), *interval(slopes, known.cluster.to_numpy()), 0)


def _slope(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares from the sums of 1, x, y, xx, xy [..., 5]."""
    n, x, y, xx, xy = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (xy - x * y / n) / (xx - x * x / n)


def _flat(lists: pd.Series) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *(np.asarray(one, np.int64) for one in lists)])


def _summed(lists: pd.Series) -> NDArray[np.int64]:
    """The elementwise sum of lists of different lengths."""
    total = np.zeros(max(map(len, lists), default=0), np.int64)
    for one in lists:
        total[: len(one)] += np.asarray(one, np.int64)
    return total


def _mean(values: NDArray) -> float:
    return float(values.mean()) if len(values) else np.nan
