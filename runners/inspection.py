"""What the step inspector shows beside the steps of an input: questions, prompts, small pictures, texts of token ids.

With trace=true only, one line an input in inspect.jsonl, written outside every window. The thumbnails are copies of a
benchmark's pictures, and many licences allow measuring on a picture but not passing it on: mind them before a traced
folder, or a report made of one, leaves your hands.
"""

import base64
from collections.abc import Sequence
from io import BytesIO

import numpy as np
from PIL import Image

from recap.types import Ints
from runners.benches.base import Row
from runners.benches.images import to_rgb
from runners.models import Model
from runners.pair import Turn

SIDES = (320, 240, 160)  # pixels of a thumbnail's longer side: the first whose file is small enough
BYTES = 45_000  # of a thumbnail's file, at most; 60 kB as base64


def inspect_line(row: Row, turns: Sequence[Turn], name: str, model: Model) -> dict:
    """One input as the method `name` decoded it; `turns` are those that it recorded with their steps."""
    return {
        "row": row.id,
        "images": [thumbnail(to_rgb(image)) for image in row.open_images()],
        "turns": [
            {"turn": turn.number, "question": row.turns[turn.number], "prompt": prompt_text(turn.prompt, model)}
            for turn in turns
        ],
        "texts": {str(token): model.token(token) for token in sorted(set().union(*(_ids(t, name) for t in turns)))},
    }


def thumbnail(image: Image.Image) -> dict:
    """A small copy, in the smaller of two formats: its media type, its base64 data, the size of the original."""
    for side in SIDES:
        small = image.copy()
        small.thumbnail((side, side))
        kind, data = min((_encoded(small, kind) for kind in ("png", "jpeg")), key=lambda file: len(file[1]))
        if len(data) <= BYTES:
            break
    return {"type": f"image/{kind}", "data": base64.b64encode(data).decode(), "size": list(image.size)}


def prompt_text(prompt: Ints, model: Model) -> str:
    """A prompt [n] as text, special tokens by name; a run of -1 is told as so many visual tokens."""
    parts = np.split(prompt, np.flatnonzero(np.diff(prompt < 0)) + 1)
    return "".join(
        f"[{len(part)} visual tokens]" if part[0] < 0 else model.text(part, skip_special_tokens=False) for part in parts
    )


def _ids(turn: Turn, name: str) -> set[int]:
    """Every id that was drafted or emitted, by either side."""
    record, steps = turn.records[name], turn.outputs[name].steps
    return set(record.ar.tokens).union(record.method.tokens, *(step.draft.tokens.tolist() for step in steps))


def _encoded(image: Image.Image, kind: str) -> tuple[str, bytes]:
    file = BytesIO()
    image.save(file, kind, quality=80, optimize=True)
    return kind, file.getvalue()
