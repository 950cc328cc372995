"""`bench=textvqa`: TextVQA (arXiv 1904.08920), questions about text in photographs, ten answers each.

Hub set lmms-lab/textvqa, split validation: 5,000 rows (test hides its answers). Prompt and rule after lmms-eval's
`textvqa_val`: VQA accuracy over the ten leave-one-out sets. Its prompt capitalises the question, which lower-cases
all other letters; `prompt=speed` leaves the question as it was asked.
"""

from runners.benches.base import Row
from runners.benches.dataset import DatasetBench
from runners.benches.vqa import vqa_accuracy


class TextVQA(DatasetBench):
    name = "textvqa"
    columns = ("question", "answers", "image_id")
    id_column = "question_id"
    licence = "cc-by-4.0 (card of facebook/textvqa); pictures of Open Images"

    def speed(self, cells) -> str:
        return cells["question"].strip()

    def accuracy(self, cells) -> str:
        return f"{cells['question'].capitalize()}\nAnswer the question using a single word or phrase."

    def reference(self, cells) -> tuple[str, ...] | None:
        return tuple(cells["answers"]) if cells["answers"] and any(cells["answers"]) else None

    def category(self, cells) -> str:
        return self.name

    def score(self, row: Row, turn: int, answer: str) -> float:
        """VQA accuracy against the ten answers."""
        return vqa_accuracy(answer, row.references[turn])
