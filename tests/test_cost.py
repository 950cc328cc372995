"""What passes cost: which are timed, what is made of the times, and who is told."""

import json
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recap.cost import IN_A_ROW, ROUNDS, counts_up_to, made_up, measure, rising
from recap.drafter import AUTO_NODES, Recap
from runners import costs
from runners.folder import COST, Folder, make
from tests.scripted import ScriptedTarget, hashed

WORDS = 12
TABLE = np.linspace(1, 2, AUTO_NODES + 1)


class Timed(ScriptedTarget):
    """A target whose passes take a known time by a clock that only it moves."""

    text = SimpleNamespace(max_position_embeddings=4096)
    vocab_size, placeholders = WORDS, (3,)

    def __init__(self, price) -> None:
        super().__init__(hashed(WORDS))
        self.price, self.now, self.noise = price, 0.0, count()

    def clock(self) -> float:
        return self.now

    def verify(self, root, draft, top_k):
        self.now += self.price(len(draft)) + 0.005 * (next(self.noise) % 3)  # other work only adds
        return super().verify(root, draft, top_k)

    def prefill(self, request, positions, top_k, clock):
        return super().prefill(replace(request, inputs={"image": 0}), positions, top_k, clock)


def test_full_powers_of_two_and_one_row_more_are_timed():
    assert counts_up_to(63) == [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63]
    assert counts_up_to(4) == [0, 1, 2, 3, 4]
    assert counts_up_to(0) == [0]


def test_the_table_is_what_undisturbed_passes_take():
    target = Timed(lambda n: 0.01 + 0.0025 * n)
    seconds = measure(target, 8, 2, target.clock)
    assert seconds == pytest.approx(0.01 + 0.0025 * np.arange(9))
    assert len(target.passes) == len(counts_up_to(8)) * ROUNDS * IN_A_ROW
    assert target.request is None  # the target is free again


def test_a_slow_machine_is_given_fewer_rounds():
    target = Timed(lambda n: 1 + 0.25 * n)
    assert measure(target, 8, 2, target.clock) == pytest.approx(1 + 0.25 * np.arange(9))
    assert len(target.passes) == len(counts_up_to(8)) * 2 * IN_A_ROW


def test_a_made_up_prompt_holds_text_alone_and_leaves_room_for_the_passes():
    target = Timed(float)
    request = made_up(target, 100)
    assert len(request.prompt) == 256 and 3 not in request.prompt
    target.text = SimpleNamespace(max_position_embeddings=150)
    assert len(made_up(target, 100).prompt) == 48
    with pytest.raises(ValueError, match="more than the model has positions"):
        made_up(target, 149)


def test_what_falls_is_levelled():
    assert rising([3, 1, 2, 5, 4]).tolist() == [2, 2, 2, 4.5, 4.5]


@given(st.lists(st.floats(0, 10), min_size=1, max_size=12))
def test_levelled_times_rise_and_keep_their_sum(values):
    level = rising(values)
    assert (np.diff(level) >= 0).all()
    assert level.sum() == pytest.approx(sum(values))


def test_a_cell_measures_once_and_keeps_its_table(tmp_path, monkeypatch):
    asked, names = [], ("fast", "twin", "paper")
    monkeypatch.setattr(costs, "measure", lambda target, most, top_k: asked.append(most) or TABLE)
    for name in names:
        make(tmp_path / name)
    folders = {name: Folder(tmp_path / name, False) for name in names}
    for _ in range(2):
        methods = {name: Recap(budget="auto", scores="learned") for name in names[:2]} | {"paper": Recap()}
        costs.calibrate(SimpleNamespace(target=None), methods, folders)
        assert not any(method.unpriced() for method in methods.values())
    assert asked == [AUTO_NODES]
    assert json.loads((tmp_path / "twin" / COST).read_text()) == {"seconds": TABLE.tolist()}
    assert not (tmp_path / "paper" / COST).exists()
    for folder in folders.values():
        folder.close()
