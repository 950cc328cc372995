"""The Drafter protocol, and Recap, which composes memory, fusion, tree and suffix.

A new method is one class with these verbs; its lifetimes belong in its docstring.
"""

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from recap.calls import append, observe, observe_paying, propose, propose_paying
from recap.chances import new_learned
from recap.fusion import new_fusion
from recap.growth import new_cost
from recap.memory import M1, M2, M3, MAX_VOCAB, Memory, prompt_contexts
from recap.options import check_options
from recap.suffix import Automaton, new_automaton
from recap.tree import new_shape
from recap.types import Draft, Ints, Limits, Request, Rows, Step

NOTHING = np.empty(0, np.int64)
AUTO_NODES = 63  # the most that a tree of budget=auto grows to
NGRAM_ROWS = 1 << 16  # of M2 and of M3, where they outlive requests


class Drafter(Protocol):
    """Five verbs and a few questions. One instance serves a stream of requests, one request at a time."""

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

    def unpriced(self) -> int:
        """Nodes of the largest pass whose cost it still has to be told; 0 for a method to which cost is nothing."""
        return 0

    def calibrate(self, seconds: NDArray[np.float64]) -> None:
        """What a pass of n nodes beside the root takes, n = 0, 1, ... [unpriced() + 1]; the same for all streams."""


class Recap:
    """RECAP: the target's own past rows propose a tree (paper: arXiv 2611.05894).

    M1 lives for the stream (`m1=`) or one request, M2 and M3 for one request (`ngrams=`) or the stream, the suffix
    automaton for one request, the counts of `scores=learned` for the stream.

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
    scores       'path': as the three keys above say; 'learned': a node's chance, as the stream teaches it
                 (`recap.chances`), best first, in place of depth_factor. A continuation's tokens then compete with all
                 others within the budget, may stand deeper than `depth` and pass the edge guard
    budget       with scores='learned' also 'auto': the tree grows, up to 63 nodes, while that pays (`recap.growth`)
    explore      what a node's row is worth to memory, in tokens, where a tree is weighed against its cost
    ngrams       lifetime of M2 and M3. 'stream': rows of earlier requests are used until the request writes its own;
                 a map of more than 65,536 rows keeps its newest 32,768 when a request begins
    """

    def __init__(
        self,
        top_k: int = 8,
        budget: int | Literal["auto"] = 63,
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
        scores: Literal["path", "learned"] = "path",
        explore: float = 0.0,
        ngrams: Literal["request", "stream"] = "request",
    ) -> None:
        check_options(Recap.__init__, locals())
        if top_k < 1:
            raise ValueError(f"method.top_k={top_k}: at least 1 is needed")
        learned = scores == "learned"
        if learned and expansion == "fixed":
            raise ValueError("method.scores=learned: goes with expansion=best_first, not with fixed")
        if budget == "auto" and not learned:
            raise ValueError("method.budget=auto: goes with scores=learned, whose scores are chances")
        nodes = AUTO_NODES if budget == "auto" else budget
        self.top_k = top_k
        self.suffix = suffix
        self.prefill = prefill
        self.m1 = m1
        self.learn = learn
        shape = new_shape(
            nodes, depth, width, expansion == "best_first", edge_guard, depth_factor == "authors", learned
        )
        self._fusion = np.array([new_fusion(fusion, confidence, priors, prior_index)])
        self._shape = np.array([shape])
        self.ngrams = ngrams
        self.explore = explore
        self._auto = budget == "auto"
        self._cost = new_cost(np.ones(nodes + 1))  # until it is told, all passes cost the same
        self._learned = new_learned(self._cost.seconds[0]) if learned else None
        self._memory = Memory(top_k)
        self._blocked = np.zeros(0, bool)
        self._text = NOTHING  # the history, -1 for placeholders
        self._size = 0
        self._automaton: Automaton = new_automaton(0)  # stays empty where no suffix is inserted

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
        if self.ngrams == "request":
            self._memory.clear(M2, M3)
        else:
            self._memory.cap(M2, NGRAM_ROWS)
            self._memory.cap(M3, NGRAM_ROWS)
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
        self._learn_text(np.append(request.prompt, rows.ids[-1, 0]))

    def propose(self, room: int) -> Draft:
        held = (*self._memory.maps, *self._automaton, self._text, self._size, self._fusion, self._shape, self.suffix)
        if self._learned is None:
            return Draft(*propose(*held))
        return Draft(*propose_paying(*held, *self._learned, *self._cost, self.explore, room))

    def observe(self, rows: Rows, step: Step) -> None:
        stamp, draft = self._memory.open_pass(len(rows)), step.draft
        held = (*self._memory.maps, *self._automaton, self._text, self._size)
        passed = (
            draft.tokens, draft.parents, rows.ids, rows.probs, step.path, step.committed, self._blocked,
            self.learn == "evaluated", stamp, self.suffix > 0,
        )  # fmt: skip
        if self._learned is None:
            self._size = observe(*held, *passed)
        else:
            seconds = self._cost.seconds[len(draft)]
            self._size = observe_paying(*held, self._fusion, self._shape, self.suffix, *self._learned, seconds, *passed)

    def end(self) -> None:
        """Nothing to do: what a request leaves behind is cleared when the next one begins."""

    def reset(self) -> None:
        self._memory.clear(M1, M2, M3)
        if self._learned is not None:
            self._learned = new_learned(self._cost.seconds[0])

    def unpriced(self) -> int:
        return int(self._shape["budget"][0]) if self._auto else 0

    def calibrate(self, seconds: NDArray[np.float64]) -> None:
        self._cost, self._auto = new_cost(seconds), False
        self._learned = new_learned(seconds[0])

    def memory(self) -> dict:
        return self._memory.size()

    def _learn_text(self, tokens: Ints) -> None:
        self._size = append(self._text, self._size, tokens, self._blocked, *self._automaton, self.suffix > 0)
