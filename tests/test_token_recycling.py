"""Token Recycling: the published template, its update rules and our stated choices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.autoregressive import Autoregressive
from baselines.token_recycling import TokenRecycling, template
from recap.decode import generate
from recap.types import SOURCES, Limits
from tests.reference.token_recycling import TEMPLATE, TokenRecyclingReference
from tests.scripted import ScriptedTarget, SideBySide, observed, request_of, rows_of, shown
from tests.strategies import streams, targets

UNSEEN = [24, 25, 26, 27, 28, 29, 30, 31]  # ids that no test gives a row


def knowing(matrix: dict[int, list[int]], root: int, stop_ids=(), placeholders=(), **switches) -> TokenRecycling:
    """A method whose matrix holds these rows, at the start of a request with this root."""
    method = TokenRecycling(prefill="unigram", **switches)
    prompt = [*matrix, 24] if matrix else [24]
    rows = [*matrix.values(), UNSEEN, [root, *UNSEEN[1:]]]
    method.begin(request_of(prompt, placeholders=placeholders), Limits(100, tuple(stop_ids)), rows_of(rows))
    return method


def depths(parents: list[int]) -> list[int]:
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent < 0 else found[parent] + 1)
    return found


def row(*first: int) -> list[int]:
    """Eight ids that start with the given ones."""
    return [*first, *UNSEEN[len(first) :]]


@given(targets, streams(), st.sampled_from(("none", "unigram")), st.sampled_from(("last", "first")))
def test_every_draft_equals_the_references_and_the_output_equals_plain_decoding(predict, stream, prefill, duplicates):
    target = ScriptedTarget(predict)
    switches = {"prefill": prefill, "duplicates": duplicates}
    both = SideBySide(
        TokenRecycling(**switches),
        TokenRecyclingReference(**switches),
        lambda draft, nodes: list(zip(*shown(draft), strict=True)) == nodes,
    )
    for request, limits in stream:
        output = generate(target, both, request, limits)
        plain = generate(target, Autoregressive(), request, limits)
        assert output.tokens.tolist() == plain.tokens.tolist()


def rank_path(tree, node: int) -> str:
    above = int(tree.parent[node])
    return ("" if above < 0 else rank_path(tree, above)) + str(tree.rank[node])


def test_the_template_has_80_nodes_8_21_25_15_8_3_by_depth():
    found = depths(template().parent.tolist())
    assert [found.count(depth) for depth in range(1, 7)] == [8, 21, 25, 15, 8, 3]


def test_the_template_has_the_published_children_under_every_rank_path():
    tree = template()
    paths: list[str] = []
    for parent, rank in zip(tree.parent.tolist(), tree.rank.tolist(), strict=True):
        paths.append((paths[parent] if parent >= 0 else "") + str(rank))
    assert paths == sorted(f"{path}{rank}" for path, children in TEMPLATE.items() for rank in range(children))


def test_a_smaller_budget_keeps_the_nodes_of_the_best_ranks_under_their_parents():
    whole, small = template(), template(10)
    paths = [rank_path(small, node) for node in range(10)]
    assert paths == sorted(paths), "packed depth-first"
    assert set(paths) <= {rank_path(whole, node) for node in range(80)}
    assert all(path[:-1] in {"", *paths} for path in paths)
    assert set(paths) == {"0", "1", "00", "2", "01", "10", "000", "3", "02", "11"}


def test_an_empty_matrix_gives_the_root_alone():
    assert len(knowing({}, root=5).propose(50)) == 0


def test_one_known_row_gives_eight_children():
    assert shown(knowing({5: list(range(6, 14))}, root=5).propose(50)) == (list(range(6, 14)), [-1] * 8)


def test_a_cycle_of_two_rows_gives_34_nodes_down_to_depth_six():
    a5, a6 = list(range(6, 14)), [5, 1, 2, 3, 4, 14, 15, 16]
    tokens, parents = shown(knowing({5: a5, 6: a6}, root=5).propose(50))
    under: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        under.setdefault(parent, []).append(node)
    found, at = [], -1
    while at in under:
        found.append([tokens[node] for node in under[at]])
        at = under[at][0]
    assert found == [a5, a6, a5, [5, 1, 2, 3, 4], [6, 7, 8], [5, 1]]
    assert len(tokens) == sum(map(len, found)) == 34


def test_the_draft_is_packed_depth_first():
    tokens, parents = shown(knowing({5: row(6, 7), 6: row(8)}, root=5).propose(50))
    assert (tokens[:3], parents[:3]) == ([6, 8, 25], [-1, 0, 0])
    assert (tokens[9], parents[9]) == (7, -1)


@pytest.mark.parametrize(("duplicates", "winner"), [("last", [3, 4]), ("first", [1, 2])])
def test_a_token_at_two_nodes_gets_the_row_of_one_in_layer_order(duplicates, winner):
    method = knowing({5: row(6, 7), 7: row(6)}, root=5, duplicates=duplicates)
    tokens, parents = shown(method.propose(50))
    above, below = (node for node, token in enumerate(tokens) if token == 6)
    assert (depths(parents)[above], depths(parents)[below]) == (1, 2)
    ids = [row(5)] * (len(tokens) + 1)
    ids[0], ids[above + 1], ids[below + 1] = row(9), row(1, 2), row(3, 4)
    observed(method, ids)  # 9 is the new root
    observed(method, [row(6)])
    assert method.propose(50).tokens[:2].tolist() == winner


def test_layer_order_is_not_packed_order():
    method = knowing({5: row(6, 7), 6: row(7)}, root=5)
    tokens, parents = shown(method.propose(50))
    deep, shallow = (node for node, token in enumerate(tokens) if token == 7)
    assert (depths(parents)[deep], depths(parents)[shallow]) == (2, 1)
    ids = [row(5)] * (len(tokens) + 1)
    ids[0], ids[deep + 1], ids[shallow + 1] = row(9), row(1, 2), row(3, 4)
    observed(method, ids)  # 9 is the new root
    observed(method, [row(7)])
    assert method.propose(50).tokens[:2].tolist() == [1, 2]  # the deeper one is the last in layer order


def test_rejected_nodes_write_their_rows_too():
    method = knowing({5: row(6, 7)}, root=5)
    observed(method, [row(9), row(1, 2)])  # 6 is rejected, 9 the new root
    observed(method, [row(6)])
    assert method.propose(50).tokens[:2].tolist() == [1, 2]


def test_the_root_writes_its_row():
    method = knowing({}, root=5)
    observed(method, [row(5, 6)])
    assert shown(method.propose(2)) == (row(5, 6), [-1] * 8)


def test_as_published_no_prompt_row_is_read():
    assert TokenRecycling().wants(request_of([5, 6, 5])).tolist() == []


def test_the_last_occurrence_of_a_prompt_token_seeds_its_row():
    method = TokenRecycling(prefill="unigram")
    assert method.wants(request_of([5, 6, 9, 5, 9], placeholders=[9])).tolist() == [1, 3]


def test_the_matrix_lives_for_the_stream():
    method = knowing({5: row(6, 7)}, root=5)
    method.end()
    method.begin(request_of([1]), Limits(50), rows_of([UNSEEN, row(5)]))
    assert method.propose(50).tokens[:2].tolist() == [6, 7]


def test_a_new_stream_starts_empty():
    method = knowing({5: row(6, 7)}, root=5)
    method.reset()
    assert len(method.propose(50)) == 0
    assert method.memory()["rows"] == {"matrix": 0}


def test_a_placeholder_is_dropped_and_the_rank_order_kept():
    method = knowing({5: row(9, 6, 7)}, root=5, placeholders=[9])
    assert method.propose(50).tokens.tolist() == row(9, 6, 7)[1:]


def test_a_placeholder_is_never_a_key():
    method = TokenRecycling()
    method.begin(request_of([1], placeholders=[9]), Limits(50), rows_of([row(9)]))
    observed(method, [row(9, 6)])
    assert len(method.propose(50)) == 0
    assert method.memory()["rows"] == {"matrix": 0}


def test_nothing_is_drafted_below_a_stop_id():
    cycle = {5: row(6), 6: row(5)}
    draft = knowing(cycle, root=5, stop_ids=[6]).propose(50)
    assert max(depths(draft.parents.tolist())) == 1
    assert max(depths(knowing(cycle, root=5).propose(50).parents.tolist())) == 6


@pytest.mark.parametrize("room", [1, 2, 4, 7, 8])
def test_nothing_is_drafted_deeper_than_the_tokens_that_may_come_minus_one(room):
    draft = knowing({5: row(6), 6: row(5)}, root=5).propose(room)
    assert max(depths(draft.parents.tolist()), default=0) == min(room - 1, 6)


def test_nodes_name_the_one_memory_there_is():
    assert set(knowing({5: row(6)}, root=5).propose(50).sources.tolist()) == {SOURCES["M1"]}


def test_the_memory_report_counts_rows_and_bytes():
    method = knowing({5: row(6), 6: row(5)}, root=5)
    report = method.memory()
    assert report["rows"] == {"matrix": 3}  # and the prompt's last token
    assert report["bytes"] >= 32 * 8 * 4


@pytest.mark.parametrize("name", ["prefill", "duplicates"])
def test_a_choice_that_does_not_exist_is_refused_by_name(name):
    with pytest.raises(ValueError, match=rf"method\.{name}=something"):
        TokenRecycling(**{name: "something"})
