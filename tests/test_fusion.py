"""From rows to one distribution: priors, confidence, mixture, ties, back-off, unigram."""

import numpy as np
import pytest
from hypothesis import given

from recap.fusion import fuse, new_candidates, new_fusion
from recap.memory import Memory
from recap.types import SOURCES
from tests.reference.fusion import fuse as expected_candidates
from tests.scripted import rows_of
from tests.strategies import TOP_K, context_of, fusions, memories


def fused(memory: Memory, context: list[int], **switches) -> list[tuple[int, float, int]]:
    """[(token, q, source bits)], best first."""
    out = new_candidates(memory.top_k)
    size = fuse(memory.maps, new_fusion(**switches), *context_of(context), out)
    return [(int(it["id"]), float(it["q"]), int(it["sources"])) for it in out[:size]]


def remember(rows: dict[tuple[int, ...], tuple[list[int], list[float]]], top_k: int = 2) -> Memory:
    """A memory of the given rows, the one-token context's among them, each in the map of its context's length."""
    memory = Memory(top_k)
    for context in sorted(rows, key=len, reverse=True):  # a shorter context comes later and takes its map back
        ids, probs = rows[context]
        memory.write(
            context_of(context)[None], np.zeros(1, np.int64), rows_of([ids], [probs]), np.zeros(32, bool), len(context)
        )
    return memory


THREE = remember({(1, 2, 3): ([10, 11], [0.5, 0.5]), (2, 3): ([11, 12], [0.5, 0.5]), (3,): ([12, 13], [0.5, 0.5])})


@given(memories(), fusions)
def test_fusion_equals_its_reference(drawn, switches):
    memory, reference, asked = drawn
    for history in asked:
        expected = [
            (candidate.token, candidate.q, sum(SOURCES[f"M{order}"] for order in candidate.orders))
            for candidate in expected_candidates(reference, history, TOP_K, **switches)
        ]
        assert fused(memory, history, **switches) == expected


@given(memories(), fusions)
def test_candidates_are_distinct_at_most_k_and_best_first(drawn, switches):
    memory, _, asked = drawn
    for history in asked:
        found = fused(memory, history, **switches)
        ids, q = [token for token, _, _ in found], [p for _, p, _ in found]
        assert len(set(ids)) == len(ids) <= TOP_K
        assert q == sorted(q, reverse=True)
        assert not found or sum(q) == pytest.approx(1, abs=1e-6)


def test_no_row_gives_no_candidate():
    assert fused(THREE, [1, 2, 4]) == []


def test_a_single_row_is_taken_as_it_is():
    memory = remember({(3,): ([7, 4], [0.75, 0.25])})
    assert fused(memory, [1, 2, 3]) == [(7, 0.75, SOURCES["M1"]), (4, 0.25, SOURCES["M1"])]


def test_priors_are_given_by_key_length_where_all_rows_are_there():
    found = {token: q for token, q, _ in fused(THREE, [1, 2, 3], confidence=False)}
    assert list(found) == [11, 10]  # 0.45 and 0.35 of the mass; 12 has 0.15, 13 has 0.05
    assert found[11] == pytest.approx(0.45 / 0.80)


def test_priors_by_rank_go_to_the_rows_there_are():
    memory = remember({(2, 3): ([10, 11], [0.75, 0.25]), (3,): ([12, 13], [0.75, 0.25])}, top_k=2)
    found = [token for token, _, _ in fused(memory, [9, 2, 3], confidence=False, prior_index="rank")]
    assert found == [10, 11]  # weights 7/9 and 2/9: 0.583, 0.194; 12 has 0.167


def test_priors_by_order_go_to_key_lengths_whatever_rows_there_are():
    memory = remember({(2, 3): ([10, 11], [0.75, 0.25]), (3,): ([12, 13], [0.75, 0.25])}, top_k=2)
    found = [token for token, _, _ in fused(memory, [9, 2, 3], confidence=False, prior_index="order")]
    assert found == [10, 12]  # weights 2/3 and 1/3: 0.5, 0.167; 12 has 0.25


def test_uniform_priors_weigh_rows_alike():
    found = {token: q for token, q, _ in fused(THREE, [1, 2, 3], confidence=False, priors="uniform")}
    assert list(found) == [11, 12]  # both listed twice
    assert found[11] == found[12] == 0.5


def test_a_confident_row_outweighs_its_prior():
    sure, unsure = ([12, 13], [1, 0]), ([10, 11], [0.5, 0.5])
    memory = remember({(2, 3): unsure, (3,): sure})
    q = {token: p for token, p, _ in fused(memory, [2, 3], priors="uniform")}
    # confidence 1 and 1/2, so weights 2/3 and 1/3: masses 2/3, 1/6, 1/6, and two of them are kept
    assert q == pytest.approx({12: 4 / 5, 10: 1 / 5})


def test_equal_mass_keeps_the_more_specific_row_first():
    memory = remember({(2, 3): ([9, 8], [0.5, 0.5]), (3,): ([1, 0], [0.5, 0.5])})
    assert [token for token, _, _ in fused(memory, [2, 3], priors="uniform")] == [9, 8]


def test_equal_mass_within_a_row_keeps_the_rows_order():
    memory = remember({(2, 3): ([8, 9], [0.5, 0.5]), (3,): ([9, 8], [0.5, 0.5])})
    assert [token for token, _, _ in fused(memory, [2, 3])] == [8, 9]


def test_backoff_uses_the_most_specific_row_alone():
    assert fused(THREE, [1, 2, 3], fusion="backoff") == [(10, 0.5, SOURCES["M3"]), (11, 0.5, SOURCES["M3"])]
    assert fused(THREE, [9, 2, 3], fusion="backoff") == [(11, 0.5, SOURCES["M2"]), (12, 0.5, SOURCES["M2"])]


def test_unigram_uses_the_first_map_alone():
    assert fused(THREE, [1, 2, 3], fusion="unigram") == [(12, 0.5, SOURCES["M1"]), (13, 0.5, SOURCES["M1"])]


def test_a_candidate_names_every_memory_that_lists_it():
    sources = {token: bits for token, _, bits in fused(THREE, [1, 2, 3])}
    assert sources == {11: SOURCES["M3"] | SOURCES["M2"], 10: SOURCES["M3"]}


def test_a_context_across_a_placeholder_uses_the_shorter_keys_only():
    assert fused(THREE, [-1, 2, 3]) == fused(THREE, [2, 3]) == fused(THREE, [9, 2, 3])
