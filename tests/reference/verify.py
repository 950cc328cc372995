"""Acceptance and the cut, by definition."""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Settled(NamedTuple):
    """path: accepted nodes; committed: emitted tokens, both after the cut; agreed: length of the path before it."""

    path: list[int]
    committed: list[int]
    agreed: int


def path_to(node: int, parents: Sequence[int]) -> list[int]:
    """Nodes from the root's child down to `node`; empty for the root, -1."""
    path = []
    while node >= 0:
        path.insert(0, node)
        node = parents[node]
    return path


def accept(
    tokens: Sequence[int], parents: Sequence[int], greedy: Sequence[int], stop_ids: Collection[int], room: int
) -> Settled:
    """greedy[i + 1] is the target's choice after node i, greedy[0] its choice after the root."""
    best: list[int] = []
    for node in range(len(tokens)):
        path = path_to(node, parents)
        if len(path) > len(best) and all(tokens[i] == greedy[parents[i] + 1] for i in path):
            best = path
    last = best[-1] if best else -1
    emitted = [tokens[i] for i in best] + [greedy[last + 1]]
    committed: list[int] = []
    for token in emitted[:room]:
        committed.append(token)
        if token in stop_ids:
            break
    return Settled(best[: len(committed)], committed, len(best))
