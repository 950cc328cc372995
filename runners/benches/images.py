"""Pictures of any mode to RGB, the one form in which models, hashes and counts see them."""

from io import BytesIO

import numpy as np
from PIL import Image, ImageCms

VIA = {"La": "LA", "RGBa": "RGBA"}  # premultiplied modes, which Pillow converts to their plain form only
DEEP = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")  # grey values of more than eight bits


def opened(blobs: list[bytes]) -> list[Image.Image]:
    """The pictures of encoded files, not decoded yet: `size` is read from the header, pixels at first use."""
    return [Image.open(BytesIO(blob)) for blob in blobs]


def to_rgb(image: Image.Image) -> Image.Image:
    """Decode to plain RGB without metadata; alpha is dropped, as the published harness does, and EXIF not applied.

    Mended: 16-bit grey is scaled to eight bits, where a plain conversion would clip it to white.
    Raises whatever Pillow raises for a damaged file.
    """
    image.load()
    if image.mode in DEEP:
        image = _eight_bits(image)
    elif image.mode == "LAB":
        profiles = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        image = ImageCms.applyTransform(image, ImageCms.buildTransform(*profiles, "LAB", "RGB"))
    elif image.mode in VIA:
        image = image.convert(VIA[image.mode])
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # else Pillow warns
    rgb = image.convert("RGB") if image.mode != "RGB" else image.copy()
    rgb.info.clear()
    return rgb


def _eight_bits(image: Image.Image) -> Image.Image:
    grey = np.asarray(image, dtype=np.float64)
    if image.mode.startswith("I;16") or grey.max(initial=0) > 255:
        grey = grey / 257
    return Image.fromarray(np.clip(np.rint(grey), 0, 255).astype(np.uint8))
