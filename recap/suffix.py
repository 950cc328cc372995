"""Verbatim continuations: a suffix automaton over the text of one request (method: suffix insertion).

Placeholders break the text into segments, so that no match spans one; the automaton is then a generalised one. Each
state keeps the end of its first occurrence. Every history token is fed exactly once, the root included: feeding the
root a second time would collapse every match to length 1.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recap.memory import EMPTY, KEY_BITS, find_slot
from recap.types import SOURCES

NONE = -1
STATES, EDGES, LAST = 0, 1, 2
SUFFIX = SOURCES["suffix"]


TARGET = np.dtype([("key", np.int64), ("state", np.int64)])  # (state, token) -> state


class Automaton(NamedTuple):
    """States with suffix links; edges in one hash table, chained per state so that a clone can copy them."""

    length: NDArray[np.int32]  # [2n] longest string of the state
    link: NDArray[np.int32]  # [2n] suffix link
    first: NDArray[np.int32]  # [2n] end position of its first occurrence
    head: NDArray[np.int32]  # [2n] first edge of the state
    edge_token: NDArray[np.int64]  # [4n]
    edge_next: NDArray[np.int32]  # [4n]
    table: NDArray  # of TARGET
    used: NDArray[np.int64]  # [3] states, edges, state of the current segment's end


def new_automaton(tokens: int) -> Automaton:
    """An empty automaton with room for a text of `tokens` tokens (at most 2n states and 3n edges, a known bound)."""
    states, edges = 2 * tokens + 2, 4 * tokens + 4
    slots = 1 << int(2 * edges - 1).bit_length()
    table = np.zeros(slots, TARGET)
    table["key"] = EMPTY
    automaton = Automaton(
        np.zeros(states, np.int32), np.zeros(states, np.int32), np.zeros(states, np.int32), np.zeros(states, np.int32),
        np.zeros(edges, np.int64), np.zeros(edges, np.int32), table, np.zeros(3, np.int64),
    )  # fmt: skip
    _new_state(automaton, 0, NONE)
    return automaton


@njit(cache=True)
def extend(automaton, text, start, end):
    """Feed text[start:end]; -1 ends a segment."""
    for position in range(start, end):
        _extend(automaton, text[position], position)


@njit(cache=True)
def match_state(automaton, position):
    """State of the longest suffix of the text up to `position` that also occurred earlier; 0 where there is none."""
    state = automaton.used[LAST]
    if state != 0 and automaton.first[state] == position:  # made by this very token: its link has occurred before
        state = np.int64(automaton.link[state])
    return state


@njit(cache=True)
def longest_match(automaton, position):
    """(length, end) of that suffix at its first occurrence; (0, -1) where there is none."""
    state = match_state(automaton, position)
    if state == 0:
        return 0, -1
    return automaton.length[state], automaton.first[state]


@njit(cache=True)
def insert_continuation(text, size, end, most, shape, tokens, parents, sources):
    """Add the tokens that follow a match at `end` to a packed draft, as a path from its root.

    Equal children are reused, missing nodes stand last, in path order.
    """
    last, stop = end + 1, min(end + 1 + min(most, shape.depth), size)
    while last < stop and text[last] >= 0 and not (shape.edge_guard and _repeats(text, end, last)):
        last += 1
    at, position = -1, end + 1
    while position < last:
        child = _child(tokens, parents, at, text[position])
        if child == NONE:
            break
        sources[child] |= SUFFIX
        at = child
        position += 1
    n, missing = tokens.size, last - position
    if missing == 0:
        return tokens, parents, sources
    all_tokens, all_parents = np.empty(n + missing, np.int64), np.empty(n + missing, np.int32)
    all_sources = np.empty(n + missing, np.int8)
    all_tokens[:n], all_parents[:n], all_sources[:n] = tokens, parents, sources
    for child in range(n, n + missing):
        all_tokens[child], all_parents[child], all_sources[child] = text[position], at, SUFFIX
        at = child
        position += 1
    return all_tokens, all_parents, all_sources


@njit(cache=True)
def _repeats(text, root, at):
    """The edge guard on a continuation: whether the edge into text[at] already stands between `root` and there."""
    for i in range(root + 1, at):
        if text[i] == text[at] and text[i - 1] == text[at - 1]:
            return True
    return False


@njit(cache=True)
def _child(tokens, parents, node, token):
    """The first child of `node` that holds `token`, or NONE."""
    for i in range(node + 1, tokens.size):
        if parents[i] == node and tokens[i] == token:
            return i
    return NONE


@njit(cache=True)
def _extend(automaton, token, position):
    used, length, link = automaton.used, automaton.length, automaton.link
    if token < 0:
        used[LAST] = 0
        return
    p = used[LAST]
    q = follow(automaton, p, token)
    if q != NONE:  # a new segment that repeats an earlier one
        used[LAST] = q if length[q] == length[p] + 1 else _clone(automaton, p, q, token)
        return
    state = _new_state(automaton, length[p] + 1, position)
    while p != NONE and follow(automaton, p, token) == NONE:
        _set_edge(automaton, p, token, state)
        p = link[p]
    if p == NONE:
        link[state] = 0
    else:
        q = follow(automaton, p, token)
        link[state] = q if length[q] == length[p] + 1 else _clone(automaton, p, q, token)
    used[LAST] = state


@njit(cache=True)
def _clone(automaton, p, q, token):
    """Split off the strings of q that are no longer than p's plus one token."""
    link = automaton.link
    clone = _new_state(automaton, automaton.length[p] + 1, automaton.first[q])
    edge = automaton.head[q]
    while edge != NONE:
        label = automaton.edge_token[edge]
        _set_edge(automaton, clone, label, follow(automaton, q, label))
        edge = automaton.edge_next[edge]
    link[clone] = link[q]
    link[q] = clone
    while p != NONE and follow(automaton, p, token) == q:
        _set_edge(automaton, p, token, clone)
        p = link[p]
    return clone


@njit(cache=True)
def _new_state(automaton, length, first):
    state = automaton.used[STATES]
    automaton.used[STATES] += 1
    automaton.length[state] = length
    automaton.link[state] = NONE
    automaton.first[state] = first
    automaton.head[state] = NONE
    return state


@njit(cache=True)
def follow(automaton, state, token):
    """The state that `token` leads to, or NONE."""
    key = (np.int64(state) << KEY_BITS) | token
    entry = automaton.table[find_slot(automaton.table, key)]
    return entry.state if entry.key == key else np.int64(NONE)


@njit(cache=True)
def _set_edge(automaton, state, token, target):
    key = (np.int64(state) << KEY_BITS) | token
    entry = automaton.table[find_slot(automaton.table, key)]
    if entry.key == EMPTY:
        edge = automaton.used[EDGES]
        automaton.used[EDGES] += 1
        entry.key = key
        automaton.edge_token[edge] = token
        automaton.edge_next[edge] = automaton.head[state]
        automaton.head[state] = edge
    entry.state = target
