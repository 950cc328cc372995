"""The decode loop: what is counted, where it is cut, and that no draft changes the output."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.autoregressive import Autoregressive
from baselines.token_recycling import TokenRecycling
from recap.decode import generate
from recap.drafter import Recap
from recap.types import EMPTY_DRAFT, Limits, Output, Request
from tests.rivals import RIVALS
from tests.scripted import FixedDrafts, ScriptedTarget, draft_of, hashed, request_of, script
from tests.strategies import streams, targets, trees, words

PROMPT = [1, 2, 3]
METHODS = {
    "recap": Recap,
    "recap, cold and committed": lambda: Recap(prefill="none", m1="request", learn="committed", suffix=0),
    "recap, fixed": lambda: Recap(prefill="all", expansion="fixed", edge_guard=False),
    "token recycling": TokenRecycling,
    "token recycling, seeded": lambda: TokenRecycling(prefill="unigram", duplicates="first"),
    **RIVALS,
}
methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


def run(emitted: list[int], drafts=(), max_new_tokens: int = 100, stop_ids=()) -> Output:
    """Decode what a target emits, whatever it is shown, with given drafts."""
    target = ScriptedTarget(script(len(PROMPT), emitted))
    return generate(target, FixedDrafts(*drafts), request_of(PROMPT), Limits(max_new_tokens, tuple(stop_ids)))


def committed(output: Output) -> list[list[int]]:
    return [step.committed.tolist() for step in output.steps]


def accepted(output: Output) -> list[int]:
    """Tokens committed by each step, minus one: what tau averages."""
    return [len(step.committed) - 1 for step in output.steps]


def test_a_fully_agreed_draft_that_crosses_a_stop_id_commits_up_to_it():
    output = run([9, 5, 6, 2, 7, 8], [draft_of([5, 6, 2, 7, 8])], stop_ids=[2])
    (step,) = output.steps
    assert output.tokens.tolist() == [9, 5, 6, 2]
    assert step.committed.tolist() == [5, 6, 2]
    assert step.path.tolist() == [0, 1, 2]
    assert step.agreed == 5


def test_four_steps_that_accept_0_2_3_1_have_a_tau_of_two_and_a_half():
    emitted = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
    drafts = [draft_of(tokens) for tokens in ([30], [12, 13, 30], [15, 16, 17], [19, 30])]
    output = run(emitted, drafts, max_new_tokens=11)
    assert accepted(output) == [0, 2, 3, 1]
    assert 1 + np.mean(accepted(output)) == 2.5
    assert output.tokens.tolist() == emitted


def test_the_cap_reached_at_the_last_token_of_a_step_ends_the_run_there():
    output = run(list(range(5, 15)), [draft_of([6, 7])], max_new_tokens=4)
    assert output.tokens.tolist() == [5, 6, 7, 8]
    assert committed(output) == [[6, 7, 8]]


def test_a_cap_of_eight_crossed_inside_an_accepted_block_gives_eight_ids():
    output = run(list(range(5, 25)), [draft_of([6, 7, 8, 9]), draft_of([11, 12, 13, 14])], max_new_tokens=8)
    assert output.tokens.tolist() == list(range(5, 13))
    assert committed(output) == [[6, 7, 8, 9, 10], [11, 12]]
    assert output.steps[1].path.tolist() == [0, 1]
    assert output.steps[1].agreed == 4


@pytest.mark.parametrize("stop_ids", [(2,), (2, 4), (4, 2)])
@pytest.mark.parametrize("offset", range(5))
def test_a_stop_id_ends_the_run_at_every_offset_of_the_accepted_path(offset, stop_ids):
    emitted = [9, 10, 11, 12, 13, 14]
    emitted[1 + offset] = 2  # offset 4 is the target's own choice after the draft
    output = run(emitted, [draft_of(emitted[1:5])], stop_ids=stop_ids)
    assert output.tokens.tolist() == emitted[: offset + 2]
    (step,) = output.steps
    assert len(step.committed) == offset + 1
    assert len(step.path) == min(offset + 1, 4)
    assert step.agreed == 4


@pytest.mark.parametrize("stop_id", [2, 4])
def test_either_of_two_stop_ids_ends_the_run(stop_id):
    assert run([9, 10, stop_id, 11], stop_ids=[2, 4]).tokens.tolist() == [9, 10, stop_id]


def test_a_stop_id_from_prefill_leaves_nothing_to_do():
    output = run([2, 5, 6], [draft_of([5])], stop_ids=[2])
    assert output.tokens.tolist() == [2]
    assert output.steps == ()


def test_a_stop_id_in_the_prompt_stops_nothing():
    assert run([9, 8, 7], max_new_tokens=3, stop_ids=[1, 3]).tokens.tolist() == [9, 8, 7]


def test_a_rejected_stop_id_stops_nothing():
    output = run([9, 10, 11, 12], [draft_of([2, 10], [-1, -1])], max_new_tokens=4, stop_ids=[2])
    assert output.tokens.tolist() == [9, 10, 11, 12]


def test_one_token_is_the_prefills_and_needs_no_step():
    output = run([9, 5, 6, 7, 8], [draft_of([5, 6, 7])], max_new_tokens=1)
    assert output.tokens.tolist() == [9]
    assert output.steps == ()


def test_two_tokens_cut_a_deep_draft_to_one():
    output = run([9, 5, 6, 7, 8], [draft_of([5, 6, 7])], max_new_tokens=2)
    assert output.tokens.tolist() == [9, 5]
    (step,) = output.steps
    assert (step.path.tolist(), step.committed.tolist(), step.agreed) == ([0], [5], 3)


@methods
@pytest.mark.parametrize("max_new_tokens", [1, 2])
def test_a_warm_method_keeps_to_a_cap_of_one_or_two(method, max_new_tokens):
    drafter, target = method(), ScriptedTarget(hashed(window=1))
    long = generate(target, drafter, request_of(PROMPT), Limits(30))
    short = generate(target, drafter, request_of(PROMPT), Limits(max_new_tokens))
    assert short.tokens.tolist() == long.tokens[:max_new_tokens].tolist()
    assert len(short.steps) == max_new_tokens - 1


def test_an_always_wrong_draft_commits_one_token_a_step():
    output = run(list(range(5, 25)), [draft_of([0])] * 19, max_new_tokens=20)
    assert [len(step.draft) for step in output.steps] == [1] * 19
    assert accepted(output) == [0] * 19
    assert output.tokens.tolist() == list(range(5, 25))


def test_plain_decoding_commits_one_token_a_step_and_drafts_none():
    target = ScriptedTarget(hashed())
    output = generate(target, Autoregressive(), request_of(PROMPT), Limits(20))
    assert accepted(output) == [0] * 19
    assert all(step.draft is EMPTY_DRAFT for step in output.steps)


def test_equal_siblings_of_a_draft_are_all_searched():
    output = run([9, 5, 6, 7], [draft_of([5, 5, 6], [-1, -1, 1])], max_new_tokens=4)
    assert output.steps[0].path.tolist() == [1, 2]
    assert committed(output) == [[5, 6, 7]]


def test_the_target_is_asked_for_the_prompt_rows_that_the_drafter_wants():
    target = ScriptedTarget(hashed())
    generate(target, Recap(), request_of([4, 4, 7, 4, 9]), Limits(3))
    assert target.asked == [[0, 2, 4]]


def test_the_drafter_is_told_the_tokens_that_may_still_come():
    drafter = FixedDrafts(draft_of([6, 7]))
    generate(ScriptedTarget(script(3, list(range(5, 15)))), drafter, request_of(PROMPT), Limits(6))
    assert drafter.rooms == [5, 2, 1]


def test_the_drafter_sees_every_step_that_is_returned():
    drafter = FixedDrafts(draft_of([6, 7]))
    output = generate(ScriptedTarget(script(3, list(range(5, 15)))), drafter, request_of(PROMPT), Limits(6))
    assert tuple(drafter.steps) == output.steps


def test_the_drafter_is_told_once_of_the_end():
    drafter = FixedDrafts()
    generate(ScriptedTarget(script(3, [5, 6, 7])), drafter, request_of(PROMPT), Limits(3))
    assert drafter.ended == 1


def test_clock_marks_come_in_order_each_right_after_the_work_of_its_phase():
    log: list[str] = []

    def watch(owner, *names: str):
        for name in names:
            call = getattr(owner, name)
            setattr(owner, name, lambda *given, name=name, call=call: log.append(name) or call(*given))
        return owner

    target = watch(ScriptedTarget(script(3, [5, 6, 7, 8])), "prefill", "verify", "keep", "reset")
    drafter = watch(FixedDrafts(draft_of([6])), "begin", "propose", "observe", "end")
    generate(target, drafter, request_of(PROMPT), Limits(4), clock=lambda phase: log.append(f"({phase})"))
    start = ["prefill", "(vision)", "(prefill)", "begin", "(observe)"]
    step = ["propose", "(draft)", "verify", "(verify)", "keep", "(commit)", "observe", "(observe)"]
    assert log == [*start, *step, *step, "end", "reset"]


@pytest.mark.parametrize("max_new_tokens", range(30, 36))
def test_the_cache_ends_with_the_last_root_or_with_the_node_where_the_draft_was_cut(max_new_tokens):
    class Watched(ScriptedTarget):
        def reset(self):
            self.final = list(self.cache)
            super().reset()

    target = Watched(hashed(vocab_size=32, window=1, levels=50))
    output = generate(target, Recap(), request_of(PROMPT), Limits(max_new_tokens))
    last, emitted = output.steps[-1], output.tokens.tolist()
    assert target.final == PROMPT + (emitted if len(last.path) == len(last.committed) else emitted[:-1])


@given(targets, streams(), st.lists(trees(most=10, token=words), max_size=12))
def test_whatever_is_drafted_the_output_is_plain_decodings(predict, stream, drafts):
    (request, limits), target = stream[0], ScriptedTarget(predict)
    request = request_of(request.prompt, request.vocab_size)
    output = generate(target, FixedDrafts(*(draft_of(*drawn) for drawn in drafts)), request, limits)
    assert output.tokens.tolist() == generate(target, Autoregressive(), request, limits).tokens.tolist()


@methods
def test_512_tokens_equal_plain_decoding(method):
    request, limits = request_of(PROMPT, vocab_size=24), Limits(512)
    predict = hashed(vocab_size=24, window=2, levels=6, drift=60)
    output = generate(ScriptedTarget(predict), method(), request, limits)
    plain = generate(ScriptedTarget(predict), Autoregressive(), request, limits)
    assert output.tokens.tolist() == plain.tokens.tolist()
    assert len(output.tokens) == 512
    assert len(output.steps) < 450  # some drafts were accepted, so the equality was put to the test


@methods
def test_new_tokens_are_the_prefills_one_and_all_that_were_committed(method):
    drafter, target = method(), ScriptedTarget(hashed())
    for length in (7, 20, 33):
        output = generate(target, drafter, request_of(PROMPT), Limits(length))
        assert len(output.tokens) == length == 1 + sum(len(step.committed) for step in output.steps)
        assert output.tokens[1:].tolist() == [token for step in committed(output) for token in step]


@methods
def test_a_method_serves_a_second_request_with_another_image(method):
    drafter, target, predict = method(), ScriptedTarget(hashed()), hashed()
    for image in (0, 1, 0):
        request = request_of(PROMPT, image=image)
        plain = generate(ScriptedTarget(predict), Autoregressive(), request, Limits(40))
        assert generate(target, drafter, request, Limits(40)).tokens.tolist() == plain.tokens.tolist()


def test_no_new_token_at_all_cannot_be_asked_for():
    with pytest.raises(ValueError, match="max_new_tokens"):
        Limits(0)


@pytest.mark.parametrize("prompt", [np.empty(0, np.int64), np.ones((1, 3), np.int64)])
def test_a_prompt_is_one_sequence_with_at_least_one_id(prompt):
    with pytest.raises(ValueError, match="prompt"):
        Request(prompt, 32)
