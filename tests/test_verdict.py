"""The verdict names the first difference."""

import numpy as np

from runners.verdict import Verdict, compare


def ids(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int64)


def test_equal_outputs_are_equal():
    assert compare(ids(1, 2, 3), ids(1, 2, 3)) == Verdict("equal")


def test_a_difference_prints_position_and_both_tokens():
    assert str(compare(ids(1, 2, 3), ids(1, 5, 3))) == "unknown: token 1 is 5, AR has 2"


def test_an_output_that_goes_on_differs_at_ars_end():
    assert compare(ids(1, 2), ids(1, 2, 3)) == Verdict("unknown", 2, -1, 3)


def test_an_output_that_ends_early_differs_at_its_own_end():
    assert compare(ids(1, 2, 3), ids(1, 2)) == Verdict("unknown", 2, 3, -1)
