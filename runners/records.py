"""What a run records of a request: a line of records.jsonl and, when traced, one of steps.jsonl a step.

Integers are stored; every ratio is derived in analysis/.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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


def step_lines(record: Record, output: Output) -> Iterable[dict]:
    """What every step of a request drafted, accepted and committed."""
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
