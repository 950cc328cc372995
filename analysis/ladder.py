"""The ablation ladder: what each rung gains over its predecessor, paired on the input, beside the published gain."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.bootstrap import Effect
from analysis.cells import GENERATED, REAL, Cell, bench_labels, grouped, method_labels, plain, read
from analysis.estimates import DECODE_ONLY, TAU, Measure, columns, sample, unweighted
from analysis.metrics import ratios
from analysis.pairing import pair
from analysis.published import FOUR_SETS, GAINS, QWEN, Gain
from analysis.render import as_text, lined
from analysis.reproduction import NOT_RUN, complete, on_cuda, shuffled, verdict

SWITCHES = ("expansion", "fusion", "priors", "confidence", "m1", "suffix")  # what the rungs turn
MEASURES = {"tau": TAU, "decode_only": DECODE_ONLY}
GAIN = {"gain": Measure(lambda frame: frame.gain, null=0)}
COLUMNS = (
    "data", "model", "scope", "rung", "predecessor", "change", "inputs", "tau", "tau_low", "tau_high", "decode_only",
    "decode_only_low", "decode_only_high", "gain", "gain_low", "gain_high", "reading", "published", "verdict",
)  # fmt: skip


def gain(before: Cell, after: Cell) -> pd.DataFrame:
    """Throughput gain in percent of each request that both cells hold, over the whole window: columns gain, cluster.

    Both rates are taken over AR's in their own run: within one run AR cancels, between two it takes out what the
    machine did. Raises ValueError for cells that were not decoded under one contract.
    """
    runs = pair(before, replace(after, frame=after.frame.assign(cluster=_clusters(after))))
    faster = ratios(runs.right, "window") / ratios(runs.left, "window")
    return pd.DataFrame({"gain": 100 * (faster - 1), "cluster": runs.right.cluster})


def reading(ours: Effect) -> str:
    """What a gain's interval allows to say."""
    if np.isnan(ours.ci_low):
        return "too few inputs"
    return "within noise" if ours.within_noise else "faster" if ours.mean > 0 else "slower"


def frame(cells: Iterable[Cell]) -> pd.DataFrame:
    """The ladder and its controls among the cells, then the published gains that no cell answers.

    One line a rung and benchmark in its own order, one a rung over shuffled orders, one a rung over several of the
    four sets.
    """
    rungs = [cell for cell in cells if cell.rung is not None]
    before = {cell: _predecessor(cell, rungs) for cell in rungs}
    names = method_labels(rungs)
    lines = [_line(scope, group, before, names) for scope, group in _scopes(rungs, before)]
    answered = {(line["model"], line["rung"]) for line in lines if "published" in line}
    lines += [
        {"data": REAL, "model": g.model, "scope": g.scope.text, "rung": g.rung, "predecessor": g.predecessor,
         "published": g.percent, "verdict": NOT_RUN}
        for g in GAINS if (g.model, g.rung) not in answered
    ]  # fmt: skip
    return pd.DataFrame(lines, columns=COLUMNS).astype({"inputs": "Int64"})


def climb(folders: Iterable[Path]) -> str:
    """The ladder of one run, for the terminal; beside it what the paper gained at each rung, on other inputs."""
    lines = frame(read(folder) for folder in folders)
    lines = lines[lines.inputs.notna()].drop(columns=["data", "model", "scope", "predecessor", "published", "verdict"])
    paper = {g.rung: f"{g.percent:+.2f}" for g in GAINS if g.model == QWEN.key}
    lines[f"paper, {QWEN.name}"] = [paper.get(rung, "") for rung in lines.rung]
    return lined(as_text(lines.rename(columns=lambda name: name.replace("gain", "gain %", 1))))


def _scopes(rungs: Sequence[Cell], before: Mapping[Cell, Cell | None]) -> list[tuple[str, list[Cell]]]:
    """The lines to print: what over, and the cells of each."""
    names = bench_labels(rungs, leave_out=("order",))
    paths = {cell: _path(cell, rungs) for cell in rungs}
    own = sorted((c for c in rungs if not shuffled(c)), key=lambda c: (c.model, names[c], paths[c], c.folder.name))
    scopes = [(names[cell], [cell]) for cell in own]
    for group in grouped((c for c in rungs if shuffled(c) and before[c]), lambda c: (_identity(c), names[c])):
        scopes.append((f"{names[group[0]]}, {len(group)} shuffled orders", group))
    for group in grouped((c for c in own if c.bench in FOUR_SETS and before[c]), _identity):
        benches = [cell.bench for cell in group]
        if len(group) > 1 and len(set(benches)) == len(group):
            scopes.append((", ".join(benches), group))
    return scopes


def _line(scope: str, group: list[Cell], before: Mapping[Cell, Cell | None], names: Mapping[Cell, str]) -> dict:
    """One rung over one or more cells of it, all inputs together."""
    first, previous = group[0], before[group[0]]
    together = pd.concat([cell.frame.assign(cluster=_clusters(cell)) for cell in group])
    line = {
        "data": GENERATED if any(cell.generated for cell in group) else REAL,
        "model": first.model,
        "scope": scope,
        "rung": names[first],
        "predecessor": first.predecessor,
        "inputs": sum(cell.frame.row.nunique() for cell in group),
    }
    for name, estimate in unweighted([sample(together, MEASURES)]).items():
        line |= columns(name, estimate)
    if previous is None:
        return line
    gains = pd.concat([gain(before[c], c) for c in group])
    ours = unweighted([sample(gains, GAIN)])["gain"]
    line |= {"change": _change(previous, first), "reading": reading(ours)}
    line |= columns("gain", ours)
    published = _published(group, [before[cell] for cell in group])
    if published is not None:
        line |= {"published": published.percent, "verdict": verdict(ours, published.percent, tolerance=0)}
    return line


def _clusters(cell: Cell) -> pd.Series:
    """Names of the clusters that hold over cells: those of one benchmark are the same in every order of its stream."""
    return cell.bench + "/" + cell.frame.groupby("cluster").row.transform("min")


def _published(group: list[Cell], before: list[Cell]) -> Gain | None:
    """The published gain that these cells, complete, answer."""
    for g in GAINS:
        same = (g.model, g.rung, g.predecessor) == (group[0].model, group[0].rung, group[0].predecessor)
        if same and on_cuda(group) and all(complete(side, g.scope, SWITCHES) for side in (group, before)):
            return g
    return None


def _predecessor(cell: Cell, rungs: Sequence[Cell]) -> Cell | None:
    """The cell of the predecessor rung on the same stream under the same setting, the nearest in its options."""
    stream = (cell.model, cell.bench, cell.bench_options, cell.setting, cell.method, cell.predecessor)
    there = [c for c in rungs if (c.model, c.bench, c.bench_options, c.setting, c.method, c.rung) == stream]
    return min(there, key=lambda c: len(_changed(c, cell)), default=None)


def _change(before: Cell, after: Cell) -> str:
    return ", ".join(f"{key}={plain(after.options[key])}" for key in _changed(before, after))


def _changed(before: Cell, after: Cell) -> list[str]:
    return [key for key, value in after.options.items() if before.options.get(key) != value]


def _path(cell: Cell, rungs: Sequence[Cell]) -> tuple[str, ...]:
    """The rungs that lead to a cell's, itself last, as far as there are cells of them."""
    before = {c.rung: c.predecessor for c in rungs}
    path, rung = [], cell.rung
    while rung in before:
        path.insert(0, rung)
        rung = before[rung]
    return tuple(path)


def _identity(cell: Cell) -> tuple:
    return cell.model, cell.method, cell.rung, cell.options, cell.setting
