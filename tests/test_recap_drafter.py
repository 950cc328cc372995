"""Recap as a whole: node by node equal to its reference, its lifetimes, and what it refuses."""

from inspect import signature

import pytest
from hypothesis import given

from baselines.autoregressive import Autoregressive
from recap.decode import generate
from recap.drafter import Recap
from recap.memory import MAX_VOCAB
from recap.types import SOURCES, Draft, Limits
from tests.reference.recap_drafter import RecapReference
from tests.scripted import ScriptedTarget, SideBySide, hashed, nodes_of, observed, request_of, rows_of, script, shown
from tests.strategies import WORDS, recaps, streams, targets

LONG = Limits(100)


def same(draft: Draft, tree: list) -> bool:
    return nodes_of(draft) == tree


def begun(recap: Recap, prompt: list[int], rows: list[list[int]], limits: Limits = LONG, placeholders=()) -> Recap:
    """A request with this prompt has begun; the last of `rows` starts with the root."""
    recap.begin(request_of(prompt, placeholders=placeholders), limits, rows_of(rows))
    return recap


def counts(recap: Recap) -> tuple[int, int, int]:
    return tuple(recap.memory()["rows"].values())


@given(targets, streams(), recaps)
def test_every_draft_equals_the_references_and_the_output_equals_plain_decoding(predict, stream, switches):
    target, recap, reference = ScriptedTarget(predict), Recap(**switches), RecapReference(**switches)
    for request, limits in stream:
        output = generate(target, SideBySide(recap, reference, same), request, limits)
        plain = generate(target, Autoregressive(), request, limits)
        assert output.tokens.tolist() == plain.tokens.tolist()
        assert counts(recap) == tuple(map(len, reference.memory.maps))


@given(targets, streams())
def test_the_paper_preset_equals_its_reference(predict, stream):
    target, both = ScriptedTarget(predict), SideBySide(Recap(), RecapReference(), same)
    for request, limits in stream:
        generate(target, both, request, limits)


@given(targets, streams(), recaps)
def test_after_a_reset_a_stream_repeats_itself(predict, stream, switches):
    recap, target = Recap(**switches), ScriptedTarget(predict)
    for request, limits in stream:
        generate(target, recap, request, limits)
    first = target.passes
    recap.reset()
    target.passes = []
    for request, limits in stream:
        generate(target, recap, request, limits)
    assert [(root, shown(draft)) for root, draft in target.passes] == [(root, shown(draft)) for root, draft in first]


@given(targets, streams(), recaps)
def test_the_drafts_a_generation_reports_are_those_that_were_verified(predict, stream, switches):
    recap = Recap(**switches)
    for request, limits in stream:
        target = ScriptedTarget(predict)
        output = generate(target, recap, request, limits)
        assert [shown(step.draft) for step in output.steps] == [shown(draft) for _, draft in target.passes]


def test_the_defaults_are_the_paper_preset():
    assert {name: switch.default for name, switch in signature(Recap).parameters.items()} == {
        "top_k": 8,
        "budget": 63,
        "depth": 10,
        "width": 8,
        "suffix": 4,
        "prefill": "unigram",
        "m1": "stream",
        "learn": "evaluated",
        "fusion": "mixture",
        "confidence": True,
        "priors": "specificity",
        "prior_index": "rank",
        "expansion": "best_first",
        "depth_factor": "authors",
        "edge_guard": True,
        "scores": "path",
        "explore": 0.0,
        "ngrams": "request",
    }


def test_an_empty_memory_and_no_repeat_give_the_root_alone():
    assert len(begun(Recap(prefill="none"), [1, 2, 3], [[4, 5]]).propose(50)) == 0


def test_unigram_prefill_asks_for_the_first_place_of_every_text_token():
    assert Recap().wants(request_of([7, 9, 9, 3, 7, 4], placeholders=[9])).tolist() == [0, 3, 5]


def test_full_prefill_asks_for_every_text_place():
    assert Recap(prefill="all").wants(request_of([7, 9, 9, 3, 7], placeholders=[9])).tolist() == [0, 3, 4]


def test_without_prefill_no_prompt_row_is_asked_for():
    assert Recap(prefill="none").wants(request_of([7, 9, 3])).tolist() == []


def test_unigram_prefill_seeds_the_first_map_alone():
    recap = begun(Recap(2), [7, 3], [[5, 6], [8, 9], [7, 1]])
    assert counts(recap) == (2, 0, 0)
    assert shown(recap.propose(50))[0][:2] == [5, 6]  # the row at 7


def test_the_prompts_last_row_is_not_stored_under_a_token_that_came_before():
    recap = begun(Recap(2, suffix=0), [7, 7], [[5, 6], [7, 9]])
    assert shown(recap.propose(50)) == ([5, 6], [-1, -1])


def test_full_prefill_seeds_all_maps_across_no_placeholder():
    recap = begun(Recap(2, prefill="all"), [7, 3, 9, 4, 5, 6], [[1, 2]] * 6, placeholders=[9])
    assert counts(recap) == (5, 3, 1)  # 7 3 4 5 6; 73 45 56; 456


def test_the_first_occurrence_of_a_key_wins_within_the_prefill():
    recap = begun(Recap(2, prefill="all", suffix=0), [7, 3, 7], [[5, 6], [8, 9], [1, 2], [7, 1]])
    assert shown(recap.propose(50)) == ([5, 6], [-1, -1])


def test_prompt_rows_overwrite_persistent_rows():
    recap = begun(Recap(2, suffix=0), [7], [[5, 6], [7, 1]])
    begun(recap, [7], [[8, 9], [7, 1]])
    assert shown(recap.propose(50))[0] == [8, 9]


def test_every_evaluated_node_writes_its_row_under_its_own_path():
    recap = begun(Recap(2, suffix=0), [7], [[5, 6], [7, 1]])
    assert shown(observed(recap, [[1, 2], [3, 4], [8, 9]])) == ([5, 6], [-1, -1])
    assert counts(recap) == (3, 3, 2)  # 7 5 6; 77 75 76; 775 776


def test_only_root_and_accepted_nodes_write_where_only_the_committed_learn():
    recap = begun(Recap(2, suffix=0, learn="committed"), [7], [[5, 6], [7, 1]])
    observed(recap, [[6, 2], [3, 4], [8, 9]])  # 6 is accepted, 5 is not
    assert counts(recap) == (2, 2, 1)  # 7 6; 77 76; 776


def test_the_pass_of_a_single_token_writes_too():
    recap = begun(Recap(2, prefill="none", suffix=0), [1, 2], [[3, 4]])
    assert len(observed(recap, [[5, 6]])) == 0
    assert counts(recap) == (1, 1, 1)


def test_the_first_map_persists_and_the_others_are_empty_at_the_next_request():
    recap = begun(Recap(2, prefill="none"), [1, 2], [[3, 4]])
    observed(recap, [[5, 6]])
    begun(recap, [8], [[9, 10]])
    assert counts(recap) == (1, 0, 0)


def test_a_request_local_first_map_is_empty_at_the_next_request():
    recap = begun(Recap(2, prefill="none", m1="request"), [1, 2], [[3, 4]])
    observed(recap, [[5, 6]])
    begun(recap, [8], [[9, 10]])
    assert counts(recap) == (0, 0, 0)


def test_an_ngram_of_the_last_request_alone_gives_nothing_but_its_last_tokens_row():
    recap = begun(Recap(2, prefill="none"), [1, 2], [[3, 4]])
    observed(recap, [[5, 6]])  # 1 2 3 -> 5 6
    begun(recap, [1, 2], [[3, 4]])
    draft = recap.propose(50)
    assert shown(draft) == ([5, 6], [-1, -1])
    assert set(draft.sources.tolist()) == {SOURCES["M1"]}


def test_a_verbatim_continuation_does_not_outlive_its_request():
    recap = begun(Recap(2, prefill="none"), [1, 2, 5, 6], [[3, 4]])
    begun(recap, [1, 2], [[1, 4]])
    assert shown(recap.propose(50)) == ([2, 1], [-1, 0])


def test_a_new_stream_starts_empty():
    recap = begun(Recap(2), [7], [[5, 6], [7, 1]])
    observed(recap, [[1, 2]])
    recap.reset()
    assert counts(recap) == (0, 0, 0)


def test_a_suffix_alone_forms_the_draft():
    recap = begun(Recap(2, prefill="none"), [1, 2, 3, 4, 5, 6, 7, 1, 2], [[3, 9]])
    assert shown(recap.propose(50)) == ([4, 5, 6, 7], [-1, 0, 1, 2])


def test_a_repeat_that_is_being_committed_is_followed_to_its_end():
    prompt = list(range(1, 20))
    target = ScriptedTarget(script(20, prompt))  # says the prompt again
    output = generate(target, Recap(2, budget=0, prefill="none"), request_of([*prompt, 25]), Limits(16))
    assert [step.path.tolist() for step in output.steps] == [[0, 1, 2, 3]] * 3
    assert output.tokens.tolist() == prompt[:16]


def test_no_suffix_is_inserted_where_none_is_asked_for():
    assert len(begun(Recap(2, prefill="none", suffix=0), [1, 2, 3, 1, 2], [[3, 9]]).propose(50)) == 0


def test_a_placeholder_is_never_proposed_nor_keyed():
    recap = begun(Recap(3, suffix=0), [7, 9, 9, 3], [[9, 5, 6], [8, 9, 1], [7, 1, 2]], placeholders=[9])
    assert shown(recap.propose(50)) == ([5, 6], [-1, -1])
    assert counts(recap) == (2, 0, 0)


def test_a_placeholder_that_the_target_emits_separates_the_history():
    recap = begun(Recap(2, prefill="none"), [1, 2, 9, 1, 2], [[9, 4]], placeholders=[9])
    assert len(observed(recap, [[1, 5]])) == 0
    assert counts(recap) == (0, 0, 0)  # the root was a placeholder
    assert shown(observed(recap, [[2, 5]])) == ([2], [-1])  # continues the first 1, up to the placeholder
    assert counts(recap) == (2, 1, 0)  # 1 2; 12


def test_the_draft_does_not_hang_on_the_room_left():
    recap = begun(Recap(2), [7, 5], [[5, 6], [7, 8], [7, 1]])
    assert shown(recap.propose(1)) == shown(recap.propose(100))


def test_a_draft_is_not_changed_by_the_next_one():
    recap = begun(Recap(2), [7], [[5, 6], [7, 1]])
    draft = observed(recap, [[1, 2], [3, 4], [8, 9]])
    before = shown(draft)
    recap.propose(50)
    assert shown(draft) == before


def test_the_memory_report_counts_rows_and_bytes():
    recap = Recap()
    target = ScriptedTarget(hashed(WORDS))
    generate(target, recap, request_of([1, 2, 3], WORDS), Limits(50))
    report = recap.memory()
    assert set(report["rows"]) == {"M1", "M2", "M3"}
    assert 0 < report["rows"]["M1"] <= WORDS < report["rows"]["M2"] <= WORDS**2
    assert report["bytes"] > 0


def test_equal_logits_everywhere_are_settled_by_the_lower_id():
    target = ScriptedTarget(lambda path, image: [0.0] * WORDS)  # 0 for ever; the edge 0 -> 0 comes once a path
    output = generate(target, Recap(3), request_of([1, 2], WORDS), Limits(20))
    assert output.tokens.tolist() == [0] * 20
    assert [len(step.path) for step in output.steps] == [0] + [1] * 9


def test_a_vocabulary_too_large_for_the_keys_is_refused():
    with pytest.raises(ValueError, match=f"vocabulary of {MAX_VOCAB + 1} ids"):
        Recap().begin(request_of([1], MAX_VOCAB + 1), LONG, rows_of([[1] * 8, [1] * 8]))


@pytest.mark.parametrize(
    "name", ["prefill", "m1", "learn", "fusion", "priors", "prior_index", "expansion", "depth_factor"]
)
def test_a_choice_that_does_not_exist_is_refused_by_name(name):
    with pytest.raises(ValueError, match=rf"method\.{name}=something: choose one of"):
        Recap(**{name: "something"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("confidence", "off"),
        ("edge_guard", 1),
        ("budget", 6.5),
        ("top_k", "8"),
        ("suffix", True),
        ("suffix", -1),
        ("depth", 0),
        ("width", 0),
        ("top_k", 0),
    ],
)
def test_a_value_of_the_wrong_kind_or_range_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=rf"method\.{name}="):
        Recap(**{name: value})


def test_a_misspelt_switch_is_refused_by_name():
    with pytest.raises(TypeError, match="edge_gaurd"):
        Recap(edge_gaurd=True)


def test_a_script_is_drafted_from_its_own_repeats():
    phrase = [5, 6, 7, 8, 9, 10]
    output = generate(ScriptedTarget(script(2, phrase * 6)), Recap(4), request_of([1, 2]), Limits(36))
    assert output.tokens.tolist() == phrase * 6
    assert max(len(step.path) for step in output.steps) >= 4
