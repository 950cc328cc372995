"""AR and the methods back to back on one input, order rotated, under one contract."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from recap.decode import generate
from recap.drafter import Drafter
from recap.types import Limits, Output, Request
from runners.benches.base import Bench, Row
from runners.clock import clock_for
from runners.contract import Contract
from runners.models import Model
from runners.peer import Peer, TransformersGenerate
from runners.records import Record, Side, visual_tokens
from runners.verdict import compare

AR = "AR"  # the reference; distinct from the method `ar`


class RowError(Exception):
    """An input that cannot be run; it is left out on both sides and reported."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one request left: a record a method, the outputs, and the measured peer where one ran."""

    records: dict[str, Record]
    outputs: dict[str, Output]
    peer: Peer | None


class Pairing:
    """Runs rows. `drafters` holds AR and the methods by name; each keeps its own memory over the stream."""

    def __init__(self, model: Model, bench: Bench, drafters: Mapping[str, Drafter], limits: Limits, contract: Contract):
        self._model, self._bench, self._limits, self._contract = model, bench, limits, contract
        self._drafters = dict(drafters)
        self._clock = clock_for(model.model.device)
        self._generate = TransformersGenerate(model.model, limits)

    def row(self, index: int, row: Row, with_peer: bool) -> Iterator[Turn]:
        """Run every turn of a row; later turns see AR's own earlier answers. Raises RowError for a bad row."""
        try:
            images = row.open_images()
        except Exception as error:  # whatever a decoder raises on a corrupt file
            raise RowError(f"bench {self._bench.name}, row {row.id}: its image cannot be read ({error})") from error
        answers: list[str] = []
        for turn in range(len(row.turns)):
            messages = self._bench.messages(row, turn, answers, len(images))
            inputs = self._model.inputs(messages, images)
            try:
                request = self._model.request(inputs, self._limits)
            except ValueError as error:
                raise RowError(f"bench {self._bench.name}, row {row.id}, turn {turn}: {error}") from error
            contract = self._contract.of(request.prompt, images)
            sides, outputs = self._decode(index, row, turn, request)
            yield Turn(
                {
                    name: Record(
                        index=index,
                        row=row.id,
                        turn=turn,
                        category=row.category,
                        contract=contract.hash(),
                        prompt=contract.prompt,
                        images=contract.images,
                        prompt_tokens=len(request.prompt),
                        visual_tokens=visual_tokens(request),
                        verdict=compare(outputs[AR].tokens, outputs[name].tokens),
                        ar=sides[AR],
                        method=sides[name],
                    )
                    for name in self._drafters
                    if name != AR
                },
                outputs,
                self._generate.run(inputs, outputs[AR].tokens, sides[AR].phases_ns) if with_peer else None,
            )
            answers.append(self._model.text(outputs[AR].tokens))

    def _decode(self, index: int, row: Row, turn: int, request: Request):
        names = list(self._drafters)
        first = index % len(names)
        sides, outputs = {}, {}
        for place, name in enumerate(names[first:] + names[:first]):
            self._clock.start()
            output = generate(self._model.target, self._drafters[name], request, self._limits, self._clock)
            phases = self._clock.stop()
            score = self._bench.score(row, turn, self._model.text(output.tokens))
            outputs[name] = output
            sides[name] = Side.of(output, place, phases, score)
        return sides, outputs

    def reset(self) -> None:
        """A new stream: every memory is cleared."""
        for drafter in self._drafters.values():
            drafter.reset()


def warm_up(pairing: Pairing, bench: Bench, rows: int) -> None:
    """Compile and warm everything on generated rows, never on a benchmark's rows; then forget it all."""
    for index, row in enumerate(bench.rows(rows)):
        for _ in pairing.row(index, row, with_peer=index == 0):
            pass
    pairing.reset()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
