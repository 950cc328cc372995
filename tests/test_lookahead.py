"""Lookahead decoding: the window as a tree, its filling, the pool, what may be accepted, to the token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.lookahead import Lookahead
from recap.decode import generate
from recap.types import EMPTY_DRAFT, SOURCES, Limits
from recap.verify import accept
from tests.reference.lookahead import LookaheadReference
from tests.scripted import VOCAB, ScriptedTarget, SideBySide, begun, hashed, request_of, rows_of, shown
from tests.strategies import streams, targets

SWITCHES = st.fixed_dictionaries(
    {
        "window": st.integers(1, 4),
        "ngram": st.integers(3, 5),
        "guesses": st.integers(1, 3),
        "accept": st.sampled_from(("guesses", "all")),
        "pool_from_prompt": st.booleans(),
        "seed": st.integers(0, 3),
    }
)


def counting(path, image=0):
    """The target of the examples: one more than the last token, modulo ten."""
    return [float(token == (path[-1] + 1) % 10) for token in range(VOCAB)]


def one_pass(method: Lookahead):
    """A pass against that target: tokens, parents, how many may be accepted, what was committed."""
    draft = method.propose(50)
    root = int(method._history.text[method._history.size - 1])
    rows = rows_of([[(token + 1) % 10] for token in (root, *draft.tokens.tolist())])
    step = accept(draft, rows, np.empty(0, np.int64), 50)
    method.observe(rows, step)
    return *shown(draft), draft.acceptable, step.committed.tolist()


def pool_of(method: Lookahead) -> dict[int, list[tuple[int, ...]]]:
    pool = method._pool
    keys = np.flatnonzero(pool.row >= 0)
    rows = {int(key): pool.row[key] for key in keys}
    return {key: [tuple(gram) for gram in pool.grams[row, : pool.size[row]].tolist()] for key, row in rows.items()}


def window_of(method: Lookahead) -> list[list[int]]:
    first = method._levels.shape[1] - method._filled
    levels = method._levels.tolist()
    return [levels[0][:first], *(level[: first + 1] for level in levels[1 : method._filled + 1])]


def small(root: int = 1) -> Lookahead:
    """W=2, N=3, G=2 over a prompt that can only be drawn as fives."""
    return begun(Lookahead(window=2, ngram=3, guesses=2), [5, root])


@given(targets, streams(), SWITCHES)
def test_every_draft_equals_the_references(predict, stream, switches):
    reference = LookaheadReference(**switches)

    def same(draft, nodes) -> bool:
        return list(zip(*shown(draft), strict=True)) == nodes and draft.acceptable == reference.acceptable

    both = SideBySide(Lookahead(**switches), reference, same)
    for request, limits in stream:
        generate(ScriptedTarget(predict), both, request, limits)


def test_the_three_examples_to_the_token():
    method = small()
    assert one_pass(method) == ([5, 5], [-1, 0], 0, [2])
    assert window_of(method) == [[5], [6, 6]]
    assert pool_of(method) == {}
    assert one_pass(method) == ([5, 6, 6], [-1, -1, 0], 0, [3])
    assert pool_of(method) == {2: [(6, 7)], 5: [(6, 7)]}
    assert window_of(method) == [[6], [7, 7]]
    one_pass(method), one_pass(method)
    assert window_of(method) == [[8], [9, 9]]
    assert one_pass(method) == ([6, 7, 8, 9, 9], [-1, 0, -1, -1, 2], 2, [6, 7, 8])
    assert pool_of(method)[5] == [(6, 7), (9, 0)]


def test_with_every_node_acceptable_the_window_is_accepted_too():
    method = begun(Lookahead(window=2, ngram=3, guesses=2, accept="all"), [5, 4])
    assert one_pass(method) == ([5, 5], [-1, 0], None, [5, 6])


def test_a_window_that_fills_has_the_published_sizes():
    method = begun(Lookahead(window=15, ngram=5, guesses=15), [5, 6, 7, 1])
    sizes = []
    for _ in range(5):
        sizes.append([len(level) for level in window_of(method)])
        tokens, _, acceptable, committed = one_pass(method)
        assert len(tokens) - acceptable == sum(sizes[-1])
        assert len(sizes) > 3 or len(committed) == 1
    assert sizes == [[17], [16, 17], [15, 16, 16], [14, 15, 15, 15], [14, 15, 15, 15]]


def test_a_full_pass_has_120_rows_at_most():
    method = begun(Lookahead(pool_from_prompt=True), [t for k in range(16) for t in (1, k, k + 1, k + 2, k + 3)] + [1])
    for _ in range(3):
        one_pass(method)
    text = method._history
    text.text[text.size - 1] = 1  # a key that the prompt gave fifteen n-grams
    draft = method.propose(100)
    assert (len(draft) + 1, draft.acceptable) == (120, 60)


def test_a_cell_sees_the_root_level_0_before_its_column_and_its_column_above():
    method = begun(Lookahead(window=3, ngram=4), [5, 6, 1])
    for _ in range(2):
        one_pass(method)
    _, parents = shown(method.propose(50))
    assert parents == [-1, 0, -1, 0, 1, 2, 3, 4]  # (0,0) (0,1); (1,0) (1,1) (1,2); (2,0) (2,1) (2,2)


def test_an_ngram_stored_again_becomes_the_newest_and_the_oldest_goes():
    prompt = [1, 2, 3, 1, 4, 5, 1, 2, 3, 1, 6, 7]
    method = begun(Lookahead(ngram=3, guesses=2, pool_from_prompt=True), [*prompt, 9])
    assert pool_of(method)[1] == [(2, 3), (6, 7)]
    method = begun(Lookahead(ngram=3, guesses=3, pool_from_prompt=True), [*prompt, 9])
    assert pool_of(method)[1] == [(4, 5), (2, 3), (6, 7)]


def test_from_the_text_a_pool_learns_one_ngram_for_each_commit_of_a_full_pass():
    method = begun(Lookahead(window=1, ngram=3, pool_from_prompt=True), [5, 8, 9])
    one_pass(method)
    assert pool_of(method) == {}  # filling: and the prompt is too short
    one_pass(method)
    assert (9, (0, 1)) in [(key, gram) for key, grams in pool_of(method).items() for gram in grams]


def test_draws_come_from_the_prompts_text_and_follow_seed_and_request():
    prompt = [1, 2, 3, 4, *[9] * 400, 8]

    def windows(seed: int) -> list:
        method = Lookahead(seed=seed)
        return [window_of(begun(method, prompt, placeholders=[9])) for _ in range(2)]

    first, second = windows(0)
    assert {token for level in first + second for token in level} <= {1, 2, 3, 4}
    assert windows(0) == [first, second]
    assert first != second
    assert windows(1) != [first, second]


def test_a_prompt_of_placeholders_alone_has_no_window():
    method = begun(Lookahead(), [*[9] * 400, 1], placeholders=[9])
    assert method.propose(50) is EMPTY_DRAFT
    method.observe(rows_of([[2]]), accept(EMPTY_DRAFT, rows_of([[2]]), np.empty(0, np.int64), 50))
    assert method.memory()["rows"] == {"pool": 0}


def test_no_placeholder_enters_window_or_pool():
    image, method = 3, Lookahead(window=3, ngram=3, pool_from_prompt=True)
    request = request_of([1, 2, *[image] * 400, 1, 2], 6, [image])
    generate(ScriptedTarget(hashed(vocab_size=6, window=1, levels=2)), method, request, Limits(40))
    pool = pool_of(method)
    assert pool
    assert image not in {token for key, grams in pool.items() for gram in grams for token in (key, *gram)}
    assert image not in {token for level in window_of(method) for token in level}


def test_a_choice_that_is_a_placeholder_leaves_the_cell_as_it_was():
    method = begun(Lookahead(window=2, ngram=3, guesses=2), [5, 1], placeholders=[6])
    one_pass(method)
    assert window_of(method) == [[5], [5, 5]]
    one_pass(method)
    assert pool_of(method) == {}


def test_a_guess_ends_with_a_stop_id_and_no_deeper_than_what_may_come():
    method = begun(Lookahead(window=1, ngram=4, pool_from_prompt=True), [1, 2, 0, 3, 5, 1, 6, 7, 8, 9], stop_ids=[0])
    one_pass(method), one_pass(method)
    method._history.text[method._history.size - 1] = 1
    draft = method.propose(50)
    assert draft.tokens[: draft.acceptable].tolist() == [2, 0, 6, 7, 8]
    draft = method.propose(3)
    assert draft.tokens[: draft.acceptable].tolist() == [2, 0, 6, 7]
    assert method.propose(1).acceptable == 0


def test_window_and_pool_live_for_one_request():
    method = small()
    for _ in range(3):
        one_pass(method)
    assert method.memory()["rows"] == {"pool": 4}
    assert pool_of(begun(method, [5, 2])) == {}
    assert window_of(method) == [[5, 5]]
    method.reset()
    assert method.memory() == {"rows": {"pool": 0}, "bytes": 0}


def test_guesses_name_their_source_and_window_cells_none():
    method = small()
    for _ in range(4):
        one_pass(method)
    assert method.propose(50).sources.tolist() == [SOURCES["suffix"]] * 2 + [0] * 3


@pytest.mark.parametrize("entry", [{"window": 0}, {"ngram": 2}, {"guesses": 0}, {"accept": "some"}])
def test_an_illegal_value_is_named(entry):
    (name,) = entry
    with pytest.raises(ValueError, match=rf"method\.{name}="):
        Lookahead(**entry)
