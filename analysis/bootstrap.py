"""Intervals by a bootstrap over whole clusters (images, conversations), since inputs of one are not independent."""

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
CHUNK = 500  # resamples at a time, so that memory stays small


def resampled_means(
    values: NDArray[np.float64], clusters: NDArray, seed: int = 0, resamples: int = RESAMPLES
) -> NDArray[np.float64]:
    """Means of the columns of `values` [n, k] over cluster resamples: [resamples, k]. NaNs are left out, by column."""
    values = np.asarray(values, np.float64).reshape(len(clusters), -1)
    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    size = index.max() + 1
    known = ~np.isnan(values)
    sums = np.zeros((size, values.shape[1]))
    counts = np.zeros_like(sums)
    np.add.at(sums, index, np.where(known, values, 0.0))
    np.add.at(counts, index, known)
    rng = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    for start in range(0, resamples, CHUNK):
        stop = min(start + CHUNK, resamples)
        weights = rng.multinomial(size, np.full(size, 1 / size), size=stop - start)
        with np.errstate(invalid="ignore"):
            means[start:stop] = (weights @ sums) / (weights @ counts)
    return means


def interval(means: NDArray[np.float64], level: float = 0.95) -> tuple[float, float]:
    """The percentile interval of resampled statistics [resamples]."""
    tail = 50 * (1 - level)
    low, high = np.nanpercentile(means, [tail, 100 - tail]) if np.isfinite(means).any() else (np.nan, np.nan)
    return float(low), float(high)
