"""A benchmark whose second input goes wrong in the tasks of a job array for which a file says so.

The files lie in the folder that RECAP_TEST_FAULTS names, one a task, named by its number: `raise` raises, `wait` waits
for as long as the file is there. The config knows nothing of it, so an undisturbed run has the same cells.
"""

import os
import time
from pathlib import Path

from runners.benches.synthetic import Synthetic

PATIENCE = 300.0  # seconds


class Disturbed(Synthetic):
    """The generated questions."""

    def score(self, row, turn, answer):
        if row.id == "synthetic-000001":
            disturb()
        return super().score(row, turn, answer)


def disturb() -> None:
    fault = Path(os.environ.get("RECAP_TEST_FAULTS", os.devnull)) / os.environ.get("SLURM_ARRAY_TASK_ID", "")
    deadline = time.monotonic() + PATIENCE
    while fault.is_file():
        assert fault.read_text() != "raise", "it was to go wrong"
        assert time.monotonic() < deadline, "nobody ended the wait"
        time.sleep(0.05)
