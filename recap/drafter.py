"""The Drafter protocol, and Recap, which composes memory, fusion, tree and suffix.

A new method is one class with these verbs; its lifetimes belong in its docstring.
"""

from typing import Literal, Protocol

import numpy as np

from recap.fusion import FUSIONS, PRIORS, Fusion, new_candidates
from recap.memory import M1, M2, M3, MAX_VOCAB, Memory, prompt_contexts, tree_contexts
from recap.options import check_options
from recap.suffix import Automaton, extend, insert_continuation, longest_match, new_automaton
from recap.tree import Workspace, grow, new_shape, new_workspace
from recap.types import Draft, Ints, Limits, Request, Rows, Step

NOTHING = np.empty(0, np.int64)


class Drafter(Protocol):
    """Five verbs and a question. One instance serves a stream of requests, one request at a time."""

    top_k: int  # width of the rows it learns from; 1 for a method that learns from none

    def wants(self, request: Request) -> Ints:
        """Prompt positions whose rows `begin` is to get; the prompt's last row always comes, as the last."""
        return NOTHING

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        """A request starts. rows: at `wants` and at the prompt's end, whose greedy choice is the first root."""

    def propose(self, room: int) -> Draft:
        """A draft under the last committed token; at most `room` more tokens will be emitted."""
        ...

    def observe(self, rows: Rows, step: Step) -> None:
        """A pass is settled. rows [n + 1]: the root's and every node's, accepted or not."""

    def end(self) -> None:
        """The request is over."""

    def reset(self) -> None:
        """A new stream starts: forget everything."""

    def memory(self) -> dict:
        """What is held: {'rows': {map: count}, 'bytes': int}."""
        return {"rows": {}, "bytes": 0}


class Recap:
    """RECAP: the target's own past rows propose a tree (paper: arXiv 2611.05894).

    M1 lives for the stream (`m1='stream'`) or one request; M2, M3 and the suffix automaton live for one request.

    top_k, budget, depth, width  row width K; tree nodes without the root; levels; children a node
    suffix       most tokens of a verbatim continuation, on top of the budget (0 = none)
    prefill      rows of the prompt that seed memory: 'unigram' (M1, first occurrence of each token), 'all' (all maps,
                 every text position, the first occurrence of a key wins) or 'none'
    learn        which nodes write their rows: 'evaluated' (all of a pass) or 'committed' (root and accepted)
    fusion       'mixture' (equations 4-6), 'backoff' (most specific row alone) or 'unigram' (M1 alone)
    confidence   weigh rows by exp(-entropy) as well as by prior
    priors       'specificity' (0.70 / 0.20 / 0.10) or 'uniform'; prior_index: 'rank' gives them by place among the
                 rows there are, 'order' by key length
    expansion    'best_first' by path score, or 'fixed': breadth-first by rank
    depth_factor 'authors' multiplies a path score by the published factor at every level; 'none' does not
    edge_guard   a directed edge may occur once on a root-to-leaf path
    """

    def __init__(
        self,
        top_k: int = 8,
        budget: int = 63,
        depth: int = 10,
        width: int = 8,
        suffix: int = 4,
        prefill: Literal["unigram", "all", "none"] = "unigram",
        m1: Literal["stream", "request"] = "stream",
        learn: Literal["evaluated", "committed"] = "evaluated",
        fusion: Literal["mixture", "backoff", "unigram"] = "mixture",
        confidence: bool = True,
        priors: Literal["specificity", "uniform"] = "specificity",
        prior_index: Literal["rank", "order"] = "rank",
        expansion: Literal["best_first", "fixed"] = "best_first",
        depth_factor: Literal["authors", "none"] = "authors",
        edge_guard: bool = True,
    ) -> None:
        check_options(Recap.__init__, locals())
        if top_k < 1:
            raise ValueError(f"method.top_k={top_k}: at least 1 is needed")
        self.top_k = top_k
        self.suffix = suffix
        self.prefill = prefill
        self.m1 = m1
        self.learn = learn
        self._fusion = Fusion(FUSIONS[fusion], np.array(PRIORS[priors]), prior_index == "rank", confidence)
        self._shape = new_shape(
            budget, depth, width, expansion == "best_first", edge_guard, authors=depth_factor == "authors"
        )
        self._memory = Memory(top_k)
        self._work: Workspace = new_workspace(self._shape, suffix)
        self._candidates = new_candidates(top_k)
        self._blocked = np.zeros(0, bool)
        self._text = NOTHING  # the history, -1 for placeholders
        self._size = 0
        self._automaton: Automaton | None = None

    def wants(self, request: Request) -> Ints:
        if self.prefill == "none":
            return NOTHING
        masked = request.masked()
        if self.prefill == "all":
            return np.flatnonzero(masked >= 0)
        tokens, first = np.unique(masked, return_index=True)
        return np.sort(first[tokens >= 0])

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        if request.vocab_size > MAX_VOCAB:
            raise ValueError(f"vocabulary of {request.vocab_size} ids: keys hold ids below {MAX_VOCAB}")
        self._memory.clear(M2, M3)
        if self.m1 == "request":
            self._memory.clear(M1)
        self._blocked = np.zeros(request.vocab_size, bool)
        self._blocked[list(request.placeholders)] = True
        masked = request.masked()
        if self.prefill != "none":
            positions = self.wants(request)
            orders = 1 if self.prefill == "unigram" else 3
            which = np.arange(len(positions))
            self._memory.write(prompt_contexts(masked, positions), which, rows, self._blocked, orders)
        self._text = np.full(len(masked) + limits.max_new_tokens, -1, np.int64)
        self._size = 0
        if self.suffix:
            self._automaton = new_automaton(len(self._text))
        self._commit(request.prompt)
        self._commit(rows.ids[-1:, 0])

    def propose(self, room: int) -> Draft:
        work, text, size = self._work, self._text, self._size
        n = grow(self._memory.maps, self._fusion, self._shape, self._context(), text[size - 1], work, self._candidates)
        if self.suffix:
            length, end = longest_match(self._automaton, size - 1)
            if length:
                n = insert_continuation(text, size, end, self.suffix, self._shape, text[size - 1], work, n)
        return Draft(work.tokens[:n].copy(), work.parents[:n].copy(), work.sources[:n].copy())

    def observe(self, rows: Rows, step: Step) -> None:
        contexts = tree_contexts(self._context(), step.draft.tokens, step.draft.parents, self._blocked)
        if self.learn == "evaluated":
            which = np.arange(len(rows))
        else:
            which = np.concatenate(([0], step.path + 1))
        self._memory.write(contexts, which, rows, self._blocked)
        self._commit(step.committed)

    def end(self) -> None:
        """Nothing to do: what a request leaves behind is cleared when the next one begins."""

    def reset(self) -> None:
        self._memory.clear(M1, M2, M3)

    def memory(self) -> dict:
        return self._memory.size()

    def _context(self):
        """The last three tokens of the history, oldest first, -1 where there is none or a placeholder."""
        context = np.full(3, -1, np.int64)
        known = min(3, self._size)
        context[3 - known :] = self._text[self._size - known : self._size]
        return context

    def _commit(self, tokens: Ints) -> None:
        """Append tokens to the history and feed them to the automaton, once each."""
        end = self._size + len(tokens)
        self._text[self._size : end] = np.where(self._blocked[tokens], -1, tokens)
        if self.suffix:
            extend(self._automaton, self._text, self._size, end)
        self._size = end
