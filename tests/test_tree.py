"""The candidate tree: path scores, ties, edge guard, limits and packed order."""

import numpy as np
import pytest
from hypothesis import given

from recap.fusion import new_fusion
from recap.memory import Memory
from recap.tree import AUTHORS, grow, new_shape
from recap.types import Draft
from tests.reference import tree as reference
from tests.reference.fusion import fuse as look_up
from tests.scripted import nodes_of, rows_of, shown
from tests.strategies import TOP_K, context_of, fusions, memories, shapes, successors


def tree(
    memory: Memory,
    history: list[int],
    switches: dict | None = None,
    *,
    budget=63,
    depth=10,
    width=8,
    expansion="best_first",
    depth_factor="authors",
    edge_guard=True,
) -> Draft:
    """The packed tree under the last token of `history`."""
    shape = new_shape(budget, depth, width, expansion == "best_first", edge_guard, depth_factor == "authors")
    return Draft(*grow(memory.maps, new_fusion(**switches or {}), shape, *context_of(history)))


def depths(draft: Draft) -> list[int]:
    found: list[int] = []
    for parent in draft.parents.tolist():
        found.append(1 if parent < 0 else found[parent] + 1)
    return found


def full(vocab_size: int = 1000, top_k: int = 8) -> Memory:
    """Every token is followed by `top_k` others, never the same edge twice on a short path."""
    return successors(
        {t: ([(8 * t + k + 1) % vocab_size for k in range(top_k)], [1 / top_k] * top_k) for t in range(vocab_size)},
        top_k,
    )


@given(memories(), fusions, shapes)
def test_the_tree_equals_its_reference(drawn, switches, shape):
    memory, expected, asked = drawn
    for history in asked[:4]:
        grown = reference.grow(lambda context: look_up(expected, context, TOP_K, **switches), history, **shape)
        assert nodes_of(tree(memory, history, switches, **shape)) == grown


@given(memories(), shapes)
def test_a_tree_keeps_to_its_budget_depth_and_width(drawn, shape):
    memory, _, asked = drawn
    draft = tree(memory, asked[0], **shape)
    assert len(draft) <= shape["budget"]
    assert max(depths(draft), default=0) <= shape["depth"]
    parents = draft.parents.tolist()
    assert all(parents.count(parent) <= shape["width"] for parent in parents)


def test_no_row_at_the_root_gives_the_root_alone():
    assert len(tree(successors({7: ([8, 9], [0.5, 0.5])}), [1])) == 0


def test_the_highest_path_score_is_popped_first():
    memory = successors({0: ([1, 2], [0.6, 0.4]), 1: ([3, 4], [0.9, 0.1]), 2: ([5, 6], [0.5, 0.5])})
    # scores without depth factors: 1: 0.6, 1-3: 0.54, 2: 0.4, 2-5 and 2-6: 0.2, 1-4: 0.06
    assert shown(tree(memory, [0], budget=2, depth_factor="none")) == ([1, 3], [-1, 0])
    assert shown(tree(memory, [0], budget=3, depth_factor="none")) == ([1, 3, 2], [-1, 0, -1])
    assert shown(tree(memory, [0], budget=5, depth_factor="none")) == ([1, 3, 2, 5, 6], [-1, 0, -1, 2, 2])


def test_depth_factors_prefer_the_shallower_of_two_paths():
    memory = successors({0: ([1, 2], [0.6, 0.4]), 1: ([3, 4], [0.9, 0.1])})
    # 1-3 has 0.54 * 0.68 * 0.63 = 0.231, 2 has 0.4 * 0.68 = 0.272
    assert shown(tree(memory, [0], budget=2, depth_factor="authors")) == ([1, 2], [-1, -1])


@pytest.mark.parametrize(("depth_factor", "factors"), [("authors", AUTHORS), ("none", (1.0,) * 6)])
@pytest.mark.parametrize("budget", [1, 2, 5, 13, 40, 63])
def test_the_tree_holds_the_best_path_scores_of_all(budget, depth_factor, factors):
    q = (0.625, 0.375)
    memory = successors({token: ([2 * token + 1, 2 * token + 2], q) for token in range(127)})  # a full binary tree
    scores = {(0,): 1.0}
    for level in range(6):
        for path in [path for path in scores if len(path) == level + 1]:
            for rank in (0, 1):
                scores[*path, 2 * path[-1] + 1 + rank] = scores[path] * q[rank] * factors[level]
    best = sorted(scores, key=lambda path: (-scores[path], path))[1 : budget + 1]
    draft = tree(memory, [0], budget=budget, depth=6, depth_factor=depth_factor)
    assert sorted(draft.tokens.tolist()) == sorted(path[-1] for path in best)


def test_depth_factors_are_the_published_ones_and_the_last_holds_below():
    assert AUTHORS == (0.68, 0.63, 0.50, 0.43, 0.40, 0.38)
    factors = new_shape(63, 10, 8, True, True, authors=True)["factors"][:10].tolist()
    assert factors == [0.68, 0.63, 0.50, 0.43, 0.40, 0.38, 0.38, 0.38, 0.38, 0.38]


def test_equal_scores_take_the_smaller_rank_path():
    memory = successors({0: ([1, 2], [0.5, 0.5]), 1: ([3, 4], [0.5, 0.5]), 2: ([5, 6], [0.5, 0.5])})
    assert shown(tree(memory, [0], budget=3)) == ([1, 3, 2], [-1, 0, -1])
    assert shown(tree(memory, [0], budget=5)) == ([1, 3, 4, 2, 5], [-1, 0, 0, -1, 3])


def test_an_edge_occurs_once_on_a_path():
    memory = successors({0: ([1], [1.0]), 1: ([0], [1.0])}, top_k=1)
    assert shown(tree(memory, [0])) == ([1, 0], [-1, 0])  # 0 -> 1 a second time is blocked


def test_the_reverse_edge_and_a_self_loop_are_other_edges():
    memory = successors({0: ([0, 1], [0.5, 0.5]), 1: ([0, 2], [0.9, 0.1])})
    paths = {(0,), (0, 1), (0, 1, 0), (0, 1, 2), (1,), (1, 0), (1, 0, 0), (1, 2)}
    draft = tree(memory, [0])
    found: list[tuple[int, ...]] = []
    for token, parent in zip(*shown(draft), strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    assert set(found) == paths
    assert len(found) == len(paths)


def test_an_edge_may_occur_on_two_paths():
    memory = successors({0: ([1, 2], [0.5, 0.5]), 1: ([3, 4], [0.5, 0.5]), 2: ([1, 5], [0.5, 0.5])})
    assert shown(tree(memory, [0])) == ([1, 3, 4, 2, 1, 3, 4, 5], [-1, 0, 0, -1, 3, 4, 4, 3])


def test_edges_of_the_history_above_the_root_do_not_count():
    memory = successors({0: ([1], [1.0])}, top_k=1)
    assert shown(tree(memory, [0, 1, 0])) == ([1], [-1])


def test_a_blocked_child_is_dropped_not_replaced():
    memory = successors({0: ([1, 0], [0.9, 0.1]), 1: ([0, 2], [0.9, 0.1])})
    # under 0-1-0 the first of two children, 1, is blocked; width 1 leaves no second
    assert shown(tree(memory, [0], width=1)) == ([1, 0], [-1, 0])


def test_without_the_guard_a_cycle_runs_to_the_depth_cap():
    memory = successors({0: ([1], [1.0]), 1: ([0], [1.0])}, top_k=1)
    assert shown(tree(memory, [0], edge_guard=False)) == ([1, 0] * 5, list(range(-1, 9)))


def test_the_chain_of_first_ranks_lies_right_behind_the_root():
    draft = tree(successors({token: ([token + 1, token + 20], [0.9, 0.1]) for token in range(40)}), [0])
    assert draft.tokens[:10].tolist() == list(range(1, 11))
    assert draft.parents[:10].tolist() == list(range(-1, 9))


def test_packed_order_is_depth_first_whatever_the_order_of_growth():
    memory = successors({0: ([1, 2], [0.6, 0.4]), 1: ([3, 4], [0.5, 0.5]), 3: ([5, 6], [0.9, 0.1])})
    assert shown(tree(memory, [0])) == ([1, 3, 5, 6, 4, 2], [-1, 0, 1, 1, 0, -1])


def test_fixed_expansion_gives_eight_and_fifty_five():
    found = depths(tree(full(), [1], expansion="fixed"))
    assert (found.count(1), found.count(2), len(found)) == (8, 55, 63)


def test_fixed_expansion_ignores_scores():
    memory = successors({0: ([1, 2], [1.0, 0.0]), 1: ([3, 4], [1.0, 0.0])})
    assert shown(tree(memory, [0], budget=3, expansion="fixed")) == ([1, 3, 2], [-1, 0, -1])
    assert shown(tree(memory, [0], budget=2, expansion="fixed")) == ([1, 2], [-1, -1])


def test_fixed_expansion_keeps_the_guard():
    memory = successors({0: ([1], [1.0]), 1: ([0], [1.0])}, top_k=1)
    assert shown(tree(memory, [0], expansion="fixed")) == ([1, 0], [-1, 0])


def test_best_first_fills_the_whole_budget_where_rows_allow():
    assert len(tree(full(), [1])) == 63


def test_a_child_is_looked_up_under_its_whole_path():
    memory = Memory(1)
    contexts = np.array([context_of(c) for c in ([5, 6], [5, 6, 7], [7])])
    memory.write(contexts, np.arange(3), rows_of([[7], [8], [9]]), np.zeros(16, bool))
    assert shown(tree(memory, [5, 6], {"fusion": "backoff"}))[0][:2] == [7, 8]


def test_a_rank_path_too_long_for_its_code_is_refused_by_name():
    with pytest.raises(ValueError, match=r"method\.depth=16 .*method\.width=8.* at most 15"):
        new_shape(63, 16, 8, True, True, True)
