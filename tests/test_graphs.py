"""Passes of static shape against the model's own forward, row by row and token for token, without a GPU.

`Taped` stands in for a CUDA graph: it notes the operations of one pass and runs exactly these again, on the very same
tensors, so that whatever a pass takes from Python once instead of from its buffer shows as a wrong row. An operation
that would bring a value to the host, which a capture forbids, fails.
"""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import recap
from baselines.autoregressive import Autoregressive
from baselines.sam_decoding import SamDecoding
from baselines.token_recycling import TokenRecycling
from recap.decode import generate
from recap.drafter import Recap
from recap.targets.cuda import MOVES, ROWS, GraphPasses, Plan, buckets, row_bucket, slot_bucket
from recap.targets.rows import best_on_device, unpacked
from recap.types import EMPTY_DRAFT, Draft, Limits
from recap.verify import pack
from runners.recorder import Logits
from tests.models import BUILDERS, FAMILIES, SETTINGS, VOCAB, fresh_model, inputs_of, model_of, plain_greedy

NOTHING = np.empty(0, np.int64)
ITEM = torch.ops.aten._local_scalar_dense.default


class Tape(TorchDispatchMode):
    """Notes every operation in here with its arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        assert operation is not ITEM, "a pass may bring no value to the host"
        result = operation(*args, **(kwargs or {}))
        self.operations.append((operation, args, kwargs or {}, result))
        return result

    def play(self) -> None:
        """All of it again, each result where it was."""
        for operation, args, kwargs, result in self.operations:
            again = operation(*args, **kwargs)
            for old, new in zip(tensors(result), tensors(again), strict=True):
                if old.data_ptr() != new.data_ptr():  # neither a view nor in place
                    old.copy_(new)


def tensors(result) -> list[torch.Tensor]:
    results = result if isinstance(result, tuple | list) else [result]
    return [tensor for tensor in results if isinstance(tensor, torch.Tensor)]


class Taped(GraphPasses):
    """Graphs without a GPU."""

    def __init__(self, target, ready: int = 4096) -> None:
        super().__init__(target, capture=True, ready=ready)

    def _recorded(self, forward):
        with Tape() as tape:
            found = forward()

        def replay():
            tape.play()
            return found

        return replay


def unrecorded(target) -> GraphPasses:
    return GraphPasses(target, capture=False)


def target_with(model, passes, **kwargs):
    target = recap.target_for(model)
    target.engine = passes(target, **kwargs)
    return target


def no_clock(phase: str) -> None:
    pass


def draft_of(tokens, parents) -> Draft:
    return Draft(np.array(tokens, np.int64), np.array(parents, np.int32), np.zeros(len(tokens), np.int8))


def start(target, inputs) -> None:
    target.prefill(target.request(inputs, Limits(200)), NOTHING, 1, no_clock)


def decode(target, drafter, inputs, new: int) -> list[int]:
    limits = Limits(new)
    return generate(target, drafter, target.request(inputs, limits), limits).tokens.tolist()


# Outputs


DRAFTERS = {
    "plain": Autoregressive,
    "recap": Recap,
    "token recycling": TokenRecycling,
    "sam": SamDecoding,
}


@pytest.mark.parametrize("passes", (unrecorded, Taped))
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("family,images", SETTINGS)
def test_tokens_are_those_of_plain_decoding(family, images, drafter, passes):
    model, inputs = model_of(family), inputs_of(family, images, seed=3)
    target = target_with(model, passes)
    assert decode(target, DRAFTERS[drafter](), inputs, 40) == plain_greedy(model, inputs, 40)


@pytest.mark.parametrize("family", FAMILIES)
def test_requests_in_sequence_share_the_passes_and_nothing_else(family):
    model, drafter = model_of(family), Recap()
    target = target_with(model, Taped)
    for seed in range(4):
        images = seed % 3 if family in ("qwen2_5_vl", "llava_next") else 0
        inputs = inputs_of(family, images, seed)
        assert decode(target, drafter, inputs, 20) == plain_greedy(model, inputs, 20)


@pytest.mark.parametrize("method", (Autoregressive, Recap))
def test_a_request_may_outgrow_buckets_and_buffers(method):
    model, inputs = fresh_model("llama"), inputs_of("llama", dtype=torch.float32)
    model.config.max_position_embeddings = 2048
    target = target_with(model, Taped)
    assert decode(target, method(), inputs, 600) == plain_greedy(model, inputs, 600)
    assert len(buckets(slot_bucket, 600)) == 3
    assert target.engine._slots.grown == 3, "by the prefill, by the first pass, and once on the way"


def test_every_method_runs_the_same_pass_of_one_row():
    target = target_with(model_of("llama"), Taped)
    start(target, inputs_of("llama"))
    narrow, wide = (target.verify(5, EMPTY_DRAFT, top_k) for top_k in (1, 8))
    assert target.engine.made == 1
    assert wide.ids[:, :1].tolist() == narrow.ids.tolist()


# Rows


@st.composite
def passes_of(draw):
    """Trees in sequence, each with the node whose path is kept, -1 for the root alone."""
    trees = []
    for _ in range(draw(st.integers(1, 5))):
        size = draw(st.sampled_from((0, 1, 3, 7, 20, 33)))
        parents = [draw(st.integers(max(-1, node - 8), node - 1)) for node in range(size)]
        tokens = draw(st.lists(st.integers(0, 89), min_size=size, max_size=size))
        trees.append((draft_of(tokens, parents), draw(st.integers(-1, size - 1))))
    return trees


def path_to(node: int, parents) -> np.ndarray:
    path = []
    while node >= 0:
        path.insert(0, node)
        node = int(parents[node])
    return np.array(path, np.int32)


SHARED = {}  # targets of all examples, so that passes meet lengths and rows other than those they were made with


def both(family: str):
    if family not in SHARED:
        SHARED[family] = recap.target_for(model_of(family)), target_with(model_of(family), Taped)
    return SHARED[family]


@pytest.mark.parametrize("family", FAMILIES)
@settings(deadline=None, max_examples=25)
@given(trees=passes_of(), seed=st.integers(0, 3), images=st.integers(0, 2))
def test_rows_of_any_trees_and_kept_paths_are_those_of_the_models_forward(family, trees, seed, images):
    eager, graphs = both(family)
    inputs = inputs_of(family, images if family in ("qwen2_5_vl", "llava_next") else 0, seed)
    for target in (eager, graphs):
        start(target, inputs)
    for root, (draft, last) in enumerate(trees):
        expected, found = eager.verify(root, draft, 8), graphs.verify(root, draft, 8)
        assert found.ids.tolist() == expected.ids.tolist()
        np.testing.assert_allclose(found.probs, expected.probs, rtol=1e-4, atol=1e-7)
        for target in (eager, graphs):
            target.keep(path_to(last, draft.parents))
    assert graphs.cache.length == eager.cache.length


def test_more_rows_than_a_pass_moves_are_moved_before_it():
    eager, graphs = both("llama")
    count = 2 * MOVES
    chain = draft_of(range(2 * count), [-1, -1, *range(2 * count - 2)])  # two chains, interleaved: all rows scattered
    path = path_to(2 * count - 1, chain.parents)
    assert len(path) == count and path[0] == 1
    for target in (eager, graphs):
        start(target, inputs_of("llama"))
        target.verify(7, chain, 8)
        target.keep(path)
    after = draft_of([3, 4], [-1, 0])
    assert graphs.verify(8, after, 8).ids.tolist() == eager.verify(8, after, 8).ids.tolist()


def test_rows_that_wait_survive_the_making_of_another_pass():
    eager, graphs = both("llama")
    tree = draft_of(range(10, 16), [-1, -1, 1, 1, 3, 4])
    wide = draft_of(range(20, 20 + 60), [-1] * 60)
    for target in (eager, graphs):
        start(target, inputs_of("llama"))
        target.verify(7, tree, 8)
        target.keep(path_to(5, tree.parents))
    graphs.engine._passes.clear()
    assert graphs.verify(8, wide, 8).ids.tolist() == eager.verify(8, wide, 8).ids.tolist()


def test_a_request_whose_rows_were_not_finite_leaves_none_to_the_next():
    model = fresh_model("llama")
    inputs = inputs_of("llama", dtype=torch.float32)
    plain = plain_greedy(model, inputs, 12)
    target = target_with(model, Taped)
    sick = next(token for token in range(60, 90) if token not in (*plain, *inputs["input_ids"][0].tolist()))
    with torch.no_grad():
        model.get_input_embeddings().weight[sick] = float("nan")
    start(target, inputs)
    with pytest.raises(FloatingPointError, match="dtype"):
        target.verify(plain[0], draft_of([sick] * 30, [-1] * 30), 8)
    assert decode(target, Autoregressive(), inputs, 12) == plain


def test_more_logits_a_row_than_the_vocabulary_has_are_refused():
    target = target_with(model_of("llama"), unrecorded)
    start(target, inputs_of("llama"))
    with pytest.raises(ValueError, match=rf"method\.top_k={VOCAB + 1}: the model has {VOCAB} ids"):
        target.verify(5, draft_of([], []), VOCAB + 1)


@settings(deadline=None)
@given(
    values=st.lists(st.sampled_from((0.0, -0.0, 1.0, 2.5, -3.0, -np.inf)), min_size=8, max_size=300),
    first=st.integers(0, 7),
)
def test_the_best_of_many_blocks_of_ids_are_those_of_a_stable_sort(values, first):
    logits = torch.tensor([values])
    logits[0, first] = 1.0
    ids, _ = unpacked(best_on_device(logits, 8).numpy(), 8)
    assert ids[0].tolist() == np.argsort(-logits[0].numpy(), kind="stable")[:8].tolist()


# Hooks of the output layer


@pytest.mark.parametrize("passes", (unrecorded, Taped))
def test_hooks_of_the_output_layer_see_every_pass_once_and_no_padding(passes):
    model = model_of("llama")
    eager, graphs = recap.target_for(model), target_with(model, passes)
    draft = draft_of([3, 4, 5, 6], [-1, 0, 1, -1])
    seen = []
    for target in (eager, graphs):
        with Logits(model) as logits:
            start(target, inputs_of("llama"))
            for root in range(3):
                target.verify(root, draft, 8)
                target.keep(path_to(2, draft.parents))
        seen.append(logits.passes)
    assert [len(pass_) for pass_ in seen[1]] == [1, 5, 5, 5]
    for expected, found in zip(*seen, strict=True):
        assert (expected - found).abs().max() < 1e-9


# Buckets and buffers


@given(rows=st.integers(1, 500), slots=st.integers(1, 40_000))
def test_a_bucket_holds_what_it_is_for_and_is_its_own(rows, slots):
    for bucket, size in ((row_bucket, rows), (slot_bucket, slots)):
        assert bucket(size) >= size and bucket(bucket(size)) == bucket(size)
        assert bucket(size + 1) >= bucket(size)
    assert slot_bucket(slots) - slots < max(256, slots / 4)
    assert slot_bucket(slots) % 8 == 0, "attention kernels want aligned masks"


def test_buckets_are_few_and_cover_every_size():
    assert buckets(slot_bucket, 4096) == [*range(256, 2049, 256), *range(2560, 4097, 512)]
    assert buckets(row_bucket, 96) == list(ROWS)
    assert buckets(row_bucket, 120) == [*ROWS, 112, 128]
    assert buckets(row_bucket, 3) == [1, 2, 4]
    assert all(small < large for small, large in pairwise(buckets(slot_bucket, 20_000)))


def test_what_was_made_ready_is_not_made_again():
    model = model_of("llama")
    target = target_with(model, Taped, ready=512)
    target.engine.prepare(68)
    made = dict(target.engine._passes)
    assert {rows for rows, _, _ in made} == set(buckets(row_bucket, 68))
    assert {end for _, end, _ in made} == {256, 512}
    for seed in range(2):
        assert decode(target, Recap(), inputs_of("llama", seed=seed), 60) == plain_greedy(
            model, inputs_of("llama", seed=seed), 60
        )
    assert target.engine._passes == made


def test_passes_are_dropped_with_the_buffers_they_were_made_for():
    model, inputs = fresh_model("llama"), inputs_of("llama", dtype=torch.float32)
    model.config.max_position_embeddings = 2048
    target = target_with(model, Taped)
    decode(target, Autoregressive(), inputs, 8)
    made = list(target.engine._passes.values())
    assert target.engine.made == 1
    long = {"input_ids": torch.randint(1, 90, (1, 600), generator=torch.Generator().manual_seed(0))}
    assert decode(target, Autoregressive(), long, 8) == plain_greedy(model, long, 8)
    assert decode(target, Autoregressive(), inputs, 8) == plain_greedy(model, inputs, 8)
    assert not any(pass_ is old for pass_ in target.engine._passes.values() for old in made)


def test_a_plan_is_one_buffer_and_its_padding_sees_itself():
    plan = Plan(8, torch.zeros(4, 2))
    plan.send(pack(7, np.array([5, 6]), np.array([-1, 0], np.int32)), cached=20, shift=-3, move=None)
    assert plan.head.tolist() == [20, -3, 20]
    assert plan.sources.tolist() == list(range(20, 20 + MOVES)), "nothing moves"
    assert plan.table[:, 0].tolist() == [7, 5, 6, 0, 0, 0, 0, 0]
    assert plan.table[:, 1].tolist() == [0, 1, 2, 0, 0, 0, 0, 0]
    seen = torch.eye(8, dtype=torch.int32)
    seen[1:3, 0] = seen[2, 1] = 1
    assert torch.equal(plan.table[:, 2:], seen)


# The capture


class Call:
    """Stands for CUDA's stream, graph and contexts, and notes what is done with them."""

    def __init__(self, log: list, name: str) -> None:
        self._log, self._name = log, name

    def __call__(self, *_args, **_kwargs) -> "Call":
        return self

    def __enter__(self) -> None:
        self._log.append(f"begin {self._name}")

    def __exit__(self, *_) -> None:
        self._log.append(f"end {self._name}")

    def wait_stream(self, _other) -> None:
        self._log.append(f"{self._name} waits")

    def replay(self) -> None:
        self._log.append("replay")


def test_a_pass_is_tried_on_the_side_before_it_is_captured_and_only_replayed_then(monkeypatch):
    log = []
    for name in ("device", "current_stream", "stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, Call(log, name))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: Call(log, "graph"))
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    target = target_with(model_of("llama"), unrecorded)
    graphs = target.engine
    graphs._stream, graphs._capture = Call(log, "side"), True
    forward = graphs._forward
    graphs._forward = lambda *bucket: log.append("pass") or forward(*bucket)
    start(target, inputs_of("llama"))
    for _ in range(2):
        target.verify(5, EMPTY_DRAFT, 8)
    assert log == [
        "begin device", "side waits", "begin stream", "pass", "end stream", "current_stream waits",
        "begin graph", "pass", "end graph", "end device", "replay", "replay",
    ]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_every_operation_of_a_pass_keeps_to_the_models_device(family):
    device = "lazy:0"  # a kind that torch knows of without having any; fake tensors compute nothing and refuse to mix
    plan = Plan(8, torch.zeros(VOCAB, 2))
    with torch.device("meta"):
        model = BUILDERS[family]().eval().requires_grad_(False)
    with FakeTensorMode():
        for module in model.modules():
            for tensors in (module._parameters, module._buffers):
                tensors |= {name: empty_on(device, old) for name, old in tensors.items() if old is not None}
        for name in ("head", "sources", "table", "logits"):
            setattr(plan, name, empty_on(device, getattr(plan, name)))
        graphs = target_with(model, unrecorded).engine
        graphs._slots.reserve(torch.empty(1, 2, 1, 8, device=device), 256 + MOVES)
        graphs._plans[8] = plan
        found = graphs._forward(8, 256, 8)
    assert (str(found.device), tuple(found.shape), found.dtype) == (device, (8, 16), torch.int32)


def empty_on(device: str, like: torch.Tensor) -> torch.Tensor:
    return torch.empty(like.shape, dtype=like.dtype, device=device)


# Refusals


@pytest.mark.parametrize("how", ({"hf_device_map": {"a": 0, "b": 1}}, {"_tp_size": 2}))
def test_a_model_on_several_devices_is_refused_with_advice(how):
    target = recap.target_for(model_of("llama"))
    target.model = SimpleNamespace(**how)
    target.parted = True
    with pytest.raises(ValueError, match=r"engine=compiled: .*several devices.*engine=eager"):
        GraphPasses(target)
