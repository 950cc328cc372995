"""scripts/collect.py names exactly the cells that are not complete, and what completes them."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners.benches.synthetic import Synthetic
from runners.cell import run
from tests.scripted_cell import ended, forked, in_fork, scripted

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("collect", ROOT / "scripts" / "collect.py")
collect = importlib.util.module_from_spec(spec)
sys.modules["collect"] = collect  # dataclasses look their module up
spec.loader.exec_module(collect)


def verdicts(out: Path) -> dict[str, str]:
    return {cell.status.command: cell.verdict for cell in collect.collect(out)}


def stuck(*_):
    """An input that takes for ever."""
    time.sleep(60)


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Six cells: complete, never started, raising, killed, stopped by SIGUSR2, running."""
    cells = {
        name: scripted(tmp_path, "limit=2", f"method.budget={40 + k}", command=f"run {name}")
        for k, name in enumerate(("complete", "missing", "raising", "killed", "stopped", "running"))
    }
    for cell in cells.values():
        cell.queue()
    assert in_fork(cells["complete"]) == 0
    monkeypatch.setattr(Synthetic, "score", lambda *_: 1 / 0)
    assert ended(forked(lambda: run(cells["raising"]))) == 70  # an exception
    monkeypatch.setattr(Synthetic, "score", stuck)
    pids = {name: forked(lambda name=name: run(cells[name])) for name in ("killed", "stopped", "running")}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and sum(c.status.state == "running" for c in collect.collect(tmp_path)) < 3:
        time.sleep(0.05)
    os.kill(pids["killed"], signal.SIGKILL)
    os.kill(pids["stopped"], signal.SIGUSR2)
    assert ended(pids["killed"]) == -signal.SIGKILL
    assert ended(pids["stopped"]) == 128 + signal.SIGUSR2
    monkeypatch.undo()
    yield tmp_path, cells
    os.kill(pids["running"], signal.SIGKILL)
    ended(pids["running"])


def collected(out: Path, *options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "scripts/collect.py", str(out), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_sweep_is_judged_cell_by_cell_and_completed(sweep):
    out, cells = sweep
    expected = {
        "run complete": "complete", "run missing": "missing", "run raising": "failed", "run killed": "stale",
        "run stopped": "failed", "run running": "running",
    }  # fmt: skip
    assert verdicts(out) == expected
    done = collected(out)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "1 complete, 1 running, 1 missing, 2 failed, 1 stale"
    assert "Stopped: stopped by SIGUSR2" in done.stdout and "ZeroDivisionError" in done.stdout
    open_cells = {"missing", "raising", "killed", "stopped"}
    assert set(collected(out, "--rerun").stdout.splitlines()) == {f"run {name}" for name in open_cells}
    for name in open_cells:
        assert in_fork(cells[name]) == 0
    assert verdicts(out) == dict.fromkeys(expected, "complete") | {"run running": "running"}


def test_a_complete_sweep_has_exit_code_zero_and_an_empty_folder_two(tmp_path):
    assert in_fork(scripted(tmp_path / "out", "limit=1", methods=("recap", "token_recycling"))) == 0
    done = collected(tmp_path / "out")
    assert done.returncode == 0 and done.stdout.endswith("2 complete\n")
    assert collected(tmp_path / "out", "--rerun").stdout == ""
    assert collected(tmp_path).returncode == 0
    (tmp_path / "empty").mkdir()
    assert collected(tmp_path / "empty").returncode == 2


def test_a_queued_cell_that_cannot_start_says_why(tmp_path):
    cell = scripted(tmp_path, "temperature=0.5")
    cell.queue()
    with pytest.raises(ValueError):
        run(cell)
    assert [(c.verdict, c.status.error) for c in collect.collect(tmp_path)] == [
        ("failed", "ValueError: temperature=0.5: decoding is greedy; only temperature=0 is lossless")
    ]


def test_queueing_a_cell_leaves_a_finished_one_alone(tmp_path):
    cell = scripted(tmp_path, "limit=1", command="run it")
    assert in_fork(cell) == 0
    cell.queue()
    assert verdicts(tmp_path) == {"run it": "complete"}


def test_neither_queueing_nor_collecting_loads_torch():
    code = "import sys; import runners.cell, run; sys.argv=['x']; assert 'torch' not in sys.modules"
    path = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=path, check=True)
