"""SAM decoding, by definition: matches by brute force; a shorter match counts as another where it occurs more often."""

from collections.abc import Sequence

from recap.types import Limits, Request, Rows, Step

from .history import Reader, chain
from .memory import SEPARATOR
from .suffix import longest_match
from .token_recycling import TokenRecyclingReference


def ends(text: Sequence[int], string: Sequence[int]) -> list[int]:
    """Where the string ends in the text."""
    n = len(string)
    return [i + n - 1 for i in range(len(text) - n + 1) if list(text[i : i + n]) == list(string)]


class SamDecodingReference(Reader):
    """`corpus`: documents of the static automaton."""

    def __init__(
        self, n_predicts=40, threshold=5, climb=True, alpha=None, max_predicts=60, fallback="token_recycling",
        len_bias=5, static_width=8, corpus=(),
    ) -> None:  # fmt: skip
        self.n_predicts, self.climb, self.alpha, self.max_predicts = n_predicts, climb, alpha, max_predicts
        self.len_bias, self.width = len_bias, static_width
        self.corpus = [token for document in corpus for token in (*document, SEPARATOR)]
        self.fallback = TokenRecyclingReference("unigram") if fallback == "token_recycling" else None
        self.threshold = max(1, threshold if self.fallback else 1)

    def wants(self, request: Request) -> list[int]:
        return self.fallback.wants(request) if self.fallback else []

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        super().begin(request, limits, rows)
        self.vocab_size = request.vocab_size
        if self.fallback:
            self.fallback.begin(request, limits, rows)

    def propose(self, room: int) -> list[tuple[int, int]]:
        nodes = self._drafted(room)
        if self.fallback and nodes is None:
            return self.fallback.propose(room)
        if self.fallback:  # what it learns from: a row of every node, layer by layer
            depth = [0]
            for _, parent in nodes:
                depth.append(depth[parent + 1] + 1)
            self.fallback.nodes = [("0" * d, *node) for d, node in zip(depth[1:], nodes, strict=True)]
        return nodes or []

    def observe(self, rows: Rows, step: Step) -> None:
        super().observe(rows, step)
        if self.fallback:
            self.fallback.observe(rows, step)

    def _drafted(self, room: int) -> list[tuple[int, int]] | None:
        """Nodes after the longer match, or None where it is too short."""
        h, (dynamic, end) = self.history, longest_match(self.history)
        known = self._static_match()
        static = known - self.len_bias
        if max(dynamic, static) < self.threshold:
            return None
        rows = self.n_predicts
        if self.alpha is not None:
            rows = min(self.max_predicts, 1 + int(self.alpha * max(dynamic, static)))
        if dynamic >= static:
            copied = self._copy(h[:-1], self._climbed(dynamic, rows) if self.climb else end, rows)
        elif self.alpha is None:
            copied = self._copy(self.corpus, ends(self.corpus, h[-known:])[0], rows)
        else:
            return self._tree(h[-known:], rows - 1, room - 1)
        return chain(copied[: room - 1])

    def _copy(self, text: list[int], end: int, rows: int) -> list[int]:
        following = self.clean(text[end + 1 : end + rows])
        foreign = [i for i, token in enumerate(following) if self._foreign(token)]
        return following[: foreign[0]] if foreign else following

    def _foreign(self, token: int) -> bool:
        return token >= self.vocab_size or token in self.placeholders or token == SEPARATOR

    def _climbed(self, length: int, rows: int) -> int:
        """End of the first occurrence of the match, or of a shorter one that occurs more often."""
        body = self.history[:-1]
        found = ends(body, self.history[-length:])
        for shorter in range(length - 1, 0, -1):
            if len(body) - 1 - found[0] >= rows:
                break
            more = ends(body, self.history[-shorter:])
            if len(more) > len(found):
                found = more
        return found[0]

    def _static_match(self) -> int:
        lengths = (n for n in range(len(self.history), 0, -1) if SEPARATOR not in self.history[-n:])
        return next((n for n in lengths if ends(self.corpus, self.history[-n:])), 0)

    def _tree(self, match: list[int], budget: int, deepest: int) -> list[tuple[int, int]]:
        nodes: list[tuple[int, int]] = []
        paths: list[list[int]] = [[]]
        queue: list[tuple[float, list[int], int]] = []  # probability, path, parent
        at, p = [], 1.0
        while True:
            if len(at) < deepest and not (at and at[-1] in self.stop_ids):
                here = ends(self.corpus, match + at)
                after = [self.corpus[i + 1] for i in here]
                children = sorted({t for t in after if not self._foreign(t)}, key=lambda t: (-after.count(t), t))
                for token in children[: self.width]:
                    queue.append((p * after.count(token) / len(here), [*at, token], paths.index(at) - 1))
            levels = [len(path) for path in paths]
            queue = [entry for entry in queue if levels.count(len(entry[1])) < self.width]
            if not queue or len(nodes) == budget:
                return nodes
            best = max(queue, key=lambda entry: entry[0])
            queue.remove(best)
            p, at, parent = best
            nodes.append((at[-1], parent))
            paths.append(at)
