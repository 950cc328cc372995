"""Methods against each other, input by input, on the same requests.

    python -m analysis.compare CELL OTHER_CELL               two cells, in full
    python -m analysis.compare SOURCE ... [--against NAME]   every method of every cell, each paired with one of them

A source is a cell's folder, a results root, an offline run of W&B, or wandb:ENTITY/PROJECT[/GROUP].
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.bootstrap import Effect, mean_effect, over_runs
from analysis.cells import Cell, bench_labels, grouped, method_labels
from analysis.gather import cells_of
from analysis.metrics import accepted_per_step, rates, ratios
from analysis.pairing import Pair, pair
from analysis.summary import aligned, effect, number

WINDOWS = {"end to end": "window", "decode only": "decode"}


def gain(runs: Pair, window: str) -> Effect:
    """Mean over inputs of the throughput of `left` over that of `right`, less one; clustered."""
    faster = rates(runs.left, window, "method") / rates(runs.right, window, "method")
    return mean_effect(faster - 1, runs.left.cluster, null=0)


def gain_over_ar(runs: Pair, window: str) -> Effect:
    """The same of the speedups over AR, each by its own AR run: what differs between two machines or days cancels."""
    return mean_effect(ratios(runs.left, window) / ratios(runs.right, window) - 1, runs.left.cluster, null=0)


def gain_accepted(runs: Pair) -> Effect:
    """Mean over inputs of the difference in accepted tokens a step, hence in tau."""
    return mean_effect(accepted_per_step(runs.left) - accepted_per_step(runs.right), runs.left.cluster, null=0)


def over_orders(frames: list[pd.DataFrame], window: str) -> Effect:
    """The speedup over AR, averaged over runs of the same requests in several orders, with Student's interval.

    Raises ValueError where the runs do not hold the same requests, or fewer than two are given.
    """
    requests = [set(zip(frame.row, frame.turn, strict=True)) for frame in frames]
    if any(one != requests[0] for one in requests):
        raise ValueError("these runs are not orders of one stream: their requests differ")
    return over_runs([ratios(frame, window).mean() for frame in frames], null=1)


def shown(effect: Effect, form: str = "+.2%") -> str:
    """An effect as text; one whose interval holds the null says so."""
    if np.isnan(effect.ci_low):
        return f"{effect.mean:{form}}, too few inputs for an interval"
    text = f"{effect.mean:{form}} [{effect.ci_low:{form}}, {effect.ci_high:{form}}]"
    return text + (", within noise" if effect.within_noise else "")


def report(runs: Pair, left: str, right: str) -> str:
    """What a reader needs of one comparison."""
    accepted = gain_accepted(runs)
    one_ar = (runs.left.window_ar == runs.right.window_ar).all()  # measured back to back: nothing to cancel
    lines = [f"{left} against {right}: {runs.left.row.nunique()} inputs, {len(runs.left)} requests"]
    if runs.peer:
        fields = "; ".join(f"{name}: {a} against {b}" for name, (a, b) in runs.peer.items())
        lines.append(f"peer, not a method under the same contract; {fields}")
    for name, window in WINDOWS.items():
        lines.append(f"throughput, {name}: {shown(gain(runs, window))}")
        if not one_ar:
            lines.append(f"speedup over AR, {name}: {shown(gain_over_ar(runs, window))}")
    lines.append(f"tau: {shown(accepted, '+.3f')}")
    return "\n".join(lines)


def table(cells: Sequence[Cell], against: str | None = None) -> str:
    """A block a model and benchmark, its methods by speed, each paired with the fastest or with the one named.

    Raises ValueError where no cell has that name.
    """
    methods, benches = method_labels(cells), bench_labels(cells)
    if against is not None and against not in methods.values():
        raise ValueError(f"--against {against}: choose one of {', '.join(sorted(set(methods.values())))}")
    blocks = []
    for group in grouped(cells, lambda cell: (cell.model, benches[cell])):
        ranked = sorted(group, key=lambda cell: -(cell.summary["speedup"]["end_to_end"]["mean"] or 0))
        named = {methods[cell]: cell for cell in ranked}
        base = against if against in named else methods[ranked[0]]
        lines = [("method", "inputs", "tau", "end-to-end", "decode-only", f"throughput against {base}")]
        lines += [_line(cell, methods[cell], named[base]) for cell in ranked]
        blocks.append(f"{ranked[0].model} on {benches[ranked[0]]}\n{aligned(lines)}")
    return "\n\n".join(blocks)


def _line(cell: Cell, name: str, base: Cell) -> tuple[str, ...]:
    it = cell.summary
    over_ar = (effect(it["speedup"][window]) for window in ("end_to_end", "decode_only"))
    return name, str(it["n"]), number(it["tau"]), *over_ar, _against(cell, base)


def _against(cell: Cell, base: Cell) -> str:
    """The end-to-end gain over another cell, or why there is none."""
    if cell is base:
        return ""
    try:
        runs = pair(cell, base)
    except ValueError as error:
        return str(error)
    return shown(gain(runs, "window"), "+.1%") + (" (peer)" if runs.peer else "")


def main(arguments: list[str]) -> int:
    """Print the comparison; 2 where there is none."""
    parser = argparse.ArgumentParser(
        "python -m analysis.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE")
    parser.add_argument("--against", metavar="NAME", help="the method that the others are paired with")
    given = parser.parse_args(arguments)
    try:
        found = [cells_of(source) for source in given.sources]
        cells = [cell for some in found for cell in some]
        if len(given.sources) == len(cells) == 2 and given.against is None:
            print(report(pair(*cells), *(cell.method for cell in cells)))
        else:
            print(table(cells, given.against))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
