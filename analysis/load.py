"""Records to a frame: one row a request, integers only, both sides side by side."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from analysis.lines import COMMITS, committed, read

FRAME = "frame.parquet"  # in place of the records, in a cell made small by analysis.compact
PREFILL = ("vision", "prefill")
IDENTITY = (
    "index", "row", "turn", "category", "contract", "prompt", "images", "prompt_tokens", "visual_tokens",
)  # fmt: skip


def load(folder: Path, partial: bool = False) -> pd.DataFrame:
    """The frame of one cell's records.jsonl; `partial` and errors as `read_records`."""
    if (folder / FRAME).is_file():
        return pd.read_parquet(folder / FRAME)
    return frame_of(_whole(folder, partial, flatten))


def read_records(folder: Path, partial: bool = False) -> list[dict]:
    """The records of one cell as they are.

    partial: take what there is of a run that is not complete. Raises ValueError for such a run otherwise, for a run
    without a record, and, naming file and line, for a line that is not what was written.
    """
    return _whole(folder, partial, dict)


def _whole(folder: Path, partial: bool, take: Callable[[dict], dict]) -> list[dict]:
    path, status = folder / "records.jsonl", folder / "status.json"
    if not partial and status.is_file() and (state := json.loads(status.read_text())["state"]) != "ok":
        raise ValueError(f"{folder}: the run is not complete (its status is {state}); run it again to continue it")
    size = None
    if (folder / COMMITS).is_file():
        inputs = committed(folder)
        size = inputs[-1]["records"] if inputs else 0
    if not path.is_file() or (size == 0 and not inputs):
        raise ValueError(f"{path}: no records; was the run completed?")
    rows = []
    for number, record in enumerate(read(path, size), 1):
        try:
            rows.append(take(record))
        except KeyError as error:
            raise ValueError(f"{path}:{number}: not a whole record ({error})") from None
    return rows


def frame_of(rows: list[dict]) -> pd.DataFrame:
    """The frame of flattened records, with `cluster`: what the bootstrap resamples."""
    frame = pd.DataFrame(rows)
    return frame.assign(cluster=clusters(frame)) if len(frame) else frame


def flatten(record: dict) -> dict:
    """Columns of one request: identity, verdict, and per side (suffixes _ar, _method) counts and nanoseconds.

    tokens, steps, nodes, agreed, accepted, committed (sums over steps), window, decode (window without vision and
    prefill), measured (the window by a clock of its own), score. Lists: a number a step (accepted_each, committed_each,
    nodes_each, verify_ns_each; nodes_each is empty for a peer), sources of the accepted nodes, drafted nodes by
    source bits (drafted) and by depth (depths).
    """
    columns = {name: record[name] for name in IDENTITY}
    columns["verdict"] = record["verdict"]["kind"]
    for side in ("ar", "method"):
        data = record[side]
        phases = data["phases_ns"]
        window = sum(phases.values())
        values = {
            "tokens": len(data["tokens"]),
            "steps": len(data["committed"]),
            "window": window,
            "measured": data["window_ns"],
            "decode": window - sum(phases[p] for p in PREFILL),
        }
        values |= {name: sum(data[name]) for name in ("nodes", "agreed", "accepted", "committed")}
        values |= {f"{name}_each": data[name] for name in ("nodes", "accepted", "committed", "verify_ns")}
        values |= {name: data[name] for name in ("sources", "drafted", "depths", "score")}
        values |= {f"{phase}_ns": ns for phase, ns in phases.items()}
        columns |= {f"{name}_{side}": value for name, value in values.items()}
    return columns


def clusters(frame: pd.DataFrame) -> pd.Series:
    """A number a cluster: requests of one conversation, and of one image, belong together, however long the chain."""
    row = pd.Series(pd.factorize(frame.row)[0], frame.index)
    image = frame.images.where(frame.images != "", "no image, row " + frame.row)
    cluster = row
    while True:
        merged = cluster.groupby(image).transform("min").groupby(row).transform("min")
        if merged.equals(cluster):
            return cluster
        cluster = merged
