"""M1 against M2/M3 at one state: what either proposes, what the image has to do with it, what either would win."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from recap.fusion import new_fusion
from recap.tree import grow, new_shape
from recap.types import Ints
from runners.recall import ALONE, ColdMemory, states
from runners.replay import depths
from runners.traces import Setting, Trace

BUDGET, DEPTH, WIDTH = 63, 10, 8  # the tree of the method's own defaults
SMALLEST, OVERLAP = 2, 0.25  # candidates a source needs; share of them that both may hold


class Source(NamedTuple):
    """A memory and how its rows become candidates."""

    memory: ColdMemory
    fusion: np.void  # of recap.fusion.FUSION


def tree(source: Source, at: int, budget: int = BUDGET) -> tuple[Ints, NDArray[np.int32]]:
    """Tokens and parents of the method's best-first tree from one source, under token `at` of the path."""
    shape = new_shape(budget, DEPTH, WIDTH, best_first=True, edge_guard=True, authors=True)
    tokens, parents, _ = grow(source.memory.maps, source.fusion, shape, *source.memory.contexts[at])
    return tokens, parents


def compare(trace: Trace, setting: Setting, logits: dict[str, torch.Tensor]) -> Iterator[dict]:
    """One line for every state at which both sources propose, at equal size, and mostly different tokens.

    logits  [m, vocab] after every token of the path, under the images 'true', 'wrong' and 'mean'
    A drop is a source's log mass under the true image minus that under another. Tokens are accepted from trees that
    are grown at the budget which the smaller of the two fills.
    """
    specific = Source(ColdMemory(trace, setting, trace.rows, trace.seed, m1=False), new_fusion())
    general = Source(ColdMemory(trace, setting, trace.rows, trace.seed), ALONE)
    sources = {"specific": specific, "general": general}
    for at, _ in states(trace):
        found = {name: source.memory.fused(source.fusion, at) for name, source in sources.items()}
        size = min(map(len, found.values()))
        shared = np.intersect1d(*(ids[:size] for ids in found.values()))
        if size >= SMALLEST and len(shared) <= OVERLAP * size:
            line = {"at": at, "size": size}
            for name, ids in found.items():
                mass = {image: log_mass(values[at], ids[:size]) for image, values in logits.items()}
                line |= {f"{name}_drop_{image}": mass["true"] - mass[image] for image in ("wrong", "mean")}
            yield line | _accepted(trace, sources, at)
        for source in sources.values():
            source.memory.learn(at)


def log_mass(logits: torch.Tensor, ids: Ints) -> float:
    """Log of the share of the softmax over `logits` [vocab] that `ids` hold."""
    values = logits.double()
    return float(values[torch.from_numpy(ids).to(values.device)].logsumexp(0) - values.logsumexp(0))


def _accepted(trace: Trace, sources: dict[str, Source], at: int) -> dict[str, int]:
    coming = trace.tokens[at + 1 :]
    budget = min(len(tree(source, at)[0]) for source in sources.values())
    grown = {name: tree(source, at, budget) for name, source in sources.items()}
    return {"budget": budget} | {f"{name}_accepted": int(depths(*each, coming).max()) for name, each in grown.items()}
