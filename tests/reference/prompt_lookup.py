"""Prompt lookup, by definition: every n-gram size and every place is tried in order."""

from .history import Reader, chain
from .memory import SEPARATOR


class PromptLookupReference(Reader):
    def __init__(self, ngram: int = 3, tokens: int = 10, tail: str = "truncate", match: str = "earliest") -> None:
        self.ngram, self.tokens, self.tail, self.match = ngram, tokens, tail, match

    def propose(self, room: int) -> list[tuple[int, int]]:
        h = self.history
        for n in range(min(self.ngram, len(h) - 1), 0, -1):
            places = [i for i in range(len(h) - n) if h[i : i + n] == h[-n:] and self._may(i, n)]
            if places and SEPARATOR not in h[-n:]:
                start = (places[0] if self.match == "earliest" else places[-1]) + n
                return chain(self.clean(h[start : start + self.tokens])[: room - 1])
        return []

    def _may(self, i: int, n: int) -> bool:
        h, start = self.history, i + n
        if self.tail == "truncate":
            return h[start] != SEPARATOR
        following = h[start : start + self.tokens]
        return start < len(h) - n and len(following) == self.tokens and SEPARATOR not in following
