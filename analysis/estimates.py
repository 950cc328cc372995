"""Means with their intervals: of one frame, and of several benchmarks together."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import metrics
from analysis.bootstrap import Effect, interval, resampled_means


def columns(name: str, effect: Effect) -> dict[str, float]:
    """A mean and its interval as three columns of a table."""
    return {name: effect.mean, f"{name}_low": effect.ci_low, f"{name}_high": effect.ci_high}


@dataclass(frozen=True, slots=True)
class Measure:
    """One number a request, NaN where it has none. null: its value where there is no effect."""

    of: Callable[[pd.DataFrame], pd.Series]
    null: float


def _tau(frame: pd.DataFrame) -> pd.Series:
    return 1 + metrics.accepted_per_step(frame)


TAU = Measure(_tau, null=1)  # tokens committed a step, of each request
END_TO_END = Measure(partial(metrics.ratios, window="window"), null=1)  # r_i of equation 9 over the whole window
DECODE_ONLY = Measure(partial(metrics.ratios, window="decode"), null=1)  # the same without vision and prefill


@dataclass(frozen=True, slots=True)
class Sample:
    """Means of some measures over a frame [k], and over the resamples [resamples, k] of its so many clusters."""

    nulls: dict[str, float]
    clusters: int
    means: NDArray[np.float64]
    resampled: NDArray[np.float64]


def sample(frame: pd.DataFrame, measures: Mapping[str, Measure], seed: int = 0) -> Sample:
    """All measures over the same resamples of the frame's clusters."""
    values = np.column_stack([measure.of(frame) for measure in measures.values()])
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # a measure that no request has is NaN
        means = np.nanmean(values, axis=0)
    resampled = resampled_means(values, frame.cluster.to_numpy(), seed)
    return Sample({name: one.null for name, one in measures.items()}, frame.cluster.nunique(), means, resampled)


def unweighted(samples: Sequence[Sample]) -> dict[str, Effect]:
    """The unweighted means of the samples' means; each frame was resampled by itself, under a seed of its own."""
    means = np.mean([one.means for one in samples], axis=0)
    resampled = np.mean([one.resampled for one in samples], axis=0)
    clusters = np.arange(sum(one.clusters for one in samples))
    return {
        name: Effect(float(means[k]), *interval(resampled[:, k], clusters), null)
        for k, (name, null) in enumerate(samples[0].nulls.items())
    }
