"""A verification pass through a Llama-like decoder on a CPU: a few rows, all layers, one compiled call.

Such a pass is bound by reading the weights, so every weight is read once and serves all rows while it is there. All
sums run in one order, whatever the number of rows and wherever in a pass a row stands: a token's logits are the same
bits in a plain step as in a tree.

Rows are worked on four at a time; a pass is padded to a multiple of four. H: hidden size, I: intermediate size, D: size
of a head, R: padded rows.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from recap.targets.tile import COLUMNS, ROWS, multiply, zeros

Floats = NDArray[np.float32]

FAST = {"reassoc", "contract", "nsz", "arcp"}  # sums may be vectorised; NaN and infinity keep their meaning
LOG2E, LN2_HIGH, LN2_LOW = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.12194440e-4)


class Weights(NamedTuple):
    """Weights of all L layers and of the output layer; products as `tile.panels` lays them out."""

    embedding: Floats  # [vocab, H]
    norm1: Floats  # [L, H]
    qkv: Floats  # [L, panels, H, 16]
    bias: Floats  # [L, q, k and v outputs], zeros where the model has none
    o: Floats  # [L, panels, heads * D, 16]
    norm2: Floats  # [L, H]
    gate: Floats  # [L, panels, H, 16]
    up: Floats
    down: Floats  # [L, panels, I, 16]
    norm: Floats  # [H]
    head: Floats  # [panels, H, 16]


class Sizes(NamedTuple):
    """What the shapes of the weights leave open."""

    heads: int
    kv_heads: int
    dim: int
    scale: np.float32  # of the attention scores
    epsilon: np.float32  # of the norms


class Scratch(NamedTuple):
    """What a pass of up to R rows works in; widths are filled up to whole panels."""

    x: Floats  # [R, H] the residual stream
    added: Floats  # [R, H] what the last block adds to it
    h: Floats  # [R, H] normed
    qkv: Floats  # [R, q, k and v outputs]
    mixed: Floats  # [R, heads * D] attention's output
    gated: Floats  # [R, I]
    up: Floats  # [R, I]
    logits: Floats  # [R, vocab]


def new_scratch(rows: int, weights: Weights) -> Scratch:
    """Room for `rows` rows."""
    hidden = weights.embedding.shape[1]
    qkv, added, inner, vocab = (w.shape[-3] * COLUMNS for w in (weights.qkv, weights.o, weights.gate, weights.head))
    widths = (hidden, added, hidden, qkv, weights.o.shape[2], inner, inner, vocab)
    return Scratch(*(zeros(rows, width) for width in widths))


@njit(cache=True, parallel=True)
def run(weights, sizes, kv, tokens, length, path, depth, cos, sin, s):
    """Fill s.logits for a pass whose rows are `tokens` [n]; its keys and values go behind the `length` cached ones.

    kv [L, 2, 1, kv heads, slots, D], with room for three slots more than the pass needs; path [R, n] the rows of the
    pass that each row sees, from the root down to itself, depth [R] the last place in it; cos, sin [R, D] by row
    """
    rows = depth.size
    for r in range(rows):
        s.x[r] = weights.embedding[tokens[r if r < tokens.size else 0]]
        s.added[r] = 0.0
    groups = (rows * sizes.heads // sizes.kv_heads + COLUMNS - 1) // COLUMNS  # of queries, for each kv head
    for number in range(weights.qkv.shape[0]):
        keys, values = kv[number, 0, 0], kv[number, 1, 0]
        _norm(s.x, s.added, weights.norm1[number], sizes.epsilon, rows, s.h)
        for panel in prange(weights.qkv.shape[1]):
            multiply(weights.qkv[number, panel], s.h, rows, s.qkv, panel * COLUMNS)
        _cache(s.qkv, weights.bias[number], sizes, rows, cos, sin, keys, values, length)
        for task in prange(sizes.kv_heads * groups):
            own = task // groups
            first = task % groups * COLUMNS
            _attend(s.qkv, first, own, sizes, keys[own], values[own], length, path, depth, s.mixed)
        for panel in prange(weights.o.shape[1]):
            multiply(weights.o[number, panel], s.mixed, rows, s.added, panel * COLUMNS)
        _norm(s.x, s.added, weights.norm2[number], sizes.epsilon, rows, s.h)
        for panel in prange(weights.gate.shape[1]):
            at = panel * COLUMNS
            multiply(weights.gate[number, panel], s.h, rows, s.gated, at)
            multiply(weights.up[number, panel], s.h, rows, s.up, at)
            _silu_product(s.gated, s.up, rows, at)
        for panel in prange(weights.down.shape[1]):
            multiply(weights.down[number, panel], s.gated, rows, s.added, panel * COLUMNS)
    _norm(s.x, s.added, weights.norm, sizes.epsilon, rows, s.h)
    for panel in prange(weights.head.shape[0]):
        multiply(weights.head[panel], s.h, rows, s.logits, panel * COLUMNS)


@njit(cache=True, fastmath=FAST)
def _norm(x, added, weight, epsilon, rows, out):
    """x += added; out = RMSNorm(x)."""
    width = x.shape[1]
    for r in range(rows):
        square = np.float32(0.0)
        for i in range(width):
            value = x[r, i] + added[r, i]
            x[r, i] = value
            square += value * value
        scale = np.float32(1.0) / np.sqrt(square / np.float32(width) + epsilon)
        for i in range(width):
            out[r, i] = weight[i] * (x[r, i] * scale)


@njit(cache=True)
def _cache(qkv, bias, sizes, rows, cos, sin, keys, values, length):
    """Add the biases, rotate queries (in place) and keys, and cache keys and values [kv heads, slots, D]."""
    dim, q_end = sizes.dim, sizes.heads * sizes.dim
    k_end = q_end + sizes.kv_heads * dim
    for r in range(rows):
        line = qkv[r]
        for i in range(bias.size):
            line[i] += bias[i]
        for head in range(sizes.heads):
            own = line[head * dim : (head + 1) * dim]
            _rotate(own, cos[r], sin[r], own)
        for head in range(sizes.kv_heads):
            at = q_end + head * dim
            _rotate(line[at : at + dim], cos[r], sin[r], keys[head, length + r])
            at = k_end + head * dim
            values[head, length + r] = line[at : at + dim]


@njit(cache=True)
def _rotate(vector, cos, sin, out):
    """Rotary embedding of one head's vector [D], its halves being the pairs; `out` may be `vector`."""
    half = vector.size // 2
    for i in range(half):
        low, high = vector[i], vector[half + i]
        out[i] = low * cos[i] - high * sin[i]
        out[half + i] = high * cos[half + i] + low * sin[half + i]


@njit(cache=True)
def _attend(qkv, first, own, sizes, keys, values, length, path, depth, out):
    """Attention of sixteen queries from number `first` on, over the keys and values [slots, D] of kv head `own`.

    A query is a row and one of the heads that share `own`. The scores stand as [slots, 16], so that all is done for
    sixteen queries at once, slot after slot: a slot that a query does not see adds an exact zero.
    """
    dim, shared = sizes.dim, sizes.heads // sizes.kv_heads
    queries = min(COLUMNS, depth.size * shared - first)
    q = np.zeros((dim, COLUMNS), np.float32)
    seen = np.zeros((depth.size, COLUMNS), np.float32)
    for n in range(queries):
        row, head = (first + n) // shared, own * shared + (first + n) % shared
        for i in range(dim):
            q[i, n] = qkv[row, head * dim + i] * sizes.scale
        for j in range(depth[row] + 1):
            seen[path[row, j], n] = 1.0
    slots = length + depth.size
    whole = -(-slots // ROWS) * ROWS  # the slots past the pass hold anything, and nobody looks at their scores
    scores = np.empty((whole, COLUMNS), np.float32)
    multiply(q, keys[:whole], whole, scores, 0)
    scores = scores[:slots]
    totals = _softmax(scores, seen, length)
    mixed = np.empty((COLUMNS, -(-dim // COLUMNS) * COLUMNS), np.float32)
    for column in range(0, dim, COLUMNS):
        multiply(values[:slots, column:], scores.T, COLUMNS, mixed, column)
    for n in range(queries):
        row, head = (first + n) // shared, own * shared + (first + n) % shared
        for i in range(dim):
            out[row, head * dim + i] = mixed[n, i] / totals[n]


@njit(cache=True)
def _softmax(scores, seen, length):
    """scores [slots, 16] = exp(scores - best), zero where not seen; returns their sums [16]."""
    best, totals = np.full(COLUMNS, -np.inf, np.float32), np.zeros(COLUMNS, np.float32)
    for slot in range(len(scores)):
        for n in range(COLUMNS):
            if slot < length or seen[slot - length, n] > 0.0:
                best[n] = max(best[n], scores[slot, n])
    for slot in range(len(scores)):
        for n in range(COLUMNS):
            scores[slot, n] -= best[n]
    _exp(scores.reshape(-1))
    for slot in range(len(scores)):
        for n in range(COLUMNS):
            if slot >= length:
                scores[slot, n] *= seen[slot - length, n]
            totals[n] += scores[slot, n]
    return totals


@njit(cache=True)
def _silu_product(gate, up, rows, at):
    """gate = silu(gate) * up in the sixteen columns from `at` on."""
    powers = np.empty((rows, COLUMNS), np.float32)
    for r in range(rows):
        for i in range(COLUMNS):
            powers[r, i] = -gate[r, at + i]
    _exp(powers.reshape(-1))
    for r in range(rows):
        for i in range(COLUMNS):
            gate[r, at + i] = gate[r, at + i] / (np.float32(1.0) + powers[r, i]) * up[r, at + i]


@njit(cache=True, fastmath=FAST)
def _exp(x):
    """x = exp(x) to float32's precision, vectorised (the Cephes polynomial)."""
    bits = np.empty(x.size, np.int32)
    for i in range(x.size):
        t = min(max(x[i], np.float32(-87.0)), np.float32(88.0))
        n = np.floor(t * LOG2E + np.float32(0.5))
        f = t - n * LN2_HIGH - n * LN2_LOW
        p = np.float32(1.9875691500e-4)
        p = p * f + np.float32(1.3981999507e-3)
        p = p * f + np.float32(8.3334519073e-3)
        p = p * f + np.float32(4.1665795894e-2)
        p = p * f + np.float32(1.6666665459e-1)
        p = p * f + np.float32(5.0000001201e-1)
        x[i] = p * f * f + f + np.float32(1.0)
        bits[i] = (np.int32(n) + np.int32(127)) << np.int32(23)  # of 2 ** n
    powers = bits.view(np.float32)
    for i in range(x.size):
        x[i] *= powers[i]
