"""The mirror in W&B holds what the records hold, once, and a mirror that fails costs nothing.

W&B itself runs in forked processes only, so that every test finds it as if never used.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from analysis import compare, wandb_file
from analysis.gather import cell_of_api, cells_of
from analysis.load import load
from analysis.mirror import INPUT, own_summary
from runners import folder, status, track
from runners.cell import run
from tests.scripted_cell import ROWS, ended, forked, in_fork, scripted

ROOT = Path(__file__).parent.parent
KILLED_AFTER = 3  # inputs


def offline(cell) -> list[Path]:
    """The run files below a cell's folder."""
    return sorted(cell.folder("recap").glob("wandb/offline-run-*/run-*.wandb"))


def killed(cell, after: int) -> None:
    """Run the cell in a process that is gone once so many inputs are committed."""

    def work() -> int:
        commit = folder.Folder.commit

        def last(self, *args) -> None:
            commit(self, *args)
            if len(self.inputs) == after:
                os.kill(os.getpid(), signal.SIGKILL)

        folder.Folder.commit = last
        return run(cell)

    assert ended(forked(work)) == -signal.SIGKILL


@pytest.fixture(scope="module")
def tracked(tmp_path_factory):
    """A cell that was killed and continued, tracked offline; `first` is the run that the killed process left."""
    cell = scripted(tmp_path_factory.mktemp("tracked"), "track=offline", "sweep=night")
    killed(cell, KILLED_AFTER)
    first = offline(cell)
    time.sleep(1.1)  # W&B names its folders by the second
    assert in_fork(cell) == 0
    return SimpleNamespace(cell=cell, folder=cell.folder("recap"), first=first)


@pytest.fixture(scope="module")
def mirrored(tracked) -> wandb_file.Run:
    return wandb_file.read(offline(tracked.cell)[0])


def test_an_offline_run_holds_the_config_each_inputs_row_the_summary_and_two_figures(tracked, mirrored):
    config = OmegaConf.to_container(OmegaConf.load(tracked.folder / "config.yaml"))
    assert {key: mirrored.config[key] for key in config} == config
    assert [row[f"{INPUT}row"] for row in mirrored.history] == [f"synthetic-{i:06}" for i in range(ROWS)]
    assert own_summary(mirrored.summary) == json.loads((tracked.folder / "summary.json").read_text())
    files = offline(tracked.cell)[0].parent / "files"
    for name in ("ledger", "course"):
        assert (files / mirrored.history[-1][f"figures/{name}/path"]).read_bytes().startswith(b"\x89PNG")
    for name, first in (("speed", "ar"), ("acceptance", "recap")):
        table = json.loads((files / mirrored.history[-1][f"tables/{name}/path"]).read_text())
        assert table["data"][0][0] == first and len(table["columns"]) == len(table["data"][0])


def test_a_run_is_named_by_its_sweep_method_and_cell(tracked, mirrored):
    assert (mirrored.group, mirrored.job_type, mirrored.name) == ("night", "recap", "scripted/recap/synthetic")
    assert mirrored.id == track.run_id(tracked.folder) and mirrored.id.startswith(f"{tracked.folder.name}-")


def test_a_run_continued_after_a_kill_has_no_double_rows(tracked, mirrored):
    assert len(tracked.first) == 1 and tracked.first[0].name == offline(tracked.cell)[0].name, "another id"
    assert len(offline(tracked.cell)) == 1, "of two runs `wandb sync` would upload both"
    assert [row["_step"] for row in mirrored.history] == list(range(ROWS))


def test_mirroring_again_doubles_no_row(tracked, mirrored):
    before = offline(tracked.cell)
    time.sleep(1.1)
    assert ended(forked(lambda: track.main([str(tracked.folder), "--mode", "offline"]))) == 0
    (after,) = offline(tracked.cell)
    assert after.parent != before[0].parent
    again = wandb_file.read(after)
    assert again.id == mirrored.id
    assert [row["_step"] for row in again.history] == list(range(ROWS))
    assert own_summary(again.summary) == own_summary(mirrored.summary)


def test_the_frame_of_an_offline_run_is_that_of_its_folder(tracked):
    (cell,), (local,) = cells_of(str(offline(tracked.cell)[0].parent)), cells_of(str(tracked.folder))
    assert cell.frame.equals(local.frame[cell.frame.columns])
    assert {"window_method", "decode_ar", "committed_method", "steps_ar", "cluster"} <= set(cell.frame.columns)
    for name in ("model", "bench", "method", "rung", "options", "setting", "bench_options"):
        assert getattr(cell, name) == getattr(local, name)


def test_a_run_of_wandbs_own_interface_gives_the_same_frame(tracked, mirrored):
    api = SimpleNamespace(
        path=["me", "recap", mirrored.id], config=mirrored.config, summary=mirrored.summary,
        scan_history=lambda keys: [{key: row[key] for key in keys} for row in mirrored.history],
    )  # fmt: skip
    (local,) = cells_of(str(tracked.folder))
    found = cell_of_api(api).frame
    assert found.equals(local.frame[found.columns])


def test_an_offline_run_and_a_folder_are_compared(tracked, capsys):
    assert compare.main([str(tracked.folder), str(offline(tracked.cell)[0])]) == 0
    assert "throughput, end to end: +0.00%" in capsys.readouterr().out


def test_a_changed_byte_of_a_run_file_is_found_and_a_torn_end_is_left_out(tracked, mirrored, tmp_path):
    blob = offline(tracked.cell)[0].read_bytes()
    path = tmp_path / "run-x.wandb"
    path.write_bytes(blob[:200] + bytes([blob[200] ^ 1]) + blob[201:])
    with pytest.raises(ValueError, match=r"run-x\.wandb: byte \d+: not what was written"):
        wandb_file.read(path)
    path.write_bytes(blob[: len(blob) // 2])
    assert 0 < len(wandb_file.read(path).history) < ROWS
    with pytest.raises(ValueError, match="the run was not ended"):
        cells_of(str(path))


@pytest.fixture
def untracked(tmp_path):
    """A finished cell of two methods, not tracked."""
    cell = scripted(tmp_path, "limit=4", methods=("recap", "token_recycling"))
    run(cell)
    return cell


class Remote:
    """Stands for a run that W&B has, with its first rows."""

    def __init__(self, rows: int = 0, dies_at: int | None = None) -> None:
        self.starting_step, self._dies_at = rows, dies_at
        self.summary, self.steps, self.ended = {}, [], None

    def log(self, row: dict, step: int) -> None:
        if step == self._dies_at:
            raise ConnectionResetError("Connection lost")
        self.steps.append(step)

    def finish(self, exit_code: int) -> None:
        self.ended = exit_code


@pytest.mark.parametrize("there,sent", [(0, [0, 1, 2, 3, 3]), (3, [3, 3]), (4, [])])
def test_only_the_rows_that_wandb_lacks_are_sent(untracked, monkeypatch, there, sent):
    """The figures go into the last input's row, or, where that is there, into the summary: never a row of their own."""
    remote = Remote(there)
    monkeypatch.setattr(track, "_started", lambda *_: remote)
    assert track.mirror(untracked.folder("recap"), "online").error == ""
    assert remote.steps == sent and remote.ended == 0 and remote.summary["n"] == 4
    assert ("figures/ledger" in remote.summary) == (there == 4)


def test_a_mirror_that_fails_is_said_once_and_costs_no_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(track, "_started", lambda *_: Remote(dies_at=2))
    cell = scripted(tmp_path, "track=online")
    assert run(cell) == 0
    assert load(cell.folder("recap")).row.nunique() == ROWS
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("track: ")]
    assert len(said) == 1 and "Connection lost" in said[0] and "python -m runners.track" in said[0]


def test_online_without_a_key_fails_before_weights_load_and_names_the_way_out(tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_")}
    environment |= {"HOME": str(tmp_path), "NETRC": str(tmp_path / "none")}
    command = [sys.executable, "run.py", "track=online", "limit=1", f"out={tmp_path / 'out'}"]
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 2
    assert "error: track=online: W&B cannot be had (No API key configured" in ran.stderr
    assert "track=offline" in ran.stderr and "python -m runners.track" in ran.stderr
    assert "Loading weights" not in ran.stderr and "Traceback" not in ran.stderr


def test_an_untracked_run_does_not_import_wandb(tmp_path):
    def work() -> bool:
        for name in [name for name in sys.modules if name.partition(".")[0] == "wandb"]:
            del sys.modules[name]
        run(scripted(tmp_path))
        return "wandb" in sys.modules

    assert ended(forked(work)) == 0


def test_a_tracked_run_that_is_finished_says_how_to_mirror_it(untracked, capsys):
    untracked.config["track"] = "online"
    assert run(untracked) == 0
    assert "python -m runners.track" in capsys.readouterr().out


def test_what_is_not_finished_is_left_out_by_name(untracked, monkeypatch, capsys):
    remotes = []
    monkeypatch.setattr(track, "_started", lambda folder, *_: remotes.append(folder) or Remote())
    failed = untracked.folder("token_recycling")
    status.write(failed, status.read(failed).now("failed", 2, "it was cut off"))
    assert track.main([untracked.config["out"]]) == 0
    assert remotes == [untracked.folder("recap")]
    assert f"left out, not finished: {failed}" in capsys.readouterr().out
    assert track.main([str(failed)]) == 2


def test_a_measurement_made_anew_is_another_run(untracked):
    before = track.run_id(untracked.folder("recap"))
    untracked.config["rerun"] = True
    time.sleep(1.1)  # what begins a cell is known by the second
    run(untracked)
    assert track.run_id(untracked.folder("recap")) != before


def test_the_methods_below_a_root_are_paired_with_the_fastest_or_the_one_named(untracked, capsys):
    root = untracked.config["out"]
    assert compare.main([root]) == 0
    head, _, _, *lines = capsys.readouterr().out.splitlines()
    assert head == "scripted on synthetic" and {line.split()[0] for line in lines} == {"recap", "token_recycling"}
    assert ["too few inputs for an interval" in line for line in lines] == [False, True], "all but the fastest"
    assert compare.main([root, "--against", "recap"]) == 0
    assert "throughput against recap" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["nowhere"], "nowhere: not there"),
        (["wandb:me"], "expected wandb:ENTITY/PROJECT"),
        (["{root}", "--against", "racer"], "--against racer: choose one of recap, token_recycling"),
    ],
)
def test_a_comparison_that_cannot_be_made_names_the_legal_ones(untracked, capsys, arguments, message):
    assert compare.main([word.format(root=untracked.config["out"]) for word in arguments]) == 2
    assert message in capsys.readouterr().err
