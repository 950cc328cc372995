"""What the step inspector shows: a few telling requests of traced cells, their steps, texts and pictures."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import pandas as pd

from analysis.cells import Cell
from analysis.lines import committed
from analysis.lines import read as read_lines
from analysis.load import read_records
from analysis.metrics import accepted_per_step

REQUESTS = 20  # embedded in a report, at most
DIFFERING = 5  # of a cell that come before its other requests
TRACES = {"steps": "steps.jsonl", "inspect": "inspect.jsonl"}  # by the key under which inputs.jsonl has their length

Key = tuple[str, int]  # row, turn


@dataclass(frozen=True, slots=True)
class Chosen:
    """A request to show, and why."""

    cell: Cell
    key: Key
    why: tuple[str, ...]


def choose(cells: Sequence[Cell], most: int = REQUESTS) -> list[Chosen]:
    """The most telling requests of the traced cells, every cell in its turn until there are enough.

    Of each: those whose output differs from AR's, the lowest and the highest tau, the first of every category.
    """
    traced = [cell for cell in cells if _has_traces(cell)]
    found: dict[tuple[Cell, Key], list[str]] = {}
    for cell, key, why in filter(None, chain.from_iterable(zip_longest(*map(_wishes, traced)))):
        if (cell, key) in found or len(found) < most:
            found.setdefault((cell, key), []).append(why)
    places = {cell: place for place, cell in enumerate(traced)}
    order = {
        (cell, key): n for cell in traced for n, key in enumerate(zip(cell.frame.row, cell.frame.turn, strict=True))
    }
    chosen = sorted(found, key=lambda it: (places[it[0]], order[it]))
    return [Chosen(cell, key, tuple(found[cell, key])) for cell, key in chosen]


def steps_data(chosen: Sequence[Chosen], labels: Mapping[Cell, str]) -> dict:
    """What the page's script reads: `cells` by label, `images` as data URIs, `requests`.

    A step is [tokens, parents, sources, path, committed]. Raises ValueError naming the file that is not whole.
    """
    cells = list(dict.fromkeys(one.cell for one in chosen))
    images: dict[str, int] = {}
    requests = []
    for place, cell in enumerate(cells):
        for request in _requests(cell, {one.key: one.why for one in chosen if one.cell is cell}, images):
            requests.append({"cell": place} | request)
    return {"cells": [labels[cell] for cell in cells], "images": list(images), "requests": requests}


def sentence(verdict: dict) -> str:
    """A verdict in words; empty where the outputs are equal."""
    if verdict["kind"] == "equal":
        return ""
    ours, plain = (named(verdict, side) for side in ("found", "expected"))
    gap = "" if verdict.get("gap") is None else f", two best logits {verdict['gap']:.3g} apart"
    return f"differs from AR at token {verdict['at']}: {ours} instead of {plain}{gap}; cause: {verdict['kind']}"


def named(verdict: dict, side: str) -> str:
    """The token of a side (`found`: the method's, `expected`: AR's) where two outputs part."""
    token = verdict[side]
    text = dict(zip(("expected", "found"), verdict.get("texts", ("", "")), strict=True))[side]
    return f"{text!r} ({token})" if token >= 0 else "the end"


def _has_traces(cell: Cell) -> bool:
    inputs = committed(cell.folder)
    return bool(inputs and inputs[-1].get("inspect")) and bool((cell.frame.steps_method > 0).any())


def _wishes(cell: Cell) -> Iterator[tuple[Cell, Key, str]]:
    """Requests worth showing and why, the most telling first."""
    frame = cell.frame[cell.frame.steps_method > 0]
    rate = 1 + accepted_per_step(frame)
    for _, request in frame[frame.verdict != "equal"].head(DIFFERING).iterrows():
        yield cell, _key(request), "differs from AR"
    for word, place in (("lowest", rate.idxmin()), ("highest", rate.idxmax())):
        yield cell, _key(frame.loc[place]), f"{word} tau"
    for category, part in frame.groupby("category", sort=False):
        yield cell, _key(part.iloc[0]), f"first of {category or 'all'}"


def _key(request: pd.Series) -> Key:
    return request.row, int(request.turn)


def _requests(cell: Cell, wanted: Mapping[Key, tuple[str, ...]], images: dict[str, int]) -> Iterator[dict]:
    """The wanted requests of a cell in stream order; new pictures are added to `images`, which numbers them."""
    rows = {row for row, _ in wanted}
    seen = {line["row"]: line for line in _lines(cell.folder, "inspect") if line["row"] in rows}
    steps: dict[Key, list] = {}
    for line in _lines(cell.folder, "steps"):
        if (key := (line["row"], line["turn"])) in wanted:
            steps.setdefault(key, []).append([line[k] for k in ("tokens", "parents", "sources", "path", "committed")])
    for record in read_records(cell.folder):
        key = (record["row"], record["turn"])
        if key in wanted and record["row"] in seen:
            yield _request(record, seen[record["row"]], steps[key], wanted[key], images)


def _request(record: dict, seen: dict, steps: list, why: tuple[str, ...], images: dict[str, int]) -> dict:
    turn = next(turn for turn in seen["turns"] if turn["turn"] == record["turn"])
    side = record["method"]
    used = set(side["tokens"]).union(*(step[0] for step in steps))
    pictures = [f"data:{image['type']};base64,{image['data']}" for image in seen["images"]]
    return {
        "row": record["row"],
        "turn": record["turn"],
        "category": record["category"],
        "why": list(why),
        "tau": sum(side["committed"]) / len(steps),
        "verdict": sentence(record["verdict"]),
        "question": turn["question"],
        "prompt": turn["prompt"],
        "images": [images.setdefault(picture, len(images)) for picture in pictures],
        "first": side["tokens"][0],
        "texts": {str(token): seen["texts"][str(token)] for token in sorted(used)},
        "steps": steps,
    }


def _lines(folder: Path, kind: str) -> Iterator[dict]:
    """The committed lines of a trace; none where the run is older than it."""
    inputs = committed(folder)
    return read_lines(folder / TRACES[kind], inputs[-1].get(kind, 0) if inputs else 0)


def as_script(data: dict) -> str:
    """JSON that may stand inside a script element, whatever text it holds."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
