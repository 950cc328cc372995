"""Ratios by hand: equation 9, equation 10, and what is left out of them."""

import numpy as np
import pytest

from analysis import metrics
from analysis.summary import summarise
from tests.records import frame, record, side


def test_four_steps_accepting_0_2_3_1_give_tau_2_5():
    data = frame(record(side([1, 3, 4, 2], 1, 4), side([1] * 10, 1, 10)))
    assert metrics.tau(data) == 2.5
    assert metrics.tau_pooled(data) == 2.5


def test_tau_is_a_mean_over_requests_and_the_pooled_one_over_steps():
    data = frame(
        record(side([3], 1, 1), side([1] * 3, 1, 3), 0),
        record(side([1] * 9, 1, 9), side([1] * 9, 1, 9), 1),
    )
    assert metrics.tau(data) == 2.0
    assert metrics.tau_pooled(data) == 1.2


def test_a_request_without_a_step_is_left_out_of_tau_and_of_decode_only_and_counted():
    one = record(side([], 5, 0), side([], 5, 0), 1)
    data = frame(record(side([2, 2], 1, 2), side([1] * 4, 1, 4), 0), one)
    assert metrics.tau(data) == 2.0
    assert metrics.speedup(data, "decode").mean == pytest.approx(2.0)
    assert summarise(data)["without_step"] == 1


def test_end_to_end_holds_prefill_and_decode_only_does_not():
    data = frame(record(side([2, 2], 10, 2), side([1] * 4, 10, 4)))
    assert metrics.speedup(data, "window").mean == pytest.approx(14 / 12)
    assert metrics.speedup(data, "decode").mean == pytest.approx(2.0)


def test_the_four_speedups_differ_as_they_are_defined():
    data = frame(
        record(side([1] * 4, 0, 2), side([1] * 4, 0, 4), 0),  # rates 2.5 and 1.25 tokens/ms: r = 2
        record(side([1] * 9, 0, 10), side([1] * 9, 0, 10), 1),  # rates 1 and 1: r = 1
    )
    others = metrics.other_speedups(data, "window")
    assert metrics.speedup(data, "window").mean == pytest.approx(1.5)
    assert others["ratio_of_rates"] == pytest.approx((2.5 + 1) / (1.25 + 1))
    assert others["total_rate"] == pytest.approx((15 / 12) / (15 / 14))
    assert others["total_wall"] == pytest.approx(14 / 12)


def test_efficiency_is_decode_only_speedup_over_tau():
    data = frame(record(side([2, 2], 1, 3), side([1] * 4, 1, 4)))
    assert metrics.efficiency(data).mean == pytest.approx((4 / 3) / 2)


def test_decode_milliseconds_do_not_count_the_token_that_prefill_emits():
    data = frame(record(side([1] * 5, 1, 10), side([1] * 5, 1, 20)))
    assert metrics.ms_per_token(data, "method") == pytest.approx(2.0)
    assert metrics.ms_per_token(data, "ar") == pytest.approx(4.0)


def test_speedup_of_only_one_token_answers_is_not_a_number():
    data = frame(record(side([], 1, 0), side([], 1, 0)))
    assert np.isnan(metrics.speedup(data, "decode").mean)


def test_an_answer_that_the_cap_cut_counts_the_tokens_that_were_emitted():
    capped = side([5, 2], 1, 7)  # eight tokens, the last block cut inside its draft
    data = frame(record(capped, side([1] * 7, 1, 7)))
    assert metrics.speedup(data, "window").mean == 1
    assert metrics.tokens_per_second(data, "method") == pytest.approx(8 / 8e-3)


def test_tau_is_told_for_each_turn_and_for_all():
    turns = [
        record(side([committed] * 2, 1, 1), side([1], 1, 1), 0) | {"turn": t} for t, committed in enumerate([3, 1])
    ]
    found = summarise(frame(*turns))
    assert found["tau_by_turn"] == {"0": 3.0, "1": 1.0}
    assert found["tau"] == 2.0


def test_no_average_is_averaged():
    """Means over all records, not over the means of two halves of unequal size."""
    fast = [record(side([4], 1, 1), side([1] * 4, 1, 4), i) for i in range(3)]
    slow = [record(side([1] * 9, 1, 9), side([1] * 9, 1, 9), 9)]
    whole, halves = frame(*fast, *slow), (frame(*fast), frame(*slow))
    assert metrics.tau(whole) == 1 + (3 * 3 + 0) / 4 != np.mean([metrics.tau(half) for half in halves])
    assert metrics.tau_pooled(whole) == 21 / 12 != np.mean([metrics.tau_pooled(half) for half in halves])
    assert metrics.ms_per_token(whole, "method") == pytest.approx(12 / 21)
    assert metrics.speedup(whole, "decode").mean == pytest.approx((3 * 4 + 1) / 4)


def test_accepted_and_committed_are_both_exported():
    found = summarise(frame(record(side([3, 2], 1, 1, accepted=[3, 1]), side([1] * 5, 1, 5))))
    assert (found["accepted"], found["committed"], found["new_tokens"]) == (4, 5, 6)
