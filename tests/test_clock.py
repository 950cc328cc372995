"""The window's time is charged to the phase it was spent in, and the window is measured beside the phases."""

import time

from runners.clock import PHASES, DeviceClock, HostClock


def test_host_phases_add_up_to_the_window():
    clock = HostClock()
    before = time.perf_counter_ns()
    clock.start()
    for phase in ("vision", "prefill", "draft", "verify", "draft", "verify"):
        time.sleep(0.002)
        clock(phase)
    timing = clock.stop()
    spent = time.perf_counter_ns() - before
    assert set(timing.phases_ns) == set(PHASES)
    assert 12e6 <= sum(timing.phases_ns.values()) <= timing.window_ns <= spent


def test_a_phase_marked_twice_holds_both_times():
    clock = HostClock()
    clock.start()
    for _ in range(2):
        time.sleep(0.01)
        clock("draft")
    assert clock.stop().phases_ns["draft"] >= 20e6


def test_a_second_window_forgets_the_first():
    clock = HostClock()
    clock.start()
    time.sleep(0.01)
    clock("draft")
    clock.stop()
    clock.start()
    assert clock.stop().phases_ns["draft"] == 0


def test_every_pass_has_its_own_time_in_order():
    clock = HostClock()
    clock.start()
    for milliseconds in (2, 12):
        clock("draft")
        time.sleep(milliseconds / 1e3)
        clock("verify")
    timing = clock.stop()
    assert sum(timing.verify_ns) == timing.phases_ns["verify"]
    assert [ns >= ms * 1e6 for ns, ms in zip(timing.verify_ns, (2, 12), strict=True)] == [True, True]


class FakeDevice:
    """A device whose queue runs behind the host: work is put in, takes its time later, and is waited for."""

    def __init__(self) -> None:
        self.now_ms = self.done_ms = 0.0
        self.waits = self.events = 0

    def enqueue(self, milliseconds: float) -> None:
        self.now_ms += milliseconds

    def synchronize(self) -> None:
        self.waits += 1
        time.sleep((self.now_ms - self.done_ms) / 1e3)
        self.done_ms = self.now_ms

    def event(self) -> "FakeEvent":
        self.events += 1
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
    timing = clock.stop()
    assert timing.phases_ns["verify"] == 50_000_000
    assert sum(timing.phases_ns.values()) == 50_000_000
    assert timing.verify_ns == [50_000_000]


def test_the_window_holds_an_operation_that_the_host_did_not_wait_for():
    device = FakeDevice()
    clock = DeviceClock(device.event, device.synchronize)
    clock.start()
    device.enqueue(50)
    clock("verify")
    assert clock.stop().window_ns >= 50_000_000


def test_work_queued_before_the_window_is_not_in_it():
    device = FakeDevice()
    clock = DeviceClock(device.event, device.synchronize)
    device.enqueue(50)
    clock.start()
    assert device.done_ms == 50
    assert sum(clock.stop().phases_ns.values()) == 0


def test_host_work_that_no_event_saw_is_seen_as_phases_that_do_not_add_up():
    device = FakeDevice()  # whose events stand still while the host sleeps
    clock = DeviceClock(device.event, device.synchronize)
    clock.start()
    time.sleep(0.02)
    timing = clock.stop()
    assert timing.window_ns >= 20_000_000 > sum(timing.phases_ns.values())


def test_the_device_is_waited_for_only_before_and_after_the_window():
    device = FakeDevice()
    clock = DeviceClock(device.event, device.synchronize)
    clock.start()
    for _ in range(10):
        clock("verify")
    clock.stop()
    assert device.waits == 2


def test_events_are_made_once_and_serve_every_window():
    device = FakeDevice()
    clock = DeviceClock(device.event, device.synchronize)
    for verify_ms in (5, 3):
        clock.start()
        device.enqueue(verify_ms)
        clock("verify")
        assert clock.stop().verify_ns == [verify_ms * 1_000_000]
    assert device.events == 3  # the start, the pass and the end
