"""RACER: borders, candidates, the logits tree, the bounded trie and its lifetimes, to the token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.racer import Racer, find, insert, new_trie
from recap.decode import generate
from recap.types import SOURCES, Limits
from tests.reference.racer import RacerReference
from tests.scripted import ScriptedTarget, SideBySide, observed, pairs, request_of, rows_of, shown
from tests.strategies import streams, targets
from tests.test_token_recycling import depths

SWITCHES = st.fixed_dictionaries(
    {
        "max_num_draft": st.integers(1, 14),
        "ngram": st.integers(1, 4),
        "max_nodes": st.integers(4, 12) | st.just(10_000),
        "max_breadth": st.integers(1, 4),
        "min_depth": st.integers(1, 2),
        "trie": st.sampled_from(("stream", "request")),
    }
)
TABLE = {2: (3, 5), 3: (1, 9), 5: (7, 8), 1: (2, 6)}


def knowing(body, root, table=None, stop_ids=(), placeholders=(), vocab_size=32, **switches) -> Racer:
    """A method at the start of a request with these tokens and this table, and no row else."""
    method = Racer(**switches)
    request = request_of(body, vocab_size, placeholders)
    blank = [0] * method.top_k
    rows = [blank] * len(method.wants(request)) + [[root, *blank[1:]]]
    method.begin(request, Limits(100, tuple(stop_ids)), rows_of(rows))
    method._table.clear()
    for token, row in (table or {}).items():
        method._table.ids[token, : len(row)] = row
        method._table.width[token] = len(row)
    return method


@given(targets, streams(), SWITCHES)
def test_every_draft_equals_the_references(predict, stream, switches):
    both = SideBySide(Racer(**switches), RacerReference(**switches), pairs)
    for request, limits in stream:
        generate(ScriptedTarget(predict), both, request, limits)


def test_retrieved_and_listed_children_are_merged_within_the_budget():
    method = knowing([1, 2, 3, 1, 2, 4, 1], 2, TABLE, ngram=3, max_breadth=2, max_num_draft=6)
    draft = method.propose(50)
    assert shown(draft) == ([3, 4, 5], [-1, -1, -1])
    both, retrieved, listed = SOURCES["suffix"] | SOURCES["M1"], SOURCES["suffix"], SOURCES["M1"]
    assert draft.sources.tolist() == [both, retrieved, listed]


def test_without_a_border_the_logits_tree_takes_the_whole_budget():
    method = knowing([9], 2, TABLE, ngram=3, max_breadth=2, max_num_draft=6)
    assert shown(method.propose(50)) == ([3, 5, 1, 7, 2], [-1, -1, 0, 1, 2])


def test_every_border_of_a_repeat_is_found():
    method = knowing([1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2], 3, ngram=4)
    assert shown(method.propose(50)) == ([4, 5], [-1, 0])


def test_full_tables_give_8_12_17_18_8_nodes_by_depth():
    table = {token: [8 * token + k for k in range(1, 9)] for token in range(5_000)}
    tokens, parents = shown(knowing([40_000], 0, table, vocab_size=40_001).propose(50))
    found = depths(parents)
    assert [found.count(depth) for depth in range(1, 6)] == [8, 12, 17, 18, 8]
    assert len(set(tokens)) == 63


def test_a_window_enters_the_trie_once_ten_tokens_are_there():
    story = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert shown(knowing([*story[:8], 1], 2).propose(50)) == ([], [])
    assert shown(knowing([*story[:9], 1], 2).propose(50))[0] == [3, 4, 5, 6, 7, 8, 9, 1]
    assert shown(knowing([*story, 1], 2).propose(50))[0] == [3, 4, 5, 6, 7, 8, 9, 10]


def test_the_root_enters_a_window_one_step_later():
    method = knowing([1, 2], 3, ngram=3)
    assert method.memory()["rows"]["trie"] == 0
    observed(method, [[4, 0, 0, 0, 0, 0, 0, 0]])
    assert method.memory()["rows"]["trie"] == 3  # 1 2 3, and not 2 3 4
    assert find(method._trie, find(method._trie, 0, 1), 2) > 0
    assert find(method._trie, 0, 2) == 0


def test_higher_counts_come_first_then_the_shallower_then_the_longer_border():
    body = [5, 1, 2, 3, 1, 2, 4, 1, 2, 4, 5, 1]
    tokens, parents = shown(knowing(body, 2, ngram=4).propose(50))
    assert (tokens[0], parents[0]) == (4, -1)  # below "1 2" twice
    assert (tokens[1], parents[1]) == (3, -1)  # below "5 1 2" and "1 2", once each


def test_a_border_counts_as_one_of_the_budget():
    body = [1, 2, 3, 1, 2, 3, 1]
    assert shown(knowing(body, 2, ngram=3, max_num_draft=1).propose(50)) == ([], [])
    assert shown(knowing(body, 2, ngram=3, max_num_draft=2).propose(50)) == ([3], [-1])


def test_rows_are_written_layer_by_layer_and_the_last_wins():
    method = knowing([9], 5, {5: (6, 7), 6: (7, 8)}, max_breadth=2, max_num_draft=5)
    tokens, parents = shown(method.propose(50))
    assert (tokens, parents) == ([6, 7, 7], [-1, -1, 0])
    observed(method, [[9, 1], [2, 2], [1, 2], [3, 4]])
    assert method._table.ids[7].tolist() == [3, 4]


def test_the_table_is_seeded_by_the_last_occurrence_of_every_text_token():
    assert Racer().wants(request_of([5, 6, 9, 5, 9], placeholders=[9])).tolist() == [1, 3]


def spelled(trie) -> set[tuple[int, ...]]:
    """Every string of a trie."""
    strings, nodes = set(), [(int(at), (token,)) for token, at in enumerate(trie.top.tolist()) if at]
    while nodes:
        at, string = nodes.pop()
        strings.add(string)
        child = int(trie.child[at])
        while child:
            nodes.append((child, (*string, int(trie.token[child]))))
            child = int(trie.sibling[child])
    return strings


def test_the_least_recent_leaf_goes():
    trie = new_trie(6, 32)
    for window in ([1, 2, 3], [1, 2, 4], [1, 5]):
        insert(trie, np.array(window))
    assert spelled(trie) == {(1,), (1, 2), (1, 2, 3), (1, 2, 4), (1, 5)}
    insert(trie, np.array([1, 2, 3]))
    insert(trie, np.array([7, 8]))
    assert spelled(trie) == {(1,), (1, 2), (1, 2, 3), (1, 5), (7,), (7, 8)}
    insert(trie, np.array([7, 9, 10]))
    assert spelled(trie) == {(1,), (1, 2), (7,), (7, 8), (7, 9), (7, 9, 10)}


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), max_size=40), st.integers(3, 12))
def test_the_trie_never_outgrows_its_bound_and_holds_the_newest_window(windows, nodes):
    trie = new_trie(nodes, 8)
    for window in windows:
        insert(trie, np.array(window))
        strings = spelled(trie)
        assert len(strings) <= nodes
        assert {tuple(window[:n]) for n in (1, 2, 3)} <= strings
        assert all(string[:-1] in strings for string in strings if len(string) > 1)


@pytest.mark.parametrize(("trie", "kept"), [("stream", [3, 4]), ("request", [])])
def test_the_trie_lives_for_the_stream_or_one_request(trie, kept):
    method = knowing([1, 2, 3, 4], 5, ngram=4, trie=trie)
    request = request_of([1])
    method.begin(request, Limits(50), rows_of([[0] * 8] * len(method.wants(request)) + [[2, *[0] * 7]]))
    method._table.clear()
    assert method.propose(50).tokens.tolist() == kept


def test_a_run_of_placeholders_enters_neither_trie_nor_table_nor_draft():
    image = [9] * 400
    method = knowing([1, 2, *image, 3, 1], 2, ngram=3, placeholders=[9])
    assert spelled(method._trie) == set()
    assert shown(method.propose(50)) == ([], [])
    method = knowing([1, 2, 4, *image, 1], 2, ngram=3, placeholders=[9])
    assert spelled(method._trie) == {(1,), (1, 2), (1, 2, 4)}
    assert method.propose(50).tokens.tolist() == [4]
    observed(method, [[9, 4, 5, 6, 7, 8, 10, 11]])  # commits the placeholder
    assert method._table.ids[2, :7].tolist() == [4, 5, 6, 7, 8, 10, 11]
    assert shown(method.propose(50)) == ([], [])


def test_a_stop_id_has_no_children():
    body = [1, 2, 3, 4, 1]
    assert knowing(body, 2, {2: (5,), 5: (6,)}, ngram=4, stop_ids=[3, 5]).propose(50).tokens.tolist() == [3, 5]
    assert knowing(body, 2, {2: (5,), 5: (6,)}, ngram=4).propose(50).tokens.tolist() == [3, 4, 5, 6]


def test_a_new_stream_starts_empty():
    method = knowing([1, 2, 3, 4], 5, TABLE, ngram=4)
    assert method.memory()["rows"] == {"matrix": 4, "trie": 4}
    method.reset()
    assert method.memory()["rows"] == {"matrix": 0, "trie": 0}


@pytest.mark.parametrize("entry", [{"max_nodes": 9}, {"ngram": 0}, {"max_breadth": 0}, {"trie": "ever"}])
def test_an_illegal_value_is_named(entry):
    (name,) = entry
    with pytest.raises(ValueError, match=rf"method\.{name}"):
        Racer(**entry)
