"""Micro-batches as a function of (seed, step, picture kind), so that a resumed run sees the same data."""

from dataclasses import dataclass

import numpy as np
import torch

from runners.benches.generated.glyphs import GLYPHS
from runners.benches.generated.pictures import COLOURS, KINDS, ROWS, Picture, draw_picture, render
from runners.benches.generated.talk import draw_dialog

from .tokens import END, START, dense_turn

COLOUR_CLASSES = ("", *COLOURS)
SIZES = {0: 20, 1: 12, 2: 7, 3: 5}  # dialogs a micro-batch by number of turns; 0 is dense (see dense_turn)
TURN_SHARES = (0.6, 0.25, 0.15)  # more turns than the benchmark has, since these are harder


@dataclass
class Batch:
    """inputs   what the model takes, right-padded
    answers  (B, T) bool: tokens the model has to say, its end-of-turn token included
    glyphs, colours  (visual tokens,) int: class of the cell under each visual token, -1 where there is no one cell
    dense  whether this is a dense micro-batch
    """

    inputs: dict[str, torch.Tensor]
    answers: torch.Tensor
    glyphs: torch.Tensor
    colours: torch.Tensor
    dense: bool


class Batches:
    def __init__(self, name: str, processor, seed: int) -> None:
        self.name, self.processor, self.seed = name, processor, seed
        tokenizer = processor.tokenizer
        self.head = np.array(tokenizer.encode(f"{START}assistant\n", add_special_tokens=False))
        self.end = tokenizer.convert_tokens_to_ids(END)

    def __call__(self, step: int, kind: str, dense_share: float) -> Batch:
        rng = np.random.default_rng([self.seed, step, KINDS.index(kind)])
        dense = bool(rng.random() < dense_share)
        turns = 0 if dense else 1 + int(rng.choice(3, p=TURN_SHARES))
        pictures = [draw_picture(rng, "train", kind) for _ in range(SIZES[turns])]
        chats = [chat([dense_turn(p)] if dense else _pairs(draw_dialog(p, rng, turns))) for p in pictures]
        images = [render(p, int(rng.integers(2**31))) for p in pictures]
        texts = self.processor.apply_chat_template(chats, tokenize=False)
        inputs = self.processor(text=texts, images=images, padding=True, padding_side="right", return_tensors="pt")
        inputs = dict(inputs)
        inputs.pop("attention_mask")  # needless behind a causal mask: the padding is on the right
        glyphs, colours = zip(*[self._classes(p) for p in pictures], strict=True)
        return Batch(inputs, self._answers(inputs["input_ids"]), torch.cat(glyphs), torch.cat(colours), dense)

    def _answers(self, ids: torch.Tensor) -> torch.Tensor:
        mask = np.zeros(ids.shape, bool)
        for row, line in zip(mask, ids.numpy(), strict=True):
            ends = np.flatnonzero(line == self.end)
            for i in np.flatnonzero(line == self.head[0]):
                if (line[i : i + len(self.head)] == self.head).all():
                    row[i + len(self.head) : ends[ends > i][0] + 1] = True
        return torch.from_numpy(mask)

    def _classes(self, picture: Picture) -> tuple[torch.Tensor, torch.Tensor]:
        """Glyph and colour class of each visual token: cells row by row (qwen), or base view and tiles (llava)."""
        grid = np.zeros((2, ROWS, picture.columns), np.int64)
        grid[1] = COLOUR_CLASSES.index(picture.paper)
        for at, mark in picture.cells().items():
            grid[0][at] = GLYPHS.index(mark.glyph)
            grid[1][at] = COLOUR_CLASSES.index(mark.colour or picture.paper)
        if self.name == "llava":
            tiles = np.split(grid, picture.columns // 3, axis=2)
            base = tiles[0] if len(tiles) == 1 else np.full_like(tiles[0], -1)
            grid = np.stack([base, *tiles], axis=1)  # (2, views, 3, 3)
        return torch.from_numpy(grid[0].ravel()), torch.from_numpy(grid[1].ravel())


def chat(pairs: list[tuple[str, str]]) -> list[dict]:
    """A chat of (question, answer) pairs about one image, in the layout of apply_chat_template."""
    messages = []
    for question, answer in pairs:
        image = [{"type": "image"}] if not messages else []
        messages.append({"role": "user", "content": [*image, {"type": "text", "text": question}]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
    return messages


def _pairs(dialog) -> list[tuple[str, str]]:
    return [(turn.question, turn.answer) for turn in dialog]
