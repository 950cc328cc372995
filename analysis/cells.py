"""Finished cells of a results root: who ran, under which options, and the frame of its records."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from analysis.load import load

BUNDLED = ("synthetic", "text")  # benchmarks that come with the product
REAL, GENERATED = "real", "generated fixtures"
SETTING = ("max_new_tokens", "seed", "dtype", "device", "engine", "ar_logits")  # what a cell shares with its company


@dataclass(frozen=True, eq=False)
class Cell:
    """One finished cell.

    rung         of the ablation ladder, with its predecessor; None for a method of its own
    setting      the options of SETTING
    options      of the method
    bench_options   of the benchmark; without its path
    """

    folder: Path
    model: str
    bench: str
    method: str
    rung: str | None
    predecessor: str | None
    setting: dict[str, Any]
    options: dict[str, Any]
    bench_options: dict[str, Any]
    summary: dict[str, Any] = field(repr=False)
    frame: pd.DataFrame = field(repr=False)

    @property
    def generated(self) -> bool:
        """Whether the inputs are generated, and so say nothing about the published sets."""
        source = self.summary.get("source")
        return self.bench in BUNDLED or not source or "fixtures" in str(source)

    @property
    def data(self) -> str:
        """REAL or GENERATED."""
        return GENERATED if self.generated else REAL

    @property
    def traced(self) -> bool:
        """Whether its steps were written while it was timed; tables and figures leave it out."""
        return bool(self.summary.get("traced"))

    @property
    def peer(self) -> bool:
        """Whether an outside library decoded; its speedup does not stand among the others."""
        return bool(self.summary.get("peer"))


def read(folder: Path) -> Cell:
    """The cell of one finished folder. Raises ValueError naming the file that lacks something."""
    summary = json.loads((folder / "summary.json").read_text())
    config = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
    return cell_of(folder, summary, config, load(folder))


def cell_of(folder: Path, summary: dict[str, Any], config: dict[str, Any], frame: pd.DataFrame) -> Cell:
    """The cell of a summary, config and frame, from `folder`. Raises ValueError naming what is lacking."""
    try:
        return Cell(
            folder=folder,
            model=summary["model"],
            bench=summary["bench"],
            method=summary["method"],
            rung=summary["ablation"],
            predecessor=summary.get("predecessor"),
            setting={key: config[key] for key in SETTING},
            options=dict(config["method"]),
            bench_options={k: v for k, v in config["bench"].items() if k not in ("_target_", "path")},
            summary=summary,
            frame=frame,
        )
    except KeyError as error:
        raise ValueError(f"{folder}: its summary or config lacks {error}") from None


def walk(root: Path) -> list[Cell]:
    """All finished cells below a results root, in the order of their names.

    A cell that failed, still runs or has no record (a peer that refused every input) is passed over. Raises ValueError
    for a root without cells and for two copies of one cell.
    """
    found: dict[tuple[str, str, str], Cell] = {}
    for path in sorted(root.rglob("status.json")):
        if json.loads(path.read_text())["state"] != "ok":
            continue
        cell = read(path.parent)
        key = (cell.model, cell.bench, path.parent.name)
        if key in found:
            raise ValueError(f"{path.parent} and {found[key].folder} are copies of one cell; keep one below {root}")
        if len(cell.frame):
            found[key] = cell
    if not found:
        raise ValueError(f"{root}: no finished cell below it; run.py writes them, out= names the root")
    return [found[key] for key in sorted(found)]


def method_labels(cells: Iterable[Cell]) -> dict[Cell, str]:
    """Each cell's rung or else method, with the options and settings that tell it from others of that name."""
    groups = grouped(cells, lambda cell: (cell.model, cell.method, cell.rung))
    return _labels(groups, lambda cell: cell.rung or cell.method, lambda cell: cell.options | cell.setting)


def bench_labels(cells: Iterable[Cell], leave_out: Collection[str] = ()) -> dict[Cell, str]:
    """Each cell's benchmark, with the options that tell it from others of that name; some may be left out."""
    groups = grouped(cells, lambda cell: (cell.model, cell.bench))
    return _labels(
        groups,
        lambda cell: cell.bench,
        lambda cell: {k: v for k, v in cell.bench_options.items() if k not in leave_out},
    )


def grouped(cells: Iterable[Cell], key: Callable[[Cell], Any]) -> list[list[Cell]]:
    """Cells of equal key together, in the order of first sight; keys are compared as they print."""
    groups = defaultdict(list)
    for cell in cells:
        groups[repr(key(cell))].append(cell)
    return list(groups.values())


def plain(value: Any) -> str:
    """A value as it is typed on the command line."""
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _labels(groups: list[list[Cell]], name: Callable[[Cell], str], options: Callable[[Cell], dict]) -> dict[Cell, str]:
    found = {}
    for group in groups:
        for cell, variant in zip(group, _variants([options(cell) for cell in group]), strict=True):
            found[cell] = f"{name(cell)} ({variant})" if variant else name(cell)
    return found


def _variants(options: Sequence[dict[str, Any]]) -> list[str]:
    """What tells each from the others, as 'budget=31, fusion=backoff'; empty where nothing does."""
    keys = sorted({key for one in options for key in one})
    telling = [key for key in keys if len({repr(one.get(key)) for one in options}) > 1]
    return [", ".join(f"{key}={plain(one.get(key))}" for key in telling) for one in options]
