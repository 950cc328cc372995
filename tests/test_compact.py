"""Cells made small: the same tables, no token ids, nothing lost by the way."""

import pandas as pd
import pytest

from analysis import tables
from analysis.cells import walk
from analysis.compact import compact
from analysis.load import load
from analysis.render import FORMATS
from tests.cells import records, write


def every_table(root) -> list[str]:
    return [form(table) for table in tables.tables(walk(root)) for form in FORMATS.values()]


@pytest.fixture
def raw(tmp_path):
    """Two methods, one of them with the counts of a replay beside it."""
    folder = write(tmp_path / "raw", records(12, 1.5))
    write(tmp_path / "raw", records(12, 1.3), method="token_recycling")
    pd.DataFrame({"states": [3]}).to_parquet(folder / "recall.parquet")
    return tmp_path / "raw"


def test_tables_of_compact_cells_are_those_of_the_records(raw, tmp_path):
    compact(raw, tmp_path / "small")
    assert every_table(tmp_path / "small") == every_table(raw)


def test_every_column_of_the_frame_is_kept(raw, tmp_path):
    for folder in compact(raw, tmp_path / "small"):
        before, after = load(raw / folder.relative_to(tmp_path / "small")), load(folder)
        assert list(before) == list(after)
        for name in before:
            assert [list(v) if hasattr(v, "__len__") and not isinstance(v, str) else v for v in before[name]] == [
                list(v) if hasattr(v, "__len__") and not isinstance(v, str) else v for v in after[name]
            ]


def test_counts_of_replays_come_along_and_records_do_not(raw, tmp_path):
    compact(raw, tmp_path / "small")
    names = [file.name for file in (tmp_path / "small").rglob("*") if file.is_file()]
    assert names.count("recall.parquet") == 1 and "records.jsonl" not in names


def test_a_second_call_leaves_no_cell_of_the_first(raw, tmp_path):
    small = tmp_path / "small"
    compact(raw, small)
    write(tmp_path / "other", records(12, 1.1), bench="chartqa")
    compact(tmp_path / "other", small)
    assert [cell.bench for cell in walk(small)] == ["chartqa"]


def test_records_are_never_replaced(raw, tmp_path):
    write(tmp_path / "kept", records(12, 1.1))
    with pytest.raises(ValueError, match="holds the records of a run, which would be lost"):
        compact(raw, tmp_path / "kept")
    with pytest.raises(ValueError, match="no finished cell below it"):
        compact(tmp_path / "nothing", tmp_path / "small")
