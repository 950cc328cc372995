"""The step cost, what it implies, and the ledger that prints and draws it."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis import bars, ledger, metrics
from analysis.cost import passes, step_cost
from analysis.load import load
from analysis.summary import summarise
from runners.cell import run
from tests.conftest import SOAK
from tests.records import frame, record, side
from tests.test_cell import cell

A, B = 5.0, 0.25  # ms a pass, ms a node


def timed(nodes: list[int], committed: list[int], beside_ms: float = 0.0, noise=None) -> dict:
    """A side whose passes take A + B * nodes and noise, and whose steps spend `beside_ms` on drafting too."""
    ms = [A + B * n + (noise.normal(0, 0.5) if noise else 0) for n in nodes]
    made = side(committed, 1, sum(ms))
    made["phases_ns"]["draft"] = int(beside_ms * 1e6 * len(nodes))
    made |= {"nodes": nodes, "verify_ns": [int(x * 1e6) for x in ms], "window_ns": sum(made["phases_ns"].values())}
    return made


def stream(requests: int = 30, beside_ms: float = 0.0, noisy: bool = False, largest: int = 64):
    """Requests of four steps that commit three tokens each, under trees of all sizes; AR commits the same alone."""
    rng = np.random.default_rng(0)
    noise = rng if noisy else None
    return frame(
        *[
            record(
                timed([0, *rng.integers(1, largest, 3).tolist()], [3] * 4, beside_ms, noise),
                timed([0] * 12, [1] * 12, 0.0, noise),
                index,
            )
            for index in range(requests)
        ]
    )


def total_rate(data) -> float:
    """Decode-only speedup, all tokens over all time."""
    rates = (data[f"committed_{who}"].sum() / data[f"decode_{who}"].sum() for who in ("method", "ar"))
    return next(rates) / next(rates)


def test_a_and_b_are_recovered_from_passes_that_follow_them():
    cost = step_cost(stream())
    assert (cost.a_ms, cost.b_ms_per_node) == (pytest.approx(A, rel=1e-4), pytest.approx(B, rel=1e-4))
    assert (cost.passes, cost.plain) == (30 * 16, 30 * 13)


def test_the_intervals_hold_a_and_b_where_passes_are_noisy():
    cost = step_cost(stream(noisy=True))
    assert cost.a_interval[0] < A < cost.a_interval[1]
    assert cost.b_interval[0] < B < cost.b_interval[1]
    assert cost.b_interval[1] - cost.b_interval[0] < 0.1 * B


def test_the_fit_is_least_squares():
    data = stream(noisy=True)
    table = passes(data)
    b, a = np.polyfit(table.nodes, table.ms, 1)
    cost = step_cost(data)
    assert (cost.a_ms, cost.b_ms_per_node) == (pytest.approx(a), pytest.approx(b))


def test_passes_without_a_draft_and_ars_own_are_at_no_nodes():
    table = passes(stream(requests=1))
    assert (table[table.side == "ar"].nodes == 0).all()
    assert table[table.side == "method"].nodes.tolist()[0] == 0
    assert len(table) == 16


def test_one_size_of_pass_gives_a_and_no_slope():
    cost = step_cost(frame(record(timed([0, 0], [1, 1]), timed([0, 0], [1, 1]))))
    assert cost.a_ms == pytest.approx(A)
    assert np.isnan(cost.b_ms_per_node)


def test_a_peers_passes_are_not_fitted_since_their_nodes_are_unknown():
    peer = timed([8, 8], [3, 3]) | {"nodes": []}
    cost = step_cost(frame(record(peer, timed([0] * 6, [1] * 6))))
    assert (cost.passes, cost.plain) == (6, 6)
    assert cost.break_even_tau == pytest.approx((A + 8 * B) / A)


def test_break_even_is_the_mean_step_over_ars_time_a_token():
    data = stream(beside_ms=1.0)
    assert step_cost(data).break_even_tau == pytest.approx(metrics.ms_per_step(data) / metrics.ms_per_token(data, "ar"))


@pytest.mark.parametrize("margin,slower", [(0.99, True), (1.01, False)])
def test_a_tau_below_break_even_is_warned_of_and_just_above_is_not(margin, slower):
    committed = 2  # a step; AR's token takes A, so a step of 2 * A breaks even
    nodes = (2 * A / margin - A) / B
    method = timed([nodes] * 4, [committed] * 4)
    data = frame(record(method, timed([0] * 8, [1] * 8)))
    assert step_cost(data).break_even_tau == pytest.approx(2 / margin)
    warned = [alarm for alarm in summarise(data)["alarms"] if "below break-even" in alarm]
    assert bool(warned) == slower
    assert (total_rate(data) < 1) == slower


def test_tau_over_break_even_is_the_decode_only_speedup_of_all_tokens_over_all_time():
    data = stream(beside_ms=1.0, noisy=True)
    assert step_cost(data).speedup == pytest.approx(total_rate(data))


def test_the_limit_is_tau_times_a_plain_pass_over_a_mean_one():
    cost = step_cost(stream(beside_ms=2.0))
    assert cost.limit == pytest.approx(3 * A / cost.verify_ms)
    assert cost.summary()["limit_share"] == pytest.approx(cost.verify_ms / (cost.verify_ms + 2.0))


def test_without_any_work_beside_the_passes_the_limit_is_reached():
    assert step_cost(stream()).summary()["limit_share"] == pytest.approx(1.0)


def test_a_predicted_step_is_its_fitted_pass_and_what_a_step_spends_beside_it():
    cost = step_cost(stream(beside_ms=2.0))
    assert cost.predicted_step_ms(40) == pytest.approx(A + 40 * B + 2.0, rel=1e-3)
    assert cost.tau_needed(40) == pytest.approx((A + 40 * B + 2.0) / A, rel=1e-3)
    assert cost.tau_needed(40, 1.5) == pytest.approx(1.5 * cost.tau_needed(40))


def test_requests_without_a_step_are_left_out():
    data = stream(requests=2)
    more = frame(record(side([], 5, 0), side([], 5, 0), 2))
    assert step_cost(pd.concat([data, more], ignore_index=True)) == step_cost(data)


def test_a_run_of_only_one_token_answers_has_no_cost():
    cost = step_cost(frame(record(side([], 5, 0), side([], 5, 0))))
    assert np.isnan(cost.a_ms) and np.isnan(cost.break_even_tau)
    assert cost.alarms() == []


def test_the_summary_holds_the_ledger():
    kept = summarise(stream(beside_ms=1.0))["ledger"]
    assert set(kept) == {"a_ms", "b_ms_per_node", "break_even_tau", "limit_share"}


# Printed and drawn


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A results root with two methods' cells."""
    out = tmp_path_factory.mktemp("out")
    it = cell(out, "limit=2", "max_new_tokens=24", versus=("token_recycling",))
    run(it)
    return out, it


def test_the_ledger_of_a_root_prints_every_cell_and_draws_one_figure(root, capsys):
    out, _ = root
    ledger.main([str(out)])
    printed = capsys.readouterr().out
    assert "tiny_qwen on synthetic: recap, " in printed and "tiny_qwen on synthetic: token_recycling, " in printed
    for word in ("a + b * n", "Break-even tau", "share of it reached", "tau for 1.0x", "tau for 1.5x", *metrics.PHASES):
        assert printed.count(word) >= 2, word
    assert (out / "ledger.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "ledger.pdf").read_bytes().startswith(b"%PDF")


def test_the_figure_of_a_cell_lies_beside_it_or_where_asked(root, tmp_path):
    _, it = root
    ledger.main([str(it.folder("recap"))])
    assert (it.folder("recap") / "ledger.png").is_file()
    ledger.main([str(it.folder("recap")), "--out", str(tmp_path / "figures")])
    assert (tmp_path / "figures" / "ledger.pdf").is_file()


def test_the_bars_are_milliseconds_an_emitted_token_ar_first_and_methods_by_speed():
    data = stream(beside_ms=1.0)
    slow = data.assign(verify_ns_method=data.verify_ns_method * 9)
    drawn = bars.bars({"slow": slow, "quick": data})
    assert list(drawn) == ["AR", "quick", "slow"]
    assert sum(drawn["quick"].values()) == pytest.approx(data.window_method.sum() / 1e6 / data.tokens_method.sum())


def test_two_ar_runs_are_two_bars():
    data = stream()
    other = data.assign(verify_ns_ar=data.verify_ns_ar * 2)
    assert list(bars.bars({"one": data, "two": other})) == ["AR (beside one)", "AR (beside two)", "one", "two"]


def test_two_settings_of_one_method_are_told_apart(tmp_path):
    folders = [tmp_path / "m" / "b" / name for name in ("recap-1234", "recap-5678", "ar-9999")]
    assert list(ledger.named(folders)) == [("m on b", "recap-1234"), ("m on b", "recap-5678"), ("m on b", "ar")]


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"no records\.jsonl there or below"):
        ledger.main([str(tmp_path)])


# A real run


@pytest.fixture(scope="module")
def real(root, tmp_path_factory):
    """The cell above, or in a soak one of 200 inputs."""
    _, it = root
    if SOAK:
        it = cell(tmp_path_factory.mktemp("long"), "limit=200")
        assert run(it) == 0
    return it


def test_phases_of_a_real_run_add_up_to_the_window_within_2_percent(real):
    data = load(real.folder("recap"))
    assert len(data) >= (200 if SOAK else 2)
    for who in ("ar", "method"):
        gap = (data[f"measured_{who}"] - data[f"window_{who}"]) / data[f"measured_{who}"]
        assert (gap >= 0).all()
        assert gap.median() < 0.02
        assert data[f"window_{who}"].sum() > 0.98 * data[f"measured_{who}"].sum()


def test_every_step_of_a_real_run_has_the_time_of_its_pass(real):
    for line in (real.folder("recap") / "records.jsonl").read_text().splitlines():
        for who in ("ar", "method"):
            data = json.loads(line)[who]
            assert len(data["verify_ns"]) == len(data["nodes"]) == len(data["committed"])
            assert all(type(ns) is int and ns > 0 for ns in data["verify_ns"])
            assert sum(data["verify_ns"]) == data["phases_ns"]["verify"]
            assert type(data["window_ns"]) is int
