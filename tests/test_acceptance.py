"""Acceptance by step, depth and source, from real steps and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import acceptance, metrics
from recap.decode import generate
from recap.drafter import Recap
from recap.types import SOURCES, Draft, Limits, Output
from runners.clock import Timing
from runners.records import Side, depths_of, sources_of
from tests.records import PHASES, frame, record, side
from tests.reference import verify
from tests.scripted import FixedDrafts, ScriptedTarget, draft_of, hashed, request_of, script
from tests.strategies import trees

PROMPT = [1, 2, 3]
PHASES_NS = dict.fromkeys(PHASES, 1000)


def decoded(emitted: list[int], drafts: list[Draft], stop_ids=(), max_new_tokens: int = 50) -> Output:
    target = ScriptedTarget(script(len(PROMPT), emitted))
    return generate(target, FixedDrafts(*drafts), request_of(PROMPT), Limits(max_new_tokens, tuple(stop_ids)))


def of(*outputs: Output):
    """The frame of these outputs; AR's side is of no account here."""
    sides = [as_dict(Side.of(output, 0, timing(output))) for output in outputs]
    return frame(*(record(one, one, index) for index, one in enumerate(sides)))


def timing(output: Output) -> Timing:
    return Timing(PHASES_NS, sum(PHASES_NS.values()), [1000] * len(output.steps))


def as_dict(it: Side) -> dict:
    return {name: getattr(it, name) for name in Side.__slots__}


def sourced(tokens: list[int], *names: str, parents=None) -> Draft:
    """A draft whose nodes carry the given sources: 'M1', 'M1+M3', ''."""
    draft = draft_of(tokens, parents)
    bits = [sum(SOURCES[part] for part in name.split("+") if part) for name in names]
    return Draft(draft.tokens, draft.parents, np.array(bits, np.int8))


def test_a_stop_id_inside_an_agreed_draft_leaves_three_committed_of_five_agreed():
    data = of(decoded([9, 5, 6, 2, 7, 8], [draft_of([5, 6, 2, 7, 8])], stop_ids=[2]))
    assert metrics.tau(data) == metrics.tau_pooled(data) == 3
    assert acceptance.per_step(data) == {"all_steps": 2.0, "steps_with_draft": 2.0}
    assert (data.committed_method[0], data.accepted_method[0], data.agreed_method[0]) == (3, 3, 5)


def test_the_mean_over_all_steps_and_that_over_steps_with_a_draft_have_names_of_their_own():
    """Three steps without a draft, one that gains two and one that gains none; tau is over all five."""
    data = frame(record(side([1, 1, 3, 1, 1], 1, 1, nodes=[0, 0, 4, 4, 0]), side([1] * 7, 1, 7)))
    assert acceptance.per_step(data) == {"all_steps": 2 / 5, "steps_with_draft": 1.0}
    assert metrics.tau(data) == 1 + 2 / 5


def test_an_outside_peer_shows_no_drafts():
    unseen = side([3, 1], 1, 1) | {"nodes": [], "sources": [], "drafted": [], "depths": []}
    data = frame(record(unseen, side([1] * 4, 1, 4)))
    found = acceptance.summarise(data)
    assert found["per_step"]["all_steps"] == 1.0 and np.isnan(found["per_step"]["steps_with_draft"])
    assert found["by_source"] == {} and found["drafted_by_depth"] == []


def test_acceptance_by_depth_is_the_share_of_all_steps_that_come_so_far():
    data = frame(
        record(side([1, 3], 1, 1), side([1] * 4, 1, 4), 0),
        record(side([4, 2], 1, 1), side([1] * 6, 1, 6), 1),
    )
    assert acceptance.by_depth(data).tolist() == [3 / 4, 2 / 4, 1 / 4]


def test_a_run_that_accepts_nothing_comes_to_no_depth():
    assert acceptance.by_depth(frame(record(side([1, 1], 1, 1), side([1, 1], 1, 1)))).tolist() == []


def test_accepted_and_drafted_nodes_are_counted_by_the_memory_they_came_from():
    first = sourced([5, 30, 6, 31], "M1", "M2+M3", "suffix", "suffix+M1", parents=[-1, -1, 0, 0])
    second = sourced([8, 9, 10], "M3", "M1+M2+M3", "")
    data = of(decoded([4, 5, 6, 7, 8, 9, 10, 11], [first, second], max_new_tokens=8))
    assert acceptance.by_source(data) == {
        "M1": {"accepted": 1, "drafted": 1},
        "M3": {"accepted": 1, "drafted": 1},
        "mixture": {"accepted": 1, "drafted": 3},
        "suffix": {"accepted": 1, "drafted": 1},
        "other": {"accepted": 1, "drafted": 1},
    }


def test_every_node_has_a_source_and_a_depth_on_a_real_stream():
    drafter, target = Recap(), ScriptedTarget(hashed())
    outputs = [generate(target, drafter, request_of(PROMPT), Limits(40)) for _ in range(3)]
    data = of(*outputs)
    found = acceptance.summarise(data)
    nodes = sum(len(step.draft) for output in outputs for step in output.steps)
    paths = sum(len(step.path) for output in outputs for step in output.steps)
    assert sum(count["drafted"] for count in found["by_source"].values()) == sum(found["drafted_by_depth"]) == nodes
    assert sum(count["accepted"] for count in found["by_source"].values()) == paths > 0
    assert "other" not in found["by_source"]
    assert sum(found["by_depth"]) * data.steps_method.sum() == pytest.approx(paths)
    assert len(found["by_depth"]) <= len(found["drafted_by_depth"])


@given(st.lists(trees(most=12), max_size=4))
def test_drafted_nodes_by_depth_equal_the_lengths_of_their_paths(drawn):
    lengths = [len(verify.path_to(node, parents)) for tokens, parents in drawn for node in range(len(tokens))]
    drafts = [draft_of(tokens, parents) for tokens, parents in drawn]
    assert depths_of(drafts) == [lengths.count(depth) for depth in range(1, max(lengths, default=0) + 1)]


def test_no_draft_at_all_counts_nothing():
    assert sources_of([]) == [0] * 16
    assert depths_of([]) == []


def stream(gains: np.ndarray) -> list[dict]:
    """Requests of ten steps, in order, that commit as many tokens a step as `gains` says, in tenths above one."""
    records = []
    for index, gain in enumerate(gains):
        committed = [2] * gain + [1] * (10 - gain)
        records.append(record(side(committed, 1, 1), side([1] * (10 + gain), 1, 1), index))
    return records


def test_a_method_that_learns_from_the_stream_has_a_trend_above_zero():
    rng = np.random.default_rng(3)
    gains = np.clip(np.round(2 + 4 * np.arange(200) / 200 + rng.normal(0, 1, 200)), 0, 10).astype(int)
    found = acceptance.trend(frame(*stream(gains)))
    assert found.ci_low < 0.2 < found.ci_high  # by 0.4 tokens a step over 200 inputs
    assert not found.within_noise


def test_a_method_that_does_not_has_none():
    gains = np.random.default_rng(4).integers(0, 8, 200)
    found = acceptance.trend(frame(*stream(gains)))
    assert found.within_noise and abs(found.mean) < 0.2


def test_the_trend_is_the_least_squares_slope_over_100_inputs():
    gains = np.random.default_rng(5).integers(0, 8, 60)
    slope = np.polyfit(np.arange(60) / 100, gains / 10, 1)[0]
    assert acceptance.trend(frame(*stream(gains))).mean == pytest.approx(slope)


def test_one_input_has_no_trend():
    found = acceptance.trend(frame(*stream(np.array([3]))))
    assert np.isnan(found.mean) and found.within_noise
