"""What else the machine did: other processes' work, slowed clocks; unknown where the system does not tell."""

import subprocess
import sys
import time

import pytest
import torch

from runners.machine import Machine, busy_seconds, clock_event_reasons, own_seconds, watch

STAT = "cpu  100 20 30 4000 500 6 7 8 90 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
TICKS = 100  # a second, as Linux has it


class Day:
    """A machine whose busy seconds and clock reasons are told in turn."""

    def __init__(self, busy=(), reasons=()) -> None:
        self.busy_answers, self.reason_answers, self.asked = list(busy), list(reasons), 0

    def busy(self):
        return self.busy_answers.pop(0)

    def reasons(self):
        self.asked += 1
        return self.reason_answers.pop(0)


def test_busy_time_leaves_out_idling_waiting_and_guests_counted_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: TICKS)
    (tmp_path / "stat").write_text(STAT)
    assert busy_seconds(tmp_path / "stat") == (100 + 20 + 30 + 6 + 7 + 8) / TICKS


@pytest.mark.parametrize("text", [None, "", "cpu  0 0 0 0 0 0 0 0 0 0\n", "intr 5\n", "cpu  many\n"])
def test_a_system_that_does_not_tell_is_unknown(tmp_path, text):
    if text is not None:
        (tmp_path / "stat").write_text(text)
    assert busy_seconds(tmp_path / "stat") is None


def test_unknown_is_reported_as_none_not_as_quiet():
    report = Machine(Day(reasons=[None]).reasons, lambda: None).report()
    assert report["other_work"] is None and report["throttled"] is None


def test_our_own_work_is_not_other_work():
    start = own_seconds()
    it = Machine(lambda: None, lambda: own_seconds() - start)
    while own_seconds() - start < 0.1:
        pass
    assert it.report()["other_work"] == pytest.approx(0, abs=0.2)


def test_other_processes_are_counted_in_cores():
    it = Machine(lambda: None, lambda: own_seconds() + 1.5 * time.monotonic())
    time.sleep(0.1)
    assert it.report()["other_work"] == pytest.approx(1.5, rel=0.1)


@pytest.mark.skipif(busy_seconds() is None, reason="this system does not tell how busy it is")
def test_a_real_process_beside_us_is_seen():
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        it = Machine(lambda: None, busy_seconds)
        time.sleep(1)
        assert it.report()["other_work"] > 0.15
    finally:
        other.kill()
        other.wait()


def test_slowed_clocks_are_named_however_short_they_lasted(monkeypatch):
    monkeypatch.setattr("runners.machine.EVERY_S", 0)
    day = Day(busy=[None, None], reasons=[0x1, 0x4 | 0x80, 0x0])
    it = Machine(day.reasons, day.busy)
    for _ in range(3):
        it.look()
    assert it.report()["throttled"] == ["power cap", "power brake"]


def test_an_idle_device_is_not_slowed():
    it = Machine(lambda: 0x1 | 0x2, lambda: None)
    it.look()
    assert it.report()["throttled"] == []


def test_the_device_is_not_asked_all_the_time():
    day = Day(busy=[None], reasons=[0, 0])
    it = Machine(day.reasons, day.busy)
    for _ in range(5):
        it.look()
    assert day.asked == 1


def nvidia_smi(folder, monkeypatch, body: str) -> None:
    """A program of that name, first on the path."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_the_driver_is_asked_for_this_device_and_its_bits_are_read(tmp_path, monkeypatch):
    nvidia_smi(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/asked; echo 0x0000000000000044')
    assert clock_event_reasons("GPU-1") == 0x44
    assert "--id=GPU-1 --query-gpu=clocks_event_reasons.active" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("body", ["echo '[N/A]'", "echo 'Field is not a valid field to query.'; exit 2", "exit 9"])
def test_a_driver_that_does_not_tell_is_unknown(tmp_path, monkeypatch, body):
    nvidia_smi(tmp_path, monkeypatch, body)
    assert clock_event_reasons("GPU-1") is None


def test_a_machine_without_the_drivers_program_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clock_event_reasons("GPU-1") is None


def test_a_cpu_has_no_clocks_to_ask_for():
    it = watch(torch.device("cpu"))
    it.look()
    assert it.report()["throttled"] is None
