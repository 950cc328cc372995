"""The report's own tables: what was run, the verdicts, who else decoded, what was accepted, what a step cost."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis import acceptance, estimates
from analysis.cells import Cell, bench_labels, method_labels, plain
from analysis.cost import step_cost
from analysis.load import read_records
from analysis.metrics import VERDICTS
from analysis.render import Table
from analysis.report_steps import named
from analysis.tables import MEASURES

DIFFERENCES = 100  # outputs listed, at most
DEPTHS = 10  # shown of acceptance by depth
OF_REQUEST = ("prompt", "images", "hash")  # of a contract; not the run's


@dataclass(frozen=True)
class Run:
    """Finished cells, each with its model, benchmark and method; those that name all cells alike name none."""

    cells: Sequence[Cell]
    names: Mapping[Cell, dict[str, str]]

    @staticmethod
    def of(cells: Sequence[Cell]) -> "Run":
        """Cells by model, benchmark and method."""
        methods, benches = method_labels(cells), bench_labels(cells)
        return Run(cells, {c: {"model": c.model, "bench": benches[c], "method": methods[c]} for c in cells})

    def telling(self, cell: Cell) -> dict[str, str]:
        """The names that tell a cell from the others, its method in any case."""
        own = self.names[cell]
        several = {key for key in own if len({name[key] for name in self.names.values()}) > 1}
        return {key: name for key, name in own.items() if key in several | {"method"}}

    def label(self, cell: Cell) -> str:
        """A cell in one line."""
        names = self.telling(cell)
        return ", ".join([names.pop("method"), *names.values()])

    def table(self, name: str, title: str, caption: str, lines: Mapping[Cell, dict[str, Any]]) -> Table:
        """One line a cell, behind its names."""
        frame = pd.DataFrame([self.telling(cell) | line for cell, line in lines.items()])
        return Table(name, title, caption, frame)


def what_was_run(run: Run) -> list[Table]:
    """The cells, then the distinct contracts, versions and options of methods."""
    cells = {
        cell: {
            "source": cell.summary["source"] or cell.data,
            "inputs": int(cell.frame.row.nunique()),
            "requests": len(cell.frame),
            "left out": len(cell.summary["excluded"]) + len(cell.summary["failed"]),
            "traced": "yes" if cell.summary["traced"] else "",
            "machine": machine(cell),
            "contract": cell.summary["contract"]["hash"],
        }
        for cell in run.cells
    }
    contracts = (
        {"contract": cell.summary["contract"]["hash"]}
        | {key: _shown(value) for key, value in cell.summary["contract"].items() if key not in OF_REQUEST}
        for cell in run.cells
    )
    methods = (
        {"method": run.names[cell]["method"], "options": _shown({k: v for k, v in cell.options.items() if k[0] != "_"})}
        for cell in run.cells
    )
    same = "What both sides of every pair share; requests of one contract may be compared."
    return [
        run.table("cells", "Cells", "", cells),
        Table("contracts", "Contracts", same, _distinct(contracts)),
        Table("methods", "Options of the methods", "", _distinct(methods)),
        Table("versions", "Versions", "", _distinct(cell.summary["versions"] for cell in run.cells)),
    ]


def verdicts(run: Run) -> list[Table]:
    """Outputs by verdict, then those that differ, one line each."""
    counts = {
        cell: {"requests": len(cell.frame)} | {kind: int((cell.frame.verdict == kind).sum()) for kind in VERDICTS}
        for cell in run.cells
    }
    caption = (
        "equal: the method's output is plain decoding's (AR's), token for token; the other columns count the causes of "
        "a first difference. tie: the two best logits lie too close to be told apart at this precision."
    )
    made = [run.table("verdicts", "Outputs by verdict", caption, counts)]
    differing = pd.DataFrame(_differing(run))
    if len(differing):
        left = len(differing) - DIFFERENCES
        note = f"{left} more are not listed." if left > 0 else ""
        made.append(Table("differing", "Outputs that differ from AR's", note, differing.head(DIFFERENCES)))
    return made


def peers(run: Run) -> list[Table]:
    """Outside decoders, which share no contract with ours."""
    lines = {}
    for cell in run.cells:
        if cell.peer:
            line = {"requests": len(cell.frame), "equal": int((cell.frame.verdict == "equal").sum())}
            for name, estimate in estimates.unweighted([estimates.sample(cell.frame, MEASURES)]).items():
                line |= estimates.columns(name, estimate)
            lines[cell] = line | {"own": _shown(cell.summary["peer"])}
    caption = "transformers' own decoding, with a cache of its own (`own`): beside the methods, not among them."
    return [run.table("peers", "Outside decoders", caption, lines)] if lines else []


def accepted(run: Run) -> list[Table]:
    """What was accepted by memory and by depth."""
    sources, depths = {}, {}
    for cell in run.cells:
        step = acceptance.per_step(cell.frame)
        by_source, by_depth = acceptance.by_source(cell.frame), acceptance.by_depth(cell.frame)
        sources[cell] = {"all steps": step["all_steps"], "drafted steps": step["steps_with_draft"]} | {
            source: f"{count['accepted'] / count['drafted']:.1%} of {count['drafted']}"
            for source in acceptance.SOURCES if (count := by_source.get(source))
        }  # fmt: skip
        depths[cell] = {f"{depth}": f"{share:.0%}" for depth, share in enumerate(by_depth[:DEPTHS], 1)}
    return [
        run.table(
            "sources", "Acceptance by memory",
            "Tokens gained a step, over all steps and over those with a draft; then the share of the drafted nodes "
            "that was accepted, by the memory they came from. mixture: several memories held the token; other: the "
            "method names no memory.", sources,
        ),
        run.table(
            "depths", "Acceptance by depth", "Share of all steps that accept at least so many drafted tokens.", depths
        ),
    ]  # fmt: skip


def costs(run: Run) -> Table:
    """What a step costs, and what it would take to break even."""
    lines = {}
    for cell in run.cells:
        cost = step_cost(cell.frame)
        lines[cell] = {
            "step ms": cost.step_ms,
            "of it pass": cost.verify_ms,
            "AR step ms": cost.plain_step_ms,
            "pass a": cost.a_ms, "pass a_low": cost.a_interval[0], "pass a_high": cost.a_interval[1],
            "b": f"{cost.b_ms_per_node:.3g}" if pd.notna(cost.b_ms_per_node) else "",
            "pooled tau": cost.tau,
            "break-even tau": cost.break_even_tau,
            "speedup": cost.speedup,
            "share of limit": f"{cost.speedup / cost.limit:.0%}",
        }  # fmt: skip
    caption = (
        "Decoding only, all requests together. A pass over n drafted nodes takes a + b * n milliseconds. Break-even: "
        "the tau at which decoding is as fast as AR at this cost. Limit: the speedup if a step were its pass alone."
    )
    return run.table("ledger", "Cost of a step", caption, lines)


def _differing(run: Run) -> Iterable[dict[str, Any]]:
    for cell in run.cells:
        if (cell.frame.verdict == "equal").all():
            continue
        for record in read_records(cell.folder):
            verdict = record["verdict"]
            if verdict["kind"] != "equal":
                yield run.telling(cell) | {
                    "row": record["row"],
                    "turn": str(record["turn"]),
                    "token": str(verdict["at"]),
                    "method's": named(verdict, "found"),
                    "AR's": named(verdict, "expected"),
                    "gap": "" if verdict.get("gap") is None else f"{verdict['gap']:.3g}",
                    "cause": verdict["kind"],
                    "repeats": {True: "yes", False: "no"}.get(verdict.get("repeatable"), ""),
                }


def machine(cell: Cell) -> str:
    """The devices of all starts, and the processor's cores."""
    attempts = json.loads((cell.folder / "status.json").read_text()).get("attempts", [])
    devices = dict.fromkeys(attempt["device"] for attempt in attempts if attempt["device"])
    return ", ".join([*devices, f"{cell.summary['machine']['cores']} cores"])


def _distinct(lines: Iterable[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(lines).drop_duplicates(ignore_index=True)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={plain(one)}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else plain(value)
