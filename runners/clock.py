"""Where the time of one request goes.

The device is synchronised before and after the window only. Inside it every phase ends with a mark: the host's clock
on a CPU, an event on a device, read once at the end. The window is measured beside the marks, by the host's clock, so
that phases which do not add up to it are seen.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch

PHASES = ("vision", "prefill", "draft", "verify", "commit", "observe", "other")


@dataclass(frozen=True, slots=True)
class Timing:
    """What one window took, in nanoseconds.

    phases_ns  by phase, from the marks
    window_ns  the synchronised window, by the host's clock
    verify_ns  every verification pass, in order
    """

    phases_ns: dict[str, int]
    window_ns: int
    verify_ns: list[int]


class Clock(ABC):
    """Charges the time between marks to phases. A subclass says what a mark is."""

    def start(self) -> None:
        """Open the window."""
        self._phases: list[str] = []
        self._marks: list = []
        self._synchronize()
        self._started = time.perf_counter_ns()
        self._marks.append(self._mark())

    def __call__(self, phase: str) -> None:
        """Charge the time since the last mark to `phase`."""
        self._marks.append(self._mark())
        self._phases.append(phase)

    def stop(self) -> Timing:
        """Close the window and read its marks."""
        self("other")
        self._synchronize()
        window = time.perf_counter_ns() - self._started
        spent = [self._between(*pair) for pair in zip(self._marks, self._marks[1:], strict=False)]
        phases = dict.fromkeys(PHASES, 0)
        for phase, ns in zip(self._phases, spent, strict=True):
            phases[phase] += ns
        verify = [ns for phase, ns in zip(self._phases, spent, strict=True) if phase == "verify"]
        return Timing(phases, window, verify)

    @abstractmethod
    def _mark(self):
        """A point in time."""

    @abstractmethod
    def _between(self, first, second) -> int:
        """Nanoseconds from one mark to a later one."""

    @abstractmethod
    def _synchronize(self) -> None:
        """Wait until the device has nothing left to do."""


class HostClock(Clock):
    """Marks by the host's clock."""

    _mark = staticmethod(time.perf_counter_ns)

    def _synchronize(self) -> None:
        """What the host was asked is done."""

    def _between(self, first: int, second: int) -> int:
        return second - first


class DeviceClock(Clock):
    """Marks by events in the device's own queue, so that an asynchronous operation is charged where it ran.

    `new_event` makes a timing event, `synchronize` waits for the device. Events serve every window anew, so that a mark
    costs no more than its record.
    """

    def __init__(self, new_event: Callable, synchronize: Callable[[], None]) -> None:
        self._new_event = new_event
        self._wait = synchronize
        self._events: list = []

    def _mark(self):
        if len(self._marks) == len(self._events):
            self._events.append(self._new_event())
        event = self._events[len(self._marks)]
        event.record()
        return event

    def _between(self, first, second) -> int:
        return round(first.elapsed_time(second) * 1e6)

    def _synchronize(self) -> None:
        self._wait()


def clock_for(device: torch.device) -> Clock:
    """The clock of a device."""
    if device.type == "cuda":
        return DeviceClock(lambda: torch.cuda.Event(enable_timing=True), torch.cuda.synchronize)
    return HostClock()
