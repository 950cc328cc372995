"""transformers' own decoding, measured beside ours."""

import json

import numpy as np
import pytest
import torch

from baselines.autoregressive import Autoregressive
from recap import Limits, target_for
from recap.decode import generate
from runners.cell import run
from runners.clock import HostClock
from runners.peer import Refused, TransformersGenerate
from tests.models import inputs_of, model_of
from tests.test_cell import cell, lines, summary

LIMITS = Limits(24)


def decode(peer: TransformersGenerate, family: str, images: int = 0):
    """(ids, emitted a pass, timing) of one request."""
    clock = HostClock()
    clock.start()
    tokens, passes = peer.decode(model_of(family), inputs_of(family, images), LIMITS, clock)
    return tokens, passes, clock.stop()


def plain(family: str, images: int = 0) -> np.ndarray:
    target = target_for(model_of(family))
    return generate(target, Autoregressive(), target.request(inputs_of(family, images), LIMITS), LIMITS).tokens


@pytest.mark.parametrize("family,images", [("qwen2_5_vl", 1), ("llava_next", 1), ("llama", 0), ("qwen2", 0)])
def test_its_generate_emits_ars_ids_one_a_pass(family, images):
    tokens, passes, timing = decode(TransformersGenerate(), family, images)
    assert tokens.tolist() == plain(family, images).tolist()
    assert passes == [1] * (len(tokens) - 1)
    assert timing.phases_ns["prefill"] > 0 and timing.phases_ns["verify"] > 0
    assert len(timing.verify_ns) == len(passes)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_its_prompt_lookup_emits_ars_ids_on_text(family):
    tokens, passes, _ = decode(TransformersGenerate(prompt_lookup=10), family)
    assert tokens.tolist() == plain(family).tolist()
    assert all(emitted >= 1 for emitted in passes)
    assert sum(passes) < len(tokens)


def test_a_penalty_of_the_checkpoint_is_not_applied(monkeypatch):
    monkeypatch.setattr(model_of("llama").generation_config, "repetition_penalty", 1.5)
    tokens, _, _ = decode(TransformersGenerate(), "llama")
    assert tokens.tolist() == plain("llama").tolist()


def test_what_transformers_refuses_is_told_from_a_fault(monkeypatch):
    def refuse(**_):
        raise ValueError("Image features and image tokens do not match\nand more")

    monkeypatch.setattr(model_of("llama"), "generate", refuse)
    with pytest.raises(Refused, match=r"^Image features and image tokens do not match$"):
        decode(TransformersGenerate(), "llama")


@pytest.fixture(scope="module")
def with_peers(tmp_path_factory):
    it = cell(tmp_path_factory.mktemp("out"), "limit=2", versus=("hf_generate", "hf_prompt_lookup"))
    return it, run(it)


def test_a_peer_is_held_to_ars_ids_and_labelled(with_peers):
    it, code = with_peers
    peer = summary(it, "hf_generate")
    assert code == 0
    assert peer["verdict"]["equal"] == peer["turns"] > 0
    assert peer["peer"] == {"cache": "DynamicCache"}
    assert peer["tau"] == 1.0
    assert summary(it, "recap")["peer"] is None


def test_a_peers_contract_names_its_own_cache(with_peers):
    it, _ = with_peers
    ours, theirs = (lines(it.folder(name) / "records.jsonl")[0] for name in ("recap", "hf_generate"))
    assert ours["prompt"] == theirs["prompt"] and ours["images"] == theirs["images"]
    assert ours["contract"] != theirs["contract"]


def test_the_summary_says_where_transformers_refused_a_vision_model(with_peers):
    it, _ = with_peers
    refused = summary(it, "hf_prompt_lookup")["refused"]
    assert refused["turns"] == summary(it, "recap")["turns"]
    assert "do not match" in refused["reason"]
    assert json.loads((it.folder("hf_prompt_lookup") / "status.json").read_text())["state"] == "ok"


def test_generate_leaves_no_positions_on_the_model():
    decode(TransformersGenerate(), "qwen2_5_vl", 1)
    assert model_of("qwen2_5_vl").model.rope_deltas is None
    assert torch.is_grad_enabled()
