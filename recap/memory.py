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


# A probe reads one entry, a row is one run of picks: what is looked up together lies in one or two cache lines.
ENTRY = np.dtype(
    [
        ("key", np.int64),  # EMPTY where free
        ("stamp", np.int64),  # pass that wrote the row
        ("confidence", np.float64),  # exp(-entropy), equation 4
        ("row", np.int32),
        ("width", np.int32),  # ids in the row, at most K
    ]
)
PICK = np.dtype([("id", np.int32), ("prob", np.float32)])


class Maps(NamedTuple):
    """The arrays of the three maps; S entries, R rows of width K. Passes through compiled code whole."""

    table: NDArray  # [3, S] of ENTRY
    rows: NDArray  # [3, R, K] of PICK
    count: NDArray[np.int64]  # [3] rows in use


@njit(cache=True, inline="always")
def find_slot(table, key):
    """Place of `key` in one table: where it stands, or the free one where it belongs. The size is a power of two."""
    mask = table.size - 1
    slot = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while table[slot].key != key and table[slot].key != EMPTY:
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
    """Slot of the context's entry in map `order`, or -1."""
    key = key_of(order, a, b, c)
    if key == EMPTY:
        return -1
    slot = find_slot(maps.table[order], key)
    return slot if maps.table[order, slot].key == key else -1


@njit(cache=True)
def confidence_of(row, width):
    """exp(-H) of a row, natural log, in [1/K, 1] (equation 4)."""
    entropy = 0.0
    for k in range(width):
        p = np.float64(row[k].prob)
        if p > 0.0:
            entropy -= p * math.log(p)
    return math.exp(-entropy)


@njit(cache=True)
def _strip(ids, probs, blocked, out):
    """Copy a row without its placeholders; returns its width, 0 where nothing is left."""
    width = 0
    for k in range(ids.size):
        if not blocked[ids[k]]:
            out[width].id = ids[k]
            out[width].prob = probs[k]
            width += 1
    if 0 < width < ids.size:
        total = np.float32(0.0)
        for k in range(width):
            total += out[k].prob
        if total == 0.0:
            return 0  # what is left has underflowed: no mass to share out
        for k in range(width):
            out[k].prob /= total
    return width


@njit(cache=True)
def _write(maps, order, key, row, width, confidence, stamp):
    slot = find_slot(maps.table[order], key)
    entry = maps.table[order, slot]
    if entry.key == EMPTY:
        entry.key = key
        entry.row = maps.count[order]
        maps.count[order] += 1
    elif entry.stamp == stamp:
        return  # the first node in packed order wins
    entry.stamp = stamp
    entry.confidence = confidence
    entry.width = width
    for k in range(width):
        maps.rows[order, entry.row, k] = row[k]


@njit(cache=True)
def write_rows(maps, contexts, which, ids, probs, blocked, orders, stamp):
    """Write the rows `which` (in that order) of ids/probs [n, K] under their contexts [n, 3] to `orders` maps.

    A context holds the three last tokens of the row's path, oldest first, -1 where there is none or a placeholder.
    """
    row = np.empty(ids.shape[1], PICK)
    for r in which:
        if contexts[r, 2] < 0:
            continue
        width = _strip(ids[r], probs[r], blocked, row)
        if width == 0:
            continue
        confidence = confidence_of(row, width)
        for order in range(orders):
            key = key_of(order, contexts[r, 0], contexts[r, 1], contexts[r, 2])
            if key != EMPTY:
                _write(maps, order, key, row, width, confidence, stamp)


@njit(cache=True, inline="always")
def context_at(text, size):
    """The last three of the first `size` tokens, oldest first, -1 where there is none."""
    return text[size - 3] if size > 2 else -1, text[size - 2] if size > 1 else -1, text[size - 1]


@njit(cache=True)
def tree_contexts(root, tokens, parents, blocked):
    """Contexts [n + 1, 3] of the root (row 0, its own context given) and of a draft's nodes."""
    contexts = np.empty((tokens.size + 1, 3), np.int64)
    contexts[0, 0], contexts[0, 1], contexts[0, 2] = root
    for i in range(tokens.size):
        above = parents[i] + 1
        contexts[i + 1, 0] = contexts[above, 1]
        contexts[i + 1, 1] = contexts[above, 2]
        contexts[i + 1, 2] = -1 if blocked[tokens[i]] else tokens[i]
    return contexts


@njit(cache=True)
def prompt_contexts(masked, positions):
    """Contexts [len(positions), 3] of prompt positions; `masked` [n] has -1 for placeholders."""
    contexts = np.empty((positions.size, 3), np.int64)
    for i in range(positions.size):
        contexts[i, 0], contexts[i, 1], contexts[i, 2] = context_at(masked, positions[i] + 1)
    return contexts


@njit(cache=True)
def _insert(entries, table):
    for slot in range(entries.size):
        if entries[slot].key != EMPTY:
            table[find_slot(table, entries[slot].key)] = entries[slot]


class Memory:
    """The three maps, their growth and their size.

    Bounded by what is written: M1 by the vocabulary, M2 and M3 by the nodes that one request evaluates, and by `cap`
    where they outlive requests. The arrays double when full and are never given back.
    """

    def __init__(self, top_k: int, rows: int = 1 << 12) -> None:
        self.top_k = top_k
        self._stamp = 0
        self._most = 0  # no map holds more rows
        self.maps = _new_maps(rows, top_k)

    def write(self, contexts, which, rows: Rows, blocked, orders: int = 3) -> None:
        """One pass of writes, see `write_rows`."""
        stamp = self.open_pass(len(which))
        write_rows(self.maps, contexts, which, rows.ids, rows.probs, blocked, orders, stamp)

    def open_pass(self, rows: int) -> int:
        """Make room in `maps` for a pass of at most `rows` rows; returns its stamp."""
        self._most += rows
        if self._most > self.maps.rows.shape[1]:
            self._most = int(self.maps.count.max()) + rows
            self._reserve(self._most)
        self._stamp += 1
        return self._stamp

    def clear(self, *orders: int) -> None:
        """Forget the given maps."""
        for order in orders:
            self.maps.table["key"][order] = EMPTY
            self.maps.count[order] = 0

    def cap(self, order: int, most: int) -> None:
        """Where a map holds more than `most` rows, keep the newest half of `most`."""
        if self.maps.count[order] <= most:
            return
        table, rows = self.maps.table[order], self.maps.rows[order]
        held = table[table["key"] != EMPTY]
        newest = held[np.argsort(held["stamp"], kind="stable")[-(most // 2) :]]
        rows[: len(newest)] = rows[newest["row"]]
        newest["row"] = np.arange(len(newest))
        table["key"] = EMPTY
        _insert(newest, table)
        self.maps.count[order] = len(newest)

    def size(self) -> dict:
        """Rows in use by map and bytes held, tables and spare room included."""
        rows = dict(zip(("M1", "M2", "M3"), self.maps.count.tolist(), strict=True))
        return {"rows": rows, "bytes": sum(array.nbytes for array in self.maps)}

    def _reserve(self, needed: int) -> None:
        capacity = self.maps.rows.shape[1]
        if needed <= capacity:
            return
        old = self.maps
        self.maps = _new_maps(max(needed, 2 * capacity), self.top_k)
        for order in (M1, M2, M3):
            _insert(old.table[order], self.maps.table[order])
        self.maps.rows[:, :capacity] = old.rows
        self.maps.count[:] = old.count


def _new_maps(rows: int, top_k: int) -> Maps:
    slots = 1 << int(2 * rows - 1).bit_length()  # at most half full
    table = np.zeros((3, slots), ENTRY)
    table["key"] = EMPTY
    return Maps(table, np.zeros((3, rows, top_k), PICK), np.zeros(3, np.int64))
