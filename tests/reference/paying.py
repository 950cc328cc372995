"""RECAP with learned chances and growth that pays, in plain Python: every prefix of the tree is weighed."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from recap.types import Limits, Request, Rows, Step

from .fusion import Candidate
from .memory import SEPARATOR
from .recap_drafter import RecapReference
from .suffix import longest_match
from .tree import Branch, Node, pack, repeats_edge

SHARPNESS = (1.0, 0.75, 0.5, 0.35, 0.25)
HELD = (0.0, 0.7, 0.8, 0.85, 0.9, 0.9, 0.9, 0.9)
LENGTHS = (1, 2, 3, 5, 8, 12, 20)
RIGHT = ((0.1, 0.1, 0.6), (0.2, 0.2, 0.7), (0.3, 0.3, 0.75), (0.4, 0.4, 0.8), (0.6, 0.5, 0.85), (0.8, 0.7, 0.9),
         (0.9, 0.85, 0.95), (0.97, 0.95, 0.98))  # fmt: skip


def match_class(length: int) -> int:
    return sum(length > most for most in LENGTHS)


def standing(tokens: Sequence[int], token: int) -> int:
    return 0 if token not in tokens else 2 if tokens[0] == token else 1


def kind_of(candidates: Sequence[Candidate]) -> int:
    """The maps that list candidates, as bits."""
    return sum(1 << (order - 1) for order in set().union(*(c.orders for c in candidates)))


@dataclass
class PayingReference(RecapReference):
    """`seconds`: what a pass of n nodes takes."""

    explore: float = 0.0
    ngrams: str = "request"
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = {kind: [share * 10.0, 10.0] for kind, share in enumerate(HELD)}
        self.right = {(m, s): [share * 4.0, 4.0] for m, row in enumerate(RIGHT) for s, share in enumerate(row)}
        self.likelihood: dict[float, float] = defaultdict(float)
        self.rate = [8.0, 8.0 * self.seconds[0]]

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        """As ever, but under ngrams='stream' M2 and M3 keep what the prompt's rows do not replace."""
        kept = [dict(rows) for rows in self.memory.maps[1:]] if self.ngrams == "stream" else [{}, {}]
        super().begin(request, limits, rows)
        for now, old in zip(self.memory.maps[1:], kept, strict=True):
            now |= {key: row for key, row in old.items() if key not in now}

    def propose(self, room: int) -> list[Node]:
        """The most worthwhile prefix of the best-first order, the longest of equals."""
        self.match, self.copied = self._continuation()
        order = self._best_first(room)
        price = self.rate[0] / self.rate[1]
        best, worth, gained = 0, -price * self.seconds[0], 0.0
        for n, branch in enumerate(order, 1):
            gained += branch.score + self.explore
            if gained - price * self.seconds[n] >= worth:
                best, worth = n, gained - price * self.seconds[n]
        self.tree = pack(order[:best])
        return self.tree

    def observe(self, rows: Rows, step: Step) -> None:
        history, copied, match = list(self.history), list(self.copied), self.match
        for token in step.committed.tolist():
            candidates = self._look_up(history)[: self.width]
            tokens = [c.token for c in candidates]
            if tokens:
                held = self.held[kind_of(candidates)]
                held[1] += 1
                if token in tokens:
                    held[0] += 1
                    for s in SHARPNESS:
                        total = sum(c.q**s for c in candidates)
                        chance = candidates[tokens.index(token)].q ** s / total
                        self.likelihood[s] += math.log(max(1e-4, chance))
            if copied:
                seen = self.right[match_class(match), standing(tokens, copied[0])]
                if seen[1] >= 64:
                    seen[:] = [count * 0.5 for count in seen]
                seen[1] += 1
                if copied[0] == token:
                    seen[0] += 1
                    copied, match = copied[1:], match + 1
                else:
                    copied = []
            history.append(SEPARATOR if token in self.placeholders else token)
        fade = 0.5 ** (1 / 30)
        self.rate = [self.rate[0] * fade + len(step.committed), self.rate[1] * fade + self.seconds[len(self.tree)]]
        super().observe(rows, step)

    def _continuation(self) -> tuple[int, list[int]]:
        length, end = longest_match(self.history)
        copied: list[int] = []
        for token in self.history[end + 1 :][: self.suffix] if length else ():
            if token == SEPARATOR:
                break
            copied.append(token)
        return length, copied

    def _best_first(self, room: int) -> list[Branch]:
        frontier, tree = self._children(Branch(), room), []
        while frontier and len(tree) < self.budget:
            chosen = min(frontier, key=lambda branch: (-branch.score, branch.ranks[: self.depth]))
            frontier.remove(chosen)
            tree.append(chosen)
            frontier += self._children(chosen, room)
        return tree

    def _children(self, branch: Branch, room: int) -> list[Branch]:
        depth = len(branch.tokens)
        if depth >= room - 1:
            return []
        found = self._look_up((*self.history, *branch.tokens))[: self.width] if depth < self.depth else []
        on_copy = tuple(self.copied[:depth]) == branch.tokens and depth < len(self.copied)
        copied = self.copied[depth] if on_copy else None
        path = (self.history[-1], *branch.tokens)
        return [
            Branch((*branch.tokens, token), (*branch.ranks, rank), orders, branch.score * chance)
            for rank, (token, chance, orders) in enumerate(self._chances(found, copied, self.match + depth))
            if not (self.edge_guard and token != copied and repeats_edge(path, token))
        ]

    def _chances(self, found: list[Candidate], copied: int | None, match: int) -> list[tuple]:
        listed: list[tuple] = []
        if found:
            power = max(SHARPNESS, key=lambda s: (self.likelihood[s], s == 0.5))
            flat = [c.q**power for c in found]
            held = self.held[kind_of(found)]
            scale = held[0] / held[1] / sum(flat)
            listed = [(c.token, q * scale, c.orders) for c, q in zip(found, flat, strict=True)]
        if copied is None:
            return listed
        tokens = [token for token, *_ in listed]
        seen = self.right[match_class(match), standing(tokens, copied)]
        known, orders = next(((q, o) for token, q, o in listed if token == copied), (0.0, frozenset()))
        chance = 1 - (1 - seen[0] / seen[1]) * (1 - known)
        shrink = (1 - chance) / (1 - known) if known < 1 else 1.0
        rest = [(token, q * shrink, o) for token, q, o in listed if token != copied]
        at = tokens.index(copied) if copied in tokens else len(rest)
        while at > 0 and rest[at - 1][1] < chance:
            at -= 1
        return [*rest[:at], (copied, chance, orders | {"suffix"}), *rest[at:]]
