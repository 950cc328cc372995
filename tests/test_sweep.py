"""A sweep without SLURM: every cell is queued first, a failing one is its own affair, and the end says how all are."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from runners import status
from runners.sweep import Sweep
from tests.cluster import CELL, DESK, ROOT, collected, folder_of, measuring, python, until
from tests.scripted_cell import in_fork, scripted

DISTURBED = "tests.disturbed.Disturbed"


def waiting(tmp_path, fault: str) -> dict[str, str]:
    """The environment of a process that meets a fault, as tests.disturbed has them."""
    (tmp_path / "0").write_text(fault)
    return {"RECAP_TEST_FAULTS": str(tmp_path), "SLURM_ARRAY_TASK_ID": "0"}


def test_a_failing_cell_hides_no_other_and_the_end_names_it(tmp_path):
    out = tmp_path / "out"
    sweep = (f"bench._target_={DISTURBED},runners.benches.synthetic.Synthetic", "engine=eager,other", *CELL[1:])
    done = python("run.py", "-m", *sweep, f"out={out}", **waiting(tmp_path, "raise"))
    assert done.returncode == 1
    assert f"4 cells queued below {out}" in done.stdout
    ended = done.stdout.split("\n\n")[-1].splitlines()
    assert ended[0] == "1 of 4 cells complete" and len(ended) == 5
    assert "failed, AssertionError: it was to go wrong" in ended[1], "the first cell raises, the others come after it"
    assert done.stderr.count("error: engine=other: choose one of eager, compiled") == 2


def test_sigterm_ends_a_sweep_and_the_cells_after_are_missed(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "run.py", "-m", "method=recap,ar", *CELL, f"out={out}"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen(command, cwd=ROOT, env=DESK | waiting(tmp_path, "wait"), **quiet)
    until(lambda: len(collected(out)) == 2, "both to be queued", within=60)
    until(measuring(out, "tiny_qwen/recap"), "the first cell", within=120)
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait(timeout=60) == 128 + signal.SIGTERM
    assert collected(out) == {"tiny_qwen/recap": "failed", "tiny_qwen/ar": "missing"}


def test_processes_in_place_of_jobs_complete_a_sweep(tmp_path):
    done = python("run.py", "-m", "launch=submitit_local", "method=recap,token_recycling", *CELL, f"out={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("2 of 2 cells complete\n")
    cells = ("tiny_qwen/recap", "tiny_qwen/token_recycling")
    assert collected(tmp_path) == dict.fromkeys(cells, "complete")
    assert len({status.read(folder_of(tmp_path, cell)).pid for cell in cells}) == 2
    assert "launch" not in status.read(folder_of(tmp_path, cells[0])).command, "by itself a cell needs no launcher"


def test_cells_are_printed_one_a_line_and_queued_where_asked(tmp_path):
    sweep = ("model=tiny_qwen,tiny_llava", "method=recap,racer", "versus=[sam_only]", f"out={tmp_path}")
    printed = python("scripts/cells.py", *sweep, "launch=slurm", "hydra.launcher.gpus_per_node=2", "rerun=true").stdout
    expected = [
        f"python run.py model={model} method={method} 'versus=[sam_only]' out={tmp_path}"
        for model in ("tiny_qwen", "tiny_llava")
        for method in ("recap", "racer")
    ]
    assert printed.splitlines() == expected
    assert not list(tmp_path.iterdir())
    assert python("scripts/cells.py", "--queue", *sweep).stdout == printed
    assert len(collected(tmp_path)) == 6 and set(collected(tmp_path).values()) == {"missing"}
    rerun = python("scripts/collect.py", str(tmp_path), "--rerun").stdout
    assert sorted(rerun.splitlines()) == sorted(expected), "what --rerun prints is a file of cells too"


@pytest.mark.parametrize(
    "words,message",
    [
        (("run.py", "-m", "metod=a,b"), "error: metod: no such key; did you mean method?"),
        (("run.py", "-m", "method=recap,racer", "versus=ar"), "error: versus=ar: expected a list of methods"),
        (("scripts/cells.py", "model=qwn,llava"), "error: In 'config': Could not find 'model/qwn'"),
    ],
)
def test_what_cannot_be_composed_is_refused_before_anything_is_queued(words, message, tmp_path):
    done = python(*words, f"out={tmp_path / 'out'}")
    assert done.returncode == 2 and done.stderr.startswith(message), done.stderr
    assert done.stdout == "" and not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_ends_a_sweep_before_its_first_cell(tmp_path):
    (tmp_path / "file").touch()
    done = python("run.py", "-m", "method=recap,racer", f"out={tmp_path / 'file'}")
    assert done.returncode == 2 and done.stderr.startswith(f"error: out: {tmp_path / 'file'}/tiny_qwen"), done.stderr


def test_without_sbatch_a_launch_on_slurm_is_refused(tmp_path):
    done = python("run.py", "launch=slurm", f"out={tmp_path / 'out'}", PATH=str(tmp_path))
    assert done.returncode == 2 and done.stderr.startswith("error: launch=slurm: there is no sbatch here"), done.stderr


def test_without_the_plugin_its_launchers_say_how_to_get_it_and_plain_runs_do_without(tmp_path):
    (tmp_path / "hydra_plugins").mkdir()
    (tmp_path / "hydra_plugins" / "__init__.py").touch()  # comes first and holds no plugin
    for launch in ("slurm", "submitit_local"):
        done = python("run.py", f"launch={launch}", PYTHONPATH=str(tmp_path))
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert "pip install 'recap-decoding[slurm]'" in done.stderr
    plain = python("run.py", "temperature=1", PYTHONPATH=str(tmp_path))
    assert plain.stderr == "error: temperature=1: decoding is greedy; only temperature=0 is lossless\n"


def test_a_finished_cell_of_which_more_is_asked_is_queued_again(tmp_path):
    assert in_fork(scripted(tmp_path, "limit=1")) == 0
    more = scripted(tmp_path, "limit=2", command="run more")
    more.queue()
    assert set(collected(tmp_path).values()) == {"missing"}
    assert python("scripts/collect.py", str(tmp_path), "--rerun").stdout == "run more\n"
    assert in_fork(more) == 0
    more.queue()
    assert set(collected(tmp_path).values()) == {"complete"}


def test_a_sweep_exits_with_0_1_or_3_by_its_cells(tmp_path):
    sweep, config = Sweep(), SimpleNamespace(out=tmp_path)
    sweep.cells = [scripted(tmp_path, "limit=1")]
    sweep.cells[0].queue()
    assert code_of(sweep, config) == 1
    assert in_fork(sweep.cells[0]) == 0
    assert code_of(sweep, config) == 0
    path = sweep.cells[0].folder("recap") / "summary.json"
    summary = json.loads(path.read_text())
    summary["verdict"] |= {"equal": 0, "position_or_cache": 1}
    path.write_text(json.dumps(summary))
    assert code_of(sweep, config) == 3


def code_of(sweep: Sweep, config) -> int:
    try:
        sweep.on_multirun_end(config)
    except SystemExit as end:
        return end.code
    return 0


@pytest.mark.parametrize(
    "stop,code,requeued",
    [(signal.SIGUSR2, 140, True), (signal.SIGTERM, 143, False), (None, 3, False)],
    ids=["USR2", "TERM", "by itself"],
)
def test_the_plain_script_hands_signals_on_and_requeues_after_usr2_alone(stop, code, requeued, tmp_path):
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    (tmp_path / "scontrol").chmod(0o755)
    cell = (
        "import signal, sys, time; "
        "[signal.signal(s, lambda number, _: sys.exit(128 + number)) for s in (signal.SIGUSR2, signal.SIGTERM)]; "
        f"open('{tmp_path}/up', 'w').close(); time.sleep({60 if stop else 0}); sys.exit(3)"
    )
    (tmp_path / "cells.txt").write_text(f'echo not this\n{sys.executable} -c "{cell}"\n')
    command = ["bash", "scripts/sweep.sbatch", str(tmp_path / "cells.txt")]
    task = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "1", "SLURM_JOB_ID": "77"}
    running = subprocess.Popen(command, cwd=ROOT, env=os.environ | task, stdout=subprocess.DEVNULL)
    until((tmp_path / "up").is_file, "the cell", within=30)
    if stop:
        running.send_signal(stop)
    assert running.wait(timeout=30) == code
    asked = (tmp_path / "asked").read_text() if (tmp_path / "asked").is_file() else ""
    assert asked == ("requeue 77\n" if requeued else "")
