"""transformers' own greedy `generate` on the same inputs: the check that our plain decoding is no strawman."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

from recap.types import Limits


@dataclass(frozen=True, slots=True)
class Peer:
    """One input decoded by `generate` beside our AR.

    tokens     emitted ids, the same number on both sides when equal
    equal      whether `generate` emitted AR's ids
    decode_ns, ar_decode_ns   time after the first token, for tokens - 1 tokens
    """

    tokens: int
    equal: bool
    decode_ns: int
    ar_decode_ns: int


class TransformersGenerate:
    """Runs `generate` under our contract: greedy, our stop ids and cap, every processor of the checkpoint off."""

    def __init__(self, model, limits: Limits) -> None:
        self._model = model
        self._config = GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=limits.max_new_tokens,
            eos_token_id=list(limits.stop_ids) or None,
            pad_token_id=limits.stop_ids[0] if limits.stop_ids else 0,
            repetition_penalty=1.0,  # left out, the checkpoint's own value would come in
            no_repeat_ngram_size=0,
        )

    def run(self, inputs: Mapping[str, Any], expected: np.ndarray, ar_phases_ns: Mapping[str, int]) -> Peer:
        """Decode `inputs` and hold the result against AR's ids and phases."""
        device = self._model.device
        moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
        first = _FirstToken()
        ids = self._model.generate(
            **moved, generation_config=self._config, stopping_criteria=StoppingCriteriaList([first])
        )
        _wait(device)
        spent = time.perf_counter_ns() - first.at
        tokens = ids[0, moved["input_ids"].shape[1] :].cpu().numpy()
        decode = sum(ns for phase, ns in ar_phases_ns.items() if phase not in ("vision", "prefill"))
        return Peer(len(tokens), bool(np.array_equal(tokens, expected)), spent, decode)


class _FirstToken(StoppingCriteria):
    """Notes when the first token is out; stops nothing."""

    def __init__(self) -> None:
        self.at = 0

    def __call__(self, input_ids, scores, **kwargs):
        if not self.at:
            _wait(input_ids.device)
            self.at = time.perf_counter_ns()
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
