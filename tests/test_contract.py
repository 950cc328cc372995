"""A pair is valid only under one contract, and a breach names the field."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from runners.contract import Contract

CONTRACT = Contract(
    model="m", revision="", dtype="float32", device="cpu", attention="sdpa", cache="SlotCache", engine="eager",
    ar_logits="last", processors="none", stop_ids=(2,), max_new_tokens=200,
)  # fmt: skip
PROMPT = np.arange(5)


def picture(colour: int) -> Image.Image:
    return Image.new("RGB", (4, 3), (colour, 0, 0))


@pytest.mark.parametrize(
    "field,value",
    [
        ("dtype", "bfloat16"), ("stop_ids", (2, 3)), ("processors", "repetition_penalty=1.05"),
        ("cache", "DynamicCache"), ("attention", "eager"), ("max_new_tokens", 100), 
        ("revision", "abc"), ("ar_logits", "full"),
    ],
)  # fmt: skip
def test_a_differing_field_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=f"differ in {field}: "):
        CONTRACT.check(replace(CONTRACT, **{field: value}))


def test_equal_contracts_pass():
    CONTRACT.check(replace(CONTRACT))
    assert CONTRACT.hash() == replace(CONTRACT).hash()


def test_another_prompt_is_another_contract():
    with pytest.raises(ValueError, match="differ in prompt: "):
        CONTRACT.of(PROMPT, []).check(CONTRACT.of(PROMPT[::-1].copy(), []))


def test_other_image_bytes_are_another_contract():
    with pytest.raises(ValueError, match="differ in images: "):
        CONTRACT.of(PROMPT, [picture(1)]).check(CONTRACT.of(PROMPT, [picture(2)]))


def test_equal_pixels_are_the_same_image():
    assert CONTRACT.of(PROMPT, [picture(1)]).hash() == CONTRACT.of(PROMPT, [picture(1)]).hash()
