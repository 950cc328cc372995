"""The two architectures: genuine transformers classes at 3-4 million parameters.

Qwen2.5-VL: patches of 14 px merged 2 x 2, so a 28 px cell of a picture is one visual token.
LLaVA-NeXT: tiles of 84 px in patches of 28 px; all picture sizes are grid pinpoints, so tiles are never rescaled.
"""

import torch
from torch import nn
from transformers import (
    CLIPVisionConfig,
    GenerationConfig,
    LlamaConfig,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaNextProcessor,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
)
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.utils import is_torchvision_available

from .tokens import END, PAD, chat_template

NAMES = ("qwen", "llava")
PINPOINTS = [[84, 84], [84, 168]]  # height, width
TEXT = dict(
    hidden_size=192, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2, intermediate_size=512,
    max_position_embeddings=2048, tie_word_embeddings=True,
)  # fmt: skip


def patch_processor() -> None:
    """Without torchvision transformers has no video processor, and Qwen2_5_VLProcessor cannot be built or loaded."""
    if not is_torchvision_available():
        Qwen2_5_VLProcessor.get_attributes = classmethod(lambda cls: ["image_processor", "tokenizer"])


def build_processor(name: str, tokenizer):
    template = chat_template(name)
    if name == "qwen":
        patch_processor()
        images = Qwen2VLImageProcessorPil(
            patch_size=14, merge_size=2, temporal_patch_size=2, min_pixels=28 * 28, max_pixels=28 * 28 * 64
        )
        return Qwen2_5_VLProcessor(images, tokenizer, chat_template=template)
    side = {"height": 84, "width": 84}
    images = LlavaNextImageProcessorPil(size={"shortest_edge": 84}, crop_size=side, image_grid_pinpoints=PINPOINTS)
    return LlavaNextProcessor(
        images, tokenizer, patch_size=28, vision_feature_select_strategy="default", num_additional_image_tokens=1,
        chat_template=template,
    )  # fmt: skip


def build_model(name: str, tokenizer) -> nn.Module:
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in tokenizer.get_vocab()}
    text = TEXT | dict(vocab_size=len(tokenizer), eos_token_id=ids[END], pad_token_id=ids[PAD], bos_token_id=None)
    model = _qwen(text, ids) if name == "qwen" else _llava(text, ids)
    model.generation_config = GenerationConfig(eos_token_id=ids[END], pad_token_id=ids[PAD])
    return model


def _qwen(text: dict, ids: dict) -> nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 6, 6]}
    vision = dict(
        depth=3, hidden_size=128, num_heads=4, intermediate_size=256, patch_size=14, spatial_merge_size=2,
        temporal_patch_size=2, window_size=112, fullatt_block_indexes=[0, 1, 2], out_hidden_size=text["hidden_size"],
    )  # fmt: skip
    return Qwen2_5_VLForConditionalGeneration(
        Qwen2_5_VLConfig(
            text_config=text | {"rope_parameters": rope},
            vision_config=vision,
            tie_word_embeddings=True,
            image_token_id=ids["<|image_pad|>"],
            video_token_id=ids["<|video_pad|>"],
            vision_start_token_id=ids["<|vision_start|>"],
            vision_end_token_id=ids["<|vision_end|>"],
        )
    )


def _llava(text: dict, ids: dict) -> nn.Module:
    vision = CLIPVisionConfig(
        hidden_size=160, intermediate_size=320, num_hidden_layers=3, num_attention_heads=4, image_size=84,
        patch_size=28, projection_dim=160,
    )  # fmt: skip
    return LlavaNextForConditionalGeneration(
        LlavaNextConfig(
            text_config=LlamaConfig(**text),
            vision_config=vision,
            image_grid_pinpoints=PINPOINTS,
            image_token_id=ids["<image>"],
            vision_feature_layer=-1,
            vision_feature_select_strategy="default",
            tie_word_embeddings=True,
        )
    )


class VisionTap:
    """Keeps the visual features that a model's projector gave last, for the auxiliary heads of training."""

    def __init__(self, name: str, model: nn.Module) -> None:
        # (visual tokens of the batch, hidden): image by image (qwen) or tile by tile (llava)
        self.features: torch.Tensor | None = None
        module = model.model.visual if name == "qwen" else model.model.multi_modal_projector
        module.register_forward_hook(self._keep)

    def _keep(self, module, args, output) -> None:
        features = output.pooler_output if hasattr(output, "pooler_output") else output
        self.features = features.flatten(0, -2)


def speed_up(name: str, model: nn.Module) -> None:
    """Training only: a Conv3d whose stride is its kernel is a matrix product, and that is faster on a CPU."""
    if name == "qwen":
        embed = model.model.visual.patch_embed
        embed.forward = lambda x: nn.functional.linear(x.to(embed.proj.weight.dtype), embed.proj.weight.flatten(1))
