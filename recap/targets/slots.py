"""A preallocated KV cache that can drop rows: verified rows are appended, then only the accepted ones stay."""

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.cache_utils import Cache, CacheLayerMixin


class Slots:
    """Keys and values of layers that share a device, [layers, 2, 1, heads, slots, dim], so that they move as one.

    length  rows kept; those past it belong to the pass in flight
    """

    def __init__(self, layers: int) -> None:
        self.layers = [SlotLayer(self, number) for number in range(layers)]
        self.length = 0
        self._buffer: torch.Tensor | None = None

    def reserve(self, states: torch.Tensor, end: int) -> None:
        """Room for `end` rows of the shape of `states`; twice that, so that growing is rare."""
        room = (len(self.layers), 2, *states.shape[:2], 2 * end + 64, states.shape[3])
        kept = self._buffer[..., : self.length, :] if self.length else None
        self._buffer = None  # freed first where nothing is kept
        self._buffer = states.new_empty(room)
        if kept is not None:
            self._buffer[..., : self.length, :] = kept
        for layer, (keys, values) in zip(self.layers, self._buffer, strict=True):
            layer.keys, layer.values, layer.is_initialized = keys, values, True

    def room(self, end: int) -> torch.Tensor:
        """The buffer, with room for `end` rows at least."""
        if end > self._buffer.shape[-2]:
            self.reserve(self.layers[0].keys[:, :, :1], end)
        return self._buffer

    def move(self, rows: torch.Tensor, start: int) -> None:
        """Copy slots `rows` to the slots from `start` on."""
        moved = self._buffer.index_select(-2, rows.to(self._buffer.device))
        self._buffer[..., start : start + len(rows), :] = moved


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
        self._slots.reserve(key_states, self.length + key_states.shape[2])

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        """Append a pass's rows behind the kept ones; returns all rows so far."""
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


class SlotCache(Cache):
    """One `SlotLayer` a model layer. The buffers stay allocated from request to request.

    together  all layers are on one device, so one move serves them all; else each layer moves by itself
    """

    def __init__(self, layers: int, together: bool = True) -> None:
        self._parts = [Slots(layers)] if together else [Slots(1) for _ in range(layers)]
        super().__init__(layers=[layer for part in self._parts for layer in part.layers])

    @property
    def length(self) -> int:
        """Rows kept: the position of the next token's slot."""
        return self._parts[0].length

    def room(self, end: int) -> torch.Tensor:
        """The buffer of layers that move as one, with room for `end` rows; a request is cached already."""
        return self._parts[0].room(end)

    def append(self, rows: int) -> None:
        """Keep the first `rows` rows of the pass in flight, which lie where they belong."""
        for part in self._parts:
            part.length += rows

    def keep(self, path: NDArray[np.int32]) -> None:
        """Keep the root (row 0 of the pass) and the nodes of `path` (row i + 1 for node i); drop the rest.

        Only rows behind the first gap move: an accepted top-rank chain already lies in place.
        """
        moved = np.flatnonzero(path != np.arange(len(path)))
        if moved.size:
            first = int(moved[0])
            start = self.length + 1
            rows = torch.from_numpy(path[first:].astype(np.int64) + start)
            for part in self._parts:
                part.move(rows, start + first)
        self.append(1 + len(path))

    def reset(self) -> None:
        """Forget the request; nothing is erased, since rows past `length` are never read."""
        for part in self._parts:
            part.length = 0
