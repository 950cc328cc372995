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

from recap.targets.tile import COLUMNS, ROWS, multiply

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
    hidden, inner = weights.embedding.shape[1], weights.down.shape[2]
    qkv, added, vocab = (w.shape[-3] * COLUMNS for w in (weights.qkv, weights.o, weights.head))
    widths = (hidden, added, hidden, qkv, weights.o.shape[2], inner, inner, vocab)
    return Scratch(*(np.zeros((rows, width), np.float32) for width in widths))


@njit(cache=True, parallel=True)
def run(weights, sizes, kv, tokens, length, path, depth, cos, sin, s):
    """Fill s.logits for a pass whose rows are `tokens` [n]; its keys and values go behind the `length` cached ones.

    kv [L, 2, 1, kv heads, slots, D]; path [R, n] the rows of the pass that each row sees, from the root down to itself,
    depth [R] the last place in it; cos, sin [R, D] rotations by row
    """
    rows = depth.size
    for r in range(rows):
        s.x[r] = weights.embedding[tokens[r if r < tokens.size else 0]]
        s.added[r] = 0.0
    groups = rows // ROWS
    for number in range(weights.qkv.shape[0]):
        keys, values = kv[number, 0, 0], kv[number, 1, 0]
        _norm(s.x, s.added, weights.norm1[number], sizes.epsilon, rows, s.h)
        for panel in prange(weights.qkv.shape[1]):
            multiply(weights.qkv[number, panel], s.h, rows, s.qkv, panel * COLUMNS)
        _cache(s.qkv, weights.bias[number], sizes, rows, cos, sin, keys, values, length)
        for task in prange(sizes.heads * groups):
            _attend(s.qkv, task // groups, task % groups * ROWS, sizes, keys, values, length, path, depth, s.mixed)
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
def _attend(qkv, head, start, sizes, keys, values, length, path, depth, out):
    """Attention of one head for the four rows from `start` on."""
    dim, end = sizes.dim, length + depth.size
    own = head * sizes.kv_heads // sizes.heads
    q = qkv[start : start + ROWS, head * dim : (head + 1) * dim]
    scores = np.empty((ROWS, end + ROWS), np.float32)
    for slot in range(0, end, ROWS):
        _scores(q, keys[own, slot : slot + ROWS], sizes.scale, scores, slot)
    weights, powers = np.empty(end + ROWS, np.float32), np.empty(end + ROWS, np.int32)
    slots = np.arange(end + ROWS)
    for r in range(ROWS):
        row = start + r
        seen = length + depth[row] + 1
        for j in range(seen):
            if j >= length:
                slots[j] = length + path[row, j - length]
            weights[j] = scores[r, slots[j]]
        _softmax(weights, seen, powers)
        for j in range(seen, seen + ROWS - 1):
            weights[j], slots[j] = 0.0, slots[seen - 1]
        _mix(weights, slots, seen, values[own], out[row, head * dim : (head + 1) * dim])


@njit(cache=True, fastmath=FAST)
def _scores(q, keys, scale, out, at):
    """out[r, at + j] = scale * q[r] . keys[j] for four rows and four keys, all sixteen sums in the same order."""
    a0, a1, a2, a3 = q[0], q[1], q[2], q[3]
    b0, b1, b2, b3 = keys[0], keys[1], keys[2], keys[3]
    z = np.float32(0.0)
    c00 = c01 = c02 = c03 = c10 = c11 = c12 = c13 = z
    c20 = c21 = c22 = c23 = c30 = c31 = c32 = c33 = z
    for i in range(a0.size):
        x0, x1, x2, x3 = a0[i], a1[i], a2[i], a3[i]
        y0, y1, y2, y3 = b0[i], b1[i], b2[i], b3[i]
        c00, c01, c02, c03 = c00 + x0 * y0, c01 + x0 * y1, c02 + x0 * y2, c03 + x0 * y3
        c10, c11, c12, c13 = c10 + x1 * y0, c11 + x1 * y1, c12 + x1 * y2, c13 + x1 * y3
        c20, c21, c22, c23 = c20 + x2 * y0, c21 + x2 * y1, c22 + x2 * y2, c23 + x2 * y3
        c30, c31, c32, c33 = c30 + x3 * y0, c31 + x3 * y1, c32 + x3 * y2, c33 + x3 * y3
    out[0, at], out[0, at + 1], out[0, at + 2], out[0, at + 3] = c00 * scale, c01 * scale, c02 * scale, c03 * scale
    out[1, at], out[1, at + 1], out[1, at + 2], out[1, at + 3] = c10 * scale, c11 * scale, c12 * scale, c13 * scale
    out[2, at], out[2, at + 1], out[2, at + 2], out[2, at + 3] = c20 * scale, c21 * scale, c22 * scale, c23 * scale
    out[3, at], out[3, at + 1], out[3, at + 2], out[3, at + 3] = c30 * scale, c31 * scale, c32 * scale, c33 * scale


@njit(cache=True, fastmath=FAST)
def _softmax(weights, size, powers):
    best = weights[0]
    for j in range(size):
        best = max(best, weights[j])
    for j in range(size):
        weights[j] -= best
    _exp(weights, size, powers)
    total = np.float32(0.0)
    for j in range(size):
        total += weights[j]
    share = np.float32(1.0) / total
    for j in range(size):
        weights[j] *= share


@njit(cache=True, fastmath=FAST)
def _mix(weights, slots, size, values, out):
    """out = sum of weights[j] * values[slots[j]], four at a time; weights are zero from `size` on."""
    for i in range(out.size):
        out[i] = 0.0
    for j in range(0, size, ROWS):
        p0, p1, p2, p3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        v0, v1, v2, v3 = values[slots[j]], values[slots[j + 1]], values[slots[j + 2]], values[slots[j + 3]]
        for i in range(out.size):
            out[i] += p0 * v0[i] + p1 * v1[i] + p2 * v2[i] + p3 * v3[i]


@njit(cache=True)
def _silu_product(gate, up, rows, at):
    """gate = silu(gate) * up in the sixteen columns from `at` on."""
    negative, powers = np.empty(COLUMNS, np.float32), np.empty(COLUMNS, np.int32)
    for r in range(rows):
        g, u = gate[r, at : at + COLUMNS], up[r, at : at + COLUMNS]
        for i in range(COLUMNS):
            negative[i] = -g[i]
        _exp(negative, COLUMNS, powers)
        for i in range(COLUMNS):
            g[i] = g[i] / (np.float32(1.0) + negative[i]) * u[i]


@njit(cache=True, fastmath=FAST)
def _exp(x, size, powers):
    """x[:size] = exp(x[:size]) to float32's precision, vectorised (the Cephes polynomial); powers is scratch."""
    for i in range(size):
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
        powers[i] = (np.int32(n) + np.int32(127)) << np.int32(23)  # the bits of 2 ** n
    power = powers.view(np.float32)
    for i in range(size):
        x[i] *= power[i]
