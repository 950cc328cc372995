"""From the rows of one context to one candidate distribution q (equations 4-6)."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recap.memory import M1, M3, look_up

MIXTURE, BACKOFF, UNIGRAM = 0, 1, 2
FUSIONS = {"mixture": MIXTURE, "backoff": BACKOFF, "unigram": UNIGRAM}
PRIORS = {"specificity": (0.70, 0.20, 0.10), "uniform": (1 / 3, 1 / 3, 1 / 3)}


class Fusion(NamedTuple):
    """How rows are weighed. alpha [3]: the prior of the first, second and third row, most specific first."""

    mode: int
    alpha: NDArray[np.float64]
    by_rank: bool  # alpha by place among the rows there are; else by key length
    confidence: bool


class Candidates(NamedTuple):
    """Scratch of one lookup, room for 3 K: ids, their probability q, and the maps whose rows hold them (bits)."""

    ids: NDArray[np.int64]
    q: NDArray[np.float64]
    sources: NDArray[np.int8]


def new_candidates(top_k: int) -> Candidates:
    """Scratch for rows of width `top_k`."""
    return Candidates(np.zeros(3 * top_k, np.int64), np.zeros(3 * top_k, np.float64), np.zeros(3 * top_k, np.int8))


@njit(cache=True)
def fuse(maps, fusion, a, b, c, out):
    """Fill `out` with the candidates after context (a, b, c), best first; returns how many, at most K.

    Ties keep the order first seen: rows most specific first, then rank in the row.
    """
    top_k = maps.ids.shape[2]
    rows = np.empty(3, np.int64)
    orders = np.empty(3, np.int64)
    found = 0
    for back in range(3):
        order = M3 - back
        if fusion.mode == UNIGRAM and order != M1:
            continue
        row = look_up(maps, order, a, b, c)
        if row >= 0:
            rows[found] = row
            orders[found] = order
            found += 1
            if fusion.mode == BACKOFF:
                break
    if found == 0:
        return 0
    if found == 1:  # q is that row
        order, row = orders[0], rows[0]
        width = maps.width[order, row]
        for k in range(width):
            out.ids[k] = maps.ids[order, row, k]
            out.q[k] = maps.probs[order, row, k]
            out.sources[k] = 1 << order
        return width
    size = _mix(maps, fusion, rows, orders, found, out)
    _sort(out, size)
    size = min(size, top_k)
    total = 0.0
    for k in range(size):
        total += out.q[k]
    for k in range(size):
        out.q[k] /= total
    return size


@njit(cache=True)
def _mix(maps, fusion, rows, orders, found, out):
    """m(z) = sum_j w_j P_j(z) over all listed ids, in the order first seen (equations 5 and 6)."""
    weights = np.empty(3, np.float64)
    total = 0.0
    for j in range(found):
        place = j if fusion.by_rank else M3 - orders[j]
        weights[j] = fusion.alpha[place]
        if fusion.confidence:
            weights[j] *= maps.confidence[orders[j], rows[j]]
        total += weights[j]
    size = 0
    for j in range(found):
        order, row, weight = orders[j], rows[j], weights[j] / total
        seen = size
        for k in range(maps.width[order, row]):
            token = maps.ids[order, row, k]
            at = 0
            while at < seen and out.ids[at] != token:
                at += 1
            if at == seen:  # ids differ within a row, so only earlier rows are searched
                at = size
                size += 1
                out.ids[at] = token
                out.q[at] = 0.0
                out.sources[at] = 0
            out.q[at] += weight * maps.probs[order, row, k]
            out.sources[at] |= 1 << order
    return size


@njit(cache=True)
def _sort(out, size):
    """Stable insertion sort by q, descending."""
    for i in range(1, size):
        token, q, source = out.ids[i], out.q[i], out.sources[i]
        j = i
        while j > 0 and out.q[j - 1] < q:
            out.ids[j], out.q[j], out.sources[j] = out.ids[j - 1], out.q[j - 1], out.sources[j - 1]
            j -= 1
        out.ids[j], out.q[j], out.sources[j] = token, q, source
