"""Faults planted beneath the contract: the sides of a pair agree on every field of it, and one is not what it says.

A fault of a target is a class to put before its family, as in `planted(WrongPosition, model, since=3, by=1)`: it
strikes from that pass after prefill on, at every pass that it can.
"""

import numpy as np
import torch

from recap.targets import TreeTarget, target_for
from recap.types import EMPTY_DRAFT


class Fault:
    """Knows which pass it is in (-1 is prefill), what has been committed and what is drafted."""

    def __init__(self, model, since: int) -> None:
        super().__init__(model)
        self.since = since

    def prefill(self, request, positions, top_k, clock):
        self.number, self.draft = -1, EMPTY_DRAFT
        self.history = request.prompt.tolist()
        return super().prefill(request, positions, top_k, clock)

    def verify(self, root, draft, top_k):
        self.number += 1
        self.history.append(root)
        self.draft = draft
        return super().verify(root, draft, top_k)

    def keep(self, path):
        self.history += self.draft.tokens[path].tolist()
        super().keep(path)

    @property
    def strikes(self) -> bool:
        return self.number >= self.since


class WrongPosition(Fault):
    """Rotary positions lie `by` off."""

    def __init__(self, model, since: int, by: int) -> None:
        super().__init__(model, since)
        self.by = by

    def positions(self, slots):
        return super().positions(slots + self.by * self.strikes)


class RowNotDropped(Fault):
    """The first rejected node stays cached behind the accepted ones."""

    def keep(self, path):
        rejected = np.setdiff1d(np.arange(len(self.draft)), path)[: int(self.strikes)]
        super().keep(np.append(path, rejected).astype(np.int32))


class RowNotMoved(Fault):
    """Accepted nodes stay where they were verified, so what lies in their place is read for them."""

    def keep(self, path):
        super().keep(np.arange(len(path), dtype=np.int32) if self.strikes else path)


class Penalty(Fault):
    """A repetition penalty on every row, as transformers applies it; `in_place` overwrites the model's own logits."""

    def __init__(self, model, since: int, penalty: float, in_place: bool = False) -> None:
        super().__init__(model, since)
        self.penalty, self.in_place = penalty, in_place

    def forward(self, input_ids, **inputs):
        logits = super().forward(input_ids, **inputs)
        logits = logits if self.in_place else logits.clone()
        if self.strikes:
            for row in self.processed(len(logits)):
                seen = torch.tensor(sorted({*self.history, *self.above(row)}))
                score = logits[row, seen]
                logits[row, seen] = torch.where(score > 0, score / self.penalty, score * self.penalty)
        return logits

    def processed(self, rows: int) -> range:
        """The rows it is applied to; of the prompt's rows the last alone decides."""
        return range(rows) if self.number >= 0 else range(rows - 1, rows)

    def above(self, row: int) -> list[int]:
        """Drafted tokens on the path to a row, its own included."""
        node, path = row - 1 if self.number >= 0 else -1, []
        while node >= 0:
            path.append(int(self.draft.tokens[node]))
            node = int(self.draft.parents[node])
        return path


class FirstPositionPenalty(Penalty):
    """The same, but of a drafted pass only the first position is processed."""

    def processed(self, rows: int) -> range:
        return range(1 if len(self.draft) else 0)


class LastOfEquals(Fault):
    """Of equal best logits the highest id is chosen."""

    def forward(self, input_ids, **inputs):
        logits = super().forward(input_ids, **inputs).clone()
        if self.strikes:
            best = logits == logits.max(dim=1, keepdim=True).values
            last = logits.shape[1] - 1 - best.flip(1).int().argmax(dim=1)
            logits[best & (torch.arange(logits.shape[1]) != last[:, None])] = torch.finfo(logits.dtype).min
        return logits


class Noise(Fault):
    """Logits that another run does not see again, by far more than rounding."""

    def forward(self, input_ids, **inputs):
        logits = super().forward(input_ids, **inputs)
        return logits + torch.randn_like(logits) if self.strikes else logits


class NotFinite(Fault):
    """Logits are NaN in a request whose prompt has so many tokens."""

    def __init__(self, model, since: int, prompt_tokens: int) -> None:
        super().__init__(model, since)
        self.prompt_tokens = prompt_tokens

    def prefill(self, request, positions, top_k, clock):
        self.sick = len(request.prompt) == self.prompt_tokens
        return super().prefill(request, positions, top_k, clock)

    def forward(self, input_ids, **inputs):
        logits = super().forward(input_ids, **inputs)
        return logits * torch.nan if self.strikes and self.sick else logits


def planted(fault: type[Fault], model, **options) -> TreeTarget:
    """The model's own target with a fault."""
    family = type(target_for(model))
    return type(fault.__name__, (fault, family), {})(model, **options)


def with_equal_rows(model, one: int, other: int):
    """The model with two equal rows in its output layer, in place."""
    with torch.no_grad():
        head = model.get_output_embeddings().weight
        head[other] = head[one]
    return model
