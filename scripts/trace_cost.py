"""Does tracing (steps.jsonl, inspect.jsonl) change what is timed? The same inputs with it and without, interleaved.

    make bench

Blocks of a few inputs run traced and untraced by turns, so that a write comes before the next window of its own kind;
everything else about the two is equal, memories too. Writes results/trace_cost.json; exit code 3 where total time
changes by more than 2 %, which bars traced runs from speed tables.
"""

import json
import platform
import sys
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from analysis.load import load  # noqa: E402
from analysis.tracing import barred, overhead  # noqa: E402
from baselines.autoregressive import Autoregressive  # noqa: E402
from recap.drafter import Recap  # noqa: E402
from recap.types import Limits  # noqa: E402
from runners.benches.synthetic import Synthetic  # noqa: E402
from runners.folder import INSPECT, RECORDS, STEPS, Folder, make  # noqa: E402
from runners.inspection import inspect_line  # noqa: E402
from runners.models import Model  # noqa: E402
from runners.pair import AR, Pairing, warm_up  # noqa: E402
from runners.records import step_lines  # noqa: E402

INPUTS, REPEATS, BLOCK = 32, 5, 4
MODES = {"traced": True, "plain": False}


def measure(inputs: int, repeats: int, out: Path) -> dict:
    """Run it all in folders below `out`; {'mean', 'ci_low', 'ci_high', 'requests', 'barred'}."""
    model, bench = Model(str(ROOT / "assets/tiny_qwen")), Synthetic()
    limits = Limits(200, model.stop_ids)
    contract = model.contract(limits, "last")
    pairings = {
        mode: Pairing(model, bench, {AR: Autoregressive(), "recap": Recap()}, limits, contract) for mode in MODES
    }
    for pairing in pairings.values():
        warm_up(pairing, Synthetic(part="warmup"), 2, checked=False)
    rows = list(enumerate(bench.rows(inputs)))
    blocks = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
    frames: dict[str, list] = {mode: [] for mode in MODES}
    for repeat in tqdm(range(repeats), desc="repeats"):
        paths = {mode: out / f"{mode}-{repeat}" for mode in MODES}
        for path in paths.values():
            make(path)
        folders = {mode: Folder(paths[mode], trace) for mode, trace in MODES.items()}
        for number, block in enumerate(blocks):
            for mode in sorted(MODES, reverse=bool((number + repeat) % 2)):
                for index, row in block:
                    turns = list(pairings[mode].row(index, row, checked=False))
                    lines = {RECORDS: [asdict(turn.records["recap"]) for turn in turns]}
                    if MODES[mode]:
                        steps = (step_lines(turn.records["recap"], turn.outputs["recap"]) for turn in turns)
                        lines |= {STEPS: [line for request in steps for line in request]}
                        lines |= {INSPECT: [inspect_line(row, turns, "recap", model)]}
                    folders[mode].commit({"index": index}, lines)
        for mode, folder in folders.items():
            folder.close()
            pairings[mode].reset()
            frames[mode].append(load(folder.path))
    found = overhead(frames["traced"], frames["plain"])
    return asdict(found) | {"barred": barred({"traced": True}, found)}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measure(INPUTS, REPEATS, Path(folder))
    print(f"tracing changes total time by {found['mean']:+.2%} [{found['ci_low']:+.2%}, {found['ci_high']:+.2%}]")
    machine = {"system": platform.platform(terse=True), "python": platform.python_version(), "torch": version("torch")}
    report = {"command": "make bench", "machine": machine, "inputs": INPUTS, "repeats": REPEATS, "tracing": found}
    path = ROOT / "results/trace_cost.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(path.relative_to(ROOT))
    if found["barred"]:
        sys.exit(3)


if __name__ == "__main__":
    main()
