"""The base classes of benchmarks that read a published data set: source, columns, subset, manifest, lazy images."""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from PIL import Image

from recap.options import check_options
from runners.benches.base import Bench, Row
from runners.benches.images import opened
from runners.benches.manifest import Manifest
from runners.benches.tables import Table, open_hub, open_local
from runners.contract import digest

BAD_CELL = (TypeError, ValueError, IndexError, AttributeError)  # what building a prompt from a damaged row raises


class TableBench(Bench):
    """Rows of a table, chosen and ordered once. Subclasses say which columns they read and make rows of the cells.

    columns   read for every row, missing ones are refused; `optional` ones are read where they are there
    id_column names the rows; None: their position in the split does
    licence   of the data, as its publishers state it
    """

    columns: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]] = ()
    id_column: ClassVar[str | None] = None
    image_column: ClassVar[str] = "image"
    licence: ClassVar[str]

    def __init__(self, table: Table, split: str, choice: str, order: int | None) -> None:
        """Check the columns and choose the rows; `choice` names the way they are chosen in the manifest."""
        self._table, self._split, self._choice = table, split, choice
        if not len(table):
            raise ValueError(f"bench {self.name}: {table.place} is empty; check bench.path and bench.split={split}")
        needed = [*self.columns, self.image_column, *([self.id_column] if self.id_column else [])]
        if missing := [name for name in needed if name not in table.columns]:
            raise ValueError(
                f"bench {self.name}: {table.place} lacks the column {', '.join(missing)}; it has "
                f"{', '.join(table.columns)}; is this the set that bench.hub names?"
            )
        self._read = [c for c in (*self.columns, *self.optional) if c in table.columns]
        self._names = self._row_names()
        self._chosen = self.choose(self.kept(table))
        if not self._chosen:
            raise ValueError(f"bench {self.name}: no row of {table.place} passes its filter; is this the right split?")
        places = range(len(self._chosen)) if order is None else np.random.default_rng(order).permutation(len(self))
        self._stream = [self._chosen[place] for place in places]

    def __len__(self) -> int:
        return len(self._chosen)

    def kept(self, table: Table) -> list[int]:
        """The set's own filter: positions of the rows that belong to the benchmark."""
        return list(range(len(table)))

    @abstractmethod
    def choose(self, kept: list[int]) -> list[int]:
        """The positions to run, in order."""

    @abstractmethod
    def make(self, name: str, cells: dict[str, Any]) -> Row:
        """The row of these cells, without its images."""

    def rows(self, limit: int | None = None) -> Iterator[Row]:
        for position in self._stream[:limit]:
            yield self._row(position)

    def manifest(self) -> Manifest:
        """Reads every chosen row, images included, and decodes none."""
        rows = {self._names[position]: self._content(position) for position in self._chosen}
        shared = self._table.origin.hub is not None
        return Manifest(self.name, self._split, self.source, self._choice, rows, shared)

    @property
    def source(self) -> str:
        """'id@revision' on the hub; else 'local' or, of generated rows, 'fixtures', with a hash of columns and ids."""
        origin = self._table.origin
        identity = json.dumps([sorted(self._read), self._names]).encode()
        return origin.hub or f"{'fixtures' if origin.generated else 'local'}-{digest(identity)}"

    def _row(self, position: int) -> Row:
        name = self._names[position]
        images = partial(_open, self._table, self.image_column, position)
        try:
            row = self.make(name, self._cells(position))
        except BAD_CELL as error:
            return Row(name, "", ("",), (None,), fault=f"its columns cannot be read ({error})")
        return Row(row.id, row.category, row.turns, row.references, images, row.fault)

    def _cells(self, position: int) -> dict[str, Any]:
        return {column: self._table.cell(column, position) for column in self._read}

    def _content(self, position: int) -> str:
        text = json.dumps(self._cells(position), sort_keys=True).encode()
        try:
            blobs = self._table.blobs(self.image_column, position)
        except OSError:  # the row will be left out, and must be the same row when the file is back
            return digest(text + b"unreadable")
        return digest(b"".join([text, *(digest(blob).encode() for blob in blobs)]))

    def _row_names(self) -> list[str]:
        count = len(self._table)
        if self.id_column is None:
            return [f"{self.name}-{position:06d}" for position in range(count)]
        names = [str(self._table.cell(self.id_column, position)) for position in range(count)]
        often = Counter(names)
        return [n if often[n] == 1 else f"{n}-at-{position}" for position, n in enumerate(names)]


class DatasetBench(TableBench):
    """A set with reference answers, one question a row, of which a seeded subset is run.

    hub          ids of the same set on the hub, tried in order
    split, subset, revision   of the hub's set; revision null = the newest, recorded in the manifest's name
    path         a local copy, read without any network: save_to_disk folder, parquet, or jsonl with images
    n            rows chosen: `numpy.random.default_rng(subset_seed).permutation(rows)[:n]` after the set's own filter
    order        a seed that shuffles the stream of the chosen rows; null = in the order of choice
    prompt       'speed': the question with its options; 'accuracy': the published harness's prompt, which asks for
                 the shortest answer
    """

    def __init__(
        self,
        hub: Sequence[str],
        split: str,
        subset: str | None = None,
        revision: str | None = None,
        path: str | None = None,
        n: int = 1000,
        subset_seed: int = 42,
        order: int | None = None,
        prompt: Literal["speed", "accuracy"] = "speed",
    ) -> None:
        check_options(DatasetBench.__init__, {"prompt": prompt, "n": n, "subset_seed": subset_seed}, "bench")
        if n < 1:
            raise ValueError(f"bench.n={n}: at least 1 row is needed")
        self.prompt, self._n, self._subset_seed = prompt, n, subset_seed
        ids = [hub] if isinstance(hub, str) else list(hub)
        table = open_local(self.name, path, split) if path else open_hub(self.name, ids, subset, split, revision)
        super().__init__(table, split, f"seed{subset_seed}-n{n}", order)

    def choose(self, kept: list[int]) -> list[int]:
        return [kept[k] for k in np.random.default_rng(self._subset_seed).permutation(len(kept))[: self._n]]

    @abstractmethod
    def speed(self, cells: dict[str, Any]) -> str:
        """The question with its options."""

    @abstractmethod
    def accuracy(self, cells: dict[str, Any]) -> str:
        """The question as the published harness puts it."""

    @abstractmethod
    def reference(self, cells: dict[str, Any]) -> Any:
        """What `score` needs; None for a row without an answer."""

    @abstractmethod
    def category(self, cells: dict[str, Any]) -> str:
        """The group that tables split by."""

    def make(self, name: str, cells: dict[str, Any]) -> Row:
        question = (self.speed if self.prompt == "speed" else self.accuracy)(cells)
        reference = self.reference(cells)
        fault = "" if reference is not None else (
            f"it has no answer; if bench.split={self._split} keeps its answers hidden, choose another split"
        )  # fmt: skip
        return Row(name, self.category(cells), (question,), (reference,), fault=fault)


def lettered(options: Sequence[str], mark: str = ". ") -> str:
    """Options one a line, as 'A. first'."""
    return "\n".join(f"{chr(ord('A') + k)}{mark}{option}" for k, option in enumerate(options))


def _open(table: Table, column: str, position: int) -> list[Image.Image]:
    return opened(table.blobs(column, position))
