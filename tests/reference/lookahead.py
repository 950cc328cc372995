"""Lookahead decoding, by definition: the window as a list of levels, the pool as a dict of lists."""

import numpy as np

from recap.types import Limits, Request, Rows, Step

from .history import Reader
from .memory import SEPARATOR


class LookaheadReference(Reader):
    def __init__(self, window=15, ngram=5, guesses=15, accept="guesses", pool_from_prompt=False, seed=0) -> None:
        self.W, self.N, self.G = window, ngram, guesses
        self.accept, self.pool_from_prompt, self.seed = accept, pool_from_prompt, seed
        self.requests = 0

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        super().begin(request, limits, rows)
        prompt = self.masked(request.prompt.tolist())
        text = [token for token in prompt if token != SEPARATOR]
        draws = np.random.default_rng((self.seed, self.requests))
        self.levels = [draws.choice(text, self.W + self.N - 3).tolist()] if text else []
        self.requests += 1
        self.pool: dict[int, list[list[int]]] = {}
        if self.pool_from_prompt:
            for i in range(len(prompt) - self.N + 1):
                self._add(prompt[i], prompt[i + 1 : i + self.N])

    def propose(self, room: int) -> list[tuple[int, int]]:
        """`place[l, j]` is where cell (l, j) stands, `acceptable` how many nodes may be accepted."""
        nodes: list[tuple[int, int]] = []
        if len(self.levels) == self.N - 1:
            for guess in self.pool.get(self.history[-1], []):
                for depth, token in enumerate(guess[: room - 1]):
                    nodes.append((token, len(nodes) - 1 if depth else -1))
                    if token in self.stop_ids:
                        break
        self.acceptable = len(nodes) if self.accept == "guesses" and self.levels else None
        self.place: dict[tuple[int, int], int] = {}
        for level, cells in enumerate(self.levels):
            for j, token in enumerate(cells):
                above = (0, j - 1) if level < 2 else (level - 1, j)
                nodes.append((token, self.place.get(above, -1)))
                self.place[level, j] = len(nodes) - 1
        return nodes

    def observe(self, rows: Rows, step: Step) -> None:
        root, full = self.history[-1], len(self.levels) == self.N - 1
        super().observe(rows, step)
        if not self.levels:
            return
        last = len(self.levels) - 1
        cells = self.levels[last]
        choices = self.masked([int(rows.ids[self.place[last, j] + 1, 0]) for j in range(len(cells))])
        if full:
            for j in range(self.W):
                value = [self.levels[level][j] for level in range(1, self.N - 1)]
                self._add(root if j == 0 else self.levels[0][j - 1], [*value, choices[j]])
        new = [old if token == SEPARATOR else token for old, token in zip(cells, choices, strict=True)]
        if full:
            self.levels = [self.levels[1][1:], *self.levels[2:], new]
        elif last == 0:
            self.levels = [cells[1:], new]
        else:
            self.levels = [*(level[1:] for level in self.levels), new[1:]]
        if full and self.pool_from_prompt and len(self.history) >= self.N:
            self._add(self.history[-self.N], self.history[1 - self.N :])

    def _add(self, key: int, value: list[int]) -> None:
        if SEPARATOR in (key, *value):
            return
        entries = [entry for entry in self.pool.get(key, []) if entry != value]
        self.pool[key] = [*entries, value][-self.G :]
