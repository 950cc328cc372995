"""The candidate tree: best-first or fixed expansion, edge guard, packed order (method: candidate tree)."""

import numpy as np
from numba import njit

from recap.fusion import CANDIDATE, fuse
from recap.types import SOURCES

SUFFIX = SOURCES["suffix"]
AUTHORS = (0.68, 0.63, 0.50, 0.43, 0.40, 0.38)  # factor a level; the last holds for all deeper ones
PATH_BITS = 62

# How a tree grows.
SHAPE = np.dtype(
    [
        ("budget", np.int64),
        ("depth", np.int64),
        ("width", np.int64),
        ("best_first", np.bool_),
        ("edge_guard", np.bool_),
        ("factors", np.float64, PATH_BITS),  # what a path score is multiplied by at each level
        ("rank_bits", np.int64),  # bits of one rank in a path code
    ]
)

# A node of the tree, or one that waits; the root is node 0.
NODE = np.dtype(
    [
        ("score", np.float64),
        ("path", np.int64),  # rank path as one integer: its order is the lexicographic one
        ("a", np.int32),  # the last three tokens of its path are (a, b, token)
        ("b", np.int32),
        ("token", np.int32),
        ("parent", np.int32),
        ("depth", np.int32),
        ("sources", np.int32),
    ]
)


def new_shape(
    budget: int, depth: int, width: int, best_first: bool, edge_guard: bool, authors: bool, copies: bool = False
) -> np.void:
    """A checked shape; `authors` takes the published depth factors, else a path score is the pure product.

    copies: one child more, for the token that a verbatim continuation puts there
    """
    if min(depth, width) < 1:
        raise ValueError(f"method.depth={depth}, method.width={width}: at least 1 is needed")
    width += copies
    bits = int(width).bit_length()  # ranks are coded from 1, so that a prefix sorts before its extensions
    if bits * depth > PATH_BITS:
        raise ValueError(
            f"method.depth={depth} with method.width={width - copies}: a rank path must fit {PATH_BITS} bits, "
            f"so depth is at most {PATH_BITS // bits} at this width"
        )
    levels = AUTHORS if authors else (1.0,)
    factors = [levels[min(level, len(levels) - 1)] for level in range(PATH_BITS)]
    return np.array([(budget, depth, width, best_first, edge_guard, factors, bits)], SHAPE)[0]


@njit(cache=True)
def grow(maps, fusion, shape, a, b, c):
    """(tokens, parents, sources) of a packed tree under c, the last token of the context (a, b, c)."""
    nodes = np.empty(shape.budget + 1, NODE)
    root = nodes[0]
    root.score, root.path, root.parent, root.depth = 1.0, 0, -1, 0
    root.a, root.b, root.token = a, b, c
    order = np.empty(shape.budget, np.int32)
    candidates = np.empty(3 * maps.rows.shape[2], CANDIDATE)
    if shape.best_first:
        size = _best_first(maps, fusion, shape, nodes, order, candidates)
    else:
        size = _fixed(maps, fusion, shape, nodes, order, candidates)
    return pack(nodes, order[:size])


@njit(cache=True)
def _best_first(maps, fusion, shape, nodes, order, candidates):
    """Take the best that waits, until the budget is spent; `order` holds what is taken, then what waits, best first.

    Together they are never more than the budget: what has as many better ones before it as may still be taken is
    forgotten.
    """
    node, taken, known = 0, 0, 0
    while taken < shape.budget:
        known = _expand(maps, fusion, shape, nodes, order, taken, known, node, candidates)
        if taken == known:
            break
        node = order[taken]
        taken += 1
    return taken


@njit(cache=True)
def _expand(maps, fusion, shape, nodes, order, taken, known, node, candidates):
    """Let the children of `node` wait; returns how many nodes are known then."""
    above = nodes[node]
    if above.depth == shape.depth:
        return known
    factor = shape.factors[above.depth]
    if known == shape.budget and above.score * factor < nodes[order[known - 1]].score:
        return known  # q is at most 1, so that no child could get in
    children = min(shape.width, fuse(maps, fusion, above.a, above.b, above.token, candidates))
    for rank in range(children):
        known = wait(shape, nodes, order, taken, known, node, candidates[rank], rank, factor)
    return known


@njit(cache=True, inline="always")
def wait(shape, nodes, order, taken, known, node, child, rank, factor):
    """Let a child of `node` wait at its place, if it can get in; returns how many nodes are known then."""
    score = nodes[node].score * child.q * factor
    path = _child_path(shape, nodes[node], rank)
    full = known == shape.budget
    if full and not _before(score, path, nodes[order[known - 1]]):
        return known
    if shape.edge_guard and not child.sources & SUFFIX and edge_used(nodes, node, child.id):
        return known  # dropped, not replaced
    place = order[known - 1] if full else known + 1  # the last that waits gives up its place
    at = known - 1 if full else known
    known = at + 1
    while at > taken and _before(score, path, nodes[order[at - 1]]):
        order[at] = order[at - 1]
        at -= 1
    order[at] = place
    _set(nodes, place, node, child, path)
    nodes[place].score = score
    return known


@njit(cache=True)
def _fixed(maps, fusion, shape, nodes, order, candidates):
    """Breadth-first by rank, scores ignored."""
    size, node = 0, 0
    while node <= size < shape.budget:
        if nodes[node].depth < shape.depth:
            above = nodes[node]
            children = min(shape.width, fuse(maps, fusion, above.a, above.b, above.token, candidates))
            for rank in range(children):
                child = candidates[rank]
                if size == shape.budget or (shape.edge_guard and edge_used(nodes, node, child.id)):
                    continue
                order[size] = size + 1
                size += 1
                _set(nodes, size, node, child, _child_path(shape, above, rank))
        node += 1
    return size


@njit(cache=True, inline="always")
def _set(nodes, place, parent, candidate, path):
    node, above = nodes[place], nodes[parent]
    node.path = path
    node.a, node.b, node.token = above.b, above.token, candidate.id
    node.parent = parent
    node.depth = above.depth + 1
    node.sources = candidate.sources


@njit(cache=True)
def edge_used(nodes, node, token):
    """Whether the edge (token of `node` -> `token`) already stands on the path from the root to `node`."""
    start = nodes[node].token
    while nodes[node].parent >= 0:
        if nodes[node].token == token and nodes[node].b == start:
            return True
        node = nodes[node].parent
    return False


@njit(cache=True, inline="always")
def _child_path(shape, above, rank):
    if above.depth >= shape.depth:  # only a continuation goes on: a node of one child, packed behind its parent
        return above.path
    return above.path | (np.int64(rank + 1) << (shape.rank_bits * (shape.depth - 1 - above.depth)))


@njit(cache=True, inline="always")
def _before(score, path, node):
    """Whether this score and path come before a node's: the higher score first, then the smaller path."""
    return score > node.score or (score == node.score and path < node.path)


@njit(cache=True)
def pack(nodes, order):
    """Depth-first by rank path, so that the chain of first ranks lies right behind the root. Sorts `order`."""
    n = order.size
    paths = np.empty(n, np.int64)
    for i in range(n):
        node, path = order[i], nodes[order[i]].path
        j = i
        while j > 0 and paths[j - 1] > path:
            paths[j], order[j] = paths[j - 1], order[j - 1]
            j -= 1
        paths[j], order[j] = path, node
    place = np.empty(nodes.size, np.int32)
    place[0] = -1
    tokens, parents, sources = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int8)
    for i in range(n):
        node = nodes[order[i]]
        place[order[i]] = i
        tokens[i], parents[i], sources[i] = node.token, place[node.parent], node.sources
    return tokens, parents, sources
