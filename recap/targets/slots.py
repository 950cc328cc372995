"""A preallocated KV cache that can drop rows: verified rows are appended, then only the accepted ones stay."""

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.cache_utils import Cache, CacheLayerMixin


class SlotLayer(CacheLayerMixin):
    """Keys and values of one layer, [1, heads, slots, dim]. Rows past `length` belong to the pass in flight."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        if key_states.shape[0] != 1:
            raise ValueError(f"batch size {key_states.shape[0]}: this cache serves one sequence at a time")
        self._reserve(key_states, value_states, 0)
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        """Append a pass's rows behind the kept ones; returns all rows so far."""
        end = self.length + key_states.shape[2]
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if end > self.keys.shape[2]:
            self._reserve(key_states, value_states, self.length)
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        return self.keys[:, :, :end], self.values[:, :, :end]

    def _reserve(self, key_states: torch.Tensor, value_states: torch.Tensor, kept: int) -> None:
        """Twice the room that is needed now, so that growing is rare."""
        slots = 2 * (kept + key_states.shape[2]) + 64
        for name, states in (("keys", key_states), ("values", value_states)):
            buffer = states.new_empty(*states.shape[:2], slots, states.shape[3])
            if kept:
                buffer[:, :, :kept] = getattr(self, name)[:, :, :kept]
            setattr(self, name, buffer)

    def move(self, rows: torch.Tensor, start: int) -> None:
        """Copy slots `rows` to the slots from `start` on."""
        end = start + len(rows)
        self.keys[:, :, start:end] = self.keys.index_select(2, rows)
        self.values[:, :, start:end] = self.values.index_select(2, rows)

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length  # the name before transformers 5.20


class SlotCache(Cache):
    """One `SlotLayer` a model layer. The buffers stay allocated from request to request."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[SlotLayer() for _ in range(layers)])

    @property
    def length(self) -> int:
        """Rows kept: the position of the next token's slot."""
        return self.layers[0].length

    def append(self, rows: int) -> None:
        """Keep the first `rows` rows of the pass in flight, which lie where they belong."""
        for layer in self.layers:
            layer.length += rows

    def keep(self, path: NDArray[np.int32]) -> None:
        """Keep the root (row 0 of the pass) and the nodes of `path` (row i + 1 for node i); drop the rest.

        Only rows behind the first gap move: an accepted top-rank chain already lies in place.
        """
        moved = np.flatnonzero(path != np.arange(len(path)))
        if moved.size:
            first = int(moved[0])
            start = self.length + 1
            rows = torch.from_numpy(path[first:].astype(np.int64) + start)
            for layer in self.layers:
                layer.move(rows.to(layer.keys.device), start + first)
        self.append(1 + len(path))

    def reset(self) -> None:
        """Forget the request; nothing is erased, since rows past `length` are never read."""
        for layer in self.layers:
            layer.length = 0
