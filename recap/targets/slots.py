"""A preallocated KV cache that can drop rows: verified rows are appended, then only the accepted ones stay."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from transformers.cache_utils import Cache, CacheLayerMixin


class Window(NamedTuple):
    """Where a pass of static shape writes and reads, so that it may be captured and replayed at another length.

    slots  [n] on the device: the slots of its rows
    end    slots that it reads, from the first on; a mask hides those that are not its own
    """

    slots: torch.Tensor
    end: int


class Move(NamedTuple):
    """Kept rows that lie scattered: slots `rows` [n], bound for the slots from `start` on."""

    rows: NDArray[np.int64]
    start: int


class Slots:
    """Keys and values of layers that share a device, [layers, 2, 1, heads, slots, dim], so that they move as one.

    length  rows kept; those past it belong to the pass in flight
    window  where that pass writes and reads; None: behind the kept rows, and all there are
    grown   times that the buffer was made anew, at another address
    """

    def __init__(self, layers: int) -> None:
        self.layers = [SlotLayer(self, number) for number in range(layers)]
        self.length = 0
        self.grown = 0
        self.window: Window | None = None
        self.buffer: torch.Tensor | None = None

    @property
    def capacity(self) -> int:
        return 0 if self.buffer is None else self.buffer.shape[-2]

    def reserve(self, states: torch.Tensor, capacity: int) -> None:
        """Room for `capacity` rows of the shape of `states`, all finite, since a window reads what it hides."""
        room = (len(self.layers), 2, *states.shape[:2], capacity, states.shape[3])
        kept = self.buffer[..., : self.length, :] if self.length else None
        self.buffer = None  # freed first where nothing is kept
        self.buffer = states.new_zeros(room)
        self.grown += 1
        if kept is not None:
            self.buffer[..., : self.length, :] = kept
        for layer, (keys, values) in zip(self.layers, self.buffer, strict=True):
            layer.keys, layer.values, layer.is_initialized = keys, values, True

    def room(self, end: int) -> torch.Tensor:
        """The buffer, with room for `end` rows at least."""
        if end > self.capacity:
            self.reserve(self.buffer[0, 0], 2 * end)
        return self.buffer

    def move(self, rows: NDArray[np.int64], start: int) -> None:
        """Copy slots `rows`, ascending and none before its new place, to the slots from `start` on."""
        if self.buffer.device.type == "cpu":
            _move(self.buffer.view(torch.uint8).flatten(0, -3).numpy(), rows, start)
        else:
            here = torch.from_numpy(rows).to(self.buffer.device)
            self.buffer[..., start : start + len(rows), :] = self.buffer.index_select(-2, here)

    def copy(self, rows: torch.Tensor, slots: torch.Tensor) -> None:
        """The same where `slots` are known on the device alone."""
        self.buffer.index_copy_(-2, slots, self.buffer.index_select(-2, rows))

    @contextmanager
    def through(self, window: Window) -> Iterator[None]:
        """A pass in here goes through `window`."""
        self.window = window
        try:
            yield
        finally:
            self.window = None


class SlotLayer(CacheLayerMixin):
    """Keys and values of one layer, [1, heads, slots, dim]: a part of its `Slots`."""

    is_sliding = False

    def __init__(self, slots: Slots, number: int) -> None:
        super().__init__()
        self._slots, self._number = slots, number

    @property
    def length(self) -> int:
        return self._slots.length

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        if key_states.shape[0] != 1:
            raise ValueError(f"batch size {key_states.shape[0]}: this cache serves one sequence at a time")
        end = self.length + key_states.shape[2]
        self._slots.reserve(key_states, 2 * end + 64)  # twice what is needed, so that growing is rare

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        """Write a pass's rows, behind the kept ones or into the window; returns all rows so far or the window's."""
        window = self._slots.window
        if window is not None:
            self.keys.index_copy_(2, window.slots, key_states)
            self.values.index_copy_(2, window.slots, value_states)
            return self.keys[:, :, : window.end], self.values[:, :, : window.end]
        end = self.length + key_states.shape[2]
        if not self.is_initialized or end > self.keys.shape[2]:
            self.lazy_initialization(key_states, value_states)
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length  # the name before transformers 5.20


@njit(cache=True)
def _move(buffer, rows, start):
    """buffer [parts, slots, bytes of a vector]; in place, and without an operation for each layer."""
    for part in buffer:
        for i in range(rows.size):
            source, target = part[rows[i]], part[start + i]
            for byte in range(source.size):
                target[byte] = source[byte]


class SlotCache(Cache):
    """One `SlotLayer` a model layer. The buffers stay allocated from request to request.

    together  all layers are on one device, so one move serves them all; else each layer moves by itself
    deferred  kept rows that lie scattered wait in `pending` for whoever runs the next pass, instead of moving at once
    """

    def __init__(self, layers: int, together: bool = True) -> None:
        self.deferred = False
        self.pending: Move | None = None
        self.parts = [Slots(layers)] if together else [Slots(1) for _ in range(layers)]
        super().__init__(layers=[layer for part in self.parts for layer in part.layers])

    @property
    def length(self) -> int:
        """Rows kept: the position of the next token's slot."""
        return self.parts[0].length

    def append(self, rows: int) -> None:
        """Keep the first `rows` rows of the pass in flight, which lie where they belong."""
        for part in self.parts:
            part.length += rows

    def keep(self, path: NDArray[np.int32]) -> None:
        """Keep the root (row 0 of the pass) and the nodes of `path` (row i + 1 for node i); drop the rest.

        Only rows behind the first gap move: an accepted top-rank chain already lies in place.
        """
        first = next((depth for depth, node in enumerate(path.tolist()) if node != depth), None)
        if first is not None:
            start = self.length + 1
            self.pending = Move(path[first:].astype(np.int64) + start, start + first)
            if not self.deferred:
                self.settle()
        self.append(1 + len(path))

    def settle(self) -> None:
        """Move what is pending."""
        if self.pending is not None:
            for part in self.parts:
                part.move(*self.pending)
            self.pending = None

    def reset(self) -> None:
        """Forget the request; nothing is erased, since rows past `length` are never read, or read under a mask."""
        self.pending = None
        for part in self.parts:
            part.length = 0

    def erase(self) -> None:
        """Forget a request that was broken off and all it wrote: rows that are not finite shine through every mask."""
        if self.length:
            for part in self.parts:
                part.buffer.zero_()
        self.reset()
