"""The generated benchmark: parts, reproducibility, pictures and the scorer."""

import numpy as np
import pytest

from runners.benches.base import Row
from runners.benches.generated.pictures import KINDS, PARTS, Sign, draw_picture, part_of, part_of_key, render
from runners.benches.generated.talk import FACT, TURNS, WRITERS, draw_turn, fact_score, facts_in
from runners.benches.synthetic import Synthetic

SIZES = {"chart": (168, 84), "sign": (168, 84), "grid": (84, 84)}


def facts(part: str, n: int, seed: int = 0) -> set[str]:
    return {picture.facts() for picture, _, _ in Synthetic(seed=seed, part=part).samples(n)}


def key(row: Row) -> tuple:
    return row.id, row.category, row.turns, row.references, row.open_images()[0].tobytes()


def test_parts_never_share_a_picture_under_any_seed():
    drawn = {part: facts(part, 1500, seed=0) | facts(part, 1500, seed=7) for part in PARTS}
    assert not drawn["train"] & drawn["scored"]
    assert not drawn["train"] & drawn["warmup"]
    assert not drawn["warmup"] & drawn["scored"]


@pytest.mark.parametrize("part", PARTS)
def test_every_picture_belongs_to_its_part_by_its_facts(part):
    assert all(part_of(picture) == part for picture, _, _ in Synthetic(part=part).samples(300))


def test_a_signs_part_hangs_on_its_number_alone():
    numbers = {p.number for p, _, _ in Synthetic(part="scored").samples(600) if isinstance(p, Sign)}
    assert all(part_of_key(number) == "scored" for number in numbers)
    trained = {p.number for p, _, _ in Synthetic(part="train").samples(3000) if isinstance(p, Sign)}
    assert not numbers & trained


def test_numbers_in_questions_are_of_the_same_part_as_the_sign():
    rng = np.random.default_rng(0)
    check = next(w for w in WRITERS["sign"] if w.__name__ == "check")
    for part in PARTS:
        for _ in range(60):
            question = draw_turn(draw_picture(rng, part, "sign"), rng, check).question
            number = "".join(c for c in question if c.isdigit())
            assert part_of_key(number) == part


def test_rows_are_reproducible_from_the_seed():
    assert [key(r) for r in Synthetic(seed=3).rows(40)] == [key(r) for r in Synthetic(seed=3).rows(40)]
    assert [r.turns for r in Synthetic(seed=3).rows(40)] != [r.turns for r in Synthetic(seed=4).rows(40)]


def test_a_row_does_not_depend_on_the_number_of_rows():
    assert [key(r) for r in Synthetic(n=20).rows()] == [key(r) for r in Synthetic(n=200).rows(20)]


def test_no_picture_occurs_twice_and_ids_are_unique():
    rows = list(Synthetic(n=1000).rows())
    assert len(rows) == len({row.id for row in rows}) == 1000
    assert rows[17].id == "synthetic-000017"
    assert len(facts("scored", 1000)) == 1000


def test_limit_and_length_count_rows():
    bench = Synthetic(n=12)
    assert len(bench) == 12
    assert len(list(bench.rows())) == 12
    assert len(list(bench.rows(5))) == 5
    assert len(list(bench.rows(50))) == 12


def test_images_are_rgb_and_of_the_right_size():
    for row in Synthetic().rows(60):
        (image,) = row.open_images()
        assert image.mode == "RGB"
        assert image.size == SIZES[row.category]


def test_different_facts_give_different_images():
    rng = np.random.default_rng(0)
    for kind in KINDS:
        images = {render(draw_picture(rng, "train", kind), seed=0).tobytes() for _ in range(50)}
        assert len(images) >= 49


def test_most_rows_have_one_turn_and_none_more_than_three():
    turns = np.array([len(row.turns) for row in Synthetic().rows()])
    assert set(turns) == {1, 2, 3}
    assert abs((turns == 1).mean() - TURNS[0]) < 0.05


def test_references_score_one():
    bench = Synthetic()
    for row in bench.rows(300):
        assert all(bench.score(row, k, reference) == 1.0 for k, reference in enumerate(row.references))


def test_one_wrong_fact_scores_less_than_one():
    bench = Synthetic()
    for row in bench.rows(300):
        wrong = FACT.sub("Q", row.references[0], count=1)
        assert 0 < bench.score(row, 0, wrong) < 1.0


def test_a_fact_said_twice_or_left_out_scores_less_than_one():
    assert fact_score("a red bar at B with 3", "a red bar at B with 3 and 3") == pytest.approx(3 / 4)
    assert fact_score("a red bar at B with 3", "a red bar with 3") == pytest.approx(2 / 3)
    assert fact_score("the number 4821 and TAXI", "the number 4821 and TAXY") == pytest.approx(4 / 5)


def test_phrasing_does_not_count():
    assert fact_score("There is a red bar at B.", "red, B") == 1.0


def test_empty_and_word_dump_answers_score_almost_nothing():
    bench = Synthetic()
    rows = list(bench.rows(100))
    dump = " ".join(sorted({fact for row in rows for text in row.references for fact in facts_in(text)})) + " "
    for row in rows:
        assert bench.score(row, 0, "") == 0.0
        assert bench.score(row, 0, "There is a picture.") == 0.0
        assert bench.score(row, 0, dump) < 0.2
        assert bench.score(row, 0, dump * 20) < 0.05


def test_an_answer_about_another_picture_scores_much_less():
    rng = np.random.default_rng(0)
    scores = []
    for kind in KINDS:
        for writer in WRITERS[kind]:
            for style in range(3):
                one, other = (writer(draw_picture(rng, "scored", kind), style, rng)[1] for _ in range(2))
                scores.append(fact_score(one, other))
    assert np.mean(scores) < 0.65


def test_questions_ask_for_names_and_opening_words_that_answers_copy():
    rows = list(Synthetic().rows())
    pairs = [pair for row in rows for pair in zip(row.turns, row.references, strict=True)]
    opened = [(q, a) for q, a in pairs if "Start your answer with: " in q]
    assert 0.1 < len(opened) / len(pairs) < 0.3
    for question, answer in opened:
        opener = question.split("Start your answer with: ")[1].rstrip(".")
        assert answer.startswith(f"{opener}: ")


def test_wrong_settings_say_what_is_allowed():
    with pytest.raises(ValueError, match="scored, warmup, train"):
        Synthetic(part="test")
    with pytest.raises(ValueError, match=r"bench\.n"):
        Synthetic(n=0)
