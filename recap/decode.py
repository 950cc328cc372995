"""The decode loop: draft -> verify -> commit -> observe. It knows neither the model family nor the method."""

import numpy as np

from recap.drafter import Drafter
from recap.target import Target
from recap.types import Limits, Output, Request
from recap.verify import accept


def no_clock(phase: str) -> None:
    """Charge the time since the last call to `phase`: the clock of a run that is not timed."""


def generate(target: Target, drafter: Drafter, request: Request, limits: Limits, clock=no_clock) -> Output:
    """Decode one request greedily; the ids equal plain decoding's, whatever the drafter proposes.

    `clock(phase)` is called at the end of every phase: vision, prefill, draft, verify, commit, observe.
    """
    stop_ids = np.array(limits.stop_ids, np.int64)
    rows = target.prefill(request, drafter.wants(request), drafter.top_k, clock)
    clock("prefill")
    tokens = [int(rows.ids[-1, 0])]
    drafter.begin(request, limits, rows)
    clock("observe")
    steps = []
    while tokens[-1] not in limits.stop_ids and (room := limits.max_new_tokens - len(tokens)) > 0:
        draft = drafter.propose(room)
        clock("draft")
        rows = target.verify(tokens[-1], draft, drafter.top_k)
        clock("verify")
        step = accept(draft, rows, stop_ids, room)
        target.keep(step.path)
        clock("commit")
        drafter.observe(rows, step)
        clock("observe")
        tokens += step.committed.tolist()
        steps.append(step)
    drafter.end()
    target.reset()
    assert len(tokens) == 1 + sum(len(step.committed) for step in steps), "tokens and steps disagree"
    return Output(np.array(tokens, np.int64), tuple(steps))
