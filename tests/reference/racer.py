"""RACER, by definition: the trie as a dict from string to counts, searched whole; the table as a dict of rows."""

from dataclasses import dataclass

from recap.types import Limits, Request, Rows, Step

from .history import Reader
from .memory import SEPARATOR
from .token_recycling import TokenRecyclingReference


@dataclass
class Entry:
    """count: windows through the node; serial: when it was inserted; touched: when it was last used."""

    count: int
    serial: int
    touched: int = 0


class RacerReference(Reader):
    def __init__(self, max_num_draft=64, ngram=10, max_nodes=10_000, max_breadth=8, min_depth=2, trie="stream") -> None:
        self.rows, self.ngram, self.max_nodes, self.top_k = max_num_draft, ngram, max_nodes, max_breadth
        self.min_depth, self.keep = min_depth, trie == "stream"
        self.table: dict[int, list[int]] = {}
        self.trie: dict[tuple[int, ...], Entry] = {}
        self.clock = 0

    def wants(self, request: Request) -> list[int]:
        return TokenRecyclingReference("unigram").wants(request)

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        super().begin(request, limits, rows)
        if not self.keep:
            self.trie = {}
        for i, position in enumerate(self.wants(request)):
            self._write(int(request.prompt[position]), rows.ids[i].tolist())
        for end in range(1, len(self.history)):
            self._insert(end)

    def propose(self, room: int) -> list[tuple[int, int]]:
        self.nodes: list[tuple[int, int]] = []
        kept = self._retrieve(room - 1)
        self._list_rows(self.rows - kept, room - 1)
        return self.nodes

    def observe(self, rows: Rows, step: Step) -> None:
        depth = [0]
        for _, parent in self.nodes:
            depth.append(depth[parent + 1] + 1)
        tokens = [self.history[-1], *(token for token, _ in self.nodes)]
        for row in sorted(range(len(tokens)), key=depth.__getitem__):
            self._write(tokens[row], rows.ids[row].tolist())
        body = len(self.history) - 1
        super().observe(rows, step)
        for end in range(len(self.history) - 1, body, -1):
            self._insert(end)

    def _write(self, token: int, ids: list[int]) -> None:
        if token not in self.placeholders and token != SEPARATOR:
            self.table[token] = [i for i in ids if i not in self.placeholders]

    def _insert(self, end: int) -> None:
        """Count the window that ends before `end`."""
        window = tuple(self.history[max(0, end - self.ngram) : end])
        if len(window) < self.ngram or SEPARATOR in window:
            return
        known = max(n for n in range(self.ngram + 1) if n == 0 or window[:n] in self.trie)
        self._touch(window[:known])
        for n in range(known + 1, self.ngram + 1):
            if len(self.trie) == self.max_nodes:
                leaves = [s for s in self.trie if not any(t[:-1] == s for t in self.trie) and s != window[: n - 1]]
                del self.trie[min(leaves, key=lambda s: self.trie[s].touched)]
            self.clock += 1
            self.trie[window[:n]] = Entry(0, self.clock)
        self._touch(window)
        for n in range(1, self.ngram + 1):
            self.trie[window[:n]].count += 1

    def _touch(self, string: tuple[int, ...]) -> None:
        for n in range(len(string), 0, -1):
            self.clock += 1
            self.trie[string[:n]].touched = self.clock

    def _retrieve(self, deepest: int) -> int:
        candidates = []
        for length in range(self.min_depth, min(self.ngram, len(self.history)) + 1):
            border = tuple(self.history[-length:])
            for string, entry in self.trie.items() if border in self.trie else ():
                path = string[length:]
                if string[:length] == border and len(path) <= deepest and not set(path[:-1]) & set(self.stop_ids):
                    candidates.append(((-entry.count, len(path), -length, entry.serial), string, path))
        kept = sorted(candidates)[: self.rows]
        for _, _, path in kept:
            self._merge(path)
        for _, string, _ in reversed(kept):
            self._touch(string)
        return len(kept)

    def _merge(self, path: tuple[int, ...]) -> None:
        at = -1
        for token in path:
            if (token, at) not in self.nodes:
                self.nodes.append((token, at))
            at = self.nodes.index((token, at))

    def _list_rows(self, rows: int, deepest: int) -> None:
        queue: list[tuple[tuple[int, ...], int]] = [((), self.top_k)]  # path, breadth
        for path, breadth in queue:  # grows while it is read
            if len(path) == deepest or (path and path[-1] in self.stop_ids):
                continue
            below = breadth if len(path) == 1 else breadth // 2
            row = self.table.get(path[-1] if path else self.history[-1], [])
            for token in row[:breadth]:
                if len(queue) < rows:
                    queue.append(((*path, token), max(1, below)))
                    self._merge((*path, token))
                    below //= 2
