"""Replays recorded rows without a model: what the memories know, and what any drafter would accept.

    python -m runners.replay results/local
    python -m runners.replay results/local method=recap method.learn=committed method.budget=31
    python -m runners.replay results/local --probs full method=token_recycling

The greedy path is known and so are the rows along it; what the target would have said after a rejected node is not.
Such rows are withheld from the drafter and counted. So with `method.learn=committed` tau is that of a live run, up to
rounding between passes of different shapes; with `learn=evaluated`, and for methods that learn from every node, it is
that of a method that learns from accepted nodes alone.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import hydra
import numpy as np
import pandas as pd
from hydra.errors import HydraException
from numpy.typing import NDArray
from omegaconf import OmegaConf

from analysis.diagnostics import difference_table, recall_table, show, tau_table
from recap.decode import generate
from recap.drafter import Drafter
from recap.types import Draft, Ints, Limits, Output, Request, Rows, Step
from runners.config import ROOT, build, explain
from runners.folder import ROWS
from runners.peer import TransformersGenerate
from runners.recall import PROBS, recall
from runners.traces import TOP_K, Setting, Trace, open_traces, write_table

UNKNOWN = -1  # no draft holds it, so nothing is accepted after an unknown row
DEFAULT = ("method=recap", "method.learn=committed")


class ReplayTarget:
    """A `recap.target.Target` that answers from one trace; rows off its path are `UNKNOWN`."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._root = 0

    def prefill(self, request: Request, positions: Ints, top_k: int, clock) -> Rows:
        trace = self._trace
        at = np.searchsorted(trace.positions[:-1], positions)
        held = at < len(trace.positions) - 1
        if not (held.all() and np.array_equal(trace.positions[at], positions)):
            raise ValueError(
                "method.prefill: rows were recorded at the first and the last occurrence of each prompt token only"
            )
        return narrowed(trace.seed, np.append(at, len(trace.positions) - 1), top_k)

    def verify(self, root: int, draft: Draft, top_k: int) -> Rows:
        trace = self._trace
        assert root == trace.tokens[self._root], "the replay has left the path"
        depth = np.append(0, depths(draft.tokens, draft.parents, trace.tokens[self._root + 1 :]))
        rows = narrowed(trace.rows, self._root + depth, top_k)
        off = np.flatnonzero(depth[1:] == 0) + 1
        rows.ids[off] = UNKNOWN
        rows.probs[off] = 0.0
        return rows

    def keep(self, path: NDArray[np.int32]) -> None:
        self._root += 1 + len(path)

    def reset(self) -> None:
        self._root = 0


def depths(tokens: Ints, parents: NDArray[np.int32], coming: Ints) -> NDArray[np.int64]:
    """Depth of every node of a draft that lies on the path `coming` under the root; 0 for the others."""
    depth = np.zeros(len(tokens), np.int64)
    for node, (token, parent) in enumerate(zip(tokens.tolist(), parents.tolist(), strict=True)):
        above = 0 if parent < 0 else depth[parent]
        if (parent < 0 or above) and above < len(coming) and coming[above] == token:
            depth[node] = above + 1
    return depth


class Committed(Drafter):
    """A drafter that is shown the root's and the accepted nodes' rows alone.

    withheld  rows that it was not shown
    """

    def __init__(self, drafter: Drafter) -> None:
        self.drafter, self.top_k, self.withheld = drafter, drafter.top_k, 0
        self.wants, self.end, self.memory = drafter.wants, drafter.end, drafter.memory
        self.begin, self.reset = drafter.begin, drafter.reset

    def propose(self, room: int) -> Draft:
        draft = self.drafter.propose(room)
        if draft.acceptable is not None:
            name = type(self.drafter).__name__
            raise ValueError(f"method: {name} drafts nodes for their rows alone, which a replay does not have")
        return draft

    def observe(self, rows: Rows, step: Step) -> None:
        draft, shown = step.draft, len(step.path)
        self.withheld += len(draft) - shown
        chain = Draft(draft.tokens[step.path], np.arange(-1, shown - 1, dtype=np.int32), draft.sources[step.path])
        which = np.append(0, step.path + 1)
        settled = Step(chain, np.arange(shown, dtype=np.int32), step.committed, step.agreed)
        self.drafter.observe(Rows(rows.ids[which], rows.probs[which]), settled)


def narrowed(rows: Rows, which: Ints, top_k: int) -> Rows:
    """Rows of width `top_k`; a narrower row is the softmax over fewer ids."""
    if top_k > TOP_K:
        raise ValueError(f"method.top_k={top_k}: rows were recorded {TOP_K} wide")
    ids, probs = rows.ids[which, :top_k], rows.probs[which, :top_k]
    return Rows(ids, probs if top_k == TOP_K else probs / probs.sum(axis=1, keepdims=True))


def replay(drafter: Drafter, setting: Setting, traces: Iterable[Trace]) -> list[tuple[Trace, Output, int]]:
    """Every request of a stream through one drafter: its trace, its output, the rows that the drafter missed.

    A drafter that learns from committed nodes alone misses none.
    """
    shown = Committed(drafter)
    shown.reset()
    needs = drafter.top_k > 1 and getattr(drafter, "learn", "evaluated") == "evaluated"
    done = []
    for trace in traces:
        before = shown.withheld
        ended = trace.tokens[-1] in setting.stop_ids
        limits = Limits(setting.max_new_tokens if ended else len(trace.tokens), setting.stop_ids)
        output = generate(ReplayTarget(trace), shown, trace.request(setting), limits)
        assert np.array_equal(output.tokens, trace.tokens), f"row {trace.row}: the replay left its path"
        done.append((trace, output, (shown.withheld - before) * needs))
    return done


def recall_frame(setting: Setting, traces: Iterable[Trace], probs: str) -> pd.DataFrame:
    """Counts of every request and source."""
    return pd.DataFrame(
        trace.columns(setting) | {"source": source, "states": states, "covered": covered, "hits": hits}
        for trace in traces
        for source, (states, covered, hits) in recall(trace, setting, probs).items()
    )


def tau_frame(drafter: Drafter, setting: Setting, traces: Iterable[Trace]) -> pd.DataFrame:
    """Counts of every request; the columns of a record's method side."""
    return pd.DataFrame(
        trace.columns(setting)
        | {
            "tokens_method": len(output.tokens),
            "steps_method": len(output.steps),
            "committed_method": sum(len(step.committed) for step in output.steps),
            "nodes_method": sum(len(step.draft) for step in output.steps),
            "unknown": unknown,
        }
        for trace, output, unknown in replay(drafter, setting, traces)
    )


def totals(frame: pd.DataFrame) -> dict[str, dict[str, dict[str, int]]]:
    """Sums by benchmark and source."""
    sums = frame.groupby(["bench", "source"], sort=False)[["states", "covered", "hits"]].sum()
    return {
        bench: {source: {k: int(v) for k, v in line.items()} for source, line in part.droplevel(0).iterrows()}
        for bench, part in sums.groupby(level=0, sort=False)
    }


def drafter_of(overrides: Sequence[str]) -> Drafter:
    """The method that such overrides of the config name."""
    with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = hydra.compose("config", overrides=list(overrides))
    method = build(OmegaConf.to_container(config.method, resolve=True), "method")
    if isinstance(method, TransformersGenerate):
        raise ValueError("method: transformers' own generate drafts nothing that a replay could see")
    return method


def run(folder: Path, probs: str, overrides: Sequence[str]) -> None:
    """Replay every recorded cell under `folder`; counts are written beside each cell's rows."""
    files = sorted(folder.rglob(ROWS))
    if not files:
        raise ValueError(f"{folder}: no {ROWS} below it; run a cell with record=rows")
    for file in files:
        setting, traces = open_traces(file)
        frame = recall_frame(setting, traces, probs)
        write_table(file.with_name("recall.parquet"), frame.to_dict("list"), {"probs": probs})
        content = {"probs": probs, "model": setting.model, "sources": totals(frame)}
        file.with_name("recall.json").write_text(json.dumps(content, indent=2) + "\n")
        print(f"\n{setting.model} on {setting.bench}: what the memories know, probs={probs}")
        print(show(recall_table(frame)))
        print("paired differences, percentage points")
        print(show(difference_table(frame)))
        drafter = drafter_of(overrides or DEFAULT)
        taus = tau_frame(drafter, setting, open_traces(file)[1])
        label = " ".join(overrides or DEFAULT)
        write_table(file.with_name("tau.parquet"), taus.to_dict("list"), {"method": label})
        print(f"\n{label} along the recorded path")
        print(show(tau_table(taus)))


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser("runners.replay", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="a cell's folder, or one above several")
    parser.add_argument("--probs", choices=PROBS, default="topk", help="probabilities that sources are ranked by")
    parser.add_argument(
        "overrides", nargs="*", help="the method to replay, as run.py takes it: method=... method.key=..."
    )
    options = parser.parse_intermixed_args(arguments)
    try:
        run(options.folder, options.probs, options.overrides)
    except (ValueError, HydraException) as error:
        print(f"error: {explain(error, options.overrides)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
