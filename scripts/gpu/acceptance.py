"""Scripted acceptance: every pass is run and paid for, then its rows are replaced so that drafts are accepted."""

import numpy as np

from gpu.shapes import IDS
from recap import Draft, Rows
from recap.decode import no_clock


class Script:
    """Rows by a Zipf-like law, as in `make bench`, that lead down a path of the draft; `tau` in the long run."""

    def __init__(self, tau: float, top_k: int = 8, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._gain, self._owed = tau - 1, 0.0
        rows = 1 << 15
        start = (self._rng.pareto(0.6, rows).astype(np.int64) * 7) % (IDS - 64)
        self._ids = (start[:, None] + self._rng.integers(1, 8, (rows, top_k)).cumsum(axis=1)).astype(np.int32)
        weights = np.exp(-np.sort(-2 * self._rng.standard_normal((rows, top_k)), axis=1))
        self._probs = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)

    def rows(self, n: int) -> Rows:
        """n rows of distinct ids."""
        which = (self._rng.integers(len(self._ids)) + np.arange(n)) % len(self._ids)
        return Rows(self._ids[which], self._probs[which])

    def verdict(self, draft: Draft) -> Rows:
        """Rows of a pass that accept a path: seven times in ten each step down is to the first child."""
        rows = self.rows(len(draft) + 1)
        self._owed += self._gain
        node, wanted = -1, self._rng.poisson(max(self._owed, 0.0))
        while True:
            children = np.flatnonzero(draft.parents == node)
            if not wanted or not children.size:
                break
            node, above = children[0 if self._rng.random() < 0.7 else self._rng.integers(children.size)], node
            rows.ids[above + 1, 0] = draft.tokens[node]
            wanted, self._owed = wanted - 1, self._owed - 1
        while rows.ids[node + 1, 0] in draft.tokens[children]:
            rows.ids[node + 1, 0] += 1
        return rows


class Scripted:
    """A target whose every pass is run, its rows then replaced by a script's. `clock` charges the script to `other`."""

    def __init__(self, target, script: Script, clock=no_clock) -> None:
        self._target, self._script, self._clock = target, script, clock
        self.keep, self.reset = target.keep, target.reset

    def prefill(self, request, positions, top_k, clock) -> Rows:
        return self._script.rows(len(self._target.prefill(request, positions, top_k, clock)))

    def verify(self, root, draft, top_k) -> Rows:
        self._target.verify(root, draft, top_k)
        self._clock("verify")
        rows = self._script.verdict(draft)
        self._clock("other")
        return rows


class NoModel:
    """Passes that cost nothing: with a script they fill a memory."""

    def prefill(self, request, positions, top_k, clock) -> Rows:
        return Rows(np.zeros((len(positions) + 1, top_k), np.int32), np.zeros((len(positions) + 1, top_k), np.float32))

    def verify(self, root, draft, top_k) -> None: ...

    def keep(self, path) -> None: ...

    def reset(self) -> None: ...
