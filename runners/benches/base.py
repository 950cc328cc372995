"""What a benchmark is: rows with images and questions, a chat per turn, a score per answer.

A new benchmark is one file here and one yaml in conf/bench. It subclasses `Bench`, yields `Row`s in stream order and
scores answers; pairing, clocks and records are the runners' business. One that reads a published data set subclasses
`dataset.DatasetBench`, which finds the rows, chooses the subset and keeps its manifest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image


@dataclass(frozen=True, slots=True)
class Row:
    """One input of a benchmark: one image (or several, or none) and one question a turn.

    id          stable name, the same on every machine
    category    the group that tables split by
    turns       questions in order; single-turn rows have one
    references  what `score` holds the answer of each turn against, None where the set has none
    open_images opens the images when they are needed, so that memory stays flat in the number of rows; they may be
                undecoded (PIL reads the size first, the pixels at use) and of any mode
    fault       why the row cannot be run, "" for a sound one; it is left out on both sides and reported
    """

    id: str
    category: str
    turns: tuple[str, ...]
    references: tuple[Any, ...]
    open_images: Callable[[], list[Image.Image]] = field(default=list, repr=False)
    fault: str = ""

    def __post_init__(self) -> None:
        assert len(self.turns) == len(self.references) > 0, f"row {self.id}: one reference a turn"


class Bench(ABC):
    """The base class of all benchmarks."""

    name: str
    source: str = "bundled"  # where its rows come from
    system: str | None = None  # system text put before the first turn

    @abstractmethod
    def rows(self, limit: int | None = None) -> Iterator[Row]:
        """Yield the scored rows in stream order, at most `limit` of them."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of scored rows."""

    @abstractmethod
    def score(self, row: Row, turn: int, answer: str) -> float | None:
        """Quality of `answer` to `row.turns[turn]`, in [0, 1]; None where the set has no reference answers."""

    def messages(self, row: Row, turn: int, answers: Sequence[str], images: int) -> list[dict]:
        """The chat that asks `turn`, after the given earlier answers; the images stand in the first user message.

        The layout is that of transformers' `apply_chat_template`: content lists of image and text parts.
        """
        assert len(answers) == turn, f"row {row.id}: turn {turn} needs {turn} earlier answers, got {len(answers)}"
        chat = [] if self.system is None else [_message("system", self.system)]
        for k in range(turn + 1):
            chat.append(_message("user", row.turns[k], images if k == 0 else 0))
            if k < turn:
                chat.append(_message("assistant", answers[k]))
        return chat


def _message(role: str, text: str, images: int = 0) -> dict:
    return {"role": role, "content": [{"type": "image"}] * images + [{"type": "text", "text": text}]}
