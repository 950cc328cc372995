"""What holds for every rival: the output is plain decoding's, and no placeholder is ever proposed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.autoregressive import Autoregressive
from recap.decode import generate
from recap.types import Limits
from tests.rivals import RIVALS
from tests.scripted import ScriptedTarget, begun, hashed, request_of, script, shown
from tests.strategies import streams, targets
from tests.test_token_recycling import depths

rivals = pytest.mark.parametrize("make", RIVALS.values(), ids=RIVALS.keys())
LOOKAHEAD = {"lookahead", "lookahead_all"}  # its window is drawn, and whole in every pass
STORY = [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 1, 2, 20, 22, 3, 21, 4, 23, 5, 29, 6, 28, 7, 27, 8, 26, 9, 25, 10, 24]


@given(targets, streams(), st.sampled_from(sorted(RIVALS)))
def test_the_output_over_a_stream_equals_plain_decoding(predict, stream, name):
    drafter, target = RIVALS[name](), ScriptedTarget(predict)
    for request, limits in stream:
        output = generate(target, drafter, request, limits)
        plain = generate(target, Autoregressive(), request, limits)
        assert output.tokens.tolist() == plain.tokens.tolist()


@rivals
def test_a_run_of_400_placeholders_enters_no_draft(make):
    drafter, image = make(), 3
    predict = hashed(vocab_size=6, window=1, levels=2)  # emits the placeholder and lists it often
    target = ScriptedTarget(predict)
    for _ in range(2):
        request = request_of([1, 2, *[image] * 400, 1, 2], 6, [image])
        output = generate(target, drafter, request, Limits(40))  # the target refuses a draft that holds one
        plain = generate(ScriptedTarget(predict), Autoregressive(), request, Limits(40))
        assert output.tokens.tolist() == plain.tokens.tolist()


@pytest.mark.parametrize("name", sorted(set(RIVALS) - LOOKAHEAD))
def test_a_root_that_is_a_placeholder_is_looked_up_nowhere(name):
    tokens, _ = shown(begun(RIVALS[name](), [5, 3, 6, 7, 5, 3], placeholders=[3]).propose(50))
    assert tokens == []


@pytest.mark.parametrize("name", sorted(set(RIVALS) - LOOKAHEAD))
@pytest.mark.parametrize("room", [1, 2, 5])
def test_nothing_is_drafted_deeper_than_the_tokens_that_may_come_minus_one(name, room):
    drafter, target = RIVALS[name](), ScriptedTarget(script(len(STORY), STORY))
    generate(target, drafter, request_of(STORY), Limits(len(STORY)))
    draft = begun(drafter, STORY * 2 + STORY[:12]).propose(room)
    assert max(depths(draft.parents.tolist()), default=0) == room - 1


@pytest.mark.parametrize("name", ["prompt_lookup", "sam_decoding", "sam_only", "suffix_decoding"])
def test_a_verbatim_copy_is_followed_at_a_tau_above_four(name):
    output = generate(ScriptedTarget(script(len(STORY), STORY)), RIVALS[name](), request_of(STORY), Limits(len(STORY)))
    committed = sum(len(step.committed) for step in output.steps)
    assert committed / len(output.steps) > 4


@rivals
def test_a_new_stream_starts_as_if_nothing_had_been_seen(make):
    used, fresh, request = make(), make(), request_of([1, 2, 3, 1, 2])
    generate(ScriptedTarget(hashed(window=1)), used, request_of([3, 1, 2]), Limits(30))
    used.reset()
    drafts = []
    for drafter in (used, fresh):
        target = ScriptedTarget(hashed(window=1))
        generate(target, drafter, request, Limits(20))
        drafts.append([shown(draft) for _, draft in target.passes])
    assert drafts[0] == drafts[1]


@rivals
def test_the_memory_report_holds_integers(make):
    drafter = begun(make(), [1, 2, 3, 1, 2])
    report = drafter.memory()
    assert all(type(count) is int for count in report["rows"].values())
    assert type(report["bytes"]) is int
