"""The bootstrap resamples clusters, not inputs."""

import numpy as np
import pytest

from analysis.bootstrap import (
    Effect,
    interval,
    mean_effect,
    over_runs,
    resampled_means,
    resampled_sums,
    student_quantile,
)  # fmt: skip
from analysis.load import clusters
from tests.records import frame, record, side

RNG = np.random.default_rng(5)


def of(values: np.ndarray, clusters: np.ndarray, resamples: int = 10_000) -> tuple[float, float]:
    """The interval of the mean."""
    return interval(resampled_means(values, clusters, resamples=resamples)[:, 0], clusters)


def test_the_interval_holds_the_mean_and_narrows_with_more_clusters():
    values = RNG.normal(3, 1, 400)
    few = of(values[:50], np.arange(50))
    many = of(values, np.arange(400))
    assert few[0] < values[:50].mean() < few[1]
    assert many[1] - many[0] < few[1] - few[0]


def test_copies_within_a_cluster_add_no_certainty():
    values = RNG.normal(0, 1, 40)
    plain = of(values, np.arange(40))
    copied = of(np.repeat(values, 5), np.repeat(np.arange(40), 5))
    assert np.allclose(plain, copied)


def test_the_same_seed_gives_the_same_interval():
    values, clusters = RNG.normal(0, 1, 30), np.arange(30) // 2
    assert np.array_equal(resampled_means(values, clusters, seed=1), resampled_means(values, clusters, seed=1))


def test_missing_values_are_left_out_by_column():
    values = np.array([[1.0, np.nan], [1.0, 2.0], [1.0, 2.0]])
    means = resampled_means(values, np.arange(3), resamples=200)
    assert (means[:, 0] == 1).all()
    assert (means[~np.isnan(means[:, 1]), 1] == 2).all()


def test_the_width_is_that_of_theory_for_independent_inputs():
    values = RNG.normal(0, 1, 1000)
    low, high = of(values, np.arange(1000))
    theory = 2 * 1.96 * values.std() / np.sqrt(1000)
    assert abs((high - low) / theory - 1) < 0.05


def covered(interval_of, clusters: int = 100, sets: int = 1000, resamples: int = 500) -> float:
    """Share of simulated data sets whose interval holds the true mean.

    Ratios are skewed (log-normal), clusters hold one to six of them and share half of the variance.
    """
    rng, hits = np.random.default_rng(0), 0
    for _ in range(sets):
        members = np.repeat(np.arange(clusters), rng.integers(1, 7, clusters))
        ratios = np.exp(rng.normal(0, 0.2, clusters)[members] + rng.normal(0, 0.2, len(members)))
        low, high = interval_of(ratios, members, resamples)
        hits += low < np.exp(0.08 / 2) < high
    return hits / sets


def test_the_interval_covers_the_true_mean_in_93_to_97_percent_of_simulated_data_sets():
    assert 0.93 <= covered(of) <= 0.97


def test_resampling_inputs_instead_of_clusters_would_cover_too_rarely():
    assert covered(lambda values, _, resamples: of(values, np.arange(len(values)), resamples), sets=300) < 0.90


def test_few_clusters_widen_the_interval_as_students_t_does():
    values = RNG.normal(0, 1, 5)
    low, high = of(values, np.arange(5))
    plain = np.quantile(resampled_means(values, np.arange(5))[:, 0], [0.025, 0.975])
    assert low < plain[0] and high > plain[1]


@pytest.mark.parametrize("clusters,known", [(1, False), (4, False), (5, True)])
def test_too_few_clusters_have_no_interval(clusters, known):
    """Resamples of four inputs never leave their range, which an honest interval would."""
    assert np.isfinite(of(RNG.normal(0, 1, 60), np.arange(60) % clusters)).all() == known


@pytest.mark.parametrize(
    "freedom,value", [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (29, 2.0452), (99, 1.9842), (10_000, 1.9602)]
)
def test_students_quantiles_are_those_of_the_tables(freedom, value):
    assert student_quantile(0.975, freedom) == pytest.approx(value, abs=1e-4)


def test_sums_are_resampled_by_whole_clusters():
    sums = resampled_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), resamples=200)[:, 0]
    assert set(sums) == {6.0, 7.0, 8.0}  # twice the first cluster, each once, twice the second


def test_an_effect_is_within_noise_where_its_interval_holds_the_null():
    assert Effect(1.1, 0.9, 1.3, null=1).within_noise
    assert not Effect(1.1, 1.05, 1.3, null=1).within_noise
    assert not Effect(0.8, 0.7, 0.9, null=1).within_noise
    assert Effect(0.01, -0.01, 0.03, null=0).within_noise
    assert Effect(0.01, np.nan, np.nan, null=0).within_noise


def test_an_effect_of_nothing_known_is_not_a_number():
    found = mean_effect(np.array([np.nan, np.nan]), np.arange(2), null=1)
    assert np.isnan(found.mean) and found.within_noise


def test_five_runs_have_students_interval():
    found = over_runs(np.array([1.0, 1.1, 1.2, 1.3, 1.4]), null=1)
    half = 2.7764 * np.std([1.0, 1.1, 1.2, 1.3, 1.4], ddof=1) / np.sqrt(5)
    assert (found.ci_low, found.ci_high) == pytest.approx((1.2 - half, 1.2 + half), abs=1e-4)
    assert not found.within_noise


def test_one_run_has_no_interval():
    with pytest.raises(ValueError, match="at least two, got 1"):
        over_runs(np.array([1.2]), null=1)


def clustered(*pairs: tuple[str, str]) -> list[int]:
    """The clusters of requests given by conversation and image."""
    one = side([1], 1, 1)
    data = frame(*(record(one, one) | {"row": row, "images": image} for row, image in pairs))
    assert data.cluster.tolist() == clusters(data).tolist()
    return data.cluster.tolist()


def test_turns_of_a_conversation_and_questions_to_an_image_are_one_cluster():
    assert clustered(("a", "x"), ("a", "x"), ("b", "x"), ("c", "y")) == [0, 0, 0, 2]


def test_clusters_join_along_a_chain_of_conversations_and_images():
    assert clustered(("a", "x"), ("b", "y"), ("c", "z"), ("b", "x"), ("c", "y")) == [0] * 5


def test_rows_without_an_image_share_nothing():
    assert clustered(("a", ""), ("b", ""), ("a", "")) == [0, 1, 0]
