"""Traces: the greedy path of every request of a cell with the target's rows along it, in one file, rows.parquet.

A trace holds ids and rows, and a hash where there was an image: no pixels.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recap.types import Ints, Request, Rows

SCHEMA = 1
TOP_K = 8
BATCH = 64  # requests of a row group


@dataclass(frozen=True)
class Setting:
    """What all traces of a file share."""

    model: str
    bench: str
    vocab_size: int
    placeholders: tuple[int, ...]
    stop_ids: tuple[int, ...]
    max_new_tokens: int

    @cached_property
    def blocked(self) -> np.ndarray:
        """[vocab] True for placeholders."""
        return np.isin(np.arange(self.vocab_size), self.placeholders)


@dataclass(frozen=True)
class Trace:
    """The greedy path of one request: m emitted tokens and the row after each of them.

    row, turn  the request;  category, images as in its record
    prompt     [n] ids, -1 for a placeholder
    positions  [p] prompt positions with a row: the first and the last of every text token, ascending, then the end
    seed       their rows;  seed_mass [p]
    tokens     [m] emitted ids;  rows [m] after each, the last one too;  mass [m]

    A mass is the share of the softmax over the whole vocabulary that the row's ids hold; NaN where it is not known.
    """

    row: str
    turn: int
    category: str
    images: str
    prompt: Ints
    positions: Ints
    seed: Rows
    seed_mass: np.ndarray
    tokens: Ints
    rows: Rows
    mass: np.ndarray

    @property
    def cluster(self) -> str:
        """What is resampled: the image, or the conversation where there is none."""
        return self.images or self.row

    def columns(self, setting: Setting) -> dict[str, Any]:
        """The columns by which tables know the request."""
        names = {"model": setting.model, "bench": setting.bench, "row": self.row, "turn": self.turn}
        return names | {"cluster": self.cluster}

    def first(self) -> Ints:
        """Indices into `positions` of each text token's first occurrence, in prompt order."""
        _, first = np.unique(self.prompt, return_index=True)
        return np.searchsorted(self.positions[:-1], np.sort(first[self.prompt[first] >= 0]))

    def request(self, setting: Setting) -> Request:
        """The request as a drafter sees it."""
        hidden = setting.placeholders[0] if setting.placeholders else -1
        return Request(np.where(self.prompt < 0, hidden, self.prompt), setting.vocab_size, setting.placeholders)


class Identity(NamedTuple):
    """Which request it is, as its record says."""

    row: str
    turn: int
    category: str
    images: str


def save(path: Path, setting: Setting, traces: Iterable[Trace]) -> None:
    """Write rows.parquet whole or not at all."""
    vector, row = pa.list_(pa.int32()), pa.list_(pa.list_(pa.int32(), TOP_K))
    probs, mass = pa.list_(pa.list_(pa.float32(), TOP_K)), pa.list_(pa.float32())
    schema = pa.schema(
        {
            "row": pa.string(), "turn": pa.int32(), "category": pa.string(), "images": pa.string(),
            "prompt": vector, "positions": vector, "seed_ids": row, "seed_probs": probs, "seed_mass": mass,
            "tokens": vector, "ids": row, "probs": probs, "mass": mass,
        },
        {"schema": str(SCHEMA), "setting": json.dumps(asdict(setting))},
    )  # fmt: skip
    part = path.with_name(path.name + ".part")
    with pq.ParquetWriter(part, schema, compression="zstd") as writer:
        batch = []
        for trace in traces:
            batch.append(_columns(trace))
            if len(batch) == BATCH:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch = []
        if batch:
            writer.write_table(pa.Table.from_pylist(batch, schema))
    os.replace(part, path)


def open_traces(path: Path) -> tuple[Setting, Iterator[Trace]]:
    """The setting and the traces of a file, in stream order. Raises ValueError for a file that is not one."""
    if not path.is_file():
        raise ValueError(f"{path}: no recorded rows; run the cell with record=rows")
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: not a whole parquet file ({error})") from None
    known = file.schema_arrow.metadata or {}
    if known.get(b"schema") != str(SCHEMA).encode():
        raise ValueError(f"{path}: schema {known.get(b'schema')} where {SCHEMA} is expected; record the rows again")
    setting = json.loads(known[b"setting"])
    for name in ("placeholders", "stop_ids"):
        setting[name] = tuple(setting[name])
    return Setting(**setting), (_trace(line) for batch in file.iter_batches(BATCH) for line in batch.to_pylist())


def write_table(path: Path, columns: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """A table of results, whole or not at all."""
    table = pa.table(dict(columns)).replace_schema_metadata({"schema": str(SCHEMA), **metadata})
    part = path.with_name(path.name + ".part")
    pq.write_table(table, part, compression="zstd")
    os.replace(part, path)


def _columns(trace: Trace) -> dict[str, Any]:
    plain = {name: getattr(trace, name) for name in ("row", "turn", "category", "images")}
    arrays = {name: getattr(trace, name) for name in ("prompt", "positions", "seed_mass", "tokens", "mass")}
    arrays |= {"seed_ids": trace.seed.ids, "seed_probs": trace.seed.probs}
    arrays |= {"ids": trace.rows.ids, "probs": trace.rows.probs}
    return plain | {name: array.tolist() for name, array in arrays.items()}


def _trace(line: dict[str, Any]) -> Trace:
    def rows(prefix: str) -> Rows:
        ids, probs = line.pop(f"{prefix}ids"), line.pop(f"{prefix}probs")
        return Rows(np.array(ids, np.int32).reshape(-1, TOP_K), np.array(probs, np.float32).reshape(-1, TOP_K))

    seed, path = rows("seed_"), rows("")
    ints = {name: np.array(line.pop(name), np.int64) for name in ("prompt", "positions", "tokens")}
    masses = {name: np.array(line.pop(name), np.float32) for name in ("seed_mass", "mass")}
    return Trace(seed=seed, rows=path, **ints, **masses, **line)
