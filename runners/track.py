"""A mirror of cells in W&B, beside their records and made of them: python -m runners.track DIR [--mode offline]

During a run (track=offline, track=online) every input is mirrored once it is committed; this command mirrors finished
cells later. What goes wrong with a mirror is said once and costs no record.

A run is a cell's, by its id, however often that is continued or mirrored again. A row's step is its input's index:
online, W&B says which rows it has, and only the others are sent; offline, where it cannot, every run holds all rows
from the first on, and takes the place of the one before it.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from analysis import lines
from analysis.load import load, read_records
from analysis.mirror import FIGURES, INPUT, TABLES, history_row
from analysis.summary import acceptance_lines, speed_lines
from runners import status

MODES = ("none", "offline", "online")
PROJECT = "recap"  # where WANDB_PROJECT names no other
IDENTITY = ("model", "bench", "method", "ablation", "predecessor")
INIT_S, FINISH_S = 30, 120
LATER = "python -m runners.track DIR"


class Mirror:
    """The W&B run of one cell's folder; holds the inputs that are committed there from the start.

    cell  the entries of IDENTITY
    mode  offline or online

    Raises ValueError naming the key where W&B is not to be had.
    """

    def __init__(self, folder: Path, cell: dict[str, Any], mode: str) -> None:
        self.error = ""
        self._folder = folder
        self._earlier = list((folder / "wandb").glob(f"offline-run-*-{run_id(folder)}")) if mode == "offline" else []
        self._run = _started(folder, cell, mode)
        self._next = self._run.starting_step  # the rows before are there
        inputs = lines.committed(folder)
        if any(entry["index"] >= self._next for entry in inputs):
            records = groupby(read_records(folder, partial=True), lambda record: record["index"])
            found = {index: list(some) for index, some in records}
            for entry in inputs:
                self.add(entry, found.get(entry["index"], ()))

    def add(self, entry: dict[str, Any], records: Sequence[dict]) -> None:
        """Mirror one committed input."""
        if entry["index"] >= self._next:
            self._try(lambda: self._run.log(history_row(entry, records), step=entry["index"]))

    def finish(self) -> None:
        """Add what the finished folder has beside its inputs, and end the run.

        One that is never finished W&B ends itself when the process does, as failed: a job that is being stopped has
        been handed on by then.
        """
        self._try(self._complete)
        self._try(lambda: self._run.finish(exit_code=0))
        self._run = None
        if not self.error:
            for path in self._earlier:
                shutil.rmtree(path, ignore_errors=True)

    def _complete(self) -> None:
        summary = json.loads((self._folder / "summary.json").read_text())
        self._run.summary.update(summary)
        if "n" not in summary:  # not one request was answered
            return
        last = lines.committed(self._folder)[-1]["index"]
        with tempfile.TemporaryDirectory() as scratch:
            media = _tables(summary) | _figures(self._folder, summary, Path(scratch))
            if last >= self._next:  # into the last input's row: one of their own would be an input too many
                self._run.log(media, step=last)
            else:
                self._run.summary.update(media)

    def _try(self, work: Callable[[], object]) -> None:
        if self._run is None:
            return
        try:
            work()
        except Exception as error:  # of whatever kind: a mirror must not end the measurement
            self._run = None
            self.error = f"{type(error).__name__}: {error}"
            print(
                f"track: W&B failed, {self._folder} is mirrored no further ({self.error}); its records are not "
                f"touched, and {LATER} mirrors them later",
                file=sys.stderr,
            )


def run_id(folder: Path) -> str:
    """Fixed for a cell: its folder's name, and where and when it was begun, which another measurement of it was not."""
    found = status.read(folder)
    begun = {key: found.attempts[0][key] for key in ("host", "pid", "time")} if found and found.attempts else {}
    digest = hashlib.sha256(json.dumps(begun, sort_keys=True).encode()).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', folder.resolve().name)[:100]}-{digest[:6]}"


def mirror(folder: Path, mode: str) -> Mirror:
    """Mirror a finished cell's folder, or complete the mirror that it has."""
    summary = json.loads((folder / "summary.json").read_text())
    made = Mirror(folder, {key: summary.get(key) for key in IDENTITY}, mode)
    made.finish()
    return made


def _started(folder: Path, cell: dict[str, Any], mode: str) -> Any:
    try:
        import wandb  # its package is large, and wanted only here
    except ImportError:
        raise ValueError(f"track={mode}: needs wandb: pip install 'recap-decoding[wandb]'") from None
    config = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
    settings = wandb.Settings(
        console="off", silent=True, save_code=False, disable_git=True, x_disable_stats=True, x_disable_meta=True,
        init_timeout=INIT_S, finish_timeout=FINISH_S,
    )  # fmt: skip
    group = config.get("sweep") or f"{cell['model']}/{cell['bench']}"
    wandb.setup(settings=settings)  # silent from here on: it must not ask for a key either
    try:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), group=group, job_type=_method(cell),
            name=f"{cell['model']}/{_method(cell)}/{cell['bench']}", id=run_id(folder), resume="allow",
            config=config | {"cell": cell}, dir=str(folder), mode=mode, reinit="create_new", settings=settings,
        )  # fmt: skip
    except (wandb.errors.Error, OSError) as error:
        raise ValueError(
            f"track={mode}: W&B cannot be had ({error}); track=offline writes the runs into the cells' folders, and "
            f"{LATER} uploads them later"
        ) from None
    run.define_metric(f"{INPUT}*", summary="none")
    return run


def _method(cell: dict[str, Any]) -> str:
    """With its rung of the ablation ladder."""
    return "-".join(filter(None, (cell["method"], cell["ablation"])))


def _tables(summary: dict[str, Any]) -> dict[str, Any]:
    """The tables that a run prints."""
    import wandb

    named = {"speed": speed_lines([summary]), "acceptance": acceptance_lines([summary])}
    return {
        TABLES + name: wandb.Table(columns=list(header), data=[list(line) for line in body])
        for name, (header, *body) in named.items()
    }


def _figures(folder: Path, summary: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """The ledger as bars and the course of the stream, drawn into `scratch`."""
    import wandb

    from analysis import bars, course  # loads matplotlib, which an untracked run need not

    frame, title, method = load(folder), f"{summary['model']} on {summary['bench']}", _method(summary)
    ledger, *_ = bars.draw({(title, method): frame}, scratch)
    drawn = {"ledger": ledger, "course": course.draw(frame, f"{title}: {method}", scratch / "course.png")}
    return {FIGURES + name: wandb.Image(str(path)) for name, path in drawn.items()}


def main(arguments: list[str]) -> int:
    """0 where all finished cells below a folder are mirrored, 1 where one is not, 2 where there is none."""
    parser = argparse.ArgumentParser("python -m runners.track", description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="a cell's folder, or a results root")
    parser.add_argument("--mode", choices=MODES[1:], default="online", help="default: online")
    given = parser.parse_args(arguments)
    folders = sorted(path.parent for path in given.folder.rglob(status.NAME))
    ended = [folder for folder in folders if status.read(folder).state == "ok"]
    for folder in folders:
        if folder not in ended:
            print(f"left out, not finished: {folder}")
    if not ended:
        print(f"error: {given.folder}: no finished cell there", file=sys.stderr)
        return 2
    failed = False
    for folder in ended:
        try:
            failed |= bool(mirror(folder, given.mode).error)
        except ValueError as error:
            print(f"error: {folder}: {error}", file=sys.stderr)
            return 2
        print(f"{run_id(folder)}: {folder}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
