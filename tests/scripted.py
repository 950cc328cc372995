"""A target without a model: its rows are a function of the path, its cache a list of tokens, and it forgives nothing.

`ScriptedTarget` keeps to the letter of `recap.target.Target` and asserts that its caller does too. `FixedDrafts` and
`SideBySide` are drafters for exact cases and for holding two drafters equal.
"""

import random
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from recap.drafter import Drafter
from recap.types import EMPTY_DRAFT, SOURCES, Draft, Limits, Request, Rows, Step
from recap.verify import accept
from tests.reference import verify
from tests.reference.tree import Node

VOCAB = 32
Predict = Callable[[tuple[int, ...], int], Sequence[float]]  # (path so far, image) -> logits over the vocabulary


def request_of(
    prompt: Sequence[int], vocab_size: int = VOCAB, placeholders: Sequence[int] = (), image: int = 0
) -> Request:
    """A request; `image` stands for all that a model sees beside the text."""
    return Request(np.array(prompt, np.int64), vocab_size, tuple(placeholders), {"image": image})


def rows_of(ids: Sequence[Sequence[int]], probs: Sequence[Sequence[float]] | None = None) -> Rows:
    """Rows with the given ids; by default their probabilities halve from rank to rank."""
    ids = np.array(ids, np.int32)
    if probs is None:
        halves = 0.5 ** np.arange(ids.shape[1])
        probs = np.broadcast_to(halves / halves.sum(), ids.shape)
    return Rows(ids, np.array(probs, np.float32))


def draft_of(tokens: Sequence[int], parents: Sequence[int] | None = None) -> Draft:
    """A draft; by default a chain."""
    parents = range(-1, len(tokens) - 1) if parents is None else parents
    return Draft(np.array(tokens, np.int64), np.array(parents, np.int32), np.zeros(len(tokens), np.int8))


def nodes_of(draft: Draft) -> list[Node]:
    """A draft as the references write it."""
    return [
        Node(token, parent, frozenset(name for name, bit in SOURCES.items() if bits & bit))
        for token, parent, bits in zip(
            draft.tokens.tolist(), draft.parents.tolist(), draft.sources.tolist(), strict=True
        )
    ]


def shown(draft: Draft) -> tuple[list[int], list[int]]:
    """Tokens and parents as lists."""
    return draft.tokens.tolist(), draft.parents.tolist()


def pairs(draft: Draft, nodes: Sequence[tuple[int, int]]) -> bool:
    """Whether a draft is these (token, parent) nodes, in this order."""
    return list(zip(*shown(draft), strict=True)) == list(nodes)


def begun(drafter: Drafter, history: Sequence[int], stop_ids: Sequence[int] = (), placeholders=(), room: int = 200):
    """The drafter at the start of a request whose prompt and prefill token are `history`; every prompt row is one."""
    request = request_of(history[:-1], placeholders=placeholders)
    rest = [[history[-1], *range(VOCAB - 1, VOCAB - drafter.top_k, -1)]]
    drafter.begin(request, Limits(room, tuple(stop_ids)), rows_of(rest * (len(drafter.wants(request)) + 1)))
    return drafter


def observed(drafter: Drafter, ids: Sequence[Sequence[int]]) -> Draft:
    """One step against rows of these ids, the rest of them the highest ids there are; returns the draft."""
    draft = drafter.propose(50)
    rest = list(range(VOCAB - 1, VOCAB - 1 - drafter.top_k, -1))
    rows = rows_of([*ids, *[rest] * (len(draft) + 1 - len(ids))])
    drafter.observe(rows, accept(draft, rows, np.empty(0, np.int64), 50))
    return draft


def script(start: int, tokens: Sequence[int], vocab_size: int = VOCAB) -> Predict:
    """A target that emits `tokens` after a prompt of `start` tokens, whatever it is shown; then 0 for ever."""

    def predict(path: tuple[int, ...], image: int) -> list[float]:
        at = len(path) - start
        chosen = tokens[at] if 0 <= at < len(tokens) else 0
        return [float(token == chosen) for token in range(vocab_size)]

    return predict


def hashed(vocab_size: int = 12, window: int = 2, levels: int = 3, drift: int = 0, seed: int = 0) -> Predict:
    """Logits drawn once for each last `window` tokens and image from few levels, so that ties and repeats abound.

    drift > 0 draws anew every `drift` positions, so that what was learnt goes stale.
    """

    @cache
    def logits(context: tuple[int, ...], image: int, era: int) -> tuple[float, ...]:
        draw = random.Random(f"{seed} {context} {image} {era}")
        return tuple(float(draw.randrange(levels)) for _ in range(vocab_size))

    return lambda path, image: logits(path[-window:], image, len(path) // drift if drift else 0)


def top_row(logits: Sequence[float], top_k: int) -> tuple[list[int], np.ndarray]:
    """The K largest logits, equal ones by lower id, and the float32 softmax over them."""
    ids = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:top_k]
    weights = np.exp(np.array([logits[i] - logits[ids[0]] for i in ids], np.float32))
    return ids, weights / weights.sum()


class ScriptedTarget:
    """`cache` is what it has cached, `passes` every (root, draft) it verified, `asked` the prompt positions wanted."""

    def __init__(self, predict: Predict) -> None:
        self.predict = predict
        self.request: Request | None = None
        self.cache: list[int] = []
        self.passes: list[tuple[int, Draft]] = []
        self.asked: list[list[int]] = []
        self._pending: tuple[int, Draft] | None = None  # the pass that waits for `keep`
        self._next: int | None = None  # the only root that may come

    def prefill(self, request: Request, positions, top_k: int, clock) -> Rows:
        assert self.request is None, "prefill before the last request was reset"
        positions = np.asarray(positions).tolist()
        assert positions == sorted(set(positions)), "positions ascend, each once"
        assert all(0 <= position < len(request.prompt) for position in positions)
        self.request, self.cache = request, request.prompt.tolist()
        self.asked.append(positions)
        clock("vision")
        rows = self._rows([self.cache[: position + 1] for position in (*positions, len(self.cache) - 1)], top_k)
        self._next = int(rows.ids[-1, 0])
        return rows

    def verify(self, root: int, draft: Draft, top_k: int) -> Rows:
        assert self.request is not None and self._pending is None, "a pass before the last one was kept"
        assert root == self._next, f"the root is {self._next}, the last token emitted, not {root}"
        assert (draft.tokens.dtype, draft.parents.dtype, draft.sources.dtype) == (np.int64, np.int32, np.int8)
        tokens, parents = draft.tokens.tolist(), draft.parents.tolist()
        assert len(tokens) == len(parents) == len(draft.sources)
        assert all(-1 <= parent < node for node, parent in enumerate(parents)), "a parent stands before its child"
        assert all(0 <= token < self.request.vocab_size for token in tokens)
        assert not set(tokens) & set(self.request.placeholders), "a placeholder was proposed"
        self._pending = root, draft_of(tokens, parents)
        self.passes.append(self._pending)
        paths = [[tokens[i] for i in verify.path_to(node, parents)] for node in range(-1, len(tokens))]
        rows = self._rows([[*self.cache, root, *path] for path in paths], top_k)
        self._greedy = rows.ids[:, 0].tolist()
        return rows

    def keep(self, path) -> None:
        assert self._pending is not None, "nothing to keep"
        (root, draft), above = self._pending, -1
        kept = [root]
        for node in path.tolist():
            assert draft.parents[node] == above, "a path leads from the root down, node by node"
            assert draft.tokens[node] == self._greedy[above + 1], "a kept node is its parent's greedy choice"
            kept.append(int(draft.tokens[node]))
            above = node
        self.cache += kept
        self._pending, self._next = None, self._greedy[above + 1]

    def reset(self) -> None:
        assert self.request is not None and self._pending is None, "reset inside a pass"
        self.request, self.cache, self._next = None, [], None

    def _rows(self, paths: list[list[int]], top_k: int) -> Rows:
        image = self.request.inputs["image"]
        rows = [top_row(self.predict(tuple(path), image), top_k) for path in paths]
        return Rows(np.array([ids for ids, _ in rows], np.int32), np.array([probs for _, probs in rows], np.float32))


class FixedDrafts:
    """Proposes the given drafts in turn, then nothing; `rooms`, `steps` and `ended` are what it was told."""

    top_k = 1

    def __init__(self, *drafts: Draft) -> None:
        self.drafts = list(drafts)
        self.rooms: list[int] = []
        self.steps: list[Step] = []
        self.ended = 0

    def wants(self, request: Request):
        return np.empty(0, np.int64)

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        assert len(rows) == 1

    def propose(self, room: int) -> Draft:
        self.rooms.append(room)
        return self.drafts.pop(0) if self.drafts else EMPTY_DRAFT

    def observe(self, rows: Rows, step: Step) -> None:
        assert len(rows) == len(step.draft) + 1
        self.steps.append(step)

    def end(self) -> None:
        self.ended += 1


class SideBySide:
    """Two drafters through the same request: `drafter` is used, `reference` must agree with its every answer.

    `same(draft, answer)` compares a draft with what the reference proposed. Acceptance is held to its reference too.
    """

    def __init__(self, drafter, reference, same: Callable[[Draft, object], bool]) -> None:
        self.drafter, self.reference, self.same = drafter, reference, same
        self.top_k = drafter.top_k

    def wants(self, request: Request):
        wanted = self.drafter.wants(request)
        assert wanted.tolist() == self.reference.wants(request)
        return wanted

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self.stop_ids = limits.stop_ids
        self.drafter.begin(request, limits, rows)
        self.reference.begin(request, limits, rows)

    def propose(self, room: int) -> Draft:
        self.room = room
        draft, answer = self.drafter.propose(room), self.reference.propose(room)
        assert self.same(draft, answer), f"{draft} is not {answer}"
        return draft

    def observe(self, rows: Rows, step: Step) -> None:
        tokens, parents = step.draft.tokens.tolist()[: step.draft.acceptable], step.draft.parents.tolist()
        settled = verify.accept(tokens, parents, rows.ids[:, 0].tolist(), self.stop_ids, self.room)
        assert (step.path.tolist(), step.committed.tolist(), step.agreed) == settled
        self.drafter.observe(rows, step)
        self.reference.observe(rows, step)

    def end(self) -> None:
        self.drafter.end()
        self.reference.end()
