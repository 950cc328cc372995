"""All of RECAP in plain Python, with the verbs of a drafter."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from recap.types import Limits, Request, Rows, Step

from . import suffix as suffixes
from .fusion import Candidate, fuse
from .memory import SEPARATOR, Memory
from .tree import Node, grow


@dataclass
class RecapReference:
    """The switches are RECAP's, with the paper's defaults."""

    top_k: int = 8
    budget: int = 63
    depth: int = 10
    width: int = 8
    suffix: int = 4
    prefill: str = "unigram"
    m1: str = "stream"
    learn: str = "evaluated"
    fusion: str = "mixture"
    confidence: bool = True
    priors: str = "specificity"
    prior_index: str = "rank"
    expansion: str = "best_first"
    depth_factor: str = "authors"
    edge_guard: bool = True
    memory: Memory = field(default_factory=Memory)
    history: list[int] = field(default_factory=list)
    placeholders: tuple[int, ...] = ()
    tree: list[Node] = field(default_factory=list)

    def wants(self, request: Request) -> list[int]:
        """Text positions: the first of every token, all or none."""
        text = [i for i, token in enumerate(request.prompt.tolist()) if token not in request.placeholders]
        if self.prefill == "none":
            return []
        if self.prefill == "all":
            return text
        seen: dict[int, int] = {}
        for i in text:
            seen.setdefault(int(request.prompt[i]), i)
        return list(seen.values())

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        """M2 and M3 are forgotten, M1 too under m1='request'; prompt rows are written over what is left."""
        self.memory.clear(2, 3)
        if self.m1 == "request":
            self.memory.clear(1)
        self.placeholders = request.placeholders
        self.history = []
        self._commit(request.prompt.tolist())
        seeds = [
            (self.history[: position + 1], rows.ids[i].tolist(), list(rows.probs[i]))
            for i, position in enumerate(self.wants(request))
        ]
        self.memory.write(seeds, self.placeholders, (1,) if self.prefill == "unigram" else (1, 2, 3))
        self._commit([int(rows.ids[-1, 0])])

    def propose(self, room: int) -> list[Node]:
        """The tree, then the verbatim continuation."""
        self.tree = grow(
            self._look_up,
            self.history,
            budget=self.budget,
            depth=self.depth,
            width=self.width,
            expansion=self.expansion,
            depth_factor=self.depth_factor,
            edge_guard=self.edge_guard,
        )
        if self.suffix:
            self.tree = suffixes.insert(
                self.tree, self.history, most=self.suffix, depth=self.depth, edge_guard=self.edge_guard
            )
        return self.tree

    def observe(self, rows: Rows, step: Step) -> None:
        """Rows of the pass are written under their own path contexts; committed tokens extend the history."""
        nodes = range(len(self.tree)) if self.learn == "evaluated" else step.path.tolist()
        learned = [
            (self._context(node), rows.ids[node + 1].tolist(), list(rows.probs[node + 1])) for node in (-1, *nodes)
        ]
        self.memory.write(learned, self.placeholders)
        self._commit(step.committed.tolist())

    def end(self) -> None:
        """Nothing ends with a request; the next one clears."""

    def reset(self) -> None:
        """A new stream."""
        self.memory.clear(1, 2, 3)

    def _commit(self, tokens: Sequence[int]) -> None:
        self.history += [SEPARATOR if token in self.placeholders else token for token in tokens]

    def _context(self, node: int) -> list[int]:
        path: list[int] = []
        while node >= 0:
            path.insert(0, self.tree[node].token)
            node = self.tree[node].parent
        return self.history + path

    def _look_up(self, context: Sequence[int]) -> list[Candidate]:
        return fuse(
            self.memory,
            context,
            self.top_k,
            fusion=self.fusion,
            confidence=self.confidence,
            priors=self.priors,
            prior_index=self.prior_index,
        )
