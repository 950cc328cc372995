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
STATES, LAST = 0, 1
SUFFIX = SOURCES["suffix"]
LABEL = (1 << KEY_BITS) - 1  # the part of an edge's key that is its token

STATE = np.dtype(
    [
        ("length", np.int32),  # longest string of the state
        ("link", np.int32),  # suffix link
        ("first", np.int32),  # end position of its first occurrence
        ("head", np.int32),  # its newest edge, as a place in the table
    ]
)
EDGE = np.dtype([("key", np.int64), ("target", np.int32), ("next", np.int32)])  # key: (state, token)


class Automaton(NamedTuple):
    """States with suffix links; edges in one hash table, chained per state so that a clone can copy them."""

    states: NDArray  # [2n] of STATE
    table: NDArray  # of EDGE, at most half full
    used: NDArray[np.int64]  # [2] states, state of the current segment's end


def new_automaton(tokens: int) -> Automaton:
    """An empty automaton with room for a text of `tokens` tokens (at most 2n states and 3n edges, a known bound)."""
    table = np.zeros(1 << int(6 * tokens + 6).bit_length(), EDGE)
    table["key"] = EMPTY
    automaton = Automaton(np.zeros(2 * tokens + 2, STATE), table, np.zeros(2, np.int64))
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
    if state != 0 and automaton.states[state].first == position:  # made by this very token
        state = np.int64(automaton.states[state].link)  # which has occurred before
    return state


@njit(cache=True)
def longest_match(automaton, position):
    """(length, end) of that suffix at its first occurrence; (0, -1) where there is none."""
    state = match_state(automaton, position)
    if state == 0:
        return 0, -1
    return np.int64(automaton.states[state].length), np.int64(automaton.states[state].first)


@njit(cache=True)
def continuation(automaton, text, size, most):
    """(length, start, end) of the longest match of a text of `size` tokens: text[start:end] followed it.

    At most `most` tokens, up to a placeholder; empty where nothing matches.
    """
    length, last = longest_match(automaton, size - 1)
    start = end = last + 1
    while length > 0 and end < min(start + most, size) and text[end] >= 0:
        end += 1
    return length, start, end


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
    used, states = automaton.used, automaton.states
    if token < 0:
        used[LAST] = 0
        return
    p = used[LAST]
    q = follow(automaton, p, token)
    if q != NONE:  # a new segment that repeats an earlier one
        used[LAST] = q if states[q].length == states[p].length + 1 else _clone(automaton, p, q, token)
        return
    state = _new_state(automaton, states[p].length + 1, position)
    while p != NONE and follow(automaton, p, token) == NONE:
        _set_edge(automaton, p, token, state)
        p = np.int64(states[p].link)
    if p == NONE:
        states[state].link = 0
    else:
        q = follow(automaton, p, token)
        exact = states[q].length == states[p].length + 1
        states[state].link = q if exact else _clone(automaton, p, q, token)
    used[LAST] = state


@njit(cache=True)
def _clone(automaton, p, q, token):
    """Split off the strings of q that are no longer than p's plus one token."""
    states = automaton.states
    clone = _new_state(automaton, states[p].length + 1, states[q].first)
    place = states[q].head
    while place != NONE:
        edge = automaton.table[place]
        _set_edge(automaton, clone, edge.key & LABEL, edge.target)
        place = edge.next
    states[clone].link = states[q].link
    states[q].link = clone
    while p != NONE and follow(automaton, p, token) == q:
        _set_edge(automaton, p, token, clone)
        p = np.int64(states[p].link)
    return clone


@njit(cache=True)
def _new_state(automaton, length, first):
    number = automaton.used[STATES]
    automaton.used[STATES] += 1
    state = automaton.states[number]
    state.length, state.link, state.first, state.head = length, NONE, first, NONE
    return number


@njit(cache=True)
def follow(automaton, state, token):
    """The state that `token` leads to, or NONE."""
    key = (np.int64(state) << KEY_BITS) | token
    edge = automaton.table[find_slot(automaton.table, key)]
    return np.int64(edge.target) if edge.key == key else np.int64(NONE)


@njit(cache=True)
def _set_edge(automaton, state, token, target):
    key = (np.int64(state) << KEY_BITS) | token
    place = find_slot(automaton.table, key)
    edge = automaton.table[place]
    if edge.key == EMPTY:
        edge.key = key
        edge.next = automaton.states[state].head
        automaton.states[state].head = place
    edge.target = target
