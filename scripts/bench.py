"""What a step costs beside the target's pass, on one core: against the size of the memory and that of the tree.

    make bench

Median microseconds of drafting (its verbatim continuation included), of that continuation alone (longest match and
insertion), of the commit (acceptance and a scattered accepted path that moves cache rows) and of observing all rows.
Each is timed twice: by itself, its data in the caches, and behind a pass that has emptied them, as in real decoding.

The target is made up: rows are drawn from a seeded Zipf-like law, so that contexts repeat and trees fill their budget.
Writes results/bench.json with versions and machine.
"""

import json
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numba import njit
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from recap import Draft, Limits, Recap, Request, Rows  # noqa: E402
from recap.suffix import Automaton, extend, insert_continuation, longest_match, new_automaton  # noqa: E402
from recap.targets.slots import SlotCache  # noqa: E402
from recap.tree import new_shape  # noqa: E402
from recap.types import Ints  # noqa: E402
from recap.verify import accept  # noqa: E402

VOCABULARY = 49_152
TOP_K, DEPTH, WIDTH, SUFFIX = 8, 10, 8, 4
MEMORIES = (1_000, 10_000, 30_000, 150_000)  # rows held by M2 and M3 together, under trees of 63 nodes
TREES = (7, 15, 31, 63)  # nodes, over 10,000 rows
REPEATS = 100
ROOM = 1_000
LAYERS, HEADS, DIM, PREFIX = 6, 2, 32, 600  # tiny_qwen's cache, behind a prompt with an image
PARTS = ("draft", "suffix", "commit", "observe")
NO_STOP = np.empty(0, np.int64)
JUNK = np.zeros(64 << 20, np.uint8)  # more than the caches hold


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


class Stopwatch:
    """Times calls by name; `emptied` drops what the processor's caches hold before each."""

    def __init__(self, emptied: bool) -> None:
        self._emptied = emptied
        self._spent: dict[str, list[int]] = {part: [] for part in PARTS}

    def __call__(self, part: str, call: Callable, *arguments):
        """What the call returns."""
        if self._emptied:
            JUNK[::64] += 1
        start = time.perf_counter_ns()
        result = call(*arguments)
        self._spent[part].append(time.perf_counter_ns() - start)
        return result

    def medians(self) -> dict[str, float]:
        """Microseconds by name."""
        return {part: float(np.median(spent)) / 1e3 for part, spent in self._spent.items()}


def contextual(drafter: Recap) -> int:
    """Rows held under two- and three-token keys."""
    rows = drafter.memory()["rows"]
    return rows["M2"] + rows["M3"]


@njit
def _insert(states, edges, used, text, shape, tokens, parents, sources):
    _, end = longest_match(Automaton(states, edges, used), text.size - 1)
    return insert_continuation(text, text.size, end, SUFFIX, shape[0], tokens, parents, sources)


def continuation(text: Ints) -> Callable[[Draft], tuple]:
    """Inserts into a draft what follows a passage of `text` that comes a second time at its end."""
    text = np.concatenate((text, text[:TOP_K]))
    automaton = new_automaton(len(text))
    extend(automaton, text, 0, len(text))
    shape = np.array([new_shape(63, DEPTH, WIDTH, best_first=True, edge_guard=True, authors=True)])
    return lambda draft: _insert(*automaton, text, shape, draft.tokens, draft.parents, draft.sources)


def cache_of(nodes: int) -> SlotCache:
    """A cache with room for a pass of `nodes` nodes behind its prefix."""
    cache = SlotCache(LAYERS)
    states = torch.zeros(1, HEADS, PREFIX + nodes + 1, DIM)
    for layer in range(LAYERS):
        cache.update(states, states, layer)
    return cache


def agreeing(draft: Draft, rows: Rows) -> Rows:
    """Rows that accept the last node of the draft, which lies behind a gap, and its ancestors."""
    ids, node = rows.ids.copy(), len(draft) - 1
    while node >= 0:
        parent = draft.parents[node]
        ids[parent + 1, 0] = draft.tokens[node]
        node = parent
    return Rows(ids, rows.probs)


@torch.inference_mode()
def commit(draft: Draft, rows: Rows, cache: SlotCache) -> None:
    cache.keep(accept(draft, rows, NO_STOP, ROOM).path)


def measure(size: int, budget: int, emptied: bool) -> dict:
    """Medians over the steps that come once the memory holds `size` rows."""
    target, drafter, watch = MadeUpTarget(seed=0), Recap(budget=budget), Stopwatch(emptied)
    prompt = np.random.default_rng(1).integers(0, VOCABULARY, 512)
    request, limits = Request(prompt, VOCABULARY), Limits(20_000)
    drafter.begin(request, limits, target.rows(len(drafter.wants(request)) + 1))
    text = [prompt]
    while contextual(drafter) < size:
        draft = drafter.propose(ROOM)
        rows = target.rows(len(draft) + 1)
        step = accept(draft, rows, NO_STOP, ROOM)
        drafter.observe(rows, step)
        text.append(step.committed)
    insert, cache, nodes = continuation(np.concatenate(text)), cache_of(budget + SUFFIX), []
    for _ in range(REPEATS):
        draft = watch("draft", drafter.propose, ROOM)
        watch("suffix", insert, draft)
        rows = target.rows(len(draft) + 1)
        accepted = agreeing(draft, rows)
        cache.reset()
        cache.append(PREFIX)
        watch("commit", commit, draft, accepted, cache)
        step = accept(draft, rows, NO_STOP, ROOM)
        watch("observe", drafter.observe, rows, step)
        nodes.append(len(draft))
    return watch.medians() | {"nodes": float(np.median(nodes)), "bytes": drafter.memory()["bytes"]}


def table(name: str, sizes: tuple[int, ...], case: Callable[[int], tuple[int, int]]) -> list[dict]:
    """Measure and print one line a size; `case` gives rows and budget of a size."""
    lines = []
    for size in tqdm(sizes, desc=name, leave=False):
        warm, cold = (measure(*case(size), emptied) for emptied in (False, True))
        sizes_ = {name: size, "nodes": warm["nodes"], "bytes": warm["bytes"]}
        lines.append(sizes_ | {"us": {k: warm[k] for k in PARTS}, "us_behind_a_pass": {k: cold[k] for k in PARTS}})
    print(f"\n{name:>16}{'nodes':>8}" + "".join(f"{part:>18}" for part in PARTS))
    for line in lines:
        cells = (f"{line['us'][k]:.1f} ({line['us_behind_a_pass'][k]:.1f})" for k in PARTS)
        print(f"{line[name]:>16,}{line['nodes']:>8.0f}" + "".join(f"{cell:>18}" for cell in cells))
    return lines


def main() -> None:
    torch.set_num_threads(1)
    measure(1, 63, emptied=False)  # compile
    print("microseconds (and behind a pass that has emptied the caches)")
    report = {
        "command": "make bench",
        "machine": machine(),
        "by_memory": table("contextual rows", MEMORIES, lambda rows: (rows, 63)),
        "by_tree": table("budget", TREES, lambda budget: (10_000, budget)),
    }
    path = ROOT / "results/bench.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(path.relative_to(ROOT))


def machine() -> dict[str, str]:
    """What the figures hang on."""
    it = {"system": platform.platform(terse=True), "processor": processor(), "python": platform.python_version()}
    return it | {name: version(name) for name in ("numpy", "numba", "torch")}


def processor() -> str:
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
