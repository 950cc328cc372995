"""Other images in an image's place, of its size, so that token ids and grid stay."""

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image


def donors(categories: Mapping[str, str]) -> dict[str, str]:
    """For each image the image of its category that stands in for it; none stands in twice.

    categories  image -> category, in stream order. Within a category every image takes the next one's place, round;
                images alone in their category go round among themselves, and one that is left alone has no donor.
    """
    groups: dict[str, list[str]] = {}
    for image, category in categories.items():
        groups.setdefault(category, []).append(image)
    alone = [images[0] for images in groups.values() if len(images) == 1]
    rings = [*(images for images in groups.values() if len(images) > 1), *([alone] if len(alone) > 1 else [])]
    return {image: ring[(place + 1) % len(ring)] for ring in rings for place, image in enumerate(ring)}


def wrong_images(images: Sequence[Image.Image], donated: Sequence[Image.Image]) -> list[Image.Image]:
    """The donated images at the sizes of `images`, from the first again where there are fewer."""
    return [
        donated[place % len(donated)].convert("RGB").resize(image.size, Image.Resampling.BICUBIC)
        for place, image in enumerate(images)
    ]


def mean_images(images: Sequence[Image.Image]) -> list[Image.Image]:
    """Every image as one even area of its own mean colour."""
    means = [np.asarray(image.convert("RGB"), np.float64).mean(axis=(0, 1)) for image in images]
    return [
        Image.new("RGB", image.size, tuple(round(v) for v in mean)) for image, mean in zip(images, means, strict=True)
    ]
