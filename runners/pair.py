"""AR and the methods back to back on one input, order rotated, under one contract."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from recap.decode import generate, no_clock
from recap.drafter import NOTHING, Drafter
from recap.types import Ints, Limits, Output, Request
from runners.benches.base import Bench, Row
from runners.benches.images import to_rgb
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
    """An input that cannot be run; it is left out on both sides and reported. begun: decoding had begun."""

    def __init__(self, message: str, begun: bool = False) -> None:
        super().__init__(message)
        self.begun = begun


Method = Drafter | TransformersGenerate


@dataclass(frozen=True, slots=True)
class Decoded:
    """One request decoded one way; `output` holds the steps, which an outside peer does not show."""

    tokens: Ints
    side: Side
    output: Output | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What one request left: a record and an output a method, the reason where transformers refused, the check.

    prompt    ids [n] that AR was given, -1 for placeholders
    unpaired  methods that were asked after other answers than AR's, so that nothing can be compared
    """

    records: dict[str, Record]
    outputs: dict[str, Output | None]
    refusals: dict[str, str]
    check: Check | None
    number: int
    prompt: Ints
    unpaired: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Asked:
    """One turn as the model is given it, after these earlier answers."""

    answers: tuple[str, ...]
    inputs: dict[str, Any]
    request: Request


class Pairing:
    """Runs rows. `methods` holds AR and the methods by name; each keeps its own memory over the stream.

    history  what later turns see of the earlier ones: 'ar' gives AR's answers to every method, so that all turns are
             pairs; 'own' gives each method its own, and a turn whose answers so far differ from AR's is not a pair
    """

    def __init__(
        self,
        model: Model,
        bench: Bench,
        methods: Mapping[str, Method],
        limits: Limits,
        contract: Contract,
        history: Literal["ar", "own"] = "ar",
    ) -> None:
        self._model, self._bench, self._limits, self._contract = model, bench, limits, contract
        self._methods, self._history = dict(methods), history
        self._clock = clock_for(model.model.device)

    def row(self, index: int, row: Row, checked: bool, names: Collection[str] | None = None) -> Iterator[Turn]:
        """Run every turn of a row. Raises RowError for a bad row.

        checked: time transformers' own `generate` beside AR as well; names: the methods that run, else all.
        """
        if row.fault:
            raise RowError(f"bench {self._bench.name}, row {row.id}: {row.fault}")
        try:
            images = [to_rgb(image) for image in row.open_images()]
        except Exception as error:  # whatever a decoder raises on a corrupt file
            raise RowError(f"bench {self._bench.name}, row {row.id}: its image cannot be read ({error})") from error
        answers: dict[str, tuple[str, ...]] = dict.fromkeys(self._wanted(names), ())
        for turn in range(len(row.turns)):
            asked = self._ask(row, turn, answers[AR], images)
            own = {
                name: asked if before == asked.answers else self._ask(row, turn, before, images)
                for name, before in answers.items()
            }
            try:
                decoded, refusals = self._decode(index, row, turn, own)
            except FloatingPointError as error:
                raise RowError(f"bench {self._bench.name}, row {row.id}, turn {turn}: {error}", begun=True) from error
            answers = self._answered(answers, decoded)
            unpaired = [name for name in own if own[name] is not asked]
            for name in unpaired:
                decoded.pop(name, None)
            plain = decoded.pop(AR)
            request = asked.request
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
                        verdict=self._judge(asked, plain, one, self._methods[name]),
                        ar=plain.side,
                        method=one.side,
                    )
                    for name, one in decoded.items()
                },
                {name: one.output for name, one in decoded.items()},
                refusals,
                self._check(asked, plain) if checked else None,
                turn,
                request.masked(),
                unpaired,
            )

    def _wanted(self, names: Collection[str] | None) -> list[str]:
        return [name for name in self._methods if names is None or name == AR or name in names]

    def _ask(self, row: Row, turn: int, answers: tuple[str, ...], images: list) -> Asked:
        try:
            inputs = self._model.inputs(self._bench.messages(row, turn, answers, len(images)), images)
            return Asked(answers, inputs, self._model.request(inputs, self._limits))
        except ValueError as error:
            raise RowError(f"bench {self._bench.name}, row {row.id}, turn {turn}: {error}") from error

    def _answered(self, answers: dict[str, tuple[str, ...]], decoded: dict[str, Decoded]) -> dict[str, tuple[str, ...]]:
        """The answers so far, this turn's among them; AR's stands in where transformers refused."""
        own = {name: name if self._history == "own" and name in decoded else AR for name in answers}
        return {name: (*answers[name], self._model.text(decoded[own[name]].tokens)) for name in answers}

    def _decode(self, index: int, row: Row, turn: int, asked: Mapping[str, Asked]):
        names = list(asked)
        first = index % len(names)
        decoded, refusals = {}, {}
        for place, name in enumerate(names[first:] + names[:first]):
            method = self._methods[name]
            try:
                if isinstance(method, TransformersGenerate):
                    one = self._peer(method, asked[name].inputs, place)
                else:
                    one = self._ours(method, asked[name].request, place)
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

    def _check(self, asked: Asked, plain: Decoded) -> Check:
        peer = TransformersGenerate()
        one = self._peer(peer, asked.inputs, 0)
        return Check.of(one.side, plain.side, self._judge(asked, plain, one, peer))

    def _judge(self, asked: Asked, plain: Decoded, one: Decoded, method: Method) -> Verdict:
        """Equal, or the first difference with its cause."""
        verdict = compare(plain.tokens, one.tokens)
        if verdict.kind == "equal":
            return verdict
        sizes, wanted = [], NOTHING
        if one.output is not None:
            sizes, wanted = [1 + len(step.draft) for step in one.output.steps], method.wants(asked.request)
        known = reference(self._model.target, asked.request, plain.tokens, sizes, wanted)
        seen = (self._again(asked, self._methods[AR], plain), self._again(asked, method, one))
        verdict = diagnose(verdict, (plain.tokens, one.tokens), seen, known)
        texts = (self._model.token(id) if id >= 0 else "" for id in (verdict.expected, verdict.found))
        return replace(verdict, texts=tuple(texts))

    def _again(self, asked: Asked, method: Method, first: Decoded) -> Evidence:
        if first.output is not None:
            return again(self._model.target, method, first.output, asked.request, self._limits)
        with OutputLayer(self._model.model) as layer:
            moved = self._model.moved(asked.inputs)
            tokens, emitted = method.decode(self._model.model, moved, self._limits, no_clock)
        return evidence_of(tokens, emitted, layer.passes)

    def _own(self, contract: Contract, name: str) -> Contract:
        """A peer's contract names its own cache class."""
        method = self._methods[name]
        return replace(contract, **method.differs) if isinstance(method, TransformersGenerate) else contract

    def reset(self) -> None:
        """A new stream: every memory is cleared."""
        for method in self._methods.values():
            method.reset()


def warm_up(pairing: Pairing, bench: Bench, rows: int, checked: bool) -> None:
    """Compile and warm everything on generated rows, never on a benchmark's rows; then forget it all.

    checked: transformers' own `generate` too.
    """
    try:
        for index, row in enumerate(bench.rows(rows)):
            for _ in pairing.row(index, row, checked=checked and index == 0):
                pass
    except RowError as error:
        raise ValueError(f"the model cannot answer even a generated question: {error}") from error
    pairing.reset()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
