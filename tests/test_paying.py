"""Learned chances and the tree that pays: equal to their reference, lossless, and no node without its price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.autoregressive import Autoregressive
from recap.chances import new_learned
from recap.decode import generate
from recap.drafter import AUTO_NODES, Recap
from recap.growth import new_cost
from recap.memory import M2, Memory, look_up
from recap.types import Limits
from runners.snapshot import restore, save
from tests.reference.paying import PayingReference
from tests.scripted import ScriptedTarget, SideBySide, begun, hashed, nodes_of, request_of, rows_of, script, shown
from tests.strategies import RECAP, streams, targets

PAYING = {name: choice for name, choice in RECAP.items() if name not in ("expansion", "depth_factor")} | {
    "ngrams": st.sampled_from(("request", "stream")),
    "explore": st.sampled_from((0.0, 0.01, 0.3)),
    "suffix": st.sampled_from((0, 3, 30)),
}
switches = st.fixed_dictionaries(PAYING)
steps = st.lists(st.sampled_from((0.0, 0.01, 0.03, 0.2, 1.0)), min_size=AUTO_NODES, max_size=AUTO_NODES)
DEAR = np.array([1.0] + [100.0] * AUTO_NODES)
FREE = np.ones(AUTO_NODES + 1)


def paying(seconds: np.ndarray | None = None, **switches) -> Recap:
    """RECAP with budget=auto, told what passes cost."""
    recap = Recap(budget="auto", scores="learned", **switches)
    if seconds is not None:
        recap.calibrate(seconds)
    return recap


def drafts(target: ScriptedTarget) -> list:
    return [(root, shown(draft)) for root, draft in target.passes]


@given(targets, streams(), switches, steps)
def test_every_draft_equals_the_references_and_the_output_equals_plain_decoding(predict, stream, switches, steps):
    seconds = 1 + np.cumsum([0.0, *steps])[: switches["budget"] + 1]
    recap, reference = Recap(scores="learned", **switches), PayingReference(**switches, seconds=seconds.tolist())
    recap.calibrate(seconds)
    target = ScriptedTarget(predict)
    for request, limits in stream:
        both = SideBySide(recap, reference, lambda draft, tree: nodes_of(draft) == tree)
        output = generate(target, both, request, limits)
        plain = generate(target, Autoregressive(), request, limits)
        assert output.tokens.tolist() == plain.tokens.tolist()
        assert tuple(recap.memory()["rows"].values()) == tuple(map(len, reference.memory.maps))


@given(targets, streams(), switches)
def test_after_a_reset_a_stream_repeats_itself(predict, stream, switches):
    recap = paying(np.linspace(1, 2, AUTO_NODES + 1), **{k: v for k, v in switches.items() if k != "budget"})
    runs = []
    for _ in range(2):
        target = ScriptedTarget(predict)
        for request, limits in stream:
            generate(target, recap, request, limits)
        recap.reset()
        runs.append(drafts(target))
    assert runs[0] == runs[1]


def test_a_stream_taken_up_from_a_snapshot_goes_on_bit_equal(tmp_path):
    stream = [(request_of([1, 2, seed, 3], 12), Limits(40)) for seed in range(4, 10)]
    whole, halved = (paying(np.linspace(1, 2, AUTO_NODES + 1), ngrams="stream") for _ in range(2))
    target, resumed = ScriptedTarget(hashed()), paying(ngrams="stream")
    first = ScriptedTarget(hashed())
    for request, limits in stream[:3]:
        generate(first, halved, request, limits)
    assert save(tmp_path, halved, 3)
    assert restore(tmp_path, resumed, 3) == 3
    for request, limits in stream[3:]:
        generate(first, resumed, request, limits)
    for request, limits in stream:
        generate(target, whole, request, limits)
    assert drafts(first) == drafts(target)


def test_where_every_draft_costs_too_much_all_steps_are_plain():
    target = ScriptedTarget(hashed())
    output = generate(target, paying(DEAR), request_of([1, 2, 3], 12), Limits(50))
    assert [len(step.draft) for step in output.steps] == [0] * 49


def test_where_nodes_are_free_the_tree_grows_to_its_limit():
    output = generate(ScriptedTarget(hashed()), paying(FREE), request_of([1, 2, 3], 12), Limits(100))
    assert max(len(step.draft) for step in output.steps) == AUTO_NODES


def test_a_step_in_the_price_is_taken_with_all_the_nodes_that_it_pays_for():
    seconds = np.array([1.0] + [1.2] * 8 + [50.0] * (AUTO_NODES - 8))  # a pass is padded to eight nodes
    output = generate(ScriptedTarget(hashed()), paying(seconds), request_of([1, 2, 3], 12), Limits(100))
    assert {len(step.draft) for step in output.steps} <= {0, 8}
    assert len(output.steps[-1].draft) == 8


def test_a_long_repeat_is_drafted_far_beyond_the_depth_of_the_tree():
    prompt = list(range(1, 31))
    seconds = np.linspace(1, 3, AUTO_NODES + 1)
    recap = paying(seconds, suffix=AUTO_NODES, prefill="none", depth=4)
    output = generate(ScriptedTarget(script(32, prompt)), recap, request_of([*prompt, 31, 0], 64), Limits(30))
    assert output.tokens.tolist() == prompt
    assert max(len(step.path) for step in output.steps) >= 15


def test_no_node_stands_where_no_token_could_come_behind_it():
    recap = begun(paying(FREE, suffix=AUTO_NODES, prefill="none"), [1, 2, 3, 4, 5, 6, 1, 2])
    assert len(recap.propose(1)) == 0
    assert shown(recap.propose(4)) == ([3, 4, 5], [-1, 0, 1])


def test_the_slope_looks_over_a_step_to_what_lies_behind_it():
    assert new_cost([1.0, 4.0, 4.0, 4.0, 9.0]).slope.tolist() == pytest.approx([1.0, 0.0, 0.0, 5.0, np.inf])


def test_the_first_rate_is_that_of_plain_steps():
    assert (new_learned(0.25).rate[0] / new_learned(0.25).rate[1]) == 4.0


def test_counts_and_rate_are_forgotten_with_the_stream():
    recap = paying(np.linspace(1, 2, AUTO_NODES + 1))
    generate(ScriptedTarget(hashed()), recap, request_of([1, 2, 3], 12), Limits(60))
    fresh = new_learned(1.0)
    assert not np.array_equal(recap._learned.held, fresh.held)
    recap.reset()
    assert all(np.array_equal(now, then) for now, then in zip(recap._learned, fresh, strict=True))


def test_a_capped_map_keeps_its_newest_half():
    memory, blocked = Memory(1, rows=4), np.zeros(64, bool)
    for token in range(10):
        contexts = np.array([[-1, 7, token]], np.int64)
        memory.write(contexts, np.arange(1), rows_of([[token]]), blocked)
    memory.cap(M2, 10)
    assert memory.size()["rows"]["M2"] == 10
    memory.cap(M2, 6)
    assert memory.size()["rows"]["M2"] == 3
    held = [token for token in range(10) if look_up(memory.maps, M2, -1, 7, token) >= 0]
    assert held == [7, 8, 9]
    for token in held:
        entry = memory.maps.table[M2, look_up(memory.maps, M2, -1, 7, token)]
        assert memory.maps.rows[M2, entry["row"], 0]["id"] == token


def test_a_method_asks_for_costs_until_it_is_told():
    recap = paying()
    assert recap.unpriced() == AUTO_NODES
    recap.calibrate(FREE)
    assert recap.unpriced() == 0
    assert Recap().unpriced() == Autoregressive().unpriced() == 0


def test_an_automatic_budget_needs_chances():
    with pytest.raises(ValueError, match=r"method\.budget=auto: goes with scores=learned"):
        Recap(budget="auto")


def test_fixed_expansion_has_no_chances():
    with pytest.raises(ValueError, match=r"method\.scores=learned: goes with expansion=best_first"):
        Recap(scores="learned", expansion="fixed")
