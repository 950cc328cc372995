"""RACER (arXiv 2604.14885): a trie of n-grams retrieves, a table of latest rows fills the rest of the budget.

This is the method by its definition. The published code loses matches (its automaton is not moved over the prompt, and
its fail links decay), so retrieval here should match or beat it. Our choices where text and code differ or are silent:
- borders, the places in the trie that spell a suffix of the text, are found by descent for every length;
- a candidate is a node together with the border it hangs below. Candidates by count, then smaller depth below the
  border, then longer border, then first inserted;
- the trie is bounded: the least recently used leaf goes. Inserting or retrieving a path touches it from leaf to root,
  so a parent is always more recent than its children and the least recent node is a leaf;
- published code reads a row at every prompt position and keeps the last of each token; here only those are computed,
  which is the same table for less;
- published code gives unseen tokens the row [0, 0, ...]; here they have no children. The table is sized by the logits;
- a window holds no placeholder, a row lists none, a stop id has no children, and nothing is drafted deeper than the
  tokens that may still come.
"""

from typing import Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from baselines.history import History, find_or_add
from baselines.token_recycling import Matrix, last_positions, layers
from recap.drafter import Drafter
from recap.options import check_options
from recap.types import SOURCES, Draft, Ints, Limits, Request, Rows, Step

USED, SERIAL = 0, 1
RETRIEVED, LISTED = SOURCES["suffix"], SOURCES["M1"]


class Trie(NamedTuple):
    """Nodes from 1; 0 is the root, "none", and the anchor of the ring of nodes by recency."""

    top: NDArray[np.int32]  # [vocab] the root's children, by token
    token: Ints
    parent: NDArray[np.int32]
    child: NDArray[np.int32]  # first child
    sibling: NDArray[np.int32]  # next child of the same parent
    count: Ints  # windows that passed through
    serial: Ints  # order of insertion
    older: NDArray[np.int32]  # the ring: older[0] is the most recent node,
    newer: NDArray[np.int32]  # newer[0] the least recent one
    used: NDArray[np.int64]  # [2] USED nodes, next SERIAL


class Work(NamedTuple):
    """Scratch of one draft."""

    waiting: NDArray[np.int32]  # [pairs, 4] node, length of its border, depth below it, parent in the draft
    tokens: Ints
    parents: NDArray[np.int32]
    sources: NDArray[np.int8]


class Racer(Drafter):
    """The table lives for the stream, the trie for the stream (as published) or one request (`trie='request'`).

    max_num_draft  rows of a pass, root included
    ngram          length of the windows that enter the trie
    max_nodes      nodes of the trie
    max_breadth    width of the table's rows, and children of the root
    min_depth      shortest border
    """

    def __init__(
        self,
        max_num_draft: int = 64,
        ngram: int = 10,
        max_nodes: int = 10_000,
        max_breadth: int = 8,
        min_depth: int = 2,
        trie: Literal["stream", "request"] = "stream",
    ) -> None:
        check_options(Racer.__init__, locals())
        if min(max_num_draft, ngram, max_breadth, min_depth) < 1:
            raise ValueError(
                f"method.max_num_draft={max_num_draft}, method.ngram={ngram}, method.max_breadth={max_breadth}, "
                f"method.min_depth={min_depth}: at least 1 is needed"
            )
        if max_nodes < ngram:
            raise ValueError(f"method.max_nodes={max_nodes}: one window of method.ngram={ngram} must fit")
        self.top_k = max_breadth
        self.max_num_draft = max_num_draft
        self.ngram = ngram
        self.max_nodes = max_nodes
        self.min_depth = min_depth
        self.keep_trie = trie == "stream"
        self._table = Matrix(max_breadth)
        self._trie = new_trie(max_nodes, 0)
        self._work = Work(
            np.zeros((ngram * (max_nodes + 1), 4), np.int32), np.zeros(max_num_draft, np.int64),
            np.zeros(max_num_draft, np.int32), np.zeros(max_num_draft, np.int8),
        )  # fmt: skip

    def wants(self, request: Request) -> Ints:
        return last_positions(request)

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self._history = History(request, limits, rows)
        self._table.begin(request, rows)
        if not self.keep_trie or len(self._trie.top) < request.vocab_size:
            self._trie = new_trie(self.max_nodes, request.vocab_size)
        insert_windows(self._trie, self._history.text, self.ngram, np.arange(1, self._history.size))

    def propose(self, room: int) -> Draft:
        h, table, work = self._history, self._table, self._work
        size, kept = retrieve(
            self._trie, h.text, h.size, self.ngram, self.min_depth, self.max_num_draft, room - 1, h.stops, work
        )
        rows = self.max_num_draft - kept
        size = list_rows(table.ids, table.width, h.text[h.size - 1], rows, room - 1, h.stops, work, size)
        return Draft(work.tokens[:size].copy(), work.parents[:size].copy(), work.sources[:size].copy())

    def observe(self, rows: Rows, step: Step) -> None:
        h = self._history
        tokens = np.concatenate((h.text[h.size - 1 : h.size], step.draft.tokens))
        self._table.write(tokens, layers(step.draft.parents), rows)
        body = h.size - 1  # the tokens before the root, which joins them now
        h.append(step.committed)
        insert_windows(self._trie, h.text, self.ngram, np.arange(h.size - 1, body, -1))

    def reset(self) -> None:
        self._table.clear()
        self._trie = new_trie(self.max_nodes, len(self._trie.top))

    def memory(self) -> dict:
        table = self._table.size()
        held = table["bytes"] + sum(array.nbytes for array in self._trie)
        return {"rows": table["rows"] | {"trie": int(self._trie.used[USED])}, "bytes": held}


def new_trie(nodes: int, vocab_size: int) -> Trie:
    parent, child, sibling, older, newer = np.zeros((5, nodes + 1), np.int32)
    token, count, serial = np.zeros((3, nodes + 1), np.int64)
    top, used = np.zeros(vocab_size, np.int32), np.zeros(2, np.int64)
    return Trie(top, token, parent, child, sibling, count, serial, older, newer, used)


@njit(cache=True)
def insert_windows(trie, text, ngram, ends):
    """Count the windows that end before `ends`, in that order, where the text is long enough."""
    for end in ends:
        if end >= ngram:
            insert(trie, text[end - ngram : end])


@njit(cache=True)
def insert(trie, window):
    """Count one window, unless a placeholder is in it."""
    if window.min() < 0:
        return
    at, depth = 0, 0
    while depth < window.size and find(trie, at, window[depth]) != 0:
        at = find(trie, at, window[depth])
        depth += 1
    touch(trie, at)  # so that what is taken below is not on this path
    for token in window[depth:]:
        at = _add(trie, at, token)
    touch(trie, at)
    while at != 0:
        trie.count[at] += 1
        at = trie.parent[at]


@njit(cache=True)
def find(trie, parent, token):
    """The child `token` of a node, or 0."""
    if parent == 0:
        return np.int64(trie.top[token])
    at = np.int64(trie.child[parent])
    while at != 0 and trie.token[at] != token:
        at = np.int64(trie.sibling[at])
    return at


@njit(cache=True)
def touch(trie, at):
    """Make a node and all above it the most recent, the node first, so that a parent is more recent than its child."""
    while at != 0:
        _unlink(trie, at)
        _link(trie, at)
        at = np.int64(trie.parent[at])


@njit(cache=True)
def _link(trie, at):
    front = trie.older[0]
    trie.older[at], trie.newer[at] = front, 0
    trie.newer[front] = at
    trie.older[0] = at


@njit(cache=True)
def _unlink(trie, at):
    trie.newer[trie.older[at]] = trie.newer[at]
    trie.older[trie.newer[at]] = trie.older[at]


@njit(cache=True)
def _add(trie, parent, token):
    if trie.used[USED] < trie.token.size - 1:
        trie.used[USED] += 1
        at = trie.used[USED]
    else:
        at = _evict(trie)
    trie.token[at], trie.parent[at], trie.child[at], trie.count[at] = token, parent, 0, 0
    trie.serial[at] = trie.used[SERIAL]
    trie.used[SERIAL] += 1
    if parent == 0:
        trie.top[token] = at
    else:
        trie.sibling[at] = trie.child[parent]
        trie.child[parent] = at
    _link(trie, at)
    return at


@njit(cache=True)
def _evict(trie):
    """Take the least recent node, a leaf, out of the trie."""
    at = np.int64(trie.newer[0])
    assert trie.child[at] == 0
    parent = trie.parent[at]
    if parent == 0:
        trie.top[trie.token[at]] = 0
    elif trie.child[parent] == at:
        trie.child[parent] = trie.sibling[at]
    else:
        before = trie.child[parent]
        while trie.sibling[before] != at:
            before = trie.sibling[before]
        trie.sibling[before] = trie.sibling[at]
    _unlink(trie, at)
    return at


@njit(cache=True)
def retrieve(trie, text, size, ngram, min_depth, most, deepest, stops, work):
    """Keep the best `most` candidates and merge their paths; (nodes of the draft, candidates with their borders)."""
    waiting, kept, nodes, n = work.waiting, np.empty(most, np.int64), 0, 0
    for length in range(min_depth, min(ngram, size) + 1):
        if text[size - length] < 0:
            break
        at = 0
        for token in text[size - length : size]:
            at = find(trie, at, token)
            if at == 0:
                break
        if at != 0:
            n = _wait(waiting, n, at, length, 0, -1)
    total = 0
    while n > 0 and total < most:
        best = 0
        for i in range(1, n):
            if _before(trie, waiting[i], waiting[best]):
                best = i
        at, length, depth, place = waiting[best]
        n -= 1
        waiting[best] = waiting[n]
        if depth > 0:
            token = trie.token[at]
            place = find_or_add(work.tokens, work.parents, nodes, place, token)
            work.sources[place] = RETRIEVED
            nodes = max(nodes, place + 1)
        kept[total] = at
        total += 1
        if depth < deepest and not (depth > 0 and stops[trie.token[at]]):
            child = trie.child[at]
            while child != 0:
                n = _wait(waiting, n, child, length, depth + 1, place)
                child = trie.sibling[child]
    for i in range(total - 1, -1, -1):
        touch(trie, kept[i])
    return nodes, total


@njit(cache=True)
def _wait(waiting, n, node, border, depth, parent):
    waiting[n, 0], waiting[n, 1], waiting[n, 2], waiting[n, 3] = node, border, depth, parent
    return n + 1


@njit(cache=True)
def _before(trie, a, b):
    """Whether candidate a = (node, border, depth below it, ...) is better than b."""
    if trie.count[a[0]] != trie.count[b[0]]:
        return trie.count[a[0]] > trie.count[b[0]]
    if a[2] != b[2]:
        return a[2] < b[2]
    if a[1] != b[1]:
        return a[1] > b[1]
    return trie.serial[a[0]] < trie.serial[b[0]]


@njit(cache=True)
def list_rows(ids, width, root, rows, deepest, stops, work, size):
    """Merge the logits tree of `rows` rows, root included, into a draft of `size` nodes; returns its new size.

    Breadth first by rank; a node of breadth b has b children, whose own breadths halve from sibling to sibling.
    """
    if rows < 1 or root < 0:
        return size
    token, place = np.empty(rows, np.int64), np.empty(rows, np.int64)
    breadth, depth = np.empty(rows, np.int64), np.empty(rows, np.int64)
    token[0], place[0], breadth[0], depth[0] = root, -1, ids.shape[1], 0
    end = 1
    for at in range(rows):
        if at == end:
            break
        if depth[at] == deepest or (at > 0 and stops[token[at]]):
            continue
        below = breadth[at] if depth[at] == 1 else breadth[at] // 2
        for rank in range(min(breadth[at], width[token[at]], rows - end)):
            token[end] = ids[token[at], rank]
            place[end] = find_or_add(work.tokens, work.parents, size, place[at], token[end])
            work.sources[place[end]] = LISTED | (work.sources[place[end]] if place[end] < size else 0)
            size = max(size, place[end] + 1)
            breadth[end], depth[end] = max(1, below), depth[at] + 1
            below //= 2
            end += 1
    return size
