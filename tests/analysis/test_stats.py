"""Statistics against cases worked by hand, scipy, every possibility tried out, and rliable."""

import math
from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle

from offpiste.analysis import stats
from offpiste.analysis.stats import Array

scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=12).map(np.array)


def test_the_iqm_leaves_out_the_lowest_and_the_highest_quarter_of_all_runs() -> None:
    assert stats.iqm([np.array([0.0, 1.0, 2.0, 100.0]), np.array([-50.0, 3.0, 4.0, 5.0])]) == 2.5


def test_the_median_is_that_of_the_means_of_games() -> None:
    assert stats.median_of_means([np.array([0.0, 2.0]), np.array([5.0, 5.0]), np.array([9.0, 0.0])]) == 4.5


def test_the_optimality_gap_does_not_count_what_lies_above_the_target() -> None:
    assert stats.optimality_gap([np.array([0.5, 9.0])]) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("seed", "shape", "iqm", "gap", "median"),
    [
        (0, (5, 12), 0.7358489008209961, 0.36913096171591997, 0.7369301347931461),
        (1, (3, 7), 0.7624451812650495, 0.3055932573088732, 0.7889165967162323),
        (2, (10, 26), 0.6876337010159076, 0.42817874342612705, 0.6236546946807503),
    ],
)
def test_aggregates_equal_those_of_rliable(
    seed: int, shape: tuple[int, int], iqm: float, gap: float, median: float
) -> None:
    """The numbers are those of rliable 1.2.0 beside numpy 2.4.6, scipy 1.17.1 and pandas 2.3.3.

    It does not import beside pandas 3, so they were computed once in an environment of their own:
    `metrics.aggregate_iqm(runs)`, `aggregate_optimality_gap(runs)` and `aggregate_median(runs)` with the array below,
    [runs, games].
    """
    runs = np.random.default_rng(seed).normal(0.7, 0.6, size=shape)
    games = list(runs.T)
    assert stats.iqm(games) == pytest.approx(iqm, abs=1e-12)
    assert stats.optimality_gap(games) == pytest.approx(gap, abs=1e-12)
    assert stats.median_of_means(games) == pytest.approx(median, abs=1e-12)


def test_each_game_counts_alike_in_the_gain_whatever_its_number_of_runs() -> None:
    first = [np.array([1.0]), np.zeros(5)]
    second = [np.array([0.0]), np.ones(7)]
    assert stats.mean_gain(first, second) == 0.0


def test_a_performance_profile_is_the_share_of_runs_above_each_threshold() -> None:
    profile = stats.performance_profile([np.array([0.0, 1.0]), np.array([2.0, 3.0])], np.array([-1.0, 0.0, 2.5]))
    assert profile.tolist() == [1.0, 0.75, 0.25]


@pytest.mark.parametrize(
    "statistic", [stats.iqm, stats.median_of_means, stats.optimality_gap], ids=lambda function: function.__name__
)
def test_a_statistic_of_resamples_is_that_of_each_resample(statistic: Callable[[stats.Groups], Array]) -> None:
    generator = np.random.default_rng(3)
    drawn = [generator.normal(size=(4, 5)), generator.normal(size=(4, 3))]
    one_by_one = [statistic([group[i] for group in drawn]) for i in range(4)]
    np.testing.assert_allclose(statistic(drawn), one_by_one)


def test_a_bootstrap_draws_within_each_game() -> None:
    """Were runs drawn across games, the mean would not always be 5."""
    groups = [np.zeros(4), np.full(4, 10.0)]
    interval = stats.bootstrap(groups, lambda drawn: np.mean([g.mean(axis=-1) for g in drawn], axis=0), _generator())
    assert (interval.low, interval.high) == (5.0, 5.0)


def test_a_bootstrap_of_two_runs_is_that_of_their_four_resamples() -> None:
    """Means of 0, ½ and 1 with chances ¼, ½, ¼: half of the mass lies within 0 to 1, all quantiles at its ends."""
    interval = stats.bootstrap([np.array([0.0, 1.0])], lambda drawn: drawn[0].mean(axis=-1), _generator())
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_a_bootstrap_follows_its_generator_alone() -> None:
    groups = [np.arange(7.0), np.arange(5.0)]
    first, again, other = (stats.bootstrap(groups, stats.iqm, _generator(seed)) for seed in (0, 0, 1))
    assert first == again != other


def test_a_band_surrounds_the_mean_curve_and_leaves_out_seeds_that_have_not_come_so_far() -> None:
    curves = np.array([[0.0, 1.0, 4.0], [2.0, 3.0, np.nan], [4.0, 2.0, np.nan]])
    band = stats.curve_band(curves, _generator())
    means = [2.0, 2.0, 4.0]
    assert (band[0] <= means).all()
    assert (means <= band[1]).all()
    assert band[:, 2].tolist() == [4.0, 4.0]


@given(st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_of_a_proportion_is_clopper_and_pearsons(counts: tuple[int, int]) -> None:
    expected = oracle.binomtest(*counts).proportion_ci(method="exact")
    found = stats.proportion_interval(*counts)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_the_share_above_a_level_is_strict() -> None:
    share, interval = stats.above(np.array([0.0, 0.0, 2436.0, 0.0, 0.0]), 0.0)
    assert share == 0.2
    assert (interval.low, interval.high) == pytest.approx((0.00505, 0.71642), abs=1e-5)


def test_six_values_give_the_interval_of_a_median_and_five_do_not() -> None:
    """Six values all lie on one side of their median with a chance of 2 / 2**6 = 3.1%, five with one of 6.3%."""
    found = stats.median_interval(np.array([5.0, 1.0, 4.0, 2.0, 6.0, 3.0]))
    assert found == stats.Interval(1.0, 6.0)
    assert stats.median_interval(np.arange(5.0)) is None
    assert stats.median_interval(np.array([])) is None


@given(st.integers(6, 40))
def test_the_interval_of_a_median_is_the_narrowest_whose_binomial_chance_is_enough(count: int) -> None:
    found = stats.median_interval(np.arange(1.0, count + 1))
    assert found is not None
    outside = int(found.low)  # as many values at the low end or below it
    assert 2 * oracle.binom.cdf(outside - 1, count, 0.5) <= 0.05 < 2 * oracle.binom.cdf(outside, count, 0.5)
    assert found.high == count + 1 - found.low


def test_five_wins_of_five_are_significant_and_four_are_not() -> None:
    five, four = (stats.compare([np.array([1.0, 2.0, 3.0, 4.0, last])], 0.5) for last in (5.0, -5.0))
    assert five.p_better == 1 / 32
    assert four.p_better == 6 / 32
    assert four.p_worse == 31 / 32
    assert four.difference == 2.0
    assert (five.probability, four.probability) == (1.0, 0.8)


def test_ties_are_left_out_within_a_game_and_count_against_over_several() -> None:
    wins_and_ties = np.array([1.0] * 5 + [0.0] * 5)
    assert stats.compare([wins_and_ties], 0.5).p_better == 1 / 32
    halves = stats.compare([wins_and_ties[:5], wins_and_ties[5:]], 0.5)
    assert halves.p_better == pytest.approx(oracle.binom.sf(4, 10, 0.5))


def test_differences_within_the_margin_show_that_neither_is_better() -> None:
    found = stats.compare([np.array([0.01, -0.02, 0.03, -0.04, 0.02])], 0.05)
    assert (found.p_not_better, found.p_not_worse) == (1 / 32, 1 / 32)
    at_the_margin = stats.compare([np.full(5, 0.05)], 0.05)
    assert at_the_margin.p_not_better == 1.0


def test_the_interval_of_the_improvement_takes_ties_for_the_worse_at_either_end() -> None:
    found = stats.compare([np.array([1.0, 0.0, 0.0, -1.0])], 0.05).probability_interval
    assert found.low == stats.proportion_interval(1, 4).low
    assert found.high == stats.proportion_interval(3, 4).high


def test_no_pairs_give_no_evidence() -> None:
    found = stats.compare([np.array([])], 0.05)
    assert (found.pairs, found.p_better, found.p_worse, found.p_not_better, found.p_not_worse) == (0, 1, 1, 1, 1)
    assert math.isnan(found.probability)
    assert math.isnan(found.difference)
    assert found.difference_interval is None


@given(scores)
def test_exchanging_the_two_methods_exchanges_the_p_values(differences: Array) -> None:
    found, turned = stats.compare([differences], 1.5), stats.compare([-differences], 1.5)
    assert (found.p_better, found.p_not_better) == (turned.p_worse, turned.p_not_worse)
    assert found.probability == pytest.approx(1 - turned.probability)


def test_a_two_valued_rival_never_makes_the_sign_test_reject_too_often() -> None:
    """The other method is a step above or below with equal chance: neither is better. All 2**n outcomes are tried."""
    for count in (3, 5, 8, 10):
        outcomes = [np.array(signs) for signs in product((-1.0, 1.0), repeat=count)]
        rejected = sum(stats.compare([signs], 0.5).p_better <= 0.05 for signs in outcomes)
        assert rejected / len(outcomes) <= 0.05


def test_a_sum_over_unlike_games_never_rejects_too_often_on_average() -> None:
    """One game is nearly always won, another nearly always lost, and half of all on average."""
    chances = np.array([0.95] * 5 + [0.05] * 5 + [0.5] * 5)
    counts = np.ones(1)
    for chance in chances:
        counts = np.convolve(counts, [1 - chance, chance])
    wins = np.arange(counts.size)
    groups = [[np.where(np.arange(15) < number, 1.0, -1.0)[i::3] for i in range(3)] for number in wins]
    rejected = np.array([stats.compare(group, 0.5).p_better <= 0.05 for group in groups])
    assert 0.0 < counts[rejected].sum() <= 0.05


@given(scores)
def test_all_equal_scores_are_never_significant(values: Array) -> None:
    same = np.full(values.size, values[0])
    found = stats.compare([same - same], 0.05)
    assert (found.p_better, found.p_worse) == (1.0, 1.0)


@given(scores)
def test_doubled_ranks_are_twice_the_ranks(values: Array) -> None:
    np.testing.assert_array_equal(stats.doubled_ranks(values), 2 * oracle.rankdata(values))


def test_rows_are_ranked_and_correlated_each_for_itself() -> None:
    generator = _generator()
    rows, others = (generator.integers(6, size=size).astype(float) for size in ((7, 5), (3, 7, 5)))
    np.testing.assert_array_equal(stats.doubled_ranks(rows), 2 * oracle.rankdata(rows, axis=1))
    one_by_one = [stats.mean_spearman(rows[row], others[:, row]) for row in range(7)]
    np.testing.assert_allclose(stats.mean_spearman(rows, others), one_by_one, rtol=1e-12)
    runs = [rows[:, :2], rows[:, 2:]]
    one_by_one = [stats.mean_ranks([run[row] for run in runs]) for row in range(7)]
    np.testing.assert_array_equal(stats.mean_ranks(runs), one_by_one)


def test_the_rank_correlation_is_spearmans_and_its_p_value_that_of_all_120_orders() -> None:
    generator = _generator()
    ranks, others = generator.normal(size=5), generator.normal(size=(2, 5)).round(0)

    def mean_spearman(order: tuple[int, ...]) -> float:
        return float(np.mean([oracle.spearmanr(ranks[list(order)], other).statistic for other in others]))

    every = np.array([mean_spearman(order) for order in permutations(range(5))])
    value, greater = stats.rank_correlation(ranks, others)
    assert value == pytest.approx(every[0])
    assert stats.mean_spearman(ranks, others) == value
    assert greater == pytest.approx((every >= every[0] - 1e-9).mean())


def test_the_same_ranking_in_six_games_has_the_least_p_value_there_is() -> None:
    found = stats.rank_correlation(np.arange(6.0), np.tile(np.arange(6.0), (6, 1)))
    assert found == pytest.approx((1.0, 1 / 720))


def test_methods_that_are_all_equal_have_no_rank_correlation() -> None:
    assert stats.rank_correlation(np.zeros(6), np.tile(np.arange(6.0), (6, 1))) == (0.0, 1.0)


def test_mean_ranks_are_over_all_runs_of_a_game() -> None:
    assert stats.mean_ranks([np.array([1.0, 9.0]), np.array([5.0, 5.0])]).tolist() == [2.5, 2.5]
    assert stats.mean_ranks([np.array([0.0]), np.array([3.0, 2.0])]).tolist() == [1.0, 2.5]


@pytest.mark.parametrize("probability", [0.7, 0.8, 0.95])
@pytest.mark.parametrize("comparisons", [1, 4])
def test_the_seeds_needed_are_the_fewest_with_that_power(probability: float, comparisons: int) -> None:
    def power(seeds: int) -> float:
        critical = next(k for k in range(seeds + 2) if oracle.binom.sf(k - 1, seeds, 0.5) <= 0.05 / comparisons)
        return float(oracle.binom.sf(critical - 1, seeds, probability))

    found = stats.seeds_needed(probability, comparisons)
    assert found is not None
    assert power(found) >= 0.8
    assert all(power(seeds) < 0.8 for seeds in range(1, found))


def test_no_number_of_seeds_shows_that_equal_methods_differ() -> None:
    assert stats.seeds_needed(0.5, most=300) is None


def test_fewer_seeds_than_the_fewest_show_nothing() -> None:
    """Five wins have a chance of 1/32, four of 1/16; shared by four tests, it takes seven."""
    assert stats.min_seeds() == 5
    assert stats.min_seeds(4) == 7
    assert stats.min_seeds(1, games=5) == 1


def test_raising_all_runs_by_more_than_their_spread_is_a_sure_improvement() -> None:
    runs = np.array([0.0, 0.0, 2436.0, 0.0, 0.0])
    assert stats.improvement_after(runs, 0.0) == 0.5
    assert stats.improvement_after(runs, 1.0) == 0.8  # of 20 pairs, those with the one run above lose
    assert stats.improvement_after(runs, 3000.0) == 1.0
    assert math.isnan(stats.improvement_after(runs[:1], 1.0))


def _generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("successes", [0, 3, 10])
def test_the_interval_of_a_mean_of_zeros_and_ones_is_that_of_clopper_and_pearson(successes: int) -> None:
    values = np.array([1.0] * successes + [0.0] * (10 - successes))
    found = stats.mean_interval(values, np.random.default_rng(0), draws=40_000)
    exact = stats.proportion_interval(successes, 10)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.01)


def test_the_interval_of_a_mean_holds_the_mean_also_of_values_below_nothing() -> None:
    found = stats.mean_interval(np.array([-0.3, -0.2, -0.25]), np.random.default_rng(0))
    assert found.low < -0.25 < found.high
