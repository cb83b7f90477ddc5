"""How much time there is, and how much the rest of a study takes."""

import pytest

from offpiste.study.timing import TimeLeft, Walltime


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found = [1_000.0]
    monkeypatch.setattr("offpiste.study.timing.time.monotonic", lambda: found[0])
    return found


@pytest.mark.parametrize(
    ("hours", "starts_until", "saves_at", "slowest"),
    [(10.0, 36_000 - 600, 36_000 - 120, 0.0), (10.0, 36_000 - 600, 36_000 - 600, 200.0), (0.01, 32.4, 27.0, 0.0)],
)
def test_a_driver_ends_in_time_for_its_checkpoints(
    hours: float, starts_until: float, saves_at: float, slowest: float, now: list[float]
) -> None:
    walltime = Walltime(hours)
    for moment, happens in ((starts_until, walltime.may_start), (saves_at, lambda: not walltime.is_up(slowest))):
        now[0] = 1_000.0 + moment - 0.1
        assert happens()
        now[0] = 1_000.0 + moment + 0.1
        assert not happens()


def test_without_a_limit_time_is_never_up() -> None:
    walltime = Walltime(None)
    assert walltime.may_start()
    assert not walltime.is_up(1e9)


def test_the_time_left_counts_runs_in_flight_but_not_what_was_there_before(now: list[float]) -> None:
    left = TimeLeft({"a": 400, "b": 400, "c": 400}, {"c": 200})
    found = []
    for minute, done, rest, in_flight in (
        (1, "", "abc", {"c": 300, "a": 200}),
        (2, "", "abc", {"c": 350, "a": 350}),
        (3, "ac", "b", {"b": 50}),
        (6, "ac", "b", {"b": 250}),
        (8, "abc", "", {}),
    ):
        now[0] = 1_000.0 + 60.0 * minute
        found.append(left.text(done, rest, in_flight))
    assert found == [*(f"; about {minutes} min left" for minutes in (2, 2, 2, 2)), ""]


@pytest.mark.parametrize(("frames", "expected"), [([200, 210], "19"), ([200, 200], "2"), ([100, 300], "1")])
def test_a_run_that_is_slow_after_its_warm_up_takes_as_long_as_it_will_at_this_rate(
    frames: list[int], expected: str, now: list[float]
) -> None:
    left = TimeLeft({"a": 400}, {})
    for minute, at in enumerate(frames, start=1):
        now[0] = 1_000.0 + 60.0 * minute
        text = left.text("", "a", {"a": at})
    assert text == f"; about {expected} min left"


def test_days_are_told_in_hours(now: list[float]) -> None:
    left = TimeLeft({"a": 10**6}, {})
    now[0] += 3_600.0
    assert left.text("", "a", {"a": 10_000}) == "; about 99 h left"
