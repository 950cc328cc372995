"""The cache, the mask and the positions of a target, and what it refuses."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    Lfm2Config,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3NextConfig,
    RecurrentGemmaConfig,
)

import recap
from baselines.autoregressive import Autoregressive
from recap.targets.slots import SlotCache, Slots
from recap.types import EMPTY_DRAFT, Draft, Limits
from recap.verify import pack
from tests.models import (
    END,
    FAMILIES,
    GRIDS,
    PLACEHOLDER,
    POSITIONS,
    SETTINGS,
    START,
    TEXT,
    VIDEO,
    VOCAB,
    Watch,
    fresh_model,
    full_logits,
    inputs_of,
    model_of,
    plain_greedy,
    position_delta,
)

NOTHING = np.empty(0, np.int64)


def no_clock(phase: str) -> None:
    pass


def draft_of(tokens, parents) -> Draft:
    return Draft(np.array(tokens, np.int64), np.array(parents, np.int32), np.zeros(len(tokens), np.int8))


# The cache


def states(*labels: int) -> torch.Tensor:
    """Keys or values [1, 2 heads, rows, 3] that tell row and head apart."""
    rows = torch.tensor(labels, dtype=torch.float64)
    return (rows[:, None] + torch.tensor([0.0, 0.1, 0.2])).expand(2, -1, -1).clone()[None]


def write(cache: SlotCache, *labels: int) -> None:
    """One pass: layer 1 holds other keys than layer 0, and values other than keys."""
    for layer in range(len(cache.layers)):
        cache.update(states(*labels) + 100 * layer, states(*labels) + 1000, layer)


def held(cache: SlotCache) -> list[int]:
    """Labels of the kept rows; every layer, head and both of keys and values must tell the same."""
    length = cache.length
    found = [int(label) for label in cache.layers[0].keys[0, 0, :length, 0]]
    for number, layer in enumerate(cache.layers):
        assert torch.equal(layer.keys[:, :, :length], states(*found) + 100 * number)
        assert torch.equal(layer.values[:, :, :length], states(*found) + 1000)
    return found


def cache_with(*labels: int, together: bool = True) -> SlotCache:
    cache = SlotCache(2, together)
    write(cache, *labels)
    cache.append(len(labels))
    return cache


def path_of(*nodes: int) -> np.ndarray:
    return np.array(nodes, np.int32)


def test_update_returns_the_kept_rows_and_the_new_ones():
    cache = cache_with(1, 2)
    keys, values = cache.update(states(3, 4), states(3, 4) + 1000, 0)
    assert torch.equal(keys, states(1, 2, 3, 4))
    assert torch.equal(values, states(1, 2, 3, 4) + 1000)


def test_rows_that_are_not_kept_are_overwritten_by_the_next_pass():
    cache = cache_with(1, 2)
    write(cache, 3, 4, 5)
    write(cache, 6)
    cache.keep(path_of())
    assert held(cache) == [1, 2, 6]


def test_keeping_no_node_keeps_the_root():
    cache = cache_with(1, 2)
    write(cache, 10, 20, 21, 22)
    cache.keep(path_of())
    assert held(cache) == [1, 2, 10]


def test_a_scattered_path_is_moved_behind_the_root():
    cache = cache_with(1, 2)
    write(cache, 10, 20, 21, 22, 23, 24)
    cache.keep(path_of(1, 2, 4))
    assert held(cache) == [1, 2, 10, 21, 22, 24]


@pytest.mark.parametrize("together,count", [(True, 1), (False, 2)])
def test_a_path_that_starts_in_place_moves_from_its_first_gap_on(monkeypatch, together, count):
    moves = []
    move = Slots.move
    monkeypatch.setattr(Slots, "move", lambda *args: moves.append(args[1:]) or move(*args))
    cache = cache_with(1, together=together)
    write(cache, 10, 20, 21, 22, 23, 24)
    cache.keep(path_of(0, 1, 3, 4))
    assert held(cache) == [1, 10, 20, 21, 23, 24]
    assert [(rows.tolist(), start) for rows, start in moves] == [([5, 6], 4)] * count


def test_a_path_that_lies_in_place_moves_nothing(monkeypatch):
    monkeypatch.setattr(Slots, "move", lambda *_: pytest.fail("rows were moved"))
    cache = cache_with(1)
    write(cache, 10, 20, 21, 22)
    cache.keep(path_of(0, 1))
    assert held(cache) == [1, 10, 20, 21]


@pytest.mark.parametrize("together", [True, False])
def test_growing_past_the_capacity_keeps_every_row(together):
    cache = cache_with(*range(5), together=together)
    capacity = cache.layers[0].keys.shape[2]
    labels = list(range(5))
    for label in range(5, capacity + 40):
        write(cache, label, -1)
        cache.keep(path_of())
        labels.append(label)
    assert cache.layers[0].keys.shape[2] > capacity
    assert held(cache) == labels


def test_a_pass_that_makes_the_cache_grow_can_be_kept_by_a_scattered_path():
    cache = cache_with(1)
    tree = list(range(1000, 1000 + 2 * cache.layers[0].keys.shape[2]))
    write(cache, 10, *tree)
    cache.keep(path_of(3, len(tree) - 1))
    assert held(cache) == [1, 10, tree[3], tree[-1]]


def test_reset_forgets_the_rows_and_keeps_the_buffers():
    cache = cache_with(1, 2, 3)
    buffer = cache.layers[0].keys.data_ptr()
    cache.reset()
    write(cache, 7)
    cache.append(1)
    assert held(cache) == [7]
    assert cache.layers[0].keys.data_ptr() == buffer


def test_a_batch_of_two_is_refused_by_the_cache():
    with pytest.raises(ValueError, match="batch size 2"):
        SlotCache(1).update(states(1).repeat(2, 1, 1, 1), states(1).repeat(2, 1, 1, 1), 0)


# What a pass sees


@st.composite
def trees(draw):
    size = draw(st.integers(0, 30))
    return [draw(st.integers(-1, i - 1)) for i in range(size)]


def ancestors_of(parents, node: int) -> list[int]:
    """From the node itself up to the root, -1."""
    line = [node]
    while line[-1] >= 0:
        line.append(parents[line[-1]])
    return line


@settings(deadline=None)
@given(parents=trees())
def test_a_row_sees_its_ancestors_and_itself(parents):
    draft = draft_of(range(50, 50 + len(parents)), parents)
    plan = pack(7, draft.tokens, draft.parents)
    assert plan[:, 0].tolist() == [7, *draft.tokens]
    for node in range(-1, len(parents)):
        line = ancestors_of(parents, node)
        assert plan[node + 1, 1] == len(line) - 1, "depth"
        assert np.flatnonzero(plan[node + 1, 2:]).tolist() == sorted(above + 1 for above in line)


def test_the_mask_hides_other_branches_and_nothing_of_the_prefix():
    model, inputs = model_of("llama"), inputs_of("llama")
    target = recap.target_for(model)
    target.prefill(target.request(inputs, Limits(9)), NOTHING, 1, no_clock)
    with Watch(model) as watch:
        target.verify(5, draft_of([6, 7, 8, 9], [-1, 0, -1, 2]), 1)
    seen = watch.masks[0][0, 0] == 0
    prefix = inputs["input_ids"].shape[1]
    assert seen[:, :prefix].all()
    assert seen[:, prefix:].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [1, 0, 0, 1, 1],
    ]
    assert (watch.masks[0][0, 0][~seen] == torch.finfo(model.dtype).min).all()


TREE = draft_of([11, 12, 13, 14, 15, 16, 17, 11, 12, 19], [-1, -1, 0, 1, 2, 0, 3, 6, 4, -1])


@pytest.mark.parametrize("backend,close", (("sdpa", 1e-9), ("eager", 1e-5)))  # eager's softmax is in float32
@pytest.mark.parametrize("family,images", SETTINGS)
def test_every_packed_row_has_the_logits_of_a_full_forward_along_its_path(family, images, backend, close):
    model, inputs = model_of(family), inputs_of(family, images)
    target = recap.target_for(model)
    model.set_attn_implementation(backend)
    try:
        with Watch(model) as watch:
            target.prefill(target.request(inputs, Limits(9)), NOTHING, 1, no_clock)
            target.verify(5, TREE, 1)
        assert (watch.logits[0][-1] - full_logits(model, inputs, [])[-1]).abs().max() < close
        for node in range(-1, len(TREE)):
            path = ancestors_of(TREE.parents, node)[-2::-1]
            alone = full_logits(model, inputs, [5, *TREE.tokens[path]])[-1]
            assert (watch.logits[1][node + 1] - alone).abs().max() < close, f"node {node}"
    finally:
        model.set_attn_implementation("sdpa")


def test_prefill_gives_the_rows_it_was_asked_for_and_the_last_one():
    model, inputs = model_of("qwen2_5_vl"), inputs_of("qwen2_5_vl", 1)
    target = recap.target_for(model)
    rows = target.prefill(target.request(inputs, Limits(9)), np.array([2, 0, 6]), 3, no_clock)
    best = full_logits(model, inputs, []).topk(3).indices
    assert rows.ids.tolist() == best[[2, 0, 6, -1]].tolist()


@pytest.mark.parametrize("family,images", SETTINGS)
def test_a_request_that_was_broken_off_leaves_nothing_to_the_next(family, images):
    model, inputs = model_of(family), inputs_of(family, images, seed=1)
    target = recap.target_for(model)
    target.prefill(target.request(inputs_of(family, images), Limits(9)), NOTHING, 1, no_clock)
    target.verify(5, TREE, 1)  # neither kept nor reset
    with Watch(model) as watch:
        target.prefill(target.request(inputs, Limits(9)), NOTHING, 1, no_clock)
    assert target.cache.length == inputs["input_ids"].shape[1]
    assert (watch.logits[0][-1] - full_logits(model, inputs, [])[-1]).abs().max() < 1e-9


@pytest.mark.parametrize("family", ("qwen2_5_vl", "llava_next"))
def test_the_clock_hears_of_the_vision_encoder_once_and_the_hook_goes_away(family):
    model, inputs = model_of(family), inputs_of(family, 2)
    target = recap.target_for(model)
    heard = []
    for _ in range(2):
        target.prefill(target.request(inputs, Limits(9)), NOTHING, 1, heard.append)
    full_logits(model, inputs, [])
    assert heard == ["vision", "vision"]


# Positions


def own_positions(model, inputs) -> torch.Tensor:
    """The prompt's position ids as the model makes them itself, seen at its language model."""
    seen = []
    hook = model.model.language_model.register_forward_hook(
        lambda _module, _args, kwargs, _output: seen.append(kwargs["position_ids"]), with_kwargs=True
    )
    try:
        full_logits(model, inputs, [])
    finally:
        hook.remove()
    model.model.rope_deltas = None
    return seen[0]


@pytest.mark.parametrize("images", (1, 2))
def test_prompt_positions_of_qwen_are_the_models_own(images):
    model, inputs = model_of("qwen2_5_vl"), inputs_of("qwen2_5_vl", images)
    target = recap.target_for(model)
    positions = target.prompt_positions(target.request(inputs, Limits(9)))
    assert torch.equal(positions, own_positions(model, inputs))


def test_prompt_positions_of_qwen_follow_the_image_grid():
    model, inputs = model_of("qwen2_5_vl"), inputs_of("qwen2_5_vl", 1)
    target = recap.target_for(model)
    start = inputs["input_ids"][0].tolist().index(PLACEHOLDER)
    positions = target.prompt_positions(target.request(inputs, Limits(9)))[:, 0, start - 1 : start + 7]
    assert (positions - start).tolist() == [
        [-1, 0, 0, 0, 0, 0, 0, 3],
        [-1, 0, 0, 0, 1, 1, 1, 3],
        [-1, 0, 1, 2, 0, 1, 2, 3],
    ]


@pytest.mark.parametrize("images,delta", ((0, 0), (1, -3), (2, -5)))
def test_images_make_the_position_delta_of_qwen_negative(images, delta):
    target = recap.target_for(model_of("qwen2_5_vl"))
    target.prompt_positions(target.request(inputs_of("qwen2_5_vl", images), Limits(9)))
    assert position_delta("qwen2_5_vl", images) == delta
    assert target.positions(torch.tensor([40, 43])).tolist() == [[[40 + delta, 43 + delta]]] * 3


def test_a_request_without_images_does_not_inherit_the_delta_of_the_last_one():
    target = recap.target_for(model_of("qwen2_5_vl"))
    for images in (2, 0):
        target.prompt_positions(target.request(inputs_of("qwen2_5_vl", images), Limits(9)))
    assert target.positions(torch.tensor([40])).tolist() == [[[40]]] * 3


@pytest.mark.parametrize("family", ("llava_next", "llama", "qwen2"))
def test_other_families_have_plain_positions(family):
    images = 2 if family == "llava_next" else 0
    target = recap.target_for(model_of(family))
    request = target.request(inputs_of(family, images), Limits(9))
    assert target.prompt_positions(request).tolist() == [list(range(len(request.prompt)))]
    assert target.positions(torch.tensor([40, 43])).tolist() == [[40, 43]]


def test_the_models_own_rope_deltas_are_neither_read_nor_written(monkeypatch):
    model = model_of("qwen2_5_vl")
    planted = torch.tensor([[333]])
    for images in (0, 2):
        inputs = inputs_of("qwen2_5_vl", images)
        plain = plain_greedy(model, inputs, 12)
        monkeypatch.setattr(model.model, "rope_deltas", planted)
        new = recap.generate(model, inputs, 12)[0, inputs["input_ids"].shape[1] :].tolist()
        assert new == plain
        assert model.model.rope_deltas is planted


def test_two_targets_of_one_model_take_turns_token_by_token():
    model = model_of("qwen2_5_vl")
    streams = []
    for images in (2, 0):
        inputs = inputs_of("qwen2_5_vl", images)
        target = recap.target_for(model)
        first = target.prefill(target.request(inputs, Limits(20)), NOTHING, 1, no_clock)
        streams.append((target, plain_greedy(model, inputs, 20), [int(first.ids[-1, 0])]))
    for _ in range(19):
        for target, _, tokens in streams:
            rows = target.verify(tokens[-1], EMPTY_DRAFT, 1)
            target.keep(path_of())
            tokens.append(int(rows.ids[0, 0]))
    for _, plain, tokens in streams:
        assert tokens == plain


# Requests


@pytest.mark.parametrize(
    "family,placeholders",
    (("qwen2_5_vl", (PLACEHOLDER, VIDEO)), ("llava_next", (PLACEHOLDER,)), ("llama", ()), ("qwen2", ())),
)
def test_placeholders_are_found_in_the_config(family, placeholders):
    target = recap.target_for(model_of(family))
    images = 1 if placeholders else 0
    request = target.request(inputs_of(family, images), Limits(9))
    assert request.placeholders == placeholders
    assert request.vocab_size == VOCAB


def test_a_request_carries_what_prefill_needs_beside_the_ids():
    inputs = inputs_of("qwen2_5_vl", 2)
    request = recap.target_for(model_of("qwen2_5_vl")).request({**inputs, "pixel_values_videos": None}, Limits(9))
    assert set(request.inputs) == {"pixel_values", "image_grid_thw"}
    assert request.inputs["image_grid_thw"].tolist() == [list(grid) for grid in GRIDS]
    assert [request.prompt.tolist().count(mark) for mark in (START, END)] == [2, 2]


def ids_of(*shape: int, fill: int = 1) -> dict:
    return {"input_ids": torch.full(shape, fill)}


REFUSED = {
    "batch of two": (ids_of(2, 5), 9, "batch size"),
    "ids without a batch": (ids_of(5), 9, "batch size"),
    "no ids": (ids_of(1, 0), 9, "prompt"),
    "prompt too long": (ids_of(1, POSITIONS - 8), 9, f"max_new_tokens=9.*{POSITIONS} positions"),
    "id past the vocabulary": (ids_of(1, 5, fill=VOCAB), 9, "input_ids"),
    "negative id": (ids_of(1, 5, fill=-1), 9, "input_ids"),
    "padded": ({**ids_of(1, 5), "attention_mask": torch.tensor([[0, 1, 1, 1, 1]])}, 9, "attention_mask"),
    "no new token": (ids_of(1, 5), 0, "max_new_tokens"),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fault", REFUSED)
def test_a_request_that_cannot_be_decoded_is_refused_by_name(family, fault):
    inputs, max_new_tokens, named = REFUSED[fault]
    with pytest.raises(ValueError, match=named):
        recap.generate(model_of(family), inputs, max_new_tokens)


def test_a_prompt_that_just_fits_is_decoded():
    ids = recap.generate(model_of("llama"), ids_of(1, POSITIONS - 9), 9)
    assert ids.shape == (1, POSITIONS)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", (float("nan"), float("inf")))
def test_logits_that_are_not_finite_at_prefill_stop_the_request_with_advice_on_dtype(family, value):
    model = fresh_model(family)
    with torch.no_grad():
        model.lm_head.weight[3] = value
    with pytest.raises(FloatingPointError, match="dtype=bfloat16 or dtype=float32"):
        recap.generate(model, inputs_of(family, dtype=torch.float32), 9)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_that_are_not_finite_at_verification_stop_the_request_too(family):
    model = fresh_model(family)
    inputs = inputs_of(family, dtype=torch.float32)
    plain = plain_greedy(model, inputs, 12)
    late = next(token for token in plain[3:] if token not in inputs["input_ids"])
    before = plain.index(late) + 1
    with torch.no_grad():
        model.get_input_embeddings().weight[late] = float("nan")
    assert recap.generate(model, inputs, before, Autoregressive())[0, -before:].tolist() == plain[:before]
    with pytest.raises(FloatingPointError, match="dtype"):
        recap.generate(model, inputs, before + 1, Autoregressive())


# The gate


def tiny(config_class, **extra):
    return AutoModelForCausalLM.from_config(config_class(**{**TEXT, **extra}))


LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 8,
    "shared_expert_intermediate_size": 8,
    "head_dim": 8,
}
CANNOT_ROLL_BACK = {
    "sliding window": (lambda: tiny(MistralConfig, sliding_window=16), "MistralForCausalLM.*sliding_attention"),
    "some sliding layers of a supported class": (
        lambda: tiny(Qwen2Config, use_sliding_window=True, sliding_window=16, max_window_layers=1),
        "Qwen2ForCausalLM.*sliding_attention",
    ),
    "short convolution": (lambda: tiny(Lfm2Config, full_attn_idxs=[1]), "Lfm2ForCausalLM.*conv"),
    "state space": (lambda: tiny(MambaConfig, state_size=4), "MambaForCausalLM.*linear_attention"),
    "linear attention": (lambda: tiny(Qwen3NextConfig, **LINEAR), "Qwen3NextForCausalLM.*linear_attention"),
    "recurrent": (lambda: tiny(RecurrentGemmaConfig, lru_width=32), "RecurrentGemmaForCausalLM.*linear_attention"),
}


@pytest.mark.parametrize("kind", CANNOT_ROLL_BACK)
def test_a_model_that_cannot_drop_rows_is_refused_naming_the_layer_type(kind):
    build, named = CANNOT_ROLL_BACK[kind]
    with pytest.raises(ValueError, match=named):
        recap.target_for(build())


@pytest.mark.parametrize(
    "rope",
    ({"rope_type": "dynamic", "factor": 4.0}, {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [4.0]}),
)
def test_a_rotation_that_changes_with_the_longest_position_is_refused_by_name(rope, monkeypatch):
    model = model_of("llama")
    monkeypatch.setattr(model.config, "rope_parameters", rope)
    with pytest.raises(ValueError, match=f"LlamaForCausalLM.*rope_type='{rope['rope_type']}'"):
        recap.target_for(model)


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_without_a_tree_mask_is_refused_by_name(family, monkeypatch):
    model = model_of(family)
    monkeypatch.setattr(model.config.get_text_config(), "_attn_implementation", "flash_attention_2")
    with pytest.raises(ValueError, match=r"attn_implementation='flash_attention_2'.*sdpa or eager"):
        recap.target_for(model)


def test_a_fixed_stretch_of_the_rotation_is_decoded():
    stretch = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 32}
    model = tiny(LlamaConfig, max_position_embeddings=128, rope_parameters=stretch)
    inputs = inputs_of("llama", dtype=torch.float32)
    prompt = inputs["input_ids"].shape[1]
    assert recap.generate(model, inputs, 40)[0, prompt:].tolist() == plain_greedy(model, inputs, 40)


def test_an_unsupported_class_is_refused_naming_the_supported_ones():
    model = AutoModelForCausalLM.from_config(GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=1, n_head=2))
    with pytest.raises(ValueError, match="GPT2LMHeadModel") as refusal:
        recap.target_for(model)
    for family in FAMILIES:
        assert type(model_of(family)).__name__ in str(refusal.value)


def test_a_window_that_is_switched_off_is_no_reason_to_refuse():
    model = tiny(Qwen2Config, use_sliding_window=False, sliding_window=16)
    assert recap.target_for(model).model is model
