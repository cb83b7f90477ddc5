"""The findings of Which β? on seeds that can be counted by hand."""

from collections.abc import Collection

import pytest

from offpiste.analysis.findings import BASELINE
from offpiste.analysis.small_worlds import EASY, HARD
from offpiste.analysis.which_beta import Runs
from offpiste.analysis.which_beta_findings import (
    ALL_SEEDS,
    FINDINGS,
    NEEDS_DEPTH,
    NEW_SEEDS,
    ON_INVERSE_DYNAMICS,
    PRIMARY,
    WITHIN_EPISODES,
    Scored,
    gains,
    judge,
)
from offpiste.bonuses.registry import find
from offpiste.methods import METHODS

BY_KEY = {finding.key: finding for finding in FINDINGS}
TEN = range(10)


def runs(*scores: float, area: float = 0.0) -> Runs:
    return {seed: (score, area) for seed, score in enumerate(scores)}


def every(methods: Collection[str], worlds: Collection[str], how: str, own: Runs) -> Scored:
    return {(method, world, how): own for method in methods for world in worlds}  # type: ignore[misc]


def joined(*parts: Scored) -> Scored:
    return {key: own for part in parts for key, own in part.items()}


def test_the_families_are_disjoint_and_what_is_said_of_their_bonuses_is_so() -> None:
    today, later = (set(bonuses) for bonuses in PRIMARY.values())
    assert not today & later
    assert set(ON_INVERSE_DYNAMICS) | set(WITHIN_EPISODES) <= today | later
    scopes = {name: getattr(find(name), "scope", "lifelong") for name in today | later if name in METHODS}
    assert {name for name, scope in scopes.items() if scope != "lifelong"} == set(WITHIN_EPISODES) & set(METHODS)


def test_what_was_known_beforehand_is_judged_by_new_seeds_alone() -> None:
    known = {"transferred-beats-baseline", "easy-worlds-cost-little"}
    assert {key for key, finding in BY_KEY.items() if finding.seeds == NEW_SEEDS} == known
    assert {finding.seeds for key, finding in BY_KEY.items() if key not in known} == {ALL_SEEDS}


def test_a_bonus_beats_the_baseline_over_three_worlds_and_is_corrected_for_its_family() -> None:
    baseline = every((BASELINE,), NEEDS_DEPTH, "default", runs(*[0.0] * 10))
    better = every(("cts",), NEEDS_DEPTH, "transferred", runs(*[1.0] * 7, *[0.0] * 3))  # p = 2**-7
    worse = every(("rnd",), NEEDS_DEPTH, "transferred", runs(*[-1.0] * 10))
    mixed = joined(
        every(("icm",), NEEDS_DEPTH[:2], "transferred", runs(*[1.0] * 10)),
        every(("icm",), NEEDS_DEPTH[2:], "transferred", runs(*[-2.0] * 10)),
    )
    incomplete = every(("simhash",), NEEDS_DEPTH[:2], "transferred", runs(*[1.0] * 10))
    scored = joined(baseline, better, worse, mixed, incomplete)
    assert judge(BY_KEY["transferred-beats-baseline"], scored, "today", TEN) == {
        "cts beats ε-greedy": "yes",
        "icm beats ε-greedy": "inconclusive",
        "rnd beats ε-greedy": "no",
    }
    six = joined(scored, every(("cts",), NEEDS_DEPTH, "transferred", runs(*[1.0] * 6, *[0.0] * 4)))
    # p = 2**-6 = 0.016: of five tests, though two have no runs yet, it would have to be 0.01
    assert judge(BY_KEY["transferred-beats-baseline"], six, "today", TEN)["cts beats ε-greedy"] == "inconclusive"


def test_own_beats_transferred_by_the_mean_over_all_bonuses_and_hard_worlds() -> None:
    gains = joined(
        every(PRIMARY["today"], HARD, "transferred", runs(*[0.0] * 10)),
        every(PRIMARY["today"], HARD, "own", runs(*[0.1] * 10)),
    )
    finding = BY_KEY["own-beats-transferred"]
    assert judge(finding, gains, "today", TEN) == {"own beats transferred": "yes"}
    one_loses = joined(gains, every(("icm",), HARD, "own", runs(*[-0.6] * 10)))
    assert judge(finding, one_loses, "today", TEN) == {"own beats transferred": "no"}
    without = {key: own for key, own in gains.items() if key != ("icm", "wallpaper", "own")}
    assert judge(finding, without, "today", TEN) == {}


def test_noise_is_asked_of_bonuses_on_appearance_with_the_oracle_beside_them() -> None:
    solved, lost = runs(*[1.0] * 9, 0.0), runs(*[0.49] * 9, 0.0)
    scored = joined(
        every(("cts", "icm", "oracle"), ("blank_tv",), "own", solved),
        every(("cts", "icm"), ("noisy_tv",), "own", lost),
        every(("oracle",), ("noisy_tv",), "own", runs(*[0.9] * 10)),
    )
    finding = BY_KEY["noise-blinds"]
    (hypothesis,) = finding.hypotheses(scored, "today", TEN)
    assert [hypothesis.effect, hypothesis.p_for, hypothesis.beside] == pytest.approx([0.9, 2**-9, 0.0])
    assert judge(finding, scored, "today", TEN) == {"cts solves blank_tv more often than noisy_tv": "yes"}
    without_oracle = {key: own for key, own in scored.items() if key[0] != "oracle"}
    assert judge(finding, without_oracle, "today", TEN) == {}


def test_passive_noise_is_asked_of_bonuses_on_inverse_dynamics() -> None:
    scored = joined(
        every(("icm", "cts"), ("noisy_tv_passive",), "own", runs(*[1.0] * 5, *[0.0] * 5)),
        every(("icm", "cts"), ("noisy_tv",), "own", runs(*[0.0] * 10)),
    )
    assert judge(BY_KEY["passive-noise-harms-less"], scored, "today", TEN) == {
        "passive noise harms less than noise on demand": "yes"  # 2**-5
    }


def test_each_easy_world_is_judged_by_itself_at_the_margin() -> None:
    scored = joined(
        every((BASELINE,), EASY, "default", runs(*[1.0] * 10, area=0.5)),
        every(("cts",), ("museum",), "transferred", runs(*[0.0] * 10, area=0.46)),
        every(("rnd",), ("museum",), "transferred", runs(*[1.0] * 10, area=0.40)),
        every(("rnd",), ("catch",), "transferred", runs(*[1.0] * 10, area=0.45)),
    )
    assert judge(BY_KEY["easy-worlds-cost-little"], scored, "today", TEN) == {
        "cts lowers the area on museum by less than 0.05": "yes",
        "rnd lowers the area on museum by less than 0.05": "no",
        "rnd lowers the area on catch by less than 0.05": "inconclusive",
    }


def test_episodic_bonuses_are_held_beside_lifelong_ones_once_all_are_there() -> None:
    scored = joined(
        every(PRIMARY["today"], ("wallpaper",), "own", runs(*[0.4] * 10)),
        every(PRIMARY["later"], ("wallpaper",), "own", runs(*[0.5] * 10)),
    )
    finding = BY_KEY["episodic-beats-lifelong-on-wallpaper"]
    assert judge(finding, scored, "later", TEN) == {"episodic bonuses beat lifelong ones": "yes"}
    assert judge(finding, scored, "today", TEN) == {}


def test_a_bonus_gains_in_a_world_where_it_alone_solves_seeds_and_does_not_where_a_quarter_is_excluded() -> None:
    world, seeds = "noisy_tv", range(20)
    scored = joined(
        every((BASELINE,), (world,), "default", runs(*[0.0] * 18, 1.0, 1.0)),
        every(("cts",), (world,), "own", runs(*[1.0] * 8, *[0.0] * 12)),  # alone in 8, the other in 2: 0.055
        every(("rnd",), (world,), "own", runs(*[1.0] * 9, *[0.0] * 9, 1.0, 1.0)),  # alone in 9: 0.002
        every(("icm",), (world,), "own", runs(*[0.0] * 20)),  # 0.003
        every(("simhash",), (world,), "own", runs(1.0, *[0.0] * 19)),  # alone in 1: 0.024
    )
    expected = {"cts": "inconclusive", "icm": "no", "rnd": "yes", "simhash": "inconclusive"}
    assert gains(scored, "today", world, "own", seeds) == expected
    assert gains(scored, "today", world, "own", range(10))["icm"] == "inconclusive"
    assert gains(scored, "today", world, "transferred", seeds) == {}
