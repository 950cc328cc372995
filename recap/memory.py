"""M1, M2, M3: the target's latest row under one-, two- and three-token keys (method: memories).

One structure holds the three maps: every array's first axis is the map (0 = M1, 1 = M2, 2 = M3). Keys live in
open-addressing tables; a row is written whole, the newest write replaces the old one, and within one pass the first
write of a key wins. A row never lists a placeholder: it is dropped, and the probabilities of the ids that stay are
renormalised, so that a row is the softmax over the logits it lists.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recap.types import Rows

M1, M2, M3 = 0, 1, 2
EMPTY = -1
KEY_BITS = 21  # three ids share one int64 key
MAX_VOCAB = 1 << KEY_BITS


class Maps(NamedTuple):
    """The arrays of the three maps; S slots, R rows of width K. Passes through compiled code whole."""

    keys: NDArray[np.int64]  # [3, S], EMPTY where free
    slots: NDArray[np.int32]  # [3, S] row of the key
    ids: NDArray[np.int32]  # [3, R, K]
    probs: NDArray[np.float32]  # [3, R, K]
    width: NDArray[np.int32]  # [3, R] ids in the row, at most K
    confidence: NDArray[np.float64]  # [3, R] exp(-entropy), equation 4
    stamp: NDArray[np.int64]  # [3, R] pass that wrote the row
    count: NDArray[np.int64]  # [3] rows in use


@njit(cache=True, inline="always")
def find_slot(keys, key):
    """Slot of `key` in one table: where it stands, or the free slot where it belongs. S is a power of two."""
    mask = keys.size - 1
    slot = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, inline="always")
def key_of(order, a, b, c):
    """Key of the context (a, b, c), oldest first, in map `order`; EMPTY where a needed token is missing (-1)."""
    if c < 0 or (order >= M2 and b < 0) or (order == M3 and a < 0):
        return EMPTY
    if order == M1:
        return c
    if order == M2:
        return (b << KEY_BITS) | c
    return (a << (2 * KEY_BITS)) | (b << KEY_BITS) | c


@njit(cache=True, inline="always")
def look_up(maps, order, a, b, c):
    """Row index of the context in map `order`, or -1."""
    key = key_of(order, a, b, c)
    if key == EMPTY:
        return -1
    slot = find_slot(maps.keys[order], key)
    return maps.slots[order, slot] if maps.keys[order, slot] == key else -1


@njit(cache=True)
def confidence_of(probs, width):
    """exp(-H) of a row, natural log, in [1/K, 1] (equation 4)."""
    entropy = 0.0
    for k in range(width):
        p = np.float64(probs[k])
        if p > 0.0:
            entropy -= p * math.log(p)
    return math.exp(-entropy)


@njit(cache=True)
def _strip(ids, probs, blocked, out_ids, out_probs):
    """Copy a row without its placeholders; returns its width, 0 where nothing is left."""
    width = 0
    for k in range(ids.size):
        if not blocked[ids[k]]:
            out_ids[width] = ids[k]
            out_probs[width] = probs[k]
            width += 1
    if 0 < width < ids.size:
        total = np.float32(0.0)
        for k in range(width):
            total += out_probs[k]
        if total == 0.0:
            return 0  # what is left has underflowed: no mass to share out
        for k in range(width):
            out_probs[k] /= total
    return width


@njit(cache=True)
def _write(maps, order, key, ids, probs, width, confidence, stamp):
    slot = find_slot(maps.keys[order], key)
    if maps.keys[order, slot] == EMPTY:
        row = maps.count[order]
        maps.count[order] += 1
        maps.keys[order, slot] = key
        maps.slots[order, slot] = row
    else:
        row = np.int64(maps.slots[order, slot])
        if maps.stamp[order, row] == stamp:
            return  # the first node in packed order wins
    for k in range(width):
        maps.ids[order, row, k] = ids[k]
        maps.probs[order, row, k] = probs[k]
    maps.width[order, row] = width
    maps.confidence[order, row] = confidence
    maps.stamp[order, row] = stamp


@njit(cache=True)
def write_rows(maps, contexts, which, ids, probs, blocked, orders, stamp):
    """Write the rows `which` (in that order) of ids/probs [n, K] under their contexts [n, 3] to `orders` maps.

    A context holds the three last tokens of the row's path, oldest first, -1 where there is none or a placeholder.
    """
    row_ids = np.empty(ids.shape[1], np.int32)
    row_probs = np.empty(ids.shape[1], np.float32)
    for r in which:
        if contexts[r, 2] < 0:
            continue
        width = _strip(ids[r], probs[r], blocked, row_ids, row_probs)
        if width == 0:
            continue
        confidence = confidence_of(row_probs, width)
        for order in range(orders):
            key = key_of(order, contexts[r, 0], contexts[r, 1], contexts[r, 2])
            if key != EMPTY:
                _write(maps, order, key, row_ids, row_probs, width, confidence, stamp)


@njit(cache=True)
def tree_contexts(root, tokens, parents, blocked):
    """Contexts [n + 1, 3] of the root (row 0, its own context given) and of a draft's nodes."""
    contexts = np.empty((tokens.size + 1, 3), np.int64)
    contexts[0] = root
    for i in range(tokens.size):
        above = contexts[parents[i] + 1]
        contexts[i + 1, 0] = above[1]
        contexts[i + 1, 1] = above[2]
        contexts[i + 1, 2] = -1 if blocked[tokens[i]] else tokens[i]
    return contexts


@njit(cache=True)
def prompt_contexts(masked, positions):
    """Contexts [len(positions), 3] of prompt positions; `masked` [n] has -1 for placeholders."""
    contexts = np.full((positions.size, 3), -1, np.int64)
    for i in range(positions.size):
        for back in range(min(3, positions[i] + 1)):
            contexts[i, 2 - back] = masked[positions[i] - back]
    return contexts


@njit(cache=True)
def _rehash(old, new):
    for order in range(3):
        for slot in range(old.keys.shape[1]):
            key = old.keys[order, slot]
            if key != EMPTY:
                place = find_slot(new.keys[order], key)
                new.keys[order, place] = key
                new.slots[order, place] = old.slots[order, slot]


class Memory:
    """The three maps, their growth and their size.

    Bounded by what is written: M1 by the vocabulary, M2 and M3 by the nodes that one request evaluates. The arrays
    double when full and are never given back.
    """

    def __init__(self, top_k: int, rows: int = 1 << 12) -> None:
        self.top_k = top_k
        self._stamp = 0
        self.maps = _new_maps(rows, top_k)

    def write(self, contexts, which, rows: Rows, blocked, orders: int = 3) -> None:
        """One pass of writes, see `write_rows`."""
        self._reserve(len(which))
        self._stamp += 1
        write_rows(self.maps, contexts, which, rows.ids, rows.probs, blocked, orders, self._stamp)

    def clear(self, *orders: int) -> None:
        """Forget the given maps."""
        for order in orders:
            self.maps.keys[order] = EMPTY
            self.maps.count[order] = 0

    def size(self) -> dict:
        """Rows in use by map and bytes held, tables and spare room included."""
        rows = dict(zip(("M1", "M2", "M3"), self.maps.count.tolist(), strict=True))
        return {"rows": rows, "bytes": sum(array.nbytes for array in self.maps)}

    def _reserve(self, rows: int) -> None:
        needed, capacity = int(self.maps.count.max()) + rows, self.maps.ids.shape[1]
        if needed <= capacity:
            return
        old = self.maps
        self.maps = _new_maps(max(needed, 2 * capacity), self.top_k)
        _rehash(old, self.maps)
        for name in ("ids", "probs", "width", "confidence", "stamp"):
            getattr(self.maps, name)[:, :capacity] = getattr(old, name)
        self.maps.count[:] = old.count


def _new_maps(rows: int, top_k: int) -> Maps:
    slots = 1 << int(2 * rows - 1).bit_length()  # at most half full
    return Maps(
        keys=np.full((3, slots), EMPTY, np.int64),
        slots=np.zeros((3, slots), np.int32),
        ids=np.zeros((3, rows, top_k), np.int32),
        probs=np.zeros((3, rows, top_k), np.float32),
        width=np.zeros((3, rows), np.int32),
        confidence=np.zeros((3, rows), np.float64),
        stamp=np.zeros((3, rows), np.int64),
        count=np.zeros(3, np.int64),
    )
