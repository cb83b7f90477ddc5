"""Verdicts on the small worlds' findings from made-up scores, in worlds where a point is a tenth of the scale."""

from collections.abc import Callable

import numpy as np
import pytest

from offpiste.analysis import findings
from offpiste.analysis.findings import BASELINE, MARGIN, Scores, Verdict
from offpiste.analysis.small_worlds import BONUSES, EASY, FINDINGS, HARD, ORACLE, SMALL_WORLDS, TUNED
from offpiste.worlds.scores import reference_scores
from tests.analysis import fake_worlds

METHODS = (BASELINE, "noisy_nets", *BONUSES, ORACLE)
FINDING = {finding.key.removeprefix("small-"): finding for finding in FINDINGS}
SEEDS = {
    "bonuses-beat-baseline": (5, 7),
    "ranking-does-not-carry-over": (10, 1),
    "no-bonus-beats-baseline-everywhere": (7, 7),
    "bonuses-hurt-on-easy-worlds": (2, 2),
    "noise-costs-bonuses-more": (5, 7),
}
"""Below which a finding cannot be supported, and contradicted."""
Table = dict[str, dict[str, dict[int, float]]]


@pytest.fixture(autouse=True)
def worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_worlds.use(monkeypatch)


def scores_of(seeds: int, effect: Callable[[str, str], float], noise: float = 0.01) -> Table:
    """Return scores in points whose normalised effects are as given, with a little noise."""
    generator = np.random.default_rng(seeds)
    return {
        world: {
            method: {
                seed: reference_scores(world).score_at(effect(world, method) + float(generator.normal(0.0, noise)))
                for seed in range(seeds)
            }
            for method in METHODS
        }
        for world in SMALL_WORLDS.games
    }


def verdict_on(key: str, scores: Scores, margin: float = MARGIN) -> Verdict:
    return findings.judge_one(SMALL_WORLDS, FINDING[key], scores, margin)


def as_stated(world: str, method: str) -> float:
    """All five findings hold, each without doubt."""
    if method not in BONUSES:
        return {BASELINE: 0.8 * (world in EASY), ORACLE: 1.0}.get(method, 0.1)
    rank = BONUSES.index(method)
    if world == TUNED:
        return 1.0 - 0.1 * rank
    if world in EASY:
        return 0.6
    return 0.0 if world == "noisy_tv" else 0.3 + 0.1 * rank


def to_the_contrary(world: str, method: str) -> float:
    """None of them does."""
    if method not in BONUSES:
        return {BASELINE: 0.5 * (world in EASY), ORACLE: 1.0}.get(method, 0.1)
    return 0.7 if world in EASY else 0.15 * BONUSES.index(method)


def test_five_findings_are_stated_and_each_can_be_decided_by_ten_seeds_both_ways() -> None:
    assert {key: (finding.measure or SMALL_WORLDS.measure) for key, finding in FINDING.items()} == {
        key: "area" if key == "bonuses-hurt-on-easy-worlds" else "evaluation" for key in SEEDS
    }
    for effect, expected in ((as_stated, "supported"), (to_the_contrary, "contradicted")):
        scores = scores_of(10, effect)
        found = findings.judge(SMALL_WORLDS, {"evaluation": scores, "area": scores})
        assert {verdict.finding.key: verdict.verdict for verdict in found} == {
            finding.key: expected for finding in FINDINGS
        }


@pytest.mark.parametrize("key", sorted(SEEDS))
def test_the_fewest_seeds_are_those_with_which_a_clear_case_can_be_decided(key: str) -> None:
    part = verdict_on(key, scores_of(10, as_stated)).part
    assert (part.min_seeds_for, part.min_seeds_against) == SEEDS[key]
    for effect, expected, fewest in zip(
        (as_stated, to_the_contrary), ("supported", "contradicted"), SEEDS[key], strict=True
    ):
        assert verdict_on(key, scores_of(fewest, effect)).verdict == expected
        if fewest > 1:
            assert verdict_on(key, scores_of(fewest - 1, effect)).verdict == "not enough evidence"


@pytest.mark.parametrize(
    ("key", "worlds"),
    [
        ("bonuses-beat-baseline", {TUNED}),
        ("ranking-does-not-carry-over", {TUNED, *HARD}),
        ("no-bonus-beats-baseline-everywhere", set(HARD)),
        ("bonuses-hurt-on-easy-worlds", set(EASY)),
        ("noise-costs-bonuses-more", {"four_rooms", "noisy_tv"}),
    ],
)
def test_a_finding_is_about_its_own_worlds_and_no_others(key: str, worlds: set[str]) -> None:
    right = scores_of(10, as_stated)
    others = scores_of(10, lambda world, method: -1.0 * as_stated(world, method))
    mixed = {world: right[world] if world in worlds else others[world] for world in SMALL_WORLDS.games}
    expected, found = verdict_on(key, right), verdict_on(key, mixed)
    assert (found.verdict, found.p_for, found.p_against) == ("supported", expected.p_for, expected.p_against)
    assert {game for games, _ in FINDING[key].needs for game in games} == worlds
    for world in worlds:
        lacking = verdict_on(key, {game: runs for game, runs in right.items() if game != world})
        assert {missing.rpartition(" ")[2] for missing in lacking.missing} == {world}


def test_only_bonuses_are_ranked_for_the_hard_worlds_were_chosen_against_the_baseline() -> None:
    scores = scores_of(10, as_stated)
    without = {
        world: {method: runs for method, runs in found.items() if method in BONUSES} for world, found in scores.items()
    }
    expected, found = (verdict_on("ranking-does-not-carry-over", each) for each in (scores, without))
    assert (found.verdict, found.p_for, found.missing) == ("supported", expected.p_for, ())


def test_the_area_and_not_the_evaluation_says_whether_bonuses_hurt_on_easy_worlds() -> None:
    stated, contrary = scores_of(10, as_stated), scores_of(10, to_the_contrary)
    found = findings.judge(SMALL_WORLDS, {"evaluation": contrary, "area": stated})
    assert {verdict.finding.key for verdict in found if verdict.verdict == "supported"} == {
        "small-bonuses-hurt-on-easy-worlds"
    }


def test_a_gain_within_the_margin_does_not_beat_and_one_beyond_it_does() -> None:
    """0.4 and 0.6 points, where the margin is 0.5."""
    for gain, expected in ((0.04, "contradicted"), (0.06, "supported")):
        scores = scores_of(10, lambda _, method, gain=gain: gain * (method in BONUSES), noise=0.001)  # type: ignore[misc]
        assert verdict_on("bonuses-beat-baseline", scores).verdict == expected


def test_what_moves_cost_in_deep_sea_does_not_hide_the_seeds_that_win() -> None:
    """Six seeds of ten reach the goal; in the other four, ε-greedy fails more cheaply by a hundredth."""
    scores = scores_of(10, lambda *_: 0.0, noise=0.0)
    for bonus in BONUSES:
        scores[TUNED][bonus] = {seed: 12.0 if seed < 6 else 1.9 for seed in range(10)}
    verdict = verdict_on("bonuses-beat-baseline", scores)
    assert verdict.verdict == "supported"
    assert verdict.p_for == pytest.approx(1 / 64)


def test_one_bonus_that_beats_the_baseline_on_every_hard_world_contradicts_that_none_does() -> None:
    def winning_on(*worlds: str) -> Table:
        return scores_of(10, lambda world, method: 1.0 * (method == "icm" and world in worlds))

    every, most = winning_on(*HARD), winning_on(*HARD[:3])
    assert verdict_on("no-bonus-beats-baseline-everywhere", every).verdict == "contradicted"
    assert verdict_on("no-bonus-beats-baseline-everywhere", every).deciding.label.startswith("icm does not beat")
    assert verdict_on("no-bonus-beats-baseline-everywhere", most).verdict == "supported"
    assert verdict_on("no-bonus-beats-baseline-everywhere", most).p_for == pytest.approx(
        4 / 2**10
    )  # the best of four worlds


def test_bonuses_that_each_fail_on_another_world_beat_the_baseline_on_none_of_them_everywhere() -> None:
    """Over all hard worlds together every bonus is far ahead: worlds are not averaged."""
    scores = scores_of(
        10, lambda world, method: float(method in BONUSES and world != HARD[BONUSES.index(method) % len(HARD)])
    )
    assert verdict_on("no-bonus-beats-baseline-everywhere", scores).verdict == "supported"


def test_a_bonus_with_nothing_to_lose_leaves_open_whether_noise_costs_bonuses_more() -> None:
    """CTS scores nothing in either field; all others lose all that they have."""
    scores = scores_of(
        20, lambda world, method: float(method == ORACLE or (world == "four_rooms" and method in BONUSES[1:]))
    )
    verdict = verdict_on("noise-costs-bonuses-more", scores)
    assert verdict.verdict == "not enough evidence"
    assert verdict.deciding.label == "cts loses more than oracle between four_rooms and noisy_tv"


def test_a_bonus_that_keeps_its_score_under_noise_contradicts_that_all_lose_more() -> None:
    def kept(world: str, method: str) -> float:
        return float(method in (ORACLE, "icm") or (world == "four_rooms" and method in BONUSES))

    verdict = verdict_on("noise-costs-bonuses-more", scores_of(10, kept))
    assert verdict.verdict == "contradicted"
    assert verdict.p_against == pytest.approx(6 / 2**10)
    assert verdict.deciding.label.startswith("icm loses more")


def test_losses_are_held_beside_those_of_the_oracle_and_not_beside_nothing() -> None:
    """Every bonus loses half of its score, and the oracle all of its own."""
    scores = scores_of(
        10,
        lambda world, method: (
            {"four_rooms": 1.0, "noisy_tv": 0.5 * (method in BONUSES)}.get(world, 0.0) * (method != BASELINE)
        ),
    )
    assert verdict_on("noise-costs-bonuses-more", scores).verdict == "contradicted"


def test_three_bonuses_that_hurt_and_three_that_help_are_not_bonuses_that_hurt() -> None:
    scores = scores_of(
        20, lambda _, method: {name: (-1.0) ** index for index, name in enumerate(BONUSES)}.get(method, 0)
    )
    assert verdict_on("bonuses-hurt-on-easy-worlds", scores).p_for == 1.0


@pytest.mark.parametrize("steady", ["cts", "simhash"])
def test_a_loss_that_is_as_often_less_as_more_is_seldom_called_more(steady: str) -> None:
    """All other bonuses lose everything; this one's loss jumps around the oracle's. At ten seeds, the edge of level."""
    generator = np.random.default_rng(0)
    clear = scores_of(
        10, lambda world, method: float(method == ORACLE or (world == "four_rooms" and method in BONUSES))
    )
    wrong = 0
    for _ in range(300):
        jumps = generator.choice((0.0, 8.0), 10)
        clear["noisy_tv"][ORACLE] = dict.fromkeys(range(10), 8.0)
        clear["noisy_tv"][steady] = {seed: 4.0 + float(jump) for seed, jump in enumerate(jumps)}
        wrong += verdict_on("noise-costs-bonuses-more", clear).verdict == "supported"
    assert wrong / 300 <= 0.05
