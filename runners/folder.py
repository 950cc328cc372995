"""The folder of one cell: what is in it survives any kill, and nothing half done is in it.

inputs.jsonl commits the inputs one by one: a line is written when an input's records and traces are on the disk, and
says how long those files are. Whatever a killed process left behind the last line is cut when the folder is opened.
"""

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from analysis.lines import COMMITS, committed, encode, read
from runners.status import Status, write, write_whole
from runners.status import read as read_status

RECORDS, STEPS, INSPECT, ROWS = "records.jsonl", "steps.jsonl", "inspect.jsonl", "rows.parquet"
TRACED = (STEPS, INSPECT)
COST = "cost.json"
RESULTS = (COMMITS, RECORDS, *TRACED, ROWS, COST, "summary.json", "status.json", "config.yaml")
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Follower(Protocol):
    """What a folder tells of itself to whoever mirrors it; must not raise."""

    def add(self, entry: dict, records: Sequence[dict]) -> None:
        """An input is committed."""

    def finish(self) -> None:
        """The cell is finished, its summary written. Not called where the run fails or is stopped."""


class Folder:
    """One method's cell while it is measured; its lock is held.

    inputs  the committed inputs in order, as inputs.jsonl has them
    """

    def __init__(self, path: Path, trace: bool) -> None:
        self.path = path
        self.inputs = committed(path)
        known = self.inputs[-1] if self.inputs else {}
        self._sizes = {name: known.get(_key(name), 0) for name in (RECORDS, *TRACED)}
        self._sizes[COMMITS] = _whole_lines(path / COMMITS)
        self._files = {
            name: _open(path / name, size) for name, size in self._sizes.items() if trace or name not in TRACED
        }
        self._status = read_status(path) or Status("queued")
        self._followers: list[Follower] = []

    def commit(self, entry: dict, lines: Mapping[str, Sequence[dict]]) -> None:
        """Add one input: its lines by file, then the line that makes them count."""
        for name, added in lines.items():
            if added:
                self._append(name, b"".join(map(encode, added)))
        entry |= {_key(name): self._sizes[name] for name in (RECORDS, *TRACED)}
        self._append(COMMITS, encode(entry))
        self.inputs.append(entry)
        for follower in self._followers:
            follower.add(entry, lines.get(RECORDS, ()))

    def follow(self, follower: Follower) -> None:
        """Tell `follower` what is committed from now on."""
        self._followers.append(follower)

    def records(self) -> Iterator[dict]:
        """The committed records."""
        return read(self.path / RECORDS, self._sizes[RECORDS])

    def start(self, device: str, versions: str, of: int, available: int, command: str) -> None:
        """This process measures the cell from here on."""
        self._status = self._status.started(device, versions, len(self.inputs), of, available, command)
        write(self.path, self._status)

    def beat(self) -> None:
        """Say how far the run is."""
        write(self.path, self._status.now("running", len(self.inputs)))

    def finish(self) -> None:
        """All that was asked for is there."""
        write(self.path, self._status.now("ok", len(self.inputs)))
        for follower in self._followers:
            follower.finish()

    def fail(self, error: str) -> None:
        """The run ends here; on a full disk the earlier status stays."""
        try:
            write(self.path, self._status.now("failed", len(self.inputs), error))
        except OSError as full:
            if full.errno not in DISK_FULL:
                raise

    def alarms(self) -> list[str]:
        """Starts on differing machines or versions, whose times should not stand in one table."""
        found = []
        for key in ("device", "versions"):
            seen = sorted({attempt[key] for attempt in self._status.attempts if attempt[key]})
            if len(seen) > 1:
                found.append(f"measured with more than one {key.rstrip('s')}: {'; '.join(seen)}")
        return found

    def write(self, name: str, content: dict | str) -> None:
        """Write a small file whole or not at all."""
        write_whole(
            self.path / name,
            content if isinstance(content, str) else json.dumps(content, indent=2, allow_nan=False) + "\n",
        )

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)

    def _append(self, name: str, data: bytes) -> None:
        file = self._files[name]
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
        self._sizes[name] += len(data)


def make(path: Path) -> None:
    """Make the folder. Raises ValueError naming the key."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out: {path} cannot be made ({error.strerror}); choose another folder with out=") from None


def set_aside(path: Path) -> None:
    """Rename an earlier run's files (records.jsonl.1, ...): the cell starts anew, and nothing is lost."""
    names = [name for name in RESULTS if (path / name).is_file()]
    number = 1
    while any((path / f"{name}.{number}").exists() for name in RESULTS):
        number += 1
    for name in reversed(names):  # inputs.jsonl last: until it is gone, the earlier run stands
        os.replace(path / name, path / f"{name}.{number}")


def _key(name: str) -> str:
    return name.removesuffix(".jsonl")


def _whole_lines(path: Path) -> int:
    """Bytes up to the end of the last finished line."""
    return path.read_bytes().rfind(b"\n") + 1 if path.is_file() else 0


def _open(path: Path, size: int) -> int:
    """Open for appending, cut to its committed size. Raises ValueError where less is there."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    there = os.fstat(file).st_size
    if there < size:
        os.close(file)
        raise ValueError(f"{path}: {size - there} bytes are missing by {COMMITS}; rerun=true measures anew")
    os.ftruncate(file, size)
    os.fsync(file)
    return file
