"""How likely a candidate is the target's choice, learned from the stream (`scores=learned`).

A fused distribution q is far too sure of its first ranks: its rows were true one context ago. So it is flattened, to
q ** s over its sum, by the s of `SHARPNESS` under which the committed tokens were likeliest; and it is scaled by the
share of committed tokens that such a list held at all. The token that a verbatim continuation puts there is right with
a chance counted by the length of the match and by the place that q gave the token; either of the two may be right, so
the chances join as 1 - (1 - x)(1 - y), and the other candidates share what is left.

All counts come from every committed token, whether it was drafted or not, looked up as it was when the draft was made:
plain steps teach as much as drafts do.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recap.fusion import CANDIDATE, fuse
from recap.types import SOURCES

SUFFIX = SOURCES["suffix"]
ROWS = SOURCES["M1"] | SOURCES["M2"] | SOURCES["M3"]
SHARPNESS = np.array([1.0, 0.75, 0.5, 0.35, 0.25])
START = 2  # place in SHARPNESS that a stream starts with
LEAST = 1e-4  # no token counts as less likely
HELD = (0.0, 0.7, 0.8, 0.85, 0.9, 0.9, 0.9, 0.9)  # assumed at first, by the maps that list candidates
HELD_WEIGHT = 10.0  # committed tokens that the assumption is worth
LENGTHS = np.array([1, 2, 3, 5, 8, 12, 20])  # a match no longer than these falls into their class, else into the last
RIGHT = ((0.1, 0.1, 0.6), (0.2, 0.2, 0.7), (0.3, 0.3, 0.75), (0.4, 0.4, 0.8), (0.6, 0.5, 0.85), (0.8, 0.7, 0.9),
         (0.9, 0.85, 0.95), (0.97, 0.95, 0.98))  # fmt: skip
RIGHT_WEIGHT = 4.0
RECENT = 64.0  # a class of continuations that was seen so often halves its counts: what is copied changes
FADE = 0.5 ** (1 / 30)  # of the rate, a step
RATE_STEPS = 8.0  # plain steps that the first rate is worth


class Learned(NamedTuple):
    """Counts of one stream; the last axis of the first two is (hits, all)."""

    held: NDArray[np.float64]  # [8, 2] committed tokens, by the maps that list candidates
    right: NDArray[np.float64]  # [8, 3, 2] tokens of continuations, by match and whether q has them not, lower, first
    likelihood: NDArray[np.float64]  # [S] sum of log chances by sharpness
    rate: NDArray[np.float64]  # [2] tokens, seconds: of the last steps, by the prices of `recap.growth.Cost`


def new_learned(plain: float) -> Learned:
    """What is assumed of a stream whose plain steps take `plain` seconds."""
    held, right = np.array(HELD), np.array(RIGHT)
    return Learned(
        np.stack([held, np.ones_like(held)], -1) * HELD_WEIGHT,
        np.stack([right, np.ones_like(right)], -1) * RIGHT_WEIGHT,
        np.zeros(len(SHARPNESS)),
        np.array([1.0, plain]) * RATE_STEPS,
    )


@njit(cache=True)
def sharpness(learned):
    """The place in SHARPNESS that explains the stream best; START before anything was seen."""
    best = START
    for s in range(SHARPNESS.size):
        if learned.likelihood[s] > learned.likelihood[best]:
            best = s
    return best


@njit(cache=True)
def chances(learned, power, candidates, n, copied, match):
    """Turn q of the first `n` candidates into chances, descending; returns their number, at most n + 1.

    copied  the token that a continuation puts here, -1 for none; match: tokens that agree before it
    """
    if n > 0:
        kind, total = np.int64(0), 0.0
        for k in range(n):
            kind |= candidates[k].sources & ROWS
            candidates[k].q **= power
            total += candidates[k].q
        scale = learned.held[kind, 0] / learned.held[kind, 1] / total
        for k in range(n):
            candidates[k].q *= scale
    if copied < 0:
        return n
    at = place_of(candidates, n, copied)
    known, sources = 0.0, SUFFIX
    if at >= 0:
        known, sources = candidates[at].q, candidates[at].sources | SUFFIX
    seen = learned.right[match_class(match), standing(at)]
    chance = 1 - (1 - seen[0] / seen[1]) * (1 - known)
    if at < 0:
        at = n
        n += 1
    if known < 1:
        for k in range(n):
            candidates[k].q *= (1 - chance) / (1 - known)
    while at > 0 and candidates[at - 1].q < chance:
        candidates[at] = candidates[at - 1]
        at -= 1
    candidates[at].id, candidates[at].q, candidates[at].sources = copied, chance, sources
    return n


@njit(cache=True)
def learn(learned, maps, fusion, shape, context, committed, text, start, end, match):
    """Count committed tokens, by candidates looked up under their contexts before the pass writes its rows.

    text[start:end] is the continuation of a match of `match` tokens under the root's context, empty for none.
    """
    candidates = np.empty(3 * maps.rows.shape[2], CANDIDATE)
    a, b, c = context
    for token in committed:
        n = min(shape.width - 1, fuse(maps, fusion, a, b, c, candidates))
        _count_rows(learned, candidates, n, token)
        if start < end:
            seen = learned.right[match_class(match), standing(place_of(candidates, n, text[start]))]
            if seen[1] >= RECENT:
                seen *= 0.5
            seen[1] += 1
            if text[start] == token:
                seen[0] += 1
                start += 1
                match += 1
            else:
                end = start
        a, b, c = b, c, token


@njit(cache=True)
def _count_rows(learned, candidates, n, token):
    if n == 0:
        return
    kind = np.int64(0)
    for k in range(n):
        kind |= candidates[k].sources & ROWS
    learned.held[kind, 1] += 1
    at = place_of(candidates, n, token)
    if at < 0:
        return
    learned.held[kind, 0] += 1
    for s in range(SHARPNESS.size):
        total = 0.0
        for k in range(n):
            total += candidates[k].q ** SHARPNESS[s]
        learned.likelihood[s] += math.log(max(LEAST, candidates[at].q ** SHARPNESS[s] / total))


@njit(cache=True)
def pay(learned, tokens, seconds):
    """A step emitted so many tokens in so many seconds."""
    learned.rate[0] = learned.rate[0] * FADE + tokens
    learned.rate[1] = learned.rate[1] * FADE + seconds


@njit(cache=True)
def place_of(candidates, n, token):
    """Place of a token among the first `n` candidates, or -1."""
    for k in range(n):
        if candidates[k].id == token:
            return k
    return -1


@njit(cache=True, inline="always")
def standing(place):
    """0: not among the candidates; 1: below the first; 2: the first."""
    return 0 if place < 0 else 2 if place == 0 else 1


@njit(cache=True)
def match_class(match):
    """Class of a match by its length."""
    found = 0
    while found < LENGTHS.size and match > LENGTHS[found]:
        found += 1
    return found
