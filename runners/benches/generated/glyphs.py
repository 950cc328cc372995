"""Bitmaps of letters, digits, shapes and arrows: our own, so that pictures are the same under every PIL version."""

import functools
import string

import numpy as np

SHAPES = ("circle", "square", "triangle", "cross")
ARROWS = ("left", "right", "up", "down")
BAR = "bar"
GLYPHS = ("", *string.digits, *string.ascii_uppercase, *SHAPES, *ARROWS, BAR)  # "" is an empty cell

# 5 x 7 letters and digits; a row is one number whose five bits are the pixels, left to right
_ROWS = """
0 14 17 19 21 25 17 14 | 1 4 12 4 4 4 4 14    | 2 14 17 1 2 4 8 31     | 3 31 2 4 2 1 17 14
4 2 6 10 18 31 2 2     | 5 31 16 30 1 1 17 14 | 6 6 8 16 30 17 17 14   | 7 31 1 2 4 8 8 8
8 14 17 17 14 17 17 14 | 9 14 17 17 15 1 2 12 | A 14 17 17 31 17 17 17 | B 30 17 17 30 17 17 30
C 14 17 16 16 16 17 14 | D 28 18 17 17 17 18 28 | E 31 16 16 30 16 16 31 | F 31 16 16 30 16 16 16
G 14 17 16 23 17 17 15 | H 17 17 17 31 17 17 17 | I 14 4 4 4 4 4 14   | J 7 2 2 2 2 18 12
K 17 18 20 24 20 18 17 | L 16 16 16 16 16 16 31 | M 17 27 21 21 17 17 17 | N 17 25 21 19 17 17 17
O 14 17 17 17 17 17 14 | P 30 17 17 30 16 16 16 | Q 14 17 17 17 21 18 13 | R 30 17 17 30 20 18 17
S 15 16 16 14 1 1 30   | T 31 4 4 4 4 4 4     | U 17 17 17 17 17 17 14 | V 17 17 17 17 17 10 4
W 17 17 17 21 21 27 17 | X 17 17 10 4 10 17 17 | Y 17 17 10 4 4 4 4   | Z 31 1 2 4 8 16 31
"""
_LETTERS = {e.split()[0]: [int(v) for v in e.split()[1:]] for e in _ROWS.replace("\n", "|").split("|") if e.strip()}


@functools.cache
def bitmap(glyph: str, level: int = 0) -> np.ndarray:
    """Boolean mask of a glyph, at most 22 x 22 pixels; `level` 1-9 is the height of a bar (and of nothing else)."""
    if glyph == BAR:
        return np.ones((2 + 2 * level, 18), bool)
    if glyph in _LETTERS:
        rows = np.array([[row >> (4 - x) & 1 for x in range(5)] for row in _LETTERS[glyph]], bool)
        return rows.repeat(3, axis=0).repeat(3, axis=1)
    y, x = np.mgrid[-10:11, -10:11]
    arrow = np.where(x < 0, abs(y) <= x + 10, abs(y) <= 3)  # points left
    return {
        "circle": x * x + y * y <= 100,
        "square": (abs(x) <= 9) & (abs(y) <= 9),
        "triangle": 2 * abs(x) <= y + 10,
        "cross": (abs(x) <= 3) | (abs(y) <= 3),
        "left": arrow,
        "right": arrow[:, ::-1],
        "up": arrow.T,
        "down": arrow.T[::-1],
    }[glyph]
