"""On which devices a model is placed."""

from typing import Any

import torch
from transformers.distributed import DistributedConfig
from transformers.utils import is_accelerate_available

SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")  # transformers' own strategies
GATHERED = ("colwise_gather_output", "colwise_rep")  # its two names for slices that every rank gets whole


def device_of(name: str, key: str = "device") -> torch.device:
    """A device by name; `auto` is cuda where torch sees one, else cpu. Raises ValueError naming `key`."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"{key}={name}: not a torch device; try cpu or cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"{key}={name}: torch sees no CUDA device here; try {key}=cpu")
    return device


def check_device_map(device_map: str | None) -> None:
    """Refuse a map that transformers cannot follow."""
    if device_map is None:
        return
    if device_map not in SPREADS:
        device_of(device_map, "model.device_map")
    _accelerated("device_map", device_map)


def check_slices(text: Any, count: int) -> None:
    """Refuse to split a language model so that a head would be cut; `text` is its config. Raises ValueError."""
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    if heads % count or text.num_attention_heads % count:
        fit = [str(n) for n in range(2, heads + 1) if not (heads % n or text.num_attention_heads % n)]
        raise ValueError(
            f"model.tensor_parallel={count}: the model's {heads} key/value heads cannot be shared out evenly; "
            f"choose {' or '.join(fit) or 'null'}"
        )


def sliced(device: str, count: int) -> dict[str, Any]:
    """What `from_pretrained` needs to give each of `count` ranks its slice, by transformers' own plan.

    transformers takes the devices itself: a GPU a rank where torch sees any. Raises ValueError for another `device`.
    """
    _accelerated("tensor_parallel", count)
    own = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("auto", own):
        raise ValueError(
            f"device={device}: with model.tensor_parallel={count} every rank has its own; use device={own}"
        )
    return {"distributed_config": DistributedConfig(tp_size=count, tp_plan="auto")}


def check_gathered(model) -> None:
    """Refuse a model whose ranks would not see the same logits: its plan must gather what each one computes."""
    name = next(name for name, module in model.named_modules() if module is model.get_output_embeddings())
    style = model.tp_plan.get(name)
    if style not in GATHERED:
        raise ValueError(f"model.tensor_parallel: transformers' plan for {type(model).__name__} does not gather logits")


def _accelerated(key: str, value: object) -> None:
    if not is_accelerate_available():
        raise ValueError(
            f"model.{key}={value}: transformers needs accelerate for it; `pip install accelerate`, "
            "or leave it null to place the whole model on `device`"
        )


def devices_of(model) -> str:
    """The devices that hold parts of a model: its one device, or all those of a device map, `disk` among them.

    A model that is split over ranks is on one kind of device, so many times.
    """
    slices = getattr(model, "_tp_size", None) or 1
    if slices > 1:
        return f"{model.device.type} tp={slices}"
    spread = getattr(model, "hf_device_map", None) or {"": model.device}
    return ",".join(sorted({f"cuda:{place}" if isinstance(place, int) else str(place) for place in spread.values()}))
