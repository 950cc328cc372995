"""Small checkpoints saved as the two 7B ones are on the hub, made from the bundled models' weights.

Qwen2.5-VL-7B-Instruct: one flat config with `rope_scaling`, bfloat16 shards and their index, untied embeddings, two
stop ids and a repetition penalty, pixel limits in preprocessor_config.json, the template in chat_template.json.
llava-v1.6-vicuna-7b-hf: nested configs, float16 shards, processor settings in two files, the template of Vicuna.
"""

import json
import shutil
from pathlib import Path

import torch
from transformers import AutoModelForImageTextToText

ASSETS = Path(__file__).parent.parent / "assets"
PENALTY = 1.05
CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True, "resample": 3,
}  # fmt: skip
VICUNA = (
    "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': ' }}{% endif %}"
    "{# images first #}{% for part in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}{% if message['role'] != 'assistant' %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] + ' ' }}{% endfor %}"
    "{% else %}{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{% generation %}{{ part['text'] + ' ' }}{% endgeneration %}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)


def save_qwen(folder: Path, pixels: dict | None = None) -> Path:
    """`pixels` are the image processor's limits, in the hub's form unless given."""
    config = _save(folder, "tiny_qwen", torch.bfloat16)
    text, vision = config["text_config"], config["vision_config"]
    rope = text["rope_parameters"]
    flat = ("hidden_act", "hidden_size", "initializer_range", "intermediate_size", "max_position_embeddings",
            "max_window_layers", "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "rms_norm_eps",
            "attention_dropout", "eos_token_id", "use_cache", "vocab_size")  # fmt: skip
    seen = ("depth", "fullatt_block_indexes", "hidden_act", "hidden_size", "intermediate_size", "num_heads",
            "out_hidden_size", "patch_size", "spatial_merge_size", "temporal_patch_size", "tokens_per_second",
            "window_size")  # fmt: skip
    outer = ("architectures", "model_type", "image_token_id", "video_token_id", "vision_start_token_id",
             "vision_end_token_id")  # fmt: skip
    write(folder / "config.json", {k: config[k] for k in outer} | {k: text[k] for k in flat} | {
        "vision_token_id": config["image_token_id"], "bos_token_id": 0, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "sliding_window": 32768, "use_sliding_window": False,
        "rope_theta": rope["rope_theta"], "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]},
        "vision_config": {k: vision[k] for k in seen} | {"in_chans": 3, "spatial_patch_size": vision["patch_size"]},
        "transformers_version": "4.41.2",
    })  # fmt: skip
    _save_generation_config(folder, two_stops=True)
    write(folder / "preprocessor_config.json", CLIP | (pixels or {"min_pixels": 784, "max_pixels": 50176}) | {
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor",
        "merge_size": 2, "patch_size": 14, "temporal_patch_size": 2,
    })  # fmt: skip
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    (folder / "processor_config.json").unlink()
    write(folder / "chat_template.json", {"chat_template": template})
    _edit(folder / "tokenizer_config.json", tokenizer_class="Qwen2Tokenizer", chat_template=template)
    return folder


def save_llava(folder: Path) -> Path:
    config = _save(folder, "tiny_llava", torch.float16)
    config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = False
    config["torch_dtype"] = config["text_config"]["torch_dtype"] = config.pop("dtype", "float16")
    config |= {"use_image_newline_parameter": True, "ignore_index": -100, "transformers_version": "4.39.0"}
    write(folder / "config.json", config)
    _save_generation_config(folder, two_stops=False)
    settings = json.loads((folder / "processor_config.json").read_text())
    images = settings.pop("image_processor")
    write(folder / "processor_config.json", settings)
    write(folder / "preprocessor_config.json", CLIP | {"aspect_ratio_setting": "anyres"} | images)
    (folder / "chat_template.jinja").unlink()
    write(folder / "chat_template.json", {"chat_template": VICUNA})
    _edit(folder / "tokenizer_config.json", tokenizer_class="LlamaTokenizer")
    return folder


def write(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2))


def _edit(path: Path, **changes) -> None:
    write(path, json.loads(path.read_text()) | changes)


def _save(folder: Path, asset: str, dtype: torch.dtype) -> dict:
    """Untied weights in shards and all the asset's other files; returns its config."""
    model = AutoModelForImageTextToText.from_pretrained(ASSETS / asset, dtype=dtype, local_files_only=True)
    model.config.tie_word_embeddings = model.config.text_config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(model.get_input_embeddings().weight.detach().clone())
    model.save_pretrained(folder, max_shard_size="2MB")
    for file in (ASSETS / asset).glob("*.js*"):
        if file.name not in ("training.json", "config.json"):
            shutil.copy(file, folder)
    shutil.copy(ASSETS / asset / "chat_template.jinja", folder)
    assert len(list(folder.glob("model-*-of-*.safetensors"))) > 2
    return json.loads((ASSETS / asset / "config.json").read_text())


def _save_generation_config(folder: Path, two_stops: bool) -> None:
    """Of the hub's Qwen, with both stop ids; LLaVA's names one."""
    if two_stops:
        write(folder / "generation_config.json", {
            "bos_token_id": 0, "pad_token_id": 0, "do_sample": True, "eos_token_id": [2, 0],
            "repetition_penalty": PENALTY, "temperature": 1e-6, "transformers_version": "4.49.0",
        })  # fmt: skip
    else:
        write(folder / "generation_config.json", {
            "_from_model_config": True, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0,
            "transformers_version": "4.39.0",
        })  # fmt: skip
