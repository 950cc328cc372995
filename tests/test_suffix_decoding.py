"""Suffix decoding: counts, scores, both modes, both trees and their lifetimes, to the token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.suffix_decoding import Rules, SuffixDecoding, append, new_tree, speculate
from recap.decode import generate
from recap.types import EMPTY_DRAFT, SOURCES, Limits
from tests.reference.suffix_decoding import SuffixDecodingReference
from tests.scripted import VOCAB, ScriptedTarget, SideBySide, begun, pairs, request_of, script, shown
from tests.strategies import streams, targets

SWITCHES = st.fixed_dictionaries(
    {
        "max_tree_depth": st.integers(1, 8) | st.just(64),
        "max_cached_requests": st.integers(0, 2),
        "max_spec_factor": st.sampled_from((0.5, 1.0, 3.0)),
        "max_spec_offset": st.sampled_from((0.0, 1.0, -1.0)),
        "min_token_prob": st.sampled_from((0.0, 0.1, 0.4, 1.0)),
        "cap": st.integers(0, 8),
        "mode": st.sampled_from(("path", "tree")),
    }
)


def drafted(history, stop_ids=(), placeholders=(), room=100, **switches) -> tuple[list[int], list[int]]:
    return shown(begun(SuffixDecoding(**switches), history, stop_ids, placeholders).propose(room))


def speculated(sequences, context, mode: str, factor=1.0):
    """(score, tokens, parents) from one tree of these sequences."""
    tree = new_tree(100, VOCAB)
    for sequence in sequences:
        append(tree, np.array([-1, *sequence], np.int64))
    rules = Rules(64, 64, factor, 0.0, 0.1, mode == "path")
    stops, index = np.zeros(VOCAB, bool), np.zeros(VOCAB, np.int32)
    score, tokens, parents = speculate(
        tree, np.array(context, np.int64), rules, 50, stops, index, 0.0, EMPTY_DRAFT.tokens, EMPTY_DRAFT.parents
    )
    return score, tokens.tolist(), parents.tolist()


@given(targets, streams(), SWITCHES)
def test_every_draft_equals_the_references(predict, stream, switches):
    both = SideBySide(SuffixDecoding(**switches), SuffixDecodingReference(**switches), pairs)
    for request, limits in stream:
        generate(ScriptedTarget(predict), both, request, limits)


@given(st.lists(st.integers(-1, 2), min_size=2, max_size=30), SWITCHES, st.integers(1, 9))
def test_any_text_is_continued_as_the_reference_does(text, switches, room):
    history = [3 if token < 0 else token for token in text]
    method, expected = (begun(cls(**switches), history, [2], [3]) for cls in (SuffixDecoding, SuffixDecodingReference))
    assert pairs(method.propose(room), expected.propose(room))


@pytest.mark.parametrize(
    ("history", "tokens", "score"),
    [
        ([1, 2, 3, 1, 2], [3, 1], 1.0),  # the suffix itself counts: 1/2, not 1
        ([1, 2, 1, 2, 1, 2], [1, 2], 4 / 3),  # a shorter match of higher score
        ([1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2], [4, 1, 2, 3, 1], 2.5),
    ],
)
def test_the_best_scored_suffix_is_continued_by_its_most_frequent_successors(history, tokens, score):
    assert drafted(history, max_cached_requests=0) == (tokens, list(range(-1, len(tokens) - 1)))
    assert speculated([history], history, "path")[0] == pytest.approx(score)


@pytest.mark.parametrize("mode", ["path", "tree"])
def test_tree_mode_is_best_first_and_path_mode_its_first_branch(mode):
    expected = {"tree": (2.0, [2, 6, 3, 8], [-1, 0, -1, 2]), "path": (1.5, [2, 6], [-1, 0])}
    assert speculated([[1, 2, 6]] * 3 + [[1, 3, 8]], [5, 1], mode, factor=4.0) == expected[mode]


def test_a_token_less_likely_than_the_bound_is_not_drafted():
    history = [1, 2, 1, 3, 1, 4, 9, 1]
    assert drafted(history, min_token_prob=0.26) == ([], [])
    assert drafted(history, min_token_prob=0.25) == ([2], [-1])


def test_a_draft_grows_with_the_match_up_to_the_cap_and_the_depth():
    story = list(range(1, 25))
    history = [*story, *story[:6]]
    assert len(drafted(history)[0]) == 6
    assert len(drafted(history, max_spec_factor=2.0)[0]) == 12
    assert len(drafted(history, max_spec_offset=1.0)[0]) == 7
    assert len(drafted(history, cap=4)[0]) == 4
    assert len(drafted(history, max_tree_depth=8)[0]) == 4  # a match of 4 and 4 more
    assert drafted(history, room=1) == ([], [])


def emit(method: SuffixDecoding, prompt: list[int], tokens: list[int]) -> None:
    generate(ScriptedTarget(script(len(prompt), tokens)), method, request_of(prompt), Limits(len(tokens)))


def test_earlier_outputs_propose_but_earlier_prompts_do_not():
    method = SuffixDecoding()
    emit(method, [1, 2, 3, 4, 5], [10, 11, 12, 13, 14])
    assert begun(method, [1, 2, 3]).propose(50).tokens.tolist() == []
    assert begun(method, [10, 11, 12]).propose(50).tokens.tolist() == [13, 14]


def test_outputs_are_forgotten_first_in_first_out():
    method = SuffixDecoding(max_cached_requests=3)
    for first in (10, 15, 20):
        emit(method, [1], list(range(first, first + 5)))
    assert method.memory()["rows"]["global"] == 15
    asked = [[15, 16], [20, 21], [20, 21]]  # each is a request too and pushes one output out
    assert [begun(method, history).propose(50).tokens.tolist() for history in asked] == [[17], [22], []]


def test_the_global_tree_stays_within_its_bound_over_a_long_stream():
    method = SuffixDecoding(max_cached_requests=5)
    sizes = []
    for request in range(60):
        emit(method, [1], [2 + request % 7] * 8)
        sizes.append(method.memory())
    assert max(size["rows"]["global"] for size in sizes) == 40
    assert sizes[-1]["bytes"] == sizes[20]["bytes"]


def test_without_cached_requests_the_request_alone_is_searched():
    method = SuffixDecoding(max_cached_requests=0)
    emit(method, [1], [10, 11, 12, 13])
    assert begun(method, [10, 11]).propose(50).tokens.tolist() == []
    assert method.memory()["rows"]["global"] == 0


def test_the_local_tree_lives_for_its_request():
    method = SuffixDecoding()
    emit(method, [1, 2, 3, 1, 2], [4, 5])
    assert method.memory()["rows"] == {"local": 7, "global": 2}
    assert begun(method, [1, 2]).memory()["rows"] == {"local": 2, "global": 3}


def test_a_stop_id_has_no_successor():
    history = [1, 2, 3, 0, 5, 6, 1, 2, 3]
    assert drafted(history, stop_ids=[0])[0] == [0]
    assert drafted(history)[0] == [0, 5, 6]


def test_a_run_of_placeholders_is_neither_context_nor_continuation():
    image = [9] * 400
    assert drafted([1, 2, *image, 3, 1, 2], placeholders=[9]) == ([], [])
    assert drafted([1, 2, 3, *image, 1, 2], placeholders=[9])[0] == [3]
    method = begun(SuffixDecoding(), [1, 2, *image, 1, 2], placeholders=[9])
    assert method.memory()["rows"] == {"local": 4, "global": 1}


def test_a_vocabulary_that_grows_keeps_the_outputs():
    method = SuffixDecoding()
    emit(method, [1], [10, 11, 12, 13])
    request = request_of([40, 10], vocab_size=64)
    generate(ScriptedTarget(script(2, [11, 12, 13], 64)), method, request, Limits(2))
    assert method.memory()["rows"]["global"] == 6


def test_nodes_name_the_verbatim_text_as_their_source():
    draft = begun(SuffixDecoding(), [1, 2, 3, 1, 2]).propose(50)
    assert set(draft.sources.tolist()) == {SOURCES["suffix"]}


@pytest.mark.parametrize("entry", [{"max_tree_depth": 0}, {"min_token_prob": 1.5}, {"mode": "forest"}])
def test_an_illegal_value_is_named(entry):
    (name,) = entry
    with pytest.raises(ValueError, match=rf"method\.{name}="):
        SuffixDecoding(**entry)
