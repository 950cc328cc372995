"""Where the rows of a data set lie: on the hub, or in a local copy (save_to_disk, parquet, jsonl with images).

Every form is read the same way: cell by cell, image cells as encoded bytes, so nothing is decoded before its use and
memory stays flat in the number of rows. `datasets` is imported where data is opened; other benchmarks run without it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

# Beside a downloaded copy it holds {"hub": id, "revision": sha}, beside generated rows {"made_by": script}.
PROVENANCE = "source.json"
WAY_OUT = "without network, give a local copy with bench.path=FOLDER (scripts/fetch_data.py makes one)"


class Origin(NamedTuple):
    """hub: 'id@revision' where rows came from there; generated: no published data at all."""

    hub: str | None = None
    generated: bool = False


class Table(Protocol):
    """Rows by position; `place` is for errors."""

    place: str
    origin: Origin
    columns: tuple[str, ...]

    def __len__(self) -> int: ...

    def cell(self, column: str, position: int) -> Any:
        """One value, as plain Python; an image cell as it is stored."""

    def has_images(self, column: str) -> list[bool]:
        """Which rows have a picture, without reading any."""

    def blobs(self, column: str, position: int) -> list[bytes]:
        """The encoded pictures of a row, none where the cell is empty. Raises OSError for a file that is not there."""


class ArrowTable:
    """An Arrow table, mapped from disk."""

    def __init__(self, data: Any, place: str, origin: Origin, folder: Path) -> None:
        if data._indices is not None:
            data = data.flatten_indices()
        self._table = data.data.table
        self.place, self.origin, self._folder = place, origin, folder
        self.columns = tuple(self._table.column_names)

    def __len__(self) -> int:
        return self._table.num_rows

    def cell(self, column: str, position: int) -> Any:
        return self._table.column(column)[position].as_py()

    def has_images(self, column: str) -> list[bool]:
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = self._table.column(column)
        there = pc.is_valid(cells)
        if pa.types.is_struct(cells.type):  # an absent picture may also be a struct of nothing
            fields = [
                pc.is_valid(pc.struct_field(cells, cells.type.field(i).name)) for i in range(cells.type.num_fields)
            ]
            there = pc.and_(there, pc.or_(*fields) if len(fields) == 2 else fields[0])
        elif pa.types.is_list(cells.type):
            there = pc.fill_null(pc.greater(pc.list_value_length(cells), 0), False)
        return there.to_pylist()

    def blobs(self, column: str, position: int) -> list[bytes]:
        return _blobs(self.cell(column, position), self._folder)


class JsonTable:
    """Lines of JSON beside a folder of pictures; an image cell is a path, or a list of them."""

    def __init__(self, path: Path) -> None:
        self._rows = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"bench.path: {path}:{number}: not a line of JSON ({error})") from None
            if not isinstance(row, dict):
                raise ValueError(f"bench.path: {path}:{number}: expected an object, got {type(row).__name__}")
            self._rows.append(row)
        self.place, self.origin, self._folder = str(path), _origin(path.parent), path.parent
        self.columns = tuple(dict.fromkeys(name for row in self._rows for name in row))

    def __len__(self) -> int:
        return len(self._rows)

    def cell(self, column: str, position: int) -> Any:
        return self._rows[position].get(column)

    def has_images(self, column: str) -> list[bool]:
        return [bool(row.get(column)) for row in self._rows]

    def blobs(self, column: str, position: int) -> list[bytes]:
        return _blobs(self.cell(column, position), self._folder)


def load_hub(bench: str, ids: Sequence[str], subset: str | None, split: str, revision: str | None):
    """The first of the hub's `ids` that can be loaded: (datasets.Dataset, id, resolved revision).

    Raises ValueError with every reason where none can.
    """
    import datasets
    from huggingface_hub import HfApi

    reasons = []
    for name in ids:
        try:
            sha = HfApi().dataset_info(name, revision=revision, timeout=20).sha
            return datasets.load_dataset(name, subset, split=split, revision=sha), name, sha
        except Exception as error:  # the network's layers raise what they like
            reasons.append(f"{name}: {_first_line(error)}")
    raise ValueError(f"bench {bench}: no data set of bench.hub can be loaded ({'; '.join(reasons)}); {WAY_OUT}")


def open_hub(bench: str, ids: Sequence[str], subset: str | None, split: str, revision: str | None) -> ArrowTable:
    """The hub's set as a table; errors as `load_hub`."""
    data, name, sha = load_hub(bench, ids, subset, split, revision)
    return ArrowTable(data, f"{name}@{sha}", Origin(f"{name}@{sha}"), Path())


def open_local(bench: str, path: str, split: str) -> Table:
    """A local copy: a save_to_disk folder, parquet, or jsonl with images. Raises ValueError for what is not there."""
    place = Path(path).expanduser()
    if place.is_file():
        return _open_file(bench, place)
    if not place.is_dir():
        raise ValueError(f"bench.path={path}: no such folder or file for bench {bench}")
    if (place / "dataset_dict.json").is_file() or (place / "state.json").is_file():
        return _open_saved(place, split)
    folder = place / split if (place / split).is_dir() else place
    if (folder / "state.json").is_file():
        return _open_saved(folder, split)
    if lines := sorted(folder.glob("*.jsonl")):
        named = [f for f in lines if f.stem in (bench, "rows", split)]
        if len(named or lines) > 1:
            raise ValueError(f"bench.path={path}: several jsonl files ({_names(lines)}); name the one to read")
        return JsonTable((named or lines)[0])
    if files := sorted(folder.rglob("*.parquet")):
        return _open_parquet(_of_split(files, split, path), place)
    raise ValueError(
        f"bench.path={path}: bench {bench} finds no data there; expected a save_to_disk folder, parquet files, or a "
        "jsonl file beside an images folder"
    )


def _open_file(bench: str, file: Path) -> Table:
    if file.suffix == ".jsonl":
        return JsonTable(file)
    if file.suffix == ".parquet":
        return _open_parquet([file], file.parent)
    raise ValueError(f"bench.path={file}: bench {bench} reads .jsonl and .parquet files, and folders of them")


def _open_saved(folder: Path, split: str) -> ArrowTable:
    import datasets

    try:
        data = datasets.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"bench.path={folder}: the saved set cannot be read ({_first_line(error)})") from None
    if isinstance(data, datasets.DatasetDict):
        if split not in data:
            raise ValueError(f"bench.split={split}: {folder} holds {', '.join(data)}")
        data = data[split]
    return ArrowTable(data, str(folder), _origin(folder), folder)


def _open_parquet(files: list[Path], folder: Path) -> ArrowTable:
    import datasets

    try:
        data = datasets.Dataset.from_parquet([str(f) for f in files])
    except Exception as error:  # whatever the reader raises on a damaged file
        raise ValueError(f"bench.path={folder}: the parquet files cannot be read ({_first_line(error)})") from None
    return ArrowTable(data, str(folder), _origin(folder), folder)


def _of_split(files: list[Path], split: str, path: str) -> list[Path]:
    """Files are named as on the hub, SPLIT-00000-of-00002.parquet; those of one split only may have any name."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(file.stem.split("-")[0], []).append(file)
    if split in groups:
        return groups[split]
    if len(groups) > 1:
        raise ValueError(f"bench.split={split}: {path} holds {', '.join(groups)}")
    return files


def _blobs(cell: Any, folder: Path) -> list[bytes]:
    if cell is None or cell == "":
        return []
    if isinstance(cell, list):
        return [blob for part in cell for blob in _blobs(part, folder)]
    if isinstance(cell, bytes):
        return [cell]
    if isinstance(cell, dict):
        return _blobs(cell.get("bytes") or cell.get("path"), folder)
    places = [folder / str(cell), folder / "images" / str(cell)]
    return [next((p for p in places if p.is_file()), places[0]).read_bytes()]


def _origin(folder: Path) -> Origin:
    file = folder / PROVENANCE
    if not file.is_file():
        return Origin()
    told = json.loads(file.read_text())
    return Origin(generated=True) if "made_by" in told else Origin(f"{told['hub']}@{told['revision']}")


def _names(files: Sequence[Path]) -> str:
    return ", ".join(f.name for f in files)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
