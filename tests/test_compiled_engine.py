"""The compiled engine of a CPU: its logits are the model's own, the same bits in a step as in a tree."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import recap
from baselines.autoregressive import Autoregressive
from recap import Limits, Recap
from recap.decode import generate, no_clock
from recap.drafter import NOTHING
from recap.targets.kernels import _exp
from recap.targets.tile import multiply, panels
from recap.types import EMPTY_DRAFT
from tests.models import SETTINGS, SOAK, fresh_model, inputs_of, model_of
from tests.scripted import draft_of

LIMITS = Limits(40)


def heard(target, *passes) -> list[torch.Tensor]:
    """The logits of some passes, as the output layer's hooks see them; nothing is kept in between."""
    logits = []
    head = target.model.get_output_embeddings()
    hook = head.register_forward_hook(lambda module, args, out: logits.append(out[0].clone()))
    for root, draft in passes:
        target.verify(root, draft, 3)
    hook.remove()
    return logits


@st.composite
def drafts(draw):
    parents = [draw(st.integers(-1, node - 1)) for node in range(draw(st.integers(0, 20)))]
    return draft_of(draw(st.lists(st.integers(0, 89), min_size=len(parents), max_size=len(parents))), parents)


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 50), st.integers(0, 99))
def test_a_product_over_panels_is_the_product(fours, inner, out, seed):
    rng = np.random.default_rng(seed)
    x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((4 * fours, inner), (out, inner)))
    (laid,) = panels([weight])
    assert laid.ctypes.data % 64 == 0
    found = np.full((len(x), 16 * len(laid)), np.nan, np.float32)
    for number, panel in enumerate(laid):
        multiply(panel, x, len(x), found, 16 * number)
    assert np.allclose(found[:, :out], x @ weight.T, atol=1e-4)
    assert (found[:, out:] == 0.0).all()


def test_the_exponential_is_exact_to_float32_and_zero_far_below():
    x = np.linspace(-86.0, 10.0, 100_001).astype(np.float32)
    found = x.copy()
    _exp(found)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(found - exact) / exact).max() < 3e-7
    far = np.array([-1e30, -np.inf], np.float32)
    _exp(far)
    assert (far < 1e-37).all()


@pytest.mark.parametrize("family,images", SETTINGS)
def test_a_pass_has_the_logits_of_the_models_own_forward(family, images):
    model, inputs = model_of(family, torch.float32), inputs_of(family, images, dtype=torch.float32)
    tree = draft_of([11, 12, 13, 14, 15, 16, 17, 11, 12, 19], [-1, -1, 0, 1, 2, 0, 3, 6, 4, -1])
    found = []
    for engine in ("eager", "compiled"):
        target = recap.target_for(model, engine)
        target.prefill(target.request(inputs, LIMITS), NOTHING, 1, no_clock)
        found.append(heard(target, (5, EMPTY_DRAFT), (5, tree)))
    for own, ours in zip(*found, strict=True):
        assert own.shape == ours.shape
        assert (own - ours).abs().max() < 2e-5


@settings(deadline=None, max_examples=200 if SOAK else 30)
@given(draft=drafts(), which=st.integers(0, len(SETTINGS) - 1), threads=st.sampled_from([1, 2]))
def test_a_tokens_logits_are_the_same_bits_in_a_plain_step_as_in_a_tree(draft, which, threads):
    family, images = SETTINGS[which]
    model, inputs = model_of(family, torch.float32), inputs_of(family, images, dtype=torch.float32)
    target = recap.target_for(model, "compiled")
    target.prefill(target.request(inputs, LIMITS), NOTHING, 1, no_clock)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        (tree,) = heard(target, (5, draft))
        path = [len(draft) - 1] if len(draft) else []
        while path and draft.parents[path[0]] >= 0:
            path.insert(0, int(draft.parents[path[0]]))
        torch.set_num_threads(1)
        for row, token in zip([0, *(node + 1 for node in path)], [5, *draft.tokens[path]], strict=True):
            (plain,) = heard(target, (int(token), EMPTY_DRAFT))
            target.keep(np.empty(0, np.int32))
            assert torch.equal(plain[0], tree[row])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("family,images", SETTINGS)
def test_outputs_equal_the_eager_engines_request_after_request(family, images):
    model = model_of(family, torch.float32)
    eager, compiled = recap.target_for(model), recap.target_for(model, "compiled")
    drafter = Recap(budget=15)
    for seed in range(4):
        inputs = inputs_of(family, images, seed=seed, dtype=torch.float32)
        request = eager.request(inputs, LIMITS)
        expected = generate(eager, Autoregressive(), request, LIMITS).tokens.tolist()
        assert generate(compiled, Autoregressive(), request, LIMITS).tokens.tolist() == expected
        assert generate(compiled, drafter, request, LIMITS).tokens.tolist() == expected


def test_a_long_request_outgrows_cache_and_rotations():
    model, limits = model_of("llama", torch.float32), Limits(480)
    target = recap.target_for(model, "compiled")
    request = target.request(inputs_of("llama"), limits)
    tokens = generate(target, Recap(), request, limits).tokens
    assert len(tokens) == 480
    assert tokens.tolist() == generate(recap.target_for(model), Autoregressive(), request, limits).tokens.tolist()


def test_the_library_takes_the_engine_by_name_and_the_models_modules_stay_as_they_were():
    model, inputs = fresh_model("qwen2_5_vl"), inputs_of("qwen2_5_vl", 1, dtype=torch.float32)
    before = {name: (id(weight), weight.clone()) for name, weight in model.state_dict(keep_vars=True).items()}
    own = model.generate(**inputs, do_sample=False, max_new_tokens=12, eos_token_id=None, pad_token_id=0)
    found = recap.generate(model, inputs, max_new_tokens=12, stop_ids=(), engine="compiled")
    assert found.tolist() == own.tolist()
    for name, weight in model.state_dict(keep_vars=True).items():
        assert id(weight) == before[name][0] and torch.equal(weight, before[name][1])


def test_a_layer_that_does_more_is_found_before_anything_is_decoded():
    model = fresh_model("llama")
    model.model.layers[1].mlp.register_forward_hook(lambda module, args, out: 1.01 * out)
    with pytest.raises(ValueError, match=r"LlamaForCausalLM does more than the layers .* use engine=eager"):
        recap.target_for(model, "compiled")


def test_layers_of_another_make_are_refused_by_name():
    model = fresh_model("llama")
    model.model.layers[0].mlp.gate_up_proj = model.model.layers[0].mlp.gate_proj
    del model.model.layers[0].mlp.gate_proj
    with pytest.raises(ValueError, match=r"LlamaForCausalLM has other layers .*gate_proj.*use engine=eager"):
        recap.target_for(model, "compiled")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes_are_refused_by_name(dtype):
    with pytest.raises(ValueError, match=f"computes in float32 on a CPU, not in {dtype}"):
        recap.target_for(model_of("llama", dtype), "compiled")


def test_an_unknown_engine_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="engine=fast: choose one of eager, compiled"):
        recap.target_for(model_of("llama", torch.float32), "fast")
