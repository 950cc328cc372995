"""Suffix insertion: the longest earlier match, its first occurrence, and the path it adds."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recap.fusion import new_fusion
from recap.memory import Memory
from recap.suffix import extend, insert_continuation, longest_match, new_automaton
from recap.tree import grow, new_shape
from recap.types import SOURCES, Draft
from tests.reference import suffix as reference
from tests.reference import tree as reference_tree
from tests.reference.fusion import fuse as look_up
from tests.scripted import nodes_of, shown
from tests.strategies import SEPARATOR, TOP_K, context_of, memories, successors

texts = st.one_of(
    st.lists(st.integers(0, 1), min_size=1, max_size=40),
    st.lists(st.sampled_from((SEPARATOR, 0, 0, 1, 1, 2)), min_size=1, max_size=40),
    st.lists(st.sampled_from((SEPARATOR, 0, 1, 2, 3, 4, 5)), min_size=1, max_size=40),
)


def match(text: list[int], fed: tuple[int, ...] = ()) -> tuple[int, int]:
    """The compiled match at the end of a text that is fed in pieces, cut at `fed`."""
    array, automaton = np.array(text, np.int64), new_automaton(len(text))
    cuts = [0, *fed, len(text)]
    for start, end in pairwise(cuts):
        extend(automaton, array, start, end)
    return longest_match(automaton, len(text) - 1)


def inserted(memory: Memory, text: list[int], *, most=4, budget=63, depth=10, width=8, edge_guard=True) -> Draft:
    """The tree under the last token of `text` with its continuation."""
    array, automaton = np.array(text, np.int64), new_automaton(len(text))
    extend(automaton, array, 0, len(text))
    shape = new_shape(budget, depth, width, True, edge_guard, True)
    draft = grow(memory.maps, new_fusion(), shape, *context_of(text))
    length, end = longest_match(automaton, len(text) - 1)
    if length:
        draft = insert_continuation(array, len(text), end, most, shape, *draft)
    return Draft(*draft)


@given(texts)
def test_the_match_after_every_token_equals_brute_force(text):
    array, automaton = np.array(text, np.int64), new_automaton(len(text))
    for position in range(len(text)):
        extend(automaton, array, position, position + 1)
        assert longest_match(automaton, position) == reference.longest_match(text[: position + 1])


@given(texts, st.data())
def test_the_match_does_not_hang_on_how_the_text_was_cut(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=3)))
    assert match(text, tuple(cuts)) == match(text)


@given(memories(), texts, st.integers(1, 5), st.integers(0, 6), st.integers(1, 5), st.booleans())
def test_the_draft_with_its_continuation_equals_the_reference(drawn, text, most, budget, depth, edge_guard):
    memory, expected, _ = drawn
    tree = reference_tree.grow(
        lambda context: look_up(expected, context, TOP_K),
        text,
        budget=budget,
        depth=depth,
        width=2,
        edge_guard=edge_guard,
    )
    tree = reference.insert(tree, text, most=most, depth=depth, edge_guard=edge_guard)
    draft = inserted(memory, text, most=most, budget=budget, depth=depth, width=2, edge_guard=edge_guard)
    assert nodes_of(draft) == tree


def test_a_text_without_repeats_has_no_match():
    assert match([1, 2, 3, 4]) == (0, -1)


def test_one_token_that_occurred_before_is_a_match():
    assert match([1, 2, 3, 2]) == (1, 1)


@pytest.mark.parametrize("repeated", [1, 5, 50])
def test_a_verbatim_repeat_reports_a_long_match(repeated):
    passage = list(range(100, 100 + repeated))
    assert match([7, *passage, 8, 9, *passage]) == (repeated, repeated)


def test_a_repeat_committed_token_by_token_reports_a_long_match():
    text = [*range(20), *range(20)]
    assert match(text, fed=tuple(range(20, 40))) == (20, 19)


def test_the_longest_match_wins_over_a_later_and_an_earlier_shorter_one():
    assert match([3, 9, 1, 2, 3, 8, 2, 3, 7, 1, 2, 3]) == (3, 4)


def test_the_first_of_several_occurrences_is_taken():
    assert match([1, 2, 5, 1, 2, 6, 1, 2, 7, 1, 2]) == (2, 1)


def test_a_match_may_overlap_the_suffix_itself():
    assert match([5, 5, 5]) == (2, 1)


def test_no_match_spans_a_placeholder():
    assert match([1, 2, SEPARATOR, 3, 4, 1, 2, SEPARATOR, 3, 4]) == (2, 4)
    assert match([1, SEPARATOR, 2, 1, 2]) == (1, 2)


def test_a_placeholder_itself_is_never_matched():
    assert match([1, SEPARATOR, 1, SEPARATOR]) == (0, -1)


def test_a_suffix_alone_forms_the_tree():
    draft = inserted(Memory(TOP_K), [1, 2, 3, 4, 5, 9, 1, 2])
    assert shown(draft) == ([3, 4, 5, 9], [-1, 0, 1, 2])
    assert set(draft.sources.tolist()) == {SOURCES["suffix"]}


def test_at_most_the_asked_tokens_are_inserted():
    assert shown(inserted(Memory(TOP_K), [1, 2, 3, 4, 5, 9, 1], most=2)) == ([2, 3], [-1, 0])


def test_the_continuation_ends_with_the_history():
    assert shown(inserted(Memory(TOP_K), [1, 2, 1])) == ([2, 1], [-1, 0])


def test_the_continuation_stops_at_a_placeholder():
    assert shown(inserted(Memory(TOP_K), [1, 2, SEPARATOR, 3, 1])) == ([2], [-1])


def test_the_continuation_stops_at_the_depth_cap():
    assert shown(inserted(Memory(TOP_K), [1, 2, 3, 4, 5, 1], depth=2)) == ([2, 3], [-1, 0])


def test_the_continuation_stops_at_a_repeated_edge():
    text = [1, 2, 1, 2, 3, 9, 1, 2, 1]  # matches 1 2 1; after it 2 3 9 1; the edge 1 -> 2 comes once
    assert shown(inserted(Memory(TOP_K), text)) == ([2, 3, 9, 1], [-1, 0, 1, 2])
    assert shown(inserted(Memory(TOP_K), [5, 5, 5, 5])) == ([5], [-1])
    assert shown(inserted(Memory(TOP_K), [1, 2, 1, 2, 1, 2, 7, 1])) == ([2, 1], [-1, 0])


def test_without_the_guard_a_repeated_edge_goes_on():
    text = [1, 2, 1, 2, 1, 2, 7, 1]
    assert shown(inserted(Memory(TOP_K), text, edge_guard=False)) == ([2, 1, 2, 1], [-1, 0, 1, 2])


def test_equal_children_are_reused_and_missing_nodes_stand_last():
    memory = successors({1: ([2, 6], [0.9, 0.1]), 2: ([7, 8], [0.9, 0.1])})
    draft = inserted(memory, [1, 2, 3, 4, 5, 1])
    assert shown(draft) == ([2, 7, 8, 6, 3, 4, 5], [-1, 0, 0, -1, 0, 4, 5])
    both, suffix, m1 = SOURCES["M1"] | SOURCES["suffix"], SOURCES["suffix"], SOURCES["M1"]
    assert draft.sources.tolist() == [both, m1, m1, m1, suffix, suffix, suffix]


def test_missing_nodes_come_on_top_of_the_budget():
    memory = successors({1: ([6, 7], [0.5, 0.5])})
    assert shown(inserted(memory, [1, 2, 3, 4, 5, 1], budget=1)) == ([6, 2, 3, 4, 5], [-1, -1, 1, 2, 3])
