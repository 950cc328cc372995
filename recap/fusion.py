"""From the rows of one context to one candidate distribution q (equations 4-6)."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recap.memory import M1, M3, look_up

MIXTURE, BACKOFF, UNIGRAM = 0, 1, 2
FUSIONS = {"mixture": MIXTURE, "backoff": BACKOFF, "unigram": UNIGRAM}
PRIORS = {"specificity": (0.70, 0.20, 0.10), "uniform": (1 / 3, 1 / 3, 1 / 3)}

# How rows are weighed. Settings are records: one argument to compiled code, not one a field.
FUSION = np.dtype(
    [
        ("mode", np.int64),
        ("alpha", np.float64, 3),  # the prior of the first, second and third row, most specific first
        ("by_rank", np.bool_),  # alpha by place among the rows there are; else by key length
        ("confidence", np.bool_),
    ]
)

# One candidate: its id, its probability q, and the maps whose rows hold it (bits).
CANDIDATE = np.dtype([("q", np.float64), ("id", np.int32), ("sources", np.int32)])


def new_fusion(fusion: str = "mixture", confidence=True, priors="specificity", prior_index="rank") -> np.void:
    """The fusion of these switches."""
    return np.array([(FUSIONS[fusion], PRIORS[priors], prior_index == "rank", confidence)], FUSION)[0]


def new_candidates(top_k: int) -> NDArray:
    """Scratch of one lookup [3 K] of CANDIDATE, for rows of width `top_k`."""
    return np.zeros(3 * top_k, CANDIDATE)


@njit(cache=True)
def fuse(maps, fusion, a, b, c, out):
    """Fill `out` with the candidates after context (a, b, c), best first; returns how many, at most K.

    Ties keep the order first seen: rows most specific first, then rank in the row.
    """
    slots = np.empty(3, np.int64)
    orders = np.empty(3, np.int64)
    found = 0
    for back in range(3):
        order = M3 - back
        if fusion.mode == UNIGRAM and order != M1:
            continue
        slot = look_up(maps, order, a, b, c)
        if slot >= 0:
            slots[found] = slot
            orders[found] = order
            found += 1
            if fusion.mode == BACKOFF:
                break
    if found == 0:
        return 0
    if found == 1:  # q is that row
        order, entry = orders[0], maps.table[orders[0], slots[0]]
        for k in range(entry.width):
            pick = maps.rows[order, entry.row, k]
            out[k].id = pick.id
            out[k].q = pick.prob
            out[k].sources = 1 << order
        return np.int64(entry.width)
    size = _best(out, _mix(maps, fusion, slots, orders, found, out), maps.rows.shape[2])
    total = 0.0
    for k in range(size):
        total += out[k].q
    for k in range(size):
        out[k].q /= total
    return size


@njit(cache=True)
def _mix(maps, fusion, slots, orders, found, out):
    """m(z) = sum_j w_j P_j(z) over all listed ids, in the order first seen (equations 5 and 6)."""
    weights = np.empty(3, np.float64)
    total = 0.0
    for j in range(found):
        place = j if fusion.by_rank else M3 - orders[j]
        weights[j] = fusion.alpha[place]
        if fusion.confidence:
            weights[j] *= maps.table[orders[j], slots[j]].confidence
        total += weights[j]
    size = 0
    for j in range(found):
        order, entry, weight = orders[j], maps.table[orders[j], slots[j]], weights[j] / total
        seen = size
        for k in range(entry.width):
            pick = maps.rows[order, entry.row, k]
            at = 0
            while at < seen and out[at].id != pick.id:
                at += 1
            if at == seen:  # ids differ within a row, so only earlier rows are searched
                at = size
                size += 1
                out[at].id = pick.id
                out[at].q = 0.0
                out[at].sources = 0
            out[at].q += weight * pick.prob
            out[at].sources |= 1 << order
    return size


@njit(cache=True)
def _best(out, size, most):
    """Bring the `most` largest q to the front, descending, equal ones in their order; returns how many there are."""
    for i in range(1, size):
        token, q, sources = out[i].id, out[i].q, out[i].sources
        j = min(i, most)  # behind `most` better ones it falls off
        while j > 0 and out[j - 1].q < q:
            if j < most:
                out[j] = out[j - 1]
            j -= 1
        if j < most:
            out[j].id, out[j].q, out[j].sources = token, q, sources
    return min(size, most)
