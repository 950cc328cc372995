"""Finished cells made small enough to keep in a repository: python -m analysis.compact DIR DEST

Of each cell below DIR: the frame of its records (integers a request, no token ids), what its config, summary and status
say, and the tables of its replays. Tables and figures made from DEST are those made from DIR, byte for byte; replays
and other images need DIR itself.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.cells import walk
from analysis.load import FRAME, load

COPIED = ("config.yaml", "recall.parquet", "swapped.parquet", "roots.parquet", "sources.parquet", "tau.parquet")


def compact(source: Path, destination: Path) -> list[Path]:
    """Write every finished, untraced cell below `source` into `destination`, replacing what an earlier call left.

    Raises ValueError where `destination` holds records, which are not replaced, and where `source` has no cell.
    """
    if any(destination.rglob("records.jsonl")):
        raise ValueError(f"{destination}: holds the records of a run, which would be lost; choose another folder")
    cells = [cell for cell in walk(source) if not cell.traced]
    if destination.exists():
        shutil.rmtree(destination)
    return [_cell(cell.folder, destination / cell.folder.relative_to(source)) for cell in cells]


def save(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame of records, as `analysis.load.load` reads it."""
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    small = {"compression": "zstd", "compression_level": 19, "use_dictionary": False}
    pq.write_table(table, path, **small, write_statistics=False, store_schema=False)


def _cell(folder: Path, to: Path) -> Path:
    to.mkdir(parents=True)
    save(to / FRAME, load(folder))
    for name in COPIED:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, to / name)
    for name in ("summary.json", "status.json"):
        content = json.loads((folder / name).read_text())
        (to / name).write_text(json.dumps(content) + "\n")
    return to


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m analysis.compact", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="a results root, as given to run.py with out=")
    parser.add_argument("destination", type=Path, help="a folder of their own for the compact cells")
    asked = parser.parse_args()
    try:
        made = compact(asked.results, asked.destination)
    except ValueError as error:
        sys.exit(f"error: {error}")
    size = sum(file.stat().st_size for file in asked.destination.rglob("*") if file.is_file())
    print(f"{asked.destination}: {len(made)} cells, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
