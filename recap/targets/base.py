"""A transformers model as a target: packed tree passes through its own forward, nothing patched.

A family file names its model class and its positions; everything else is here.
"""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from recap.targets.engines import engine_of
from recap.targets.rows import top_rows
from recap.targets.slots import SlotCache
from recap.types import Draft, Ints, Limits, Request, Rows
from recap.verify import pack

DROPPED = {"input_ids", "attention_mask", "position_ids", "mm_token_type_ids"}  # rebuilt here
TREE_BACKENDS = ("sdpa", "eager")  # attention that takes an additive 4D mask


class TreeTarget:
    """Implements `recap.target.Target` for one family. `text` is the config of the language model.

    engine  'eager': every pass runs through the model's own forward; 'compiled': verification passes do not, see
            `recap.targets.engines`
    """

    classes: ClassVar[tuple[str, ...]]  # names of the transformers classes it serves
    vision: ClassVar[str | None] = None  # the module whose end marks the end of vision encoding
    dropped: ClassVar[set[str]] = DROPPED
    shift = 0  # what the positions of this request's rows have on their slots

    def __init__(self, model: torch.nn.Module, engine: str = "eager") -> None:
        self.model = model
        self.text = model.config.get_text_config()
        check_rollback(type(model).__name__, self.text)
        check_tree_pass(type(model).__name__, self.text)
        self.vocab_size = model.get_output_embeddings().weight.shape[0]
        self.placeholders = self.find_placeholders()
        self._spread = len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1
        self.parted = self._spread or (getattr(model, "_tp_size", None) or 1) > 1
        self._decoder, self._embedding = model.get_decoder(), model.get_input_embeddings()
        self._head = model.get_output_embeddings()
        self.cache = SlotCache(self.text.num_hidden_layers, together=not self._spread)
        # transformers renamed the argument; the model says which name it takes
        parameters = inspect.signature(model.forward).parameters
        self.cache_name = "cache" if "cache" in parameters else "past_key_values"
        self.engine = engine_of(self, engine)

    # what a family decides

    def find_placeholders(self) -> tuple[int, ...]:
        """Ids that stand for image and video features."""
        return ()

    def prompt_positions(self, request: Request) -> torch.Tensor:
        """Position ids of the prompt, as forward takes them."""
        return torch.arange(len(request.prompt), device=self.model.device)[None]

    def positions(self, slots: torch.Tensor) -> torch.Tensor:
        """Position ids of rows that stand at `slots` [n] (cached length + depth)."""
        return self.planes(slots + self.shift)

    def planes(self, positions: torch.Tensor) -> torch.Tensor:
        """Positions [n] as forward takes them."""
        return positions[None]

    # what the decode loop asks

    def request(self, inputs: Mapping[str, Any], limits: Limits) -> Request:
        """A request from what the processor returned. Raises ValueError for what cannot be decoded."""
        ids = inputs["input_ids"]
        if ids.ndim != 2 or ids.shape[0] != 1:
            raise ValueError(f"batch size: one sequence at a time, got input_ids of shape {tuple(ids.shape)}")
        mask = inputs.get("attention_mask")
        if mask is not None and not bool((mask == 1).all()):
            raise ValueError("attention_mask: padding is not supported, pass one unpadded sequence")
        prompt = ids[0].cpu().numpy().astype(np.int64)
        longest = self.text.max_position_embeddings
        if len(prompt) + limits.max_new_tokens > longest:
            raise ValueError(
                f"prompt of {len(prompt)} tokens with max_new_tokens={limits.max_new_tokens}: "
                f"the model has {longest} positions; shorten the prompt, its images, or max_new_tokens"
            )
        if ((prompt < 0) | (prompt >= self.vocab_size)).any():
            raise ValueError(f"input_ids: ids must lie in [0, {self.vocab_size}); is this the model's own tokenizer?")
        extra = {k: _to(v, self.model.device) for k, v in inputs.items() if k not in self.dropped and v is not None}
        return Request(prompt, self.vocab_size, self.placeholders, extra)

    def selection(self, rows: Ints) -> torch.Tensor | Ints:
        """Rows whose logits are wanted, as forward takes them.

        On a model spread over devices the states that they select lie on another device than the inputs, to which a
        tensor would be moved; an array stays on the host, from where it selects on any device.
        """
        return rows if self._spread else torch.from_numpy(rows).to(self.model.device)

    @torch.inference_mode()
    def prefill(self, request: Request, positions: Ints, top_k: int, clock) -> Rows:
        self.cache.erase()
        wanted = np.append(positions, len(request.prompt) - 1)
        hook = self._mark_vision(clock)
        try:
            logits = self.forward(
                input_ids=torch.from_numpy(request.prompt).to(self.model.device)[None],
                attention_mask=None,  # plain causal
                logits_to_keep=self.selection(wanted),
                **{**request.inputs, "position_ids": self.prompt_positions(request)},
            )
        finally:
            if hook is not None:
                hook.remove()
        self.cache.append(len(request.prompt))
        return top_rows(logits, top_k)

    @torch.inference_mode()
    def verify(self, root: int, draft: Draft, top_k: int) -> Rows:
        return self.engine.run(pack(root, draft.tokens, draft.parents), top_k)

    @torch.inference_mode()
    def keep(self, path: NDArray[np.int32]) -> None:
        self.cache.keep(path)

    def reset(self) -> None:
        self.cache.reset()

    def run(self, plan: NDArray[np.int32], top_k: int) -> Rows:
        """One pass over a plan of `recap.verify.pack`, through the model's own forward."""
        length = self.cache.length
        on_device = torch.from_numpy(plan).to(self.model.device, non_blocking=True)
        logits = self.forward(
            input_ids=on_device[None, :, 0].long(),
            position_ids=self.positions(on_device[:, 1].long() + length),
            attention_mask=self._mask(on_device[:, 2:], length) if len(plan) > 1 else None,
        )
        return top_rows(logits, top_k)

    def prepare(self, rows: int) -> None:
        """Nothing needs to be made ready for the model's own forward."""

    def forward(self, input_ids: torch.Tensor, **inputs) -> torch.Tensor:
        """Logits [n, vocab] of the model's own forward, whose keys and values go behind the cached ones.

        Positions and mask alone go straight to its language model, since the way there looks for images; a model in
        parts is entered at its door, where its parts are joined.
        """
        own = {self.cache_name: self.cache, "use_cache": True}
        if self.parted or inputs.keys() > {"position_ids", "attention_mask"}:
            return self.model(input_ids=input_ids, **inputs, **own).logits[0]
        states = self._decoder(inputs_embeds=self._embedding(input_ids), **inputs, **own).last_hidden_state
        return self._head(states)[0]

    # inside

    def _mask(self, ancestors: torch.Tensor, length: int) -> torch.Tensor:
        """Additive 4D mask [1, 1, n, length + n]: the prefix, the ancestors and itself."""
        n = len(ancestors)
        mask = torch.zeros(n, length + n, dtype=self.model.dtype, device=ancestors.device)
        mask[:, length:].masked_fill_(ancestors == 0, torch.finfo(self.model.dtype).min)
        return mask[None, None]

    def _mark_vision(self, clock):
        if self.vision is None:
            return None

        def mark(*_) -> None:  # a hook that returned something would replace the module's output
            clock("vision")

        return self.model.get_submodule(self.vision).register_forward_hook(mark)


def check_rollback(name: str, config) -> None:
    """Refuse a model whose cache cannot drop rejected rows, naming the layer type."""
    for kind in getattr(config, "layer_types", None) or ():
        if kind != "full_attention":
            raise ValueError(
                f"{name} has layers of type {kind!r}: their state cannot drop rejected tokens, "
                "so drafts cannot be verified on it; models of full-attention layers are supported"
            )
    window = getattr(config, "sliding_window", None)
    if window is not None and getattr(config, "use_sliding_window", True):
        raise ValueError(f"{name} has sliding_window={window}: layers of type 'sliding_attention' cannot drop rows")


def check_tree_pass(name: str, config) -> None:
    """Refuse a model on which a row of a pass would depend on more than its ancestors."""
    backend = config._attn_implementation
    if backend not in TREE_BACKENDS:
        raise ValueError(
            f"{name} has attn_implementation={backend!r}, which takes no tree mask; use {' or '.join(TREE_BACKENDS)}"
        )
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if "dynamic" in rope or rope == "longrope":
        raise ValueError(
            f"{name} has rope_type={rope!r}: its rotation changes with the longest position of a pass, "
            "so a draft would change the rows above it"
        )


def _to(value, device):
    return value.to(device) if isinstance(value, torch.Tensor) else value
