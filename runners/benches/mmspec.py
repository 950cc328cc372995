"""`bench=mmspec`: MMSpec, 600 conversations about pictures in six topics, 723 turns, made to measure decoding.

There is no hub set: its repository holds `dataset/MMSpec/test/mmspec.jsonl` beside `images/`, and that folder is what
`bench.path` names. Questions are put as they stand, after MMSpec's own system text; each turn is a request whose
prompt holds the earlier turns and their answers. There are no reference answers, so there is no score.
"""

from typing import Any

from runners.benches.base import Row
from runners.benches.dataset import TableBench
from runners.benches.tables import open_local

SYSTEM = (
    "A chat between a curious human and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the human's questions."
)


class MMSpec(TableBench):
    """All rows in file order.

    path       the folder of mmspec.jsonl and images/
    split      names the manifest: test or testmini
    per_topic  the first rows of each topic only; null = all
    order      a seed that shuffles the stream; null = file order
    """

    name = "mmspec"
    system = SYSTEM
    columns = ("turns", "category", "topic")
    id_column = "id"
    licence = "Apache-2.0 (its repository); each source keeps its own"

    def __init__(
        self, path: str | None = None, split: str = "test", per_topic: int | None = None, order: int | None = None
    ) -> None:
        if path is None:
            raise ValueError(
                "bench.path: MMSpec is on no hub; give the folder of its mmspec.jsonl and images "
                "(dataset/MMSpec/test of a clone of its repository)"
            )
        if per_topic is not None and per_topic < 1:
            raise ValueError(f"bench.per_topic={per_topic}: at least 1, or null for all rows")
        self._per_topic = per_topic
        super().__init__(open_local(self.name, path, split), split, f"top{per_topic}" if per_topic else "all", order)

    def choose(self, kept: list[int]) -> list[int]:
        seen: dict[str, int] = {}
        chosen = []
        for position in kept:
            topic = self._table.cell("topic", position)
            seen[topic] = seen.get(topic, 0) + 1
            if self._per_topic is None or seen[topic] <= self._per_topic:
                chosen.append(position)
        return chosen

    def make(self, name: str, cells: dict[str, Any]) -> Row:
        turns = tuple(cells["turns"])
        if not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
            raise ValueError("turns: expected at least one question, none of them empty")
        return Row(name, str(cells["topic"]), turns, (None,) * len(turns))

    def score(self, row: Row, turn: int, answer: str) -> None:
        """There are no reference answers."""
        return None
