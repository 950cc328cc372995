"""The candidate tree: best-first or fixed expansion, edge guard, packed order (method: candidate tree)."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recap.fusion import fuse

AUTHORS = (0.68, 0.63, 0.50, 0.43, 0.40, 0.38)  # factor a level; the last holds for all deeper ones


class Shape(NamedTuple):
    """How a tree grows. factors [depth]: what a path score is multiplied by at each level."""

    budget: int
    depth: int
    width: int
    best_first: bool
    edge_guard: bool
    factors: NDArray[np.float64]
    rank_bits: int  # bits of one rank in a path code


class Nodes(NamedTuple):
    """A growing tree; index 0 is the root, so node i of the draft is i + 1 until it is packed."""

    token: NDArray[np.int64]
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    source: NDArray[np.int8]
    path: NDArray[np.int64]  # rank path as one integer: its order is the lexicographic one
    context: NDArray[np.int64]  # [n, 3], last three tokens of the path, oldest first
    score: NDArray[np.float64]


class Frontier(NamedTuple):
    """Candidates not yet in the tree, as a binary heap of indices: the best score first, then the smaller path."""

    heap: NDArray[np.int32]
    score: NDArray[np.float64]
    path: NDArray[np.int64]
    token: NDArray[np.int64]
    parent: NDArray[np.int32]
    source: NDArray[np.int8]


class Workspace(NamedTuple):
    """Everything a draft needs, allocated once."""

    nodes: Nodes
    frontier: Frontier
    order: NDArray[np.int32]
    place: NDArray[np.int32]
    tokens: NDArray[np.int64]  # the packed draft
    parents: NDArray[np.int32]
    sources: NDArray[np.int8]


def new_shape(budget: int, depth: int, width: int, best_first: bool, edge_guard: bool, authors: bool) -> Shape:
    """A checked shape; `authors` takes the published depth factors, else a path score is the pure product."""
    if min(depth, width) < 1:
        raise ValueError(f"method.depth={depth}, method.width={width}: at least 1 is needed")
    bits = int(width).bit_length()  # ranks are coded from 1, so that a prefix sorts before its extensions
    if bits * depth > 62:
        raise ValueError(
            f"method.depth={depth} with method.width={width}: a rank path must fit 62 bits, "
            f"so depth is at most {62 // bits} at this width"
        )
    levels = AUTHORS if authors else (1.0,)
    factors = np.array([levels[min(d, len(levels) - 1)] for d in range(depth)], np.float64)
    return Shape(budget, depth, width, best_first, edge_guard, factors, bits)


def new_workspace(shape: Shape, extra: int) -> Workspace:
    """Room for a tree of `shape` and `extra` nodes on top."""
    n = shape.budget + 1
    c = n * shape.width + 1
    packed = shape.budget + extra
    nodes = Nodes(
        np.zeros(n, np.int64), np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.int8),
        np.zeros(n, np.int64), np.full((n, 3), -1, np.int64), np.zeros(n, np.float64),
    )  # fmt: skip
    frontier = Frontier(
        np.zeros(c, np.int32), np.zeros(c, np.float64), np.zeros(c, np.int64),
        np.zeros(c, np.int64), np.zeros(c, np.int32), np.zeros(c, np.int8),
    )  # fmt: skip
    return Workspace(
        nodes, frontier, np.zeros(n, np.int32), np.zeros(n, np.int32),
        np.zeros(packed, np.int64), np.zeros(packed, np.int32), np.zeros(packed, np.int8),
    )  # fmt: skip


@njit(cache=True)
def grow(maps, fusion, shape, context, root, work, candidates):
    """Grow a tree under `root`, whose context is given, and pack it into work; returns its number of nodes."""
    nodes = work.nodes
    nodes.token[0] = root
    nodes.parent[0] = -1
    nodes.depth[0] = 0
    nodes.path[0] = 0
    nodes.context[0] = context
    nodes.score[0] = 1.0
    size = (
        _best_first(maps, fusion, shape, work, candidates)
        if shape.best_first
        else _fixed(maps, fusion, shape, work, candidates)
    )
    _pack(work, size)
    return size - 1


@njit(cache=True)
def _best_first(maps, fusion, shape, work, candidates):
    nodes, frontier = work.nodes, work.frontier
    size, heap, pushed = 1, 0, 0
    node = 0
    while True:
        if nodes.depth[node] < shape.depth and size <= shape.budget:
            children = min(shape.width, fuse_at(maps, fusion, nodes, node, candidates))
            for rank in range(children):
                token = candidates.ids[rank]
                if shape.edge_guard and edge_used(nodes.token, nodes.parent, node, token):
                    continue  # dropped, not replaced
                frontier.score[pushed] = nodes.score[node] * candidates.q[rank] * shape.factors[nodes.depth[node]]
                frontier.path[pushed] = _child_path(shape, nodes, node, rank)
                frontier.token[pushed] = token
                frontier.parent[pushed] = node
                frontier.source[pushed] = candidates.sources[rank]
                heap = _push(frontier, heap, pushed)
                pushed += 1
        if heap == 0 or size > shape.budget:
            return size
        best, heap = _pop(frontier, heap)
        node = size
        _add(nodes, size, frontier.token[best], frontier.parent[best], frontier.source[best], frontier.path[best])
        nodes.score[node] = frontier.score[best]
        size += 1


@njit(cache=True)
def _fixed(maps, fusion, shape, work, candidates):
    """Breadth-first by rank, scores ignored."""
    nodes = work.nodes
    size, node = 1, 0
    while node < size and size <= shape.budget:
        if nodes.depth[node] < shape.depth:
            children = min(shape.width, fuse_at(maps, fusion, nodes, node, candidates))
            for rank in range(children):
                token = candidates.ids[rank]
                if size > shape.budget or (shape.edge_guard and edge_used(nodes.token, nodes.parent, node, token)):
                    continue
                path = _child_path(shape, nodes, node, rank)
                _add(nodes, size, token, node, candidates.sources[rank], path)
                size += 1
        node += 1
    return size


@njit(cache=True)
def fuse_at(maps, fusion, nodes, node, candidates):
    """Candidates after a node of the tree."""
    context = nodes.context[node]
    return fuse(maps, fusion, context[0], context[1], context[2], candidates)


@njit(cache=True)
def edge_used(tokens, parents, node, token):
    """Whether the edge (token of `node` -> `token`) already stands on the path from the root to `node`."""
    start = tokens[node]
    while parents[node] >= 0:
        if tokens[node] == token and tokens[parents[node]] == start:
            return True
        node = parents[node]
    return False


@njit(cache=True, inline="always")
def _child_path(shape, nodes, node, rank):
    return nodes.path[node] | (np.int64(rank + 1) << (shape.rank_bits * (shape.depth - 1 - nodes.depth[node])))


@njit(cache=True, inline="always")
def _add(nodes, at, token, parent, source, path):
    nodes.token[at] = token
    nodes.parent[at] = parent
    nodes.depth[at] = nodes.depth[parent] + 1
    nodes.source[at] = source
    nodes.path[at] = path
    nodes.context[at, 0] = nodes.context[parent, 1]
    nodes.context[at, 1] = nodes.context[parent, 2]
    nodes.context[at, 2] = token  # candidates are never placeholders


@njit(cache=True, inline="always")
def _before(frontier, i, j):
    if frontier.score[i] != frontier.score[j]:
        return frontier.score[i] > frontier.score[j]
    return frontier.path[i] < frontier.path[j]


@njit(cache=True)
def _push(frontier, size, item):
    heap = frontier.heap
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if not _before(frontier, item, heap[above]):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = item
    return size + 1


@njit(cache=True)
def _pop(frontier, size):
    heap = frontier.heap
    best = heap[0]
    size -= 1
    item = heap[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and _before(frontier, heap[below + 1], heap[below]):
            below += 1
        if not _before(frontier, heap[below], item):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = item
    return best, size


@njit(cache=True)
def _pack(work, size):
    """Depth-first by rank path, so that the chain of first ranks lies right behind the root."""
    nodes, order, place = work.nodes, work.order, work.place
    for i in range(1, size):
        path = nodes.path[i]
        j = i - 1
        while j > 0 and nodes.path[order[j - 1]] > path:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    place[0] = -1
    for i in range(size - 1):
        node = order[i]
        place[node] = i
        work.tokens[i] = nodes.token[node]
        work.parents[i] = place[nodes.parent[node]]
        work.sources[i] = nodes.source[node]
