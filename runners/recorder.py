"""Takes the trace of one request, after the measurement and in a pass of its own that no clock sees.

The prompt is run again and the tokens that AR emitted are verified as one chain.
"""

import numpy as np
import torch

from baselines.token_recycling import last_positions
from recap.decode import generate
from recap.drafter import Drafter, Recap
from recap.target import Target
from recap.types import Draft, Ints, Limits, Request, Rows, Step
from runners.traces import TOP_K, Identity, Trace


class Recorder(Drafter):
    """Verifies tokens that are known already, and keeps the rows that it is shown."""

    def __init__(self, tokens: Ints, top_k: int = TOP_K) -> None:
        self.top_k = top_k
        self._known, self._seen, self._agrees = tokens, 0, True
        self.passes: list[tuple[Rows, Ints]] = []  # the rows of a pass and which of them lie on the path

    def wants(self, request: Request) -> Ints:
        return np.unique(np.concatenate((Recap().wants(request), last_positions(request))))

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self.positions = np.append(self.wants(request), len(request.prompt) - 1)
        self.passes = [(rows, np.arange(len(rows)))]
        self._placeholders = request.placeholders
        self._agree(rows.ids[-1:, 0])

    def propose(self, room: int) -> Draft:
        """All that is left, up to a placeholder; nothing once the target took another way, as rounding may make it."""
        chain = self._known[self._seen :] if self._agrees else self._known[:0]
        chain = chain[: np.append(np.flatnonzero(np.isin(chain, self._placeholders)), len(chain))[0]]
        return Draft(chain, np.arange(-1, len(chain) - 1, dtype=np.int32), np.zeros(len(chain), np.int8))

    def observe(self, rows: Rows, step: Step) -> None:
        self.passes.append((rows, np.append(0, step.path + 1)))
        self._agree(step.committed)

    def _agree(self, emitted: Ints) -> None:
        known = self._known[self._seen : self._seen + len(emitted)]
        self._agrees &= np.array_equal(emitted[: len(known)], known)
        self._seen += len(emitted)


class Logits:
    """While entered, the logits [n, vocab] of every pass of a model; `passes` holds the newest last."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._head = model.get_output_embeddings()
        self.passes: list[torch.Tensor] = []

    def __enter__(self) -> "Logits":
        self._hook = self._head.register_forward_hook(lambda _module, _args, out: self.passes.append(out[0]))
        return self

    def __exit__(self, *_) -> None:
        self._hook.remove()

    def masses(self, rows: list[Rows]) -> list[np.ndarray]:
        """For every pass the share of the full softmax that its rows' ids hold: exp(best - logsumexp) / probs[0]."""
        shares = []
        for logits, kept in zip(self.passes, rows, strict=True):
            logits = logits.float()
            best = torch.exp(logits.max(dim=-1).values - logits.logsumexp(dim=-1)).cpu().numpy()
            shares.append(best / kept.probs[:, 0])
        return shares


def record(target: Target, request: Request, tokens: Ints, identity: Identity, stop_ids=(), model=None) -> Trace:
    """The trace of a request that emitted `tokens`; `model`, where given, is asked for the rows' masses.

    The path is the target's own: where it leaves `tokens`, by rounding, the trace follows the target, up to a stop id.
    """
    recorder = Recorder(np.asarray(tokens, np.int64))
    limits = Limits(len(tokens) + 1)  # one more, so that the last token gets its row
    if model is None:
        output = generate(target, recorder, request, limits)
        masses = [np.full(len(rows), np.nan, np.float32) for rows, _ in recorder.passes]
    else:
        with Logits(model) as logits:
            output = generate(target, recorder, request, limits)
        masses = logits.masses([rows for rows, _ in recorder.passes])
    (seed, _), *passes = recorder.passes
    ids, probs = (np.concatenate([getattr(rows, name)[which] for rows, which in passes]) for name in ("ids", "probs"))
    mass = np.concatenate([mass[which] for mass, (_, which) in zip(masses[1:], passes, strict=True)])
    emitted = output.tokens[:-1]
    assert len(ids) == len(emitted) == len(tokens), "a row for every token"
    ends = np.flatnonzero(np.isin(emitted, stop_ids))
    m = ends[0] + 1 if len(ends) else len(emitted)
    return Trace(
        *identity,
        request.masked(),
        recorder.positions,
        seed,
        masses[0],
        emitted[:m],
        Rows(ids[:m], probs[:m]),
        mass[:m],
    )
