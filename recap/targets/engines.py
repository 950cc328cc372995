"""How verification passes run. Prefill always runs through the model's own forward.

eager     the model's own forward, operation by operation: the target itself
compiled  on a CPU one compiled pass over the model's own weights (`cpu.py`); on a CUDA device its own forward,
          captured as graphs (`cuda.py`)
"""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from recap.types import Rows

ENGINES = ("eager", "compiled")


class Engine(Protocol):
    """Runs the passes of one target, whose cache it reads and fills."""

    def run(self, plan: NDArray[np.int32], top_k: int) -> Rows:
        """One pass over a plan of `recap.verify.pack`."""
        ...

    def prepare(self, rows: int) -> None:
        """Between requests: make ready all that passes of up to `rows` rows need, so that none of them waits for it."""
        ...


def show(model: torch.nn.Module, logits: torch.Tensor | NDArray) -> None:
    """Give the logits [n, vocab] of a pass to the hooks of the output layer, which the pass went round."""
    head = model.get_output_embeddings()
    for hook in head._forward_hooks.values():
        hook(head, (), torch.as_tensor(logits)[None].clone())  # the next pass may use its memory again


def engine_of(target, name: str) -> Engine:
    """The engine of a target. Raises ValueError for an unknown name and for a model that it cannot serve."""
    if name not in ENGINES:
        raise ValueError(f"engine={name}: choose one of {', '.join(ENGINES)}")
    if name == "eager":
        return target
    kind = target.model.device.type
    if kind == "cpu":
        from recap.targets.cpu import CpuPasses

        return CpuPasses(target)
    if kind == "cuda":
        from recap.targets.cuda import GraphPasses

        return GraphPasses(target)
    raise ValueError(f"engine=compiled: there is none for a device of type {kind!r}; use engine=eager")
