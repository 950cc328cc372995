"""Other images in an image's place: who stands in for whom, what is forced, and what is counted."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from analysis.diagnostics import load_table
from baselines.autoregressive import Autoregressive
from recap.decode import generate
from recap.targets import target_for
from recap.types import Limits, Rows
from runners import counterfactual, replay
from runners.cell import run
from runners.counterfactual import Forced, forced, roots, swapped
from runners.donors import donors, mean_images, wrong_images
from runners.folder import ROWS
from runners.recall import ALONE, NAMES, ColdMemory
from runners.recorder import record
from runners.replay import depths
from runners.sources import Source, compare, log_mass, tree
from runners.traces import TOP_K, Identity, Setting, Trace
from tests import published
from tests.models import VISION_FAMILIES, full_logits, inputs_of, model_of
from tests.scripted import ScriptedTarget, hashed, request_of, rows_of
from tests.test_cell import cell, lines

NOWHERE = Identity("row", 0, "all", "picture")


def seen(family: str, seed: int = 0):
    """A request of a tiny model with its trace."""
    model, inputs = model_of(family), inputs_of(family, 1, seed)
    target = target_for(model)
    limits = Limits(12)
    request = target.request(inputs, limits)
    tokens = generate(target, Autoregressive(), request, limits).tokens
    trace = record(target, request, tokens, NOWHERE, model=model)
    return SimpleNamespace(model=model, target=target), inputs, request, trace


@given(st.dictionaries(st.integers(0, 99).map(str), st.sampled_from("abcde"), max_size=12))
def test_every_image_gets_another_of_its_category_and_none_stands_in_twice(categories):
    chosen = donors(categories)
    assert len(set(chosen.values())) == len(chosen)
    sizes = {c: list(categories.values()).count(c) for c in categories.values()}
    alone = [image for image, category in categories.items() if sizes[category] == 1]
    for image, donor in chosen.items():
        assert donor != image
        assert categories[donor] == categories[image] or {image, donor} <= set(alone)
    assert set(categories) - set(chosen) == (set(alone) if len(alone) == 1 else set())


def test_stand_ins_have_the_size_of_the_image_they_replace():
    images = [Image.new("RGB", (30, 20), (1, 2, 3)), Image.new("L", (8, 50), 100)]
    donated = [Image.new("RGB", (64, 64), (9, 9, 9))]
    assert [one.size for one in wrong_images(images, donated)] == [(30, 20), (8, 50)]
    assert [one.getpixel((5, 5)) for one in wrong_images(images, donated)] == [(9, 9, 9)] * 2


def test_a_mean_image_is_one_area_of_the_images_mean_colour():
    image = Image.new("RGB", (2, 1), (0, 0, 0))
    image.putpixel((1, 0), (200, 100, 51))
    [mean] = mean_images([image])
    assert mean.size == (2, 1) and set(mean.get_flattened_data()) == {(100, 50, 26)}


@pytest.mark.parametrize("family", VISION_FAMILIES)
def test_forcing_under_the_true_image_gives_the_recorded_rows_and_under_another_those_of_that_image(family):
    model, inputs, request, trace = seen(family)
    same = forced(model, request, trace)
    assert np.array_equal(same.rows.ids, trace.rows.ids)
    np.testing.assert_allclose(same.rows.probs, trace.rows.probs, atol=1e-6)
    np.testing.assert_allclose(same.seed.probs, trace.seed.probs[:-1], atol=1e-6)

    other = {**inputs, "pixel_values": inputs_of(family, 1, seed=5)["pixel_values"]}
    wrong = forced(model, model.target.request(other, Limits(12)), trace)
    expected = full_logits(model.model, other, trace.tokens.tolist())
    torch.testing.assert_close(wrong.logits, expected[len(request.prompt) :], atol=1e-9, rtol=0)
    assert wrong.rows.ids[:, 0].tolist() == expected[len(request.prompt) :].argmax(-1).tolist()
    assert not np.allclose(wrong.rows.probs, trace.rows.probs)


@pytest.mark.parametrize("family", VISION_FAMILIES)
def test_a_mass_is_the_share_of_the_vocabulary_that_a_rows_ids_hold(family):
    model, inputs, request, trace = seen(family)
    shares = full_logits(model.model, inputs, trace.tokens.tolist()).softmax(-1).numpy()
    size = len(request.prompt)
    for at, (ids, mass) in enumerate(zip(trace.rows.ids, trace.mass, strict=True)):
        assert mass == pytest.approx(shares[size + at, ids].sum(), abs=1e-5)
    for at, ids, mass in zip(trace.positions, trace.seed.ids, trace.seed_mass, strict=True):
        assert mass == pytest.approx(shares[at, ids].sum(), abs=1e-5)
    assert trace.mass.max() < 0.9


def path_of(tokens: list[int], top: list[list[int]], prompt: list[int]) -> tuple[Trace, Setting]:
    """A trace with given ids in its rows; the prompt's rows list ids that never come."""
    top = [[*row, *[i for i in range(30, 10, -1) if i not in row]][:TOP_K] for row in top]
    n = len(set(prompt))
    first = sorted(prompt.index(token) for token in set(prompt))
    seed = rows_of([list(range(20, 28))] * (n + 1))
    nan = [np.full(k, np.nan, np.float32) for k in (n + 1, len(tokens))]
    positions = np.array([*first, len(prompt) - 1])
    trace = Trace(*NOWHERE, np.array(prompt), positions, seed, nan[0], np.array(tokens), rows_of(top), nan[1])
    return trace, Setting("m", "b", 32, (), (), len(tokens))


def test_a_swapped_row_is_asked_at_the_same_state_for_the_same_token_and_cut_to_the_shorter_list():
    trace, setting = path_of([1, 2, 1, 2, 1], [[2], [1], [2], [1], [9]], prompt=[7])
    wrong = rows_of([[5, 6, 7, 8, 9, 10, 11, 12], *trace.rows.ids[1:].tolist()])
    counts = {line["source"]: line for line in swapped(trace, setting, Forced(trace.seed, wrong, None))}
    assert list(counts) == list(NAMES)
    # states: root 1 (unknown), 2 (unknown), 1 (row 0: wrong here), 2 (row 1: the same)
    assert [counts["M1"][k] for k in ("states", "covered", "hits", "hits_swapped")] == [4, 2, 2, 1]

    # now the token comes at the true row's seventh place, and two of the wrong row's are placeholders
    hidden = replace(setting, placeholders=(3, 4))
    short = Rows(wrong.ids.copy(), wrong.probs)
    short.ids[0] = [3, 2, 4, 5, 6, 7, 8, 9]  # six candidates are left, so only six of the true row count
    long = rows_of([[11, 12, 13, 14, 15, 16, 2, 17], *trace.rows.ids[1:].tolist()])
    late = replace(trace, rows=long)
    counts = {line["source"]: line for line in swapped(late, hidden, Forced(trace.seed, short, None))}
    assert [counts["M1"][k] for k in ("covered", "hits", "hits_swapped")] == [2, 1, 2]


def test_a_root_is_compared_where_its_step_began_and_only_with_a_draft():
    trace, _ = path_of([1, 2, 3, 4, 5, 6], [[2], [3], [4], [5], [6], [7]], prompt=[7])
    changed = rows_of([[9, *range(20, 27)] if at in (2, 3) else row for at, row in enumerate(trace.rows.ids.tolist())])
    steps = {"nodes": [4, 0, 7], "accepted": [1, 0, 1], "committed": [2, 1, 2]}  # roots 0, 2 (no draft) and 3
    images = {"wrong": changed, "mean": trace.rows}
    found = list(roots(trace, steps, {name: Forced(trace.seed, rows, None) for name, rows in images.items()}))
    assert found == [
        {"step": 0, "accepted": 1, "wrong": False, "mean": False},
        {"step": 2, "accepted": 1, "wrong": True, "mean": False},
    ]


def test_log_mass_is_the_log_of_the_share_of_the_softmax():
    logits = torch.tensor([1.0, 2.0, 3.0, 0.5])
    assert log_mass(logits, np.array([0, 2])) == pytest.approx(float(logits.softmax(0)[[0, 2]].sum().log()))


def test_depths_follow_the_path_through_a_tree():
    tokens, parents = np.array([5, 6, 9, 5, 6, 7]), np.array([-1, 0, 1, -1, 3, 4], np.int32)
    assert depths(tokens, parents, np.array([5, 6, 7])).tolist() == [1, 2, 0, 1, 2, 3]
    assert depths(tokens, parents, np.array([8])).max() == 0


def test_both_sources_draft_with_the_same_number_of_nodes_and_rows_are_asked_before_they_are_learnt():
    target, limits = ScriptedTarget(hashed(40, window=3, levels=5, drift=13, seed=3)), Limits(60)
    request = request_of([1, 2, 3, 4], 40)
    tokens = generate(target, Autoregressive(), request, limits).tokens
    trace = record(target, request, tokens, NOWHERE)
    setting = Setting("m", "b", 40, (), (), 60)
    generator = torch.Generator().manual_seed(0)
    true, wrong, mean = (torch.randn(60, 40, generator=generator) for _ in range(3))
    found = list(compare(trace, setting, {"true": true, "wrong": wrong, "mean": mean}))
    assert {line["budget"] for line in found} > {63}, "some trees fill their budget, some do not"
    general = ColdMemory(trace, setting, trace.rows, trace.seed)
    specific = ColdMemory(trace, setting, trace.rows, trace.seed, m1=False)
    at = 0
    for line in found:
        while at < line["at"]:
            general.learn(at)
            specific.learn(at)
            at += 1
        known = {"general": general.candidates("M1", at), "specific": specific.candidates("mixture", at)}
        size = min(map(len, known.values()))
        assert line["size"] == size >= 2
        assert len(set(known["general"][:size]) & set(known["specific"][:size])) <= size / 4
        for name, ids in known.items():
            drop = log_mass(true[at], ids[:size]) - log_mass(mean[at], ids[:size])
            assert line[f"{name}_drop_mean"] == pytest.approx(drop)
        drafted, parents = tree(Source(general, ALONE), at, line["budget"])
        assert len(drafted) == line["budget"] > 0
        assert line["general_accepted"] == depths(drafted, parents, tokens[at + 1 :]).max()


def test_a_cell_that_records_rows_can_be_replayed_and_shown_other_images(tmp_path, capsys):
    it = cell(tmp_path, "record=rows", "limit=2", "generate_check=0", "max_new_tokens=40")
    assert run(it) == 0
    folder = it.folder("recap")
    assert (folder / ROWS).is_file()
    assert replay.main([str(tmp_path)]) == 0
    assert replay.main([str(tmp_path), "--probs", "full", "method=token_recycling"]) == 0
    assert replay.main([str(tmp_path), "method=hf_generate"]) == 2
    assert replay.main([str(tmp_path), "method.learn=commited"]) == 2
    assert "method.learn=commited: choose one of" in capsys.readouterr().err
    assert counterfactual.main([str(tmp_path)]) == 0
    records = lines(folder / "records.jsonl")
    states = sum(len(record["ar"]["tokens"]) - 1 for record in records)
    for name in ("recall", "swapped"):
        frame = load_table(tmp_path, name)
        assert frame[frame.source == "M1"].states.sum() == states
        assert set(frame.cluster) <= {record["images"] for record in records}
    table = load_table(tmp_path, "roots")
    assert len(table) == sum(nodes > 0 for record in records for nodes in record["method"]["nodes"])
    assert table[["wrong", "mean"]].to_numpy().any(), "the tiny model does look at its image"


def test_rows_of_a_published_set_can_be_shown_other_images_the_first_inputs_alone(tmp_path):
    with_images = ("bench=chartqa", f"bench.path={published.folder() / 'chartqa'}")
    it = cell(tmp_path, *with_images, "record=rows", "limit=4", "generate_check=0", "max_new_tokens=8")
    assert run(it) == 0
    assert counterfactual.main([str(tmp_path), "--limit", "3"]) == 0
    asked = [record["row"] for record in lines(it.folder("recap") / "records.jsonl")]
    shown = set(load_table(tmp_path, "swapped").row)
    assert len(asked) == 4 and 1 < len(shown) and shown <= set(asked[:3])


def test_other_images_need_rows_and_two_images(tmp_path, capsys):
    assert counterfactual.main([str(tmp_path)]) == 2
    assert "run a cell with record=rows" in capsys.readouterr().err


def test_record_takes_rows_or_nothing(tmp_path):
    with pytest.raises(ValueError, match="record=steps: choose one of null, rows"):
        run(cell(tmp_path, "record=steps"))
