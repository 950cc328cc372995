"""What a traced run keeps for the step inspector: texts of ids, prompts, small pictures."""

import base64
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from runners.inspection import prompt_text, thumbnail
from runners.models import Model

ASSETS = Path(__file__).parent.parent / "assets"


@pytest.fixture(scope="module", params=["tiny_qwen", "tiny_llava"])
def model(request) -> Model:
    return Model(str(ASSETS / request.param))


def decoded(small: dict) -> Image.Image:
    return Image.open(BytesIO(base64.b64decode(small["data"])))


def test_the_texts_of_single_ids_put_together_are_the_text(model):
    text = "The chart has six bars, and the third (5) is red."
    ids = model.tokenizer(text, add_special_tokens=False).input_ids
    assert len(ids) > 8
    assert "".join(map(model.token, ids)).strip() == text


def test_a_special_token_is_named_once(model):
    stop = model.stop_ids[0]
    assert model.token(stop) == model.tokenizer.convert_ids_to_tokens(stop)


def test_a_prompt_is_told_with_its_special_tokens_and_the_number_of_visual_ones(model):
    text = model.tokenizer("What is in the chart?", add_special_tokens=False).input_ids
    prompt = np.array([model.stop_ids[0], *[-1] * 9, *text, *[-1] * 2])
    words = model.tokenizer.decode(text)
    assert prompt_text(prompt, model) == f"{model.token(model.stop_ids[0])}[9 visual tokens]{words}[2 visual tokens]"


@pytest.mark.parametrize("size", [(1600, 1200), (320, 320), (4000, 8)])
def test_the_worst_picture_is_small_enough_to_embed(size):
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    small = thumbnail(Image.fromarray(noise))
    assert len(small["data"]) <= 60_000
    assert small["size"] == list(size)
    assert decoded(small).get_format_mimetype() == small["type"]
    assert max(decoded(small).size) <= 320


def test_a_drawn_picture_stays_as_it_is():
    drawn = Image.new("RGB", (84, 84), "white")
    drawn.paste((200, 30, 30), (10, 10, 40, 40))
    assert np.array_equal(np.asarray(decoded(thumbnail(drawn)).convert("RGB")), np.asarray(drawn))


def test_the_picture_itself_is_left_alone():
    large = Image.new("RGB", (1000, 500))
    thumbnail(large)
    assert large.size == (1000, 500)
