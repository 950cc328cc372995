"""`bench=synthetic`: generated charts, signs and grids with questions whose answers are known.

It needs no download, and the bundled models are trained on its `train` part. Which part a picture belongs to is a
function of its facts (see `generated.pictures.part_of`), so parts cannot overlap whatever the seeds are.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from PIL import Image

from runners.benches.base import Bench, Row

from .generated.pictures import PARTS, Picture, draw_picture, render
from .generated.talk import Turn, draw_dialog, fact_score


class Synthetic(Bench):
    """Row i is a function of (seed, part, i) alone; no picture occurs twice in the rows of one part.

    seed   of pictures and questions; pictures of different parts differ under all seeds
    n      number of rows
    part   "scored" for measuring, "warmup" for runs before the measurement, "train" for training models
    pictures   whether rows show them; the questions alone are prompts for text-only models
    """

    name = "synthetic"

    def __init__(self, seed: int = 0, n: int = 1000, part: str = "scored", pictures: bool = True) -> None:
        if part not in PARTS:
            raise ValueError(f"bench.part must be one of {', '.join(PARTS)}, got {part!r}")
        if n < 1:
            raise ValueError(f"bench.n must be at least 1, got {n}")
        self.seed, self.n, self.part, self.pictures = seed, n, part, pictures

    def __len__(self) -> int:
        return self.n

    def rows(self, limit: int | None = None) -> Iterator[Row]:
        for i, (picture, seed, dialog) in enumerate(self.samples(self.n if limit is None else min(limit, self.n))):
            yield Row(
                id=f"synthetic-{i:06d}",
                category=picture.kind,
                turns=tuple(turn.question for turn in dialog),
                references=tuple(turn.answer for turn in dialog),
                open_images=partial(_open, picture, seed) if self.pictures else list,
            )

    def samples(self, n: int) -> Iterator[tuple[Picture, int, list[Turn]]]:
        """The first n (picture, seed of its drawing, dialog) of the stream."""
        seen = set()
        rng = np.random.default_rng([self.seed, PARTS.index(self.part)])
        while len(seen) < n:
            picture = draw_picture(rng, self.part)
            sample = picture, int(rng.integers(2**31)), draw_dialog(picture, rng)
            if picture.facts() not in seen:
                seen.add(picture.facts())
                yield sample

    def score(self, row: Row, turn: int, answer: str) -> float | None:
        """Share of the reference's facts that the answer states in order (see `generated.talk.fact_score`)."""
        return fact_score(row.references[turn], answer)


def _open(picture: Picture, seed: int) -> list[Image.Image]:
    return [render(picture, seed)]
