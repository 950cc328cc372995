"""Token Recycling by definition: a dict of latest rows and the static tree as nested rank paths."""

from recap.types import Limits, Request, Rows, Step

TEMPLATE = {
    "": 8,
    "0": 8, "1": 4, "2": 3, "3": 2, "4": 1, "5": 1, "6": 1, "7": 1,
    "00": 8, "01": 3, "02": 2, "03": 1, "04": 1, "05": 1, "06": 1, "07": 1,
    "10": 2, "11": 1, "20": 1, "30": 1, "40": 1, "50": 1,
    "000": 5, "001": 2, "002": 1, "003": 1, "004": 1, "010": 1, "020": 1, "100": 1, "200": 1, "300": 1,
    "0000": 3, "0001": 1, "0002": 1, "0010": 1, "0100": 1, "1000": 1,
    "00000": 2, "00010": 1,
}  # fmt: skip


class TokenRecyclingReference:
    """prefill: 'none' or 'unigram'; duplicates: 'last' or 'first' in layer order."""

    top_k = 8

    def __init__(self, prefill: str = "none", duplicates: str = "last") -> None:
        self.prefill = prefill
        self.duplicates = duplicates
        self.matrix: dict[int, list[int]] = {}

    def wants(self, request: Request) -> list[int]:
        """The last position of every text token, in prompt order."""
        if self.prefill == "none":
            return []
        last = {token: i for i, token in enumerate(request.prompt.tolist()) if token not in request.placeholders}
        return sorted(last.values())

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        """The matrix stays; prompt rows are written over it."""
        self.placeholders, self.stop_ids = request.placeholders, limits.stop_ids
        for i, position in enumerate(self.wants(request)):
            self._write(int(request.prompt[position]), rows.ids[i].tolist())
        self.root = int(rows.ids[-1, 0])

    def propose(self, room: int) -> list[tuple[int, int]]:
        """(token, parent) in depth-first order; `nodes` remembers every node's rank path."""
        self.nodes: list[tuple[str, int, int]] = []
        self._descend("", self.root, -1, room)
        return [(token, parent) for _, token, parent in self.nodes]

    def observe(self, rows: Rows, step: Step) -> None:
        """Every evaluated node writes its row, layer by layer, ranks ascending."""
        evaluated = [("", self.root, 0)] + [(path, token, i + 1) for i, (path, token, _) in enumerate(self.nodes)]
        evaluated.sort(key=lambda node: (len(node[0]), node[0]))
        if self.duplicates == "first":
            evaluated.reverse()
        for _, token, row in evaluated:
            self._write(token, rows.ids[row].tolist())
        self.root = int(step.committed[-1])

    def end(self) -> None:
        """Nothing ends with a request."""

    def reset(self) -> None:
        """A new stream."""
        self.matrix.clear()

    def _descend(self, path: str, token: int, at: int, room: int) -> None:
        if len(path) + 1 > room - 1 or (path and token in self.stop_ids):
            return
        for rank, child in enumerate(self.matrix.get(token, [])[: TEMPLATE.get(path, 0)]):
            self.nodes.append((f"{path}{rank}", child, at))
            self._descend(f"{path}{rank}", child, len(self.nodes) - 1, room)

    def _write(self, token: int, ids: list[int]) -> None:
        if token not in self.placeholders:
            self.matrix[token] = [i for i in ids if i not in self.placeholders]
