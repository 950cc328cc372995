"""scripts/gpu_check.py with small shapes on the CPU: it runs to its end, and its script accepts what it says."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText

from recap import Limits, Recap, Request
from recap.decode import generate
from recap.verify import accept
from tests.scripted import draft_of

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from gpu.acceptance import NoModel, Script, Scripted  # noqa: E402
from gpu.shapes import IDS, SHAPES, build, inputs_of  # noqa: E402

NOT_NEEDED = ("hydra", "omegaconf", "pandas", "datasets", "matplotlib", "pyarrow", "accelerate")
PARTS = {
    "shape", "graphs_equal_eager", "transformers_generate", "decoding_eager", "graph_capture", "decoding_graphs",
    "curve_ms_graphs", "curve_ms_eager",
}  # fmt: skip


def check(*options: str) -> subprocess.CompletedProcess:
    """The script in a Python that has neither a GPU nor what is not needed."""
    start = (
        f"import runpy, sys; sys.modules.update(dict.fromkeys({NOT_NEEDED})); "
        f"sys.argv = ['scripts/gpu_check.py', *{list(options)}]; sys.path[0] = 'scripts'; "
        "runpy.run_path('scripts/gpu_check.py', run_name='__main__')"
    )
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", start]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """(what was printed, the report) of one small run."""
    out = tmp_path_factory.mktemp("gpu")
    done = check("--small", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((out / "cpu.json").read_text())


def test_a_small_run_measures_every_part_of_both_models(ran):
    _, report = ran
    assert set(report["models"]) == set(SHAPES)
    for parts in report["models"].values():
        assert set(parts) == PARTS
        assert not [part for part in parts.values() if {"failed", "skipped"} & set(part)]
    assert report["command"].startswith("python scripts/gpu_check.py --small")
    assert {"device", "torch", "transformers", "numba", "numpy", "python"} <= set(report["machine"])


def test_graphs_give_the_tokens_of_eager(ran):
    for parts in ran[1]["models"].values():
        assert parts["graphs_equal_eager"]["equal"] == parts["graphs_equal_eager"]["requests"] == 4


@pytest.mark.parametrize("engine", ("eager", "graphs"))
def test_efficiency_is_speedup_by_tau_and_the_ledger_makes_up_the_step(ran, engine):
    for parts in ran[1]["models"].values():
        found = parts[f"decoding_{engine}"]
        ours = found["recap"]
        assert math.isclose(found["speedup_decode_only"], found["efficiency"] * ours["tau"])
        assert math.isclose(found["efficiency"], found["ar"]["step_ms"] / ours["step_ms"])
        assert found["ar"]["tau"] == found["ar"]["rows_per_pass"] == 1
        assert ours["tau"] > 2 and ours["rows_per_pass"] > 8
        assert max(ours["ledger_ms"].values()) == ours["ledger_ms"]["verify"] < 2 * ours["step_ms"]
        assert ours["request_ms"]["vision"] > 0 and ours["request_ms"]["prefill"] > 0


def test_the_table_names_what_was_found(ran):
    printed, report = ran
    for name, parts in report["models"].items():
        assert f"\n{name}\n" in printed
        assert f"efficiency {parts['decoding_graphs']['efficiency']:.3f}" in printed
        assert f"68: {parts['curve_ms_eager']['68']:.2f}" in printed


def test_without_a_gpu_it_says_so_in_one_line():
    done = check()
    assert done.returncode == 2
    assert done.stderr.strip() == "error: torch sees no CUDA device here; --small runs small shapes on the CPU"


def test_parts_that_would_not_fit_into_the_time_are_left_out_and_named(tmp_path):
    done = check("--small", "--budget", "1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for parts in json.loads((tmp_path / "cpu.json").read_text())["models"].values():
        assert set(parts) == PARTS
        assert all("of 1 s are spent" in part["skipped"] for part in parts.values())
    assert done.stdout.count("skipped: ") == len(PARTS) * len(SHAPES)


# Shapes


PUBLISHED = {"qwen2.5-vl-7b": 8_292_166_656, "llava-1.6-vicuna-7b": 7_063_427_072 + 4096}  # LLaVA-1.5's and a newline


@pytest.mark.parametrize("name,parameters", PUBLISHED.items())
def test_the_full_shapes_have_the_parameters_of_the_published_models(name, parameters):
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(SHAPES[name](False), dtype=torch.bfloat16)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize("name", SHAPES)
def test_weights_are_random_and_inputs_hold_one_picture(name):
    model = build(SHAPES[name](True), torch.device("cpu"), torch.float32)
    assert 0.01 < float(model.lm_head.weight.detach().std()) < 0.05
    ids = inputs_of(model, small=True)["input_ids"][0]
    text = ids[ids != model.config.image_token_id]
    assert len(text) == 64 and (text < IDS).all()
    assert IDS <= model.config.image_token_id < model.lm_head.weight.shape[0]


# Scripted acceptance


def test_a_script_accepts_the_path_that_it_leads_down_and_no_further():
    script, draft = Script(tau=2.0), draft_of([5, 6, 7, 8], [-1, 0, 1, -1])
    lengths = []
    for _ in range(2_000):
        step = accept(draft, script.verdict(draft), np.empty(0, np.int64), 100)
        assert step.committed[:-1].tolist() == draft.tokens[step.path].tolist()
        lengths.append(len(step.path))
    assert set(lengths) == {0, 1, 2, 3}
    assert abs(np.mean(lengths) - 1.0) < 0.02


def test_recap_with_a_script_reaches_the_published_tau_with_full_trees():
    script, recap = Script(tau=3.02), Recap()
    request = Request(np.random.default_rng(0).integers(1, IDS, 64), 40_000)
    for new in (1_000, 400):
        output = generate(Scripted(NoModel(), script), recap, request, Limits(new))
    assert abs(np.mean([len(step.committed) for step in output.steps]) - 3.02) < 0.1
    assert np.mean([len(step.draft) + 1 for step in output.steps]) > 55
