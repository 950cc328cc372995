"""`bench=text`: forty prompts without images, for models that read text only and for any other.

The prompts were written for this project (`text_prompts.jsonl`) and need no download.
"""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np

from runners.benches.base import Bench, Row

CATEGORIES = ("question", "summary", "copy", "code")


class Text(Bench):
    """One prompt of each category in turn, so that any limit is a fair sample.

    seed   of the order within the categories
    """

    name = "text"

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        lines = Path(__file__).with_name("text_prompts.jsonl").read_text(encoding="utf-8").splitlines()
        groups = {category: [] for category in CATEGORIES}
        for prompt in map(json.loads, lines):
            group = groups[prompt["category"]]
            group.append(_row(f"text-{prompt['category']}-{len(group)}", **prompt))
        shuffled = [[group[i] for i in rng.permutation(len(group))] for group in groups.values()]
        self._rows = [row for rows in zip(*shuffled, strict=True) for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, limit: int | None = None) -> Iterator[Row]:
        yield from self._rows[:limit]

    def score(self, row: Row, turn: int, answer: str) -> float | None:
        """Share of the words to copy that the answer repeats in order; None for all other categories."""
        reference = row.references[turn]
        if reference is None:
            return None
        words = reference.split()
        blocks = SequenceMatcher(None, words, answer.split(), autojunk=False).get_matching_blocks()
        return sum(block.size for block in blocks) / len(words)


def _row(name: str, category: str, ask: str, text: str | None = None) -> Row:
    prompt = ask if text is None else f"{ask}\n\n{text}"
    return Row(name, category, turns=(prompt,), references=(text if category == "copy" else None,))
