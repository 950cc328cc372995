"""What the decode loop asks of a model."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recap.types import Draft, Ints, Request, Rows


class Target(Protocol):
    """A model with a cache that can drop rows. Rows are greedy and free of any logits processing."""

    def prefill(self, request: Request, positions: Ints, top_k: int, clock) -> Rows:
        """Encode the images, run the prompt, cache it; rows at `positions` and, last, at the prompt's end."""
        ...

    def verify(self, root: int, draft: Draft, top_k: int) -> Rows:
        """One pass over [root, nodes...]: every row sees the cached prefix, its ancestors and itself."""
        ...

    def keep(self, path: NDArray[np.int32]) -> None:
        """Cache the root and the accepted nodes of the last pass, drop its other rows."""
        ...

    def reset(self) -> None:
        """Forget the request."""
        ...
