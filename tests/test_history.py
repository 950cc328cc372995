"""Conversations: a request a turn, the image prefilled in each, AR's answers on both sides or each side's own."""

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from baselines.autoregressive import Autoregressive
from recap import Recap
from recap.types import Limits
from runners.cell import Cell, run
from runners.models import Model
from runners.pair import AR, Pairing
from runners.peer import TransformersGenerate
from tests import published
from tests.golden import bench_at
from tests.test_config import compose


class Watched(Recap):
    """RECAP that notes how many rows each map holds when a request begins, before its own prompt is read."""

    def __init__(self) -> None:
        super().__init__(prefill="none")
        self.at_begin: list[dict[str, int]] = []

    def begin(self, request, limits, rows) -> None:
        super().begin(request, limits, rows)
        self.at_begin.append(self.memory()["rows"])


class Hasty(TransformersGenerate):
    """A method that is not lossless: it stops after two tokens."""

    def decode(self, model, inputs, limits, clock):
        tokens, _ = super().decode(model, inputs, limits, clock)
        return tokens[:2], [1]


@pytest.fixture(scope="module")
def bench():
    return bench_at("mmspec", published.folder() / "mmspec")


@pytest.fixture(scope="module", params=["tiny_qwen", "tiny_llava"])
def model(request) -> Model:
    return Model(f"assets/{request.param}")


def turns_of(model: Model, bench, methods: dict, history: str, tokens: int = 12):
    row = list(bench.rows())[22]
    limits = Limits(tokens, model.stop_ids)
    contract = model.contract(limits, "last")
    pairing = Pairing(model, bench, {AR: Autoregressive()} | methods, limits, contract, history)
    return row, list(pairing.row(0, row, checked=False))


def test_a_conversation_leaves_one_record_a_turn_with_the_image_prefilled_in_each(model, bench):
    watched = Watched()
    row, turns = turns_of(model, bench, {"recap": watched}, "ar")
    records = [turn.records["recap"] for turn in turns]
    assert [record.turn for record in records] == [0, 1, 2] and len(row.turns) == 3
    assert {record.visual_tokens for record in records} == {records[0].visual_tokens} != {0}
    assert len({record.images for record in records}) == 1
    assert all(record.method.phases_ns["vision"] > 0 and record.ar.phases_ns["vision"] > 0 for record in records)
    assert records[0].prompt_tokens < records[1].prompt_tokens < records[2].prompt_tokens
    assert all(record.verdict.kind == "equal" for record in records)
    assert all(rows["M2"] == rows["M3"] == 0 for rows in watched.at_begin)
    assert 0 == watched.at_begin[0]["M1"] < watched.at_begin[1]["M1"] <= watched.at_begin[2]["M1"]


def test_equal_answers_stay_pairs_whichever_history_is_asked_for(model, bench):
    first, second = (turns_of(model, bench, {"recap": Recap()}, history)[1] for history in ("ar", "own"))
    assert [t.records["recap"].prompt for t in first] == [t.records["recap"].prompt for t in second]
    assert not any(turn.unpaired for turn in second)


def test_an_answer_that_differs_leaves_the_later_turns_unpaired_under_own_history(model, bench):
    _, own = turns_of(model, bench, {"recap": Recap(), "hasty": Hasty()}, "own")
    assert [sorted(turn.records) for turn in own] == [["hasty", "recap"], ["recap"], ["recap"]]
    assert [turn.unpaired for turn in own] == [[], ["hasty"], ["hasty"]]
    _, ar = turns_of(model, bench, {"recap": Recap(), "hasty": Hasty()}, "ar")
    assert all(sorted(turn.records) == ["hasty", "recap"] and not turn.unpaired for turn in ar)


def test_a_method_goes_on_with_its_own_answers_under_own_history(model, bench, monkeypatch):
    asked = []
    original = type(bench).messages

    def messages(self, row, turn, answers, images):
        asked.append((turn, tuple(answers)))
        return original(self, row, turn, answers, images)

    monkeypatch.setattr(type(bench), "messages", messages)
    turns_of(model, bench, {"hasty": Hasty()}, "own")
    by_turn = {turn: [answers for number, answers in asked if number == turn] for turn in range(3)}
    assert [len(by_turn[turn]) for turn in range(3)] == [1, 2, 2]  # AR's chat first
    plain, own = by_turn[2]
    assert plain[0].startswith(own[0]) and len(own[0]) < len(plain[0])
    assert own[1] != plain[1]  # what followed its own first answer


def test_unpaired_turns_are_counted_and_said(tmp_path, capsys):
    config = compose(
        "bench=mmspec", f"bench.path={published.folder() / 'mmspec'}", f"out={tmp_path}", "history=own", "limit=4",
        "max_new_tokens=4", "generate_check=0", "bench.order=3",
    )  # fmt: skip
    config = OmegaConf.to_container(config)
    methods = {"hasty": {"_target_": "tests.test_history.Hasty"}}
    it = Cell(config, {"model": "tiny_qwen", "bench": "mmspec"}, methods)
    assert any(len(row.turns) > 1 for row in bench_at("mmspec", published.folder() / "mmspec", order=3).rows(4))
    assert run(it) == 3  # the first turns differ
    summary = json.loads((it.folder("hasty") / "summary.json").read_text())
    rows = list(bench_at("mmspec", published.folder() / "mmspec", order=3).rows(4))
    assert len(summary["unpaired"]) == sum(len(row.turns) - 1 for row in rows)
    assert summary["turns"] == summary["n"] == 4
    assert summary["score"] == {"method": None, "ar": None, "differ": None, "of": 0}
    printed = capsys.readouterr().out
    assert f"{len(summary['unpaired'])} turns unpaired" in printed
    assert "visual tokens an input: median" in printed and "MiB on the host" in printed
    assert [p.name[:21] for p in Path(tmp_path, "manifests").iterdir()] == ["mmspec-test-fixtures-"]
    assert summary["visual_tokens"]["worst"].startswith("mmspec_") and summary["peak_memory"]["host"] > 1e8


def test_an_unknown_history_is_refused(tmp_path):
    config = OmegaConf.to_container(compose("history=mine", f"out={tmp_path}"))
    with pytest.raises(ValueError, match="history=mine: choose one of ar, own"):
        run(Cell(config, {"model": "tiny_qwen", "bench": "synthetic"}, {}))
