"""Two runs side by side, input by input: only where their contracts allow it."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.load import load

MAY_DIFFER = {"cache", "engine"}  # between a method and an outside peer or another engine
KEY = ["row", "turn"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A finished run: its summary.json and the frame of its records."""

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


def read(folder: Path) -> Cell:
    """A finished cell's folder. Raises ValueError naming the file that is missing."""
    path = folder / "summary.json"
    if not path.is_file():
        raise ValueError(f"{path}: no summary; was the run completed?")
    return Cell(json.loads(path.read_text()), load(folder))


def pair(left: Cell, right: Cell) -> Pair:
    """Join two runs on (row, turn). Raises ValueError naming what differs in their contracts."""
    peer = _peer(left, right)
    common = left.frame[KEY].merge(right.frame[KEY], on=KEY)
    if common.empty:
        raise ValueError("these runs cannot be paired: they share no request")
    ours, theirs = (common.merge(cell.frame, on=KEY, validate="one_to_one") for cell in (left, right))
    for name in ("prompt", "images") if peer else ("prompt", "images", "contract"):
        differing = common[ours[name] != theirs[name]]
        if len(differing):
            row, turn = differing.iloc[0]
            raise ValueError(
                f"these runs cannot be paired, their contracts differ in {name} "
                f"in {len(differing)} of {len(common)} requests, first in row {row}, turn {turn}"
            )
    return Pair(ours, theirs, peer)


def _peer(left: Cell, right: Cell) -> dict[str, tuple]:
    """The run-wide fields that differ; refused but between a method and a peer, or two engines."""
    ours, theirs = _contract(left), _contract(right)
    names = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
    differing = {name: (ours.get(name), theirs.get(name)) for name in names}
    outside = left.summary.get("peer") or right.summary.get("peer") or "engine" in differing
    if differing.keys() - (MAY_DIFFER if outside else set()):
        shown = "; ".join(f"{name}: {a!r} != {b!r}" for name, (a, b) in differing.items())
        raise ValueError(f"these runs cannot be paired, their contracts differ in {shown}")
    return differing


def _contract(cell: Cell) -> dict:
    """The fields of the run's contract, an outside peer's own values among them."""
    fields = {name: value for name, value in cell.summary["contract"].items() if name != "hash"}
    return fields | (cell.summary.get("peer") or {})
