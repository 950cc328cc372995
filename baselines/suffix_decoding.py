"""Suffix decoding (arXiv 2411.04975): draft what followed every suffix of the text before, scored by frequency.

The published method holds two suffix trees of bounded depth: one of this request, prompt and output, and one of all
outputs so far. What a tree is asked for is only how often a string occurs, so here a tree is the text itself with the
places of each token linked: a suffix's occurrences are found by reading backward from the places of its last token,
which costs O(tokens) memory and an append of O(1), where a tree costs O(tokens * depth).
An occurrence at the very end of a text counts and has no successor; the current suffix is one.
Our choices where the source is silent or undefined:
- equal counts: the token first seen among the occurrences; equal probabilities in the queue: the earlier pushed;
- the global text is bounded by `max_cached_requests`, the running one included, first in, first out;
- a placeholder ends match and continuation like the end of a text, and the context starts behind it; a stop id has no
  successor; nothing is drafted deeper than the tokens that may still come.
"""

import math
from collections import deque
from typing import Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from baselines.history import History
from recap.drafter import Drafter
from recap.options import check_options
from recap.types import EMPTY_DRAFT, SOURCES, Draft, Ints, Limits, Request, Rows, Step

SIZE, OLDEST = 0, 1


class Tree(NamedTuple):
    """Sequences behind one another, -1 before each; positions before `OLDEST` are forgotten."""

    text: Ints
    previous: NDArray[np.int32]  # the last earlier position of the same token, or -1
    last: NDArray[np.int32]  # [vocab] the last position of each token, or -1
    used: NDArray[np.int64]  # [2] SIZE, OLDEST


class Rules(NamedTuple):
    """What bounds a draft."""

    depth: int
    cap: int
    factor: float
    offset: float
    min_prob: float
    path: bool


class SuffixDecoding(Drafter):
    """The local tree lives for one request, the global one (outputs only, the running one included) for the stream.

    max_tree_depth       longest string counted: match and draft together
    max_cached_requests  outputs that the global tree holds; 0 = no global tree
    max_spec_factor, max_spec_offset  a match of length L drafts at most floor(L * factor + offset) tokens
    min_token_prob       lowest probability of a drafted token, the product along its path
    cap                  most tokens of a draft
    mode                 'path': the most frequent successor again and again; 'tree': best-first
    """

    top_k = 1

    def __init__(
        self,
        max_tree_depth: int = 64,
        max_cached_requests: int = 1000,
        max_spec_factor: float = 1.0,
        max_spec_offset: float = 0.0,
        min_token_prob: float = 0.1,
        cap: int = 64,
        mode: Literal["path", "tree"] = "path",
    ) -> None:
        check_options(SuffixDecoding.__init__, locals())
        if max_tree_depth < 1:
            raise ValueError(f"method.max_tree_depth={max_tree_depth}: at least 1 is needed")
        if not 0 <= min_token_prob <= 1:
            raise ValueError(f"method.min_token_prob={min_token_prob}: must lie in [0, 1]")
        self.max_cached_requests = max_cached_requests
        self.rules = Rules(
            max_tree_depth, cap, float(max_spec_factor), float(max_spec_offset), float(min_token_prob), mode == "path"
        )
        self._local: Tree | None = None
        self._global = new_tree(0, 0)
        self._starts: deque[int] = deque()  # of the outputs that the global tree holds

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self._history = h = History(request, limits, rows)
        self._index = np.zeros(request.vocab_size, np.int32)
        self._local = new_tree(len(h.text) + 1, request.vocab_size)
        append(self._local, h.text[: h.size])
        if self.max_cached_requests:
            if len(self._starts) == self.max_cached_requests:
                self._starts.popleft()
            self._make_room(limits.max_new_tokens + 1, request.vocab_size)
            self._starts.append(int(self._global.used[SIZE]))
            append(self._global, np.array([-1, h.text[h.size - 1]]))

    def propose(self, room: int) -> Draft:
        h = self._history
        context = h.run()[-self.rules.depth :]
        best = 0.0, EMPTY_DRAFT.tokens, EMPTY_DRAFT.parents
        for tree in (self._local, self._global) if self.max_cached_requests else (self._local,):
            best = speculate(tree, context, self.rules, room - 1, h.stops, self._index, *best)
        _, tokens, parents = best
        return Draft(tokens, parents, np.full(len(tokens), SOURCES["suffix"], np.int8))

    def observe(self, rows: Rows, step: Step) -> None:
        h = self._history
        start = h.size
        h.append(step.committed)
        append(self._local, h.text[start : h.size])
        if self.max_cached_requests:
            append(self._global, h.text[start : h.size])

    def reset(self) -> None:
        self._local = None
        self._global = new_tree(0, 0)
        self._starts.clear()

    def memory(self) -> dict:
        trees = {"local": self._local, "global": self._global}
        trees = {name: tree for name, tree in trees.items() if tree is not None}
        return {
            "rows": {name: int(np.count_nonzero(live(tree) >= 0)) for name, tree in trees.items()},
            "bytes": sum(array.nbytes for tree in trees.values() for array in tree),
        }

    def _make_room(self, tokens: int, vocab_size: int) -> None:
        """Forget what no kept output owns, and move the rest to a larger tree where the text would not fit."""
        tree = self._global
        size = int(tree.used[SIZE])
        oldest = self._starts[0] if self._starts else size
        tree.used[OLDEST] = oldest
        if size + tokens <= len(tree.text) and vocab_size <= len(tree.last):
            return
        self._global = new_tree(2 * (size - oldest + tokens), max(vocab_size, len(tree.last)))
        moved = int(self._global.used[SIZE]) - oldest
        append(self._global, live(tree))
        self._starts = deque(start + moved for start in self._starts)


def new_tree(tokens: int, vocab_size: int) -> Tree:
    """An empty tree with room for `tokens` tokens, separators among them."""
    tree = Tree(
        np.full(tokens + 1, -1, np.int64), np.full(tokens + 1, -1, np.int32),
        np.full(vocab_size, -1, np.int32), np.zeros(2, np.int64),
    )  # fmt: skip
    tree.used[SIZE] = 1  # a separator stands before everything
    return tree


def live(tree: Tree) -> Ints:
    """The text that is not forgotten."""
    return tree.text[tree.used[OLDEST] : tree.used[SIZE]]


@njit(cache=True)
def append(tree, tokens):
    """Add tokens to the last sequence; -1 starts a new one."""
    for token in tokens:
        at = tree.used[SIZE]
        tree.text[at] = token
        if token >= 0:
            tree.previous[at] = tree.last[token]
            tree.last[token] = at
        tree.used[SIZE] += 1


@njit(cache=True)
def speculate(tree, context, rules, deepest, stops, index, score, tokens, parents):
    """(score, tokens, parents) of the best draft over all suffixes of `context`, or those given if none scores higher.

    Equal scores: the longer suffix. A score is a sum of probabilities, so it is bounded by the number of its tokens:
    suffixes are tried in the order of that bound, and the rest left out once it cannot win.
    """
    if context.size < 2:
        return score, tokens, parents
    places, match = _occurrences(tree, context)
    if places.size == 0:
        return score, tokens, parents
    limit, deep = np.zeros(match.max() + 1, np.int64), np.zeros(match.max() + 1, np.int64)
    for length in range(1, limit.size):
        limit[length] = max(0, min(rules.cap, math.floor(length * rules.factor + rules.offset + 1e-6)))
        deep[length] = min(rules.depth - length, deepest)
        if rules.path or deep[length] <= 0:
            limit[length] = min(limit[length], max(0, deep[length]))
    chosen = context.size
    for length in np.argsort(-limit, kind="mergesort"):
        if limit[length] == 0 or limit[length] < score:
            break
        if limit[length] == score and length < chosen:
            continue
        grown = _grow(tree, places[match >= length], limit[length], deep[length], rules, stops, index)
        if grown[0] > score or (grown[0] == score and length > chosen):
            score, tokens, parents = grown
            chosen = length
    return score, tokens, parents


@njit(cache=True)
def _occurrences(tree, context):
    """Positions of the last token of `context`, ascending, and how many tokens agree there, at most all but one."""
    size = tree.used[SIZE]
    places, match = np.empty(size, np.int32), np.empty(size, np.int32)
    n = size
    at = np.int64(tree.last[context[-1]])
    while at >= tree.used[OLDEST]:
        length = 1
        while length < context.size - 1 and tree.text[at - length] == context[context.size - 1 - length]:
            length += 1
        n -= 1
        places[n], match[n] = at, length
        at = np.int64(tree.previous[at])
    return places[n:], match[n:]


@njit(cache=True)
def _grow(tree, places, limit, deepest, rules, stops, index):
    """Best-first below a suffix that ends at `places`: (score, tokens, parents).

    A node of the queue owns a slice of `places`, its occurrences, which its successors divide among themselves.
    """
    tokens, parents, depth = np.empty(limit, np.int64), np.empty(limit, np.int32), np.zeros(limit, np.int64)
    most = places.size
    spare, distinct, tally = np.empty(most, np.int32), np.empty(most, np.int64), np.empty(most, np.int64)
    queue, p = np.empty((most, 4), np.int64), np.empty(most, np.float64)  # slice start and end, parent, token
    size, waiting, score = 0, 0, 0.0
    start, end, at, at_depth, at_p = 0, most, -1, 0, 1.0
    while size < limit:
        if at_depth < deepest and (at < 0 or not stops[tokens[at]]):
            seen = _divide(tree, places[start:end], at_depth + 1, spare, distinct, tally, index)
            first = start
            best = np.argmax(tally[:seen]) if rules.path and seen else -1
            for k in range(seen):
                chance = at_p * tally[k] / (end - start)
                if (best < 0 or k == best) and chance >= rules.min_prob:
                    queue[waiting, 0], queue[waiting, 1] = first, first + tally[k]
                    queue[waiting, 2], queue[waiting, 3] = at, distinct[k]
                    p[waiting] = chance
                    waiting += 1
                first += tally[k]
        if waiting == 0:
            break
        best = np.argmax(p[:waiting])
        start, end, parent, token = queue[best]
        at_p = p[best]
        at_depth = 1 if parent < 0 else depth[parent] + 1
        at = size
        tokens[size], parents[size], depth[size] = token, parent, at_depth
        score += at_p
        size += 1
        waiting -= 1
        queue[best:waiting], p[best:waiting] = queue[best + 1 : waiting + 1].copy(), p[best + 1 : waiting + 1].copy()
    return score, tokens[:size].copy(), parents[:size].copy()


@njit(cache=True)
def _divide(tree, places, step, spare, distinct, tally, index):
    """Sort `places` by the token `step` further on, first seen first; returns how many tokens there are.

    Those without a successor come last. index [vocab] is scratch, zero before and after.
    """
    seen = 0
    for place in places:
        token = tree.text[place + step] if place + step < tree.used[SIZE] else -1
        if token >= 0:
            if index[token] == 0:
                distinct[seen], tally[seen] = token, 0
                seen += 1
                index[token] = seen
            tally[index[token] - 1] += 1
    put = np.zeros(seen + 1, np.int64)
    for k in range(seen):
        put[k + 1] = put[k] + tally[k]
    for place in places:
        token = tree.text[place + step] if place + step < tree.used[SIZE] else -1
        k = index[token] - 1 if token >= 0 else seen
        spare[put[k]] = place
        put[k] += 1
    places[:] = spare[: places.size]
    for k in range(seen):
        index[distinct[k]] = 0
    return seen
