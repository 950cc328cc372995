"""Verbatim continuations, by definition: every suffix and every earlier place is tried."""

from collections.abc import Sequence
from dataclasses import replace

from .memory import SEPARATOR
from .tree import Node, repeats_edge


def longest_match(history: Sequence[int]) -> tuple[int, int]:
    """(length, end) of the longest suffix that also ended before the last token, at its first place, or (0, -1)."""
    n = len(history)
    for length in range(n - 1, 0, -1):
        suffix = list(history[n - length :])
        if SEPARATOR in suffix:
            continue
        for end in range(length - 1, n - 1):
            if list(history[end - length + 1 : end + 1]) == suffix:
                return length, end
    return 0, -1


def insert(tree: list[Node], history: Sequence[int], *, most: int, depth: int, edge_guard: bool = True) -> list[Node]:
    """The packed tree with the continuation of the longest match: equal children reused, missing nodes at the end."""
    length, end = longest_match(history)
    nodes = list(tree)
    if length == 0:
        return nodes
    at, path = -1, [history[-1]]
    for token in history[end + 1 : end + 1 + most]:
        if token == SEPARATOR or len(path) > depth or (edge_guard and repeats_edge(path, token)):
            break
        equal = [i for i, node in enumerate(nodes) if node.parent == at and node.token == token]
        if equal:
            at = equal[0]
            nodes[at] = replace(nodes[at], sources=nodes[at].sources | {"suffix"})
        else:
            nodes.append(Node(token, at, frozenset({"suffix"})))
            at = len(nodes) - 1
        path.append(token)
    return nodes
