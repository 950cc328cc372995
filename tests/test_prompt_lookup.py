"""Prompt lookup: both published rules, to the token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.prompt_lookup import PromptLookup
from recap.decode import generate
from recap.types import SOURCES
from tests.reference.prompt_lookup import PromptLookupReference
from tests.scripted import ScriptedTarget, SideBySide, begun, pairs, shown
from tests.strategies import streams, targets

SWITCHES = st.fixed_dictionaries(
    {
        "ngram": st.integers(1, 4),
        "tokens": st.integers(1, 6),
        "tail": st.sampled_from(("truncate", "full")),
        "match": st.sampled_from(("earliest", "latest")),
    }
)


def drafted(history, stop_ids=(), placeholders=(), room=100, **switches) -> list[int]:
    """The tokens of the one path that is drafted."""
    tokens, parents = shown(begun(PromptLookup(**switches), history, stop_ids, placeholders).propose(room))
    assert parents == list(range(-1, len(tokens) - 1))
    return tokens


@given(targets, streams(), SWITCHES)
def test_every_draft_equals_the_references(predict, stream, switches):
    both = SideBySide(PromptLookup(**switches), PromptLookupReference(**switches), pairs)
    for request, limits in stream:
        generate(ScriptedTarget(predict), both, request, limits)


@given(st.lists(st.integers(-1, 2), min_size=2, max_size=30), SWITCHES, st.integers(1, 9))
def test_any_text_is_looked_up_as_the_reference_does(text, switches, room):
    history = [3 if token < 0 else token for token in text]
    method, expected = (begun(cls(**switches), history, [2], [3]) for cls in (PromptLookup, PromptLookupReference))
    assert pairs(method.propose(room), expected.propose(room))


def test_a_continuation_is_truncated_at_the_end_of_the_text_or_must_be_full():
    history = [1, 2, 3, 9, 1, 2, 3]
    assert drafted(history) == [9, 1, 2, 3]
    assert drafted(history, tail="full") == []
    assert drafted(history, tokens=3) == drafted(history, tokens=3, tail="full") == [9, 1, 2]


def test_a_match_may_overlap_the_suffix_it_repeats():
    assert drafted([5, 5, 5]) == [5]


def test_by_the_published_rule_one_token_lies_between_match_and_suffix():
    assert drafted([6, 6], tokens=1) == [6]
    assert drafted([6, 6], tokens=1, tail="full") == []
    assert drafted([5, 6, 9, 5, 6], tokens=1, tail="full") == [9]


def test_a_full_tail_tries_the_next_place_and_then_a_shorter_suffix():
    assert drafted([4, 1, 2, 7, 8, 9, 1, 2], tokens=4, tail="full") == [7, 8, 9, 1]
    assert drafted([2, 6, 6, 6, 6, 1, 2, 7, 1, 2], tokens=4, tail="full") == [6, 6, 6, 6]


def test_a_continuation_that_begins_with_a_stop_id_is_a_plain_step():
    assert drafted([7, 8, 0, 3, 7, 8], stop_ids=[0]) == []


def test_a_continuation_is_cut_before_the_first_stop_id():
    assert drafted([7, 8, 3, 0, 4, 7, 8], stop_ids=[0]) == [3]


def test_the_longest_suffix_and_then_the_earliest_place_wins():
    assert drafted([3, 9, 1, 2, 3, 8, 1, 2, 3, 7, 1, 2, 3])[0] == 8
    assert drafted([3, 9, 1, 2, 3, 8, 1, 2, 3, 7, 1, 2, 3], match="latest")[0] == 7


def test_ten_tokens_are_drafted_at_most_and_none_too_deep():
    history = [*range(1, 20), 1, 2, 3]
    assert drafted(history) == list(range(4, 14))
    assert drafted(history, room=4) == [4, 5, 6]
    assert drafted(history, room=1) == []


@pytest.mark.parametrize("tail", ["truncate", "full"])
def test_a_run_of_placeholders_is_never_matched_or_copied(tail):
    image = [9] * 400
    assert drafted([1, *image, 2, 9], placeholders=[9], tail=tail, tokens=2) == []  # the suffix holds one
    assert drafted([1, *image, 5, 6, 1], placeholders=[9], tail=tail, tokens=2) == []  # one follows the match
    assert drafted([1, 5, 6, *image, 1], placeholders=[9], tail=tail, tokens=2) == [5, 6]
    assert drafted([9, 1, *image, 1, 5, 6, 7, 9, 1], placeholders=[9], tail=tail, tokens=2) == [5, 6]


def test_nothing_is_kept_between_requests():
    method = begun(PromptLookup(), [1, 2, 3, 4])
    assert len(begun(method, [5, 1]).propose(50)) == 0
    assert method.memory() == {"rows": {}, "bytes": 0}


def test_nodes_name_the_verbatim_text_as_their_source():
    draft = begun(PromptLookup(), [5, 6, 5]).propose(50)
    assert set(draft.sources.tolist()) == {SOURCES["suffix"]}


@pytest.mark.parametrize("name", ["ngram", "tokens"])
def test_a_size_of_nothing_is_refused_by_name(name):
    with pytest.raises(ValueError, match=rf"method\.{name}=0"):
        PromptLookup(**{name: 0})
