"""Gains of the rungs: paired on the input, read against their noise, set beside the published ones."""

import numpy as np
import pandas as pd
import pytest

from analysis import ladder
from analysis.cells import GENERATED, REAL, Cell, read, walk
from analysis.published import FOUR_SETS, GAINS
from tests.cells import record, records, rung_options, write

SUBSET = {"per_topic": 20}


def cell_of(tmp_path, name: str, lines: list[dict]) -> Cell:
    return read(write(tmp_path / name, lines))


def climb(root, speedups: dict[str, float], n: int = 30, wobble: float = 0, **kind) -> None:
    """Cells of rungs, each with its predecessor among those given, whose inputs vary by `wobble` more each."""
    previous = None
    for k, (rung, speedup) in enumerate(speedups.items()):
        lines = records(n, speedup, spread=0.02 + wobble * k)
        write(root, lines, rung=rung, predecessor=previous, options=rung_options(rung), **kind)
        previous = rung


def line(frame: pd.DataFrame, rung: str, **where) -> pd.Series:
    found = frame[(frame.rung == rung) & frame.inputs.notna()]
    for key, value in where.items():
        found = found[found[key] == value]
    assert len(found) == 1
    return found.iloc[0]


def test_a_gain_is_the_mean_of_ratios_of_rates_input_by_input(tmp_path):
    before = cell_of(tmp_path, "before", [record(0, [2], 1.0), record(1, [2], 2.0)])
    after = cell_of(tmp_path, "after", [record(0, [2], 1.1), record(1, [2], 2.6)])
    assert ladder.gain(before, after).gain.tolist() == pytest.approx([10, 30])


def test_inputs_that_one_side_lacks_are_left_out(tmp_path):
    before = cell_of(tmp_path, "before", [record(i, [2], 1.0) for i in (0, 1, 2)])
    after = cell_of(tmp_path, "after", [record(i, [2], 1.5) for i in (2, 0)])
    gains = ladder.gain(before, after)
    assert gains.gain.tolist() == pytest.approx([50, 50])


def test_two_contracts_make_no_pair(tmp_path):
    before = cell_of(tmp_path, "before", [record(0, [2], 1.0)])
    after = cell_of(tmp_path, "after", [record(0, [2], 1.0, contract="other")])
    with pytest.raises(ValueError, match="contracts differ in contract in 1 of 1 requests, first in row row-0, turn 0"):
        ladder.gain(before, after)


def test_the_ladder_reads_from_its_first_rung_up_and_names_each_change(tmp_path):
    climb(tmp_path, {"fixed_unigram": 1.0, "best_first_unigram": 1.05, "backoff": 1.06, "uniform": 1.06})
    frame = ladder.frame(walk(tmp_path))
    ours = frame[frame.inputs.notna()]
    assert ours.rung.tolist() == ["fixed_unigram", "best_first_unigram", "backoff", "uniform"]
    assert ours.change.fillna("").tolist() == ["", "expansion=best_first", "fusion=backoff", "fusion=mixture"]
    assert ours.gain.tolist()[1:] == pytest.approx([5.0, 100 * (1.06 / 1.05 - 1), 0.0])
    assert np.isnan(ours.gain.tolist()[0])


def test_a_gain_whose_interval_holds_zero_is_noise(tmp_path):
    climb(tmp_path, {"uniform": 1.0})
    noisy = [record(i, [2, 4], 1.0 + (0.2 if i % 2 else -0.19)) for i in range(30)]
    write(tmp_path, noisy, rung="priors", predecessor="uniform", options=rung_options("priors"))
    write(tmp_path, records(30, 0.5), rung="confidence", predecessor="priors", options=rung_options("confidence"))
    frame = ladder.frame(walk(tmp_path))
    assert line(frame, "priors").reading == "within noise"
    assert line(frame, "confidence").reading == "slower"


def test_a_gain_over_a_handful_of_inputs_is_not_read(tmp_path):
    climb(tmp_path, {"fixed_unigram": 1.0, "best_first_unigram": 1.5}, n=4)
    assert line(ladder.frame(walk(tmp_path)), "best_first_unigram").reading == "too few inputs"


def test_a_predecessor_on_another_stream_or_setting_is_none(tmp_path):
    write(tmp_path, records(12, 1.0), rung="uniform", options=rung_options("uniform"), max_new_tokens=64)
    write(tmp_path, records(12, 1.1), rung="priors", predecessor="uniform", options=rung_options("priors"))
    assert np.isnan(line(ladder.frame(walk(tmp_path)), "priors").gain)


def test_ladders_at_two_budgets_stay_apart(tmp_path):
    for budget in (31, 63):
        for speedup, rung, previous in ((1.0 + budget / 100, "uniform", None), (2.0, "priors", "uniform")):
            options = rung_options(rung) | {"budget": budget}
            write(tmp_path, records(12, speedup), rung=rung, predecessor=previous, options=options)
    frame = ladder.frame(walk(tmp_path))
    for budget in (31, 63):
        ours = line(frame, f"priors (budget={budget})")
        assert ours.change == "priors=specificity"
        assert ours.gain == pytest.approx(100 * (2.0 / (1.0 + budget / 100) - 1))


def test_complete_cells_of_the_papers_model_stand_beside_the_published_gain(tmp_path):
    kind = {"model": "qwen", "bench": "mmspec", "source": "local-1", "bench_options": SUBSET}
    climb(tmp_path, {"fixed_unigram": 1.0, "best_first_unigram": 1.049, "backoff": 1.2}, n=120, wobble=0.02, **kind)
    frame = ladder.frame(walk(tmp_path))
    for rung, published, verdict in (("best_first_unigram", 4.90, "reproduced"), ("backoff", 3.03, "differs")):
        assert line(frame, rung).published == published
        assert line(frame, rung).verdict == verdict
    answered = set(frame[frame.verdict == "not run"].rung)
    assert not answered & {"best_first_unigram", "backoff"} and "uniform" in answered


@pytest.mark.parametrize(
    "flaw",
    [
        {"n": 119},
        {"bench_options": {"per_topic": 4}},
        {"source": "fixtures-1"},
        {"source": None},
        {"device": "cpu"},
        {"max_new_tokens": 64},
        {"model": "tiny_qwen"},
    ],
    ids=str,
)
def test_anything_less_is_not_run(tmp_path, flaw):
    kind = {"model": "qwen", "bench": "mmspec", "source": "local-1", "bench_options": SUBSET, "n": 120}
    climb(tmp_path, {"fixed_unigram": 1.0, "best_first_unigram": 1.049}, **(kind | flaw))
    frame = ladder.frame(walk(tmp_path))
    assert np.isnan(line(frame, "best_first_unigram").published)
    assert set(frame[frame.published.notna()].verdict) == {"not run"}
    assert len(frame[frame.verdict == "not run"]) == len(GAINS)


def test_a_control_pools_its_four_sets(tmp_path):
    for bench, better in zip(FOUR_SETS, (1.0, 1.0, 1.01, 1.01), strict=True):
        kind = {"model": "qwen", "bench": bench, "source": "hub@1"}
        climb(tmp_path, {"persistent_m1": 1.0, "suffix": better}, n=100, **kind)
    ours = line(ladder.frame(walk(tmp_path)), "suffix", scope=", ".join(FOUR_SETS))
    assert (ours.inputs, ours.published) == (400, 0.61)
    assert ours.gain == pytest.approx(0.5) and ours.verdict == "differs"


def test_persistence_is_the_mean_over_five_orders(tmp_path):
    for order in range(5):
        kind = {"model": "qwen", "bench": "mmspec", "source": "local-1", "bench_options": SUBSET | {"order": order}}
        climb(tmp_path, {"confidence": 1.0, "persistent_m1": 1.04 + order / 100}, n=120, **kind)
    frame = ladder.frame(walk(tmp_path))
    ours = line(frame, "persistent_m1")
    assert ours.scope == "mmspec, 5 shuffled orders" and ours.data == REAL
    assert ours.gain == pytest.approx(6.0) and ours.published == 5.42


def test_one_input_in_five_orders_is_one_cluster(tmp_path):
    for order in range(5):
        climb(tmp_path, {"confidence": 1.0, "persistent_m1": 1.1}, n=4, bench_options={"order": order})
    ours = line(ladder.frame(walk(tmp_path)), "persistent_m1")
    assert ours.reading == "too few inputs"


def test_gains_on_generated_inputs_are_marked_so(tmp_path):
    climb(tmp_path, {"fixed_unigram": 1.0, "best_first_unigram": 1.049}, bench="chartqa", source="fixtures-1")
    assert line(ladder.frame(walk(tmp_path)), "best_first_unigram").data == GENERATED
