"""What a W&B run holds of a cell, both ways: one history row an input, its step the input's index in the stream.

`input/requests` is the row's truth: the integers of the input's requests, as JSON. What stands beside it under `input/`
(sums over the requests, and a few ratios) is there to be plotted, and is never read back.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.load import flatten, frame_of
from analysis.metrics import accepted_per_step, ratios

INPUT, FIGURES, TABLES = "input/", "figures/", "tables/"
REQUESTS = f"{INPUT}requests"
STEP = "_step"
SIDES = ("_ar", "_method")


def history_row(entry: Mapping[str, Any], records: Sequence[dict]) -> dict[str, Any]:
    """One committed input, its line of inputs.jsonl and its records, as a row of a run's history."""
    requests = [flatten(record) for record in records]
    row = {name: entry[name] for name in ("row", "outcome", "reason")}
    row["requests"] = json.dumps([_scalars(request) for request in requests])
    row |= {f"memory/{name}": count for name, count in entry["memory"]["rows"].items()}
    row["memory/bytes"] = entry["memory"]["bytes"]
    if requests:
        row |= _sums(requests) | _derived(frame_of(requests))
    return {INPUT + name: value for name, value in row.items()}


def frame_of_history(history: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """The frame that `analysis.load.load` gives, but for the columns that hold a list; empty without a request.

    Of two rows of one step the later stands, as it does where an upload is repeated.
    """
    steps = {row[STEP]: row[REQUESTS] for row in history if REQUESTS in row}
    return frame_of([request for step in sorted(steps) for request in json.loads(steps[step])])


def own_summary(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of a run's summary what is from summary.json: neither media, nor history, nor W&B's own."""
    return {name: value for name, value in values.items() if not name.startswith(("_", INPUT, FIGURES, TABLES))}


def _scalars(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if not isinstance(value, list)}


def _sums(requests: list[dict[str, Any]]) -> dict[str, int]:
    names = [name for name, value in requests[0].items() if name.endswith(SIDES) and type(value) is int]
    names = [name for name in names if not name.startswith("score_")]
    return {name: sum(request[name] for request in requests) for name in names}


def _derived(frame: pd.DataFrame) -> dict[str, float]:
    """Means over the input's requests, the undefined left out."""
    found = {
        "accepted_per_step": accepted_per_step(frame).mean(),
        "speedup/end_to_end": ratios(frame, "window").mean(),
        "speedup/decode_only": ratios(frame, "decode").mean(),
    }
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}
