"""A difference gets its cause: planted faults are named rightly, and no fault passes for a tie."""

import functools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from baselines.autoregressive import Autoregressive
from recap import Limits, target_for
from recap.decode import generate, no_clock
from recap.drafter import NOTHING, Drafter
from recap.targets import TreeTarget
from recap.types import Request
from recap.verify import accept
from runners.diagnosis import diagnose, reference
from runners.passes import OutputLayer, again, evidence_of
from runners.peer import TransformersGenerate
from runners.verdict import Verdict, compare
from tests.faults import (
    FirstPositionPenalty,
    LastOfEquals,
    Noise,
    Penalty,
    RowNotDropped,
    RowNotMoved,
    WrongPosition,
    planted,
    with_equal_rows,
)
from tests.models import SOAK, TEXT_FAMILIES, fresh_model, full_logits, inputs_of, model_of
from tests.test_lossless import Scripted, any_of_them

RUNS = 100 if SOAK else 10
NEW = 16
SETTINGS = [("qwen2_5_vl", 1), ("llava_next", 1), ("qwen2_5_vl", 2), ("llama", 0), ("qwen2", 0)]


@dataclass
class Case:
    """One input, the model to decode it with and what may be drafted; a fault may take either side's place."""

    model: torch.nn.Module
    request: Request
    truth: list[int]
    rng: np.random.Generator

    @staticmethod
    def drawn(number: int, dtype: torch.dtype = torch.float32, model=None) -> "Case":
        family, images = SETTINGS[number % len(SETTINGS)]
        inputs = inputs_of(family, images, seed=number // len(SETTINGS) % 20, dtype=dtype)
        model = model or model_of(family, dtype)
        target = target_for(model)
        request = target.request(inputs, Limits(NEW))
        truth = generate(target, Autoregressive(), request, Limits(NEW + 12)).tokens.tolist()
        return Case(model, request, truth, np.random.default_rng(number))

    def verdict(
        self,
        ar: TreeTarget | None = None,
        method: TreeTarget | None = None,
        limits: tuple[Limits, Limits] = (Limits(NEW), Limits(NEW)),
        drafter: Drafter | None = None,
    ) -> Verdict:
        """Decode both ways, compare, diagnose."""
        clean = target_for(self.model)
        drafters = (Autoregressive(), drafter or Scripted(any_of_them, self.truth, self.rng))
        sides = list(zip((ar or clean, method or clean), drafters, limits, strict=True))
        outputs = [generate(target, drafter, self.request, limit) for target, drafter, limit in sides]
        emitted = tuple(output.tokens for output in outputs)
        verdict = compare(*emitted)
        if verdict.kind == "equal":
            return verdict
        seen = tuple(
            again(target, drafter, output, self.request, limit)
            for (target, drafter, limit), output in zip(sides, outputs, strict=True)
        )
        sizes = [1 + len(step.draft) for step in outputs[1].steps]
        known = reference(clean, self.request, emitted[0], sizes, drafters[1].wants(self.request))
        return diagnose(verdict, emitted, seen, known)


def on_a_side(case: Case, fault: TreeTarget) -> Verdict:
    """The fault on AR's side or the method's, as the case's dice fall."""
    return case.verdict(**{("ar", "method")[int(case.rng.integers(2))]: fault})


def wrong_position(number: int) -> Verdict:
    case = Case.drawn(number)
    by, since = int(case.rng.choice([-2, -1, 1, 3])), int(case.rng.integers(0, 4))
    return on_a_side(case, planted(WrongPosition, case.model, since=since, by=by))


def row_not_dropped(number: int) -> Verdict:
    case = Case.drawn(number)
    fault = (RowNotDropped, RowNotMoved)[number % 2]
    return case.verdict(method=planted(fault, case.model, since=int(case.rng.integers(0, 3))))


def penalty(number: int) -> Verdict:
    case = Case.drawn(number)
    fault = planted(Penalty, case.model, since=int(case.rng.integers(-1, 4)), penalty=1.05, in_place=number % 2 == 0)
    return on_a_side(case, fault)


def first_position(number: int) -> Verdict:
    case = Case.drawn(number)
    since = int(case.rng.integers(0, 3))
    return case.verdict(method=planted(FirstPositionPenalty, case.model, since=since, penalty=1.2))


def second_stop_id(number: int) -> Verdict:
    case = Case.drawn(number)
    first, second = (case.truth[int(at)] for at in case.rng.choice(np.arange(2, NEW), 2, replace=False))
    one, two = Limits(NEW, (first,)), Limits(NEW, (first, second))
    return case.verdict(limits=(one, two) if case.rng.random() < 0.5 else (two, one))


def tie(number: int) -> Verdict:
    family, _ = SETTINGS[number % len(SETTINGS)]
    dtype = torch.bfloat16 if number % 3 == 2 else torch.float32
    one = Case.drawn(number).truth[number % 4]
    other = int(np.random.default_rng(number).choice([token for token in range(90) if token != one]))
    case = Case.drawn(number, dtype, with_equal_rows(fresh_model(family).to(dtype), one, other))
    return on_a_side(case, planted(LastOfEquals, case.model, since=-1))


PLANTED = {
    wrong_position: "position_or_cache",
    row_not_dropped: "position_or_cache",
    penalty: "processor",
    first_position: "processor",
    second_stop_id: "stop_rule",
    tie: "tie",
}


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_named_rightly_every_time_that_it_shows(fault):
    shown = []
    for number in range(8 * RUNS):
        verdict = fault(number)
        if verdict.kind != "equal":
            shown.append(verdict)
        if len(shown) == RUNS:
            break
    assert len(shown) == RUNS, "too few of the planted faults changed an output"
    assert {verdict.kind for verdict in shown} == {PLANTED[fault]}
    assert all(verdict.repeatable for verdict in shown)


def test_rounding_parts_two_sides_at_a_tie_only():
    kinds = []
    for number in range(2 * RUNS):
        family, _ = SETTINGS[number % len(SETTINGS)]
        one = Case.drawn(number).truth[number % 4]
        model = with_equal_rows(fresh_model(family), one, (one + 1 + number % 80) % 90)
        with torch.no_grad():
            model.get_output_embeddings().weight[one] *= 1 + 1e-7 * torch.randn(32)
        kinds.append(Case.drawn(number, model=model).verdict().kind)
    assert set(kinds) == {"equal", "tie"}


def test_in_bfloat16_every_difference_of_a_sound_method_is_a_tie():
    verdicts = [Case.drawn(number, torch.bfloat16).verdict() for number in range(2 * RUNS)]
    assert {verdict.kind for verdict in verdicts} == {"equal", "tie"}
    ties = [verdict for verdict in verdicts if verdict.kind == "tie"]
    assert ties and all(verdict.repeatable for verdict in ties)


def differing(make, enough: int = 3) -> list[Verdict]:
    """The first verdicts of a planted fault that show a difference."""
    shown = (verdict for number in range(40) if (verdict := make(number)).kind != "equal")
    return [next(shown) for _ in range(enough)]


def test_a_run_that_does_not_repeat_itself_is_told():
    def noisy(number: int) -> Verdict:
        case = Case.drawn(number)
        return case.verdict(method=planted(Noise, case.model, since=1))

    for verdict in differing(noisy):
        assert verdict.repeatable is False
        assert verdict.kind != "tie"


def test_what_no_cause_explains_stays_unknown(monkeypatch):
    def accept_wrongly(draft, rows, stop_ids, room):
        step = accept(draft, rows, stop_ids, room)
        return replace(step, committed=(step.committed + 1) % 90) if len(draft) else step

    monkeypatch.setattr("recap.decode.accept", accept_wrongly)
    verdicts = differing(lambda number: Case.drawn(number).verdict())
    assert {verdict.kind for verdict in verdicts} == {"unknown"}
    assert all(verdict.repeatable for verdict in verdicts)


def test_the_gap_is_that_of_the_two_best_logits_in_plain_decoding():
    case = Case.drawn(0)
    fault = planted(Penalty, case.model, since=-1, penalty=3.0)
    verdict = case.verdict(method=fault)
    family, images = SETTINGS[0]
    inputs = inputs_of(family, images, dtype=torch.float32)
    best = full_logits(case.model, inputs, case.truth[: verdict.at])[-1].topk(2)
    assert verdict.expected == best.indices[0]
    assert verdict.gap == pytest.approx(float(best.values[0] - best.values[1]), abs=1e-4)


@pytest.mark.parametrize("family", TEXT_FAMILIES)
@pytest.mark.parametrize("penalty,kind", [(1.0, "equal"), (2.0, "processor")])
def test_a_peer_that_changes_its_logits_is_named(family, penalty, kind, monkeypatch):
    model, inputs = model_of(family, torch.float32), inputs_of(family, dtype=torch.float32)
    target = target_for(model)
    request = target.request(inputs, Limits(NEW))
    ar = Autoregressive()
    output = generate(target, ar, request, Limits(NEW))
    monkeypatch.setattr(
        "runners.peer.GenerationConfig", functools.partial(GenerationConfig, repetition_penalty=penalty)
    )
    with OutputLayer(model) as layer:
        tokens, emitted = TransformersGenerate(prompt_lookup=3).decode(model, inputs, Limits(NEW), no_clock)
    peer = evidence_of(tokens, emitted, layer.passes)
    assert sum(emitted) < len(tokens) == len(peer.logits)
    known = reference(target, request, output.tokens, [], NOTHING)
    verdict = compare(output.tokens, tokens)
    if verdict.kind != "equal":
        seen = again(target, ar, output, request, Limits(NEW)), peer
        verdict = diagnose(verdict, (output.tokens, tokens), seen, known)
    same = verdict.at + 1 if verdict.at >= 0 else NEW
    assert (peer.logits[:same] - known.logits[:same]).abs().max() <= known.bound
    assert verdict.kind == kind
