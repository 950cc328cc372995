"""The cells of one method on several benchmarks as one frame."""

from collections.abc import Sequence

import pandas as pd

from analysis.cells import Cell
from analysis.published import PRESETS, has_form
from analysis.reproduction import shuffled


def pooled(cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    """The paper's methods in its own form, each over all benchmarks in their own order; no method without a cell.

    Clusters of two benchmarks are never one. Where a benchmark was measured under several settings, the first counts.
    """
    found = {}
    for method, preset in PRESETS.items():
        mine = [c for c in cells if c.method == method and not shuffled(c) and has_form(c.options, preset)]
        first = {cell.bench: cell for cell in reversed(mine)}
        frames = [cell.frame.assign(cluster=bench + "/" + cell.frame.cluster.astype(str))
                  for bench, cell in sorted(first.items())]  # fmt: skip
        if frames:
            found[method] = pd.concat(frames, ignore_index=True)
    return found
