"""What a pass costs: T(n), measured on the model at hand (`budget=auto`).

A table is measured once for a run and kept: drafts follow from it, and a stream must be decoded again as it was.
"""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recap.types import EMPTY_DRAFT, Draft, Request

CONTEXT = 256  # tokens of the made-up prompt, fewer where the model has fewer positions
ROUNDS = 6  # the first warms up
IN_A_ROW = 4  # passes of one size, as decoding runs them; the first finds the caches as another size left them
ENOUGH = 20.0  # seconds after which no round begins
NO_STOPS = np.empty(0, np.int64)


def measure(target, most: int, top_k: int, clock=time.perf_counter) -> NDArray[np.float64]:
    """Seconds [most + 1] that a pass of n = 0 .. most nodes takes on a `recap.targets.TreeTarget`.

    The nodes of `counts_up_to` are timed in turn, a few passes in a row each round. Other work on the machine only
    adds, so the least of a row counts, and of the rounds the middle one; the times are made to rise, and what lies
    between is interpolated.
    """
    counts = counts_up_to(most)
    request = made_up(target, len(counts) * ROUNDS * IN_A_ROW)
    rows = target.prefill(request, NO_STOPS, top_k, lambda phase: None)
    root, rounds, begun = int(rows.ids[-1, 0]), [], clock()
    while len(rounds) < ROUNDS and (len(rounds) < 2 or clock() - begun < ENOUGH):
        taken = np.empty((len(counts), IN_A_ROW))
        for place, n in enumerate(counts):
            draft = wide(n, request)
            for turn in range(IN_A_ROW):
                start = clock()
                rows = target.verify(root, draft, top_k)
                target.keep(EMPTY_DRAFT.parents)
                taken[place, turn] = clock() - start
                root = int(rows.ids[0, 0])
        rounds.append(taken[:, 1:].min(axis=1))
    target.reset()
    return np.interp(np.arange(most + 1), counts, rising(np.median(rounds[1:], axis=0)))


def counts_up_to(most: int) -> list[int]:
    """Nodes worth timing: full powers of two of rows, to which engines pad, and one row more, where steps rise."""
    rows = {1, 2, 3, *(2**k + more for k in range(2, 32) if 2**k <= most + 1 for more in (0, 1)), most + 1}
    return sorted(n - 1 for n in rows if n <= most + 1)


def rising(values: Sequence[float]) -> NDArray[np.float64]:
    """The nearest values (least squares) that never fall: neighbours that do are replaced by their mean."""
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while len(groups) > 1 and np.mean(groups[-2]) >= np.mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return np.array([np.mean(group) for group in groups for _ in group])


def made_up(target, passes: int) -> Request:
    """A prompt of text, with room behind it for so many passes."""
    room = target.text.max_position_embeddings - passes - 2
    if room < 1:
        raise ValueError(f"budget=auto: {passes} passes are timed, more than the model has positions")
    ids = np.arange(target.vocab_size)
    ids = ids[~np.isin(ids, target.placeholders)]
    return Request(np.resize(ids, min(CONTEXT, room)).astype(np.int64), target.vocab_size, target.placeholders)


def wide(n: int, request: Request) -> Draft:
    """`n` nodes right below the root."""
    return Draft(np.resize(request.prompt, n), np.full(n, -1, np.int32), np.zeros(n, np.int8))
