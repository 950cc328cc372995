"""The requests of a finished cell once more: for rows, and for other images in their place."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from analysis.load import read_records
from recap.types import Limits, Request
from runners.benches.base import Bench, Row
from runners.benches.images import to_rgb
from runners.contract import digest
from runners.folder import ROWS
from runners.models import Model
from runners.recorder import record
from runners.traces import Identity, Setting, save


@dataclass(frozen=True, slots=True)
class Visit:
    """One request: its record, its chat and the images it was asked with."""

    record: dict[str, Any]
    chat: list[dict]
    images: list[Image.Image]

    def request(self, model: Model, limits: Limits, images: Sequence[Image.Image] | None = None) -> Request:
        """The request, or the same one over other images of the same sizes; its prompt is that of the record."""
        request = model.request(model.inputs(self.chat, self.images if images is None else images), limits)
        if digest(request.prompt.tobytes()) != self.record["prompt"]:
            raise ValueError(f"row {self.record['row']}: the prompt is not the recorded one; run the cell again")
        return request


def revisit(model: Model, bench: Bench, records: Iterable[dict[str, Any]]) -> Iterator[Visit]:
    """Every recorded request, in stream order; later turns see AR's own earlier answers."""
    rows: Iterator[tuple[int, Row]] = enumerate(bench.rows())
    for index, turns in groupby(records, key=lambda record: record["index"]):
        row = next(row for at, row in rows if at == index)
        images, answers = [to_rgb(image) for image in row.open_images()], []
        for asked in turns:
            yield Visit(asked, bench.messages(row, asked["turn"], answers, len(images)), images)
            answers.append(model.text(np.array(asked["ar"]["tokens"])))


def record_rows(folder: Path, names: dict[str, str], model: Model, bench: Bench, limits: Limits) -> None:
    """Record the rows of a measured cell, in a pass that no clock sees."""
    target = model.target
    setting = Setting(
        names["model"], names["bench"], target.vocab_size, target.placeholders, limits.stop_ids, limits.max_new_tokens
    )
    traces = (
        record(
            target,
            visit.request(model, limits),
            np.array(visit.record["ar"]["tokens"]),
            Identity(*(visit.record[name] for name in Identity._fields)),
            limits.stop_ids,
            model.model,
        )
        for visit in revisit(model, bench, read_records(folder, partial=True))
    )
    save(folder / ROWS, setting, traces)
