"""M1, M2, M3: keys, write order, placeholders, lifetimes, growth and size."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recap.memory import M1, M2, M3, MAX_VOCAB, PICK, Memory, confidence_of, key_of, look_up, prompt_contexts
from tests.reference import memory as reference
from tests.scripted import rows_of
from tests.strategies import TOP_K, VOCAB, blocked_of, context_of, passes, placeholders, tokens, write_both

NO_PLACEHOLDERS = np.zeros(VOCAB, bool)


def stored(memory: Memory, order: int, *context: int) -> tuple | None:
    """(ids, probs, confidence) under a context of any length."""
    slot = look_up(memory.maps, order, *context_of(context))
    if slot < 0:
        return None
    entry = memory.maps.table[order, slot]
    row = memory.maps.rows[order, entry["row"], : entry["width"]]
    return tuple(row["id"].tolist()), tuple(row["prob"]), float(entry["confidence"])


def row_of(probs: list[float]) -> np.ndarray:
    """A row with these probabilities; its ids are of no account."""
    return np.array([(0, p) for p in probs], PICK)


def ids_under(memory: Memory, order: int, *context: int) -> list[int] | None:
    found = stored(memory, order, *context)
    return None if found is None else list(found[0])


def write(
    memory: Memory,
    contexts: list[list[int]],
    ids: list[list[int]],
    blocked=NO_PLACEHOLDERS,
    probs=None,
    orders: int = 3,
) -> None:
    context_array = np.array([context_of(context) for context in contexts])
    memory.write(context_array, np.arange(len(ids)), rows_of(ids, probs), blocked, orders)


def windows(order: int) -> list[tuple[int, ...]]:
    return [tuple(window) for window in np.ndindex(*[VOCAB] * order)]


@given(st.data())
def test_memory_equals_its_reference(data):
    memory, expected = Memory(TOP_K, rows=2), reference.Memory()
    blocked = data.draw(placeholders)
    for written in data.draw(st.lists(passes(), min_size=1, max_size=5)):
        write_both(memory, expected, written, blocked, orders=data.draw(st.sampled_from((3, 3, 1))))
        for order in data.draw(st.sets(st.sampled_from((1, 2, 3)), max_size=1)):
            memory.clear(order - 1)
            expected.clear(order)
    for order in (1, 2, 3):
        rows = {window: stored(memory, order - 1, *window) for window in windows(order)}
        rows = {window: found for window, found in rows.items() if found is not None}
        assert rows == {k: (r.ids, r.probs, r.confidence) for k, r in expected.maps[order - 1].items()}
        assert memory.size()["rows"][f"M{order}"] == len(rows)


@given(st.lists(st.integers(-1, VOCAB - 1), min_size=1, max_size=12))
def test_a_prompt_position_has_the_context_that_ends_there(masked):
    contexts = prompt_contexts(np.array(masked, np.int64), np.arange(len(masked)))
    assert contexts.tolist() == [context_of(masked[: i + 1]).tolist() for i in range(len(masked))]


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8).filter(any))
def test_confidence_is_the_exponential_of_minus_the_entropy(weights):
    probs = np.array(weights, np.float32) / np.float32(sum(weights))
    assert confidence_of(row_of(probs), len(probs)) == pytest.approx(reference.confidence(probs), abs=1e-12)


def test_a_sure_row_has_confidence_one():
    assert confidence_of(row_of([1, 0, 0, 0]), 4) == 1


def test_a_uniform_row_has_confidence_one_over_k():
    assert confidence_of(row_of([1 / 8] * 8), 8) == pytest.approx(1 / 8, abs=1e-12)


def test_a_row_is_stored_under_one_two_and_three_tokens():
    memory = Memory(2)
    write(memory, [[1, 2, 3]], [[4, 5]])
    assert ids_under(memory, M1, 3) == ids_under(memory, M2, 2, 3) == ids_under(memory, M3, 1, 2, 3) == [4, 5]
    assert memory.size()["rows"] == {"M1": 1, "M2": 1, "M3": 1}


def test_the_order_of_a_keys_tokens_matters():
    memory = Memory(2)
    write(memory, [[1, 2, 3]], [[4, 5]])
    assert ids_under(memory, M2, 3, 2) is None
    assert ids_under(memory, M3, 2, 1, 3) is None


def test_a_longer_key_is_not_stored_where_the_history_is_too_short():
    memory = Memory(2)
    write(memory, [[3]], [[4, 5]])
    assert memory.size()["rows"] == {"M1": 1, "M2": 0, "M3": 0}


def test_a_window_that_holds_a_placeholder_is_not_stored():
    memory = Memory(2)
    write(memory, [[1, -1, 3], [-1, 2, 4]], [[4, 5], [1, 2]])
    assert memory.size()["rows"] == {"M1": 2, "M2": 1, "M3": 0}
    assert ids_under(memory, M2, 2, 4) == [1, 2]


def test_a_window_that_holds_a_placeholder_is_not_looked_up():
    memory = Memory(2)
    write(memory, [[0, 0, 0]], [[4, 5]])
    assert look_up(memory.maps, M3, -1, 0, 0) == look_up(memory.maps, M2, 0, -1, 0) == -1
    assert look_up(memory.maps, M1, 0, 0, -1) == -1


def test_a_row_under_a_placeholder_is_stored_nowhere():
    memory = Memory(2)
    write(memory, [[1, 2, -1]], [[4, 5]])
    assert memory.size()["rows"] == {"M1": 0, "M2": 0, "M3": 0}


def test_the_newest_pass_replaces_the_row():
    memory = Memory(2)
    write(memory, [[3]], [[4, 5]])
    write(memory, [[3]], [[0, 1]])
    assert ids_under(memory, M1, 3) == [0, 1]
    assert memory.size()["rows"]["M1"] == 1


def test_the_first_in_packed_order_wins_within_a_pass():
    memory = Memory(2)
    write(memory, [[1, 3], [2, 3]], [[4, 5], [0, 1]])
    assert ids_under(memory, M1, 3) == [4, 5]
    assert ids_under(memory, M2, 2, 3) == [0, 1]


def test_a_narrower_row_leaves_nothing_of_the_wider_one_it_replaces():
    memory = Memory(2)
    write(memory, [[3]], [[4, 5]])
    write(memory, [[3]], [[1, 0]], blocked=blocked_of({0}))
    assert ids_under(memory, M1, 3) == [1]


def test_a_placeholder_is_dropped_from_a_row_and_the_rest_renormalised():
    memory = Memory(3)
    write(memory, [[3]], [[0, 1, 2]], blocked=blocked_of({1}), probs=[[0.5, 0.25, 0.25]])
    ids, probs, confidence = stored(memory, M1, 3)
    assert ids == (0, 2)
    assert probs == (np.float32(0.5) / np.float32(0.75), np.float32(0.25) / np.float32(0.75))
    assert confidence == pytest.approx(math.exp(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)), abs=1e-7)


def test_a_row_of_placeholders_alone_is_not_stored_and_replaces_nothing():
    memory = Memory(2)
    write(memory, [[3]], [[4, 5]])
    write(memory, [[3], [2]], [[0, 1], [1, 0]], blocked=blocked_of({0, 1}))
    assert ids_under(memory, M1, 3) == [4, 5]
    assert ids_under(memory, M1, 2) is None


def test_a_row_whose_whole_mass_was_a_placeholders_is_not_stored():
    memory = Memory(2)
    write(memory, [[3]], [[0, 1]], blocked=blocked_of({0}), probs=[[1, 0]])
    assert ids_under(memory, M1, 3) is None


def test_prompt_rows_can_be_kept_to_the_first_map():
    memory = Memory(2)
    write(memory, [[1, 2, 3]], [[4, 5]], orders=1)
    assert memory.size()["rows"] == {"M1": 1, "M2": 0, "M3": 0}


def test_clearing_two_maps_leaves_the_third():
    memory = Memory(2)
    write(memory, [[1, 2, 3]], [[4, 5]])
    memory.clear(M2, M3)
    assert memory.size()["rows"] == {"M1": 1, "M2": 0, "M3": 0}
    assert ids_under(memory, M1, 3) == [4, 5]
    assert ids_under(memory, M2, 2, 3) is None


def test_a_cleared_map_can_be_written_again():
    memory = Memory(2)
    write(memory, [[1, 2, 3]], [[4, 5]])
    memory.clear(M1, M2, M3)
    write(memory, [[1, 2, 3]], [[0, 1]])
    assert ids_under(memory, M3, 1, 2, 3) == [0, 1]
    assert memory.size()["rows"] == {"M1": 1, "M2": 1, "M3": 1}


def test_growth_beyond_the_first_capacity_keeps_every_row():
    memory = Memory(2, rows=4)
    for a in range(VOCAB):
        for b in range(VOCAB):
            write(memory, [[a, b, (a + b) % VOCAB]], [[a, (a + 1) % VOCAB]])
    assert memory.size()["rows"] == {"M1": VOCAB, "M2": VOCAB**2, "M3": VOCAB**2}
    for a in range(VOCAB):
        for b in range(VOCAB):
            assert ids_under(memory, M3, a, b, (a + b) % VOCAB) == [a, (a + 1) % VOCAB]


def test_one_pass_may_outgrow_the_memory_several_times_over():
    memory = Memory(2, rows=1)
    write(memory, [list(window) for window in windows(2)], [[a, (b + a + 1) % VOCAB] for a, b in windows(2)])
    assert memory.size()["rows"]["M2"] == VOCAB**2
    assert all(ids_under(memory, M2, a, b)[0] == a for a, b in windows(2))


def test_the_size_report_counts_every_byte_held_and_grows_with_the_rows():
    memory = Memory(2, rows=4)
    before = memory.size()["bytes"]
    write(memory, [list(window) for window in windows(1)], [[0, 1]] * VOCAB)
    after = memory.size()["bytes"]
    assert after == sum(array.nbytes for array in memory.maps)
    assert before < after < 1 << 14


def test_the_first_map_never_holds_more_rows_than_the_vocabulary_has_ids():
    memory = Memory(2, rows=4)
    for _ in range(5):
        write(memory, [list(window) for window in windows(3)], [[0, 1]] * VOCAB**3)
    assert memory.size()["rows"]["M1"] == VOCAB


@given(tokens, tokens, tokens)
def test_contexts_of_large_ids_have_keys_of_their_own(a, b, c):
    top = MAX_VOCAB - 1
    keys = {key_of(M3, top - a, top - b, top - c), key_of(M3, a, b, c), key_of(M3, top - a, b, top - c)}
    assert len(keys) == 3
    assert min(keys) >= 0
