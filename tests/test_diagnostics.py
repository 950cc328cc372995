"""From counts to shares: what is divided by what, what is paired, what weighs the same."""

import numpy as np
import pandas as pd
import pytest

from analysis.diagnostics import (
    alignment,
    difference_table,
    load_table,
    recall_table,
    root_table,
    source_table,
    swapped_table,
    tau_table,
)


def counts(*lines) -> pd.DataFrame:
    """(row, source, states, covered, hits); every row is its own cluster."""
    frame = pd.DataFrame(lines, columns=["row", "source", "states", "covered", "hits"])
    return frame.assign(model="m", bench="b", turn=0, cluster=frame.row)


def only(frame: pd.DataFrame, **where) -> pd.Series:
    for name, value in where.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_coverage_is_of_states_and_conditional_recall_of_covered_states():
    line = recall_table(counts(("r", "M1", 10, 4, 3), ("s", "M1", 30, 16, 7))).iloc[0]
    assert line.coverage == pytest.approx(20 / 40)
    assert line.conditional == pytest.approx(10 / 20)
    assert line.recall == pytest.approx(10 / 40)
    assert np.isnan(line.coverage_low), "two requests leave no interval"


def test_a_source_that_knows_nothing_has_no_conditional_recall():
    line = recall_table(counts(("r", "M3", 10, 0, 0))).iloc[0]
    assert line.coverage == 0 and np.isnan(line.conditional)


def test_differences_are_paired_so_what_all_requests_share_has_no_interval():
    frame = counts(*[(f"r{i}", s, 10, 10 - (s == "M2") * 5, 2 * i) for i in range(5) for s in ("M1", "M2")])
    line = only(difference_table(frame, [("M2", "M1")]), source="M2")
    assert (line.coverage, line.coverage_low, line.coverage_high) == (-50, -50, -50)
    assert (line.recall, line.recall_low, line.recall_high) == (0, 0, 0)
    assert line.conditional == pytest.approx(100 * (20 / 25 - 20 / 50))


def test_the_gain_over_a_swapped_image_is_in_points_of_all_states():
    frame = counts(*[(f"r{i}", "M1", 50, 40, 30 - 10 * (i % 2)) for i in range(6)]).assign(hits_swapped=20)
    line = swapped_table(frame).iloc[0]
    assert (line.recall, line.recall_swapped, line.gain) == (0.5, 0.4, 10)
    assert 0 <= line.gain_low < 10 < line.gain_high <= 20 and line.images == 6


def roots(bench: str, accepted: int, wrong, mean) -> pd.DataFrame:
    frame = pd.DataFrame({"wrong": wrong, "mean": mean}, dtype=bool)
    return frame.assign(model="m", bench=bench, accepted=accepted, cluster=[f"{bench}{i}" for i in range(len(frame))])


def test_changed_roots_weigh_each_benchmark_equally_and_either_counts_a_change_by_any_image():
    frame = pd.concat(
        [
            roots("a", 0, [1, 0, 0, 0], [0, 1, 0, 0]),
            roots("b", 0, [1], [1]),
            roots("a", 5, [0], [0]),
            roots("a", 9, [1], [0]),
        ]
    )
    table = root_table(frame)
    assert only(table, image="wrong", accepted="0").changed == pytest.approx((1 / 4 + 1) / 2)
    assert only(table, image="either", accepted="0").changed == pytest.approx((2 / 4 + 1) / 2)
    assert only(table, image="wrong", accepted="5+").changed == 0.5
    assert set(table.accepted) == {"0", "5+"}


def drops(bench: str, scores) -> pd.DataFrame:
    """States whose M2/M3 support is the score, M1's support 0, and that accept the score's sign."""
    scores = np.asarray(scores, float)
    return pd.DataFrame(
        {
            "model": "m", "bench": bench, "cluster": [f"{bench}{i}" for i in range(len(scores))],
            "specific_drop_wrong": scores, "specific_drop_mean": scores + 5,
            "general_drop_wrong": 7.0, "general_drop_mean": 0.0,
            "specific_accepted": (scores > 0).astype(int), "general_accepted": (scores < 0).astype(int),
        }
    )  # fmt: skip


def test_alignment_is_the_smaller_drop_of_either_source_ranked_in_five_bins_of_each_benchmark():
    frame = alignment(pd.concat([drops("a", range(-5, 5)), drops("b", [100, 200, 300, 400, 500])]))
    assert frame.score.tolist()[:10] == list(range(-5, 5))
    assert frame.bin.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 1, 2, 3, 4, 5]


def test_the_outcome_of_a_bin_is_m2_and_m3s_accepted_tokens_minus_m1s():
    table = source_table(drops("a", range(-5, 5)))
    assert table.difference.tolist() == [-1, -1, -0.5, 1, 1]
    assert table.states.tolist() == [2] * 5


def test_tau_of_a_replay_averages_requests_and_counts_what_was_not_known():
    frame = pd.DataFrame(
        {
            "model": "m", "bench": "b", "row": ["r", "s", "t"], "cluster": ["r", "s", "t"], "steps_method": [2, 4, 0],
            "committed_method": [6, 4, 0], "nodes_method": [20, 40, 0], "unknown": [10, 30, 0],
        }
    )  # fmt: skip
    line = tau_table(frame).iloc[0]
    assert line.tau == pytest.approx(1 + (2 + 0) / 2) and line.pooled == pytest.approx(10 / 6)
    assert (line.requests, line.nodes, line.unknown) == (3, 60, 40)


def test_two_models_are_told_apart_and_two_cells_of_one_are_refused(tmp_path):
    frame = counts(("r", "M1", 10, 4, 3), ("r", "M2", 10, 2, 2))
    for folder, model in (("x", "m"), ("y", "other"), ("z", "m")):
        (tmp_path / folder).mkdir()
        frame.assign(model=model).to_parquet(tmp_path / folder / "recall.parquet")
        if folder == "y":
            both = load_table(tmp_path, "recall")
            assert recall_table(both).states.tolist() == [10] * 4
            assert difference_table(both, [("M2", "M1")]).coverage.tolist() == [-20, -20]
    with pytest.raises(ValueError, match=r"x and .*z are of one model and benchmark"):
        load_table(tmp_path, "recall")


def test_a_missing_table_names_the_command_that_makes_it(tmp_path):
    for name, module in (("recall", "runners.replay"), ("roots", "runners.counterfactual")):
        with pytest.raises(ValueError, match=f"no {name}.parquet below it; run `python -m {module}"):
            load_table(tmp_path, name)
