"""`bench=mathvista`: MathVista (arXiv 2310.02255), mathematical questions about pictures.

Hub set AI4Math/MathVista, split testmini: 1,000 rows (test hides its answers). Prompt after lmms-eval's
`mathvista_testmini_format`. The published score asks a language model to extract the answer; here a fixed extractor
does, offline, so the number is not the published one (see mathvista_answers).
"""

from runners.benches import mathvista_answers
from runners.benches.base import Row
from runners.benches.dataset import DatasetBench, lettered

FORMATS = {
    ("integer", None): "Answer the question using a single integer number.",
    ("float", 1): "Answer the question using a single floating-point number with one decimal place.",
    ("float", 2): "Answer the question using a single floating-point number with two decimal places.",
    ("list", None): "Answer the question using a Python list.",
}
LETTER = "Answer with the option's letter from the given choices directly."


class MathVista(DatasetBench):
    name = "mathvista"
    columns = ("question", "choices", "unit", "precision", "answer", "question_type", "answer_type", "metadata")
    id_column = "pid"
    image_column = "decoded_image"
    licence = "cc-by-sa-4.0 for the new parts, pictures and questions remain their authors'; for testing only"

    def speed(self, cells) -> str:
        unit = f" (Unit: {cells['unit']})" if cells["unit"] else ""
        options = [lettered(cells["choices"])] if cells["choices"] else []
        return "\n".join([cells["question"] + unit, *options])

    def accuracy(self, cells) -> str:
        return f"{self.speed(cells)}\n{_format(cells)}"

    def reference(self, cells) -> tuple | None:
        if not cells["answer"]:
            return None
        choices = tuple(cells["choices"]) if cells["choices"] else None
        if cells["question_type"] == "multi_choice" and choices is None:
            raise ValueError("multi_choice without choices")
        return cells["answer"], choices, cells["question_type"], cells["answer_type"], cells["precision"]

    def category(self, cells) -> str:
        return str((cells["metadata"] or {}).get("task"))

    def score(self, row: Row, turn: int, answer: str) -> float:
        """1 where the answer extracted offline, normalised, is the reference."""
        return mathvista_answers.score(answer, *row.references[turn])


def _format(cells) -> str:
    if cells["question_type"] == "multi_choice":
        return LETTER
    kind = cells["answer_type"]
    key = kind, int(cells["precision"]) if kind == "float" else None
    if key not in FORMATS:
        raise ValueError(f"answer_type {kind} with precision {cells['precision']}")
    return FORMATS[key]
