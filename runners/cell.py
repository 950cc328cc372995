"""One cell: a model, a benchmark, a method and those it is compared with, each against the same AR run."""

import importlib.metadata
import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from tqdm import tqdm

from analysis.load import load
from analysis.summary import summarise, table
from baselines.autoregressive import Autoregressive
from recap.types import Limits
from runners.benches.base import Bench
from runners.benches.synthetic import Synthetic
from runners.config import build, content_hash
from runners.models import Model
from runners.pair import AR, Method, Pairing, RowError, warm_up
from runners.peer import Check
from runners.records import Folder
from runners.verdict import KINDS, Verdict, sound

WARM_UP_ROWS = 3
WARM_UP_TOKENS = 32
SHOWN = 10  # outputs that differ, a line each
HASHED = ("model", "bench", "max_new_tokens", "seed", "dtype", "device", "engine", "ar_logits")
OK, DIFFERS = 0, 3  # exit codes


@dataclass(frozen=True, slots=True)
class Cell:
    """What to run.

    names    the choices 'model' and 'bench'
    methods  config sections by name, the asked-for one first
    command  as typed, for the record
    """

    config: dict[str, Any]
    names: dict[str, str]
    methods: dict[str, dict[str, Any]]
    command: str = ""

    def folder(self, method: str) -> Path:
        """Named by content: everything that changes a method's results, so not `limit`, `out` or its company."""
        key = content_hash({k: self.config[k] for k in HASHED} | {"method": self.methods[method]})
        return Path(self.config["out"]) / self.names["model"] / self.names["bench"] / f"{method}-{key}"


def run(cell: Cell) -> int:
    """Run it; returns the process's exit code.

    Raises ValueError naming the config key for what cannot be run, before weights load wherever that is possible.
    """
    config = cell.config
    check(config)
    bench: Bench = build(config["bench"], "bench", seed=config["seed"])
    methods: dict[str, Method] = {AR: Autoregressive(config["ar_logits"])}
    for place, (name, section) in enumerate(cell.methods.items()):
        methods[name] = build(section, f"versus.{name}" if place else "method")
    model: Model = build(config["model"], "model", dtype=config["dtype"], device=config["device"])
    model.check(Limits(config["max_new_tokens"]))
    folders = {name: Folder(cell.folder(name), config["trace"]) for name in cell.methods}
    for name, folder in folders.items():
        folder.write("config.yaml", _yaml(config | {"method": cell.methods[name]}))
        folder.status("running")
    try:
        summaries = _measure(cell, model, bench, methods, folders)
    except BaseException as error:  # a killed run must not look like a running one
        for folder in folders.values():
            folder.status("failed", f"{type(error).__name__}: {error}")
        raise
    _report(summaries, folders, model)
    ran = [s for s in summaries if "verdict" in s]
    believed = all(sound(s["verdict"], config["dtype"], config["allow_ties"]) for s in ran)
    return OK if believed else DIFFERS


def check(config: dict[str, Any]) -> None:
    """Refuse, by key, what no drafter here can do losslessly or at all."""
    if config["temperature"] != 0:
        raise ValueError(f"temperature={config['temperature']}: decoding is greedy; only temperature=0 is lossless")
    if config["batch_size"] != 1:
        raise ValueError(f"batch_size={config['batch_size']}: one request at a time; only batch_size=1 is supported")
    if config["engine"] != "eager":
        raise ValueError(f"engine={config['engine']}: choose eager")
    Limits(config["max_new_tokens"])
    for key in ("limit", "generate_check"):
        if config[key] is not None and (type(config[key]) is not int or config[key] < (key == "limit")):
            raise ValueError(f"{key}={config[key]}: expected a number of inputs")


def _measure(
    cell: Cell, model: Model, bench: Bench, methods: dict[str, Method], folders: dict[str, Folder]
) -> list[dict]:
    config = cell.config
    limits = Limits(config["max_new_tokens"], model.stop_ids)
    contract = model.contract(limits, config["engine"], config["ar_logits"])
    warm = Synthetic(part="warmup", pictures=model.reads_images)
    warm_up(Pairing(model, warm, methods, Limits(WARM_UP_TOKENS, model.stop_ids), contract), warm, WARM_UP_ROWS)
    pairing = Pairing(model, bench, methods, limits, contract)
    total = min(len(bench), config["limit"] or len(bench))
    checked = _spread(total, config["generate_check"])
    excluded: list[str] = []
    refusals: dict[str, list[str]] = {name: [] for name in folders}
    checks: list[Check] = []
    for index, row in enumerate(tqdm(bench.rows(total), total=total, desc=bench.name, unit="input")):
        try:
            turns = list(pairing.row(index, row, checked=index in checked))
        except RowError as error:
            excluded.append(str(error))
            tqdm.write(f"left out: {error}")
            continue
        for turn in turns:
            for name, record in turn.records.items():
                folders[name].add(record, turn.outputs[name])
            for name, reason in turn.refusals.items():
                refusals[name].append(reason)
        checks += [turn.check for turn in turns if turn.check is not None]
    if len(excluded) == total:
        raise ValueError(f"not one of {total} inputs could be run; the first: {excluded[0]}")
    shared = {
        "command": cell.command,
        "model": cell.names["model"],
        "bench": cell.names["bench"],
        "ablation": None,
        "contract": asdict(contract) | {"hash": contract.hash()},
        "ignored_processors": model.ignored_processors(),
        "excluded": excluded,
        "generate": _check_summary(checks),
        "versions": _versions(),
    }
    return [_finish(folder, name, methods[name], refusals[name], shared) for name, folder in folders.items()]


def _finish(folder: Folder, name: str, method: Method, refused: list[str], shared: dict) -> dict:
    folder.close()
    summary = {"method": name, "memory": method.memory(), "peer": getattr(method, "differs", None)} | shared
    summary["refused"] = {"turns": len(refused), "reason": refused[0] if refused else ""}
    frame = load(folder.path)
    if len(frame):
        summary |= summarise(frame)
        if shared["excluded"]:
            summary["alarms"].append(f"{len(shared['excluded'])} inputs left out on both sides")
    folder.write("summary.json", summary)
    folder.status("ok")
    return summary


def _report(summaries: list[dict], folders: dict[str, Folder], model: Model) -> None:
    ran = [s for s in summaries if "verdict" in s]
    for summary in ran[:1]:
        print(f"\n{summary['model']} on {summary['bench']}: {summary['n']} inputs, speedups over AR")
        print(table(ran))
        if summary["generate"] is not None:
            check = summary["generate"]
            print(
                f"AR against transformers' own generate on {check['requests']} of these requests: "
                f"{check['ar_ms_per_token']:.2f} against {check['ms_per_token']:.2f} ms/token, "
                + ", ".join(f"{count} {kind}" for kind, count in check["verdict"].items() if count)
            )
    for summary in summaries:
        if summary["refused"]["turns"]:
            print(f"{summary['method']}: transformers refused {summary['refused']['turns']} requests: "
                  f"{summary['refused']['reason']}")  # fmt: skip
        for alarm in summary.get("alarms", ()):
            print(f"alarm, {summary['method']}: {alarm}")
        for line in _differences(folders[summary["method"]].path, model):
            print(f"{summary['method']}: {line}")
    for folder in folders.values():
        print(folder.path)


def _differences(folder: Path, model: Model) -> list[str]:
    """A line for each request whose outputs differ, the first ten of them."""
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    lines = [
        f"{record['row']}, turn {record['turn']}: {Verdict(**record['verdict']).show(model.token)}"
        for record in records
        if record["verdict"]["kind"] != "equal"
    ]
    return lines[:SHOWN] + [f"and {len(lines) - SHOWN} more outputs that differ"] * (len(lines) > SHOWN)


def _spread(total: int, count: int) -> set[int]:
    """`count` indices spread evenly over `total`."""
    return {total * k // count for k in range(count)} if count else set()


def _check_summary(checks: list[Check]) -> dict | None:
    known = [check for check in checks if check.tokens > 1]
    tokens = sum(check.tokens - 1 for check in known)
    if not tokens:
        return None
    return {
        "requests": len(known),
        "equal": sum(check.verdict.kind == "equal" for check in known),
        "verdict": {kind: sum(check.verdict.kind == kind for check in known) for kind in KINDS},
        "ms_per_token": sum(check.decode_ns for check in known) / 1e6 / tokens,
        "ar_ms_per_token": sum(check.ar_decode_ns for check in known) / 1e6 / tokens,
    }


def _versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "numpy", "numba")}
    return packages | {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}


def _yaml(config: dict) -> str:
    return OmegaConf.to_yaml(OmegaConf.create(config))
