"""Library use: `recap.generate` on a loaded transformers model, alone or inside `model.generate`."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from recap.cost import measure
from recap.decode import generate as decode
from recap.drafter import Drafter, Recap
from recap.targets import target_for
from recap.types import Limits

OWN_CRITERIA = ("MaxLengthCriteria", "EosTokenCriteria")  # what transformers makes of max_new_tokens and eos_token_id
OWN_CACHE = "DynamicCache"  # what transformers makes where none is asked for


def generate(
    model,
    inputs: Mapping[str, Any],
    max_new_tokens: int = 200,
    drafter: Drafter | None = None,
    stop_ids: Sequence[int] | None = None,
    engine: str = "eager",
) -> torch.Tensor:
    """Greedy decoding with a drafter; returns ids [1, prompt + new] as `model.generate` does.

    The ids equal `model.generate(**inputs, do_sample=False, repetition_penalty=1.0)`.

    inputs    what the model's processor or tokenizer returned, batch of one
    drafter   keeps its memory from call to call; by default a new `Recap()`, which knows nothing yet. One that weighs
              its drafts by their cost has it measured on `model` at its first call
    stop_ids  by default the model's own, from its generation config
    engine    'eager', or 'compiled', which is built anew by every call: to keep it, build `recap.target_for(model,
              "compiled")` once and call `recap.decode.generate`
    Raises ValueError for a model or inputs that cannot be decoded.
    """
    if stop_ids is None:
        stop_ids = own_stop_ids(model)
    limits = Limits(max_new_tokens, tuple(stop_ids))
    target = target_for(model, engine)
    drafter = drafter or Recap()
    if most := drafter.unpriced():
        drafter.calibrate(measure(target, most, drafter.top_k))
    output = decode(target, drafter, target.request(inputs, limits), limits)
    ids = inputs["input_ids"]
    return torch.cat([ids, torch.from_numpy(output.tokens).to(ids.device)[None]], dim=1)


def custom_generate(
    model, input_ids, logits_processor=None, stopping_criteria=None, generation_config=None, drafter=None, **inputs
):
    """For `model.generate(**inputs, custom_generate=recap.custom_generate, drafter=...)`.

    Greedy and exact, so sampling, beams, logits processors and stopping criteria are refused, by name.
    """
    config = generation_config
    if config.do_sample or config.num_beams > 1 or config.num_return_sequences > 1:
        raise ValueError("recap decodes greedily: set do_sample=False, num_beams=1, num_return_sequences=1")
    if config.return_dict_in_generate:
        raise ValueError("recap returns ids only: set return_dict_in_generate=False")
    if logits_processor:
        names = ", ".join(map(_name, logits_processor))
        raise ValueError(f"recap applies no logits processors, but these are set: {names}; try repetition_penalty=1.0")
    others = [name for name in map(_name, stopping_criteria or ()) if name not in OWN_CRITERIA]
    if others:
        raise ValueError(f"recap stops at eos_token_id and max_new_tokens only, but these are set: {', '.join(others)}")
    stop = config.eos_token_id
    stop_ids = [] if stop is None else [stop] if isinstance(stop, int) else list(stop)
    room = config.max_length - input_ids.shape[1]
    for name in ("cache", "past_key_values"):
        _check_cache(inputs.pop(name, None))
    for name in ("use_cache", "logits_to_keep"):  # the target has its own
        inputs.pop(name, None)
    return generate(model, {"input_ids": input_ids, **inputs}, room, drafter, stop_ids)


def own_stop_ids(model) -> tuple[int, ...]:
    """The stop ids of the model's generation config."""
    stop = model.generation_config.eos_token_id
    return () if stop is None else (stop,) if isinstance(stop, int) else tuple(stop)


def _check_cache(cache) -> None:
    """Refuse a cache that someone chose or filled: the target has its own, which can drop rejected rows."""
    if cache is not None and (_name(cache) != OWN_CACHE or cache.get_seq_length()):
        raise ValueError(
            f"recap decodes with a KV cache of its own, not with a {_name(cache)} of {cache.get_seq_length()} rows: "
            "leave past_key_values and cache_implementation unset"
        )


def _name(thing) -> str:
    return type(thing).__name__
