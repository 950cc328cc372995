"""Verification passes as CUDA graphs: the model's own forward, recorded once a shape and replayed by one launch.

Shapes come in buckets, of rows and of cached slots. A pass is padded to its bucket with rows that see the prefix and
themselves; their keys and values lie behind the real ones and are written over by the next pass. All that changes from
pass to pass is one int32 buffer, from which mask, positions and the kept rows' moves are built on the device.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from recap.targets.engines import show
from recap.targets.rows import best_on_device, check_top_k, checked, unpacked
from recap.targets.slots import Move, Window
from recap.types import Rows
from recap.verify import pack

ROWS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 68, 81, 96)  # 68: RECAP's tree and suffix; 81: Token Recycling's; then by 16
SLOTS = 256  # the least step between two bucket ends
MOVES = 16  # kept rows that a pass can move; RECAP's longest path has 10 nodes and a suffix of 4
WIDTH = 8  # logits kept a row; a drafter that wants fewer takes the first of them
HEAD = 3  # numbers before the moves in a plan's buffer

Pass = Callable[[], torch.Tensor]  # runs what its plan says and returns what `best_on_device` found


def row_bucket(rows: int) -> int:
    """The rows that a pass of `rows` rows is padded to."""
    return next((size for size in ROWS if size >= rows), -(-rows // 16) * 16)


def slot_bucket(slots: int) -> int:
    """The slots that a pass reads which needs the first `slots`: at most a quarter more, or 255."""
    step = max(SLOTS, (1 << slots.bit_length()) // 8)
    return -(-slots // step) * step


def buckets(bucket: Callable[[int], int], most: int) -> list[int]:
    """All buckets up to that of `most`."""
    sizes = [bucket(1)]
    while sizes[-1] < most:
        sizes.append(bucket(sizes[-1] + 1))
    return sizes


class Plan:
    """All that a pass of `rows` rows needs to know, in one buffer of int32: on the host, pinned, and on the device.

    cached   [1] rows kept: the slot of the root
    shift    [1] what positions have on slots
    start    [1] the slot where moved rows go; sources [MOVES] where they lie, their own place where none moves
    table    [rows, rows + 2] a plan of `recap.verify.pack`: token, depth, rows seen
    logits   [rows, vocab] what the pass leaves beside its result; `head` [vocab, hidden] is the output layer's weight
    """

    def __init__(self, rows: int, head: torch.Tensor) -> None:
        device = head.device
        self.logits = head.new_empty(rows, len(head))
        sizes = (HEAD, MOVES, rows * (rows + 2))
        self._sent = torch.zeros(sum(sizes), dtype=torch.int32, pin_memory=device.type == "cuda")
        self._here = torch.zeros(sum(sizes), dtype=torch.int32, device=device)
        self._head, self._sources, table = np.split(self._sent.numpy(), np.cumsum(sizes[:2]))
        self._table = table.reshape(rows, rows + 2)
        self.head, self.sources, table = self._here.split(sizes)
        self.table = table.view(rows, rows + 2)

    def send(self, plan: NDArray[np.int32], cached: int, shift: int, move: Move | None) -> None:
        """Write a pass of [n, n + 2] and send it; the last pass, which read the same buffer, is over."""
        n = len(plan)
        start = cached if move is None else move.start
        self._head[:] = cached, shift, start
        self._sources[:] = np.arange(start, start + MOVES)
        if move is not None:
            self._sources[: len(move.rows)] = move.rows
        self._table[:] = 0
        self._table[:n, : n + 2] = plan
        np.fill_diagonal(self._table[n:, n + 2 :], 1)
        self._here.copy_(self._sent, non_blocking=True)


class GraphPasses:
    """`engine=compiled` of a CUDA device.

    capture  False runs the same passes operation by operation, on any device
    ready    cached rows, those of a pass included, that `prepare` makes ready for; a longer request pays for its own
    Raises ValueError for a model that is not whole on one device.
    """

    def __init__(self, target, capture: bool = True, ready: int = 4096) -> None:
        check_whole(target)
        self._target = target
        self._device = target.model.device
        self._capture = capture
        self._ready = ready
        self._cache = target.cache
        self._cache.deferred = True
        (self._slots,) = target.cache.parts
        self._plans: dict[int, Plan] = {}
        self._passes: dict[tuple[int, int, int], Pass] = {}
        self._grown = 0  # of the buffer that the passes were made for
        self._pool = None  # memory of the graphs
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None

    @property
    def made(self) -> int:
        """Passes that stand ready."""
        return len(self._passes)

    def run(self, plan: NDArray[np.int32], top_k: int) -> Rows:
        check_top_k(top_k, self._target.vocab_size)
        n, cached = len(plan), self._cache.length
        rows = row_bucket(n)
        end = slot_bucket(cached + rows)
        self._make_room(end)
        if self._cache.pending is not None and len(self._cache.pending.rows) > MOVES:
            self._cache.settle()
        run = self._pass(rows, end, top_k)
        self._plans[rows].send(plan, cached, self._target.shift, self._cache.pending)
        self._cache.pending = None
        found = unpacked(run()[:n].cpu().numpy(), top_k)
        show(self._target.model, self._plans[rows].logits[:n])
        return checked(*found)

    @torch.inference_mode()
    def prepare(self, rows: int) -> None:
        assert self._cache.length == 0, "only between requests"
        if self._slots.buffer is None:
            self._target.run(pack(0, np.empty(0, np.int64), np.empty(0, np.int32)), 1)  # the model makes the buffers
        self._make_room(slot_bucket(self._ready))
        for size in reversed(buckets(row_bucket, rows)):  # the largest first: the others fit into its memory
            for end in reversed(buckets(slot_bucket, self._ready)):
                if end >= size:
                    self._pass(size, end, WIDTH)

    def _make_room(self, end: int) -> None:
        """Buffers of `end` slots and the moves behind them. Passes that were made for other buffers are dropped."""
        if self._slots.capacity < end + MOVES:
            self._cache.settle()
            self._slots.reserve(self._slots.buffer[0, 0], slot_bucket(end + end // 2) + MOVES)
        if self._slots.grown != self._grown:
            self._passes.clear()
            self._grown = self._slots.grown
            self._pool = None

    def _pass(self, rows: int, end: int, top_k: int) -> Pass:
        """The pass of a bucket, made where there is none."""
        key = rows, end, min(max(top_k, WIDTH), self._target.vocab_size)
        if key not in self._passes:
            if rows not in self._plans:
                self._plans[rows] = Plan(rows, self._target.model.get_output_embeddings().weight)
            forward = partial(self._forward, *key)
            self._passes[key] = self._captured(forward, rows) if self._capture else forward
        return self._passes[key]

    def _captured(self, forward: Pass, rows: int) -> Pass:
        """`forward` as a graph, captured on a plan that harms nothing."""
        self._cache.settle()  # the trial pass writes where rows may wait
        self._plans[rows].send(np.empty((0, 2), np.int32), self._cache.length, 0, None)
        return self._recorded(forward)

    def _recorded(self, forward: Pass) -> Pass:
        """What runs `forward` again; its result lies in memory that graphs share, so it lasts until the next pass."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                forward()  # libraries set themselves up, which a capture forbids
            torch.cuda.current_stream().wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                found = forward()

        def replay() -> torch.Tensor:
            graph.replay()
            return found

        return replay

    def _forward(self, rows: int, end: int, width: int) -> torch.Tensor:
        """Operations on the device alone, of shapes that the bucket decides."""
        target, plan = self._target, self._plans[rows]
        cached, shift, start = plan.head.long().split(1)
        self._slots.copy(plan.sources.long(), start + torch.arange(MOVES, device=self._device))
        slots = cached + torch.arange(rows, device=self._device)
        seen = (torch.arange(end, device=self._device) < cached).repeat(rows, 1)
        seen.index_copy_(1, slots, plan.table[:, 2:] != 0)
        mask = torch.zeros(rows, end, dtype=target.model.dtype, device=self._device)
        mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)
        with self._slots.through(Window(slots, end)), unhooked(target.model.get_output_embeddings()):
            logits = target.forward(
                input_ids=plan.table[None, :, 0].long(),
                position_ids=target.planes(plan.table[:, 1].long() + cached + shift),
                attention_mask=mask[None, None],
            )
        plan.logits.copy_(logits)
        return best_on_device(logits, width)


def check_whole(target) -> None:
    """Refuse a model that lies on several devices or in several processes. Raises ValueError."""
    if target.parted:
        raise ValueError(
            "engine=compiled: the model is spread over several devices, whose passes cannot be captured; "
            "use engine=eager"
        )


@contextmanager
def unhooked(module: torch.nn.Module) -> Iterator[None]:
    """No forward hooks of `module` in here: they would see padding, and a capture would call them only once."""
    hooks, module._forward_hooks = module._forward_hooks, OrderedDict()
    try:
        yield
    finally:
        module._forward_hooks = hooks
