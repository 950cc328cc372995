"""Suffix decoding, by definition: occurrences of every string in the sequences, counted anew each time."""

import math
from collections.abc import Sequence

from recap.types import Limits, Request, Rows, Step

from .history import Reader
from .memory import SEPARATOR


def places(sequences: Sequence[Sequence[int]], string: Sequence[int]) -> list[tuple[int, int]]:
    """(sequence, end) of every occurrence, in the order of the text."""
    n = len(string)
    return [
        (s, i + n - 1)
        for s, text in enumerate(sequences)
        for i in range(len(text) - n + 1)
        if list(text[i : i + n]) == list(string)
    ]


class SuffixDecodingReference(Reader):
    def __init__(
        self, max_tree_depth=64, max_cached_requests=1000, max_spec_factor=1.0, max_spec_offset=0.0,
        min_token_prob=0.1, cap=64, mode="path",
    ) -> None:  # fmt: skip
        self.depth, self.most, self.cap, self.mode = max_tree_depth, max_cached_requests, cap, mode
        self.factor, self.offset, self.min_prob = max_spec_factor, max_spec_offset, min_token_prob
        self.outputs: list[list[int]] = []

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        super().begin(request, limits, rows)
        if self.most:
            self.outputs = [*self.outputs, self.history[-1:]][-self.most :]

    def observe(self, rows: Rows, step: Step) -> None:
        super().observe(rows, step)
        if self.most:
            self.outputs[-1] += self.masked(step.committed.tolist())

    def propose(self, room: int) -> list[tuple[int, int]]:
        local, nodes = self.speculate([self.history], room - 1)
        everywhere, others = self.speculate(self.outputs, room - 1)
        return others if everywhere > local else nodes

    def speculate(self, sequences, deepest: int) -> tuple[float, list[tuple[int, int]]]:
        """(score, nodes) of the best suffix in one tree; the longer one where scores are equal."""
        context = self.history[-self.depth :]
        best = 0.0, []
        for length in range(1, len(context)):
            suffix = context[-length:]
            if SEPARATOR in suffix or SEPARATOR == context[-length - 1] or not places(sequences, suffix):
                break
            limit = max(0, min(self.cap, math.floor(length * self.factor + self.offset + 1e-6)))
            grown = self._grow(sequences, suffix, limit, min(self.depth - length, deepest))
            if grown[0] >= best[0]:
                best = grown
        return best

    def _grow(self, sequences, suffix: list[int], limit: int, deepest: int) -> tuple[float, list[tuple[int, int]]]:
        nodes: list[tuple[int, int]] = []
        paths: list[list[int]] = [[]]
        queue: list[tuple[float, list[int], int]] = []
        at, p, score = [], 1.0, 0.0
        while len(nodes) < limit:
            if len(at) < deepest and not (at and at[-1] in self.stop_ids):
                here = places(sequences, suffix + at)
                after = [sequences[s][end + 1] for s, end in here if end + 1 < len(sequences[s])]
                after = [token for token in after if token != SEPARATOR]
                children = list(dict.fromkeys(after))  # first seen first
                if self.mode == "path" and children:
                    children = [max(children, key=after.count)]
                for token in children:
                    chance = p * after.count(token) / len(here)
                    if chance >= self.min_prob:
                        queue.append((chance, [*at, token], paths.index(at) - 1))
            if not queue:
                break
            best = max(queue, key=lambda entry: entry[0])
            queue.remove(best)
            p, at, parent = best
            nodes.append((at[-1], parent))
            paths.append(at)
            score += p
        return score, nodes
