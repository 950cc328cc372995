"""Means with their intervals: of one frame, and of several benchmarks together."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import metrics
from analysis.bootstrap import interval, resampled_means


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether the interval holds a value."""
        return self.low <= value <= self.high


def columns(name: str, estimate: Estimate) -> dict[str, float]:
    """An estimate as three columns of a table."""
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


Measure = Callable[[pd.DataFrame], pd.Series]  # one number a request, NaN where it has none


def tau(frame: pd.DataFrame) -> pd.Series:
    """Tokens committed a step, of each request."""
    return 1 + metrics.accepted_per_step(frame)


def end_to_end(frame: pd.DataFrame) -> pd.Series:
    """r_i of equation 9 over the whole window."""
    return metrics.ratios(frame, "window")


def decode_only(frame: pd.DataFrame) -> pd.Series:
    """r_i of equation 9 without vision and prefill."""
    return metrics.ratios(frame, "decode")


@dataclass(frozen=True, slots=True)
class Sample:
    """Means of some measures over a frame [k], and over its resamples [resamples, k]."""

    names: tuple[str, ...]
    means: NDArray[np.float64]
    resampled: NDArray[np.float64]


def sample(frame: pd.DataFrame, measures: Mapping[str, Measure], seed: int = 0) -> Sample:
    """All measures over the same resamples of the frame's clusters."""
    values = np.column_stack([measure(frame) for measure in measures.values()])
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # a measure that no request has is NaN
        means = np.nanmean(values, axis=0)
    return Sample(tuple(measures), means, resampled_means(values, frame.cluster.to_numpy(), seed))


def unweighted(samples: Sequence[Sample]) -> dict[str, Estimate]:
    """The unweighted means of the samples' means; each frame was resampled by itself, under a seed of its own."""
    means = np.mean([one.means for one in samples], axis=0)
    resampled = np.mean([one.resampled for one in samples], axis=0)
    return {name: Estimate(float(means[k]), *interval(resampled[:, k])) for k, name in enumerate(samples[0].names)}
