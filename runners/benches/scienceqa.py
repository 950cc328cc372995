"""`bench=scienceqa`: ScienceQA (arXiv 2209.09513), school science with pictures, two to five choices.

Hub set lmms-lab/ScienceQA, configuration ScienceQA-IMG, split test: 2,017 rows; rows without a picture, which
ScienceQA-FULL has, are left out. Prompt and rule after lmms-eval's `scienceqa_img`: the letter alone, or "X." at the
start; "(B)" and "B) mushroom" count as wrong. Lectures and solutions are not shown.
"""

from runners.benches.base import Row
from runners.benches.dataset import DatasetBench, lettered
from runners.benches.scoring import option_letter
from runners.benches.tables import Table


class ScienceQA(DatasetBench):
    name = "scienceqa"
    columns = ("question", "choices", "answer", "hint", "subject")
    licence = "cc-by-nc-sa-4.0 (lupantech/ScienceQA, LICENSE-DATA)"

    def kept(self, table: Table) -> list[int]:
        return [k for k, there in enumerate(table.has_images(self.image_column)) if there]

    def speed(self, cells) -> str:
        context = f"Context: {cells['hint']}\n" if cells["hint"] else ""
        return f"{context}{cells['question']}\n{lettered(cells['choices'])}"

    def accuracy(self, cells) -> str:
        return f"{self.speed(cells)}\nAnswer with the option's letter from the given choices directly."

    def reference(self, cells) -> str | None:
        index = cells["answer"]
        if index is None:
            return None
        if not 0 <= index < len(cells["choices"]):
            raise ValueError(f"answer {index} of {len(cells['choices'])} choices")
        return chr(ord("A") + index)

    def category(self, cells) -> str:
        return str(cells["subject"])

    def score(self, row: Row, turn: int, answer: str) -> float:
        """1 for the right letter alone or as 'X.' at the start."""
        return option_letter(answer, row.references[turn])
