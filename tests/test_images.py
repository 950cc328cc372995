"""Pictures of every mode become RGB; visual tokens are known from sizes alone."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from runners.benches.base import Row
from runners.benches.images import opened, to_rgb
from runners.benches.synthetic import Synthetic
from runners.models import Model
from runners.visual import visual_load

MODES = "1 L P RGB RGBA CMYK YCbCr HSV LAB LA PA RGBX RGBa La I F I;16".split()


def shades(deep: int = 1) -> np.ndarray:
    return np.arange(48, dtype=np.uint16).reshape(6, 8) * 5 * deep


def in_mode(mode: str) -> Image.Image:
    grey = Image.fromarray(shades().astype(np.uint8))
    via = {"RGBa": "RGBA", "La": "LA", "HSV": "RGB", "YCbCr": "RGB", "CMYK": "RGB", "PA": "P"}
    if mode == "LAB":
        return Image.new("LAB", (8, 6), (128, 128, 128))
    if mode == "I;16":
        return Image.fromarray(shades(257))
    return (grey.convert(via[mode]) if mode in via else grey).convert(mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_picture_of_any_mode_becomes_rgb_without_metadata(mode):
    image = in_mode(mode)
    assert image.mode == mode
    image.info["exif"] = b"anything"
    rgb = to_rgb(image)
    assert (rgb.mode, rgb.size, rgb.info) == ("RGB", (8, 6), {})
    if mode not in ("1", "LAB", "CMYK", "PA", "P"):
        assert np.abs(np.asarray(rgb)[..., 0].astype(int) - shades()).max() <= 3


@pytest.mark.parametrize("mode", ["I", "F", "I;16"])
def test_sixteen_bits_are_scaled_where_pillow_would_clip_them(mode):
    deep = shades(257)
    image = Image.fromarray(deep if mode == "I;16" else deep.astype({"I": np.int32, "F": np.float32}[mode]))
    assert image.mode == mode
    assert np.array_equal(np.asarray(to_rgb(image))[..., 1], shades())


def test_a_palette_with_transparency_keeps_its_colours():
    image = Image.new("P", (2, 2), 1)
    image.putpalette([0, 0, 0, 250, 128, 10])
    file = BytesIO()
    image.save(file, "PNG", transparency=b"\xff\x00")
    assert to_rgb(opened([file.getvalue()])[0]).getpixel((0, 0)) == (250, 128, 10)


def test_the_orientation_of_exif_is_not_applied_as_in_the_published_harness():
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    file = BytesIO()
    Image.new("RGB", (30, 10)).save(file, "JPEG", exif=exif)
    assert to_rgb(opened([file.getvalue()])[0]).size == (30, 10)


def test_a_truncated_file_is_refused_at_use():
    file = BytesIO()
    Image.effect_noise((90, 90), 50).save(file, "PNG")
    (image,) = opened([file.getvalue()[:900]])
    with pytest.raises(OSError):
        to_rgb(image)


SIZES = [(168, 84), (84, 84), (1024, 664), (30, 500), (500, 30), (85, 97), (5, 9), (640, 480), (83, 169)]


@pytest.fixture(scope="module", params=["tiny_qwen", "tiny_llava"])
def model(request) -> Model:
    return Model(f"assets/{request.param}")


def produced(model: Model, images: list[Image.Image]) -> int:
    content = [{"type": "image"}] * len(images) + [{"type": "text", "text": "Hello"}]
    inputs = model.inputs([{"role": "user", "content": content}], images)
    return int((inputs["input_ids"] == model.model.config.image_token_id).sum())


@pytest.mark.parametrize("size", SIZES)
def test_visual_tokens_from_the_size_are_those_that_the_processor_produces(model, size):
    assert model.visual_tokens([size]) == [produced(model, [Image.new("RGB", size)])]


def test_several_images_add_up(model):
    images = [Image.new("RGB", size) for size in SIZES[:3]]
    assert sum(model.visual_tokens(SIZES[:3])) == produced(model, images)


def test_the_load_names_the_worst_row_and_leaves_out_what_cannot_be_read(model):
    def broken():
        raise OSError("gone")

    rows = list(Synthetic(n=20).rows())
    load = visual_load(model, [*rows, Row("bad", "", ("",), (None,), broken)])
    assert len(load.tokens) == 20
    counts = [produced(model, row.open_images()) for row in rows]
    assert list(load.tokens) == counts
    assert load.worst == rows[counts.index(max(counts))].id
    assert f"from {min(counts)} to {max(counts)}" in str(load)
    assert visual_load(model, rows[:0]) is None
