"""A checkpoint's processor (its tokenizer, for text-only models), with the image limits of this run."""

import transformers
from transformers import AutoProcessor
from transformers.utils import is_torchvision_available

from runners.checkpoint import Checkpoint, first_line

LOWEST, HIGHEST = "shortest_edge", "longest_edge"  # transformers' names for the limits of an area


def load_processor(checkpoint: Checkpoint, min_pixels: int | None, max_pixels: int | None):
    """The processor; the limits that are None stay the checkpoint's own. Raises ValueError."""
    _allow_image_only_processors()
    try:
        processor = AutoProcessor.from_pretrained(checkpoint.folder, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        raise checkpoint.fault(f"its processor cannot be loaded: {first_line(error)}") from None
    _limit_pixels(getattr(processor, "image_processor", None), min_pixels, max_pixels)
    return processor


def check_processor(checkpoint: Checkpoint, processor, placeholders: tuple[int, ...]) -> None:
    """Refuse a processor whose prompts the model could not read: transformers fills what a file lacks with defaults."""
    if processor.chat_template is None:
        raise checkpoint.fault("it has no chat template (chat_template.jinja or chat_template.json)")
    if not placeholders:
        return
    if processor.image_token_id not in placeholders:
        raise checkpoint.fault(
            f"its tokenizer has id {processor.image_token_id} for images, its model {placeholders[0]}: "
            "are the tokenizer's files the model's own?"
        )
    if getattr(processor, "patch_size", 0) is None:
        raise checkpoint.fault("its processor has no patch_size: is processor_config.json there?")


def _limit_pixels(image_processor, lowest: int | None, highest: int | None) -> None:
    size = dict(getattr(image_processor, "size", None) or {})
    limits = {LOWEST: lowest or size.get(LOWEST), HIGHEST: highest or size.get(HIGHEST)}
    if lowest is None and highest is None and None in limits.values():
        return
    if size.get(HIGHEST) is None:
        key, value = ("min_pixels", lowest) if highest is None else ("max_pixels", highest)
        raise ValueError(f"model.{key}={value}: this model's image processor has no such limit; leave it null")
    if limits[LOWEST] > limits[HIGHEST]:
        raise ValueError(f"model.min_pixels={limits[LOWEST]}: above model.max_pixels={limits[HIGHEST]}")
    image_processor.size = limits


def _allow_image_only_processors() -> None:
    """Qwen2.5-VL's processor asks for a video processor, which needs torchvision; images alone do not.

    Changes the class for the whole process, and only where torchvision is absent.
    """
    if not is_torchvision_available():
        parts = classmethod(lambda cls: ["image_processor", "tokenizer"])
        transformers.Qwen2_5_VLProcessor.get_attributes = parts
