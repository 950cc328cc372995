"""A model whose layers lie on several devices decodes as on one.

No second device is needed: torch's fake tensors compute nothing but know their devices, and refuse to mix them; layers
that accelerate keeps on the disk are moved by the same hooks as layers on another GPU, and compute.
"""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from baselines.autoregressive import Autoregressive
from recap import Limits, Recap
from recap.decode import generate, no_clock
from recap.targets import target_for
from recap.targets.base import TreeTarget
from recap.types import Draft, Request
from tests.models import BUILDERS, SETTINGS, VISION_FAMILIES, VOCAB, fresh_model, inputs_of, plain_greedy

accelerate = pytest.importorskip("accelerate")

FIRST, LAST = "lazy:0", "lazy:1"  # a kind of device that torch knows of without having any


class SelectionOnOneDevice(TorchFunctionMode):
    """Refuses to select by indices that lie on another device, as real devices do and fake tensors do not."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__:
            tensor, where = args
            for index in where if isinstance(where, tuple) else (where,):
                if isinstance(index, torch.Tensor) and index.device.type != "cpu":
                    assert index.device == tensor.device, f"indices on {index.device}, values on {tensor.device}"
        return func(*args, **(kwargs or {}))


def spread(model, last: tuple[str, ...]) -> None:
    """Fake weights: the modules named on the last device, all others on the first."""
    for name, module in model.named_modules():
        device = LAST if any(f"{name}.".startswith(f"{late}.") for late in last) else FIRST
        for tensors in (module._parameters, module._buffers):
            for key, value in tensors.items():
                if value is not None:
                    tensors[key] = torch.empty(value.shape, dtype=value.dtype, device=device)


def rest_of(module, named: tuple[str, ...], above: str = "") -> list[str]:
    """The fewest modules, and weights of modules that are parted, that hold all that `named` do not."""
    found = [f"{above}{name}" for name, _ in module.named_parameters(recurse=False)]
    for name, child in module.named_children():
        path = f"{above}{name}"
        if any(other.startswith(f"{path}.") for other in named):
            found += rest_of(child, named, f"{path}.")
        elif path not in named:
            found.append(path)
    return found


def language_model(family: str) -> str:
    return "model.language_model" if family in VISION_FAMILIES else "model"


@pytest.mark.parametrize("family", BUILDERS)
def test_every_pass_keeps_to_the_devices_of_its_layers(family, monkeypatch):
    inside = language_model(family)
    last = (f"{inside}.layers.1", f"{inside}.norm", "lm_head")
    monkeypatch.setattr("recap.targets.base.top_rows", lambda logits, top_k: logits)
    prefill, verify, keep = (
        getattr(TreeTarget, name).__wrapped__ for name in ("prefill", "verify", "keep")
    )  # fake tensors do not live in inference mode
    with torch.device("meta"):
        model = BUILDERS[family]().eval().requires_grad_(False)
    with FakeTensorMode(allow_non_fake_inputs=True), SelectionOnOneDevice():
        spread(model, last)
        places = {name: LAST for name in last} | {name: FIRST for name in rest_of(model, last)}
        model = accelerate.dispatch_model(model, places, force_hooks=True, skip_keys=model._skip_keys_device_placement)
        target = target_for(model)
        rows = prefill(target, Request(np.arange(9), VOCAB, (), {}), np.array([2, 4]), 5, no_clock)
        assert rows.shape == (3, VOCAB)
        draft = Draft(np.array([1, 2, 3]), np.array([-1, -1, 0], np.int32), np.zeros(3, np.int8))
        for path in ([1], [0, 2], []):
            assert verify(target, 3, draft, 5).shape == (4, VOCAB)
            keep(target, np.array(path, np.int32))
        assert [str(layer.keys.device) for layer in target.cache.layers] == [FIRST, LAST]


@pytest.mark.parametrize("family,images", SETTINGS)
def test_layers_from_the_disk_decode_as_those_in_memory(family, images, tmp_path):
    inputs = inputs_of(family, images, dtype=torch.float32)
    plain = plain_greedy(fresh_model(family), inputs, 24)
    inside = language_model(family)
    model, away = fresh_model(family), (f"{inside}.layers.1", "lm_head")
    places = {name: "disk" for name in away} | {name: "cpu" for name in rest_of(model, away)}
    model = accelerate.dispatch_model(model, places, offload_dir=tmp_path, skip_keys=model._skip_keys_device_placement)
    assert model.lm_head.weight.device.type == "meta"
    limits = Limits(24)
    target = target_for(model)
    for drafter in (Autoregressive(), Recap()):
        assert generate(target, drafter, target.request(inputs, limits), limits).tokens.tolist() == plain
