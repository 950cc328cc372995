"""The inputs of a run in order: what is recorded stays, the rest is measured, and memories are as if never interrupted.

Every method's folder counts for itself: an input runs with AR and those methods whose folder lacks it. So a method
that joins a finished one catches up alone, and where a kill left one folder an input ahead of another, that is kept.
"""

import gc
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from itertools import islice

import torch

from runners.benches.base import Bench, Row
from runners.contract import digest
from runners.folder import INSPECT, RECORDS, STEPS, Folder
from runners.inspection import inspect_line
from runners.interrupt import Signals
from runners.machine import Machine
from runners.models import Model
from runners.pair import Method, Pairing, RowError, Turn
from runners.peer import TransformersGenerate
from runners.progress import Progress
from runners.ranks import ranks
from runners.records import step_lines
from runners.snapshot import NAME as SNAPSHOT
from runners.snapshot import restore, save
from runners.together import agree

CHECKPOINT_SECONDS = 30.0  # what a kill costs at most, in inputs decoded again untimed
CHECKPOINT_SHARE = 20  # and the time between checkpoints is at least so many times that of writing one
DONE, EXCLUDED, FAILED = "done", "excluded", "failed"


class Stream:
    """checked  indices at which transformers' own `generate` is timed too;  total  inputs to have in the end"""

    def __init__(
        self,
        model: Model,
        pairing: Pairing,
        bench: Bench,
        methods: Mapping[str, Method],
        folders: Mapping[str, Folder],
        total: int,
        checked: Collection[int],
        label: str,
        trace: bool,
        machine: Machine,
    ) -> None:
        self._model, self._pairing, self._bench = model, pairing, bench
        self._methods, self._folders = methods, folders
        self._total, self._checked, self._trace = total, checked, trace
        self._label, self._machine = label, machine
        self._next_checkpoint = time.monotonic() + CHECKPOINT_SECONDS
        self._tallies = {name: _Tally() for name in folders}

    def run(self, signals: Signals) -> None:
        """Measure what is missing. Raises Stopped on a signal, ValueError where decoding differs from the records."""
        behind = [name for name, folder in self._folders.items() if len(folder.inputs) < self._total]
        if not behind:
            return
        first = min(len(self._folders[name].inputs) for name in behind)
        self._progress = Progress(self._label, self._total, first)
        try:
            self._rebuild(behind)
            for name in behind:
                self._tallies[name].add_all(self._folders[name].records())
            for index, row in islice(enumerate(self._bench.rows(self._total)), first, None):
                names = [name for name in behind if len(self._folders[name].inputs) == index]
                turns, outcome, reason = self._decode(index, row, names)
                agree(f"{outcome} {_digest(turns)}")
                with signals.held():
                    self._keep(index, row, names, turns, outcome, reason)
        finally:
            self._progress.close()
        self._leave(behind)

    def _decode(self, index: int, row: Row, names: list[str]) -> tuple[list[Turn], str, str]:
        """Turns, outcome and reason of one input; one that could not be run has no turns and leaves no trace."""
        turns: list[Turn] = []
        outcome, reason, begun = DONE, "", False
        try:
            for turn in self._pairing.row(index, row, index in self._checked, names):
                turns.append(turn)
        except RowError as error:
            outcome, reason, begun = EXCLUDED, str(error), error.begun
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error) or ranks() > 1:  # a rank cannot leave a pass in which the others wait
                raise
            outcome, begun = FAILED, True
            reason = f"bench {self._bench.name}, row {row.id}: out of memory ({_first_line(error)})"
        if outcome != DONE:
            self._progress.note(f"left out: {reason}")
            if turns or begun:  # what it left in the memories goes
                self._free()
                self._rebuild(names)
            turns = []
        return turns, outcome, reason

    def _keep(self, index: int, row: Row, names: list[str], turns: list[Turn], outcome: str, reason: str) -> None:
        """Commit an input to the folders of `names`."""
        entry = {"index": index, "row": row.id, "outcome": outcome, "reason": reason}
        for name in names:
            self._commit(name, row, entry, turns)
        self._checkpoint(names, index + 1, now=outcome == FAILED)
        self._machine.look()
        if self._progress.advance(index + 1, lambda: self._detail(names)):
            for name in names:
                self._folders[name].beat()

    def _commit(self, name: str, row: Row, entry: dict, turns: list[Turn]) -> None:
        stored = [asdict(turn.records[name]) for turn in turns if name in turn.records]
        seen = [turn for turn in turns if turn.outputs.get(name) is not None] if self._trace else []
        lines = {
            RECORDS: stored,
            STEPS: [line for turn in seen for line in step_lines(turn.records[name], turn.outputs[name])],
            INSPECT: [inspect_line(row, seen, name, self._model)] if seen else [],
        }
        own = {
            "refused": [turn.refusals[name] for turn in turns if name in turn.refusals],
            "unpaired": [turn.number for turn in turns if name in turn.unpaired],
            "checks": [asdict(turn.check) for turn in turns if turn.check is not None],
            "memory": self._methods[name].memory(),
        }
        self._folders[name].commit(entry | own, lines)
        self._tallies[name].add_all(stored)

    def _rebuild(self, names: list[str]) -> None:
        """Bring every memory to where its records end: the checkpoint, then the inputs since, decoded again untimed."""
        names = [name for name in names if not isinstance(self._methods[name], TransformersGenerate)]
        at, recorded = {}, {}
        for name in names:
            folder = self._folders[name]
            at[name] = restore(folder.path, self._methods[name], len(folder.inputs))
            if at[name] < len(folder.inputs):
                recorded[name] = {(r["index"], r["turn"]): r for r in folder.records() if r["index"] >= at[name]}
        if not recorded:
            return
        first = min(at[name] for name in recorded)
        last = max(len(self._folders[name].inputs) for name in recorded)
        self._progress.note(f"inputs {first} to {last - 1} are decoded again to rebuild the memories")
        for index, row in islice(enumerate(self._bench.rows(last)), first, None):
            inputs = {name: self._folders[name].inputs[index:] for name in recorded if at[name] <= index}
            redo = [name for name, left in inputs.items() if left and left[0]["outcome"] == DONE]
            for turn in self._pairing.row(index, row, False, redo) if redo else ():
                for name, record in turn.records.items():
                    self._compare(name, recorded[name].get((index, record.turn)), asdict(record))

    def _compare(self, name: str, stored: dict | None, found: dict) -> None:
        keys = ("row", "prompt", "images")
        sides = [(found[side][key], (stored or found)[side][key]) for side in ("ar", "method") for key in
                 ("tokens", "committed")]  # fmt: skip
        if stored is None or any(now != then for now, then in sides) or any(stored[k] != found[k] for k in keys):
            raise ValueError(
                f"{self._folders[name].path}: input {found['index']} ({found['row']}, turn {found['turn']}) is decoded "
                "otherwise than it was recorded; the machine, the software or the data has changed: rerun=true "
                "measures anew"
            )

    def _checkpoint(self, names: list[str], inputs: int, now: bool) -> None:
        started = time.monotonic()
        if not now and started < self._next_checkpoint:
            return
        for name in names:
            if not isinstance(self._methods[name], TransformersGenerate):
                save(self._folders[name].path, self._methods[name], inputs)
        ended = time.monotonic()
        self._next_checkpoint = ended + max(CHECKPOINT_SECONDS, CHECKPOINT_SHARE * (ended - started))

    def _leave(self, names: list[str]) -> None:
        """A larger limit goes on from here; a benchmark that is through needs no checkpoint."""
        if self._total < len(self._bench):
            self._checkpoint(names, self._total, now=True)
        else:
            for name in names:
                (self._folders[name].path / SNAPSHOT).unlink(missing_ok=True)

    def _free(self) -> None:
        self._model.target.reset()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _detail(self, names: list[str]) -> str:
        parts = []
        for name in names:
            size = self._methods[name].memory()
            rows = " ".join(f"{key} {count}" for key, count in size["rows"].items())
            held = f", {rows}, {size['bytes'] / 1e6:.1f} MB" if size["bytes"] else ""
            parts.append(f"{name}: {self._tallies[name]}{held}")
        return "; ".join(parts)


class _Tally:
    """Tokens committed a step so far (pooled), for the eye; the summary derives its own from the records."""

    def __init__(self) -> None:
        self._steps = self._tokens = 0

    def add_all(self, records) -> None:
        for record in records:
            self._steps += len(record["method"]["committed"])
            self._tokens += sum(record["method"]["committed"])

    def __str__(self) -> str:
        return f"tau {self._tokens / self._steps:.2f} (pooled)" if self._steps else "no step yet"


def out_of_memory(error: Exception) -> bool:
    """Whether the machine's or the device's memory was too small for an input."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in ("out of memory", "can't allocate memory"))


def _digest(turns: list[Turn]) -> str:
    """Stands for all that was emitted and committed."""
    sides = [(name, side.tokens, side.committed) for turn in turns for name, record in turn.records.items()
             for side in (record.ar, record.method)]  # fmt: skip
    return digest(repr(sides).encode())


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
