"""`bench=ocrbench`: OCRBench (arXiv 2305.07895), text recognition and questions about text.

Hub set echo840/OCRBench, split test: 1,000 rows. Prompt and rule after lmms-eval's `ocrbench`: the question alone, so
both prompts are the same, and any gold answer contained in the answer. Its two traps do not arise here: counts are
made a run, and the mean is over the rows that ran, not over 1,000.
"""

from runners.benches.base import Row
from runners.benches.dataset import DatasetBench
from runners.benches.scoring import contains_any


class OCRBench(DatasetBench):
    name = "ocrbench"
    columns = ("dataset", "question", "question_type", "answer")
    licence = "MIT (Yuliang-Liu/MultimodalOCR); pictures come from some 25 sets with terms of their own"

    def speed(self, cells) -> str:
        return cells["question"].strip()

    def accuracy(self, cells) -> str:
        return self.speed(cells)

    def reference(self, cells) -> tuple[str, tuple[str, ...]] | None:
        answer = cells["answer"]
        golds = tuple(filter(None, [answer] if isinstance(answer, str) else answer or []))
        return (cells["dataset"], golds) if golds else None

    def category(self, cells) -> str:
        return str(cells["question_type"])

    def score(self, row: Row, turn: int, answer: str) -> float:
        """1 where any gold answer is contained in the answer."""
        dataset, golds = row.references[turn]
        return contains_any(answer, golds, dataset)
