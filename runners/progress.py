"""How far a run is: a bar on a terminal, one line a minute elsewhere, such as in a SLURM log."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from tqdm import tqdm

INTERVAL = 60.0  # seconds between lines


class Progress:
    """label  what runs;  total, done  inputs in all, and already there"""

    def __init__(
        self,
        label: str,
        total: int,
        done: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label, self._total, self._done, self._first = label, total, done, done
        self._stream, self._clock = stream or sys.stderr, clock
        self._started = self._last = clock()
        self._bar = None
        if self._stream.isatty():
            self._bar = tqdm(total=total, initial=done, desc=label, unit="input", file=self._stream)
        elif done < total:
            self.note(f"{done}/{total} inputs are there" if done else f"{total} inputs to measure")

    def advance(self, done: int, detail: Callable[[], str]) -> bool:
        """`done` inputs are there; whether a minute has passed, or all are there. `detail` tells how it goes."""
        self._done = done
        now = self._clock()
        due = now - self._last >= INTERVAL or done == self._total
        if due:
            self._last = now
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
            if due:
                self._bar.set_postfix_str(detail())
        elif due:
            self.note(f"{done}/{self._total} inputs, {self._speed(now)}, {detail()}")
        return due

    def note(self, text: str) -> None:
        """One line of its own."""
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(f"{time.strftime('%H:%M:%S')} {self._label}: {text}", file=self._stream, flush=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.close()

    def _speed(self, now: float) -> str:
        measured, seconds = self._done - self._first, now - self._started
        if not measured or seconds <= 0:
            return "no speed yet"
        left = (self._total - self._done) * seconds / measured
        return f"{seconds / measured:.2f} s/input, {left / 60:.0f} min left"
