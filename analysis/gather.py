"""Finished cells from wherever they are: a cell's folder, a results root, W&B's offline runs, or W&B itself."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from analysis import wandb_file
from analysis.cells import Cell, cell_of, read, walk
from analysis.mirror import REQUESTS, STEP, frame_of_history, own_summary

ONLINE = "wandb:"
USAGE = f"a cell's folder, a results root, an offline run of W&B, or {ONLINE}ENTITY/PROJECT[/GROUP]"


def cells_of(source: str) -> list[Cell]:
    """All cells of a source, as USAGE has it, that hold a request. Raises ValueError for a source without."""
    found = [cell for cell in _all(source) if len(cell.frame)]
    if not found:
        raise ValueError(f"{source}: no request was answered there")
    return found


def _all(source: str) -> list[Cell]:
    if source.startswith(ONLINE):
        return _online(source)
    path = Path(source)
    if not path.exists():
        raise ValueError(f"{path}: not there; expected {USAGE}")
    if (file := wandb_file.file_of(path)) is not None:
        return [_mirrored(file)]
    if (path / "records.jsonl").is_file():
        if not (path / "summary.json").is_file():
            raise ValueError(f"{path / 'summary.json'}: no summary; was the run completed?")
        return [read(path)]
    if next(path.rglob("status.json"), None) is None and (files := sorted(path.rglob("run-*.wandb"))):
        return [_mirrored(file) for file in files]
    return walk(path)


def _mirrored(file: Path) -> Cell:
    """The cell that an offline run mirrors."""
    run = wandb_file.read(file)
    if not run.finished:
        raise ValueError(f"{file}: the run was not ended; continue it, or mirror it anew: python -m runners.track")
    return _cell(file.parent, run.config, run.summary, run.history)


def _online(source: str) -> list[Cell]:
    """The cells whose runs W&B has, of one sweep or of a whole project."""
    try:
        import wandb
    except ImportError:
        raise ValueError(f"{source}: reading it needs wandb: pip install 'recap-decoding[wandb]'") from None
    entity, project, group = [*source.removeprefix(ONLINE).split("/", 2), "", ""][:3]
    if not (entity and project):
        raise ValueError(f"{source}: expected {ONLINE}ENTITY/PROJECT[/GROUP]")
    filters = {"state": "finished"} | ({"group": group} if group else {})
    try:
        runs = list(wandb.Api(timeout=30).runs(f"{entity}/{project}", filters=filters))
        return [cell_of_api(run) for run in _some(runs, source)]
    except (wandb.errors.Error, OSError) as error:
        raise ValueError(f"{source}: W&B does not give it ({error}); local folders compare as well") from None


def cell_of_api(run: Any) -> Cell:
    """The cell that a run of W&B's public interface mirrors."""
    path = Path(ONLINE + "/".join(run.path))
    return _cell(path, run.config, _plain(run.summary), run.scan_history(keys=[STEP, REQUESTS]))


def _cell(folder: Path, config: Mapping, summary: Mapping, history: Iterable[Mapping]) -> Cell:
    if "cell" not in config:
        raise ValueError(f"{folder}: not a mirror of a cell (its config has no 'cell')")
    return cell_of(folder, own_summary(summary) | config["cell"], dict(config), frame_of_history(history))


def _some(runs: list, source: str) -> list:
    if not runs:
        raise ValueError(f"{source}: no finished run there")
    return runs


def _plain(value: Any) -> Any:
    """W&B's nested summaries as dicts."""
    return {key: _plain(inner) for key, inner in value.items()} if hasattr(value, "items") else value
