"""Every scorer by the published rule: what it accepts, what it refuses, what is mended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.benches import mathvista_answers
from runners.benches.mathvista_answers import edit_distance
from runners.benches.scoring import contains_any, first_character, letter, option_letter, relaxed
from runners.benches.vqa import processed, vqa_accuracy

ABCD = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    "answer,expected",
    [
        ("B", "B"),
        (" B. ", "B"),
        ("'B'?!", "B"),
        ("'B'!?", None),  # published: each mark is stripped once, in the order , . ! ? ; : '
        ("(B) a cat", "B"),
        ("The answer is B", "B"),
        ("The answer is B.", "B"),
        ("B. a cat", "B"),
        ("B: a cat", None),  # a colon is none of the three forms
        ("the cat", None),  # published: a letter drawn at random
        ("", None),
        ("b", None),
        ("E", None),  # not an option of this row
        ("A or B", "B"),  # of several the last
        ("B or A", "A"),
        ("(B) rather than A", "B"),  # brackets come before bare letters
        ("not A. but B.", "B"),
        ("(A) is wrong, (B) is right", "B"),  # published: A
        ("(B) is wrong, (A) is right", "A"),
        ("It is A cat", "A"),
        ("TABLE", None),
    ],
)
def test_mmt_bench_reads_the_last_letter_of_the_strictest_form(answer, expected):
    assert letter(answer, ABCD) == expected


def test_an_unparsed_answer_is_never_drawn():
    assert {letter("no letter at all", ABCD) for _ in range(50)} == {None}
    assert letter("A", ()) is None


@pytest.mark.parametrize(
    "answer,gold,expected",
    [
        ("B", "B", 1.0),
        ("b", "B", 1.0),
        (" \nB. a cat", "B", 1.0),
        ("Because it is red", "B", 1.0),
        ("The answer is B", "B", 0.0),
        ("The answer is B", "T", 1.0),
        ("(B)", "B", 0.0),
        ("", "B", 0.0),
        ("A", "B", 0.0),
    ],
)
def test_seed_bench_reads_the_first_character(answer, gold, expected):
    assert first_character(answer, gold) == expected


@pytest.mark.parametrize(
    "answer,expected",
    [
        ("B", 1.0), ("b", 1.0), (" B\n", 1.0), ("B.", 1.0), ("B. mushroom", 1.0),
        ("b. mushroom", 0.0), ("B) mushroom", 0.0), ("(B)", 0.0), ("B mushroom", 0.0), ("The answer is B.", 0.0),
        ("A. mushroom", 0.0), ("", 0.0), ("mushroom", 0.0),
    ],
)  # fmt: skip
def test_scienceqa_takes_the_letter_alone_or_before_a_full_stop(answer, expected):
    assert option_letter(answer, "B") == expected


@pytest.mark.parametrize(
    "answer,golds,dataset,expected",
    [
        ("The sign says CENTRE.", ["centre"], "IIIT5K", 1.0),
        ("center", ["centre"], "IIIT5K", 0.0),
        ("center", ["centre", "Center"], "IIIT5K", 1.0),
        ("cen\ntre", ["cen tre"], "IIIT5K", 1.0),
        ("cen tre", ["centre"], "IIIT5K", 0.0),
        ("112", ["12"], "IIIT5K", 1.0),
        ("ＡＢＣ　１２！", ["abc 12!"], "IIIT5K", 1.0),
        ("abc 12!", ["ＡＢＣ　１２！"], "IIIT5K", 1.0),
        ("x ^ { 2 } + 1", ["x^{2}+1"], "HME100k", 1.0),
        ("x ^ { 2 }\n+ 1", ["x ^ {2} + 1"], "HME100k", 1.0),
        ("X ^ { 2 }", ["x^{2}"], "HME100k", 0.0),
        ("x ^ { 2 }", ["x^{2}"], "IIIT5K", 0.0),
        ("１", ["1"], "HME100k", 0.0),
        ("anything", [], "IIIT5K", 0.0),
    ],
)
def test_ocrbench_looks_for_any_reference_inside_the_answer(answer, golds, dataset, expected):
    assert contains_any(answer, golds, dataset) == expected


@pytest.mark.parametrize(
    "answer,gold,expected",
    [
        ("14", "14", 1.0),
        ("14.0", "14", 1.0),
        ("14.7", "14", 1.0),  # at 5 %
        ("14.71", "14", 0.0),
        ("13.3", "14", 1.0),
        ("-14", "14", 0.0),
        (" 14\n", "14", 1.0),  # a number may have space around it
        ("14%", "14%", 1.0),
        ("14%", "14", 0.0),
        ("0.14", "14%", 1.0),
        ("0.57.", "0.57", 0.0),
        ("about 14", "14", 0.0),
        ("0", "0", 1.0),
        ("0.0", "0", 0.0),
        ("0.00001", "0", 0.0),
        ("yes", "Yes", 1.0),
        ("Yes ", "Yes", 0.0),
        ("Yes.", "Yes", 0.0),
        ("No", "Yes", 0.0),
        ("nan", "14", 0.0),
        ("", "14", 0.0),
        ("2008 - 2009", "2008 - 2009", 1.0),
    ],
)
def test_chartqa_is_relaxed_on_numbers_only(answer, gold, expected):
    assert relaxed(answer, gold) == expected


@pytest.mark.parametrize(
    "text,expected",
    [
        ("The Cat", "cat"),
        ("an apple, a pear?", "apple pear"),
        ("Sam's", "sam 's"),
        ("1,000", "1000"),
        ("two", "2"),
        ("none", "0"),
        ("ten o clock", "10 o clock"),
        ("twenty", "twenty"),
        ("dont", "don't"),
        ("couldntve", "couldntve"),
        ("couldnt've", "couldn't've"),
        ("couldn'tve", "couldn't've"),
        ("somebody'd", "somebodyd"),
        ("oclock", "o'clock"),
        ("u.s.a.", "usa"),
        ("3.5", "3.5"),
        ("v.2", "v.2"),
        ("stop.", "stop"),
        ("a-b", "b"),  # the mark becomes a space, and then "a" is an article
        ("x-ray", "x ray"),
        ("x- ray", "x ray"),
        ("x-ray - y-ray", "xray yray"),  # beside a space once, so dropped everywhere
        ("new\nyork\tcity", "new york city"),
        ("." * 40 + "x", "x"),  # published: eight full stops stay
    ],
)
def test_textvqa_processes_text_as_evalai_does(text, expected):
    assert processed(text) == expected


@pytest.mark.parametrize("matching,expected", [(0, 0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1), (10, 1)])
def test_textvqa_leaves_each_of_ten_references_out_once(matching, expected):
    golds = ["The cat."] * matching + [f"other {k}" for k in range(10 - matching)]
    assert vqa_accuracy("cat", golds) == expected


def test_a_lone_reference_scores_nothing_and_none_is_an_error():
    assert vqa_accuracy("cat", ["cat"]) == 0
    with pytest.raises(ValueError, match="needs reference answers"):
        vqa_accuracy("cat", [])


CHOICES = ("3/11", "8/11", "6/11", "3/5")


@pytest.mark.parametrize(
    "answer,expected",
    [
        ("8/11", 1.0),
        ("B", 1.0),
        ("The correct answer is (B) 8/11.", 1.0),
        ("(b)", 1.0),
        ("B. 8/11", 1.0),
        ("**B**", 1.0),
        ("First (A) seems right, but it is (B)", 1.0),
        ("First (B) seems right, but it is (A)", 0.0),
        ('The answer is "8/11". Not (A).', 1.0),
        ("The answer is B because A bar is missing", 1.0),
        ("A bar is shown. Option B", 1.0),
        ("(Z) or B", 1.0),  # no such option
        ("it is 8 / 11", 1.0),  # the nearest by edit distance
        ("", 0.0),
        ("A", 0.0),
        ("(C)", 0.0),
    ],
)
def test_mathvista_takes_the_last_option_named_or_the_nearest(answer, expected):
    assert mathvista_answers.score(answer, "8/11", CHOICES, "multi_choice", "text", None) == expected


def test_mathvista_gives_an_empty_answer_nothing_where_the_shortest_option_is_right():
    assert mathvista_answers.score(" ", "red", ("red", "green"), "multi_choice", "text", None) == 0.0
    assert mathvista_answers.score("rod", "red", ("red", "green"), "multi_choice", "text", None) == 1.0


@pytest.mark.parametrize(
    "answer,gold,answer_type,precision,expected",
    [
        ("14", "14", "integer", None, 1.0),
        ("The number missing in the sequence is 14.", "14", "integer", None, 1.0),
        ("between 3 and 14", "14", "integer", None, 1.0),
        ("14 of 20", "14", "integer", None, 0.0),
        ("14.9", "14", "integer", None, 1.0),  # published: the integer part
        ("1,234 people", "1234", "integer", None, 1.0),
        ("2007-2008", "2008", "integer", None, 1.0),
        ("-5", "-5", "integer", None, 1.0),
        ("it is -5", "-5", "integer", None, 1.0),
        ("it is -5", "5", "integer", None, 0.0),
        ("fourteen", "14", "integer", None, 0.0),
        ("nan", "14", "integer", None, 0.0),
        ("inf", "14", "float", 1.0, 0.0),
        ("", "14", "integer", None, 0.0),
        ("0.6, which means six out of ten", "0.6", "float", 1.0, 1.0),
        ("Luca needs $1.45 to buy a candy.", "1.45", "float", 2.0, 1.0),
        ("1.449", "1.45", "float", 2.0, 1.0),
        ("1.46", "1.45", "float", 2.0, 0.0),
        (".5", "0.5", "float", 1.0, 1.0),
        ("about .5", "0.5", "float", 1.0, 1.0),
        ("2", "2.0", "float", 1.0, 1.0),
        ("2.00", "2.00", "float", 2.0, 0.0),  # published: the texts 2.0 and 2.00 differ
        ("[2007, 2008]", "[2007, 2008]", "list", None, 1.0),
        ("first [1, 2], then [2007,2008].", "[2007, 2008]", "list", None, 1.0),
        ("[2008, 2007]", "[2007, 2008]", "list", None, 0.0),
        ("2007 and 2008", "[2007, 2008]", "list", None, 0.0),
    ],
)
def test_mathvista_takes_the_last_number_or_list(answer, gold, answer_type, precision, expected):
    assert mathvista_answers.score(answer, gold, None, "free_form", answer_type, precision) == expected


def test_mathvista_says_that_its_score_is_not_the_published_one():
    assert "NOT the published number" in mathvista_answers.__doc__
    assert "Not the published number" in mathvista_answers.score.__doc__


@given(st.text(alphabet="ab", max_size=6), st.text(alphabet="ab", max_size=6))
def test_the_edit_distance_is_the_recursive_one(first, second):
    def recursive(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        if a[0] == b[0]:
            return recursive(a[1:], b[1:])
        return 1 + min(recursive(a[1:], b), recursive(a, b[1:]), recursive(a[1:], b[1:]))

    assert edit_distance(first, second) == recursive(first, second)


@given(st.text(max_size=30), st.lists(st.text(max_size=10), min_size=1, max_size=5))
def test_no_answer_raises_and_a_second_call_gives_the_same(answer, golds):
    before = list(golds)

    def all_of_them():
        return [
            letter(answer, ABCD),
            first_character(answer, "A"),
            option_letter(answer, "A"),
            contains_any(answer, golds, "HME100k"),
            contains_any(answer, golds, "IIIT5K"),
            relaxed(answer, golds[0]),
            vqa_accuracy(answer, golds),
            mathvista_answers.score(answer, golds[0], golds, "multi_choice", "text", None),
            mathvista_answers.score(answer, golds[0], None, "free_form", "float", 1.0),
            mathvista_answers.score(answer, golds[0], None, "free_form", "integer", None),
            mathvista_answers.score(answer, golds[0], None, "free_form", "list", None),
        ]

    first = all_of_them()
    assert all_of_them() == first and golds == before
    assert all(value is None or value in ABCD or 0 <= value <= 1 for value in first)
