"""Where the time of one request goes.

The device is synchronised before and after the window only. Inside it every phase ends with a mark: the host's clock
on a CPU, an event on a device, read once at the end.
"""

import time
from collections.abc import Callable

import torch

PHASES = ("vision", "prefill", "draft", "verify", "commit", "observe", "other")


class HostClock:
    """Marks by the host's clock."""

    def start(self) -> None:
        """Open the window."""
        self._marks: list[tuple[str, int]] = []
        self._started = time.perf_counter_ns()

    def __call__(self, phase: str) -> None:
        """Charge the time since the last mark to `phase`."""
        self._marks.append((phase, time.perf_counter_ns()))

    def stop(self) -> dict[str, int]:
        """Close the window; nanoseconds by phase, which add up to the window."""
        self("other")
        phases = dict.fromkeys(PHASES, 0)
        last = self._started
        for phase, now in self._marks:
            phases[phase] += now - last
            last = now
        return phases


class DeviceClock:
    """Marks by events in the device's own queue, so that an asynchronous operation is charged where it ran.

    `new_event` makes a timing event, `synchronize` waits for the device.
    """

    def __init__(self, new_event: Callable, synchronize: Callable[[], None]) -> None:
        self._new_event = new_event
        self._synchronize = synchronize

    def start(self) -> None:
        """Open the window."""
        self._synchronize()
        self._marks: list[tuple[str, object]] = []
        self("start")

    def __call__(self, phase: str) -> None:
        """Charge the time since the last mark to `phase`."""
        event = self._new_event()
        event.record()
        self._marks.append((phase, event))

    def stop(self) -> dict[str, int]:
        """Close the window; nanoseconds by phase, which add up to the window."""
        self("other")
        self._synchronize()
        phases = dict.fromkeys(PHASES, 0)
        for (_, last), (phase, now) in zip(self._marks, self._marks[1:], strict=False):
            phases[phase] += round(last.elapsed_time(now) * 1e6)
        return phases


def clock_for(device: torch.device) -> HostClock | DeviceClock:
    """The clock of a device."""
    if device.type == "cuda":
        return DeviceClock(lambda: torch.cuda.Event(enable_timing=True), torch.cuda.synchronize)
    return HostClock()
