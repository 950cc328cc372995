"""Lookahead decoding (arXiv 2402.02057): Jacobi iterations in a window find n-grams, a pool of them makes guesses.

Cell (l, j) of the window is the j-th of level l. In a tree, (0, k) follows (0, k - 1); (1, j) follows (0, j - 1), or
the root for j = 0; (l, j) follows (l - 1, j). That gives the published attention mask and positions exactly, so a pass
is an ordinary draft: guesses first, each its own chain, then the window, which is there for its rows.
Facts of the published code and our choices where it is silent or faulty:
- published prefill runs the first of the N - 2 passes that fill the window; here they all are verification passes;
- a guess that agrees as a whole brings the target's own next token too (published code loses it);
- the initial draws are unseeded there and would mostly be image ids; here they come from the prompt's text ids by a
  generator seeded with (seed, index of the request in the stream). A prompt without text has no window: plain steps;
- a choice that is a placeholder does not enter the window: the cell's own token is kept; n-grams with one, and those
  under one, do not enter the pool;
- `pool_from_prompt`: every n-gram of the prompt, in order, then the last one of the text after each commit of a pass
  with a full window;
- a guess ends with a stop id and no deeper than the tokens that may still come. The window is always whole: it is not
  proposed, and where it is cut it would be lost;
- a pool is bounded: the published unbounded form (G = -1) is left out.
"""

from typing import Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from baselines.history import History
from recap.drafter import Drafter
from recap.options import check_options
from recap.types import EMPTY_DRAFT, SOURCES, Draft, Limits, Request, Rows, Step


class Pool(NamedTuple):
    """Token -> the n-grams that followed it, oldest first."""

    row: NDArray[np.int32]  # [vocab] -1 where there is none
    grams: NDArray[np.int32]  # [rows, G, N - 1]
    size: NDArray[np.int32]  # [rows]
    used: NDArray[np.int64]  # [1] rows


class Lookahead(Drafter):
    """Window and pool live for one request.

    window, ngram, guesses  W, N and G: width of the window, its levels plus one, n-grams a key in the pool
    accept            'guesses', or 'all': window cells may be accepted too
    pool_from_prompt  the text's own n-grams enter the pool
    seed              of the initial window
    """

    top_k = 1

    def __init__(
        self,
        window: int = 15,
        ngram: int = 5,
        guesses: int = 15,
        accept: Literal["guesses", "all"] = "guesses",
        pool_from_prompt: bool = False,
        seed: int = 0,
    ) -> None:
        check_options(Lookahead.__init__, locals())
        if min(window, guesses) < 1 or ngram < 3:
            raise ValueError(
                f"method.window={window}, method.guesses={guesses}: at least 1 is needed; "
                f"method.ngram={ngram}: at least 3"
            )
        self.window = window
        self.ngram = ngram
        self.guesses = guesses
        self.accept_all = accept == "all"
        self.pool_from_prompt = pool_from_prompt
        self.seed = seed
        self._requests = 0
        self._pool: Pool | None = None

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self._history = h = History(request, limits, rows)
        grams = self.window * limits.max_new_tokens + (len(h.text) if self.pool_from_prompt else 0)
        keys = min(grams, request.vocab_size)
        self._pool = Pool(
            np.full(request.vocab_size, -1, np.int32), np.empty((keys, self.guesses, self.ngram - 1), np.int32),
            np.zeros(keys, np.int32), np.zeros(1, np.int64),
        )  # fmt: skip
        if self.pool_from_prompt:
            remember(self._pool, h.text, self.ngram, 0, len(request.prompt))
        self._levels = np.zeros((self.ngram - 1, self.window + self.ngram - 3), np.int64)
        self._filled = 0  # the last level that is there; -1 without a window
        draws = np.random.default_rng((self.seed, self._requests))
        self._requests += 1
        text = request.prompt[~h.blocked[request.prompt]]
        if len(text):
            self._levels[0] = draws.choice(text, self._levels.shape[1])
        else:
            self._filled = -1

    def propose(self, room: int) -> Draft:
        if self._filled < 0:
            return EMPTY_DRAFT
        h = self._history
        tokens, parents, guessed = lay_out(
            self._levels, self._filled, self._pool, h.text[h.size - 1], room - 1, h.stops
        )
        sources = np.zeros(len(tokens), np.int8)
        sources[:guessed] = SOURCES["suffix"]
        return Draft(tokens, parents, sources, None if self.accept_all else int(guessed))

    def observe(self, rows: Rows, step: Step) -> None:
        h = self._history
        if self._filled >= 0:
            full = self._filled == self.ngram - 2
            root = h.text[h.size - 1]
            h.append(step.committed)
            self._filled = advance(self._levels, self._filled, self._pool, root, rows.ids[:, 0], h.blocked)
            if self.pool_from_prompt and full:
                remember(self._pool, h.text, self.ngram, max(0, h.size - self.ngram), h.size)

    def reset(self) -> None:
        self._pool = None
        self._requests = 0

    def memory(self) -> dict:
        if self._pool is None:
            return {"rows": {"pool": 0}, "bytes": 0}
        grams = int(self._pool.size[: self._pool.used[0]].sum())
        return {"rows": {"pool": grams}, "bytes": sum(array.nbytes for array in self._pool)}


@njit(cache=True)
def remember(pool, text, ngram, start, end):
    """Store every n-gram of text[start:end] that holds no placeholder."""
    for at in range(start, end - ngram + 1):
        if text[at : at + ngram].min() >= 0:
            add(pool, text[at], text[at + 1 : at + ngram])


@njit(cache=True)
def add(pool, key, gram):
    """Store an n-gram as the newest of its key; the oldest goes where there are G."""
    if pool.row[key] < 0:
        pool.row[key] = pool.used[0]
        pool.used[0] += 1
    row = pool.row[key]
    grams, size = pool.grams[row], np.int64(pool.size[row])
    place = 0 if size == len(grams) else size
    for i in range(size):
        if np.array_equal(grams[i], gram):
            place = i
    if place == size:
        pool.size[row] += 1
    else:
        for i in range(place, size - 1):
            grams[i] = grams[i + 1]
        place = size - 1
    grams[place] = gram


@njit(cache=True)
def lay_out(levels, filled, pool, root, deepest, stops):
    """The pass as a draft: (tokens, parents, nodes that are guesses)."""
    first, other = _widths(levels, filled)
    full = filled == len(levels) - 1
    row = pool.row[root] if full and root >= 0 else -1
    count = pool.size[row] if row >= 0 else 0
    most = count * len(levels) + first + filled * other
    tokens, parents = np.empty(most, np.int64), np.empty(most, np.int32)
    n = 0
    for guess in range(count):
        for depth in range(min(len(levels), deepest)):
            tokens[n] = pool.grams[row, guess, depth]
            parents[n] = n - 1 if depth else -1
            n += 1
            if stops[tokens[n - 1]]:
                break
    guessed = n
    for k in range(first):
        tokens[n], parents[n] = levels[0, k], n - 1 if k else -1
        n += 1
    for level in range(1, filled + 1):
        for j in range(other):
            tokens[n] = levels[level, j]
            if level == 1:
                parents[n] = guessed + j - 1 if j else -1
            else:
                parents[n] = n - other
            n += 1
    return tokens[:n], parents[:n], guessed


@njit(cache=True)
def advance(levels, filled, pool, root, choices, blocked):
    """Fill the next level of the window, or write the pool and shift; returns the last level that is there.

    choices [n + 1]: the greedy choices of a pass, its last level's at the end.
    """
    first, other = _widths(levels, filled)
    count = other if filled else first
    top = len(levels) - 1
    old = levels[filled, :count].copy()
    new = choices[choices.size - count :].astype(np.int64)
    barred = blocked[new]
    for j in range(count):
        if barred[j]:
            new[j] = old[j]
    if filled == top:
        gram = np.empty(top + 1, np.int64)
        for j in range(count):
            key = levels[0, j - 1] if j else root
            if key < 0 or barred[j]:
                continue
            for level in range(1, top + 1):
                gram[level - 1] = levels[level, j]
            gram[top] = new[j]
            add(pool, key, gram)
        levels[0, : other - 1] = levels[1, 1:other]
        for level in range(1, top):
            levels[level, :other] = levels[level + 1, :other]
        levels[top, :other] = new
        return top
    for level in range(filled + 1):
        levels[level, :-1] = levels[level, 1:].copy()
    levels[filled + 1, : count - (filled > 0)] = new[1 if filled else 0 :]
    return filled + 1


@njit(cache=True)
def _widths(levels, filled):
    """Cells of level 0 and of every other level while the levels up to `filled` are there."""
    first = levels.shape[1] - filled
    return first, first + 1
