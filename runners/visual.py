"""How many visual tokens inputs will have, before any of them is decoded: from image sizes and the processor's rule."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from runners.benches.base import Row
from runners.models import Model


@dataclass(frozen=True, slots=True)
class Load:
    """Visual tokens of a run's inputs: one number an input, and the row with the most; unreadable rows left out."""

    tokens: tuple[int, ...]
    worst: str

    def __str__(self) -> str:
        low, median, most = np.percentile(self.tokens, [0, 50, 100], method="nearest")
        return (
            f"visual tokens an input: median {median}, from {low} to {most}; the worst case is row {self.worst} "
            f"({len(self.tokens)} inputs)"
        )


def visual_load(model: Model, rows: Iterable[Row]) -> Load | None:
    """The load of these rows, from the headers of their images; None where no row has one that can be read."""
    tokens, worst = [], ""
    for row in rows:
        try:
            sizes = [image.size for image in row.open_images()]
            count = sum(model.visual_tokens(sizes)) if sizes else 0
        except Exception:  # whatever a damaged file raises; the row is reported when its turn comes
            continue
        if count > max(tokens, default=-1):
            worst = row.id
        tokens.append(count)
    return Load(tuple(tokens), worst) if tokens else None
