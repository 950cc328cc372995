"""Measures one cell: weights are loaded, the stream is run to its end, the summaries are written."""

import importlib.metadata
import inspect
import platform
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from analysis.load import load
from analysis.summary import summarise
from baselines.autoregressive import Autoregressive
from recap.types import Limits
from runners.benches.base import Bench
from runners.benches.dataset import TableBench
from runners.benches.synthetic import Synthetic
from runners.config import ROOT, build, class_of
from runners.contract import Contract
from runners.costs import calibrate
from runners.folder import DISK_FULL, Folder, make, set_aside
from runners.interrupt import Signals
from runners.lock import hold, patience, restarts
from runners.machine import watch
from runners.models import Model
from runners.pair import AR, Method, Pairing, warm_up
from runners.peer import TransformersGenerate
from runners.ranks import leads
from runners.revisit import record_rows
from runners.stream import DONE, EXCLUDED, FAILED, Stream
from runners.together import join, own_folders
from runners.track import Mirror
from runners.verdict import KINDS
from runners.visual import Load, visual_load

if TYPE_CHECKING:
    from runners.cell import Cell

WARM_UP_ROWS = 3
WARM_UP_TOKENS = 32
GROWTH_POINTS = 20
OFFERED = {"seed": 0, "prompt": "speed"}  # given to benchmarks that take them; others need them at rest
MANIFESTS = ROOT / "results/manifests"  # of the hub's data, the same for everyone


def measure(cell: "Cell", paths: Mapping[str, Path]) -> list[dict]:
    """Measure what the folders of `paths` lack; one summary a method.

    Raises ValueError naming the config key for what cannot be run, before weights load wherever that is possible, and
    Stopped on SIGTERM or SIGUSR2. What is recorded until then stays.
    """
    config = cell.config
    limits = Limits(config["max_new_tokens"])
    bench = bench_of(config)
    methods: dict[str, Method] = {AR: Autoregressive(config["ar_logits"])}
    for place, (name, section) in enumerate(cell.methods.items()):
        methods[name] = build(section, f"versus.{name}" if place else "method")
    join()
    with _held(paths, config["rerun"]), own_folders(paths) as own, Signals() as signals:
        folders = {name: Folder(path, config["trace"]) for name, path in own.items()}
        try:
            return _run(cell, bench, methods, limits, folders, signals)
        except BaseException as error:  # a run that has ended must not look like a running one
            for folder in folders.values():
                folder.fail(f"{type(error).__name__}: {error}")
            if isinstance(error, OSError) and error.errno in DISK_FULL:
                raise ValueError(
                    f"out: no space left for {config['out']}; the inputs recorded so far are whole: make room, then "
                    "run the same command again"
                ) from error
            raise
        finally:
            for folder in folders.values():
                folder.close()


@contextmanager
def _held(paths: Mapping[str, Path], rerun: bool) -> Iterator[None]:
    """The folders made, locked and, for a rerun, emptied: by the first rank, on behalf of all."""
    if not leads():
        yield
        return
    for path in paths.values():
        make(path)
    with hold(list(paths.values()), patience()):
        if rerun and not restarts():  # a restarted job goes on with the rerun that it began
            for path in paths.values():
                set_aside(path)
        yield


def _run(cell: "Cell", bench: Bench, methods, limits: Limits, folders: dict[str, Folder], signals: Signals):
    config = cell.config
    total = min(len(bench), config["limit"] or len(bench))
    for name, folder in folders.items():
        folder.write("config.yaml", cell.yaml(name))
        folder.start(_device_name(config["device"]), _versions_line(), total, len(bench), cell.command)
        if config["track"] != "none" and leads():
            folder.follow(Mirror(folder.path, cell.names | cell.identity(name), config["track"]))
    model: Model = build(
        config["model"], "model", dtype=config["dtype"], device=config["device"], engine=config["engine"]
    )
    model.check(limits)
    limits = Limits(config["max_new_tokens"], model.stop_ids)
    contract = model.contract(limits, config["ar_logits"])
    warm = Synthetic(part="warmup", pictures=model.reads_images)
    warm_limits = Limits(WARM_UP_TOKENS, model.stop_ids)
    warm_up(Pairing(model, warm, methods, warm_limits, contract), warm, WARM_UP_ROWS, config["generate_check"] > 0)
    calibrate(model, methods, folders)  # now that the process is as warm as decoding finds it
    pairing = Pairing(model, bench, methods, limits, contract, config["history"])
    load = visual_load(model, bench.rows(total)) if model.reads_images else None
    print(load or "no input has an image that can be read")
    checked = _spread(total, config["generate_check"])
    label = f"{cell.names['model']} on {cell.names['bench']}"
    machine = watch(model.model.device)
    Stream(model, pairing, bench, methods, folders, total, checked, label, config["trace"], machine).run(signals)
    seen = machine.report()
    if config["record"] == "rows":
        record_rows(next(iter(folders.values())).path, cell.names, model, bench, limits)
    ran = Ran(model, bench, contract, load, seen)
    return [_finish(cell, folder, name, methods[name], ran) for name, folder in folders.items()]


@dataclass(frozen=True, slots=True)
class Ran:
    """What all methods of a run share: with which model, on what, under which contract, beside what other work."""

    model: Model
    bench: Bench
    contract: Contract
    load: Load | None
    machine: dict


def bench_of(config: dict[str, Any]) -> Bench:
    """The benchmark, given those of the run's own keys that it takes, its rows held to their manifest."""
    section = config["bench"]
    taken = inspect.signature(class_of(section, "bench")).parameters
    given = {key: config[key] for key in OFFERED if key in taken}
    for key, rest in OFFERED.items():
        if key not in given and config[key] != rest:
            raise ValueError(f"{key}={config[key]}: this benchmark has no such choice; leave it at {key}={rest}")
    bench = build(section, "bench", **given)
    if isinstance(bench, TableBench):
        manifest = bench.manifest()
        manifest.keep(MANIFESTS if manifest.shared else Path(config["out"]) / "manifests")
    return bench


def _finish(cell: "Cell", folder: Folder, name: str, method: Method, ran: Ran) -> dict:
    inputs = folder.inputs
    left_out = {kind: [i["reason"] for i in inputs if i["outcome"] == kind] for kind in (EXCLUDED, FAILED)}
    if not any(entry["outcome"] == DONE for entry in inputs):
        reason = next(iter(left_out[EXCLUDED] + left_out[FAILED]), "")
        raise ValueError(f"not one of {len(inputs)} inputs could be run; the first: {reason}")
    refused = [reason for entry in inputs for reason in entry["refused"]]
    unpaired = [f"row {entry['row']}, turn {turn}" for entry in inputs for turn in entry["unpaired"]]
    summary = cell.identity(name) | {
        "memory": inputs[-1]["memory"] | {"growth": _growth(inputs)},
        "peer": ran.contract.differing(method.differs) if isinstance(method, TransformersGenerate) else None,
        "command": cell.command,
        "model": cell.names["model"],
        "bench": cell.names["bench"],
        "source": ran.bench.source,
        "parameters": ran.model.parameters,
        "compile_seconds": ran.model.compile_seconds,
        "contract": asdict(ran.contract) | {"hash": ran.contract.hash()},
        "ignored_processors": ran.model.ignored_processors(),
        "excluded": left_out[EXCLUDED],
        "failed": left_out[FAILED],
        "generate": _check_summary([check for entry in inputs for check in entry["checks"]]),
        "unpaired": unpaired,
        "visual_tokens": asdict(ran.load) if ran.load else None,
        "peak_memory": peak_memory(),
        "machine": ran.machine,
        "traced": cell.config["trace"],
        "versions": _versions(),
        "refused": {"turns": len(refused), "reason": refused[0] if refused else ""},
    }
    frame = load(folder.path, partial=True)
    if len(frame):
        summary |= summarise(frame, ran.machine)
        if left_out[EXCLUDED]:
            summary["alarms"].append(f"{len(left_out[EXCLUDED])} inputs left out on both sides")
        if left_out[FAILED]:
            summary["alarms"].append(f"{len(left_out[FAILED])} inputs failed on both sides: out of memory")
        if unpaired:
            summary["alarms"].append(f"{len(unpaired)} turns unpaired: asked after answers other than AR's")
        summary["alarms"] += folder.alarms()
    folder.write("summary.json", summary)
    folder.finish()
    return summary


def peak_memory() -> dict[str, int]:
    """Bytes at most in use so far by this process: of the host (pages mapped from files included), of CUDA devices."""
    unit = 1 if platform.system() == "Darwin" else 1024
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"host": host, "device": sum(map(torch.cuda.max_memory_allocated, range(torch.cuda.device_count())))}


def _growth(inputs: list[dict]) -> list[dict]:
    """What the memory held after some inputs, evenly spread, the last among them."""
    every = -(-len(inputs) // GROWTH_POINTS)
    return [{"inputs": k + 1} | inputs[k]["memory"] for k in range(len(inputs) - 1, -1, -every)][::-1]


def _spread(total: int, count: int) -> set[int]:
    """`count` indices spread evenly over `total`."""
    return {total * k // count for k in range(count)} if count else set()


def _check_summary(checks: list[dict]) -> dict | None:
    known = [check for check in checks if check["tokens"] > 1]
    tokens = sum(check["tokens"] - 1 for check in known)
    if not tokens:
        return None
    return {
        "requests": len(known),
        "verdict": {kind: sum(check["verdict"]["kind"] == kind for check in known) for kind in KINDS},
        "ms_per_token": sum(check["decode_ns"] for check in known) / 1e6 / tokens,
        "ar_ms_per_token": sum(check["ar_decode_ns"] for check in known) / 1e6 / tokens,
    }


def _versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "numpy", "numba")}
    return packages | {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}


def _versions_line() -> str:
    return ", ".join(f"{name} {version}" for name, version in _versions().items() if name != "machine")


def _device_name(device: str) -> str:
    """The name of the GPU or of the processor, which a requeued job may find changed."""
    if device.startswith("cuda") and torch.cuda.is_available():
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
