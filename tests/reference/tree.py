"""The candidate tree: best-first or breadth-first, edge guard, packed order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .fusion import Candidate

AUTHORS = (0.68, 0.63, 0.50, 0.43, 0.40, 0.38)


@dataclass(frozen=True)
class Branch:
    """A place in the tree: its tokens from the root down (root excluded), the ranks that lead to it, its score."""

    tokens: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    orders: frozenset[int] = frozenset()
    score: float = 1.0


@dataclass(frozen=True)
class Node:
    """A drafted token; parent -1 is the root. sources: 'M1', 'M2', 'M3', 'suffix'."""

    token: int
    parent: int
    sources: frozenset[str]


def factor(level: int, depth_factor: str) -> float:
    """What a path score is multiplied by on entering `level` (the root's children are level 1)."""
    return AUTHORS[min(level, len(AUTHORS)) - 1] if depth_factor == "authors" else 1.0


def repeats_edge(path: Sequence[int], token: int) -> bool:
    """Whether the edge (path[-1] -> token) already stands on the path, which starts with the root."""
    return (path[-1], token) in pairwise(path)


def grow(
    look_up: Callable[[Sequence[int]], list[Candidate]],
    history: Sequence[int],
    *,
    budget: int,
    depth: int,
    width: int,
    expansion: str = "best_first",
    depth_factor: str = "authors",
    edge_guard: bool = True,
) -> list[Node]:
    """The tree under the last token of `history`, in packed order; `look_up(context)` gives candidates."""

    def children(branch: Branch) -> list[Branch]:
        if len(branch.tokens) == depth:
            return []
        path = (history[-1], *branch.tokens)
        found = []
        for rank, candidate in enumerate(look_up((*history, *branch.tokens))[:width]):
            if edge_guard and repeats_edge(path, candidate.token):
                continue
            score = branch.score * candidate.q * factor(len(path), depth_factor)
            found.append(Branch((*branch.tokens, candidate.token), (*branch.ranks, rank), candidate.orders, score))
        return found

    frontier, tree = children(Branch()), []
    while frontier and len(tree) < budget:
        if expansion == "best_first":
            chosen = min(frontier, key=lambda branch: (-branch.score, branch.ranks))
        else:
            chosen = min(frontier, key=lambda branch: (len(branch.ranks), branch.ranks))
        frontier.remove(chosen)
        tree.append(chosen)
        frontier += children(chosen)
    return pack(tree)


def pack(tree: list[Branch]) -> list[Node]:
    """Depth-first by rank path."""
    ordered = sorted(tree, key=lambda branch: branch.ranks)
    place = {branch.ranks: i for i, branch in enumerate(ordered)}
    place[()] = -1
    return [
        Node(
            branch.tokens[-1],
            place[branch.ranks[:-1]],
            frozenset("suffix" if order == "suffix" else f"M{order}" for order in branch.orders),
        )
        for branch in ordered
    ]
