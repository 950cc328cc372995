"""status.json: where a cell stands, as its own process says. Needs neither torch nor transformers."""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from runners.lock import restarts

NAME = "status.json"
STATES = ("queued", "running", "ok", "failed")


@dataclass(frozen=True, slots=True)
class Status:
    """state     one of STATES
    error     why it failed
    inputs, of, available  inputs done, asked for, and in the benchmark; None before a run has counted them
    command   what continues it
    restarts  starts after the first
    attempts  one entry a start: host, pid, device, versions, time, SLURM's restart count, inputs already there
    """

    state: str
    error: str = ""
    inputs: int = 0
    of: int | None = None
    available: int | None = None
    command: str = ""
    restarts: int = 0
    host: str = ""
    device: str = ""
    pid: int = 0
    time: str = ""
    attempts: list[dict] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.state in STATES, self.state

    def started(self, device: str, versions: str, inputs: int, of: int, available: int, command: str) -> "Status":
        """This process takes the cell on."""
        own = {"host": platform.node(), "pid": os.getpid(), "device": device, "time": now()}
        attempt = own | {"versions": versions, "slurm_restart": restarts(), "inputs": inputs}
        attempts = [*self.attempts, attempt]
        return Status("running", "", inputs, of, available, command, len(attempts) - 1, attempts=attempts, **own)

    def now(self, state: str, inputs: int, error: str = "") -> "Status":
        """The same, at this moment."""
        return replace(self, state=state, inputs=inputs, error=error, time=now())


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def read(folder: Path) -> Status | None:
    """The status of a cell's folder; None where it has none."""
    try:
        return Status(**json.loads((folder / NAME).read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{folder / NAME}: not a status ({error})") from None


def write(folder: Path, status: Status) -> None:
    """Replace the status, whole or not at all."""
    write_whole(folder / NAME, json.dumps(asdict(status), indent=2) + "\n")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a small file so that a reader, or whoever comes after a crash, sees the old content or the new."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
