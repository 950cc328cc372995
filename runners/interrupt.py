"""SIGTERM and SIGUSR2 (what clusters send before they take a node away) end a run in order.

The input that is being decoded is dropped: what it would have left is measured again when the run is continued.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runners.ranks import leads

STOPPING = (signal.SIGTERM, signal.SIGUSR2)


class Stopped(BaseException):
    """A signal ended the run. `code` is the exit code that says so: 143 for SIGTERM, 140 for SIGUSR2."""

    def __init__(self, signum: int, before: object) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}; the same command continues it")
        self._signum, self._before = signum, before
        self.code = 128 + signum

    def hand_on(self) -> None:
        """Call the handler that was there before ours, such as a launcher's that requeues the job."""
        if callable(self._before):
            self._before(self._signum, None)


class Signals:
    """While entered, the first stopping signal raises Stopped, and later ones do nothing: it is being ended."""

    def __enter__(self) -> "Signals":
        self._stopped: Stopped | None = None
        self._held = False
        self._before = {}
        # another rank than the first has nothing to save, and could not come out of a pass that waits for the first
        if leads() and threading.current_thread() is threading.main_thread():
            self._before = {signum: signal.signal(signum, self._stop) for signum in STOPPING}
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """For a moment, such as a commit's, a signal waits; then it ends the run."""
        self._held = True
        yield
        self._held = False
        if self._stopped is not None:
            raise self._stopped

    def _stop(self, signum: int, _frame: FrameType | None) -> None:
        if self._stopped is None:
            self._stopped = Stopped(signum, self._before[signum])
            if not self._held:
                raise self._stopped
