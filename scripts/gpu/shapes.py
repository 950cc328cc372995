"""Random weights in the exact shapes of the two 7B models, and in small ones of the same classes: no download."""

import torch
from transformers import (
    AutoModelForImageTextToText,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaNextConfig,
    Qwen2_5_VLConfig,
)

IDS = 30_000  # text ids are drawn below it: in both vocabularies, and no placeholder


def qwen(small: bool) -> Qwen2_5_VLConfig:
    """Qwen2.5-VL-7B-Instruct."""
    text = {
        "vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 128_000, "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    }  # fmt: skip
    vision = {
        "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "patch_size": 14,
        "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31], "out_hidden_size": 3584,
    }  # fmt: skip
    if small:
        text |= {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
        text |= {"num_key_value_heads": 2, "vocab_size": IDS + 100}
        text["rope_parameters"] |= {"mrope_section": [4, 2, 2]}
        vision |= {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}
        vision |= {"fullatt_block_indexes": [1]}
    end = text["vocab_size"]
    return Qwen2_5_VLConfig(
        text_config=text | {"tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None},
        vision_config=vision,
        image_token_id=end - 9,
        video_token_id=end - 8,
        vision_start_token_id=end - 12,
        vision_end_token_id=end - 11,
    )


def llava(small: bool) -> LlavaNextConfig:
    """LLaVA-1.6-Vicuna-7B."""
    text = {
        "vocab_size": 32_064, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
    }  # fmt: skip
    vision = {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "image_size": 336, "patch_size": 14, "projection_dim": 768, "vocab_size": 32_000,
    }  # fmt: skip
    if small:
        text |= {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
        text |= {"num_key_value_heads": 4}
        vision |= {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
        vision |= {"image_size": 28, "projection_dim": 32}
    side = vision["image_size"]
    return LlavaNextConfig(
        text_config=LlamaConfig(**text, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None),
        vision_config=CLIPVisionConfig(**vision),
        image_token_index=32_000,
        image_grid_pinpoints=[[side, 2 * side], [2 * side, side], [2 * side, 2 * side]],
    )


SHAPES = {"qwen2.5-vl-7b": qwen, "llava-1.6-vicuna-7b": llava}


def build(config, device: torch.device, dtype: torch.dtype, seed: int = 0):
    """A model of random weights, made on the device."""
    torch.manual_seed(seed)
    with torch.device(device):
        model = AutoModelForImageTextToText.from_config(config, dtype=dtype, attn_implementation="sdpa")
    model.generation_config.eos_token_id = None
    return model.eval()


@torch.inference_mode()
def inputs_of(model, small: bool, seed: int = 0) -> dict[str, torch.Tensor]:
    """What a processor would return: a question, one picture (580 tokens of Qwen's, 2,928 of LLaVA's), the rest."""
    config, device = model.config, model.device
    draw = torch.Generator(device).manual_seed(seed)
    if config.model_type == "qwen2_5_vl":
        grid = torch.tensor([[1, 4, 6] if small else [1, 40, 58]])
        patches = torch.randn(int(grid.prod()), 3 * 2 * 14 * 14, generator=draw, device=device, dtype=model.dtype)
        pictures = {"pixel_values": patches, "image_grid_thw": grid.to(device)}
        width = int(grid.prod()) // 4
    else:
        side = config.vision_config.image_size
        tiles = torch.randn(1, 5, 3, side, side, generator=draw, device=device, dtype=model.dtype)
        pictures = {"pixel_values": tiles, "image_sizes": torch.tensor([[2 * side, 2 * side]], device=device)}
        width = len(model.get_image_features(**pictures).pooler_output[0])
    before, after = torch.randint(1, IDS, (2, 32), generator=draw, device=device)
    image = torch.full((width,), config.image_token_id, device=device)
    ids = torch.cat([before, image, after])[None]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **pictures}
    if config.model_type == "qwen2_5_vl":
        inputs["mm_token_type_ids"] = (ids == config.image_token_id).int()
    return inputs
