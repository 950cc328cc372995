"""Acceptance: agreement, equal siblings, the extra token, the cut; and the plan of a pass."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recap.types import Draft, Step
from recap.verify import accept, pack
from tests.reference import verify as reference
from tests.scripted import draft_of, rows_of
from tests.strategies import trees

FEW = st.integers(0, 2)  # tokens that agree often


def settle(tokens, parents, greedy, stop_ids=(), room=100) -> Step:
    draft = draft_of(tokens, parents)
    return accept(draft, rows_of([[choice] for choice in greedy]), np.array(stop_ids, np.int64), room)


def shown(step: Step) -> tuple[list[int], list[int], int]:
    return step.path.tolist(), step.committed.tolist(), step.agreed


@given(trees(most=14, token=FEW), st.data())
def test_acceptance_equals_its_reference(drawn, data):
    tokens, parents = drawn
    greedy = data.draw(st.lists(FEW, min_size=len(tokens) + 1, max_size=len(tokens) + 1))
    stop_ids = sorted(data.draw(st.sets(st.integers(0, 4), max_size=2)))
    room = data.draw(st.integers(1, 6))
    expected = reference.accept(tokens, parents, greedy, stop_ids, room)
    assert shown(settle(tokens, parents, greedy, stop_ids, room)) == expected


@given(trees(most=14, token=FEW), st.data())
def test_only_acceptable_nodes_are_accepted(drawn, data):
    tokens, parents = drawn
    greedy = data.draw(st.lists(FEW, min_size=len(tokens) + 1, max_size=len(tokens) + 1))
    acceptable = data.draw(st.integers(0, len(tokens)))
    draft = draft_of(tokens, parents)
    draft = Draft(draft.tokens, draft.parents, draft.sources, acceptable)
    step = accept(draft, rows_of([[choice] for choice in greedy]), np.array([], np.int64), 6)
    assert shown(step) == reference.accept(tokens[:acceptable], parents, greedy, (), 6)


@given(trees(most=14))
def test_a_pass_plan_shows_each_row_its_ancestors_the_root_and_itself(drawn):
    tokens, parents = drawn
    plan = pack(9, np.array(tokens, np.int64), np.array(parents, np.int32))
    for row in range(len(tokens) + 1):
        path = reference.path_to(row - 1, parents)
        assert plan[row, 0] == (9, *tokens)[row]
        assert plan[row, 1] == len(path)
        assert np.flatnonzero(plan[row, 2:]).tolist() == [0, *(node + 1 for node in path)]
        assert plan[row, 2:].max() == 1


def test_an_empty_draft_commits_the_targets_choice():
    assert shown(settle([], [], [7])) == ([], [7], 0)


def test_a_rejected_draft_commits_the_targets_choice():
    assert shown(settle([5, 6], [-1, 0], [7, 6, 9])) == ([], [7], 0)


def test_an_agreed_chain_brings_the_targets_choice_after_its_last_node():
    assert shown(settle([5, 6, 7], None, [5, 6, 7, 8])) == ([0, 1, 2], [5, 6, 7, 8], 3)


def test_a_node_counts_only_under_an_agreeing_parent():
    assert shown(settle([5, 6], None, [4, 6, 9])) == ([], [4], 0)
    assert shown(settle([5, 6, 7], None, [5, 9, 7, 8])) == ([0], [5, 9], 1)


def test_the_deepest_of_equal_siblings_wins():
    assert shown(settle([5, 5, 6], [-1, -1, 1], [5, 9, 6, 8])) == ([1, 2], [5, 6, 8], 2)


def test_the_first_in_packed_order_wins_among_equally_deep_paths():
    assert shown(settle([5, 5], [-1, -1], [5, 8, 9])) == ([0], [5, 8], 1)
    assert shown(settle([5, 5, 6, 6], [-1, -1, 1, 0], [5, 6, 6, 8, 9])) == ([1, 2], [5, 6, 8], 2)


def test_a_stop_id_inside_the_draft_leaves_no_extra_token():
    assert shown(settle([5, 2, 7], None, [5, 2, 7, 8], stop_ids=[2])) == ([0, 1], [5, 2], 3)


def test_a_stop_id_at_the_last_node_leaves_no_extra_token():
    assert shown(settle([5, 2], None, [5, 2, 8], stop_ids=[2])) == ([0, 1], [5, 2], 2)


def test_a_stop_id_as_the_targets_own_choice_is_committed():
    assert shown(settle([5], None, [5, 2], stop_ids=[2])) == ([0], [5, 2], 1)


def test_the_first_of_several_stop_ids_cuts():
    assert shown(settle([5, 3, 2], None, [5, 3, 2, 8], stop_ids=[2, 3])) == ([0, 1], [5, 3], 3)


def test_a_rejected_stop_id_does_not_cut():
    assert shown(settle([2, 6], [-1, -1], [6, 9, 7], stop_ids=[2])) == ([1], [6, 7], 1)


def test_the_room_cuts_inside_the_draft():
    assert shown(settle([5, 6, 7], None, [5, 6, 7, 8], room=2)) == ([0, 1], [5, 6], 3)


def test_room_for_the_draft_alone_leaves_no_extra_token():
    assert shown(settle([5, 6, 7], None, [5, 6, 7, 8], room=3)) == ([0, 1, 2], [5, 6, 7], 3)


def test_room_for_one_more_takes_the_extra_token():
    assert shown(settle([5, 6, 7], None, [5, 6, 7, 8], room=4)) == ([0, 1, 2], [5, 6, 7, 8], 3)


def test_a_stop_id_beyond_the_room_changes_nothing():
    assert shown(settle([5, 2], None, [5, 2, 8], stop_ids=[2], room=1)) == ([0], [5], 2)


def test_the_step_keeps_its_draft_and_its_types():
    step = settle([5, 6], None, [5, 6, 7])
    assert (step.path.dtype, step.committed.dtype) == (np.int32, np.int64)
    assert step.draft.tokens.tolist() == [5, 6]
