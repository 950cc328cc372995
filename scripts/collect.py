"""Which cells below a folder are complete, and what completes the rest.

    python scripts/collect.py results/local            a table; exit code 0: all complete, 1: not, 2: no cell there
    python scripts/collect.py results/local --rerun    the commands that complete them, one a line
    python scripts/collect.py results/local --rerun | sh

A cell is judged by the status that its own process left and by its lock, never by what a scheduler says of its job.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runners import lock, status

COMPLETE, RUNNING = "complete", "running"
OPEN = ("missing", "failed", "stale")  # queued but never started; ended by an error; said to run, but nobody does


@dataclass(frozen=True, slots=True)
class Found:
    """A cell's folder, what it is judged to be, and its status."""

    name: str
    verdict: str
    status: status.Status


def collect(root: Path) -> list[Found]:
    """Every cell below `root`, by name."""
    folders = sorted(path.parent for path in root.rglob(status.NAME))
    return [Found(str(folder.relative_to(root)), *judge(folder)) for folder in folders]


def judge(folder: Path) -> tuple[str, status.Status]:
    """What a cell is, and its status, which is read again where its process ended in between."""
    running = lock.holder(folder) is not None
    found = status.read(folder)
    if running:
        return RUNNING, found
    return {"ok": COMPLETE, "queued": "missing", "failed": "failed", "running": "stale"}[found.state], found


def table(cells: list[Found]) -> str:
    """One line a cell, then the counts."""
    lines = [("cell", "state", "inputs", "restarts", "host", "error")]
    for cell in cells:
        s = cell.status
        inputs = f"{s.inputs}/{'?' if s.of is None else s.of}"
        lines.append((cell.name, cell.verdict, inputs, str(s.restarts), s.host, s.error.split("\n")[0][:100]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    counts = [f"{n} {v}" for v in (COMPLETE, RUNNING, *OPEN) if (n := sum(c.verdict == v for c in cells))]
    return "\n".join([*shown, "", ", ".join(counts)])


def commands(cells: list[Found]) -> list[str]:
    """What completes the open cells; methods of one run share a command."""
    return list(dict.fromkeys(cell.status.command for cell in cells if cell.verdict in OPEN))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--rerun", action="store_true", help="print the commands that complete the open cells")
    options = parser.parse_args()
    try:
        cells = collect(options.dir)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not cells:
        print(f"error: {options.dir}: no cell there (no {status.NAME})", file=sys.stderr)
        return 2
    if options.rerun:
        print("\n".join(commands(cells)), end="\n" if commands(cells) else "")
    else:
        print(table(cells))
    return 0 if all(cell.verdict == COMPLETE for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
