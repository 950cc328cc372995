"""A cell that is killed at any moment and run again ends as one that was never interrupted."""

import json
import os
import pickle
import random
import signal
import time
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.lines import committed, decode, encode, read
from analysis.load import load
from runners import snapshot, stream
from runners.cell import run
from runners.config import build
from tests.conftest import SOAK
from tests.scripted_cell import ROWS, ended, forked, in_fork, scripted, stored
from tests.test_config import PEERS, TEMPLATE, choices

METHODS = [name for name in choices("method") if name not in (*PEERS, TEMPLATE)]
KILLED = -signal.SIGKILL


def tau(cell, method: str | None = None) -> float:
    folder = cell.folder(method or next(iter(cell.methods)))
    return json.loads((folder / "summary.json").read_text())["tau"]


def status(cell) -> dict:
    return json.loads((cell.folder(next(iter(cell.methods))) / "status.json").read_text())


def same(cell, unbroken) -> bool:
    """Whether two cells recorded the same, times aside."""
    return all(stored(cell, m) == stored(unbroken, m) and tau(cell, m) == tau(unbroken, m) for m in unbroken.methods)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """RECAP and Token Recycling, never interrupted."""
    cell = scripted(tmp_path_factory.mktemp("unbroken"), methods=("recap", "token_recycling"))
    assert in_fork(cell) == 0
    return cell


def dying_at(write: int):
    """A cell's process that writes half of its `write`-th append and is gone."""
    left = write
    original = os.write

    def half(file: int, data) -> int:
        nonlocal left
        left -= 1
        if left >= 0:
            return original(file, data)
        original(file, bytes(data)[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    os.write = half


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["a checkpoint an input", "no checkpoint"])
def test_a_kill_in_any_write_loses_and_doubles_nothing(tmp_path, unbroken, monkeypatch, seconds):
    monkeypatch.setattr(stream, "CHECKPOINT_SECONDS", seconds)
    monkeypatch.setattr(stream, "CHECKPOINT_SHARE", 0)
    writes = 4 * ROWS  # two folders, a write of records and one of the commit each
    for write in range(writes) if SOAK else random.Random(0).sample(range(writes), 4):
        cell = scripted(tmp_path / str(write), methods=("recap", "token_recycling"))

        def work(cell=cell, write=write):
            dying_at(write)
            return run(cell)

        assert ended(forked(work)) == KILLED
        assert len(committed(cell.folder("recap"))) == (write + 2) // 4
        assert in_fork(cell) == 0
        assert same(cell, unbroken)


def test_kills_at_random_moments_leave_what_an_unbroken_run_leaves(tmp_path, monkeypatch):
    """Five kills in the suite; a hundred of cells of 50 inputs in a soak."""
    monkeypatch.setattr(stream, "CHECKPOINT_SECONDS", 0.05)
    limit, kills = (50, 100) if SOAK else (10, 5)
    calm = scripted(tmp_path / "calm", f"limit={limit}")
    started = time.monotonic()
    assert in_fork(calm) == 0
    span = time.monotonic() - started
    draw = random.Random(1)
    met = cells = 0
    while met < kills:
        cell, there = scripted(tmp_path / f"killed{cells}", f"limit={limit}"), 0
        cells += 1
        while met < kills and there < limit:
            pid = forked(lambda cell=cell: run(cell))
            time.sleep(draw.uniform(0, span))
            os.kill(pid, signal.SIGKILL)
            met += ended(pid) == KILLED
            before, there = there, len(committed(cell.folder("recap")))
            assert there >= before, "a finished input was lost"
        assert in_fork(cell) == 0
        assert same(cell, calm)
        assert [entry["index"] for entry in committed(cell.folder("recap"))] == list(range(limit))


@pytest.mark.parametrize("method", METHODS)
def test_what_any_method_remembers_is_restored_from_its_checkpoint(tmp_path, monkeypatch, method):
    monkeypatch.setattr("runners.costs.measure", lambda target, most, top_k: np.linspace(1.0, 2.0, most + 1))
    unbroken = scripted(tmp_path / "unbroken", methods=(method,))
    run(unbroken)
    half = scripted(tmp_path / "half", f"limit={ROWS // 2}", methods=(method,))
    run(half)
    assert (half.folder(method) / "memory.ckpt").is_file()
    whole = replace(half, config=half.config | {"limit": ROWS})
    redone = []
    monkeypatch.setattr(stream.Stream, "_compare", lambda *_: redone.append(1))
    run(whole)
    assert not redone, "the checkpoint spares decoding anew"
    assert same(whole, unbroken)


def test_a_method_whose_memory_cannot_be_stored_is_decoded_again(tmp_path, monkeypatch, unbroken):
    monkeypatch.setattr(snapshot, "NUMPY", ())
    run(scripted(tmp_path, "limit=3", methods=("recap", "token_recycling")))
    whole = scripted(tmp_path, methods=("recap", "token_recycling"))
    assert not (whole.folder("recap") / "memory.ckpt").exists()
    run(whole)
    assert same(whole, unbroken)


def test_a_checkpoint_runs_no_code_of_strangers(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/sprung",)

    method = build({"_target_": "recap.Recap"}, "method")
    body = pickle.dumps((1, Trap()))
    (tmp_path / "memory.ckpt").write_bytes(zlib.crc32(body).to_bytes(4, "big") + body)
    assert snapshot.restore(tmp_path, method, most=5) == 0
    assert not (tmp_path / "sprung").exists()


def test_a_damaged_checkpoint_costs_time_only(tmp_path, unbroken):
    run(scripted(tmp_path, "limit=3", methods=("recap", "token_recycling")))
    whole = scripted(tmp_path, methods=("recap", "token_recycling"))
    path = whole.folder("recap") / "memory.ckpt"
    path.write_bytes(path.read_bytes()[:-3] + b"abc")
    run(whole)
    assert same(whole, unbroken)


def test_records_that_decoding_does_not_confirm_end_the_run(tmp_path):
    run(scripted(tmp_path, "limit=3"))
    cell = scripted(tmp_path)
    path = cell.folder("recap") / "records.jsonl"
    (cell.folder("recap") / "memory.ckpt").unlink()
    lines = list(read(path))
    lines[1]["method"]["tokens"][0] ^= 1
    path.write_bytes(b"".join(map(encode, lines)))
    with pytest.raises(ValueError, match=r"input \d \(synthetic-\d+, turn \d\) is decoded otherwise .*rerun=true"):
        run(cell)


def test_a_finished_cell_returns_at_once(unbroken, monkeypatch, capsys):
    monkeypatch.setattr("runners.measure.measure", lambda *_: pytest.fail("nothing is to be measured"))
    assert run(unbroken) == 0
    printed = capsys.readouterr().out
    assert str(unbroken.folder("recap")) in printed and "token_recycling" in printed


def test_a_smaller_limit_reports_what_is_there_and_says_so(unbroken, capsys):
    assert run(replace(unbroken, config=unbroken.config | {"limit": 2})) == 0
    assert f"recap: {ROWS} inputs are there and counted; limit=2 asked for fewer" in capsys.readouterr().out


def test_a_method_that_joins_a_finished_one_is_measured_alone(tmp_path, unbroken, capsys):
    alone = scripted(tmp_path)
    run(alone)
    before = (alone.folder("recap") / "records.jsonl").read_bytes()
    both = scripted(tmp_path, methods=("recap", "token_recycling"))
    run(both)
    assert (both.folder("recap") / "records.jsonl").read_bytes() == before
    assert same(both, unbroken)
    assert "AR ran more than once" in capsys.readouterr().out


def test_rerun_measures_anew_and_sets_the_earlier_run_aside(tmp_path):
    cell = scripted(tmp_path)
    run(cell)
    before = (cell.folder("recap") / "records.jsonl").read_bytes()
    run(scripted(tmp_path, "rerun=true"))
    assert (cell.folder("recap") / "records.jsonl.1").read_bytes() == before
    assert (cell.folder("recap") / "records.jsonl").read_bytes() != before  # other times
    assert len(stored(cell)) == len(load(cell.folder("recap")))


def test_a_restarted_job_continues_the_rerun_that_it_began(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    cell = scripted(tmp_path, "rerun=true")
    run(cell)
    run(cell)
    assert not (cell.folder("recap") / "records.jsonl.1").exists()


def test_resume_continues_a_folder_and_refuses_another_option_by_key(tmp_path, unbroken):
    both = ("recap", "token_recycling")
    cell = scripted(tmp_path / "out", methods=both)

    def work():
        dying_at(9)
        return run(cell)

    assert ended(forked(work)) == KILLED
    elsewhere = tmp_path / "moved"
    cell.folder("recap").parent.rename(elsewhere)
    resume = f"resume={elsewhere / cell.folder('recap').name}"
    with pytest.raises(ValueError, match=r"resume: .* other options: method\.budget=31, there method\.budget=63"):
        run(scripted(tmp_path, resume, "method.budget=31", methods=both))
    with pytest.raises(ValueError, match=r"max_new_tokens=12, there max_new_tokens=24"):
        run(scripted(tmp_path, resume, "max_new_tokens=12", methods=both))
    resumed = scripted(tmp_path, resume, methods=both)
    assert run(resumed) == 0
    assert same(resumed, unbroken)


def test_resume_of_what_is_no_cell_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"resume=.*nothing: not the folder of a cell"):
        run(scripted(tmp_path, f"resume={tmp_path}/nothing"))


def test_twenty_cells_launched_in_one_second_get_twenty_folders(tmp_path):
    cells = [scripted(tmp_path, "limit=1", f"method.budget={budget}") for budget in range(20)]
    for pid in [forked(lambda cell=cell: run(cell)) for cell in cells]:
        assert ended(pid) == 0
    assert len(list(tmp_path.rglob("summary.json"))) == 20


def test_a_changed_byte_is_found_with_file_and_line(tmp_path):
    cell = scripted(tmp_path)
    run(cell)
    path = cell.folder("recap") / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    spot = lines[2].index(b'"tokens": [') + 11
    lines[2] = lines[2][:spot] + (b"9" if lines[2][spot : spot + 1] != b"9" else b"8") + lines[2][spot + 1 :]
    path.write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match=r"records\.jsonl:3: not a whole record \(its checksum is another\)"):
        load(cell.folder("recap"))
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(ValueError, match=r"records\.jsonl: \d+ bytes are missing"):
        load(cell.folder("recap"))


def test_a_line_is_plain_json_and_keeps_its_content():
    line = encode({"a": [1, 2], "b": 'quo"te", "crc": "'})
    assert json.loads(line)["a"] == [1, 2] and len(json.loads(line)["crc"]) == 8
    assert decode(line.rstrip()) == {"a": [1, 2], "b": 'quo"te", "crc": "'}
    with pytest.raises(ValueError, match="no checksum"):
        decode(b'{"a": 1}')


def test_an_unfinished_run_is_not_loaded_as_a_result(tmp_path):
    cell = scripted(tmp_path)

    def work():
        dying_at(5)
        return run(cell)

    ended(forked(work))
    with pytest.raises(ValueError, match=r"the run is not complete \(its status is running\)"):
        load(cell.folder("recap"))
    assert set(load(cell.folder("recap"), partial=True)["index"]) == {0, 1}


@pytest.mark.parametrize("write", [6, 7], ids=["in the inspected", "in the commit"])
def test_traced_steps_and_records_tell_the_same_after_a_kill(tmp_path, write):
    cell = scripted(tmp_path, "trace=true")

    def work():
        dying_at(write)
        return run(cell)

    assert ended(forked(work)) == KILLED
    assert in_fork(cell) == 0
    steps = [(s["row"], s["turn"], s["step"]) for s in read(cell.folder("recap") / "steps.jsonl")]
    expected = [(r["row"], r["turn"], k) for r in stored(cell) for k in range(len(r["method"]["committed"]))]
    assert steps == expected
    inspected = [(line["row"], turn["turn"]) for line in read(cell.folder("recap") / "inspect.jsonl")
                 for turn in line["turns"]]  # fmt: skip
    assert inspected == [(r["row"], r["turn"]) for r in stored(cell)]


def test_the_status_counts_the_starts(tmp_path):
    cell = scripted(tmp_path, "limit=2")
    run(cell)
    run(scripted(tmp_path, "limit=3"))
    found = status(cell)
    assert (found["state"], found["restarts"], found["inputs"]) == ("ok", 1, 3)
    assert [attempt["inputs"] for attempt in found["attempts"]] == [0, 2]
    assert Path("/proc") and found["host"] and found["device"] and found["pid"] == os.getpid()
