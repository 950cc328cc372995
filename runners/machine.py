"""What else kept the machine busy during a run, and whether the device slowed its clocks. None where unknown."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import torch

from runners.together import on_this_host

EVERY_S = 10  # between two looks at the device
PROC_STAT = Path("/proc/stat")
BUSY = slice(0, 3), slice(5, 8)  # user, nice, system; irq, softirq, steal (other guests of the host)
SLOWED = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}  # bits of NVML's clocks event reasons that mean less speed than asked for


class Machine:
    """Watches from its making to `report`.

    reasons    the device's clock event reasons as bits, None where it does not tell
    busy       processor seconds that the whole machine has spent since its start, None where unknown
    """

    def __init__(self, reasons: Callable[[], int | None], busy: Callable[[], float | None]) -> None:
        self._reasons, self._read_busy = reasons, busy
        self._seen: int | None = None
        self._looked = -float("inf")
        self._started, self._busy, self._own = time.monotonic(), busy(), own_seconds()

    def look(self) -> None:
        """Called between inputs, outside every window: ask the device, but not all the time."""
        if time.monotonic() - self._looked < EVERY_S:
            return
        bits = self._reasons()
        if bits is not None:
            self._seen = bits | (self._seen or 0)
        self._looked = time.monotonic()

    def report(self) -> dict:
        """cores; other_work: cores that other processes kept busy on average; throttled: reasons, named."""
        wall = time.monotonic() - self._started
        own = on_this_host(own_seconds() - self._own)
        busy, others = self._read_busy(), None
        if busy is not None and self._busy is not None and wall > 0:
            others = max(0.0, (busy - self._busy) - own) / wall
        slowed = None if self._seen is None else [name for bit, name in SLOWED.items() if self._seen & bit]
        return {"cores": os.cpu_count(), "other_work": others, "throttled": slowed}


def watch(device: torch.device) -> Machine:
    """Watch this machine and this device from now on."""
    if device.type != "cuda":
        return Machine(lambda: None, busy_seconds)
    uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    return Machine(lambda: clock_event_reasons(uuid), busy_seconds)


def own_seconds() -> float:
    """Processor seconds of this process and the children it waited for."""
    return sum(os.times()[:4])


def busy_seconds(stat: Path = PROC_STAT) -> float | None:
    """Processor seconds that the machine has spent working since its start; None where the system does not tell."""
    try:
        name, *ticks = stat.read_text().splitlines()[0].split()
        values = [int(value) for value in ticks]
    except (OSError, IndexError, ValueError):
        return None
    spent = sum(sum(values[part]) for part in BUSY)
    return spent / os.sysconf("SC_CLK_TCK") if name == "cpu" and spent else None


def clock_event_reasons(uuid: str) -> int | None:
    """Why an NVIDIA device's clocks are where they are, as bits; None where nvidia-smi does not tell."""
    command = ["nvidia-smi", f"--id={uuid}", "--query-gpu=clocks_event_reasons.active", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
        return int(answer.strip(), 16)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
