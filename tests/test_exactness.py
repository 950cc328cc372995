"""On the bundled models, in float32, every method emits AR's ids."""

import os
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from baselines.autoregressive import Autoregressive
from baselines.token_recycling import TokenRecycling
from recap import Limits, Recap
from recap.decode import generate
from recap.targets import target_for
from runners.benches.synthetic import Synthetic
from runners.config import build
from runners.models import Model
from tests.rivals import RIVALS

INPUTS = 200 if os.environ.get("RECAP_SOAK") == "1" else 20
METHODS = {
    "recap": Recap,
    "recap, everything seeded": lambda: Recap(prefill="all"),
    "recap, fixed tree": lambda: Recap(expansion="fixed"),
    "token recycling": TokenRecycling,
    "token recycling, seeded": lambda: TokenRecycling(prefill="unigram"),
}
OTHERS = ("prompt_lookup", "sam_decoding", "suffix_decoding", "lookahead", "racer")
EVERY = 5  # the others decode one input in five: scripted targets put them to the test more cheaply


@pytest.mark.parametrize("name", ["tiny_qwen", "tiny_llava"])
def test_every_method_emits_ars_ids(name):
    model = Model(str(Path("assets") / name))
    limits = Limits(200, model.stop_ids)
    bench = Synthetic(n=INPUTS)
    drafters = {label: make() for label, make in METHODS.items()}
    others = {name: RIVALS[name]() for name in OTHERS}
    for number, row in enumerate(bench.rows()):
        inputs = model.inputs(bench.messages(row, 0, [], 1), row.open_images())
        request = model.request(inputs, limits)
        expected = generate(model.target, Autoregressive(), request, limits).tokens.tolist()
        for label, drafter in (drafters | others if number % EVERY == 0 else drafters).items():
            found = generate(model.target, drafter, request, limits).tokens.tolist()
            assert found == expected, f"{label} differs on {row.id}"


def fast(rows_of_a_free_pass: int) -> Recap:
    """recap_fast where a pass costs the same up to so many rows, and then in proportion."""
    drafter = build(OmegaConf.load("conf/method/recap_fast.yaml"), "method")
    drafter.calibrate(np.maximum(1.0, (1 + np.arange(drafter.unpriced() + 1)) / rows_of_a_free_pass))
    return drafter


@pytest.mark.parametrize("name", ["tiny_qwen", "tiny_llava"])
def test_the_compiled_engine_emits_the_ids_of_the_eager_one(name):
    model = Model(str(Path("assets") / name), engine="compiled")
    eager, limits, bench = target_for(model.model), Limits(200, model.stop_ids), Synthetic(n=INPUTS)
    drafters = {"AR": Autoregressive(), "recap": Recap()} | {f"fast, {free}": fast(free) for free in (2, 8, 64)}
    for row in bench.rows():
        request = model.request(model.inputs(bench.messages(row, 0, [], 1), row.open_images()), limits)
        expected = generate(eager, Autoregressive(), request, limits).tokens.tolist()
        for label, drafter in drafters.items():
            found = generate(model.target, drafter, request, limits).tokens.tolist()
            assert found == expected, f"{label} differs on {row.id}"


@pytest.mark.parametrize("name", ["tiny_qwen", "tiny_llava"])
def test_two_attention_backends_give_equal_ids(name):
    bench, limits = Synthetic(n=3), Limits(100)
    outputs = {}
    for attention in ("sdpa", "eager"):
        model, drafters = Model(str(Path("assets") / name), attention=attention), (Autoregressive(), Recap())
        outputs[attention] = [
            generate(model.target, drafter, model.request(inputs, limits), limits).tokens.tolist()
            for row in bench.rows()
            for inputs in [model.inputs(bench.messages(row, 0, [], 1), row.open_images())]
            for drafter in drafters
        ]
    assert outputs["sdpa"] == outputs["eager"]
