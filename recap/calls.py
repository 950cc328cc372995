"""What a drafter does in a step, each verb one compiled call over plain arrays.

Whatever enters compiled code costs, with cold caches behind a pass most of all; a NamedTuple costs more than its
arrays, and a record alone more than an array of one. So the memory's arrays (table, rows, count), the automaton's
(states, edges, used) and the settings (fusion, shape: arrays of one record) come bare and are put together here.
"""

import numpy as np
from numba import njit

from recap.chances import Learned, learn, pay
from recap.growth import Cost, grow_paying
from recap.memory import Maps, context_at, tree_contexts, write_rows
from recap.suffix import Automaton, continuation, extend, insert_continuation, longest_match
from recap.tree import grow


@njit(cache=True)
def propose(table, rows, count, states, edges, used, text, size, fusion, shape, most):
    """(tokens, parents, sources) under the last of `size` tokens: a tree, and at most `most` that continue a match."""
    a, b, c = context_at(text, size)
    draft = grow(Maps(table, rows, count), fusion[0], shape[0], a, b, c)
    length, end = longest_match(Automaton(states, edges, used), size - 1)
    if length == 0:
        return draft
    return insert_continuation(text, size, end, most, shape[0], *draft)


@njit(cache=True)
def propose_paying(
    table, rows, count, states, edges, used, text, size, fusion, shape, most,
    held, right, likelihood, rate, seconds, slope, explore, room,
):  # fmt: skip
    """The same under `scores='learned'`, by `grow_paying`."""
    match, start, end = continuation(Automaton(states, edges, used), text, size, most)
    return grow_paying(
        Maps(table, rows, count), fusion[0], shape[0], Learned(held, right, likelihood, rate), Cost(seconds, slope),
        explore, context_at(text, size), text, start, end, match, room,
    )  # fmt: skip


@njit(cache=True)
def observe(
    table, rows, count, states, edges, used, text, size, tokens, parents, ids, probs,
    path, committed, blocked, evaluated, stamp, matched,
):  # fmt: skip
    """Write the rows of a pass, all or those of the root and the accepted path; returns the history's new size."""
    contexts = tree_contexts(context_at(text, size), tokens, parents, blocked)
    if evaluated:
        which = np.arange(len(contexts))
    else:
        which = np.zeros(path.size + 1, np.int64)
        which[1:] = path
        which[1:] += 1
    write_rows(Maps(table, rows, count), contexts, which, ids, probs, blocked, 3, stamp)
    return append(text, size, committed, blocked, states, edges, used, matched)


@njit(cache=True)
def observe_paying(
    table, rows, count, states, edges, used, text, size, fusion, shape, most, held, right, likelihood, rate, seconds,
    tokens, parents, ids, probs, path, committed, blocked, evaluated, stamp, matched,
):  # fmt: skip
    """The same under `scores='learned'`: what the pass committed is counted first, before its rows are written."""
    match, start, end = continuation(Automaton(states, edges, used), text, size, most)
    learned, maps = Learned(held, right, likelihood, rate), Maps(table, rows, count)
    learn(learned, maps, fusion[0], shape[0], context_at(text, size), committed, text, start, end, match)
    pay(learned, committed.size, seconds)
    return observe(
        table, rows, count, states, edges, used, text, size,
        tokens, parents, ids, probs, path, committed, blocked, evaluated, stamp, matched,
    )  # fmt: skip


@njit(cache=True)
def append(text, size, tokens, blocked, states, edges, used, matched):
    """Append tokens to the history, -1 for placeholders, and feed them to the automaton once each; the new size."""
    for i in range(tokens.size):
        text[size + i] = -1 if blocked[tokens[i]] else tokens[i]
    if matched:
        extend(Automaton(states, edges, used), text, size, size + tokens.size)
    return size + tokens.size
