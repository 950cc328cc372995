"""One cell: a model, a benchmark, a method and those it is compared with, each against the same AR run.

What must be known before weights load, and all of what a finished cell needs, is here, free of torch.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from analysis.ladder import climb
from analysis.load import read_records
from analysis.summary import label, table
from runners import status
from runners.choice import Rung
from runners.config import content_hash
from runners.folder import ROWS, make
from runners.interrupt import Stopped
from runners.lock import restarts
from runners.ranks import check_ranks, leads
from runners.track import LATER, MODES
from runners.verdict import Verdict, sound

HASHED = (
    "model", "bench", "max_new_tokens", "seed", "prompt", "history", "dtype", "device", "engine", "ar_logits", "trace",
)  # fmt: skip
ENGINES = ("eager", "compiled")  # recap.targets.engines, which loads torch
SHOWN = 10  # outputs that differ, a line each
OK, DIFFERS = 0, 3  # exit codes; Stopped has its own


@dataclass(frozen=True, slots=True)
class Cell:
    """What to run.

    names    the choices 'model' and 'bench'
    methods  config sections by name, the asked-for one first
    command  that runs it, for the record
    rungs    which of the methods are rungs of the ablation ladder, by name
    """

    config: dict[str, Any]
    names: dict[str, str]
    methods: dict[str, dict[str, Any]]
    command: str = ""
    rungs: dict[str, Rung] = field(default_factory=dict)

    def folder(self, method: str) -> Path:
        """Named by content: everything that changes a method's results, so not `limit`, `out` or its company."""
        given = self.config["resume"]
        if given and method == next(iter(self.methods)):
            return Path(given)
        above = Path(given).parent if given else Path(self.config["out"]) / self.names["model"] / self.names["bench"]
        return above / f"{method}-{content_hash(self.content(method))}"

    def content(self, method: str) -> dict[str, Any]:
        """What the folder's name stands for."""
        return {k: self.config[k] for k in HASHED} | {"method": self.methods[method]}

    def yaml(self, method: str) -> str:
        """Its config as the folder keeps it."""
        own = {"method": self.methods[method], "ablation": self.identity(method)["ablation"]}
        return OmegaConf.to_yaml(OmegaConf.create(self.config | own))

    def identity(self, method: str) -> dict[str, Any]:
        """What summary.json says of a method: its yaml, its rung of the ablation ladder and that rung's predecessor."""
        rung = self.rungs.get(method)
        if rung is None:
            return {"method": method, "ablation": None, "predecessor": None}
        return {
            "method": method.removesuffix(f"-{rung.name}"),
            "ablation": rung.name,
            "predecessor": rung.predecessor,
        }

    def queue(self) -> None:
        """Leave word in the folders that this cell is to be run, so that what never starts is missed."""
        for method in self.methods:
            path = self.folder(method)
            found = status.read(path)
            if found is None:
                make(path)
                status.write_whole(path / "config.yaml", self.yaml(method))
                status.write(path, status.Status("queued", command=self.command))
            elif found.state == "ok" and not _enough(found, self.config["limit"]):
                status.write(path, replace(found, state="queued", of=self.config["limit"], command=self.command))


def run(cell: Cell) -> int:
    """Run it, or continue it, or say what is there; returns the process's exit code.

    Raises ValueError naming the config key for what cannot be run, before weights load wherever that is possible.
    """
    paths = {name: cell.folder(name) for name in cell.methods}
    try:
        check(cell.config)
        for name, path in paths.items():
            _refuse_another(cell, name, path)
        summaries = None if cell.config["rerun"] and not restarts() else finished(cell)
        if summaries is None:
            from runners.measure import measure  # loads torch, which takes seconds that a finished cell need not spend

            summaries = measure(cell, paths)
        elif cell.config["track"] != "none":
            print(f"finished before, so track={cell.config['track']} has nothing to follow; {LATER} mirrors it")
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        stopped.hand_on()
        return stopped.code
    except ValueError as error:
        if leads():
            _fail_queued(paths, error)
        raise
    _report(summaries, paths, cell.config["limit"])
    return verdict(summaries, cell)


def verdict(summaries: list[dict], cell: Cell) -> int:
    """The exit code that the outputs deserve."""
    believed = (sound(s["verdict"], s["contract"]["dtype"], cell.config["allow_ties"]) for s in summaries if "n" in s)
    return OK if all(believed) else DIFFERS


def check(config: dict[str, Any]) -> None:
    """Refuse, by key, what no drafter here can do losslessly or at all."""
    if config["temperature"] != 0:
        raise ValueError(f"temperature={config['temperature']}: decoding is greedy; only temperature=0 is lossless")
    if config["batch_size"] != 1:
        raise ValueError(f"batch_size={config['batch_size']}: one request at a time; only batch_size=1 is supported")
    legal = {
        "engine": ENGINES,
        "prompt": ("speed", "accuracy"),
        "history": ("ar", "own"),
        "record": (None, "rows"),
        "track": MODES,
    }
    for key, choices in legal.items():
        if config[key] not in choices:
            raise ValueError(f"{key}={config[key]}: choose one of {', '.join(str(c or 'null') for c in choices)}")
    check_ranks(config["model"])
    for key in ("limit", "generate_check"):
        if config[key] is not None and (type(config[key]) is not int or config[key] < (key == "limit")):
            raise ValueError(f"{key}={config[key]}: expected a number of inputs")
    if config["sweep"] is not None and not isinstance(config["sweep"], str):
        raise ValueError(f"sweep={config['sweep']}: expected a name")
    if config["resume"] and config["rerun"]:
        raise ValueError("rerun=true with resume: one measures anew, the other continues; leave one out")
    if config["resume"] and not (Path(config["resume"]) / "config.yaml").is_file():
        raise ValueError(f"resume={config['resume']}: not the folder of a cell (it has no config.yaml)")


def _refuse_another(cell: Cell, method: str, path: Path) -> None:
    """Records of two configs must not meet in one folder."""
    try:
        there = OmegaConf.to_container(OmegaConf.load(path / "config.yaml"))
    except FileNotFoundError:
        return
    then, now = _flat({k: there.get(k) for k in (*HASHED, "method")}), _flat(cell.content(method))
    differing = [k for k in sorted(then.keys() | now.keys()) if then.get(k, "unset") != now.get(k, "unset")]
    if differing:
        pairs = "; ".join(f"{k}={now.get(k, 'unset')}, there {k}={then.get(k, 'unset')}" for k in differing)
        raise ValueError(f"resume: {path} was measured with other options: {pairs}; without resume= they get a folder")


def _flat(tree: Any, above: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {above: tree}
    return {k: v for name, leaf in tree.items() for k, v in _flat(leaf, f"{above}.{name}" if above else name).items()}


def finished(cell: Cell) -> list[dict] | None:
    """The summaries, where every folder holds all that is asked for."""
    paths = [cell.folder(method) for method in cell.methods]
    if cell.config["record"] and not (paths[0] / ROWS).is_file():
        return None
    found = [status.read(path) for path in paths]
    if not all(s is not None and s.state == "ok" and _enough(s, cell.config["limit"]) for s in found):
        return None
    return [json.loads((path / "summary.json").read_text()) for path in paths]


def _enough(found: status.Status, limit: int | None) -> bool:
    return found.inputs >= min(limit or found.available, found.available)


def _fail_queued(paths: Mapping[str, Path], error: ValueError) -> None:
    """A cell of a sweep that cannot even start says so in the folder that awaits it."""
    for path in paths.values():
        found = status.read(path)
        if found is not None and found.state == "queued":
            status.write(path, found.now("failed", found.inputs, f"ValueError: {error}"))


def _report(summaries: list[dict], paths: Mapping[str, Path], limit: int | None) -> None:
    ran = [s for s in summaries if "verdict" in s]
    for summary in ran[:1]:
        print(f"\n{summary['model']} on {summary['bench']}: {summary['n']} inputs, speedups over AR")
        print(table(ran))
        if len({s["tokens_per_second"]["ar"] for s in ran}) > 1:
            print("AR ran more than once: every speedup is over the AR run beside its own method")
        rungs = [path for path, s in zip(paths.values(), summaries, strict=True) if s["ablation"]]
        if len(rungs) > 1:
            print(f"\n{climb(rungs)}\n")
        if summary["generate"] is not None:
            check = summary["generate"]
            print(
                f"AR against transformers' own generate on {check['requests']} of these requests: "
                f"{check['ar_ms_per_token']:.2f} against {check['ms_per_token']:.2f} ms/token, "
                + ", ".join(f"{count} {kind}" for kind, count in check["verdict"].items() if count)
            )
    for summary, path in zip(summaries, paths.values(), strict=True):
        there = summary.get("n", 0) + len(summary["excluded"]) + len(summary["failed"])
        if "n" in summary and limit is not None and there > limit:
            print(f"{label(summary)}: {there} inputs are there and counted; limit={limit} asked for fewer")
        if summary["refused"]["turns"]:
            print(f"{label(summary)}: transformers refused {summary['refused']['turns']} requests: "
                  f"{summary['refused']['reason']}")  # fmt: skip
        for alarm in summary.get("alarms", ()):
            print(f"alarm, {label(summary)}: {alarm}")
        for line in _differences(path) if "n" in summary else ():
            print(f"{label(summary)}: {line}")
    if ran and ran[0]["contract"]["engine"] != "eager":
        seconds = ran[0]["compile_seconds"]
        print(f"engine={ran[0]['contract']['engine']} was ready after {seconds:.1f} s, which no time here includes")
    peak = {place: size for place, size in summaries[0]["peak_memory"].items() if size}
    print("peak memory: " + ", ".join(f"{size / 2**20:.0f} MiB on the {place}" for place, size in peak.items()))
    for path in paths.values():
        print(path)


def _differences(folder: Path) -> list[str]:
    """A line for each request whose outputs differ, the first ten of them."""
    lines = [
        f"{record['row']}, turn {record['turn']}: {Verdict(**record['verdict']).show()}"
        for record in read_records(folder)
        if record["verdict"]["kind"] != "equal"
    ]
    return lines[:SHOWN] + [f"and {len(lines) - SHOWN} more outputs that differ"] * (len(lines) > SHOWN)
