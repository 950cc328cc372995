"""`bench=chartqa`: ChartQA (arXiv 2203.10244), questions about charts by people and by a generator.

Hub set lmms-lab/ChartQA, split test: 2,500 rows, those by people first. Prompt and rule after lmms-eval's `chartqa`:
numbers within five percent, anything else by equality; "about 14" and "14%" for 14 count as wrong.
"""

from runners.benches.base import Row
from runners.benches.dataset import DatasetBench
from runners.benches.scoring import relaxed


class ChartQA(DatasetBench):
    name = "chartqa"
    columns = ("type", "question", "answer")
    licence = "gpl-3.0 on the cards of its copies; the publishers' repository (vis-nlp/ChartQA) states none"

    def speed(self, cells) -> str:
        return cells["question"].strip()

    def accuracy(self, cells) -> str:
        return f"{cells['question']}\nAnswer the question with a single word."

    def reference(self, cells) -> str | None:
        return (cells["answer"] or "").strip() or None

    def category(self, cells) -> str:
        return str(cells["type"])

    def score(self, row: Row, turn: int, answer: str) -> float:
        """Relaxed correctness, 0 or 1."""
        return relaxed(answer, row.references[turn])
