"""The text of one request, as the methods that look things up in it need it."""

import numpy as np
from numba import njit

from recap.types import SOURCES, Draft, Ints, Limits, Request, Rows


class History:
    """Prompt and committed tokens, the root last.

    text     [room for all] -1 where a placeholder stands; `size` tokens are there
    blocked  [vocab] the placeholders;  stops [vocab] the stop ids;  barred [vocab] both
    """

    def __init__(self, request: Request, limits: Limits, rows: Rows) -> None:
        self.blocked = np.zeros(request.vocab_size, bool)
        self.blocked[list(request.placeholders)] = True
        self.stops = np.zeros(request.vocab_size, bool)
        self.stops[list(limits.stop_ids)] = True
        self.barred = self.blocked | self.stops
        self.text = np.full(len(request.prompt) + limits.max_new_tokens, -1, np.int64)
        self.size = 0
        self.append(request.prompt)
        self.append(rows.ids[-1:, 0])

    def append(self, tokens: Ints) -> None:
        end = self.size + len(tokens)
        self.text[self.size : end] = np.where(self.blocked[tokens], -1, tokens)
        self.size = end

    def run(self) -> Ints:
        """The tokens since the last placeholder."""
        text = self.text[: self.size]
        breaks = np.flatnonzero(text < 0)
        return text[breaks[-1] + 1 :] if len(breaks) else text


def chain(tokens: Ints) -> Draft:
    """A draft that is one path."""
    n = len(tokens)
    return Draft(tokens, np.arange(-1, n - 1, dtype=np.int32), np.full(n, SOURCES["suffix"], np.int8))


@njit(cache=True)
def copy_run(text, start, end, barred):
    """text[start:end] up to the first placeholder, stop id or id that the model does not have."""
    at = start
    while at < end and 0 <= text[at] < barred.size and not barred[text[at]]:
        at += 1
    return text[start:at].copy()


@njit(cache=True)
def find_or_add(tokens, parents, size, parent, token):
    """Index of the child `token` of `parent` in a packed draft of `size` nodes; `size` where it had to be added."""
    for i in range(size):
        if parents[i] == parent and tokens[i] == token:
            return i
    tokens[size] = token
    parents[size] = parent
    return size
