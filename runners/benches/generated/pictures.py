"""What can be on a picture, how it is drawn, and which part (train, warmup, scored) it belongs to.

Every glyph stands in a cell of 28 x 28 pixels, which is one merged visual token of Qwen2.5-VL.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from PIL import Image

from .glyphs import ARROWS, BAR, SHAPES, bitmap

CELL, ROWS = 28, 3  # pixels a cell side, cells a picture height
PARTS = ("scored", "warmup", "train")
KINDS = ("chart", "sign", "grid")
LABELS = "BCDEFGHK"  # without A and I, which are also English words
COLOURS = {
    "red": (210, 40, 40), "orange": (245, 135, 25), "yellow": (240, 222, 60), "green": (50, 160, 70),
    "blue": (45, 90, 215), "purple": (140, 60, 170), "pink": (245, 150, 200),
}  # fmt: skip
DARK = ("red", "green", "blue", "purple")  # signs of these colours are written in white
WORDS = (  # at most six letters, one a cell
    "TAXI BUS EXIT PARK ZOO BEACH HOTEL MUSEUM BANK SHOP CAFE PORT FERRY TRAIN METRO TOWER BRIDGE GARDEN LAKE RIVER "
    "FARM MILL CASTLE MARKET SCHOOL OFFICE POOL GYM HARBOR FOREST VALLEY QUAY JUNGLE WHARF PLAZA DEPOT GATE KIOSK"
).split()


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands in one cell: a glyph, its colour name ("" is black) and, for a bar, its height 1-9."""

    glyph: str
    colour: str = ""
    level: int = 0


@dataclass(frozen=True, slots=True)
class Bar:
    colour: str
    label: str
    value: int


@dataclass(frozen=True, slots=True)
class Chart:
    """Three to six bars with distinct colours, labels and values 1-9; 168 x 84 pixels."""

    bars: tuple[Bar, ...]
    kind, columns, paper = "chart", 6, ""

    @staticmethod
    def draw(rng: np.random.Generator) -> "Chart":
        n = int(rng.integers(3, 7))
        parts = [rng.permutation(len(p))[:n] for p in (COLOURS, LABELS, range(9))]
        return Chart(tuple(Bar(list(COLOURS)[c], LABELS[k], int(v) + 1) for c, k, v in zip(*parts, strict=True)))

    def facts(self) -> str:
        return "chart " + ", ".join(f"{b.colour} {b.label} {b.value}" for b in self.bars)

    def cells(self) -> dict[tuple[int, int], Mark]:
        cells = {}
        for x, bar in enumerate(self.bars):
            cells[0, x], cells[2, x] = Mark(str(bar.value)), Mark(bar.label)
            cells[1, x] = Mark(BAR, bar.colour, bar.value)
        return cells


@dataclass(frozen=True, slots=True)
class Sign:
    """A coloured sign with a word, a number of four to six digits (one above the other) and an arrow; 168 x 84."""

    colour: str
    word: str
    number: str
    word_first: bool
    arrow: str
    kind, columns = "sign", 6

    @staticmethod
    def draw(rng: np.random.Generator) -> "Sign":
        digits = int(rng.integers(4, 7))
        return Sign(
            list(COLOURS)[rng.integers(len(COLOURS))],
            WORDS[rng.integers(len(WORDS))],
            str(rng.integers(10 ** (digits - 1), 10**digits)),
            bool(rng.integers(2)),
            ARROWS[rng.integers(len(ARROWS))],
        )

    @property
    def paper(self) -> str:
        return self.colour

    @property
    def lines(self) -> tuple[str, str]:
        return (self.word, self.number) if self.word_first else (self.number, self.word)

    def facts(self) -> str:
        return f"sign {self.colour} {' '.join(self.lines)} {self.arrow}"

    def cells(self) -> dict[tuple[int, int], Mark]:
        cells = {(y, x): Mark(glyph) for y, line in enumerate(self.lines) for x, glyph in enumerate(line)}
        return cells | {(2, 0): Mark(self.arrow)}


@dataclass(frozen=True, slots=True)
class Grid:
    """Nine cells, four to seven of them with a coloured shape; 84 x 84 pixels."""

    shapes: tuple[tuple[str, str] | None, ...]  # nine (colour, shape), row by row; None is an empty cell
    kind, columns, paper = "grid", 3, ""

    @staticmethod
    def draw(rng: np.random.Generator) -> "Grid":
        full = set(rng.permutation(9)[: rng.integers(4, 8)].tolist())
        pairs = zip(rng.integers(len(COLOURS), size=9), rng.integers(len(SHAPES), size=9), strict=True)
        return Grid(tuple((list(COLOURS)[c], SHAPES[s]) if i in full else None for i, (c, s) in enumerate(pairs)))

    def facts(self) -> str:
        return "grid " + ", ".join(" ".join(s) if s else "empty" for s in self.shapes)

    def cells(self) -> dict[tuple[int, int], Mark]:
        return {divmod(i, 3): Mark(s[1], s[0]) for i, s in enumerate(self.shapes) if s}


Picture = Chart | Sign | Grid
_CLASSES = {"chart": Chart, "sign": Sign, "grid": Grid}


def part_of_key(key: str) -> str:
    """A sixteenth of all keys is scored, another is for warming up, the rest is for training."""
    slot = hashlib.sha256(key.encode()).digest()[0] % 16
    return PARTS[min(slot, 2)]


def part_of(picture: Picture) -> str:
    """The part a picture belongs to, by its facts alone.

    A sign's part hangs on its number alone, so that a scored number is never seen in training on any sign.
    """
    return part_of_key(picture.number if isinstance(picture, Sign) else picture.facts())


def draw_picture(rng: np.random.Generator, part: str, kind: str | None = None) -> Picture:
    """Draw facts until they belong to `part`; `kind` is drawn too unless given."""
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    kind = kind or KINDS[rng.integers(len(KINDS))]
    while part_of(picture := _CLASSES[kind].draw(rng)) != part:
        pass
    return picture


def render(picture: Picture, seed: int) -> Image.Image:
    """Draw the facts, with glyphs off centre by up to two pixels and colours off by up to ten, both by `seed`."""
    rng = np.random.default_rng(seed)
    canvas = np.empty((ROWS * CELL, picture.columns * CELL, 3), np.uint8)
    canvas[:] = _tint(COLOURS[picture.paper] if picture.paper else (244, 244, 240), rng)
    ink = (250, 250, 250) if picture.paper in DARK else (20, 20, 25)
    for (row, column), mark in picture.cells().items():
        mask = bitmap(mark.glyph, mark.level)
        dy, dx = rng.integers(-2, 3, size=2)
        space = CELL - mask.shape[0] + 1
        y = row * CELL + (space - 3 if mark.glyph == BAR else space // 2) + dy  # bars stand on a common ground
        x = column * CELL + (CELL - mask.shape[1] + 1) // 2 + dx
        colour = _tint(COLOURS[mark.colour] if mark.colour else ink, rng)
        canvas[y : y + mask.shape[0], x : x + mask.shape[1]][mask] = colour
    return Image.fromarray(canvas)


def _tint(colour: tuple[int, int, int], rng: np.random.Generator) -> np.ndarray:
    return np.clip(np.array(colour) + rng.integers(-10, 11, size=3), 0, 255).astype(np.uint8)
