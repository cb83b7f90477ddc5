"""What the runs of Which β? settle, counted by hand: nothing is chosen or judged while a run is missing."""

import pytest

from offpiste.analysis.choice import Point
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.small_worlds import ORACLE
from offpiste.analysis.which_beta_findings import FINDINGS, PRIMARY
from offpiste.analysis.which_beta_progress import Count, answered, choosing, scored_on, scoring, settled
from tests.analysis.which_beta_runs import collect, without_a_run

BY_KEY = {finding.key: finding for finding in FINDINGS}
TODAY = (*PRIMARY["today"], ORACLE, BASELINE)


def better_at_one(method: str, world: str, point: Point) -> float:
    """Bonuses solve hard worlds at k = 1, Deep Sea at 0; without a bonus nothing is solved."""
    if method == BASELINE:
        return 0.0
    return float(point == ((0,) if world == "deep_sea_12" else (1,)))


def test_the_runs_that_choose_are_counted_world_by_world() -> None:
    first = collect(["cts", BASELINE], better_at_one, (), stages=1)
    assert choosing(first, "cts", "wallpaper") == Count(14, 20)  # the second stage is to come
    assert choosing(first, "cts", "rain") == Count(7, 7)
    assert choosing(first, "cts", "deep_sea_12") == Count(35, 35)
    assert choosing(first, BASELINE, "deep_sea_12") == Count(0, 0)  # which chooses nothing for it
    assert choosing(first, BASELINE, "wallpaper") == Count(6, 12)
    lacking = without_a_run(first, "cts", "wallpaper", (2,), 101)
    assert choosing(lacking, "cts", "wallpaper") == Count(13, 20)
    second = collect(["cts"], better_at_one, (), stages=2)
    assert choosing(second, "cts", "wallpaper") == Count(20, 20)
    assert str(Count(1_234, 2_000)) == "1,234 of 2,000 runs are there"


def test_a_constant_is_settled_once_all_runs_are_there_that_choose_it() -> None:
    done = collect(["cts"], better_at_one, (), stages=2)
    assert settled(done, "cts", "wallpaper") == {"transferred": (0,), "one for all": (1,), "own": (1,)}
    lacking = without_a_run(done, "cts", "wallpaper", (2,), 101)
    assert settled(lacking, "cts", "wallpaper") == {"transferred": (0,), "one for all": (1,)}
    assert settled(lacking, "cts", "key_door") == {"transferred": (0,), "own": (1,)}
    rooms = without_a_run(done, "cts", "noisy_tv", (2,), 101)
    assert "one for all" in settled(rooms, "cts", "four_rooms")  # one family, which is left out
    assert "one for all" not in settled(rooms, "cts", "wallpaper")


def test_a_constant_that_was_not_published_waits_for_all_runs_on_deep_sea() -> None:
    done = collect(["cts"], better_at_one, (), stages=2)
    lacking = without_a_run(done, "cts", "deep_sea_12", (2,), 104)
    assert settled(lacking, "cts", "deep_sea_12") == {"transferred": (0,), "one for all": (1,), "own": (0,)}
    unpublished = type(done)(lacking.tables, lacking.points, {})
    assert settled(unpublished, "cts", "deep_sea_12") == {"one for all": (1,)}
    assert settled(type(done)(done.tables, done.points, {}), "cts", "rain")["transferred"] == (0,)


def test_a_setting_that_wins_twice_counts_once() -> None:
    done = collect(["cts"], better_at_one, range(10))
    keys = [("cts", "wallpaper", kind) for kind in ("transferred", "one for all", "own")]
    assert scoring(done, keys, range(10)) == Count(20, 20)  # type: ignore[arg-type]
    assert scoring(done, keys, range(20)) == Count(20, 40)  # type: ignore[arg-type]
    scored = scored_on(done, range(10))
    assert scored["cts", "wallpaper", "own"] == dict.fromkeys(range(10), (1.0, 1.0))
    assert scored["cts", "wallpaper", "transferred"] == dict.fromkeys(range(10), (0.0, 0.0))
    assert not scored_on(done, range(11))


def test_a_finding_is_judged_with_all_of_its_runs_and_not_with_one_less() -> None:
    finding = BY_KEY["own-beats-transferred"]
    done = collect(TODAY, better_at_one, range(20))
    found = answered(done, finding, "today")
    assert found.runs == Count(5 * 4 * 2 * 20, 5 * 4 * 2 * 20)
    assert found.answers == {"own beats transferred": "yes"}
    assert found.hypotheses["own beats transferred"].effect == 1.0
    lacking = answered(without_a_run(done, "rnd", "noisy_tv", (1,), 19), finding, "today")
    assert lacking.runs == Count(799, 800)
    assert (lacking.answers, lacking.hypotheses) == ({}, {})


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.key)
def test_ten_seeds_answer_no_finding(finding: object) -> None:
    ten = collect(TODAY, better_at_one, range(10))
    assert not answered(ten, finding, "today").answers  # type: ignore[arg-type]


def test_with_twenty_seeds_every_finding_about_todays_bonuses_is_answered() -> None:
    done = collect(TODAY, better_at_one, range(20))
    asked = {key: answered(done, finding, "today") for key, finding in BY_KEY.items()}
    assert {key for key, found in asked.items() if not found.answers} == {"episodic-beats-lifelong-on-wallpaper"}
    for key, found in asked.items():
        if found.answers:
            assert len(found.answers) == BY_KEY[key].tests("today")
    assert asked["transferred-beats-baseline"].runs.wanted == (5 + 1) * 3 * 10
