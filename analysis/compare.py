"""One method against another, input by input: python -m analysis.compare FOLDER OTHER_FOLDER"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.bootstrap import Effect, mean_effect, over_runs
from analysis.metrics import accepted_per_step, rates, ratios
from analysis.pairing import Pair, pair, read

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


def main(folders: list[str]) -> int:
    """Print the comparison of two cells' folders; 2 where they cannot be paired."""
    if len(folders) != 2:
        print("usage: python -m analysis.compare FOLDER OTHER_FOLDER", file=sys.stderr)
        return 2
    try:
        cells = [read(Path(folder)) for folder in folders]
        print(report(pair(*cells), *(cell.summary["method"] for cell in cells)))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
