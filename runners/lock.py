"""One process a cell: a lock that dies with its holder, whatever kills it."""

import errno
import fcntl
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

NAME = "lock"
PATIENCE = 90.0  # seconds that a restarted job gives the process it replaces to die
POLL = 0.5


@contextmanager
def hold(folders: Sequence[Path], patience: float = 0.0) -> Iterator[None]:
    """Hold the locks of all folders. Raises ValueError naming the holder of one that is not free after `patience` s."""
    deadline = time.monotonic() + patience
    with ExitStack() as held:
        for folder in sorted(folders):
            held.enter_context(_hold(folder, deadline))
        yield


def restarts() -> int:
    """How often SLURM has restarted this job."""
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0)


def patience() -> float:
    """A restarted job may meet its dying predecessor; nobody else waits."""
    return PATIENCE if restarts() else 0.0


def holder(folder: Path) -> str | None:
    """Who holds a folder's lock; None where nobody does."""
    try:
        with (folder / NAME).open("r") as file:
            return None if _acquired(file, fcntl.LOCK_SH) else file.read().strip() or "another process"
    except FileNotFoundError:
        return None


@contextmanager
def _hold(folder: Path, deadline: float) -> Iterator[None]:
    with (folder / NAME).open("a+") as file:
        while not _acquired(file, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                file.seek(0)
                name = file.read().strip() or "another process"
                raise ValueError(f"out: {folder} is being measured by {name}; wait for it, or stop it")
            time.sleep(POLL)
        file.truncate(0)
        file.write(f"{platform.node()}, pid {os.getpid()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        file.flush()
        yield


def _acquired(file, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True
