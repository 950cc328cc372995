"""Records to a frame: one row a request, integers only, both sides side by side."""

import json
from pathlib import Path

import pandas as pd

from analysis.lines import COMMITS, committed, read

PREFILL = ("vision", "prefill")


def load(folder: Path, partial: bool = False) -> pd.DataFrame:
    """The frame of one cell's records.jsonl.

    partial: take what there is of a run that is not complete. Raises ValueError for such a run otherwise, for a run
    without a record, and, naming file and line, for a line that is not what was written.
    """
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
            rows.append(flatten(record))
        except KeyError as error:
            raise ValueError(f"{path}:{number}: not a whole record ({error})") from None
    return pd.DataFrame(rows)


def flatten(record: dict) -> dict:
    """Columns of one request: identity, verdict, and per side (suffixes _ar, _method) counts and nanoseconds.

    tokens, steps, committed (sum), accepted (sum), agreed (sum), nodes (sum), window, decode (window without vision and
    prefill), score; `cluster` is what the bootstrap resamples: the image, or the conversation where there is none.
    """
    columns = {k: record[k] for k in ("index", "row", "turn", "category", "contract", "prompt_tokens", "visual_tokens")}
    columns["cluster"] = record["images"] or record["row"]
    columns["verdict"] = record["verdict"]["kind"]
    for side in ("ar", "method"):
        data = record[side]
        phases = data["phases_ns"]
        window = sum(phases.values())
        numbers = {
            "tokens": len(data["tokens"]),
            "steps": len(data["committed"]),
            "window": window,
            "decode": window - sum(phases[p] for p in PREFILL),
            "score": data["score"],
        }
        numbers |= {name: sum(data[name]) for name in ("nodes", "agreed", "accepted", "committed")}
        numbers |= {f"{phase}_ns": ns for phase, ns in phases.items()}
        columns |= {f"{name}_{side}": value for name, value in numbers.items()}
    return columns
