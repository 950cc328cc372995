"""`bench=seed_bench`: SEED-Bench (arXiv 2307.16125), four-way choice about still pictures.

Hub set lmms-lab/SEED-Bench, split test; rows about videos are left out. Prompt and rule after lmms-eval's `seedbench`:
the first character of the answer is the choice, so "The answer is B" counts as T. Some rows show several pictures.
"""

from runners.benches.base import Row
from runners.benches.dataset import DatasetBench, lettered
from runners.benches.scoring import first_character
from runners.benches.tables import Table


class SEEDBench(DatasetBench):
    name = "seed_bench"
    columns = ("question", "choice_a", "choice_b", "choice_c", "choice_d", "answer", "data_type")
    optional = ("question_type_id",)
    id_column = "question_id"
    licence = "cc-by-nc-4.0 (card of AILab-CVC/SEED-Bench); pictures of Conceptual Captions remain their owners'"

    def kept(self, table: Table) -> list[int]:
        return [k for k in range(len(table)) if table.cell("data_type", k) == "image"]

    def speed(self, cells) -> str:
        return f"{cells['question']}\n{lettered([cells[f'choice_{k}'] for k in 'abcd'])}"

    def accuracy(self, cells) -> str:
        return f"{self.speed(cells)}\nAnswer with the option's letter from the given choices directly."

    def reference(self, cells) -> str | None:
        return (cells["answer"] or "").strip() or None

    def category(self, cells) -> str:
        return str(cells.get("question_type_id", cells["data_type"]))

    def score(self, row: Row, turn: int, answer: str) -> float:
        """1 where the answer's first character is the right letter."""
        return first_character(answer, row.references[turn])
