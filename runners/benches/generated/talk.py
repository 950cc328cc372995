"""Dialogs about one picture."""

import re
from dataclasses import dataclass

import numpy as np

from . import chart_talk, grid_talk, sign_talk
from .phrases import FACT_WORDS, OPENERS, pick
from .pictures import Picture

WRITERS = {"chart": chart_talk.WRITERS, "sign": sign_talk.WRITERS, "grid": grid_talk.WRITERS}
STYLES = 3  # phrasings a writer
TURNS = (0.70, 0.20, 0.10)  # share of dialogs with one, two and three turns
OPENED = 0.2  # share of turns that ask for opening words, which the answer copies
FACT = re.compile(r"\b(?:[A-Z]+|\d|" + "|".join(FACT_WORDS) + r")\b|\d")


@dataclass(frozen=True, slots=True)
class Turn:
    """`kind` is picture kind, writer and style, such as "chart/list_bars/0"."""

    kind: str
    question: str
    answer: str


def draw_turn(picture: Picture, rng: np.random.Generator, writer=None) -> Turn:
    """One question and its reference answer; the writer is drawn unless given."""
    writer = writer or pick(rng, WRITERS[picture.kind])
    style = int(rng.integers(STYLES))
    question, answer = writer(picture, style, rng)
    if rng.random() < OPENED:
        opener = " ".join(pick(rng, OPENERS, int(rng.integers(2, 5))))
        question += f" Start your answer with: {opener}."
        answer = f"{opener}: {answer}"
    return Turn(f"{picture.kind}/{writer.__name__}/{style}", question, answer)


def draw_dialog(picture: Picture, rng: np.random.Generator, turns: int | None = None) -> list[Turn]:
    """One to three turns by different writers; their number is drawn unless given."""
    turns = turns or 1 + int(rng.choice(len(TURNS), p=TURNS))
    return [draw_turn(picture, rng, writer) for writer in pick(rng, WRITERS[picture.kind], turns)]


def facts_in(text: str) -> list[str]:
    """What a text states about a picture, in order: colours, shapes, directions, counts, comparisons, words in
    capitals, labels and single digits.

    A few of them a phrasing or a question gives away ("two by two", the number that was asked for), so that a blind
    answer in the right phrasing does not score zero.
    """
    return FACT.findall(text)


def fact_score(reference: str, answer: str) -> float:
    """Length of the longest common subsequence of both texts' facts over the longer one's length, in [0, 1].

    1.0 exactly when the facts of `answer` are those of `reference` in the same order. Facts that are left out, wrong,
    out of order or stated too often all cost, so a list of all words there are scores close to zero.
    """
    want, got = facts_in(reference), facts_in(answer)
    row = [0] * (len(got) + 1)
    for fact in want:
        last = row
        row = [0]
        for j, other in enumerate(got):
            row.append(last[j] + 1 if fact == other else max(row[j], last[j + 1]))
    return row[-1] / max(len(want), len(got), 1)
