"""tests/README.md names tests that exist, and for every report it cites at least one."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SECTIONS = (
    "Output must equal greedy",
    "Counting",
    "Cache, positions, images",
    "Memory lifetime",
    "Timing and statistics",
    "Operations",
)
TEXT = (TESTS / "README.md").read_text()
ROWS = [line.strip("|").split(" | ") for line in TEXT.splitlines() if line.startswith("| ") and " case " not in line]


def named_in(cell: str) -> set[tuple[str, str]]:
    """(file, test) for every name in a cell such as '`test_a.py`: one, another; `test_b.py`: a_third'."""
    parts = (re.fullmatch(r"\s*`(test_\w+\.py)`: (.+?)\s*", part) for part in cell.split(";"))
    return {(part[1], f"test_{name}") for part in parts if part for name in part[2].split(", ")}


NAMED = set().union(*(named_in(tests) for _, tests in ROWS))


def functions_of(path: Path) -> set[str]:
    """The test functions that pytest collects from a file."""
    nodes = ast.parse(path.read_text()).body
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_test_that_the_readme_names_exists(file):
    named = {name for where, name in NAMED if where == file}
    assert named <= functions_of(TESTS / file), f"not in {file}: {sorted(named - functions_of(TESTS / file))}"


def test_every_reported_fault_has_a_test():
    assert len(ROWS) > 20
    for report, tests in ROWS:
        assert re.search(r"^ ?[\w.-]+(/[\w.-]+)?(#\d+|, )", report), report
        assert len(named_in(tests)) >= len(tests.split(";")), f"{report}: not all of it names a test: {tests}"


def test_the_sections_are_there_in_order():
    assert tuple(re.findall(r"^## (.+)$", TEXT, re.MULTILINE)) == SECTIONS
