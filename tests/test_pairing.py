"""Two runs are compared input by input, and only under one contract."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from analysis.cells import read
from analysis.compare import gain, gain_accepted, gain_over_ar, main, over_orders, report, shown
from analysis.pairing import pair
from analysis.summary import summarise
from runners.cell import run
from tests.records import frame, record, side, sound
from tests.test_cell import ROOT, cell

CONTRACT = {
    "model": "m", "revision": "", "dtype": "float32", "device": "cpu", "attention": "sdpa", "cache": "SlotCache",
    "engine": "eager", "ar_logits": "last", "processors": "none", "stop_ids": [2], "max_new_tokens": 200,
    "prompt": "", "images": "", "hash": "h",
}  # fmt: skip


def finished(records: list[dict] | None = None, peer: dict | None = None, **contract) -> SimpleNamespace:
    """A run under CONTRACT but for the given fields."""
    summary = {"method": "recap", "contract": CONTRACT | contract, "peer": peer}
    return SimpleNamespace(summary=summary, frame=frame(*(sound() if records is None else records)))


def changed(**fields) -> list[dict]:
    """Sound records whose second request differs."""
    records = sound()
    return [*records[:1], records[1] | fields, *records[2:]]


@pytest.mark.parametrize(
    "field,value",
    [
        ("model", "n"), ("revision", "abc"), ("dtype", "bfloat16"), ("device", "cuda"), ("attention", "eager"),
        ("cache", "DynamicCache"), ("ar_logits", "full"), ("processors", "repetition_penalty=1.05"),
        ("stop_ids", [2, 3]), ("max_new_tokens", 100),
    ],
)  # fmt: skip
def test_runs_whose_contracts_differ_are_refused_by_field(field, value):
    with pytest.raises(ValueError, match=rf"their contracts differ in {field}: .* != "):
        pair(finished(), finished(**{field: value}))


@pytest.mark.parametrize("field", ["prompt", "images", "contract"])
def test_requests_that_differ_are_refused_by_field_and_first_row(field):
    message = f"their contracts differ in {field} in 1 of 5 requests, first in row row-1, turn 0"
    with pytest.raises(ValueError, match=message):
        pair(finished(), finished(changed(**{field: "another"})))


def test_every_differing_field_is_named():
    with pytest.raises(ValueError, match="dtype: 'float32' != 'bfloat16'; ar_logits: 'last' != 'full'"):
        pair(finished(), finished(dtype="bfloat16", ar_logits="full"))


def test_equal_contracts_pair_request_by_request_whatever_their_order():
    records = sound()
    runs = pair(finished(records), finished(records[::-1]))
    assert runs.left.row.tolist() == runs.right.row.tolist() == [f"row-{i}" for i in range(5)]
    assert runs.peer == {}


def test_only_requests_that_both_runs_have_are_compared():
    assert pair(finished(), finished(sound()[2:4])).left.row.tolist() == ["row-2", "row-3"]


def test_runs_that_share_no_request_are_refused():
    with pytest.raises(ValueError, match="they share no request"):
        pair(finished(sound()[:2]), finished(sound()[2:]))


def test_a_peer_may_differ_in_its_cache_and_is_labelled():
    theirs = [it | {"contract": "of the peer"} for it in sound()]
    runs = pair(finished(), finished(theirs, peer={"cache": "DynamicCache"}))
    assert runs.peer == {"cache": ("SlotCache", "DynamicCache")}
    assert "peer, not a method under the same contract; cache: SlotCache against DynamicCache" in report(runs, "a", "b")


def test_another_engine_may_bring_another_cache_and_is_labelled():
    runs = pair(finished(), finished(engine="compiled", cache="StaticCache"))
    assert set(runs.peer) == {"engine", "cache"}


@pytest.mark.parametrize("peer", [{"cache": "DynamicCache", "dtype": "bfloat16"}, {"attention": "eager"}])
def test_a_peer_that_differs_elsewhere_is_refused(peer):
    with pytest.raises(ValueError, match=r"their contracts differ in .*(dtype|attention): "):
        pair(finished(), finished(peer=peer))


def test_a_peer_on_another_prompt_is_refused():
    with pytest.raises(ValueError, match="differ in prompt in 1 of 5"):
        pair(finished(), finished(changed(prompt="another"), peer={"cache": "DynamicCache"}))


def answers(method_ms: list[float], ar_ms: float = 4) -> list[dict]:
    return [record(side([2, 2], 0, ms), side([1] * 4, 0, ar_ms), i) for i, ms in enumerate(method_ms)]


def test_the_gain_is_the_mean_of_ratios_paired_on_the_input():
    """Inputs differ tenfold in time, the methods always by a tenth: only pairing sees it."""
    times = np.array([1.0, 3, 5, 7, 10])
    runs = pair(finished(answers(times)), finished(answers(times * 1.1)))
    found = gain(runs, "decode")
    assert (found.mean, found.ci_low, found.ci_high) == pytest.approx((0.1, 0.1, 0.1), abs=1e-3)
    assert not found.within_noise


def test_a_machine_that_was_slower_that_day_cancels_over_ar():
    runs = pair(finished(answers([2.0] * 4)), finished(answers([4.0] * 4, ar_ms=8)))
    assert gain(runs, "window").mean == pytest.approx(1.0)
    assert gain_over_ar(runs, "window").mean == pytest.approx(0.0)
    assert "speedup over AR, end to end: +0.00%" in report(runs, "a", "b")


def test_one_ar_run_leaves_nothing_to_cancel():
    runs = pair(finished(answers([2.0, 3])), finished(answers([4.0, 5])))
    assert "speedup over AR" not in report(runs, "a", "b")


def test_a_gain_inside_the_noise_is_printed_as_such():
    base = np.linspace(2, 4, 12)
    noise = np.random.default_rng(0).normal(1, 0.1, 12)
    runs = pair(finished(answers(base)), finished(answers(base * noise)))
    assert shown(gain(runs, "decode")).endswith(", within noise")


def test_a_gain_beyond_the_noise_is_printed_with_its_interval_alone():
    base = np.linspace(2, 4, 12)
    noise = np.random.default_rng(0).normal(1.2, 0.1, 12)
    text = shown(gain(pair(finished(answers(base)), finished(answers(base * noise))), "decode"))
    assert text.startswith("+") and text.endswith("%]")


def test_accepted_tokens_are_compared_apart_from_speed():
    slow = [record(side([3, 3], 1, 12), side([1] * 6, 1, 6), i) for i in range(3)]
    fast = [record(side([2, 2, 2], 1, 3), side([1] * 6, 1, 6), i) for i in range(3)]
    runs = pair(finished(slow), finished(fast))
    assert gain_accepted(runs).mean == 1
    assert gain(runs, "decode").mean < 0


def test_a_speedup_over_several_orders_has_an_interval_over_the_orders():
    orders = [frame(*answers([4 / s] * 3)) for s in (1.4, 1.5, 1.6)]
    found = over_orders(orders, "decode")
    assert found.mean == pytest.approx(1.5, abs=1e-6)
    assert (found.ci_low, found.ci_high) == pytest.approx((1.5 - 0.2484, 1.5 + 0.2484), abs=1e-3)


def test_runs_of_other_requests_are_not_orders_of_one_stream():
    with pytest.raises(ValueError, match="their requests differ"):
        over_orders([frame(*sound(3)), frame(*sound(4))], "decode")


@pytest.fixture(scope="module")
def templates(tmp_path_factory) -> tuple[Path, Path]:
    """The same checkpoint run twice, its chat template changed in between."""
    base = tmp_path_factory.mktemp("templates")
    shutil.copytree(ROOT / "assets/tiny_qwen", base / "model")
    folders = []
    for name, versus in (("first", ("token_recycling",)), ("second", ())):
        it = cell(base / name, f"model.path={base / 'model'}", "limit=2", "generate_check=0", versus=versus)
        assert run(it) == 0
        folders.append(it.folder("recap"))
        template = base / "model/chat_template.jinja"
        template.write_text(template.read_text() + "the answer:")
    return tuple(folders)


def test_another_chat_template_on_one_side_is_refused_by_the_prompt(templates):
    with pytest.raises(ValueError, match=r"their contracts differ in prompt in [0-9]+ of"):
        pair(*map(read, templates))


def test_two_methods_of_one_run_are_compared_from_the_command_line(templates, capsys):
    other = next(templates[0].parent.glob("token_recycling-*"))
    assert main([str(templates[0]), str(other)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("recap against token_recycling: 2 inputs")
    assert "throughput, decode only: " in printed and "tau: " in printed and "too few inputs for an interval" in printed


def test_what_cannot_be_compared_ends_in_one_line_and_exit_code_2(templates, capsys):
    assert main([str(folder) for folder in templates]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_summary_is_made_of_its_records_alone(templates):
    """Every derived number can be had again from the integers; none is an average of averages."""
    it = read(templates[0])
    again = json.loads(json.dumps(summarise(it.frame, it.summary["machine"])))
    assert repr({name: it.summary[name] for name in again}) == repr(again)  # as text: no interval is not a number
