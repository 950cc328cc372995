"""The tree that pays: nodes by their chance, cut where one more costs more than it brings (`scores=learned`).

A draft of n nodes takes T(n) seconds and emits E(n) = 1 + the sum of its nodes' chances. The stream's rate E / T is
largest when every step maximises E(n) - rate * T(n), with the rate that this itself attains (Dinkelbach); the rate of
the last steps stands for it. n = 0, a plain step, is a choice like any other.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recap.chances import SHARPNESS, chances, sharpness
from recap.fusion import CANDIDATE, fuse
from recap.suffix import SUFFIX
from recap.tree import NODE, pack, wait


class Cost(NamedTuple):
    """What a pass takes. slope [n]: the least that a node on top of n nodes costs, however many are added."""

    seconds: NDArray[np.float64]  # [most + 1]
    slope: NDArray[np.float64]  # [most + 1], infinite at the end


def new_cost(seconds: NDArray[np.float64]) -> Cost:
    """The cost of passes that take `seconds` [most + 1], by their nodes without the root."""
    seconds = np.array(seconds, np.float64)
    n = np.arange(len(seconds))
    more = n[None] - n[:, None]
    rise = np.where(more > 0, (seconds[None] - seconds[:, None]) / np.maximum(more, 1), np.inf)
    return Cost(seconds, rise.min(axis=1))


@njit(cache=True)
def grow_paying(maps, fusion, shape, learned, cost, explore, context, text, start, end, match, room):
    """(tokens, parents, sources) of a packed tree under the last token of `context`.

    text[start:end] continues a match of `match` tokens (empty for none); `explore` is what a node's row is worth beside
    its chance, in tokens. No node stands so deep that nothing could come behind it in the `room` there is.
    """
    nodes = np.empty(shape.budget + 1, NODE)
    root = nodes[0]
    root.score, root.path, root.parent, root.depth = 1.0, 0, -1, 0
    root.a, root.b, root.token = context
    root.sources = SUFFIX
    order = np.empty(shape.budget, np.int32)
    candidates = np.empty(3 * maps.rows.shape[2], CANDIDATE)
    power = SHARPNESS[sharpness(learned)]
    price = learned.rate[0] / learned.rate[1]
    node, taken, known = 0, 0, 0
    worth = -price * cost.seconds[0]
    best, most, gained = 0, worth, 0.0
    while taken < shape.budget:
        above = nodes[node]
        if above.depth < room - 1:
            n = 0
            if above.depth < shape.depth:
                n = min(shape.width - 1, fuse(maps, fusion, above.a, above.b, above.token, candidates))
            copied = text[start + above.depth] if above.sources & SUFFIX and start + above.depth < end else -1
            n = chances(learned, power, candidates, n, copied, match + above.depth)
            for rank in range(n):
                known = wait(shape, nodes, order, taken, known, node, candidates[rank], rank, 1.0)
        if taken == known or nodes[order[taken]].score + explore < price * cost.slope[taken]:
            break
        node = order[taken]
        taken += 1
        gained += nodes[node].score + explore
        worth = gained - price * cost.seconds[taken]
        if worth >= most:
            best, most = taken, worth
    return pack(nodes, order[:best])
