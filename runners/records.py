"""What a run records of a request: a line of records.jsonl and, when traced, one of steps.jsonl a step.

Integers are stored; every ratio is derived in analysis/.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from recap.types import Output, Request
from runners.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Side:
    """One decoding of one request.

    tokens     emitted ids
    nodes, agreed, accepted, committed   a number a step: drafted nodes, nodes that agreed before the cut, accepted
               nodes after it, emitted tokens
    sources    source bits of every accepted node, step by step, depth by depth
    place      position in the rotation: 0 ran first
    phases_ns  nanoseconds by phase; their sum is the window
    score      quality in [0, 1], None without a reference
    """

    tokens: list[int]
    nodes: list[int]
    agreed: list[int]
    accepted: list[int]
    committed: list[int]
    sources: list[int]
    place: int
    phases_ns: dict[str, int]
    score: float | None = None

    @staticmethod
    def of(output: Output, place: int, phases_ns: dict[str, int]) -> "Side":
        """The record of an output."""
        steps = output.steps
        return Side(
            tokens=output.tokens.tolist(),
            nodes=[len(step.draft) for step in steps],
            agreed=[step.agreed for step in steps],
            accepted=[len(step.path) for step in steps],
            committed=[len(step.committed) for step in steps],
            sources=[int(bits) for step in steps for bits in step.draft.sources[step.path]],
            place=place,
            phases_ns=phases_ns,
        )

    @staticmethod
    def of_peer(tokens: list[int], committed: list[int], place: int, phases_ns: dict[str, int]) -> "Side":
        """The record of an outside peer, whose drafts are not seen: no nodes, no sources."""
        accepted = [emitted - 1 for emitted in committed]
        return Side(tokens, [], accepted, accepted, committed, [], place, phases_ns)


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
