"""transformers' own decoding on the same inputs: greedy `generate`, and its prompt lookup.

Measured beside our methods and held to AR's ids like any of them. It brings its own cache class, so its rows are
labelled `peer` and never stand for a published method.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.generation.streamers import BaseStreamer

from recap.options import check_options
from recap.types import Limits
from runners.records import Side
from runners.verdict import Verdict

BEFORE = ("vision", "prefill")  # phases before the first token


class Refused(Exception):
    """transformers does not decode this input this way."""


@dataclass(frozen=True, slots=True)
class Check:
    """One input decoded by `generate` beside our AR: times after the first token, for tokens - 1 tokens."""

    tokens: int
    verdict: Verdict
    decode_ns: int
    ar_decode_ns: int

    @staticmethod
    def of(peer: Side, plain: Side, verdict: Verdict) -> "Check":
        """What two decodings of one input come to."""
        spent = (sum(ns for phase, ns in side.phases_ns.items() if phase not in BEFORE) for side in (peer, plain))
        return Check(len(peer.tokens), verdict, *spent)


class TransformersGenerate:
    """`generate` under our contract: greedy, our stop ids and cap, every processor of the checkpoint off.

    prompt_lookup  tokens that its prompt lookup drafts; 0 = plain greedy decoding
    """

    differs: ClassVar[dict[str, str]] = {"cache": "DynamicCache", "engine": "eager"}  # of a contract

    def __init__(self, prompt_lookup: int = 0) -> None:
        check_options(TransformersGenerate.__init__, locals())
        self._prompt_lookup = prompt_lookup

    def decode(self, model, inputs: Mapping[str, Any], limits: Limits, clock) -> tuple[np.ndarray, list[int]]:
        """Emitted ids, and how many of them each pass after prefill emitted. Raises Refused where transformers does.

        Its first lookup happens before prefill, which may then emit several tokens; those stand for no pass.
        """
        config = GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=limits.max_new_tokens,
            eos_token_id=list(limits.stop_ids) or None,
            pad_token_id=limits.stop_ids[0] if limits.stop_ids else 0,
            prompt_lookup_num_tokens=self._prompt_lookup or None,
        )
        passes = _Passes(clock)
        own, model.generation_config = model.generation_config, GenerationConfig()  # else its values fill what is unset
        try:
            ids = model.generate(**inputs, generation_config=config, streamer=passes)
        except ValueError as error:
            raise Refused(str(error).strip().splitlines()[0]) from error
        finally:
            model.generation_config = own
            if hasattr(model, "model") and hasattr(model.model, "rope_deltas"):
                model.model.rope_deltas = None  # state that `generate` leaves on the model
        return ids[0, inputs["input_ids"].shape[1] :].cpu().numpy(), passes.emitted[1:]

    def reset(self) -> None:
        """It remembers nothing."""

    def memory(self) -> dict:
        return {"rows": {}, "bytes": 0}


class _Passes(BaseStreamer):
    """Marks the clock whenever a pass has emitted its tokens; the first call holds the prompt."""

    def __init__(self, clock) -> None:
        self._clock = clock
        self._prompt_seen = False
        self.emitted: list[int] = []

    def put(self, value: torch.Tensor) -> None:
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        self._clock("verify" if self.emitted else "prefill")
        self.emitted.append(value.numel())

    def end(self) -> None:
        """Nothing is held back."""
