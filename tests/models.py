"""Tiny random-weight models of the genuine transformers classes, requests for them, and what plain decoding gives.

Untied weights of standard deviation 0.15 make outputs vary; tied or smaller ones repeat their last token. In float64
the language model's norms are computed in float64 too: the genuine ones pass through float32, whose rounding would
turn a difference of 1e-16 into one of 1e-8.
"""

import copy
import functools
import os

import torch
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlamaForCausalLM,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Config,
    Qwen2ForCausalLM,
)

torch.set_num_threads(1)  # on tensors this small a second thread only waits

SOAK = os.environ.get("RECAP_SOAK") == "1"
VOCAB = 97
PLACEHOLDER, VIDEO, START, END = 90, 91, 92, 93
POSITIONS = 512
VISION_FAMILIES = ("qwen2_5_vl", "llava_next")
TEXT_FAMILIES = ("llama", "qwen2")
FAMILIES = VISION_FAMILIES + TEXT_FAMILIES
SETTINGS = [(family, images) for family in FAMILIES for images in ((0, 1, 2) if family in VISION_FAMILIES else (0,))]

TEXT = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
}
PATCH = 4
GRIDS = ((1, 4, 6), (1, 4, 4))  # of the first and the second image, in patches: 6 and 4 visual tokens
SIZES = ((8, 16), (14, 10))  # height and width of the first and the second image, in pixels
TILES = 5  # most tiles of an image, the overview included


@functools.lru_cache
def model_of(family: str, dtype: torch.dtype = torch.float64):
    """The model of a family; shared, so a test that alters it takes a `fresh_model`."""
    model = BUILDERS[family]()
    generator = torch.Generator().manual_seed(FAMILIES.index(family))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 or name.endswith(("bias", "image_newline")):
                parameter.normal_(0.0, 0.15, generator=generator)
        if family in VISION_FAMILIES:
            model.lm_head.weight[[PLACEHOLDER, VIDEO]] = 0.0  # a logit of 0 is never the best
    if dtype == torch.float64:
        for module in model.modules():
            if type(module).__name__ in ("LlamaRMSNorm", "Qwen2RMSNorm", "Qwen2_5_VLRMSNorm"):
                module.forward = functools.partial(exact_norm, module)
    return model.to(dtype).eval()


def fresh_model(family: str, dtype: torch.dtype = torch.float32):
    """A copy that a test may alter; its norms are the genuine ones, so float32 only."""
    assert dtype == torch.float32
    return copy.deepcopy(model_of(family, dtype))


def exact_norm(norm: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    """Root mean square normalisation in the dtype of its input."""
    return norm.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)


def build_qwen2_5_vl():
    text = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "patch_size": PATCH,
        "spatial_merge_size": 2,
        "window_size": 16,
        "fullatt_block_indexes": [1],
        "out_hidden_size": TEXT["hidden_size"],
    }
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=PLACEHOLDER,
        video_token_id=VIDEO,
        vision_start_token_id=START,
        vision_end_token_id=END,
    )
    return Qwen2_5_VLForConditionalGeneration(config)


def build_llava_next():
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=2 * PATCH,
        patch_size=PATCH,
        projection_dim=32,
    )
    config = LlavaNextConfig(
        vision_config=vision,
        text_config=LlamaConfig(**TEXT),
        image_token_index=PLACEHOLDER,
        image_grid_pinpoints=[[8, 16], [16, 8], [16, 16]],
    )
    return LlavaNextForConditionalGeneration(config)


BUILDERS = {
    "qwen2_5_vl": build_qwen2_5_vl,
    "llava_next": build_llava_next,
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**TEXT)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**TEXT)),
}


@functools.lru_cache(maxsize=256)
def inputs_of(family: str, images: int = 0, seed: int = 0, dtype: torch.dtype = torch.float64) -> dict:
    """What a processor would return: text, then each image between its marks, then text again. Not to be altered."""
    generator = torch.Generator().manual_seed(seed)
    pictures, widths = {}, []
    if images and family == "qwen2_5_vl":
        grids = torch.tensor(GRIDS[:images])
        patches = torch.randn(int(grids.prod(dim=1).sum()), 3 * 2 * PATCH**2, generator=generator)
        pictures = {"pixel_values": patches.to(dtype), "image_grid_thw": grids}
        widths = (grids.prod(dim=1) // 4).tolist()
    elif images:
        tiles = torch.randn(images, TILES, 3, 2 * PATCH, 2 * PATCH, generator=generator)
        pictures = {"pixel_values": tiles.to(dtype), "image_sizes": torch.tensor(SIZES[:images])}
        with torch.no_grad():
            features = model_of(family, dtype).get_image_features(**pictures).pooler_output
        widths = [len(feature) for feature in features]
    ids = torch.randint(0, PLACEHOLDER, (8,), generator=generator).tolist()
    for width in widths:
        ids += [START, *[PLACEHOLDER] * width, END]
        ids += torch.randint(0, PLACEHOLDER, (3,), generator=generator).tolist()
    ids = torch.tensor([ids])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **pictures}
    if family == "qwen2_5_vl":
        inputs["mm_token_type_ids"] = (ids == PLACEHOLDER).int()
    return inputs


def plain_greedy(model, inputs: dict, max_new_tokens: int, stop_ids: list[int] | None = None) -> list[int]:
    """The new ids of transformers' own greedy decoding."""
    ids = model.generate(
        **inputs, max_new_tokens=max_new_tokens, eos_token_id=stop_ids, do_sample=False, repetition_penalty=1.0,
        pad_token_id=0,
    )  # fmt: skip
    return ids[0, inputs["input_ids"].shape[1] :].tolist()


@torch.no_grad()
def full_logits(model, inputs: dict, tokens: list[int]) -> torch.Tensor:
    """Logits [prompt + tokens, vocab] of one forward over the whole sequence, without a cache."""
    ids = torch.cat([inputs["input_ids"], torch.tensor([tokens], dtype=torch.long)], dim=1)
    extended = {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if "mm_token_type_ids" in inputs:
        extended["mm_token_type_ids"] = (ids == PLACEHOLDER).int()
    return model(**extended, use_cache=False).logits[0]


def position_delta(family: str, images: int) -> int:
    """Rotary positions minus tokens: an image takes the longer side of its merged grid, not its area."""
    if family != "qwen2_5_vl":
        return 0
    return sum(max(height, width) // 2 - height * width // 4 for _, height, width in GRIDS[:images])


class Watch:
    """Sees every pass of a language model: its ids [rows], position ids, attention mask and logits [rows, vocab]."""

    def __init__(self, model) -> None:
        self.ids, self.positions, self.masks, self.logits = [], [], [], []
        self._hooks = [
            model.get_input_embeddings().register_forward_pre_hook(lambda module, args: self._see_ids(*args)),
            model.get_decoder().register_forward_pre_hook(self._see_inputs, with_kwargs=True),
            model.get_output_embeddings().register_forward_hook(lambda module, args, out: self.logits.append(out[0])),
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        for hook in self._hooks:
            hook.remove()

    def _see_ids(self, ids: torch.Tensor) -> None:
        self.ids.append(ids[0].tolist())

    def _see_inputs(self, _module, _args, kwargs) -> None:
        self.positions.append(kwargs["position_ids"])
        self.masks.append(kwargs["attention_mask"])
