"""AR and the methods back to back on one input, order rotated, under one contract."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from recap.decode import generate, no_clock
from recap.drafter import NOTHING, Drafter
from recap.types import Ints, Limits, Output, Request
from runners.benches.base import Bench, Row
from runners.clock import clock_for
from runners.contract import Contract
from runners.diagnosis import diagnose, reference
from runners.models import Model
from runners.passes import Evidence, OutputLayer, again, evidence_of
from runners.peer import Check, Refused, TransformersGenerate
from runners.records import Record, Side, visual_tokens
from runners.verdict import Verdict, compare

AR = "AR"  # the reference; distinct from the method `ar`


class RowError(Exception):
    """An input that cannot be run; it is left out on both sides and reported."""


Method = Drafter | TransformersGenerate


@dataclass(frozen=True, slots=True)
class Decoded:
    """One request decoded one way; `output` holds the steps, which an outside peer does not show."""

    tokens: Ints
    side: Side
    output: Output | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What one request left: a record and an output a method, the reason where transformers refused, the check."""

    records: dict[str, Record]
    outputs: dict[str, Output | None]
    refusals: dict[str, str]
    check: Check | None


class Pairing:
    """Runs rows. `methods` holds AR and the methods by name; each keeps its own memory over the stream."""

    def __init__(self, model: Model, bench: Bench, methods: Mapping[str, Method], limits: Limits, contract: Contract):
        self._model, self._bench, self._limits, self._contract = model, bench, limits, contract
        self._methods = dict(methods)
        self._clock = clock_for(model.model.device)

    def row(self, index: int, row: Row, checked: bool) -> Iterator[Turn]:
        """Run every turn of a row; later turns see AR's own earlier answers. Raises RowError for a bad row.

        checked: time transformers' own `generate` beside AR as well.
        """
        try:
            images = row.open_images()
        except Exception as error:  # whatever a decoder raises on a corrupt file
            raise RowError(f"bench {self._bench.name}, row {row.id}: its image cannot be read ({error})") from error
        answers: list[str] = []
        for turn in range(len(row.turns)):
            try:
                inputs = self._model.inputs(self._bench.messages(row, turn, answers, len(images)), images)
                request = self._model.request(inputs, self._limits)
            except ValueError as error:
                raise RowError(f"bench {self._bench.name}, row {row.id}, turn {turn}: {error}") from error
            try:
                decoded, refusals = self._decode(index, row, turn, inputs, request)
            except FloatingPointError as error:
                raise RowError(f"bench {self._bench.name}, row {row.id}, turn {turn}: {error}") from error
            plain = decoded.pop(AR)
            contract = self._contract.of(request.prompt, images)
            yield Turn(
                {
                    name: Record(
                        index=index,
                        row=row.id,
                        turn=turn,
                        category=row.category,
                        contract=self._own(contract, name).hash(),
                        prompt=contract.prompt,
                        images=contract.images,
                        prompt_tokens=len(request.prompt),
                        visual_tokens=visual_tokens(request),
                        verdict=self._judge(inputs, request, plain, one, self._methods[name]),
                        ar=plain.side,
                        method=one.side,
                    )
                    for name, one in decoded.items()
                },
                {name: one.output for name, one in decoded.items()},
                refusals,
                self._check(inputs, request, plain) if checked else None,
            )
            answers.append(self._model.text(plain.tokens))

    def _decode(self, index: int, row: Row, turn: int, inputs, request: Request):
        names = list(self._methods)
        first = index % len(names)
        decoded, refusals = {}, {}
        for place, name in enumerate(names[first:] + names[:first]):
            method = self._methods[name]
            try:
                if isinstance(method, TransformersGenerate):
                    one = self._peer(method, inputs, place)
                else:
                    one = self._ours(method, request, place)
            except Refused as refusal:
                refusals[name] = str(refusal)
                continue
            score = self._bench.score(row, turn, self._model.text(one.tokens))
            decoded[name] = replace(one, side=replace(one.side, score=score))
        return decoded, refusals

    def _ours(self, drafter: Drafter, request: Request, place: int) -> Decoded:
        self._clock.start()
        output = generate(self._model.target, drafter, request, self._limits, self._clock)
        return Decoded(output.tokens, Side.of(output, place, self._clock.stop()), output)

    def _peer(self, peer: TransformersGenerate, inputs, place: int) -> Decoded:
        moved = self._model.moved(inputs)
        self._clock.start()
        tokens, committed = peer.decode(self._model.model, moved, self._limits, self._clock)
        return Decoded(tokens, Side.of_peer(tokens.tolist(), committed, place, self._clock.stop()))

    def _check(self, inputs, request: Request, plain: Decoded) -> Check:
        peer = TransformersGenerate()
        one = self._peer(peer, inputs, 0)
        return Check.of(one.side, plain.side, self._judge(inputs, request, plain, one, peer))

    def _judge(self, inputs, request: Request, plain: Decoded, one: Decoded, method: Method) -> Verdict:
        """Equal, or the first difference with its cause."""
        verdict = compare(plain.tokens, one.tokens)
        if verdict.kind == "equal":
            return verdict
        sizes, wanted = [], NOTHING
        if one.output is not None:
            sizes, wanted = [1 + len(step.draft) for step in one.output.steps], method.wants(request)
        known = reference(self._model.target, request, plain.tokens, sizes, wanted)
        seen = (self._again(inputs, request, self._methods[AR], plain), self._again(inputs, request, method, one))
        return diagnose(verdict, (plain.tokens, one.tokens), seen, known)

    def _again(self, inputs, request: Request, method: Method, first: Decoded) -> Evidence:
        if first.output is not None:
            return again(self._model.target, method, first.output, request, self._limits)
        with OutputLayer(self._model.model) as layer:
            tokens, emitted = method.decode(self._model.model, self._model.moved(inputs), self._limits, no_clock)
        return evidence_of(tokens, emitted, layer.passes)

    def _own(self, contract: Contract, name: str) -> Contract:
        """A peer's contract names its own cache class."""
        method = self._methods[name]
        return replace(contract, **method.differs) if isinstance(method, TransformersGenerate) else contract

    def reset(self) -> None:
        """A new stream: every memory is cleared."""
        for method in self._methods.values():
            method.reset()


def warm_up(pairing: Pairing, bench: Bench, rows: int) -> None:
    """Compile and warm everything on generated rows, never on a benchmark's rows; then forget it all."""
    try:
        for index, row in enumerate(bench.rows(rows)):
            for _ in pairing.row(index, row, checked=index == 0):
                pass
    except RowError as error:
        raise ValueError(f"the model cannot answer even a generated question: {error}") from error
    pairing.reset()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
