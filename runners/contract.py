"""The contract of a pair: what must be equal on both sides for a speedup to mean anything."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

import numpy as np
from PIL import Image


@dataclass(frozen=True, slots=True)
class Contract:
    """Every field is equal on both sides of a pair, or the pair is refused.

    prompt, images  hashes of the prompt's ids and of the image bytes; empty in the contract of a whole run
    processors      logits processors, none by default: a checkpoint's own penalties are applied to neither side
    """

    model: str
    revision: str
    dtype: str
    device: str
    attention: str
    cache: str
    engine: str
    ar_logits: str
    processors: str
    stop_ids: tuple[int, ...]
    max_new_tokens: int
    prompt: str = ""
    images: str = ""

    def of(self, prompt: np.ndarray, images: Sequence[Image.Image]) -> "Contract":
        """The contract of one request of this run."""
        return replace(self, prompt=digest(prompt.tobytes()), images=image_hash(images))

    def differing(self, other: Mapping[str, str]) -> dict[str, str]:
        """Those of a peer's fields that are not this contract's."""
        return {name: value for name, value in other.items() if getattr(self, name) != value}

    def hash(self) -> str:
        """Short hash over all fields, stored in every record."""
        return digest(json.dumps(asdict(self), sort_keys=True).encode())

    def check(self, other: "Contract") -> None:
        """Raise ValueError naming the fields that differ."""
        differing = [f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name)]
        if differing:
            pairs = "; ".join(f"{name}: {getattr(self, name)!r} != {getattr(other, name)!r}" for name in differing)
            raise ValueError(f"these runs cannot be paired, their contracts differ in {pairs}")


def image_hash(images: Sequence[Image.Image]) -> str:
    """Hash of the decoded pixels, mode and size included; empty where there are no images."""
    parts = [repr((image.mode, image.size)).encode() + image.tobytes() for image in images]
    return digest(b"".join(parts)) if parts else ""


def digest(data: bytes) -> str:
    """16 hex digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]
