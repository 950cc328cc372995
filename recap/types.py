"""The nouns that cross layers: Request, Limits, Rows, Draft, Step, Output. Nothing else does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Request:
    """One generation. In multi-turn data every turn is a request.

    prompt        ids [n], placeholders expanded to one id per visual token
    vocab_size    width of the model's logits; every id is below it
    placeholders  image and video ids: never a candidate, never part of a key or of a suffix match
    inputs        what the model's forward takes beside the ids at prefill (pixel_values and the like), on its device
    """

    prompt: Ints
    vocab_size: int
    placeholders: tuple[int, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.prompt.ndim != 1 or self.prompt.size == 0:
            raise ValueError(f"prompt: one non-empty sequence of ids is needed, got shape {self.prompt.shape}")

    def masked(self) -> Ints:
        """The prompt with every placeholder replaced by -1."""
        return np.where(np.isin(self.prompt, self.placeholders), -1, self.prompt)


@dataclass(frozen=True, slots=True)
class Limits:
    """When a generation ends: after `max_new_tokens` tokens, or with the first of `stop_ids` (which is emitted)."""

    max_new_tokens: int
    stop_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: at least 1 is needed, got {self.max_new_tokens}")


@dataclass(frozen=True, slots=True)
class Rows:
    """The target's predictions at n positions.

    ids    [n, K] int32, logits descending, equal logits by lower id; column 0 is the greedy choice
    probs  [n, K] float32, softmax over those K logits only
    """

    ids: NDArray[np.int32]
    probs: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Draft:
    """A tree of n proposed tokens in packed order; the root is not among them.

    tokens   [n] int64
    parents  [n] int32, index of the parent node, always smaller than the node's own; -1 is the root
    sources  [n] int8, bits of `SOURCES`: the memories whose rows hold the token
    """

    tokens: Ints
    parents: NDArray[np.int32]
    sources: NDArray[np.int8]
    acceptable: int | None = None  # only so many leading nodes may be accepted: the rest are there for their rows

    def __len__(self) -> int:
        return len(self.tokens)


SOURCES = {"M1": 1, "M2": 2, "M3": 4, "suffix": 8}

EMPTY_DRAFT = Draft(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int8))


@dataclass(frozen=True, slots=True)
class Step:
    """What one verification pass settled.

    path       [a] int32, accepted nodes from the root down, after the cut
    committed  [c] int64, tokens emitted by the step, after the cut; c = a + 1, or a where the cut fell inside the draft
    agreed     nodes that agreed with the target before the cut
    """

    draft: Draft
    path: NDArray[np.int32]
    committed: Ints
    agreed: int


@dataclass(frozen=True, slots=True)
class Output:
    """A finished generation: the emitted ids [m] and the steps that made them (the first id came from prefill)."""

    tokens: Ints
    steps: tuple[Step, ...]
