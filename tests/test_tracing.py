"""Tracing stays outside the window, and a traced run whose time it changes is barred from speed tables."""

import sys
from pathlib import Path

import pytest

from analysis.summary import summarise, table
from analysis.tracing import Overhead, barred, overhead
from runners.cell import run
from runners.clock import Clock, HostClock
from tests.records import frame, record, side
from tests.test_cell import cell, lines, summary


def run_of(slower: float, hiccup: float = 0.0):
    """Ten requests that take `slower` times as long, the first of them with a pause on top."""
    return frame(
        *[
            record(side([2, 2], 1, 20 * slower + hiccup * (index == 0)), side([1] * 4, 1, 40 * slower), index)
            for index in range(10)
        ]
    )


@pytest.mark.parametrize("slower,out", [(1.01, False), (1.03, True), (0.97, True)])
def test_a_traced_run_is_barred_where_tracing_changes_total_time_by_more_than_2_percent(slower, out):
    measured = overhead([run_of(slower)], [run_of(1.0)])
    assert measured.mean == pytest.approx((62 * slower - 2 * slower + 2) / 62 - 1, abs=2e-3)
    assert bool(barred({"traced": True}, measured)) == out
    assert not barred({"traced": False}, measured)


def test_a_traced_run_whose_overhead_was_not_measured_is_barred():
    assert "not measured" in barred({"traced": True}, None)
    assert barred({"traced": True}, Overhead(0.001, -0.004, 0.006, 46)) == ""


def test_a_pause_in_one_of_several_interleaved_runs_is_no_overhead():
    measured = overhead([run_of(1.0, hiccup=500), run_of(1.0)], [run_of(1.0), run_of(1.0, hiccup=200)])
    assert measured.mean == 0


def test_runs_of_different_requests_are_not_compared():
    with pytest.raises(ValueError, match="different requests"):
        overhead([run_of(1.0)], [run_of(1.0).head(9)])


def test_a_traced_run_is_labelled_in_its_summary_and_in_the_table(tmp_path):
    for trace in ("true", "false"):
        it = cell(tmp_path / trace, f"trace={trace}", "limit=1", "max_new_tokens=4", "generate_check=0")
        run(it)
        assert summary(it)["traced"] == (trace == "true")
        for name in ("steps.jsonl", "inspect.jsonl"):
            assert (it.folder("recap") / name).exists() == (trace == "true")
        assert ("recap (traced)" in table([summary(it)])) == (trace == "true")
    assert "(traced)" not in table([summarise(run_of(1.0)) | {"method": "recap"}])


class Inside:
    """Names the Python files whose functions run inside the windows, and the built-in functions called there."""

    def __init__(self, monkeypatch) -> None:
        self.files: set[str] = set()
        self.builtins: set[str] = set()
        self.windows = 0
        start, stop = HostClock.start, HostClock.stop

        def opened(clock: Clock) -> None:
            self.windows += 1
            start(clock)
            sys.setprofile(self._see)

        def closed(clock: Clock):
            sys.setprofile(None)
            return stop(clock)

        monkeypatch.setattr(HostClock, "start", opened)
        monkeypatch.setattr(HostClock, "stop", closed)

    def _see(self, frame, event: str, called) -> None:
        if event == "call":
            self.files.add(frame.f_code.co_filename)
        elif event == "c_call":
            self.builtins.add(called.__qualname__)


def test_nothing_of_tracing_runs_inside_the_window(tmp_path, monkeypatch):
    inside = Inside(monkeypatch)
    it = cell(tmp_path, "trace=true", "limit=2", "max_new_tokens=6", "generate_check=0")
    run(it)
    assert len(lines(it.folder("recap") / "steps.jsonl")) > 0
    assert inside.windows >= 4, "AR and the method, twice"
    files = {Path(name).name for name in inside.files}
    assert {"decode.py", "drafter.py"} <= files, "what runs inside is seen"
    assert not files & {"records.py", "inspection.py", "encoder.py"}
    assert not {name for name in inside.builtins if "write" in name or name in ("open", "flush")}
