"""What passes cost, told to the methods that weigh their drafts by it (`budget=auto`).

A cell keeps its table in cost.json: whatever continues the cell drafts as it began, on another machine too, and ranks
draft alike by the first one's table. `rerun=true` measures anew.
"""

import json
from collections.abc import Mapping

import numpy as np

from recap.cost import measure
from runners.folder import COST, Folder
from runners.models import Model
from runners.pair import Method
from runners.peer import TransformersGenerate
from runners.ranks import leads
from runners.together import from_first


def calibrate(model: Model, methods: Mapping[str, Method], folders: Mapping[str, Folder]) -> None:
    """Give every method that asks for it the table of its cell, measured where there is none."""
    measured: dict[int, list[float]] = {}  # by the largest pass
    for name, folder in folders.items():
        method = methods[name]
        most = 0 if isinstance(method, TransformersGenerate) else method.unpriced()
        if not most:
            continue
        path = folder.path / COST
        seconds = from_first(json.loads(path.read_text())["seconds"] if leads() and path.is_file() else None)
        if seconds is None:
            if most not in measured:
                measured[most] = from_first(measure(model.target, most, method.top_k).tolist())
            seconds = measured[most]
            if leads():
                folder.write(COST, {"seconds": seconds})
        method.calibrate(np.array(seconds))
