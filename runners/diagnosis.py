"""Why two outputs differ: both sides are run again, and the logits behind the first difference are reckoned anew.

A logit depends in its last digits on how many rows went through the model with it. How far it moves is measured on the
request itself, between independent passes of one token and of as many as the method's: the drift. A side whose logits
stray further than that read the wrong positions or the wrong cache; a side whose choice is not its own best logit
changed the logits first; where neither did, the best logits lie too close to be told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from recap.targets import TreeTarget
from recap.types import Ints, Request
from runners.passes import Evidence, forced
from runners.verdict import Verdict

POSITIONS = 32  # fewest positions the drift is measured on
SAFETY = 4.0  # times the largest drift seen on them


@dataclass(frozen=True, slots=True)
class Reference:
    """logits  [m, vocab] by independent one-token passes, a row for each token that AR emitted, and repeats beyond
    bound   how far a sound side's logits may lie from them
    """

    logits: torch.Tensor
    bound: float


def reference(target: TreeTarget, request: Request, tokens: Ints, sizes: Sequence[int], wanted: Ints) -> Reference:
    """Reckon `tokens` [m] anew. sizes: rows of the method's passes; wanted: its prompt positions beside the last."""
    forward = np.resize(tokens, max(len(tokens), POSITIONS))  # a short answer is read over and over
    one = forced(target, request, forward, [1], np.empty(0, np.int64))
    many = forced(target, request, forward, [size for size in sizes if size > 1] or [POSITIONS // 4], wanted)
    return Reference(one, SAFETY * _distance(one, many))


def diagnose(
    verdict: Verdict, emitted: tuple[Ints, Ints], seen: tuple[Evidence, Evidence], known: Reference
) -> Verdict:
    """A verdict on a difference, with its cause. emitted, seen: AR's and the method's, first run and second."""
    pairs = list(zip(emitted, seen, strict=True))
    verdict = replace(verdict, repeatable=all(np.array_equal(first, second.tokens) for first, second in pairs))
    if verdict.kind == "stop_rule":
        return verdict
    best = known.logits[verdict.at].topk(2).values
    return replace(verdict, gap=float(best[0] - best[1]), kind=_cause(verdict, pairs, known))


def _cause(verdict: Verdict, pairs: Sequence[tuple[Ints, Evidence]], known: Reference) -> str:
    at = verdict.at
    for first, second in pairs:
        decided = _shared(first[: at + 1], second.tokens) + 1  # rows that had seen the same tokens
        rows = second.logits[: min(decided, at + 1)]
        if not _distance(rows, known.logits[: len(rows)]) <= known.bound:
            return "position_or_cache"
    for first, second in pairs:
        if _shared(first[: at + 1], second.tokens) <= at:
            continue  # decided otherwise this time
        row, chosen = second.logits[at], second.chosen[at]
        if row[chosen] < row.max():
            return "processor"
        if chosen != first[at]:
            return "unknown"
    row = known.logits[at]
    close = row.max() - min(row[verdict.expected], row[verdict.found]) <= 2 * known.bound  # both may move
    return "tie" if close else "unknown"


def _shared(first: Ints, second: Ints) -> int:
    """Length of the common beginning."""
    n = min(len(first), len(second))
    differing = np.flatnonzero(first[:n] != second[:n])
    return int(differing[0]) if differing.size else n


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Largest difference; infinite where only one is."""
    return float((a - b).abs().nan_to_num(nan=0.0, posinf=torch.inf).max())
