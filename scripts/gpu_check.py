"""What a CUDA machine makes of this library, in under eight minutes, with random weights of the 7B shapes in bfloat16.

    python scripts/gpu_check.py            # writes results/gpu/<device>.json
    python scripts/gpu_check.py --small    # small shapes, on the CPU where there is no GPU: does the check itself work?

Nothing is downloaded; torch, transformers, numba and numpy are all it needs. Acceptance is scripted, since random
weights accept nothing: every pass runs and is paid for, then its rows are replaced so that drafts are accepted at the
published mean. The request has one picture. Parts that would not fit into the time are left out, and say so.
"""

import argparse
import gc
import json
import math
import platform
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu.acceptance import NoModel, Script, Scripted  # noqa: E402
from gpu.shapes import IDS, SHAPES, build, inputs_of  # noqa: E402

from baselines.autoregressive import Autoregressive  # noqa: E402
from recap import Draft, Limits, Recap  # noqa: E402
from recap.decode import generate, no_clock  # noqa: E402
from recap.drafter import NOTHING  # noqa: E402
from recap.targets import target_for  # noqa: E402
from recap.targets.cuda import GraphPasses  # noqa: E402
from runners.clock import clock_for  # noqa: E402

TAU = 3.02  # published for Qwen2.5-VL-7B, seven sets
BUDGET_S = 480.0
FIRST_GUESS_S = 45.0  # of a part that has not run yet
STEP_PHASES = ("draft", "verify", "commit", "observe")
FULL = 68  # rows of a full tree, its suffix and the root


# What is measured


class Check:
    """One model's measurements; every method is a part and returns what is written down."""

    def __init__(self, name: str, small: bool, device: torch.device) -> None:
        self.name, self.small, self.device = name, small, device
        self.new, self.turns, self.repeats = (16, 2, 2) if small else (200, 4, 15)
        self.sizes = (1, 8, 68) if small else (1, 2, 4, 8, 16, 24, 32, 48, 64, 68, 81)
        self.model = build(SHAPES[name](small), device, torch.bfloat16)
        self.inputs = inputs_of(self.model, small)
        self.target = {"eager": target_for(self.model)}
        self.limits = Limits(self.new)
        self.request = self.target["eager"].request(self.inputs, self.limits)

    def shape(self) -> dict:
        return {
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "prompt_tokens": len(self.request.prompt),
            "new_tokens": self.new,
        }

    def equal(self) -> dict:
        """Tokens of the graphs against eager's: small shapes in float32, whose weights make outputs vary."""
        model = build(SHAPES[self.name](True), self.device, torch.float32)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.normal_(0.0, 0.15)
        eager, graphs = target_for(model), self._graphs(model)
        pairs = [(method(), method()) for method in (Autoregressive, Recap)]
        same = []
        for seed in range(2 if self.small else 6):
            request = eager.request(inputs_of(model, True, seed), limits := Limits(self.new))
            for first, second in pairs:
                expected = generate(eager, first, request, limits).tokens
                same.append(np.array_equal(expected, generate(graphs, second, request, limits).tokens))
        return {"requests": len(same), "equal": sum(same)}

    def capture(self) -> dict:
        """Seconds that the graphs take to be captured, for all passes of RECAP at the lengths of this request."""
        target = self._graphs(self.model, len(self.request.prompt) + self.new + FULL)
        seconds = self._seconds(lambda: target.engine.prepare(FULL))
        self.target["graphs"] = target
        return {"seconds": seconds, "passes": target.engine.made}

    def curve(self, engine: str) -> dict[int, float]:
        """Milliseconds of a pass over n rows, behind the prompt."""
        target = self.target[engine]
        target.prefill(self.request, NOTHING, 8, no_clock)
        times = {}
        for n in self.sizes:
            work = partial(target.verify, 1, _tree(n - 1), 8)
            spent = [self._seconds(work) for _ in range(self.repeats + 2)]
            times[n] = 1e3 * median(spent[2:])
        target.reset()
        return times

    def transformers_generate(self) -> dict:
        """Milliseconds a token of transformers' own greedy decoding, without the prompt's."""
        greedy = partial(self.model.generate, **self.inputs, do_sample=False, repetition_penalty=1.0, pad_token_id=0)
        self._seconds(partial(greedy, max_new_tokens=4))
        one, some = (self._seconds(partial(greedy, max_new_tokens=new)) for new in (1, self.new // 2))
        return {"ar_ms_per_token": 1e3 * (some - one) / (self.new // 2 - 1)}

    def decoding(self, engine: str) -> dict:
        """AR and RECAP, whose acceptance is scripted, by turns; the ledger in milliseconds a step."""
        target, clock = self.target[engine], clock_for(self.device)
        script, recap = Script(TAU), Recap()
        generate(Scripted(NoModel(), script), recap, self.request, Limits(5 * self.new))  # as late in a stream
        sides = {"ar": (target, Autoregressive()), "recap": (Scripted(target, script, clock), recap)}
        runs = {name: [] for name in sides}
        for turn in range(self.turns + 1):
            for name, (watched, drafter) in sides.items():
                clock.start()
                output = generate(watched, drafter, self.request, self.limits, clock)
                timing = clock.stop()
                if turn:  # the first warms up
                    runs[name].append((output, timing))
        return _compared(runs)

    def _graphs(self, model, ready: int = 1024):
        target = target_for(model)
        target.engine = GraphPasses(target, capture=self.device.type == "cuda", ready=ready)
        return target

    def _seconds(self, work: Callable) -> float:
        wait = torch.cuda.synchronize if self.device.type == "cuda" else lambda: None
        wait()
        started = time.perf_counter()
        work()
        wait()
        return time.perf_counter() - started


def _tree(nodes: int) -> Draft:
    """Eight chains side by side."""
    tokens = np.random.default_rng(nodes).integers(1, IDS, nodes)
    return Draft(tokens, np.arange(-8, nodes - 8).clip(-1).astype(np.int32), np.zeros(nodes, np.int8))


def _compared(runs: dict) -> dict:
    """Decode-only speedup, tau and efficiency (speedup / tau), and each side's ledger."""
    report = {name: _side(ran) for name, ran in runs.items()}
    ar, ours = report["ar"], report["recap"]
    efficiency = ar["step_ms"] / ours["step_ms"]
    tokens = len(runs["ar"][0][0].tokens) - 1
    whole = {
        name: sum(side["request_ms"].values()) + tokens / side["tau"] * side["step_ms"] for name, side in report.items()
    }
    return report | {
        "efficiency": efficiency,
        "speedup_decode_only": efficiency * ours["tau"],
        "speedup_end_to_end": whole["ar"] / whole["recap"],
    }


def _side(ran: list) -> dict:
    """tau, rows a pass, and where the time goes, in milliseconds: `request_ms` once, the rest a step."""
    per_step = [
        {phase: timing.phases_ns[phase] / 1e6 / len(output.steps) for phase in (*STEP_PHASES, "other")}
        for output, timing in ran
    ]
    return {
        "tau": 1 + mean(mean(len(step.committed) - 1 for step in output.steps) for output, _ in ran),
        "rows_per_pass": mean(len(step.draft) + 1 for output, _ in ran for step in output.steps),
        "step_ms": median(sum(spent[phase] for phase in STEP_PHASES) for spent in per_step),
        "ledger_ms": {phase: median(spent[phase] for spent in per_step) for phase in per_step[0]},
        "request_ms": {
            phase: median(timing.phases_ns[phase] / 1e6 for _, timing in ran) for phase in ("vision", "prefill")
        },
    }


# The run


PARTS: dict[str, Callable[[Check], dict]] = {
    "shape": Check.shape,
    "graphs_equal_eager": Check.equal,
    "transformers_generate": Check.transformers_generate,
    "decoding_eager": lambda check: check.decoding("eager"),
    "graph_capture": Check.capture,
    "decoding_graphs": lambda check: check.decoding("graphs"),
    "curve_ms_graphs": lambda check: check.curve("graphs"),
    "curve_ms_eager": lambda check: check.curve("eager"),
}


def run(report: dict, path: Path, small: bool, device: torch.device, budget_s: float) -> None:
    """All parts of all models; the report is written after each."""
    started, guesses = time.monotonic(), {}
    for name in SHAPES:
        check, written = None, report["models"].setdefault(name, {})
        for part, work in PARTS.items():
            spent = time.monotonic() - started
            if spent + guesses.get(part, FIRST_GUESS_S) > budget_s:
                written[part] = {"skipped": f"{spent:.0f} s of {budget_s:.0f} s are spent"}
            else:
                print(f"{spent:6.1f} s  {name}  {part}", flush=True)
                try:
                    check = check or Check(name, small, device)
                    written[part] = work(check)
                except (RuntimeError, KeyError) as error:  # what a device or a part before it refuses; others go on
                    written[part] = {"failed": f"{type(error).__name__}: {error}"}
                guesses[part] = time.monotonic() - started - spent
            report["took_s"] = time.monotonic() - started
            path.write_text(json.dumps(report, indent=2) + "\n")
        del check
        gc.collect()
        torch.cuda.empty_cache()


def table(models: dict) -> str:
    """The report's main figures, a model a block."""
    lines = []
    for name, parts in models.items():
        lines.append(name)
        plain = parts["transformers_generate"].get("ar_ms_per_token", math.nan)
        lines.append(f"  transformers' generate {plain:.2f} ms/token")
        for engine in ("eager", "graphs"):
            if "efficiency" in (found := parts[f"decoding_{engine}"]):
                lines += _decoding_lines(engine, found, plain)
            if FULL in (curve := parts[f"curve_ms_{engine}"]):
                lines.append(f"  {engine:6} T(n) ms  " + "  ".join(f"{n}: {ms:.2f}" for n, ms in curve.items()))
        if "equal" in (graphs := parts["graphs_equal_eager"]):
            lines.append(f"  graphs equal eager on {graphs['equal']} of {graphs['requests']} requests")
        for part, result in parts.items():
            lines += [f"  {part} {what}: {result[what]}" for what in ("skipped", "failed") if what in result]
    return "\n".join(lines)


def _decoding_lines(engine: str, found: dict, plain: float) -> list[str]:
    ar, ours = found["ar"], found["recap"]
    return [
        f"  {engine:6} AR {ar['step_ms']:.2f} ms/token, {plain / ar['step_ms']:.2f} x generate; RECAP "
        f"{ours['step_ms']:.2f} ms/step, {ours['rows_per_pass']:.0f} rows, tau {ours['tau']:.2f}: decode-only "
        f"{found['speedup_decode_only']:.2f} x, efficiency {found['efficiency']:.3f}, end to end "
        f"{found['speedup_end_to_end']:.2f} x",
        f"  {engine:6} RECAP's step, ms  " + "  ".join(f"{phase} {ms:.3f}" for phase, ms in ours["ledger_ms"].items()),
    ]


def machine(device: torch.device) -> dict:
    """Device, versions and system."""
    about = {"system": platform.platform(terse=True), "python": platform.python_version()}
    about |= {name: version(name) for name in ("torch", "transformers", "numba", "numpy")}
    if device.type == "cpu":
        return about | {"device": "cpu"}
    properties = torch.cuda.get_device_properties(device)
    capability = f"{properties.major}.{properties.minor}"
    return about | {
        "device": properties.name, "memory_bytes": properties.total_memory, "capability": capability,
        "cuda": torch.version.cuda,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small shapes, on the CPU where there is no GPU")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds that no part may exceed")
    parser.add_argument("--out", type=Path, help="folder; results/gpu, or results/local/gpu for small shapes")
    options = parser.parse_args()
    if not torch.cuda.is_available() and not options.small:
        print("error: torch sees no CUDA device here; --small runs small shapes on the CPU", file=sys.stderr)
        return 2
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    out = options.out or ROOT / ("results/local/gpu" if options.small else "results/gpu")
    out.mkdir(parents=True, exist_ok=True)
    about = machine(device)
    path = out / (re.sub(r"[^a-z0-9]+", "-", about["device"].lower()).strip("-") + ".json")
    command = " ".join(["python scripts/gpu_check.py", *sys.argv[1:]])
    report = {"command": command, "machine": about, "tau": TAU, "models": {}}
    run(report, path, options.small, device, options.budget)
    print(table(report["models"]))
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
