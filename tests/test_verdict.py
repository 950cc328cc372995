"""The verdict names the first difference, and what a run may be believed with."""

import numpy as np
import pytest

from runners.verdict import KINDS, Verdict, compare, sound


def ids(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int64)


def test_equal_outputs_are_equal():
    assert compare(ids(1, 2, 3), ids(1, 2, 3)) == Verdict("equal")


def test_the_first_difference_is_named_with_both_tokens():
    assert compare(ids(1, 2, 3), ids(1, 5, 4)) == Verdict("unknown", 1, 2, 5)


def test_an_output_that_ends_early_or_late_differs_by_its_rule_to_stop():
    assert compare(ids(1, 2), ids(1, 2, 3)) == Verdict("stop_rule", 2, -1, 3)
    assert compare(ids(1, 2, 3), ids(1, 2)) == Verdict("stop_rule", 2, 3, -1)


def test_a_difference_is_shown_with_position_tokens_gap_cause_and_whether_it_repeats():
    shown = Verdict("tie", 1, 2, 5, gap=0.0625, repeatable=True, texts=(" two", " five")).show()
    assert shown == "token 1 is 5 ' five', AR has 2 ' two'; gap 0.0625; tie; repeats itself"
    shown = Verdict("stop_rule", 1, 2, -1, repeatable=False, texts=(" two", "")).show()
    assert shown == "token 1 is the end, AR has 2 ' two'; stop_rule; does not repeat itself"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_in_exact_dtypes_a_tie_is_allowed_only_when_asked_for(dtype):
    assert not sound({"equal": 9, "tie": 1}, dtype, allow_ties=False)
    assert sound({"equal": 9, "tie": 1}, dtype, allow_ties=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_in_rounded_dtypes_ties_are_allowed(dtype):
    assert sound({"equal": 9, "tie": 1}, dtype, allow_ties=False)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("equal", "tie")])
def test_no_other_difference_is_ever_allowed(kind):
    assert not sound({"equal": 9, kind: 1}, "bfloat16", allow_ties=True)
    assert sound(dict.fromkeys(KINDS, 0) | {"equal": 9}, "float32", allow_ties=False)
