"""What a run leaves behind: records.jsonl (one line a request), steps.jsonl, summary.json, status.json, config.yaml.

Integers are stored; every ratio is derived in analysis/. Records are written under a temporary name and get their own
when the cell is complete, so a killed run leaves nothing that could be counted.
"""

import json
import os
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from recap.types import SOURCES, Draft, Output, Request
from runners.clock import Timing
from runners.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Side:
    """One decoding of one request.

    tokens     emitted ids
    nodes, agreed, accepted, committed   a number a step: drafted nodes, nodes that agreed before the cut, accepted
               nodes after it, emitted tokens
    sources    source bits of every accepted node, step by step, depth by depth
    drafted    drafted nodes by the value of their source bits, 16 numbers
    depths     drafted nodes at depth 1, 2, ...
    place      position in the rotation: 0 ran first
    phases_ns  nanoseconds by phase, from the marks inside the window
    window_ns  the window by the host's clock; the phases add up to it but for what the marks themselves miss
    verify_ns  nanoseconds of every verification pass, a number a step
    score      quality in [0, 1], None without a reference
    """

    tokens: list[int]
    nodes: list[int]
    agreed: list[int]
    accepted: list[int]
    committed: list[int]
    sources: list[int]
    drafted: list[int]
    depths: list[int]
    place: int
    phases_ns: dict[str, int]
    window_ns: int
    verify_ns: list[int]
    score: float | None = None

    @staticmethod
    def of(output: Output, place: int, timing: Timing) -> "Side":
        """The record of an output."""
        steps = output.steps
        assert len(timing.verify_ns) == len(steps), "a step is one verification pass"
        return Side(
            tokens=output.tokens.tolist(),
            nodes=[len(step.draft) for step in steps],
            agreed=[step.agreed for step in steps],
            accepted=[len(step.path) for step in steps],
            committed=[len(step.committed) for step in steps],
            sources=[int(bits) for step in steps for bits in step.draft.sources[step.path]],
            drafted=sources_of([step.draft for step in steps]),
            depths=depths_of([step.draft for step in steps]),
            place=place,
            phases_ns=timing.phases_ns,
            window_ns=timing.window_ns,
            verify_ns=timing.verify_ns,
        )

    @staticmethod
    def of_peer(tokens: list[int], committed: list[int], place: int, timing: Timing) -> "Side":
        """The record of an outside peer, whose drafts are not seen: no nodes, no sources."""
        accepted = [emitted - 1 for emitted in committed]
        timed = timing.phases_ns, timing.window_ns, timing.verify_ns
        return Side(tokens, [], accepted, accepted, committed, [], [], [], place, *timed)


@dataclass(frozen=True, slots=True)
class Record:
    """One request, decoded by AR and by a method back to back."""

    index: int
    row: str
    turn: int
    category: str
    contract: str
    prompt: str
    images: str
    prompt_tokens: int
    visual_tokens: int
    verdict: Verdict
    ar: Side
    method: Side


class Folder:
    """The folder of one cell. An earlier run's files stay until this run is complete."""

    def __init__(self, path: Path, trace: bool) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"out: {path} cannot be made ({error.strerror}); choose another folder with out="
            ) from None
        self._records = (path / "records.jsonl.part").open("w")
        self._steps = (path / "steps.jsonl.part").open("w") if trace else None

    def add(self, record: Record, output: Output | None) -> None:
        """Append one request's record, and its steps when traced; a peer has no output to trace."""
        self._records.write(json.dumps(asdict(record)) + "\n")
        self._records.flush()
        if self._steps is not None and output is not None:
            for line in _step_lines(record, output):
                self._steps.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """All requests are in: the files get their names, and what an earlier run left beside them goes."""
        (self.path / "steps.jsonl").unlink(missing_ok=True)
        for file in (self._records, self._steps):
            if file is not None:
                file.close()
                os.replace(file.name, file.name.removesuffix(".part"))

    def write(self, name: str, content: dict | str) -> None:
        """Write a small file whole or not at all."""
        text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
        part = self.path / f"{name}.part"
        part.write_text(text)
        os.replace(part, self.path / name)

    def status(self, state: str, error: str = "") -> None:
        """state: 'running', 'ok' or 'failed'."""
        content = {"state": state, "error": error, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        self.write("status.json", content | {"host": platform.node(), "pid": os.getpid()})


def sources_of(drafts: Sequence[Draft]) -> list[int]:
    """How many nodes of these drafts carry each value of the source bits."""
    bits = np.concatenate([np.empty(0, np.int8), *(draft.sources for draft in drafts)])
    return np.bincount(bits, minlength=2 * max(SOURCES.values())).tolist()


def depths_of(drafts: Sequence[Draft]) -> list[int]:
    """How many nodes of these drafts stand at depth 1, 2, ...; climbs from all nodes at once, a level at a time."""
    starts = np.cumsum([0, *(len(draft) for draft in drafts)])
    parents = [
        np.where(draft.parents < 0, -1, draft.parents + start) for draft, start in zip(drafts, starts, strict=False)
    ]
    parents = np.concatenate([np.empty(0, np.int64), *parents])
    at_least, above = [], np.arange(len(parents))  # nodes that are still below the root
    while len(above):
        at_least.append(len(above))
        above = parents[above]
        above = above[above >= 0]
    return (-np.diff([*at_least, 0])).tolist()


def visual_tokens(request: Request) -> int:
    """Prompt ids that stand for image features."""
    return int((request.masked() < 0).sum())


def _step_lines(record: Record, output: Output) -> Iterable[dict]:
    for number, step in enumerate(output.steps):
        yield {
            "row": record.row,
            "turn": record.turn,
            "step": number,
            "tokens": step.draft.tokens.tolist(),
            "parents": step.draft.parents.tolist(),
            "sources": step.draft.sources.tolist(),
            "path": step.path.tolist(),
            "committed": step.committed.tolist(),
        }
