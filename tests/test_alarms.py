"""Alarms: what a reader must know before believing the numbers. Each has a run that raises it and one that does not."""

import pytest

from analysis import metrics
from analysis.alarms import alarms
from analysis.summary import summarise
from tests.records import frame, record, side, sound

QUIET = {"cores": 4, "other_work": 0.1, "throttled": []}
UNKNOWN = {"cores": 4, "other_work": None, "throttled": None}


def raised(*records: dict, machine: dict | None = None) -> list[str]:
    data = frame(*records)
    return alarms(data, metrics.efficiency(data), machine)


@pytest.mark.parametrize("machine", [None, QUIET, UNKNOWN])
def test_a_sound_run_raises_none(machine):
    assert raised(*sound(), machine=machine) == []
    assert summarise(frame(*sound()), machine)["alarms"] == []


def test_an_efficiency_wholly_above_one_is_told():
    fast = [record(side([1] * 4, 1, 2), side([1] * 4, 1, 4), i) for i in range(5)]
    assert raised(*fast) == ["efficiency above 1: AR was held up, or something is counted twice"]


def test_an_efficiency_whose_interval_holds_one_is_not():
    mixed = [record(side([2, 2], 1, t), side([1] * 4, 1, 4), i) for i, t in enumerate([1.6, 1.8, 1.9, 2.2, 2.4])]
    assert raised(*mixed) == []


def test_differing_outputs_and_token_counts_are_told():
    one = record(side([2, 3], 1, 2), side([1] * 4, 1, 4), 99, verdict="unknown")
    assert raised(*sound(19), one) == [
        "1 of 20 outputs differ from AR's",
        "token counts differ within a pair in 1 of 20 requests",
    ]


@pytest.mark.parametrize("slow,told", [(1, []), (2, ["20% of inputs decode slower than AR"])])
def test_more_than_a_tenth_of_slow_inputs_is_told(slow, told):
    held_up = [record(side([2, 2], 1, 5), side([1] * 4, 1, 4), 20 + i) for i in range(slow)]
    assert raised(*sound(10 - slow), *held_up) == told


def test_one_token_answers_are_neither_slow_nor_fast():
    short = [record(side([], 1, 0), side([], 1, 0), 20 + i) for i in range(8)]
    slow = [record(side([2, 2], 1, 5), side([1] * 4, 1, 4), 40)]
    assert raised(*sound(1), *slow, *short) == ["50% of inputs decode slower than AR"]


def test_a_prompt_seen_earlier_in_the_stream_is_told():
    again = record(side([2, 2], 1, 2.5), side([1] * 4, 1, 4), 9, image="image-0")
    assert raised(*sound(), again) == ["1 prompts occurred earlier in the stream: memories were warm for them"]


def test_another_question_to_an_image_is_no_repeated_prompt():
    other = record(side([2, 2], 1, 2.5), side([1] * 4, 1, 4), 9, image="image-0") | {"prompt": "q"}
    assert raised(*sound(), other) == []


@pytest.mark.parametrize("share,told", [(1.01, []), (1.05, ["phases of method miss the measured window by 4.8%"])])
def test_phases_that_do_not_add_up_to_the_measured_window_are_told(share, told):
    records = sound()
    for it in records:
        for name, factor in (("ar", 1), ("method", share)):
            it[name]["window_ns"] = round(factor * sum(it[name]["phases_ns"].values()))
    assert raised(*records) == told


def test_phases_too_long_and_too_short_do_not_cancel():
    records = sound(4)
    for i, it in enumerate(records):
        for name in ("ar", "method"):
            it[name]["window_ns"] = round((0.9, 1.1)[i % 2] * sum(it[name]["phases_ns"].values()))
    assert len(raised(*records)) == 2


def test_other_work_on_the_machine_is_told():
    busy = QUIET | {"other_work": 1.27}
    assert raised(*sound(), machine=busy) == ["other work on the machine: it kept 1.3 of 4 cores busy"]


def test_slowed_clocks_are_told():
    slow = QUIET | {"throttled": ["power cap", "power brake"]}
    assert raised(*sound(), machine=slow) == ["the device slowed its clocks: power cap, power brake"]
