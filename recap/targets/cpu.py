"""The compiled engine of a CPU: verification passes in float32 over packed copies of the language model's weights."""

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from recap.targets import kernels
from recap.targets.engines import show
from recap.targets.kernels import Sizes, Weights, new_scratch
from recap.targets.rows import top_rows
from recap.targets.tile import ROWS, panels
from recap.types import Rows
from recap.verify import pack, reach

TOLERANCE = 1e-4  # of the largest logit; rounding is near 1e-6


class CpuPasses:
    """Runs the passes of one target. The model's own modules stay as they are and still run the prefill.

    Raises ValueError for a model whose dtype or layers it does not compute.
    """

    def __init__(self, target) -> None:
        model, decoder = target.model, target.model.get_decoder()
        if model.dtype != torch.float32:
            raise ValueError(f"engine=compiled computes in float32 on a CPU, not in {model.dtype}; use engine=eager")
        self._target = target
        (self._slots,) = target.cache.parts
        try:
            self._weights = _weights(model, decoder)
        except AttributeError as error:
            raise ValueError(
                f"engine=compiled: {type(model).__name__} has other layers ({error}); use engine=eager"
            ) from error
        attention, config = decoder.layers[0].self_attn, target.text
        self._sizes = Sizes(
            config.num_attention_heads, config.num_key_value_heads, attention.head_dim,
            np.float32(attention.scaling), np.float32(decoder.norm.variance_epsilon),
        )  # fmt: skip
        self._rotary = decoder.rotary_emb
        self._scratch = new_scratch(ROWS, self._weights)
        self._cos = self._sin = np.empty((0, 0), np.float32)  # [positions, D]
        self._check()

    def run(self, plan: NDArray[np.int32], top_k: int) -> Rows:
        target, rows = self._target, -(-len(plan) // ROWS) * ROWS
        if rows > len(self._scratch.x):
            self._scratch = new_scratch(2 * rows, self._weights)
        length = target.cache.length
        kv = self._slots.room(length + rows + ROWS - 1).numpy()
        path, depth = reach(plan, rows)
        at = length + target.shift + depth
        self._extend_rotations(int(at.max()) + 1)
        numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
        kernels.run(
            self._weights, self._sizes, kv, plan[:, 0], length, path, depth, self._cos[at], self._sin[at], self._scratch
        )
        logits = self._scratch.logits[: len(plan), : target.vocab_size]
        show(target.model, logits)
        return top_rows(torch.from_numpy(logits), top_k)

    def prepare(self, rows: int) -> None:
        """Nothing is left to make ready: the check has compiled what there is."""

    @torch.inference_mode()
    def _check(self) -> None:
        """Hold a short pass to the model's own forward: a layer that does more than ours is found here, not in a run.

        It also compiles everything.
        """
        target = self._target
        tokens = np.setdiff1d(np.arange(ROWS + len(target.placeholders)), target.placeholders)[:ROWS]
        slots = torch.arange(ROWS)
        theirs = target.forward(
            input_ids=torch.from_numpy(tokens)[None], position_ids=target.positions(slots), attention_mask=None
        )
        self.run(pack(tokens[0], tokens[1:], np.arange(-1, ROWS - 2, dtype=np.int32)), 1)
        ours = torch.from_numpy(self._scratch.logits[:ROWS, : target.vocab_size])
        if not torch.allclose(ours, theirs, rtol=0.0, atol=TOLERANCE * float(theirs.abs().max())):
            raise ValueError(
                f"engine=compiled: {type(target.model).__name__} does more than the layers that are compiled here "
                f"(logits differ by {float((ours - theirs).abs().max()):.3g}); use engine=eager"
            )

    def _extend_rotations(self, positions: int) -> None:
        """The model's own rotations, of so many positions at least."""
        if positions > len(self._cos):
            parts = self._rotary(torch.zeros(1), self._target.planes(torch.arange(2 * positions)))
            self._cos, self._sin = (part.reshape(-1, *part.shape[-2:])[0].numpy() for part in parts)


def _weights(model: torch.nn.Module, decoder: torch.nn.Module) -> Weights:
    layers = decoder.layers
    attention, mlps = [layer.self_attn for layer in layers], [layer.mlp for layer in layers]
    qkv = [[getattr(a, f"{name}_proj") for name in "qkv"] for a in attention]
    return Weights(
        embedding=_array(model.get_input_embeddings().weight),
        norm1=_stack(layer.input_layernorm.weight for layer in layers),
        qkv=panels([np.concatenate([_array(part.weight) for part in parts]) for parts in qkv]),
        bias=np.stack([np.concatenate([_bias(part) for part in parts]) for parts in qkv]),
        o=panels([_array(a.o_proj.weight) for a in attention]),
        norm2=_stack(layer.post_attention_layernorm.weight for layer in layers),
        gate=panels([_array(mlp.gate_proj.weight) for mlp in mlps]),
        up=panels([_array(mlp.up_proj.weight) for mlp in mlps]),
        down=panels([_array(mlp.down_proj.weight) for mlp in mlps]),
        norm=_array(decoder.norm.weight),
        head=panels([_array(model.get_output_embeddings().weight)])[0],
    )


def _array(weight: torch.Tensor) -> NDArray[np.float32]:
    return weight.detach().numpy()


def _stack(weights) -> NDArray[np.float32]:
    return np.stack([_array(weight) for weight in weights])


def _bias(linear: torch.nn.Module) -> NDArray[np.float32]:
    return np.zeros(len(linear.weight), np.float32) if linear.bias is None else _array(linear.bias)
