"""Where the time went and what would have to change: python -m analysis.ledger DIR [--out FOLDER]

DIR is one cell's folder or a results root. Prints a ledger a cell and draws one bar a method, milliseconds an emitted
token by phase, as ledger.png and ledger.pdf in DIR or in FOLDER.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.bars import draw
from analysis.cost import Cost, passes, step_cost
from analysis.load import FRAME, load
from analysis.metrics import PHASES, REQUEST_PHASES

TARGETS = (1.0, 1.5)  # decode-only speedups to state the needed tau for
SIZES = ((0, 0), (1, 7), (8, 15), (16, 31), (32, 47), (48, 63), (64, 79), (80, 1_000_000))  # nodes, first and last


def cells(root: Path) -> list[Path]:
    """The folders below `root` that hold records. Raises ValueError where there is none."""
    found = sorted(path.parent for name in ("records.jsonl", FRAME) for path in root.rglob(name))
    if not found:
        raise ValueError(f"{root}: no records.jsonl there or below; give the folder that a run printed last")
    return found


def named(folders: list[Path]) -> dict[tuple[str, str], Path]:
    """Folders, which end in model/bench/method-hash, by ('model on bench', 'method'); the hash where two need it."""
    whole = {(f"{path.parents[1].name} on {path.parent.name}", path.name): path for path in map(Path.resolve, folders)}
    short = {key: (key[0], key[1].rpartition("-")[0] or key[1]) for key in whole}
    taken = list(short.values())
    return {short[key] if taken.count(short[key]) == 1 else key: path for key, path in whole.items()}


def report(frame: pd.DataFrame, title: str, method: str) -> str:
    """The ledger of one cell as text."""
    cost = step_cost(frame)
    lines = [
        f"{title}: {method}, {len(frame)} requests",
        "",
        *_phase_lines(frame, method),
        "",
        *_cost_lines(cost, method),
    ]
    return "\n".join([*lines, "", *_size_lines(cost, passes(frame))])


def _phase_lines(frame: pd.DataFrame, method: str) -> list[str]:
    """Totals, per step or request, and shares of the window; then all phases together, and the window by a clock of
    its own, which they must add up to."""
    sides = {"ar": "AR", "method": method}
    head = f"{'phase':<9}{'per':<9}" + "".join(
        f"{name + ' ms':>20}{'ms each':>10}{'share':>8}" for name in sides.values()
    )
    lines = [head, "-" * len(head)]
    for phase in PHASES:
        per_request = phase in REQUEST_PHASES
        line = f"{phase:<9}{'request' if per_request else 'step':<9}"
        for side in sides:
            ms = frame[f"{phase}_ns_{side}"].sum() / 1e6
            count = len(frame) if per_request else frame[f"steps_{side}"].sum()
            each = f"{ms / count:.3f}" if count else "n/a"
            line += f"{ms:>20,.1f}{each:>10}{ms / (frame[f'window_{side}'].sum() / 1e6):>8.1%}"
        lines.append(line)
    for name, total in (("together", "window"), ("measured", "measured")):
        line = f"{name:<9}{'request':<9}"
        for side in sides:
            ms, window = frame[f"{total}_{side}"].sum() / 1e6, frame[f"window_{side}"].sum() / 1e6
            line += f"{ms:>20,.1f}{ms / len(frame):>10.3f}{ms / window:>8.1%}"
        lines.append(line)
    return lines


def _cost_lines(cost: Cost, method: str) -> list[str]:
    a, b = ("[{:.4g}, {:.4g}]".format(*interval) for interval in (cost.a_interval, cost.b_interval))
    slope = f"b = {cost.b_ms_per_node:.4g} ms a node {b}" if np.isfinite(cost.b_ms_per_node) else "b unknown (one size)"
    lines = [
        f"A verification pass of n drafted nodes takes a + b * n: a = {cost.a_ms:.4g} ms {a}, {slope}",
        f"  (least squares over {cost.passes} passes of both sides, {cost.plain} of them without a draft; "
        "95 % bootstrap intervals by image)",
        f"A step of {method} takes {cost.step_ms:.3f} ms, {cost.verify_ms:.3f} of them its pass; "
        f"a step of AR {cost.plain_step_ms:.3f}, {cost.plain_verify_ms:.3f} of them its pass.",
        f"Break-even tau at this cost: {cost.break_even_tau:.2f}; pooled tau: {cost.tau:.2f}; decode-only speedup, "
        f"total tokens over total time: {cost.speedup:.2f}",
        f"Limit, were a step its pass alone (tau * T(1) / T(n)): {cost.limit:.2f}; share of it reached: "
        f"{cost.speedup / cost.limit:.1%}",
    ]
    return lines + [f"warning: {alarm}" for alarm in cost.alarms()]


SIZE_NOTES = """\
Measured: passes of both sides, their mean nodes and ms, tokens committed a step by the method ('tau').
Predicted for steps of so many nodes: the fitted pass, plus what a mean step spends beside it, the same at every size.
'speed': decode-only at the tau of the same line; those steps had trees of this size because memory gave no more, or
gave it all, so it is no forecast for a budget. 'at all': at the pooled tau of all steps, which trees of another size
would not keep."""


def _size_lines(cost: Cost, table: pd.DataFrame) -> list[str]:
    """The measured and the predicted by tree size."""
    needed = "".join(f"{f'tau for {target:.1f}x':>14}" for target in TARGETS)
    head = f"{'nodes':<8}{'passes':>7}{'mean':>7}{'ms':>9}{'tau':>7}{'fitted ms':>11}{needed}{'speed':>8}{'at all':>8}"
    lines = [head, "-" * len(head)]
    for first, last in SIZES:
        inside = table[table.nodes.between(first, last)]
        if inside.empty:
            continue
        mean, top = inside.nodes.mean(), inside.nodes.max()
        tau = inside[inside.side == "method"].committed.mean()
        span = f"{first}-{top}" if top > first else f"{top}"
        line = f"{span:<8}{len(inside):>7}{mean:>7.1f}{inside.ms.mean():>9.3f}{_number(tau):>7}"
        line += f"{_number(cost.a_ms + cost.b_ms_per_node * mean, 3):>11}"
        line += "".join(f"{_number(cost.tau_needed(mean, target)):>14}" for target in TARGETS)
        even = cost.tau_needed(mean)
        lines.append(f"{line}{_number(tau / even):>8}{_number(cost.tau / even if mean else np.nan):>8}")
    return [*lines, SIZE_NOTES]


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "n/a"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m analysis.ledger", description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="a cell's folder, or a results root")
    parser.add_argument("--out", type=Path, help="where the figure goes (default: beside the cell)")
    given = parser.parse_args(arguments)
    try:
        frames = {name: load(folder) for name, folder in named(cells(given.folder)).items()}
    except ValueError as error:
        sys.exit(f"error: {error}")
    frames = {name: frame for name, frame in frames.items() if len(frame)}
    for (title, method), frame in frames.items():
        print(report(frame, title, method), end="\n\n")
    for path in draw(frames, given.out or given.folder):
        print(path)


if __name__ == "__main__":
    main()
