"""What drafting and observing cost on one core: medians against the size of the contextual memory.

    make bench

The target is made up: rows are drawn from a seeded Zipf-like law, so that contexts repeat and trees fill their budget.
Writes results/bench.json with versions and machine.
"""

import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from recap import Limits, Recap, Request, Rows  # noqa: E402
from recap.verify import accept  # noqa: E402

VOCABULARY = 49_152
TOP_K = 8
SIZES = (10_000, 30_000, 150_000)  # rows held by M2 and M3 together
REPEATS = 100  # the last steps, which are the ones that count


class MadeUpTarget:
    """Rows for n positions: ids by a Zipf-like law, descending probabilities."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def rows(self, n: int) -> Rows:
        """n rows of distinct ids."""
        start = (self._rng.pareto(0.6, n).astype(np.int64) * 7) % (VOCABULARY - 64)
        steps = self._rng.integers(1, 8, (n, TOP_K)).cumsum(axis=1)
        logits = -np.sort(-2 * self._rng.standard_normal((n, TOP_K)), axis=1)
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        return Rows((start[:, None] + steps).astype(np.int32), probs.astype(np.float32))


def contextual(drafter: Recap) -> int:
    """Rows held under two- and three-token keys."""
    rows = drafter.memory()["rows"]
    return rows["M2"] + rows["M3"]


def measure(size: int) -> dict:
    """Median microseconds of one draft of 63 nodes (and its suffix) and of observing all its rows, at `size` rows."""
    target = MadeUpTarget(seed=0)
    drafter = Recap()
    prompt = np.random.default_rng(1).integers(0, VOCABULARY, 512)
    request, limits = Request(prompt, VOCABULARY), Limits(20_000)
    drafter.begin(request, limits, target.rows(len(drafter.wants(request)) + 1))
    no_stop = np.empty(0, np.int64)
    propose, observe, nodes = [], [], []
    while len(propose) < REPEATS or contextual(drafter) < size:
        start = time.perf_counter_ns()
        draft = drafter.propose(room=1_000)
        drafted = time.perf_counter_ns()
        rows = target.rows(len(draft) + 1)
        step = accept(draft, rows, no_stop, 1_000)
        before = time.perf_counter_ns()
        drafter.observe(rows, step)
        propose.append(drafted - start)
        observe.append(time.perf_counter_ns() - before)
        nodes.append(len(draft))
    last = slice(-REPEATS, None)
    return {
        "contextual_rows": contextual(drafter),
        "nodes": float(np.median(nodes[last])),
        "draft_us": float(np.median(propose[last])) / 1e3,
        "observe_us": float(np.median(observe[last])) / 1e3,
        "bytes": drafter.memory()["bytes"],
    }


def main() -> None:
    measure(1)  # compile
    results = [measure(size) for size in tqdm(SIZES, desc="memory sizes")]
    print(f"{'contextual rows':>16}{'nodes':>8}{'draft us':>10}{'observe us':>12}")
    for r in results:
        print(f"{r['contextual_rows']:>16,}{r['nodes']:>8.0f}{r['draft_us']:>10.1f}{r['observe_us']:>12.1f}")
    machine = {"system": platform.platform(terse=True), "processor": processor(), "python": platform.python_version()}
    report = {
        "command": "make bench",
        "machine": machine | {name: version(name) for name in ("numpy", "numba")},
        "drafting": results,
    }
    path = ROOT / "results/bench.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(path.relative_to(ROOT))


def processor() -> str:
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
