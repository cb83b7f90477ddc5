"""How far a bonus follows true counts: oracles do so exactly, and ranks are those of a reference."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from offpiste.bonuses.contract.play import QUICK, rooms
from offpiste.bonuses.contract.true_counts import compared, rank_correlation, true_counts
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError

NAME = f"{__name__}:"


class FallsWithTime:
    def __init__(self, options: Any, context: Any) -> None:
        self.observed = 0

    def observe(self, transition: Any) -> float:
        self.observed += 1
        if self.observed > 900:
            raise ZeroDivisionError
        return 1.0 / self.observed

    def state(self) -> dict[str, Any]:
        return {"observed": self.observed}

    def load_state(self, state: dict[str, Any]) -> None:
        self.observed = state["observed"]


def test_ranks_share_their_mean_where_values_are_equal() -> None:
    draws = np.random.default_rng(0)
    for _ in range(20):
        one, other = draws.integers(5, size=40), draws.integers(5, size=40)
        assert rank_correlation(one, other) == pytest.approx(spearmanr(one, other).statistic)
    assert rank_correlation([1, 2, 3], [10, 20, 15]) == pytest.approx(0.5)
    assert math.isnan(rank_correlation([1, 1, 1], [1, 2, 3]))


def test_visits_are_counted_in_the_run_and_in_the_episode() -> None:
    played = rooms(QUICK)[:60]
    run: list[bytes] = []
    expected = []
    for step in played:
        run.append(step.next_state[-1].tobytes())
        expected.append(run.count(run[-1]))
    paid = [count**-0.5 for count in expected]
    assert compared(paid, played, "next_state").lifelong == pytest.approx(1.0)
    assert compared(paid, played, "next_state").episodic < 0.999
    assert compared(paid, played, "state").lifelong < 0.999


@pytest.mark.parametrize(("name", "exact"), [("oracle", "lifelong"), ("oracle_episodic", "episodic")])
def test_an_oracle_follows_the_counts_that_it_pays_for_exactly(name: str, exact: str) -> None:
    found = true_counts(BonusConfig(name), 700)
    assert found.pays_for == "next_state"
    correlations = {"lifelong": found.lifelong, "episodic": found.episodic}
    assert correlations.pop(exact) == pytest.approx(1.0)
    assert max(correlations.values()) < 0.95


def test_what_falls_with_time_alone_does_not_follow_counts_near_in_time() -> None:
    found = true_counts(BonusConfig(NAME + "FallsWithTime"), 500)
    assert found.lifelong > 0.3
    with pytest.raises(ConfigError, match="cannot be held beside counts: observe raised ZeroDivisionError"):
        true_counts(BonusConfig(NAME + "FallsWithTime"), 1_000)
