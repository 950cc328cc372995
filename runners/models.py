"""Loads a model and its processor: chats become requests, ids become text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import AutoConfig, AutoProcessor
from transformers.utils import is_torchvision_available

from recap.api import own_stop_ids
from recap.targets import supported, target_for
from recap.types import Limits, Request
from runners.contract import Contract

ROOT = Path(__file__).parent.parent
DTYPES = ("float32", "float64", "bfloat16", "float16")


class Model:
    """A loaded model behind the decode loop.

    path      folder of a checkpoint (relative to the project or absolute), or a hub id
    revision  pinned revision of a hub id
    made_by   the command that makes a folder that is not there yet, for the error that says so

    A text-only model's processor is its tokenizer.
    """

    def __init__(
        self,
        path: str,
        revision: str | None = None,
        attention: str = "sdpa",
        dtype: str = "float32",
        device: str = "cpu",
        made_by: str | None = None,
    ) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"dtype={dtype}: choose one of {', '.join(DTYPES)}")
        try:
            place = torch.device(device)
        except RuntimeError:
            raise ValueError(f"device={device}: not a torch device; try cpu or cuda") from None
        if place.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device={device}: torch sees no CUDA device here; try device=cpu")
        source = _locate(path, made_by)
        where = {"revision": revision} if revision else {}
        cls = _model_class(source, where)
        _allow_image_only_processors()
        try:
            self.processor = AutoProcessor.from_pretrained(source, **where)
            model = cls.from_pretrained(source, dtype=getattr(torch, dtype), attn_implementation=attention, **where)
        except (OSError, ValueError) as error:
            raise ValueError(f"model.path={path}: the checkpoint cannot be loaded: {_first_line(error)}") from None
        self.model = model.to(place).eval()
        self.target = target_for(self.model)
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)
        self.stop_ids = own_stop_ids(self.model)
        self.reads_images = self.target.vision is not None
        self._name, self._revision, self._attention, self._dtype = path, revision or "", attention, dtype

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

    def text(self, tokens: np.ndarray) -> str:
        """Emitted ids as text, special tokens left out."""
        return self.tokenizer.decode(tokens, skip_special_tokens=True)

    def token(self, token: int) -> str:
        """One id as text, a special token by its name."""
        return self.tokenizer.decode([token])

    def contract(self, limits: Limits, engine: str, ar_logits: str) -> Contract:
        """What both sides of every pair of this run share."""
        return Contract(
            model=self._name,
            revision=self._revision,
            dtype=self._dtype,
            device=str(self.model.device),
            attention=self._attention,
            cache=type(self.target.cache).__name__,
            engine=engine,
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


def _locate(path: str, made_by: str | None) -> str:
    """A local folder where there is one, else the hub id as it stands."""
    for folder in (Path(path), ROOT / path):
        if folder.is_dir():
            return str(folder)
    if path.startswith((".", "/", "assets/")) or path.count("/") != 1:
        way_out = f"run `{made_by}`" if made_by else "give a checkpoint's folder or a hub id (owner/name)"
        raise ValueError(f"model.path={path}: no such folder; {way_out}")
    return path


def _model_class(source: str, where: dict) -> type:
    """The transformers class of the checkpoint, refused before any weight is read."""
    try:
        config = AutoConfig.from_pretrained(source, **where)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"model.path={source}: no model config could be read ({_first_line(error)}); "
            "without network, point model.path at a local copy"
        ) from None
    name = (config.architectures or ["none"])[0]
    known = sorted(supported())
    if name not in known:
        raise ValueError(f"model.path={source}: model class {name} is not supported; supported: {', '.join(known)}")
    return getattr(transformers, name)


def _allow_image_only_processors() -> None:
    """Qwen2.5-VL's processor asks for a video processor, which needs torchvision; images alone do not.

    Changes the class for the whole process, and only where torchvision is absent.
    """
    if not is_torchvision_available():
        parts = classmethod(lambda cls: ["image_processor", "tokenizer"])
        transformers.Qwen2_5_VLProcessor.get_attributes = parts


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
