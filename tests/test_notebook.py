"""The notebook runs from the committed records and shows every table and figure."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from analysis.figures import KINDS

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "notebooks" / "figures.ipynb"


@pytest.fixture(scope="module")
def notebook() -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def outputs(notebook) -> list[dict]:
    """What the executed cells display, by kind of content."""
    environment = {key: value for key, value in os.environ.items() if key != "RECAP_RESULTS"}
    client = NotebookClient(nbformat.from_dict(notebook), timeout=120, resources={"metadata": {"path": str(ROOT)}})
    ran = client.execute(env=environment)
    return [out["data"] for cell in ran.cells if cell.cell_type == "code" for out in cell.outputs if "data" in out]


def test_no_output_is_stored(notebook):
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code)


def test_every_figure_is_shown(outputs):
    assert sum("image/png" in data for data in outputs) == len(KINDS)


def test_every_table_is_shown_and_says_what_its_data_are(outputs):
    shown = [data["text/markdown"] for data in outputs if "text/markdown" in data]
    assert len(shown) == 5
    for text in shown[:-1]:
        assert "(generated fixtures)" in text
