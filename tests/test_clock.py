"""The window's time is charged to the phase it was spent in."""

import time

from runners.clock import PHASES, DeviceClock, HostClock


def test_host_phases_add_up_to_the_window():
    clock = HostClock()
    before = time.perf_counter_ns()
    clock.start()
    for phase in ("vision", "prefill", "draft", "verify", "draft", "verify"):
        time.sleep(0.002)
        clock(phase)
    phases = clock.stop()
    spent = time.perf_counter_ns() - before
    assert set(phases) == set(PHASES)
    assert 0.95 * spent < sum(phases.values()) <= spent


def test_a_phase_marked_twice_holds_both_times():
    clock = HostClock()
    clock.start()
    for _ in range(2):
        time.sleep(0.01)
        clock("draft")
    assert clock.stop()["draft"] >= 20e6


def test_a_second_window_forgets_the_first():
    clock = HostClock()
    clock.start()
    time.sleep(0.01)
    clock("draft")
    clock.stop()
    clock.start()
    assert clock.stop()["draft"] == 0


class FakeDevice:
    """A device whose queue runs behind the host: work is put in, and takes its time later."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.waits = 0

    def enqueue(self, milliseconds: float) -> None:
        self.now_ms += milliseconds

    def synchronize(self) -> None:
        self.waits += 1

    def event(self) -> "FakeEvent":
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, device: FakeDevice) -> None:
        self._device = device

    def record(self) -> None:
        self.at = self._device.now_ms

    def elapsed_time(self, later: "FakeEvent") -> float:
        return later.at - self.at


def test_an_asynchronous_operation_of_50_ms_is_seen_in_its_own_phase():
    device = FakeDevice()
    clock = DeviceClock(device.event, device.synchronize)
    clock.start()
    clock("draft")
    device.enqueue(50)  # returns at once, as a kernel launch does
    clock("verify")
    clock("observe")
    phases = clock.stop()
    assert phases["verify"] == 50_000_000
    assert sum(phases.values()) == 50_000_000


def test_the_device_is_waited_for_only_before_and_after_the_window():
    device = FakeDevice()
    clock = DeviceClock(device.event, device.synchronize)
    clock.start()
    for _ in range(10):
        clock("verify")
    clock.stop()
    assert device.waits == 2
