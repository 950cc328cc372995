"""Records to a frame: one row a request, integers only, both sides side by side."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

PREFILL = ("vision", "prefill")


def load(folder: Path) -> pd.DataFrame:
    """The frame of one cell's records.jsonl. Raises ValueError naming file and line for a line that is not whole."""
    return pd.DataFrame(_whole(folder, flatten))


def read_records(folder: Path) -> list[dict]:
    """The records of one cell as they are. Raises ValueError naming file and line for a line that is not whole."""
    return _whole(folder, dict)


def _whole(folder: Path, take: Callable[[dict], dict]) -> list[dict]:
    path = folder / "records.jsonl"
    if not path.is_file():
        raise ValueError(f"{path}: no records; was the run completed?")
    rows = []
    with path.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                rows.append(take(json.loads(line)))
            except (json.JSONDecodeError, KeyError) as error:
                raise ValueError(f"{path}:{number}: not a whole record ({error})") from None
    return rows


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
