"""SAM decoding (arXiv 2411.10666): copy after the longest earlier match, found by a suffix automaton.

Two published systems in one class: SAM[Token Recycling] is the default; SAM-only is
`fallback='none', alpha=4, max_predicts=60, climb=False` (conf/method/sam_only.yaml).
Facts of the published code and our choices where it is silent or faulty:
- the match is the longest suffix of the text, root included, that ended before; the copy starts after its first
  occurrence and ends before the root's own place. Our automaton (recap/suffix.py) holds the root, which changes
  neither: the match steps off the state that the root made. Fed twice, it would collapse every match to length 1;
- published chains are padded to the row budget with id 0; here they are not;
- the fallback is our 80-node tree, its matrix seeded from prompt rows as published (published: another tree, 60 nodes);
  it learns from every pass, chain passes too. Published code reads a row at every prompt position and keeps the last
  of each token; here only those are computed, which is the same matrix for less;
- the static automaton is optional: a corpus file with one document a line, as a JSON list of ids or ids between spaces.
  Published corpora join documents by a stop id and add every single token as a document; here a document's end ends
  match and copy, and a lone token, which nothing follows, is not added;
- equal counts below a static match: the lower id first; equal probabilities: the earlier pushed;
- a copy ends before a stop id or a placeholder, and no deeper than the tokens that may still come.
"""

import json
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from baselines.history import History, chain, copy_run
from baselines.token_recycling import TokenRecycling
from recap.drafter import NOTHING, Drafter
from recap.options import check_options
from recap.suffix import LABEL, NONE, STATES, Automaton, extend, follow, match_state, new_automaton
from recap.types import EMPTY_DRAFT, SOURCES, Draft, Ints, Limits, Request, Rows, Step


class Corpus(NamedTuple):
    """The static automaton: the documents' text, -1 behind each, and how often each state's strings occur in it."""

    text: Ints
    automaton: Automaton
    count: NDArray[np.int64]


class SamDecoding(Drafter):
    """The dynamic automaton lives for one request, the static one for ever, the fallback's matrix for the stream.

    n_predicts     rows of a pass, root included, where `alpha` is None
    alpha          rows grow with the match: 1 + floor(alpha * match), at most `max_predicts`; a static match then
                   gives a best-first tree by corpus counts, `static_width` children a state and nodes a depth
    threshold      shortest match that is preferred to the fallback; without a fallback any match is used
    len_bias       handicap of the static match
    climb          trade the match for a shorter one while fewer tokens follow its first occurrence than a pass has rows
    fallback       what drafts where the match is too short
    static         path of a corpus file, or None
    """

    def __init__(
        self,
        n_predicts: int = 40,
        threshold: int = 5,
        climb: bool = True,
        alpha: float | None = None,
        max_predicts: int = 60,
        fallback: Literal["token_recycling", "none"] = "token_recycling",
        static: str | None = None,
        len_bias: int = 5,
        static_width: int = 8,
    ) -> None:
        check_options(SamDecoding.__init__, locals())
        if min(n_predicts, max_predicts, static_width) < 1:
            raise ValueError(
                f"method.n_predicts={n_predicts}, method.max_predicts={max_predicts}, "
                f"method.static_width={static_width}: at least 1 is needed"
            )
        if alpha is not None and not alpha > 0:
            raise ValueError(f"method.alpha={alpha}: must be positive, or null for a fixed number of rows")
        self.n_predicts = n_predicts
        self.threshold = threshold if fallback == "token_recycling" else 1
        self.climb = climb
        self.alpha = alpha
        self.max_predicts = max_predicts
        self.len_bias = len_bias
        self.static_width = static_width
        self._fallback = TokenRecycling(prefill="unigram") if fallback == "token_recycling" else None
        self.top_k = 1 if self._fallback is None else self._fallback.top_k
        self._corpus = None if static is None else load_corpus(static)
        self._automaton: Automaton | None = None

    def wants(self, request: Request) -> Ints:
        return NOTHING if self._fallback is None else self._fallback.wants(request)

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self._history = History(request, limits, rows)
        self._automaton = new_automaton(len(self._history.text))
        self._static = 0, 0  # state and length of the corpus match
        self._feed(0)
        if self._fallback is not None:
            self._fallback.begin(request, limits, rows)

    def propose(self, room: int) -> Draft:
        h = self._history
        state = match_state(self._automaton, h.size - 1)
        dynamic, static = int(self._automaton.states[state]["length"]), self._static[1] - self.len_bias
        if max(dynamic, static) < max(self.threshold, 1):
            return EMPTY_DRAFT if self._fallback is None else self._fallback.propose(room)
        rows = self._rows(max(dynamic, static))
        most = min(rows, room) - 1
        if dynamic >= static:
            if self.climb:
                state = _climb(self._automaton, state, h.size - 2, rows)
            start = self._automaton.states[state]["first"] + 1
            return chain(copy_run(h.text, start, min(start + most, h.size - 1), h.barred))
        if self.alpha is None:
            start = self._corpus.automaton.states[self._static[0]]["first"] + 1
            return chain(copy_run(self._corpus.text, start, start + most, h.barred))
        tokens, parents = _static_tree(
            self._corpus, self._static[0], rows - 1, self.static_width, room - 1, h.blocked, h.stops
        )
        return Draft(tokens, parents, np.full(len(tokens), SOURCES["suffix"], np.int8))

    def observe(self, rows: Rows, step: Step) -> None:
        start = self._history.size
        self._history.append(step.committed)
        self._feed(start)
        if self._fallback is not None:
            self._fallback.observe(rows, step)

    def reset(self) -> None:
        if self._fallback is not None:
            self._fallback.reset()

    def memory(self) -> dict:
        report = {"rows": {}, "bytes": 0} if self._fallback is None else self._fallback.memory()
        automata = {"automaton": self._automaton, "static": self._corpus and self._corpus.automaton}
        for name, automaton in automata.items():
            if automaton is not None:
                report["rows"][name] = int(automaton.used[STATES])
                report["bytes"] += sum(array.nbytes for array in automaton)
        return report

    def _rows(self, match: int) -> int:
        return self.n_predicts if self.alpha is None else min(self.max_predicts, 1 + int(self.alpha * match))

    def _feed(self, start: int) -> None:
        """Feed the history from `start` on to both automata, once each."""
        h = self._history
        extend(self._automaton, h.text, start, h.size)
        if self._corpus is not None:
            self._static = _walk(self._corpus.automaton, *self._static, h.text[start : h.size])


def load_corpus(path: str) -> Corpus:
    """Read a corpus file, see above. Raises ValueError for what is not a list of ids."""
    documents = []
    if not Path(path).is_file():
        raise ValueError(f"method.static={path}: no such file")
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        try:
            ids = json.loads(line) if line.lstrip().startswith("[") else line.split()
            documents.append([int(token) for token in ids])
        except (ValueError, TypeError):
            raise ValueError(f"method.static={path}: line {number} is not a list of token ids") from None
    text = np.array([token for document in documents for token in (*document, -1)], np.int64)
    automaton = new_automaton(len(text))
    extend(automaton, text, 0, len(text))
    return Corpus(text, automaton, _occurrences(automaton, text))


@njit(cache=True)
def _occurrences(automaton, text):
    """How often the strings of each state occur: every prefix once, handed down the suffix links, longest first."""
    states = automaton.used[STATES]
    count = np.zeros(states, np.int64)
    state = 0
    for token in text:
        state = 0 if token < 0 else follow(automaton, state, token)
        count[state] += 1
    for state in np.argsort(-automaton.states[:states].length, kind="mergesort")[:-1]:
        count[automaton.states[state].link] += count[state]
    return count


@njit(cache=True)
def _walk(automaton, state, length, tokens):
    """Move a match (state, length) over further tokens of the text that is matched; -1 ends it."""
    for token in tokens:
        if token < 0:
            state, length = 0, 0
            continue
        while state != 0 and follow(automaton, state, token) == NONE:
            state = np.int64(automaton.states[state].link)
            length = np.int64(automaton.states[state].length)
        if follow(automaton, state, token) != NONE:
            state, length = follow(automaton, state, token), length + 1
    return state, length


@njit(cache=True)
def _climb(automaton, state, last, rows):
    """A shorter match whose first occurrence has `rows` tokens behind it, up to position `last`, if there is one."""
    while last - automaton.states[state].first < rows and automaton.states[state].link != 0:
        state = np.int64(automaton.states[state].link)
    return state


@njit(cache=True)
def _static_tree(corpus, match, budget, width, deepest, blocked, stops):
    """Best-first by occurrences: a child's probability is its parent's times count(child) / count(parent)."""
    automaton, count = corpus.automaton, corpus.count
    tokens, parents = np.empty(budget, np.int64), np.empty(budget, np.int32)
    most = (budget + 1) * width
    token, state, above = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    depth, p = np.empty(most, np.int64), np.empty(most, np.float64)  # p is -1 once popped
    full = np.zeros(deepest + 1, np.int64)  # nodes a depth
    size, pushed = 0, 0
    at, at_state, at_depth, at_p = -1, match, 0, 1.0
    while True:
        if at_depth < deepest and (at < 0 or not stops[tokens[at]]):
            for child in _children(automaton, count, at_state, width, blocked):
                target = follow(automaton, at_state, child)
                token[pushed], state[pushed], above[pushed], depth[pushed] = child, target, at, at_depth + 1
                p[pushed] = at_p * count[target] / count[at_state]
                pushed += 1
        best = -1
        for i in range(pushed):
            if p[i] >= 0 and full[depth[i]] < width and (best < 0 or p[i] > p[best]):
                best = i
        if best < 0 or size == budget:
            return tokens[:size].copy(), parents[:size].copy()
        tokens[size], parents[size] = token[best], above[best]
        at, at_state, at_depth, at_p = size, state[best], depth[best], p[best]
        full[at_depth] += 1
        p[best] = -1.0
        size += 1


@njit(cache=True)
def _children(automaton, count, state, width, blocked):
    """The `width` most frequent tokens after a state, equal ones by lower id; none that the model may not be shown."""
    chosen = np.empty(width, np.int64)
    size = 0
    coming = automaton.states[state].head
    while coming != NONE:
        edge = automaton.table[coming]
        token = edge.key & LABEL
        coming = edge.next
        if token >= blocked.size or blocked[token]:
            continue
        n = count[edge.target]
        place = size
        while place > 0:
            other = count[follow(automaton, state, chosen[place - 1])]
            if other > n or (other == n and chosen[place - 1] < token):
                break
            place -= 1
        if place < width:
            for i in range(min(size, width - 1), place, -1):
                chosen[i] = chosen[i - 1]
            chosen[place] = token
            size = min(size + 1, width)
    return chosen[:size]
