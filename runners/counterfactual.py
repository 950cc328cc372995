"""What the image has to do with it: a finished cell's requests under other images, outputs teacher-forced.

    python -m runners.counterfactual results/local/tiny_qwen/synthetic/recap-1a2b3c4d
    python -m runners.counterfactual results/local --limit 100

Needs the rows of the cell (record=rows) and its model. Writes swapped.parquet (recall from rows under a wrong image),
roots.parquet (does the root's choice change) and sources.parquet (M1 against M2/M3 by visual alignment).

The wrong image is another one of the same category at the target's size; the mean image is one area of its mean colour.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from omegaconf import OmegaConf
from tqdm import tqdm

from analysis.diagnostics import root_table, show, source_table, swapped_table
from analysis.load import read_records
from recap.decode import no_clock
from recap.types import Limits, Request, Rows
from runners.benches.base import Bench, Row
from runners.config import build
from runners.donors import donors, mean_images, wrong_images
from runners.folder import ROWS
from runners.measure import bench_of
from runners.models import Model
from runners.recall import NAMES, ColdMemory, states
from runners.recorder import Logits
from runners.revisit import Visit, revisit
from runners.sources import compare
from runners.traces import TOP_K, Setting, Trace, open_traces, write_table

PARTS = {"swapped": swapped_table, "roots": root_table, "sources": source_table}


@dataclass(frozen=True)
class Forced:
    """Rows and logits along a trace's path under some image."""

    seed: Rows
    rows: Rows
    logits: torch.Tensor  # [m, vocab]


def forced(model: Model, request: Request, trace: Trace) -> Forced:
    """One prefill over prompt and output."""
    whole = replace(request, prompt=np.concatenate((request.prompt, trace.tokens)))
    size, seeded = len(request.prompt), len(trace.positions) - 1
    wanted = np.concatenate((trace.positions[:-1], np.arange(size, len(whole.prompt) - 1)))
    with Logits(model.model) as logits:
        rows = model.target.prefill(whole, wanted, TOP_K, no_clock)
    model.target.reset()
    return Forced(
        Rows(rows.ids[:seeded], rows.probs[:seeded]), Rows(rows.ids[seeded:], rows.probs[seeded:]),
        logits.passes[-1][seeded:],
    )  # fmt: skip


def swapped(trace: Trace, setting: Setting, wrong: Forced) -> Iterator[dict[str, Any]]:
    """Counts a source with the true rows and with the wrong image's, at the smaller of the two candidate counts."""
    true = ColdMemory(trace, setting, trace.rows, trace.seed)
    other = ColdMemory(trace, setting, wrong.rows, wrong.seed)
    counts = np.zeros((len(NAMES), 4), np.int64)
    for at, token in states(trace):
        for place, name in enumerate(NAMES):
            mine, theirs = true.candidates(name, at), other.candidates(name, at)
            size = min(len(mine), len(theirs))
            counts[place] += (1, size > 0, token in mine[:size], token in theirs[:size])
        true.learn(at)
        other.learn(at)
    for name, line in zip(NAMES, counts.tolist(), strict=True):
        yield {"source": name, **dict(zip(("states", "covered", "hits", "hits_swapped"), line, strict=True))}


def roots(trace: Trace, method: dict[str, Any], images: dict[str, Forced]) -> Iterator[dict[str, Any]]:
    """One line a verification step that had a draft: accepted tokens, and whether the root's choice changed."""
    at = 0
    for step, (nodes, accepted, committed) in enumerate(
        zip(method["nodes"], method["accepted"], method["committed"], strict=True)
    ):
        if nodes:  # the true choice at a root is the committed token: the path is greedy
            true = trace.rows.ids[at, 0]
            changed = {name: bool(other.rows.ids[at, 0] != true) for name, other in images.items()}
            yield {"step": step, "accepted": accepted, **changed}
        at += committed


def measure(folder: Path, limit: int | None = None) -> dict[str, pd.DataFrame]:
    """The three tables of one cell, of its first `limit` inputs. Raises ValueError for a cell without images or rows.

    Donors are among these inputs too.
    """
    setting, found = open_traces(folder / ROWS)
    traces = {(trace.row, trace.turn): trace for trace in found}
    asked = [record for record in read_records(folder) if limit is None or record["index"] < limit]
    records = [record for record in asked if record["images"]]
    stands_in = donors({record["images"]: record["category"] for record in records})
    if not stands_in:
        raise ValueError(f"{folder}: no two images to exchange")
    model, bench, limits = _rebuild(folder)
    openers = _openers(bench, records)
    tables: dict[str, list[dict]] = {name: [] for name in PARTS}
    left_out = 0
    for visit in tqdm(revisit(model, bench, asked), desc=setting.bench, unit="request"):
        record = visit.record
        trace = traces.get((record["row"], record["turn"]))
        donor = stands_in.get(record["images"])
        if trace is None or donor is None or trace.tokens.tolist() != record["method"]["tokens"]:
            left_out += 1
            continue
        images = _images(visit, model, limits, trace, openers[donor])
        identity = trace.columns(setting)
        counterfactual = {name: images[name] for name in ("wrong", "mean")}
        logits = {name: one.logits for name, one in images.items()}
        lines = {
            "swapped": swapped(trace, setting, images["wrong"]),
            "roots": roots(trace, record["method"], counterfactual),
            "sources": compare(trace, setting, logits),
        }
        for name, part in lines.items():
            tables[name] += [identity | line for line in part]
    if left_out:
        print(
            f"{left_out} requests left out: no image, no donor, no rows, or another output than AR's", file=sys.stderr
        )
    return {name: pd.DataFrame(lines) for name, lines in tables.items()}


def _images(visit: Visit, model: Model, limits: Limits, trace: Trace, opener: Row) -> dict[str, Forced]:
    pictures = {
        "true": visit.images,
        "wrong": wrong_images(visit.images, opener.open_images()),
        "mean": mean_images(visit.images),
    }
    return {name: forced(model, visit.request(model, limits, each), trace) for name, each in pictures.items()}


def _rebuild(folder: Path) -> tuple[Model, Bench, Limits]:
    """The model and the benchmark that the cell's own config names."""
    config = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"), resolve=True)
    bench = bench_of(config)
    section = {key: value for key, value in config["model"].items() if key != "tensor_parallel"}  # one process here
    model: Model = build(section, "model", dtype=config["dtype"], device=config["device"])
    return model, bench, Limits(config["max_new_tokens"], model.stop_ids)


def _openers(bench: Bench, records: Sequence[dict[str, Any]]) -> dict[str, Row]:
    """A row that shows each image."""
    shown = {record["index"]: record["images"] for record in records}
    last = max(shown)
    return {shown[index]: row for index, row in enumerate(bench.rows(last + 1)) if index in shown}


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser("runners.counterfactual", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="a cell's folder, or one above several")
    parser.add_argument("--limit", type=int, help="the first inputs of each cell only")
    options = parser.parse_args(arguments)
    try:
        cells = [file.parent for file in sorted(options.folder.rglob(ROWS))]
        if not cells:
            raise ValueError(f"{options.folder}: no {ROWS} below it; run a cell with record=rows")
        for cell in cells:
            for name, frame in measure(cell, options.limit).items():
                write_table(cell / f"{name}.parquet", frame.to_dict("list"), {})
                print(f"\n{cell}: {name}")
                print(show(PARTS[name](frame)) if len(frame) else "no such state")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
