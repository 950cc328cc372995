"""What a drafter's verbs do, one compiled call each: every array that enters compiled code costs time, most of all with
a cold cache behind a pass.
"""

import numpy as np
from numba import njit

from recap.chances import learn, pay
from recap.growth import grow_paying
from recap.memory import context_at, tree_contexts, write_rows
from recap.suffix import continuation, extend, insert_continuation, longest_match
from recap.tree import grow


@njit(cache=True)
def propose(maps, fusion, shape, text, size, automaton, most):
    """(tokens, parents, sources) under the last of `size` tokens: a tree, and at most `most` that continue a match."""
    a, b, c = context_at(text, size)
    draft = grow(maps, fusion, shape, a, b, c)
    length, end = longest_match(automaton, size - 1)
    if length == 0:
        return draft
    return insert_continuation(text, size, end, most, shape, *draft)


@njit(cache=True)
def propose_paying(maps, fusion, shape, text, size, automaton, most, learned, cost, explore, room):
    """The same under `scores='learned'`, by `grow_paying`."""
    match, start, end = continuation(automaton, text, size, most)
    context = context_at(text, size)
    return grow_paying(maps, fusion, shape, learned, cost, explore, context, text, start, end, match, room)


@njit(cache=True)
def take_note(learned, maps, fusion, shape, text, size, automaton, most, committed, seconds):
    """Count what a pass committed, before its rows are written."""
    match, start, end = continuation(automaton, text, size, most)
    learn(learned, maps, fusion, shape, context_at(text, size), committed, text, start, end, match)
    pay(learned, committed.size, seconds)


@njit(cache=True)
def observe(
    maps, automaton, text, size, blocked, tokens, parents, ids, probs, path, committed, evaluated, stamp, matched
):
    """Write the rows of a pass, all or those of the root and the accepted path; returns the history's new size."""
    contexts = tree_contexts(context_at(text, size), tokens, parents, blocked)
    if evaluated:
        which = np.arange(len(contexts))
    else:
        which = np.zeros(path.size + 1, np.int64)
        which[1:] = path
        which[1:] += 1
    write_rows(maps, contexts, which, ids, probs, blocked, 3, stamp)
    return append(text, size, committed, blocked, automaton, matched)


@njit(cache=True)
def append(text, size, tokens, blocked, automaton, matched):
    """Append tokens to the history, -1 for placeholders, and feed them to the automaton once each; the new size."""
    for i in range(tokens.size):
        text[size + i] = -1 if blocked[tokens[i]] else tokens[i]
    if matched:
        extend(automaton, text, size, size + tokens.size)
    return size + tokens.size
