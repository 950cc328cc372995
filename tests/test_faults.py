"""What goes wrong on a cluster: two processes on one cell, signals, no memory, no disk."""

import errno
import io
import json
import os
import signal
import threading
import time

import pytest
import torch

from analysis.lines import committed
from runners import lock, stream
from runners.benches.synthetic import Synthetic
from runners.cell import run
from runners.interrupt import Signals, Stopped
from runners.measure import WARM_UP_ROWS
from runners.progress import Progress
from tests.scripted_cell import ROWS, Forgiving, ended, forked, in_fork, scripted, stored
from tests.test_durable import same, status


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    cell = scripted(tmp_path_factory.mktemp("unbroken"))
    assert in_fork(cell) == 0
    return cell


def held(folder, seconds: float) -> int:
    """A process that holds a folder's lock for so long; returned when it does."""
    folder.mkdir(parents=True)

    def work():
        with lock.hold([folder]):
            time.sleep(seconds)

    pid = forked(work)
    deadline = time.monotonic() + 30
    while lock.holder(folder) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return pid


def test_a_second_process_on_a_cell_is_refused_at_once_naming_the_first(tmp_path):
    cell = scripted(tmp_path)
    pid = held(cell.folder("recap"), 60)
    started = time.monotonic()
    with pytest.raises(ValueError, match=rf"is being measured by .*, pid {pid}, since"):
        run(cell)
    assert time.monotonic() - started < 10
    os.kill(pid, signal.SIGKILL)
    ended(pid)
    assert run(cell) == 0  # the lock died with its holder


def test_a_restarted_job_waits_for_its_dying_predecessor(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    cell = scripted(tmp_path)
    pid = held(cell.folder("recap"), 1.0)
    assert run(cell) == 0
    assert ended(pid) == 0


def test_and_fails_naming_it_when_it_does_not_die(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert lock.patience() == 90
    monkeypatch.setattr(lock, "PATIENCE", 0.6)
    cell = scripted(tmp_path)
    pid = held(cell.folder("recap"), 60)
    with pytest.raises(ValueError, match=rf"pid {pid}"):
        run(cell)
    os.kill(pid, signal.SIGKILL)
    ended(pid)


def slow_from(row: int):
    """A benchmark whose inputs take for ever from one on."""
    original = Synthetic.score

    def score(self, line, turn, answer):
        if self.part == "scored" and line.id >= f"synthetic-{row:06d}":
            time.sleep(60)
        return original(self, line, turn, answer)

    return score


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR2])
def test_a_signal_ends_a_run_in_order_and_the_same_command_continues_it(tmp_path, unbroken, signum):
    cell = scripted(tmp_path)

    def work():
        Synthetic.score = slow_from(3)
        return run(cell)

    pid = forked(work)
    deadline = time.monotonic() + 60
    while len(committed(cell.folder("recap"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    sent = time.monotonic()
    os.kill(pid, signum)
    assert ended(pid) == 128 + signum
    assert time.monotonic() - sent < 5
    found = status(cell)
    assert (found["state"], found["inputs"]) == ("failed", 3)
    assert f"stopped by {signal.Signals(signum).name}; the same command continues it" in found["error"]
    assert in_fork(cell) == 0
    assert same(cell, unbroken)


def test_a_launchers_own_handler_gets_the_signal_afterwards():
    seen = []
    before = signal.signal(signal.SIGUSR2, lambda signum, _: seen.append(signum))
    try:
        with pytest.raises(Stopped) as stopped, Signals():
            os.kill(os.getpid(), signal.SIGUSR2)
            time.sleep(1)
        assert not seen
        stopped.value.hand_on()
        assert seen == [signal.SIGUSR2]
        assert callable(signal.getsignal(signal.SIGUSR2))
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_outside_the_main_thread_signals_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work():
        with Signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    MemoryError(),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["torch", "python", "cuda", "cpu"])
def test_out_of_memory_fails_one_input_on_both_sides_and_leaves_no_trace(tmp_path, monkeypatch, error):
    monkeypatch.setattr(stream, "CHECKPOINT_SECONDS", 0.0)
    calm, cell = scripted(tmp_path / "calm"), scripted(tmp_path / "short")
    verify, errors = Forgiving.verify, [error]

    def failing(self, root, draft, top_k):
        scored = self.begun > 2 * WARM_UP_ROWS + 6  # past the warm-up and the first inputs
        if scored and len(draft) and errors:
            raise errors.pop()
        return verify(self, root, draft, top_k)

    prefill = Forgiving.prefill

    def counting(self, *arguments):
        self.begun = getattr(self, "begun", 0) + 1
        return prefill(self, *arguments)

    run(calm)
    monkeypatch.setattr(Forgiving, "verify", failing)
    monkeypatch.setattr(Forgiving, "prefill", counting)
    assert run(cell) == 0
    summary = json.loads((cell.folder("recap") / "summary.json").read_text())
    assert len(summary["failed"]) == 1 and "out of memory" in summary["failed"][0]
    assert "1 inputs failed on both sides: out of memory" in summary["alarms"]
    (gone,) = {r["index"] for r in stored(calm)} - {r["index"] for r in stored(cell)}
    assert 0 < gone < ROWS - 1
    again = scripted(tmp_path / "again")  # a stream that never had that input
    monkeypatch.undo()
    rows = Synthetic.rows
    monkeypatch.setattr(
        Synthetic, "rows", lambda self, limit=None: (
            row for k, row in enumerate(rows(self, limit)) if k != gone or self.part != "scored"
        )
    )  # fmt: skip
    run(again)
    tokens = [[(r["row"], r["method"]["tokens"], r["method"]["committed"]) for r in stored(c)] for c in (cell, again)]
    assert tokens[0] == tokens[1]


def test_other_errors_of_torch_end_the_run():
    assert not stream.out_of_memory(RuntimeError("shapes do not match"))


def test_a_full_disk_ends_the_run_with_one_clear_error_and_is_continued(tmp_path, monkeypatch, unbroken):
    cell = scripted(tmp_path)
    original, room = os.write, 3000

    def write(file: int, data) -> int:
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = original(file, bytes(data)[:room])
        room -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(ValueError, match=r"out: no space left for .* run the same command again"):
        run(cell)
    monkeypatch.undo()
    assert 0 < len(committed(cell.folder("recap"))) < ROWS
    assert run(cell) == 0
    assert same(cell, unbroken)


def test_a_log_gets_one_line_a_minute_with_what_a_reader_asks():
    log, now = io.StringIO(), [0.0]
    progress = Progress("qwen on chartqa", 100, 10, log, lambda: now[0])
    for done in range(11, 101):
        now[0] += 20
        progress.advance(done, lambda: "recap: tau 3.10 (pooled), M1 5 M2 6 M3 7")
    lines = [line.split(" ", 1)[1] for line in log.getvalue().splitlines()]
    assert len(lines) == 1 + 90 // 3
    assert lines[0] == "qwen on chartqa: 10/100 inputs are there"
    assert lines[1] == (
        "qwen on chartqa: 13/100 inputs, 20.00 s/input, 29 min left, recap: tau 3.10 (pooled), M1 5 M2 6 M3 7"
    )
    assert "\r" not in log.getvalue()


def test_the_summary_tells_how_the_memory_grew(unbroken):
    memory = json.loads((unbroken.folder("recap") / "summary.json").read_text())["memory"]
    assert [point["inputs"] for point in memory["growth"]] == list(range(1, ROWS + 1))
    assert memory["growth"][-1]["rows"] == memory["rows"]


def test_starts_on_two_kinds_of_machine_are_an_alarm(tmp_path, monkeypatch):
    run(scripted(tmp_path, "limit=3"))
    monkeypatch.setattr("runners.measure._device_name", lambda _: "another processor")
    cell = scripted(tmp_path)
    run(cell)
    alarms = json.loads((cell.folder("recap") / "summary.json").read_text())["alarms"]
    assert any(alarm.startswith("measured with more than one device: ") for alarm in alarms)
