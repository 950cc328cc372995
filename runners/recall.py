"""How often the memories know a state, and how often they hold the token that comes (method: replay).

A request is replayed cold along its trace: M1 is seeded with the first occurrences in the prompt, a state is asked
before its row is written, only committed positions write, and the token that prefill emits is not scored.
"""

from collections.abc import Iterator

import numpy as np

from recap.fusion import FUSIONS, fuse, new_candidates, new_fusion
from recap.memory import M1, M2, M3, Maps, Memory, look_up, prompt_contexts
from recap.types import Ints, Rows
from runners.traces import TOP_K, Setting, Trace

NAMES = ("M1", "M2", "M3", "backoff", "uniform", "mixture")
PROBS = ("topk", "full")


FUSED = {
    "backoff": new_fusion("backoff"),
    "uniform": new_fusion(priors="uniform", confidence=False),
    "mixture": new_fusion(),
}
ALONE = new_fusion("unigram")
assert set(FUSIONS) == {"mixture", "backoff", "unigram"}


class ColdMemory:
    """The memory of one cold request, written position by position along a trace.

    rows, seed  the trace's own, or rows of the same positions under another image
    mass, seed_mass  where given, rows count with their full-vocabulary probabilities; confidences stay those of the
                rows, whose support is the K ids
    m1          False leaves M1 empty
    """

    def __init__(
        self, trace: Trace, setting: Setting, rows: Rows, seed: Rows, mass=None, seed_mass=None, m1: bool = True
    ) -> None:
        self._memory = Memory(TOP_K, rows=len(trace.prompt) + len(trace.tokens) + 1)
        self._rows, self._mass, self._blocked, self._m1 = rows, mass, setting.blocked, m1
        self._work = new_candidates(TOP_K)
        text = np.concatenate((trace.prompt, np.where(setting.blocked[trace.tokens], -1, trace.tokens)))
        size = len(trace.prompt)
        self.contexts = prompt_contexts(text, np.arange(size, len(text)))  # [m, 3] of each emitted token as root
        if m1:
            first = trace.first()
            contexts = prompt_contexts(trace.prompt, trace.positions[first])
            self._write(contexts, _pick(seed, first), None if seed_mass is None else seed_mass[first], orders=1)

    @property
    def maps(self) -> Maps:
        return self._memory.maps

    def candidates(self, name: str, at: int) -> Ints:
        """What the source `name` proposes after token `at`, best first; empty where it has no row."""
        if name in FUSED:
            return self.fused(FUSED[name], at)
        order = (M1, M2, M3)[NAMES.index(name)]
        slot = look_up(self.maps, order, *self.contexts[at])
        if slot < 0:
            return np.empty(0, np.int32)
        entry = self.maps.table[order, slot]
        return self.maps.rows["id"][order, entry["row"], : entry["width"]]

    def fused(self, fusion: np.void, at: int) -> Ints:
        """Candidates of a fusion after token `at`, best first."""
        size = fuse(self.maps, fusion, *self.contexts[at], self._work)
        return self._work["id"][:size].astype(np.int64)

    def learn(self, at: int) -> None:
        """Write the row after token `at`."""
        mass = None if self._mass is None else self._mass[at : at + 1]
        self._write(self.contexts[at : at + 1], _pick(self._rows, [at]), mass, orders=3)
        if not self._m1:
            self._memory.clear(M1)

    def _write(self, contexts, rows: Rows, mass, orders: int) -> None:
        kept = np.where(self._blocked[rows.ids], 0, rows.probs).sum(axis=1)  # without the placeholders
        which = np.flatnonzero(kept > 0)
        self._memory.write(contexts, which, rows, self._blocked, orders)
        if mass is None:
            return
        for r in which:
            for order in range(orders):
                slot = look_up(self.maps, order, *contexts[r])
                if slot >= 0:
                    self.maps.rows["prob"][order, self.maps.table["row"][order, slot]] *= mass[r] * kept[r]


def states(trace: Trace) -> Iterator[tuple[int, int]]:
    """(index of the root, token that comes after it) of every scored state."""
    coming = trace.rows.ids[:-1, 0].tolist()
    yield from enumerate(coming)


def recall(trace: Trace, setting: Setting, probs: str = "topk") -> dict[str, tuple[int, int, int]]:
    """Of every source: scored states, states with a row, states whose candidates hold the token that comes."""
    masses = (trace.mass, trace.seed_mass) if probs == "full" else (None, None)
    if probs == "full" and np.isnan(trace.mass).any():
        raise ValueError("probs=full: these rows were recorded without their masses")
    memory = ColdMemory(trace, setting, trace.rows, trace.seed, *masses)
    counts = np.zeros((len(NAMES), 3), np.int64)
    for at, token in states(trace):
        for place, name in enumerate(NAMES):
            found = memory.candidates(name, at)
            counts[place] += (1, len(found) > 0, token in found)
        memory.learn(at)
    return {name: tuple(map(int, line)) for name, line in zip(NAMES, counts, strict=True)}


def _pick(rows: Rows, which) -> Rows:
    return Rows(rows.ids[which], rows.probs[which])
