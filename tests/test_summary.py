"""The tables at the end of a run: what they say, and that they can be read."""

import numpy as np
import pytest

from analysis.summary import NOISE, summarise, table
from tests.records import frame, record, side, sound


def summary(records: list[dict], method: str = "recap") -> dict:
    return {"method": method} | summarise(frame(*records))


def test_there_is_a_line_for_ar_and_one_a_method_the_fastest_first():
    lines = table([summary(sound(speedup=1.2), "rival"), summary(sound(), "recap")]).splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["ar", "recap", "rival"]
    assert "5/5" in lines[3]


def test_a_peer_is_labelled():
    assert "hf (peer)" in table([summary(sound(), "hf") | {"peer": {"cache": "DynamicCache"}}])


def test_an_effect_whose_interval_holds_none_is_printed_as_within_noise():
    mixed = [record(side([2, 2], 1, t), side([1] * 4, 1, 4), i) for i, t in enumerate([3, 4, 5, 4.1, 3.9])]
    found = summary(mixed)
    low, high = (found["speedup"]["decode_only"][name] for name in ("ci_low", "ci_high"))
    assert found["speedup"]["decode_only"]["within_noise"] and low < 1 < high
    assert f"[{low:.2f}, {high:.2f}]~" in table([found])
    assert table([found]).endswith(NOISE)


def test_a_clear_effect_is_not():
    found = summary([record(side([2, 2], 1, t), side([1] * 4, 1, 4), i) for i, t in enumerate([2, 2.2, 2.4, 2.1, 2.3])])
    assert not found["speedup"]["decode_only"]["within_noise"]
    assert "~" not in table([found]).splitlines()[3]


def test_too_few_inputs_leave_no_interval_and_say_so_by_leaving_it_out():
    found = summary(sound(4))
    assert found["speedup"]["decode_only"]["ci_low"] is None and found["speedup"]["decode_only"]["within_noise"]
    assert "nan" not in table([found])


def test_accuracy_of_both_sides_and_the_answers_that_differ_are_told():
    pairs = [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.5, 0.5)]
    records = [
        record(side([2, 2], 1, 2, score=ours), side([1] * 4, 1, 4, score=plain), i, "equal" if ours == plain else "tie")
        for i, (ours, plain) in enumerate(pairs)
    ]
    found = summary(records)
    assert found["score"] == {"method": 0.625, "ar": 0.625, "differ": 2, "of": 4}
    assert found["answers_differ"] == 2
    assert table([found]).splitlines()[3].split()[-4:] == ["2/4", "0.625", "2", "1"]


def test_a_run_without_references_scores_nothing():
    found = summary(sound())
    assert found["score"] == {"method": None, "ar": None, "differ": None, "of": 0}
    assert table([found]).splitlines()[2].endswith("n/a")


@pytest.mark.parametrize("name", ["recap", "token_recycling_seeded", "a_method_with_a_name_of_40_characters____"])
def test_no_line_is_wider_than_140_columns(name):
    rng = np.random.default_rng(0)
    records = [
        record(side([2, 2], 200, 900 * t, score=0.5), side([1] * 4, 210, 890, score=1.0), i)
        for i, t in enumerate(rng.uniform(0.5, 1.5, 100))
    ]
    for it in records:
        it["method"]["drafted"] = [99, 2000, 300, 40, 500, 60, 70, 80, 90, *[0] * 7]
    found = summary(records, name) | {"peer": {"cache": "DynamicCache"}, "turns": 1000}
    found["verdict"]["equal"] = found["score"]["differ"] = 1000
    assert max(map(len, table([found]).splitlines())) <= 140


def test_the_trend_by_input_index_is_printed():
    learning = [record(side([1] * 4 + [2] * i, 1, 1), side([1] * 9, 1, 9), i) for i in range(5)]
    found = summary(learning)
    slope = found["acceptance"]["trend_per_100_inputs"]
    assert slope["mean"] > 0
    assert f"{slope['mean']:.2f} [{slope['ci_low']:.2f}, {slope['ci_high']:.2f}]" in table([found])
