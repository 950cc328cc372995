"""Reads what W&B writes offline: run-ID.wandb, a LevelDB log of its protocol's records, every chunk with a checksum."""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAGIC = b":W&B"
START = 7  # the file's own header: magic, two bytes more, a version
BLOCK = 32768  # no chunk crosses such a boundary
HEADER = struct.Struct("<IHB")  # checksum, length, kind
FULL, LAST = 1, 4  # kinds that end a record; 2 and 3 begin and continue one


@dataclass(slots=True)
class Run:
    """One run as its file has it.

    history   a dict a row, `_step` among its keys
    summary   what was last said of each key
    finished  whether it was ended, not killed
    """

    id: str = ""
    project: str = ""
    group: str = ""
    job_type: str = ""
    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    finished: bool = False


def file_of(path: Path) -> Path | None:
    """The one run file that a path is or has in it; None where there is none, or more than one."""
    found = [path] if path.suffix == ".wandb" else sorted(path.glob("run-*.wandb"))
    return found[0] if len(found) == 1 and found[0].is_file() else None


def read(path: Path) -> Run:
    """The run that a file holds. Raises ValueError naming file and byte where it is not what was written."""
    try:
        from wandb.proto.wandb_internal_pb2 import Record
    except ImportError:
        raise ValueError(f"{path}: reading it needs wandb: pip install 'recap-decoding[wandb]'") from None
    run = Run()
    for data in chunks(path):
        _take(run, Record.FromString(data))
    if not run.id:
        raise ValueError(f"{path}: no run in it")
    return run


def chunks(path: Path) -> Iterator[bytes]:
    """The records as bytes; one that a killed process left unfinished at the end is left out."""
    blob = path.read_bytes()
    if blob[: len(MAGIC)] != MAGIC:
        raise ValueError(f"{path}: not a W&B run file")
    at, parts = START, []
    while at + HEADER.size <= len(blob):
        left = BLOCK - at % BLOCK
        if left < HEADER.size:
            at += left
            continue
        checksum, size, kind = HEADER.unpack_from(blob, at)
        data = blob[at + HEADER.size : at + HEADER.size + size]
        if kind == 0 or len(data) < size:
            return
        if zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
            raise ValueError(f"{path}: byte {at}: not what was written (its checksum is another)")
        at += HEADER.size + size
        parts.append(data)
        if kind in (FULL, LAST):
            yield b"".join(parts)
            parts = []


def _take(run: Run, record: Any) -> None:
    kind = record.WhichOneof("record_type")
    if kind == "run":
        it = record.run
        run.id, run.project, run.group, run.job_type = it.run_id, it.project, it.run_group, it.job_type
        run.name = it.display_name
        run.config |= _values(it.config.update)
    elif kind == "config":
        run.config |= _values(record.config.update)
    elif kind == "history":
        run.history.append(_values(record.history.item))
    elif kind == "summary":
        run.summary |= _values(record.summary.update)
    elif kind == "exit":
        run.finished = record.exit.exit_code == 0


def _values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
