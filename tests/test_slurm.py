"""Sweeps on a real SLURM: one job array each, and whatever happens to its tasks, nothing finished is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.lines import read
from runners import status
from tests.cluster import (
    CELL,
    DESK,
    ROOT,
    SWEEP,
    Cluster,
    collected,
    folder_of,
    killed,
    lacking,
    measuring,
    python,
    started,
    until,
)
from tests.scripted_cell import timeless

pytestmark = pytest.mark.slurm
METHODS = ("token_recycling", "recap", "prompt_lookup")
CELLS = [f"{model}/{method}" for model in ("tiny_qwen", "tiny_llava") for method in METHODS]
SUBMIT = ("launch=slurm", "hydra.launcher.cpus_per_task=1", "hydra.launcher.array_parallelism=2")


@pytest.fixture(scope="module")
def cluster():
    if reason := lacking():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with started() as running:
        yield running


def launched(cluster: Cluster, out: Path, **more: str) -> subprocess.Popen:
    """The sweep, submitted by run.py, which waits for it."""
    command = [sys.executable, "run.py", "-m", *SWEEP, *CELL, *SUBMIT, f"out={out}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=cluster.environment | more, **pipes)


def array_of(out: Path) -> str:
    """The job array that a sweep was submitted as, once it is there."""

    def there() -> set[str]:
        return {path.name.split("_")[0] for path in (out / ".submitit").glob("*_[0-9]")}

    until(there, "the sweep to be submitted", within=60)
    (array,) = there()
    return array


def records(out: Path) -> dict[str, list]:
    """Every cell's records, times aside."""
    return {cell: [timeless(r) for r in read(folder_of(out, cell) / "records.jsonl")] for cell in CELLS}


@pytest.fixture(scope="module")
def undisturbed(cluster, tmp_path_factory):
    """The sweep as it should be: its folder and what run.py printed."""
    out = tmp_path_factory.mktemp("undisturbed")
    launcher = launched(cluster, out)
    printed, _ = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, printed
    return out, printed


def test_a_sweep_is_one_job_array_of_so_many_tasks_at_a_time(cluster, undisturbed):
    out, printed = undisturbed
    assert "6 of 6 cells complete" in printed
    assert collected(out) == dict.fromkeys(CELLS, "complete")
    job = cluster(f"scontrol show job {array_of(out)}")
    assert job.count("ArrayTaskId=") == 6 and "ArrayTaskThrottle=2" in job
    assert "TresPerNode=gres:gpu:1" in job and "Requeue=1" in job
    assert all(status.read(folder_of(out, cell)).restarts == 0 for cell in CELLS)


def test_cells_that_raise_are_killed_requeued_or_preempted_are_named_and_completed(cluster, undisturbed, tmp_path):
    raising, dying, requeued, preempted, *fine = CELLS
    out, faults = tmp_path / "out", tmp_path / "faults"
    faults.mkdir()
    for number, fault in enumerate(("raise", "wait", "wait", "wait")):
        (faults / str(number)).write_text(fault)
    launcher = launched(cluster, out, RECAP_TEST_FAULTS=str(faults))
    array = array_of(out)
    assert set(collected(out)) == set(CELLS), "all are queued before the first one ends"

    until(measuring(out, dying), "the second cell")
    killed(out, dying)
    until(measuring(out, requeued), "the third cell")
    cluster(f"scontrol requeue {array}_2")
    until(measuring(out, preempted), "the fourth cell")
    cluster.preempt(array, 3)
    until(lambda: all(cluster.states(array)[n] == "CD" for n in "45"), "the others")
    left = {raising: "failed", dying: "stale"}
    assert collected(out) == left | dict.fromkeys((requeued, preempted), "failed") | dict.fromkeys(fine, "complete")

    for number in (2, 3):
        (faults / str(number)).unlink()
        cluster.start_now(array, number)
    until(lambda: all(cluster.states(array)[n] == "CD" for n in "23"), "the requeued ones")
    assert collected(out) == left | dict.fromkeys((requeued, preempted, *fine), "complete")
    for cell in (requeued, preempted):
        assert continued(out, cell)
    printed, _ = launcher.communicate(timeout=120)
    assert launcher.returncode == 1 and "scripts/collect.py names" in printed, printed

    rerun = python("scripts/collect.py", str(out), "--rerun").stdout
    assert rerun.count("\n") == 2
    subprocess.run(["sh", "-e"], input=rerun, cwd=ROOT, env=DESK, capture_output=True, text=True, check=True)
    assert collected(out) == dict.fromkeys(CELLS, "complete")
    assert records(out) == records(undisturbed[0])


def continued(out: Path, cell: str) -> bool:
    """Whether it was restarted by SLURM once and went on after its first input."""
    _, attempt = status.read(folder_of(out, cell)).attempts
    return attempt["slurm_restart"] == 1 and attempt["inputs"] == 1


def test_the_plain_script_runs_cells_from_a_file_and_requeues_what_usr2_stops(cluster, tmp_path):
    faults, out = tmp_path / "faults", tmp_path / "out"
    faults.mkdir()
    (faults / "1").write_text("wait")
    cells = ("tiny_qwen/recap", "tiny_qwen/token_recycling")
    sweep = ("model=tiny_qwen", "method=recap,token_recycling")
    commands = python("scripts/cells.py", "--queue", *sweep, *CELL, f"out={out}").stdout
    (tmp_path / "cells.txt").write_text(commands)
    assert commands.count("\n") == 2
    assert collected(out) == dict.fromkeys(cells, "missing")

    options = f"--parsable --array=0-1%2 --cpus-per-task=1 --output={tmp_path}/%a.log"
    submission = f"sbatch {options} scripts/sweep.sbatch {tmp_path}/cells.txt"
    array = cluster(submission, RECAP_TEST_FAULTS=str(faults)).strip()
    until(measuring(out, cells[1]), "the second cell")
    cluster.preempt(array, 1, "--batch")
    (faults / "1").unlink()
    cluster.start_now(array, 1)
    until(lambda: set(cluster.states(array).values()) == {"CD"}, "both cells")
    assert collected(out) == dict.fromkeys(cells, "complete")
    assert continued(out, cells[1])
    log = (tmp_path / "1.log").read_text()
    assert "stopped by SIGUSR2" in log and "3/3 inputs" in log, "both starts write to one log"
