"""On which devices a model is placed."""

import torch
from transformers.utils import is_accelerate_available

SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")  # transformers' own strategies


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
    if not is_accelerate_available():
        raise ValueError(
            f"model.device_map={device_map}: transformers needs accelerate for it; `pip install accelerate`, "
            "or leave it null to place the whole model on `device`"
        )


def devices_of(model) -> str:
    """The devices that hold parts of a model: its one device, or all those of a device map, `disk` among them."""
    spread = getattr(model, "hf_device_map", None) or {"": model.device}
    return ",".join(sorted({f"cuda:{place}" if isinstance(place, int) else str(place) for place in spread.values()}))
