"""Prompt lookup: copy what followed the last few tokens where they stood before.

Sources: the rule of the published harnesses (Spec-Bench's PLD; RACER and SAM-Decoding carry the same) and that of
transformers (`PromptLookupCandidateGenerator`), which differ at the tail:
- `tail='truncate'`, the library's: the match may overlap the suffix it repeats, the copy ends with the text;
- `tail='full'`, the published one: all `tokens` tokens must follow inside the text, and at least one token lies between
  match and suffix; else the next place is tried, then a shorter n-gram. Short answers leave it nearly mute.
Our choices: a copy is cut before the first stop id (if that leaves nothing, the pass is a plain step); a placeholder
ends the text on either side of it; nothing is drafted deeper than the tokens that may still come.
"""

from typing import Literal

from numba import njit

from baselines.history import History, chain, copy_run
from recap.drafter import Drafter
from recap.options import check_options
from recap.types import Draft, Limits, Request, Rows, Step


class PromptLookup(Drafter):
    """Looks up the whole text of the request, the root as its last token. It remembers nothing beyond a request.

    ngram   longest suffix that is looked up; shorter ones follow, down to one token
    tokens  most tokens of a draft
    tail    'truncate' or 'full', see above
    match   which of several places is copied from
    """

    top_k = 1

    def __init__(
        self,
        ngram: int = 3,
        tokens: int = 10,
        tail: Literal["truncate", "full"] = "truncate",
        match: Literal["earliest", "latest"] = "earliest",
    ) -> None:
        check_options(PromptLookup.__init__, locals())
        if min(ngram, tokens) < 1:
            raise ValueError(f"method.ngram={ngram}, method.tokens={tokens}: at least 1 is needed")
        self.ngram = ngram
        self.tokens = tokens
        self.full = tail == "full"
        self.latest = match == "latest"

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self._history = History(request, limits, rows)

    def propose(self, room: int) -> Draft:
        h = self._history
        start = _look_up(h.text, h.size, self.ngram, self.tokens, self.full, self.latest)
        end = min(h.size, start + min(self.tokens, room - 1))
        return chain(copy_run(h.text, start, end, h.barred))

    def observe(self, rows: Rows, step: Step) -> None:
        self._history.append(step.committed)


@njit(cache=True)
def _look_up(text, size, ngram, tokens, full, latest):
    """Where the continuation starts: the longest n-gram first, then the earliest or latest place; `size` if nowhere."""
    for n in range(1, min(ngram, size - 1) + 1):
        if text[size - n] < 0:
            ngram = n - 1  # a longer suffix would hold a placeholder
            break
    for n in range(min(ngram, size - 1), 0, -1):
        places = size - max(2 * n, n + tokens - 1) if full else size - n
        for k in range(places):
            start = n + (places - 1 - k if latest else k)
            if _equal(text, start, size, n) and _follows(text, start, tokens if full else 1):
                return start
    return size


@njit(cache=True)
def _equal(text, a, b, n):
    """Whether the n tokens before `a` equal the n before `b`."""
    for back in range(1, n + 1):
        if text[a - back] != text[b - back]:
            return False
    return True


@njit(cache=True)
def _follows(text, start, needed):
    """Whether `needed` tokens stand from `start` on, none of them a placeholder."""
    for i in range(start, start + needed):
        if text[i] < 0:
            return False
    return True
