"""SAM decoding: match, climb, budgets and static automaton, to the token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.sam_decoding import SamDecoding
from recap.decode import generate
from recap.types import SOURCES
from tests.reference.sam_decoding import SamDecodingReference, ends
from tests.scripted import ScriptedTarget, SideBySide, begun, observed, pairs, shown
from tests.strategies import WORDS, streams, targets

ONLY = {"fallback": "none", "alpha": 4, "max_predicts": 60, "climb": False}
CLIMB = [9, 5, 7, 7, 7, 1, 2, 3, 4, 5, 8, 1, 2, 3, 4, 5]
SWITCHES = {
    "n_predicts": st.integers(1, 9),
    "threshold": st.integers(0, 4),
    "climb": st.booleans(),
    "alpha": st.sampled_from((None, 1, 2.5)),
    "max_predicts": st.integers(1, 9),
    "fallback": st.sampled_from(("token_recycling", "none")),
    "len_bias": st.integers(0, 2),
    "static_width": st.integers(1, 3),
}
CORPORA = st.none() | st.lists(st.lists(st.integers(0, WORDS), min_size=1, max_size=12), min_size=1, max_size=4)


def drafted(history, stop_ids=(), placeholders=(), room=100, **switches) -> list[int]:
    """The tokens of the one path that is drafted."""
    tokens, parents = shown(begun(SamDecoding(**switches), history, stop_ids, placeholders).propose(room))
    assert parents == list(range(-1, len(tokens) - 1))
    return tokens


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Writes documents to a file and returns its path."""
    file = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"

    def write(documents):
        lines = (str(d) if i % 2 else " ".join(map(str, d)) for i, d in enumerate(documents))
        file.write_text("\n".join(lines))
        return str(file)

    return write


@given(predict=targets, stream=streams(), switches=st.fixed_dictionaries(SWITCHES), documents=CORPORA)
def test_every_draft_equals_the_references(corpus, predict, stream, switches, documents):
    static = corpus(documents) if documents else None
    expected = SamDecodingReference(**switches, corpus=documents or ())
    both = SideBySide(SamDecoding(**switches, static=static), expected, pairs)
    for request, limits in stream:
        generate(ScriptedTarget(predict), both, request, limits)


@given(text=st.lists(st.integers(-1, 2), min_size=2, max_size=30), n=st.integers(1, 12), climb=st.booleans())
def test_any_text_is_copied_from_as_the_reference_does(text, n, climb):
    history = [3 if token < 0 else token for token in text]
    switches = {"n_predicts": n, "climb": climb, "fallback": "none"}
    method, expected = (begun(cls(**switches), history, [2], [3]) for cls in (SamDecoding, SamDecodingReference))
    assert pairs(method.propose(50), expected.propose(50))


def test_alone_it_drafts_four_tokens_for_each_of_a_match_and_never_the_roots_own_copy():
    assert drafted([1, 2, 3, 4, 5, 1, 2, 3], **ONLY) == [4, 5, 1, 2]
    long = [*range(1, 28), 1, 2, 3]
    assert drafted(long, **ONLY) == list(range(4, 16))  # a match of 3 gives 13 rows
    assert drafted(long, **ONLY | {"max_predicts": 6}) == [4, 5, 6, 7, 8]


def test_a_match_below_the_threshold_falls_back_to_the_token_recycling_tree():
    tokens, parents = shown(begun(SamDecoding(), [1, 2, 3, 4, 5, 1, 2, 3]).propose(50))
    assert tokens[:2] == [3, 3]  # rows as `begun` gives them, depth first
    assert parents.count(-1) == 8
    assert drafted([1, 2, 3, 4, 5, 1, 2, 3], threshold=3) == [4, 5, 1, 2]


def test_a_match_of_five_is_copied_to_the_end_of_the_text_and_not_padded():
    assert drafted([1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5]) == [6, 1, 2, 3, 4]


def test_a_match_with_too_few_followers_is_traded_for_a_shorter_and_older_one():
    assert drafted(CLIMB, n_predicts=8) == [7, 7, 7, 1, 2, 3, 4]
    assert drafted(CLIMB, n_predicts=8, climb=False) == [8, 1, 2, 3, 4]
    assert drafted(CLIMB, n_predicts=4) == [8, 1, 2]


def test_a_pass_has_forty_rows_the_root_among_them():
    history = [*range(1, 6), *[6] * 60, 7, *range(1, 6)]
    assert drafted(history) == [6] * 39


def test_the_root_is_fed_once_so_that_a_verbatim_repeat_is_a_long_match():
    story = list(range(1, 20))
    for length in range(1, 10):  # rows, and so tokens, tell the length of the match
        assert len(drafted([*story, *story[:length]], **ONLY | {"alpha": 1})) == length
    assert drafted([1, 2, 3, 4, 5, 1, 2, 3], **ONLY | {"alpha": 1}) == [4, 5, 1]


def test_a_match_grows_with_what_is_committed():
    method = begun(SamDecoding(**ONLY | {"alpha": 1}), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1])
    assert method.propose(50).tokens.tolist() == [2]
    observed(method, [[2], [3]])
    assert method.propose(50).tokens.tolist() == [4, 5, 6]


def test_without_a_match_alone_it_takes_a_plain_step():
    assert drafted([1, 2, 3], **ONLY) == []


def test_a_copy_ends_before_a_stop_id_and_before_what_may_not_come():
    history = [1, 2, 3, 4, 0, 6, 1, 2]
    assert drafted(history, **ONLY, stop_ids=[0]) == [3, 4]
    assert drafted(history, **ONLY, room=2) == [3]
    assert drafted(history, **ONLY, room=1) == []


def test_a_run_of_placeholders_enters_neither_the_automaton_nor_a_draft():
    text = [1, 2, 4, 5, 6, 1, 2]
    with_image = [1, 2, *[9] * 400, *text]
    methods = [begun(SamDecoding(**ONLY), h, placeholders=[9]) for h in ([1, 2, 9, *text], with_image)]
    states = [method.memory()["rows"]["automaton"] for method in methods]
    assert states[0] == states[1]
    assert drafted(with_image, **ONLY, placeholders=[9]) == []  # the first place has the image behind it
    assert drafted([3, *[9] * 400, 1, 2, 3, 4, 9, 9, 3], **ONLY, placeholders=[9]) == []
    assert drafted([4, *[9] * 400, 4, *[9] * 400, 4, 5, 4], **ONLY, placeholders=[9]) == []


def test_chain_passes_teach_the_fallback_too():
    method = begun(SamDecoding(), [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5])
    row = [20, 21, 22, 23, 24, 25, 26, 27]
    draft = observed(method, [row, [7, *row[1:]]])  # the root 5 and, rejected, the node 6
    assert draft.tokens.tolist() == [6, 1, 2, 3, 4]
    observed(method, [[6, *row[1:]]])  # 20 is the root, 6 the next
    tokens, _ = shown(method.propose(3))
    assert tokens[0] == 7


def test_the_static_match_is_used_where_it_is_longer_by_more_than_its_handicap(corpus):
    static = corpus([[11, 12, 13, 14, 15, 16, 17], [3, 4]])
    history = [16, 20, 11, 12, 13, 14, 15]
    switches = {"static": static, "len_bias": 1, "threshold": 4}
    assert drafted(history, **switches) == [16, 17]  # to the document's end
    assert drafted(history, **switches | ONLY | {"len_bias": 5}) == []
    assert drafted([1, 11, 12, 13, 14, 15, 9, 11, 12, 13, 14, 15], **switches) == [9, 11, 12, 13, 14]


def test_alone_the_static_automaton_gives_a_tree_by_how_often_what_occurred(corpus):
    static = corpus([[1, 2, 6], [1, 2, 6], [1, 2, 7], [1, 3, 8]])
    draft = begun(SamDecoding(**ONLY | {"static": static, "len_bias": 0}), [5, 1]).propose(50)
    assert shown(draft) == ([2, 6, 3, 7], [-1, 0, -1, 0])  # 3/4, 1/2 and, as pushed, 1/4; 8 comes too late


def test_equal_static_chances_go_to_the_earlier_pushed(corpus):
    static = corpus([[1, 4, 6], [1, 2, 6]])
    draft = begun(SamDecoding(**ONLY | {"static": static, "len_bias": 0}), [5, 1]).propose(50)
    assert shown(draft) == ([2, 4, 6, 6], [-1, -1, 0, 1])


def test_a_corpus_line_that_is_no_list_of_ids_is_named(tmp_path):
    file = tmp_path / "corpus.txt"
    file.write_text("1 2\n3 four\n")
    with pytest.raises(ValueError, match=r"method\.static=.*line 2"):
        SamDecoding(static=str(file))


def test_the_reference_finds_every_end():
    assert ends([1, 2, 1, 2, 1], [1, 2]) == [1, 3]


def test_the_request_is_forgotten_and_the_matrix_kept():
    method = begun(SamDecoding(), [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5])
    draft = begun(method, [7, 1]).propose(50)
    assert draft.tokens[0] == 5  # the row that the first request gave to 1
    assert set(draft.sources.tolist()) == {SOURCES["M1"]}


@pytest.mark.parametrize("entry", [{"n_predicts": 0}, {"alpha": 0}, {"fallback": "eagle"}])
def test_an_illegal_value_is_named(entry):
    (name,) = entry
    with pytest.raises(ValueError, match=rf"method\.{name}="):
        SamDecoding(**entry)
