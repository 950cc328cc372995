"""Two runs side by side, input by input: only where their contracts allow it."""

from dataclasses import dataclass
from typing import Protocol

import pandas as pd

MAY_DIFFER = {"cache", "engine"}  # between a method and an outside peer or another engine
KEY = ["row", "turn"]


class Run(Protocol):
    """What can be paired: a summary.json and the frame of its records, as `analysis.cells.Cell` holds them."""

    summary: dict
    frame: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Pair:
    """Frames of the requests that both runs have, line by line the same request.

    peer  the contract fields that differ, which make this a comparison with an outside peer; empty between equals
    """

    left: pd.DataFrame
    right: pd.DataFrame
    peer: dict[str, tuple]


def pair(left: Run, right: Run) -> Pair:
    """Join two runs on (row, turn). Raises ValueError naming what differs in their contracts."""
    peer = _peer(left, right)
    common = left.frame[KEY].merge(right.frame[KEY], on=KEY)
    if common.empty:
        raise ValueError("these runs cannot be paired: they share no request")
    ours, theirs = (common.merge(run.frame, on=KEY, validate="one_to_one") for run in (left, right))
    for name in ("prompt", "images") if peer else ("prompt", "images", "contract"):
        differing = common[ours[name] != theirs[name]]
        if len(differing):
            row, turn = differing.iloc[0]
            raise ValueError(
                f"these runs cannot be paired, their contracts differ in {name} "
                f"in {len(differing)} of {len(common)} requests, first in row {row}, turn {turn}"
            )
    return Pair(ours, theirs, peer)


def _peer(left: Run, right: Run) -> dict[str, tuple]:
    """The run-wide fields that differ; refused but between a method and a peer, or two engines."""
    ours, theirs = _contract(left), _contract(right)
    names = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
    differing = {name: (ours.get(name), theirs.get(name)) for name in names}
    outside = left.summary.get("peer") or right.summary.get("peer") or "engine" in differing
    if differing.keys() - (MAY_DIFFER if outside else set()):
        shown = "; ".join(f"{name}: {a!r} != {b!r}" for name, (a, b) in differing.items())
        raise ValueError(f"these runs cannot be paired, their contracts differ in {shown}")
    return differing


def _contract(run: Run) -> dict:
    """The fields of the run's contract, an outside peer's own values among them."""
    fields = {name: value for name, value in run.summary["contract"].items() if name != "hash"}
    return fields | (run.summary.get("peer") or {})
