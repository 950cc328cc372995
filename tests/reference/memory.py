"""M1, M2, M3: three dicts from a tuple of tokens to the latest row."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

SEPARATOR = -1


class Row(NamedTuple):
    """A stored prediction: ids, best first, and their float32 probabilities."""

    ids: tuple[int, ...]
    probs: tuple[np.float32, ...]

    @property
    def confidence(self) -> float:
        """exp(-H), natural log: 1 for a sure row, 1/K for a uniform one."""
        return confidence(self.probs)


def confidence(probs: Sequence[float]) -> float:
    """exp(-H(probs)); 0 log 0 counts as 0."""
    entropy = 0.0
    for p in map(float, probs):
        if p > 0:
            entropy -= p * math.log(p)
    return math.exp(-entropy)


def key(context: Sequence[int], order: int) -> tuple[int, ...] | None:
    """The last `order` tokens; None where there are fewer or one is a placeholder."""
    tokens = tuple(context[-order:])
    return tokens if len(tokens) == order and SEPARATOR not in tokens else None


def without(placeholders: Iterable[int], ids: Sequence[int], probs: Sequence[np.float32]) -> Row:
    """The row without placeholders, the probabilities of the rest renormalised in float32; empty if none is left."""
    kept = [(int(i), np.float32(p)) for i, p in zip(ids, probs, strict=True) if i not in placeholders]
    if len(kept) < len(ids):
        total = np.float32(0)
        for _, p in kept:
            total = total + p
        if total == 0:
            return Row((), ())
        kept = [(i, p / total) for i, p in kept]
    return Row(tuple(i for i, _ in kept), tuple(p for _, p in kept))


class Memory:
    """`maps[n - 1]` is Mn."""

    def __init__(self) -> None:
        self.maps: list[dict[tuple[int, ...], Row]] = [{}, {}, {}]

    def write(
        self,
        pass_: Iterable[tuple[Sequence[int], Sequence[int], Sequence[np.float32]]],
        placeholders: Iterable[int] = (),
        orders: Sequence[int] = (1, 2, 3),
    ) -> None:
        """One pass of (context, ids, probs): every row replaces what its keys held, but the first in the pass wins."""
        written: set[tuple[int, ...]] = set()
        for context, ids, probs in pass_:
            row = without(placeholders, ids, probs)
            if not row.ids:
                continue
            for order in orders:
                k = key(context, order)
                if k is not None and k not in written:
                    self.maps[order - 1][k] = row
                    written.add(k)

    def rows(self, context: Sequence[int]) -> list[tuple[int, Row]]:
        """The rows there are for a context, most specific first, each with its order."""
        found = []
        for order in (3, 2, 1):
            row = self.maps[order - 1].get(key(context, order))
            if row is not None:
                found.append((order, row))
        return found

    def clear(self, *orders: int) -> None:
        """Forget the given maps."""
        for order in orders:
            self.maps[order - 1].clear()
