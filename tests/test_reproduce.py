"""The script that reruns the paper: its shell is sound, and every command in it is one that exists."""

import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from analysis.published import FOUR_SETS, MMSPEC, SINGLE_TURN
from tests.test_config import choices, compose

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "reproduce.sh"


def commands(tmp_path: Path, code: int = 0, **variables: str) -> tuple[int, list[list[str]]]:
    """Exit code and commands of a run in which python only notes how it is called, and ends with `code` for a cell."""
    fake, log = tmp_path / "python", tmp_path / "log"
    fake.write_text(
        f'#!/usr/bin/env bash\nprintf "%q " "$@" >> {log}; echo >> {log}; [[ $1 != run.py ]] || exit {code}\n'
    )
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    plain = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    ran = subprocess.run(
        ["bash", str(SCRIPT)], env=plain | {"PYTHON": str(fake)} | variables, capture_output=True, text=True
    )
    return ran.returncode, [shlex.split(line) for line in log.read_text().splitlines()] if log.is_file() else []


def cells(ran: list[list[str]]) -> list[dict[str, str]]:
    return [dict(word.split("=", 1) for word in words[1:]) for words in ran if words[0] == "run.py"]


def parted(found: list[dict]) -> tuple[list[dict], list[dict]]:
    """The traced cells, which are for the step inspector, and the others."""
    return [cell for cell in found if "trace" in cell], [cell for cell in found if "trace" not in cell]


def test_the_shell_is_sound():
    assert subprocess.run(["bash", "-n", str(SCRIPT)]).returncode == 0


def test_the_laptop_edition_runs_every_part_on_generated_inputs(tmp_path):
    code, ran = commands(tmp_path, MODEL="tiny_qwen", LIMIT="20")
    assert code == 0
    assert ran[0][0] == "scripts/make_fixtures.py"
    assert [words[1] for words in ran[-6:]] == [
        "runners.replay", "runners.counterfactual",
        "analysis.compact", "analysis.tables", "analysis.figures", "analysis.report",
    ]  # fmt: skip
    inspected, found = parted(cells(ran))
    assert {(cell["device"], cell["limit"], cell["model"]) for cell in found} == {("cpu", "20", "tiny_qwen")}
    assert [(cell["bench"], cell["limit"]) for cell in inspected] == [("synthetic", "8")]
    assert {cell["bench"] for cell in found if "experiment" not in cell} == {*SINGLE_TURN, MMSPEC}
    assert all("fixtures" in cell["bench.path"] for cell in found if cell["bench"] != "synthetic")
    for experiment in ("control_confidence", "control_suffix"):
        assert {cell["bench"] for cell in found if cell.get("experiment") == experiment} == set(FOUR_SETS)
    recorded = {cell["bench"] for cell in found if cell.get("record") == "rows"}
    assert recorded == {*SINGLE_TURN, MMSPEC, "synthetic"}, "one cell a benchmark, or replays would count it twice"
    assert sum(cell.get("record") == "rows" for cell in found) == len(recorded)
    orders = [cell["bench.order"] for cell in found if cell.get("experiment") == "control_persistence"]
    assert orders == list("01234")


def test_the_paper_edition_needs_mmspec(tmp_path):
    assert commands(tmp_path)[0] == 1


def test_the_paper_edition_runs_both_models_in_full(tmp_path):
    _, ran = commands(tmp_path, MMSPEC="/data/mmspec")
    _, found = parted(cells(ran))
    assert {cell["model"] for cell in found} == {"qwen", "llava"}
    assert {cell["device"] for cell in found} == {"cuda"} and not any("limit" in cell for cell in found)
    ladder = next(cell for cell in found if cell.get("experiment") == "ablations")
    assert (ladder["bench"], ladder["bench.path"], ladder["bench.per_topic"]) == (MMSPEC, "/data/mmspec", "20")


def test_outputs_that_differ_do_not_stop_it_and_decide_its_exit_code(tmp_path):
    whole = commands(tmp_path, MODEL="tiny_qwen")[1]
    (tmp_path / "log").unlink()
    code, ran = commands(tmp_path, code=3, MODEL="tiny_qwen")
    assert code == 3 and ran == whole


def test_bad_input_stops_it(tmp_path):
    code, ran = commands(tmp_path, code=2, MODEL="tiny_qwen")
    assert code != 0 and len(cells(ran)) == 1


@pytest.mark.parametrize("edition", [{"MODEL": "tiny_qwen"}, {"MMSPEC": "/data"}], ids=str)
def test_every_cell_composes(tmp_path, edition):
    ran = commands(tmp_path, **edition)[1]
    known = {group: set(choices(group)) for group in ("model", "bench")}
    tried = {tuple(words[1:]) for words in ran if words[0] == "run.py"}
    for words in tried:
        cell = dict(word.split("=", 1) for word in words)
        assert cell.get("experiment", "ablations") in choices("experiment")
        if all(cell[group] in known[group] for group in known):
            compose(*words)
