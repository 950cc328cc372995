"""`bench=mmt_bench`: MMT-Bench (arXiv 2404.16006), multiple choice over 162 multimodal tasks.

Hub set lmms-lab/MMT-Benchmark, split val: 3,127 rows (test hides its answers); prompt and rule after lmms-eval's
`mmt`, with two traps mended: an answer without a letter is wrong, where there a letter is drawn at random; and the
prompt's literal `<image>` is the picture's place, where there it stays in the text, which LLaVA reads as a second
picture.
"""

from collections.abc import Sequence

from runners.benches.base import Row
from runners.benches.dataset import DatasetBench
from runners.benches.scoring import letter

LETTERS = "ABCDEFGHI"
PLACE = "<image>"


class MMTBench(DatasetBench):
    name = "mmt_bench"
    columns = ("question", "answer", *LETTERS, "category", "l2-category")
    id_column = "index"
    licence = "cc-by-4.0 on the card of OpenGVLab/MMT-Bench, mit on that of Kaining/MMT-Bench"

    def speed(self, cells) -> str:
        options = [f"{k}: {text}" for k, text in _options(cells).items()]
        return "\n".join([cells["question"].strip(), *options])

    def accuracy(self, cells) -> str:
        suffix = "Answer the question using a single character from the given options."
        return f"Question: {PLACE}\n{self.speed(cells)}\n{suffix}"

    def reference(self, cells) -> tuple[str, str] | None:
        answer = (cells["answer"] or "").strip()
        return (answer, "".join(_options(cells))) if answer else None

    def category(self, cells) -> str:
        return str(cells["l2-category"])

    def score(self, row: Row, turn: int, answer: str) -> float:
        """1 where the letter found in the answer is the right one."""
        right, letters = row.references[turn]
        return float(letter(answer, letters) == right)

    def messages(self, row: Row, turn: int, answers: Sequence[str], images: int) -> list[dict]:
        chat = super().messages(row, turn, answers, images)
        if self.prompt == "accuracy":
            before, after = ({"type": "text", "text": text} for text in row.turns[turn].split(PLACE, maxsplit=1))
            chat[-1]["content"] = [before, *[{"type": "image"}] * images, after]
        return chat


def _options(cells) -> dict[str, str]:
    """Letters and their options; unused ones are empty."""
    return {k: cells[k].strip() for k in LETTERS if cells[k] and cells[k].strip()}
