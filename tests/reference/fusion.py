"""Rows of one context -> one candidate distribution (equations 4-6)."""

from collections.abc import Sequence
from typing import NamedTuple

from .memory import Memory, Row

SPECIFICITY = (0.70, 0.20, 0.10)


class Candidate(NamedTuple):
    """A token, its probability and the orders of the rows that list it."""

    token: int
    q: float
    orders: frozenset[int]


def fuse(
    memory: Memory,
    context: Sequence[int],
    top_k: int,
    *,
    fusion: str = "mixture",
    confidence: bool = True,
    priors: str = "specificity",
    prior_index: str = "rank",
) -> list[Candidate]:
    """The candidates that may follow a context, best first, at most K."""
    rows = memory.rows(context)
    if fusion == "backoff":
        rows = rows[:1]
    elif fusion == "unigram":
        rows = [(order, row) for order, row in rows if order == 1]
    if not rows:
        return []
    if len(rows) == 1:
        order, row = rows[0]
        return [Candidate(i, float(p), frozenset({order})) for i, p in zip(row.ids, row.probs, strict=True)]
    return mix(rows, weights(rows, confidence, priors, prior_index), top_k)


def weights(rows: list[tuple[int, Row]], confidence: bool, priors: str, prior_index: str) -> list[float]:
    """w_j = alpha_j c_j / sum_i alpha_i c_i."""
    shares = []
    for place, (order, row) in enumerate(rows):
        if priors == "uniform":
            alpha = 1 / 3
        else:
            alpha = SPECIFICITY[place if prior_index == "rank" else 3 - order]
        shares.append(alpha * row.confidence if confidence else alpha)
    total = 0.0
    for share in shares:
        total += share
    return [share / total for share in shares]


def mix(rows: list[tuple[int, Row]], weight: list[float], top_k: int) -> list[Candidate]:
    """m(z) = sum_j w_j P_j(z); the K largest, ties by first seen; renormalised."""
    mass: dict[int, float] = {}
    orders: dict[int, set[int]] = {}
    for w, (order, row) in zip(weight, rows, strict=True):
        for token, p in zip(row.ids, row.probs, strict=True):
            mass[token] = mass.get(token, 0.0) + w * float(p)
            orders.setdefault(token, set()).add(order)
    kept = sorted(mass, key=lambda token: -mass[token])[:top_k]
    total = 0.0
    for token in kept:
        total += mass[token]
    return [Candidate(token, mass[token] / total, frozenset(orders[token])) for token in kept]
