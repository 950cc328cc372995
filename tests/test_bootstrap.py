"""The bootstrap resamples clusters, not inputs."""

import numpy as np

from analysis.bootstrap import interval, resampled_means

RNG = np.random.default_rng(5)


def test_the_interval_holds_the_mean_and_narrows_with_more_clusters():
    values = RNG.normal(3, 1, 400)
    few = interval(resampled_means(values[:50], np.arange(50))[:, 0])
    many = interval(resampled_means(values, np.arange(400))[:, 0])
    assert few[0] < values[:50].mean() < few[1]
    assert many[1] - many[0] < few[1] - few[0]


def test_copies_within_a_cluster_add_no_certainty():
    values = RNG.normal(0, 1, 40)
    plain = interval(resampled_means(values, np.arange(40))[:, 0])
    copied = interval(resampled_means(np.repeat(values, 5), np.repeat(np.arange(40), 5))[:, 0])
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
    low, high = interval(resampled_means(values, np.arange(1000))[:, 0])
    theory = 2 * 1.96 * values.std() / np.sqrt(1000)
    assert abs((high - low) / theory - 1) < 0.05
