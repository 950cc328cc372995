"""The two calls of library use, on every supported class, against transformers' own generate."""

import subprocess
import sys

import pytest
import torch
from transformers import DynamicCache, MaxTimeCriteria, StaticCache

import recap
from baselines.token_recycling import TokenRecycling
from recap.cost import measure
from recap.drafter import Recap
from tests.models import (
    FAMILIES,
    SETTINGS,
    VISION_FAMILIES,
    VOCAB,
    Watch,
    fresh_model,
    inputs_of,
    model_of,
    plain_greedy,
)

NEW = 40
GREEDY = {"do_sample": False, "repetition_penalty": 1.0, "pad_token_id": 0}


def float_model(family: str):
    return model_of(family, torch.float32)


def float_inputs(family: str, images: int = 0, seed: int = 0) -> dict:
    return inputs_of(family, images, seed, torch.float32)


def new_ids(inputs: dict, ids: torch.Tensor) -> list[int]:
    """What follows the prompt, which must come first."""
    prompt = inputs["input_ids"]
    assert torch.equal(ids[:, : prompt.shape[1]], prompt)
    return ids[0, prompt.shape[1] :].tolist()


@pytest.mark.parametrize("family,images", SETTINGS)
def test_generate_equals_the_models_own(family, images):
    model, inputs = float_model(family), float_inputs(family, images)
    assert new_ids(inputs, recap.generate(model, inputs, NEW)) == plain_greedy(model, inputs, NEW)


@pytest.mark.parametrize("family", VISION_FAMILIES)
def test_the_images_reach_the_output(family):
    model, inputs = float_model(family), float_inputs(family, 1)
    other = {**inputs, "pixel_values": inputs["pixel_values"].flip(-1)}
    assert new_ids(inputs, recap.generate(model, inputs, NEW)) != new_ids(inputs, recap.generate(model, other, NEW))


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_alone_are_enough_for_a_text_prompt(family):
    model, inputs = float_model(family), float_inputs(family)
    alone = {"input_ids": inputs["input_ids"]}
    assert new_ids(inputs, recap.generate(model, alone, NEW)) == plain_greedy(model, inputs, NEW)


@pytest.mark.parametrize("family,images", SETTINGS)
def test_one_new_token_is_one_token(family, images):
    model, inputs = float_model(family), float_inputs(family, images)
    assert new_ids(inputs, recap.generate(model, inputs, 1)) == plain_greedy(model, inputs, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_either_of_two_stop_ids_ends_the_output_and_is_part_of_it(family):
    model, inputs = float_model(family), float_inputs(family)
    plain = plain_greedy(model, inputs, NEW)
    unused = next(token for token in range(VOCAB) if token not in plain)
    for stop in list(dict.fromkeys(plain))[:6]:
        end = plain.index(stop) + 1
        assert plain_greedy(model, inputs, NEW, [unused, stop]) == plain[:end]
        assert new_ids(inputs, recap.generate(model, inputs, NEW, stop_ids=[unused, stop])) == plain[:end]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("as_list", (False, True))
def test_the_models_own_stop_ids_are_the_default(family, as_list, monkeypatch):
    model, inputs = float_model(family), float_inputs(family)
    plain = plain_greedy(model, inputs, NEW)
    stop = plain[4]
    monkeypatch.setattr(model.generation_config, "eos_token_id", [stop, plain[2]] if as_list else stop)
    expected = new_ids(inputs, model.generate(**inputs, **GREEDY, max_new_tokens=NEW))
    assert len(expected) < NEW
    assert new_ids(inputs, recap.generate(model, inputs, NEW)) == expected


def test_no_stop_ids_run_to_the_cap(monkeypatch):
    model, inputs = float_model("llama"), float_inputs("llama")
    monkeypatch.setattr(model.generation_config, "eos_token_id", plain_greedy(model, inputs, NEW)[0])
    assert len(new_ids(inputs, recap.generate(model, inputs, NEW, stop_ids=[]))) == NEW


@pytest.mark.parametrize("family,images", SETTINGS)
def test_a_tree_that_weighs_its_cost_has_it_measured_once_and_changes_nothing(family, images, monkeypatch):
    model, inputs = float_model(family), float_inputs(family, images)
    drafter, measured = Recap(budget="auto", scores="learned", suffix=20, ngrams="stream"), []
    monkeypatch.setattr(recap.api, "measure", lambda *of: measured.append(of) or measure(*of))
    for _ in range(2):
        assert new_ids(inputs, recap.generate(model, inputs, NEW, drafter)) == plain_greedy(model, inputs, NEW)
    assert len(measured) == 1


def test_a_drafter_keeps_its_memory_from_call_to_call():
    model, inputs = float_model("qwen2_5_vl"), float_inputs("qwen2_5_vl", 1)
    drafter = Recap(prefill="none")
    recap.generate(model, inputs, NEW, drafter)
    held = drafter.memory()["rows"]["M1"]
    recap.generate(model, float_inputs("qwen2_5_vl", 1, seed=1), NEW, drafter)
    assert 0 < held < drafter.memory()["rows"]["M1"]


# Inside model.generate


@pytest.mark.parametrize("family,images", SETTINGS)
@pytest.mark.parametrize("drafter", (None, Recap, TokenRecycling))
def test_custom_generate_equals_the_models_own(family, images, drafter):
    model, inputs = float_model(family), float_inputs(family, images)
    ids = model.generate(
        **inputs, **GREEDY, max_new_tokens=NEW, custom_generate=recap.custom_generate, drafter=drafter and drafter()
    )
    assert new_ids(inputs, ids) == plain_greedy(model, inputs, NEW)


@pytest.mark.parametrize("family", FAMILIES)
def test_custom_generate_uses_the_drafter_it_is_given(family):
    drafter = Recap()
    model, inputs = float_model(family), float_inputs(family)
    model.generate(**inputs, **GREEDY, max_new_tokens=NEW, custom_generate=recap.custom_generate, drafter=drafter)
    assert drafter.memory()["rows"]["M3"] > 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("as_list", (False, True))
def test_custom_generate_stops_where_the_models_own_does(family, as_list):
    model, inputs = float_model(family), float_inputs(family)
    plain = plain_greedy(model, inputs, NEW)
    stop = [plain[4], plain[2]] if as_list else plain[4]
    settings = {**inputs, **GREEDY, "eos_token_id": stop, "max_new_tokens": NEW}
    ids = model.generate(**settings, custom_generate=recap.custom_generate)
    assert torch.equal(ids, model.generate(**settings))
    assert len(new_ids(inputs, ids)) < NEW


def test_custom_generate_takes_a_maximum_length_too():
    model, inputs = float_model("llama"), float_inputs("llama")
    ids = model.generate(**inputs, **GREEDY, max_length=20, custom_generate=recap.custom_generate)
    assert torch.equal(ids, model.generate(**inputs, **GREEDY, max_length=20))


NOT_GREEDY = {
    "sampling": ({"do_sample": True}, "do_sample=False"),
    "beams": ({"num_beams": 2}, "num_beams=1"),
    "repetition penalty": ({"repetition_penalty": 1.05}, "RepetitionPenaltyLogitsProcessor.*repetition_penalty=1.0"),
    "no repeated n-grams": ({"no_repeat_ngram_size": 2}, "NoRepeatNGramLogitsProcessor"),
    "least length": ({"min_new_tokens": 4, "eos_token_id": 5}, "MinNewTokensLengthLogitsProcessor"),
    "a dictionary": ({"return_dict_in_generate": True}, "return_dict_in_generate=False"),
    "stopping criteria": ({"stopping_criteria": [MaxTimeCriteria(9.0)]}, "MaxTimeCriteria"),
    "batch of two": ({"input_ids": torch.ones(2, 5, dtype=torch.long), "attention_mask": None}, "batch size"),
}


@pytest.mark.parametrize("wish", NOT_GREEDY)
def test_custom_generate_refuses_what_is_not_greedy_by_name(wish):
    extra, named = NOT_GREEDY[wish]
    settings = {**float_inputs("llama"), **GREEDY, "max_new_tokens": 9, **extra}
    with pytest.raises(ValueError, match=named):
        float_model("llama").generate(**settings, custom_generate=recap.custom_generate)


def test_a_penalty_in_the_checkpoints_own_generation_config_is_refused_too():
    model = fresh_model("qwen2_5_vl")
    model.generation_config.repetition_penalty = 1.05
    with pytest.raises(ValueError, match="RepetitionPenaltyLogitsProcessor"):
        model.generate(**float_inputs("qwen2_5_vl"), max_new_tokens=9, custom_generate=recap.custom_generate)


def filled(model) -> DynamicCache:
    """A cache that holds the first four tokens of the prompt."""
    cache = DynamicCache(config=model.config)
    model(input_ids=float_inputs("llama")["input_ids"][:, :4], past_key_values=cache)
    return cache


CACHES = {
    "StaticCache of 0 rows": lambda model: {"cache_implementation": "static"},
    "StaticCache of": lambda model: {"past_key_values": StaticCache(model.config, 64)},
    "SlotCache of 0 rows": lambda model: {"past_key_values": recap.target_for(model).cache},
    "DynamicCache of 4 rows": lambda model: {"past_key_values": filled(model)},
}


@pytest.mark.parametrize("named", CACHES)
def test_custom_generate_refuses_a_cache_of_another_class_or_a_filled_one_before_the_first_pass(named):
    model = float_model("llama")
    extra = CACHES[named](model)
    with Watch(model) as watch, pytest.raises(ValueError, match=named):
        model.generate(
            **float_inputs("llama"), **GREEDY, max_new_tokens=9, **extra, custom_generate=recap.custom_generate
        )
    assert watch.logits == []


# The package


def test_recap_imports_on_its_own():
    absent = ["datasets", "hydra", "omegaconf", "pandas", "PIL", "baselines", "runners", "analysis"]
    code = f"import sys; sys.modules.update(dict.fromkeys({absent})); import recap; print(recap.generate.__module__)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "recap.api", result.stderr
