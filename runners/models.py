"""Loads a model and its processor: chats become requests, ids become text."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from recap.api import own_stop_ids
from recap.targets import target_for
from recap.types import Limits, Request
from runners.checkpoint import Checkpoint, first_line, locate
from runners.contract import Contract
from runners.placing import check_device_map, check_gathered, check_slices, device_of, devices_of, sliced
from runners.processor import check_processor, load_processor
from runners.ranks import check_ranks, ranks
from runners.together import join

LARGEST_PASS = 81  # rows that are made ready for: Token Recycling's tree and its root
DTYPES = ("float32", "float64", "bfloat16", "float16")


class Model:
    """A loaded model behind the decode loop.

    path        folder of a checkpoint (relative to the project or absolute), or a hub id
    revision    pinned revision of a hub id; a folder has none
    made_by     the command that makes a folder that is not there yet, for the error that says so
    min_pixels, max_pixels   area to which the processor scales images, for processors that have such limits; null = the
                checkpoint's own
    device_map  how transformers spreads the model (auto, balanced, sequential, a device); null = all on `device`
    engine      how verification passes run: eager, compiled (see recap.targets.engines)
    tensor_parallel   ranks that share every layer, started by torchrun; null = one process

    A text-only model's processor is its tokenizer.
    """

    def __init__(
        self,
        path: str,
        revision: str | None = None,
        attention: str = "sdpa",
        dtype: str = "float32",
        device: str = "cpu",
        engine: str = "eager",
        made_by: str | None = None,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        device_map: str | None = None,
        tensor_parallel: int | None = None,
    ) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"dtype={dtype}: choose one of {', '.join(DTYPES)}")
        place = device_of(device)
        check_device_map(device_map)
        check_ranks({"tensor_parallel": tensor_parallel})
        checkpoint = locate(path, revision, made_by)
        cls = checkpoint.model_class()
        placed = {"device_map": device_map}
        if engine != "eager" and (ranks() > 1 or device_map is not None):
            raise ValueError(f"engine={engine}: not for a model that is spread over devices; use engine=eager")
        if ranks() > 1:
            if device_map is not None:
                raise ValueError(
                    f"model.device_map={device_map}: not with model.tensor_parallel; leave one of them null"
                )
            check_slices(checkpoint.config().get_text_config(), ranks())
            placed = sliced(device, ranks())
            join()
        checkpoint.complete()
        self.processor = load_processor(checkpoint, min_pixels, max_pixels)
        options = {"dtype": getattr(torch, dtype), "attn_implementation": attention} | placed
        model = _load(cls, checkpoint, options)
        if ranks() > 1:
            check_gathered(model)
        elif device_map is None:
            model = model.to(place)
        self.model = model.eval()
        started = time.perf_counter()
        self.target = target_for(self.model, engine)
        self.target.engine.prepare(LARGEST_PASS)
        self.compile_seconds = time.perf_counter() - started
        check_processor(checkpoint, self.processor, self.target.placeholders)
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)
        self.stop_ids = own_stop_ids(self.model)
        self.reads_images = self.target.vision is not None
        self.parameters = sum(weights.numel() for weights in self.model.parameters())
        self._name, self._revision, self._attention, self._dtype = path, checkpoint.commit, attention, dtype
        self._engine = engine

    def inputs(self, messages: Sequence[dict], images: Sequence[Image.Image]) -> dict[str, Any]:
        """What the model's own processor makes of a chat and its images."""
        if not self.reads_images:
            if images:
                name = type(self.model).__name__
                raise ValueError(f"model.path={self._name}: {name} reads no images; try bench=text")
            chat = [message | {"content": "".join(p["text"] for p in message["content"])} for message in messages]
            return dict(self.processor.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt"))
        text = self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return dict(self.processor(text=[text], images=list(images) or None, return_tensors="pt"))

    def visual_tokens(self, sizes: Sequence[tuple[int, int]]) -> list[int]:
        """Tokens that images of such (width, height) take in a prompt; no image is opened."""
        assert self.reads_images, f"{self._name} reads no images"
        return self.processor._get_num_multimodal_tokens(image_sizes=[(h, w) for w, h in sizes]).num_image_tokens

    def check(self, limits: Limits) -> None:
        """Refuse a cap that no prompt could reach."""
        positions = self.target.text.max_position_embeddings
        if limits.max_new_tokens >= positions:
            raise ValueError(f"max_new_tokens={limits.max_new_tokens}: the model has {positions} positions")

    def request(self, inputs: dict[str, Any], limits: Limits) -> Request:
        """The request of such inputs, on the model's device."""
        return self.target.request(inputs, limits)

    def moved(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs on the model's device, for transformers' own decoding."""
        return {k: v.to(self.model.device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}

    def text(self, tokens: np.ndarray, skip_special_tokens: bool = True) -> str:
        """Ids as text; special tokens are left out or stand there by name."""
        return self.tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens)

    def token(self, token: int) -> str:
        """One id as text as it stands behind another, its leading space included; a special token by its name."""
        return self.tokenizer.decode([token, token])[len(self.tokenizer.decode([token])) :]

    def contract(self, limits: Limits, ar_logits: str) -> Contract:
        """What both sides of every pair of this run share."""
        return Contract(
            model=self._name,
            revision=self._revision,
            dtype=self._dtype,
            device=devices_of(self.model),
            attention=self._attention,
            cache=type(self.target.cache).__name__,
            engine=self._engine,
            ar_logits=ar_logits,
            processors="none",
            stop_ids=limits.stop_ids,
            max_new_tokens=limits.max_new_tokens,
        )

    def ignored_processors(self) -> dict[str, Any]:
        """Settings of the checkpoint's generation config that would change greedy output; applied to neither side."""
        neutral = {
            "repetition_penalty": (None, 1.0), "encoder_repetition_penalty": (None, 1.0),
            "no_repeat_ngram_size": (None, 0), "encoder_no_repeat_ngram_size": (None, 0), "bad_words_ids": (None,),
            "min_length": (None, 0), "min_new_tokens": (None, 0), "suppress_tokens": (None,),
            "begin_suppress_tokens": (None,), "forced_bos_token_id": (None,), "forced_eos_token_id": (None,),
            "sequence_bias": (None,), "exponential_decay_length_penalty": (None,), "guidance_scale": (None, 1.0),
        }  # fmt: skip
        config = self.model.generation_config
        return {k: v for k, passive in neutral.items() if (v := getattr(config, k, None)) not in passive}


def _load(cls: type, checkpoint: Checkpoint, options: dict[str, Any]):
    """The model with every one of its weights from the checkpoint. Raises ValueError."""
    try:
        model, report = cls.from_pretrained(
            checkpoint.folder,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, by name
            **options,
        )
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise checkpoint.fault(f"the checkpoint cannot be loaded: {first_line(error)}") from None
    wrong = sorted(report["missing_keys"]) + sorted(name for name, *_ in report["mismatched_keys"])
    if wrong:  # transformers fills them with random numbers
        raise checkpoint.fault(f"{len(wrong)} weights are missing or of another size than its config says: {wrong[0]}")
    return model
