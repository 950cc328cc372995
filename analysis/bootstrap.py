"""Intervals by a bootstrap over whole clusters (images, conversations), since inputs of one are not independent.

With few clusters the plain percentile interval is too narrow: resampling underestimates the variance by (m - 1) / m and
takes the normal's tails for Student's. Its quantiles are therefore moved outwards by the factor that makes up for both
(the expanded percentile interval; Hesterberg 2015, What Teachers Should Know About the Bootstrap, section 5.3).
"""

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
FEW = 5  # clusters below which no resample reaches as far as an honest interval would
DRAWS = 1_000_000  # clusters drawn at a time, so that memory stays small
NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Effect:
    """A number with its 95 % interval. null: its value where there is no effect (1 of a ratio, 0 of a difference)."""

    mean: float
    ci_low: float
    ci_high: float
    null: float

    def holds(self, value: float) -> bool:
        """Whether the interval holds a value; one that is not there holds none."""
        return self.ci_low <= value <= self.ci_high

    @property
    def within_noise(self) -> bool:
        """Whether the interval holds the null; so it is too where there is no interval."""
        return not (self.ci_low > self.null or self.ci_high < self.null)

    def summary(self) -> dict:
        """As summary.json holds it."""
        interval = {"mean": self.mean, "ci_low": self.ci_low, "ci_high": self.ci_high}
        return interval | {"within_noise": self.within_noise}


def resampled_sums(
    values: NDArray[np.float64], clusters: NDArray, seed: int = 0, resamples: int = RESAMPLES
) -> NDArray[np.float64]:
    """Sums of the columns of `values` [n, k] over cluster resamples: [resamples, k]. NaNs are left out, by column."""
    values = np.asarray(values, np.float64).reshape(len(clusters), -1)
    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    size = index.max() + 1
    sums = np.zeros((size, values.shape[1]))
    np.add.at(sums, index, np.where(np.isnan(values), 0.0, values))
    rng = np.random.default_rng(seed)
    chunk = max(1, DRAWS // size)
    resampled = np.empty((resamples, values.shape[1]))
    for start in range(0, resamples, chunk):
        count = min(chunk, resamples - start)
        drawn = rng.integers(0, size, (count, size)) + size * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size)
        resampled[start : start + count] = times.astype(np.float64) @ sums
    return resampled


def resampled_means(
    values: NDArray[np.float64], clusters: NDArray, seed: int = 0, resamples: int = RESAMPLES
) -> NDArray[np.float64]:
    """Means of the columns of `values` [n, k] over cluster resamples: [resamples, k]. NaNs are left out, by column."""
    values = np.asarray(values, np.float64).reshape(len(clusters), -1)
    both = resampled_sums(np.hstack([values, ~np.isnan(values)]), clusters, seed, resamples)
    with np.errstate(invalid="ignore"):
        return both[:, : values.shape[1]] / both[:, values.shape[1] :]


def interval(
    statistics: NDArray[np.float64], clusters: NDArray | None = None, level: float = 0.95
) -> tuple[float, float]:
    """The expanded percentile interval of resampled statistics [resamples]; NaN below FEW clusters.

    clusters: those that were resampled; None where they are many, for the plain percentile interval.
    """
    if not np.isfinite(statistics).any():
        return np.nan, np.nan
    tail = (1 - level) / 2
    if clusters is not None:
        m = len(np.unique(np.asarray(clusters)))
        if m < FEW:
            return np.nan, np.nan
        tail = NORMAL.cdf(-np.sqrt(m / (m - 1)) * student_quantile(1 - tail, m - 1))
    low, high = np.nanquantile(statistics, [tail, 1 - tail])
    return float(low), float(high)


def mean_effect(values: NDArray[np.float64], clusters: NDArray, null: float) -> Effect:
    """The mean of `values` [n] with its interval; NaNs are left out."""
    values = np.asarray(values, np.float64)
    known = ~np.isnan(values)
    if not known.any():
        return Effect(np.nan, np.nan, np.nan, null)
    values, clusters = values[known], np.asarray(clusters)[known]
    return Effect(float(values.mean()), *interval(resampled_means(values, clusters)[:, 0], clusters), null)


def over_runs(values: NDArray[np.float64], null: float) -> Effect:
    """The mean of one number a run (a stream order, a repetition) with Student's interval. Raises ValueError below two.

    A bootstrap of so few values would be far too narrow.
    """
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        raise ValueError(f"an interval over runs needs at least two, got {len(values)}")
    half = student_quantile(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return Effect(float(values.mean()), float(values.mean() - half), float(values.mean() + half), null)


@cache
def student_quantile(p: float, freedom: int) -> float:
    """The p-quantile (p >= 0.5) of Student's t: with t = sqrt(freedom) tan(a), a has density cos(a)^(freedom - 1)."""
    angle = np.linspace(0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return float(np.sqrt(freedom) * np.tan(np.interp(2 * p - 1, mass / mass[-1], angle)))
