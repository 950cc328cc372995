"""Decoding once more with eyes open: the raw logits behind every token of a side, and an independent reckoning of them.

The independent passes share nothing with the side under suspicion but the model's own layers: transformers' cache,
positions of the whole sequence, their own mask. Logits are read at the output layer, before anything can process them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from transformers import DynamicCache

from recap.decode import generate
from recap.drafter import Drafter
from recap.targets import TreeTarget
from recap.types import EMPTY_DRAFT, Draft, Ints, Limits, Output, Request, Rows, Step


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one side showed when it was run again.

    tokens  [m] the emitted ids
    logits  [m, vocab] the raw logits behind each of them
    chosen  [m] the target's choice by those logits
    """

    tokens: Ints
    logits: torch.Tensor
    chosen: Ints


class OutputLayer:
    """Sees the output layer of a model while it is open; `passes` holds [rows, vocab] a pass."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._layer = model.get_output_embeddings()
        self.passes: list[torch.Tensor] = []

    def __enter__(self) -> "OutputLayer":
        self._hook = self._layer.register_forward_hook(self._see)
        return self

    def __exit__(self, *_) -> None:
        self._hook.remove()

    def take(self) -> torch.Tensor:
        """The last pass's logits; all earlier ones are dropped."""
        last = self.passes[-1]
        self.passes.clear()
        return last

    def _see(self, _layer, _inputs, logits: torch.Tensor) -> None:
        self.passes.append(logits[0].clone())  # what comes after may work in place


class Repeat(Drafter):
    """Proposes recorded drafts one after the other and keeps what decided each token."""

    def __init__(self, layer: OutputLayer, wanted: Ints, top_k: int, drafts: Sequence[Draft]) -> None:
        self.top_k = top_k
        self.logits: list[torch.Tensor] = []
        self.chosen: list[Ints] = []
        self._layer, self._wanted, self._drafts = layer, wanted, iter(drafts)

    def wants(self, request: Request) -> Ints:
        return self._wanted

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self._keep(rows, np.array([len(rows) - 1]))

    def propose(self, room: int) -> Draft:
        return next(self._drafts, EMPTY_DRAFT)

    def observe(self, rows: Rows, step: Step) -> None:
        self._keep(rows, np.concatenate(([0], step.path + 1))[: len(step.committed)])

    def _keep(self, rows: Rows, which: Ints) -> None:
        logits = self._layer.take()
        self.logits.append(_at_full_precision(logits[torch.from_numpy(which).to(logits.device)]))
        self.chosen.append(rows.ids[which, 0].astype(np.int64))


def again(target: TreeTarget, drafter: Drafter, output: Output, request: Request, limits: Limits) -> Evidence:
    """Decode a request as it was decoded before, draft for draft, whatever the drafter has learnt since."""
    drafts = [step.draft for step in output.steps]
    with OutputLayer(target.model) as layer:
        repeat = Repeat(layer, drafter.wants(request), drafter.top_k, drafts)
        tokens = generate(target, repeat, request, limits).tokens
    return Evidence(tokens, torch.cat(repeat.logits), np.concatenate(repeat.chosen))


def evidence_of(tokens: Ints, emitted: Sequence[int], passes: Sequence[torch.Tensor]) -> Evidence:
    """The evidence of an outside peer, whose choices show in what it emitted only: so many ids a pass after prefill."""
    emitted = [len(tokens) - sum(emitted), *emitted]
    rows = [_at_full_precision(logits[:count]) for count, logits in zip(emitted, passes, strict=True)]
    return Evidence(tokens, torch.cat(rows), tokens)


@torch.inference_mode()
def forced(target: TreeTarget, request: Request, tokens: Ints, sizes: Sequence[int], wanted: Ints) -> torch.Tensor:
    """Raw logits [m, vocab] that predict each of `tokens` [m] after the ones before it.

    sizes   tokens a pass behind the prompt, over and over; passes of several rows carry a mask, as packed ones do
    wanted  further prompt positions that go through the output layer with the last one
    """
    model, start = target.model, len(request.prompt)
    ids = np.concatenate([request.prompt, tokens[:-1]])
    positions = target.prompt_positions(replace(request, prompt=ids))
    cache = DynamicCache(config=target.text)
    extra = {name: value for name, value in request.inputs.items() if name != "position_ids"}
    extra["logits_to_keep"] = target.selection(np.append(wanted, start - 1))
    kept, begin, end, number = [], 0, start, 0
    with OutputLayer(model) as layer:
        while begin < len(ids):
            model(
                input_ids=torch.from_numpy(ids[None, begin:end]).to(model.device),
                position_ids=positions[..., begin:end],
                attention_mask=_causal(model, begin, end) if begin and end - begin > 1 else None,
                **{target.cache_name: cache},
                use_cache=True,
                **extra,
            )
            logits = layer.take()
            kept.append(_at_full_precision(logits if begin else logits[-1:]))
            begin, end, number, extra = end, min(end + sizes[number % len(sizes)], len(ids)), number + 1, {}
    return torch.cat(kept)


def _causal(model: torch.nn.Module, begin: int, end: int) -> torch.Tensor:
    """Additive mask [1, 1, end - begin, end]: what came before and itself."""
    later = torch.arange(end, device=model.device) > torch.arange(begin, end, device=model.device)[:, None]
    mask = torch.zeros(later.shape, dtype=model.dtype, device=model.device)
    return mask.masked_fill_(later, torch.finfo(model.dtype).min)[None, None]


def _at_full_precision(logits: torch.Tensor) -> torch.Tensor:
    """On the host, and wide enough to subtract: float32, or float64 where they are that already."""
    return logits.to("cpu", torch.promote_types(logits.dtype, torch.float32))
