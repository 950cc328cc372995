"""A SLURM of the tests' own, and sweeps on it."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from runners import status

ROOT = Path(__file__).parent.parent
DAEMONS = ("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd", "sbatch")
SWEEP = ("model=tiny_qwen,tiny_llava", "method=token_recycling,recap,prompt_lookup")
CELL = ("bench._target_=tests.disturbed.Disturbed", "limit=3", "max_new_tokens=8", "generate_check=0")
DESK = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # `python` is this one


def lacking() -> str:
    """Why no SLURM can be started here; empty where one can."""
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (.ci/run installs them)"
    return "" if os.geteuid() == 0 else "munge and SLURM are started as root"


class Cluster:
    """Commands to a running SLURM."""

    def __init__(self, folder: Path) -> None:
        self.environment = DESK | {"SLURM_CONF": str(folder / "slurm.conf")}

    def __call__(self, command: str, **more: str) -> str:
        """What a command prints; `more` is added to its environment."""
        words = shlex.split(command)
        done = subprocess.run(words, cwd=ROOT, env=self.environment | more, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def states(self, array: str) -> dict[str, str]:
        """The state of each task of an array, by number, as squeue abbreviates it."""
        return dict(line.split() for line in self(f"squeue -h -r -t all -j {array} -o '%K %t'").splitlines())

    def task(self, array: str, number: int) -> str:
        """The job id of a task."""
        return self(f"squeue -h -r -t all -j {array}_{number} -o %A").strip()

    def preempt(self, array: str, number: int, *options: str) -> None:
        """Send a task USR2, as SLURM does before it takes a node away, and see it requeued."""
        command = ["scancel", *options, "--signal=USR2", self.task(array, number)]
        with subprocess.Popen(command, env=self.environment) as sending:  # it repeats itself while the task is requeued
            until(lambda: self.states(array)[str(number)] == "PD", f"task {number} to be requeued")
            sending.terminate()

    def start_now(self, array: str, number: int) -> None:
        """Have a requeued task start at once, where SLURM would wait two minutes."""
        until(lambda: self.states(array)[str(number)] == "PD", f"task {number} to be requeued")
        time.sleep(2)  # its credentials are told apart by the second
        self(f"scontrol update JobId={self.task(array, number)} StartTime=now")


@contextmanager
def started() -> Iterator[Cluster]:
    """A SLURM with one node and two CPUs' worth of tasks at a time."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # short: sockets have short names
    try:
        command = ["bash", "tests/cluster_up.sh", str(folder), str(free_ports(4))]
        up = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
        assert up.returncode == 0, up.stderr
        yield Cluster(folder)
    finally:
        subprocess.run(["bash", "tests/cluster_down.sh", str(folder)], cwd=ROOT, check=True, timeout=120)
        shutil.rmtree(folder)


def free_ports(count: int) -> int:
    """The first of so many ports that are free."""
    for first in range(20_000 + os.getpid() % 1_000 * count, 30_000, count):
        if all(_free(first + k) for k in range(count)):
            return first
    raise AssertionError("no free ports")


def _free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def until(true: Callable[[], bool], what: str, within: float = 240.0) -> None:
    """Wait for it."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"waited {within} s for {what}"
        time.sleep(0.2)


def python(*words: str, **more: str) -> subprocess.CompletedProcess:
    """A command of the project, with `more` in its environment."""
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, env=DESK | more, capture_output=True, text=True, timeout=300, check=False)


def collected(out: Path) -> dict[str, str]:
    """What scripts/collect.py says of each cell: model/method to state."""
    lines = python("scripts/collect.py", str(out)).stdout.split("\n\n")[0].splitlines()[1:]
    return {named(name): state for name, state, *_ in map(str.split, lines)}


def named(path: str | Path) -> str:
    """model/method of a cell's folder."""
    model, _, folder = str(path).split("/")[-3:]
    return f"{model}/{folder.rsplit('-', 1)[0]}"


def folder_of(out: Path, cell: str) -> Path:
    """The folder of model/method."""
    (found,) = (path.parent for path in out.rglob(status.NAME) if named(path.parent) == cell)
    return found


def measuring(out: Path, cell: str) -> Callable[[], bool]:
    """Whether it has an input and is at the next."""

    def true() -> bool:
        found = status.read(folder_of(out, cell))
        return found.state == "running" and (folder_of(out, cell) / "inputs.jsonl").read_bytes().count(b"\n") >= 1

    return true


def killed(out: Path, cell: str) -> None:
    """End its process with SIGKILL."""
    os.kill(status.read(folder_of(out, cell)).pid, signal.SIGKILL)
