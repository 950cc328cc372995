"""Ratios by hand: equation 9, equation 10, and what is left out of them."""

import numpy as np
import pandas as pd
import pytest

from analysis import metrics
from analysis.load import flatten
from analysis.summary import alarms, summarise, table


def side(committed: list[int], prefill_ms: float, decode_ms: float, place: int = 0) -> dict:
    """A side whose steps committed the given numbers of tokens."""
    phases = dict.fromkeys(("vision", "prefill", "draft", "verify", "commit", "observe", "other"), 0)
    phases |= {"prefill": int(prefill_ms * 1e6), "verify": int(decode_ms * 1e6)}
    accepted = [c - 1 for c in committed]
    return {
        "tokens": list(range(1 + sum(committed))), "nodes": [4] * len(committed), "agreed": accepted,
        "accepted": accepted, "committed": committed, "sources": [1] * sum(accepted), "place": place,
        "phases_ns": phases, "window_ns": sum(phases.values()), "score": None,
        "verify_ns": [phases["verify"] // len(committed)] * len(committed) if committed else [],
    }  # fmt: skip


def record(method: dict, ar: dict, index: int = 0, verdict: str = "equal", image: str = "") -> dict:
    return {
        "index": index, "row": f"row-{index}", "turn": 0, "category": "c", "contract": "h", "prompt": "p",
        "images": image or f"image-{index}", "prompt_tokens": 10, "visual_tokens": 4,
        "verdict": {"kind": verdict, "at": -1, "expected": -1, "found": -1}, "ar": ar, "method": method,
    }  # fmt: skip


def frame(*records: dict) -> pd.DataFrame:
    return pd.DataFrame([flatten(r) for r in records])


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
    s = metrics.speedup(data, "window")
    assert s.mean == pytest.approx(1.5)
    assert s.ratio_of_rates == pytest.approx((2.5 + 1) / (1.25 + 1))
    assert s.total_rate == pytest.approx((15 / 12) / (15 / 14))
    assert s.total_wall == pytest.approx(14 / 12)


def test_efficiency_is_decode_only_speedup_over_tau():
    data = frame(record(side([2, 2], 1, 3), side([1] * 4, 1, 4)))
    assert metrics.efficiency(data)[0] == pytest.approx((4 / 3) / 2)


def test_decode_milliseconds_do_not_count_the_token_that_prefill_emits():
    data = frame(record(side([1] * 5, 1, 10), side([1] * 5, 1, 20)))
    assert metrics.ms_per_token(data, "method") == pytest.approx(2.0)
    assert metrics.ms_per_token(data, "ar") == pytest.approx(4.0)


def test_an_efficiency_wholly_above_one_raises_an_alarm():
    data = frame(*[record(side([1] * 4, 1, 2), side([1] * 4, 1, 4), i) for i in range(5)])
    assert any("efficiency above 1" in a for a in alarms(data, metrics.efficiency(data)[1]))


def test_slow_inputs_and_differing_outputs_raise_alarms():
    slow = [record(side([1] * 4, 1, 8), side([1] * 4, 1, 4), i, verdict="unknown") for i in range(5)]
    found = alarms(frame(*slow), 0.5)
    assert any("100% of inputs decode slower" in a for a in found)
    assert any("5 of 5 outputs differ" in a for a in found)


def test_a_sound_run_raises_none():
    data = frame(*[record(side([2, 2], 1, 2.5), side([1] * 4, 1, 4), i) for i in range(5)])
    assert summarise(data)["alarms"] == []


def test_the_table_has_a_line_for_ar_and_one_a_method():
    data = frame(record(side([2, 2], 1, 2.5), side([1] * 4, 1, 4)))
    lines = table([{"method": "recap"} | summarise(data), {"method": "rival"} | summarise(data)]).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["ar", "recap", "rival"]
    assert "1/1" in lines[3]


def test_a_run_without_references_scores_not_a_number_but_nothing():
    data = frame(record(side([2], 1, 1), side([1, 1], 1, 2)))
    assert summarise(data)["score"] == {"method": None, "ar": None}


def test_speedup_of_only_one_token_answers_is_not_a_number():
    data = frame(record(side([], 1, 0), side([], 1, 0)))
    assert np.isnan(metrics.speedup(data, "decode").mean)
