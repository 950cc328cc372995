"""The text of a request as a list, by definition."""

from recap.types import Limits, Request, Rows, Step

from .memory import SEPARATOR


class Reader:
    """A reference that reads the text, -1 for placeholders, and asks for no prompt rows."""

    top_k = 1

    def wants(self, request: Request) -> list[int]:
        return []

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self.placeholders, self.stop_ids = request.placeholders, limits.stop_ids
        self.history = self.masked([*request.prompt.tolist(), int(rows.ids[-1, 0])])

    def observe(self, rows: Rows, step: Step) -> None:
        self.history += self.masked(step.committed.tolist())

    def end(self) -> None:
        """Nothing ends with a request."""

    def masked(self, tokens: list[int]) -> list[int]:
        return [SEPARATOR if token in self.placeholders else token for token in tokens]

    def clean(self, tokens: list[int]) -> list[int]:
        """Tokens up to the first placeholder or stop id."""
        ends = [i for i, token in enumerate(tokens) if token == SEPARATOR or token in self.stop_ids]
        return tokens[: ends[0]] if ends else tokens


def chain(tokens: list[int]) -> list[tuple[int, int]]:
    """(token, parent) of a path."""
    return [(token, node - 1) for node, token in enumerate(tokens)]
