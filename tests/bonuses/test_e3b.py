"""E3B against cases worked by hand from φᵀC⁻¹φ and against an inverse by brute force."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from offpiste.bonuses.base import Transition
from offpiste.bonuses.e3b import E3b, E3bOptions, Ellipse
from offpiste.bonuses.registry import options_of
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from tests.bonuses.played import PLAYED, made

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # as in a run
EAST, NORTH = np.array([1.0, 0.0]), np.array([0.0, 1.0])


def test_two_orthogonal_vectors_and_a_revisit_are_as_computed_by_hand() -> None:
    ellipse = Ellipse(2)
    ellipse.clear(0.1)
    # C is 0.1·I, then diag(1.1, 0.1), then diag(2.1, 0.1), then diag(2.1, 1.1).
    assert [ellipse.add(phi) for phi in (EAST, EAST, NORTH, EAST)] == pytest.approx([10, 1 / 1.1, 10, 1 / 2.1])
    # Then diag(3.1, 1.1); half of each direction.
    assert ellipse.add((EAST + NORTH) / 2) == pytest.approx(0.25 / 3.1 + 0.25 / 1.1)


def test_the_updated_inverse_is_that_of_the_matrix() -> None:
    draws = np.random.default_rng(0)
    ellipse, matrix = Ellipse(16), 0.3 * np.eye(16)
    ellipse.clear(0.3)
    for phi in draws.normal(size=(60, 16)):
        expected = phi @ np.linalg.inv(matrix) @ phi
        assert ellipse.add(phi) == pytest.approx(expected, rel=1e-10)
        matrix += np.outer(phi, phi)
    np.testing.assert_allclose(ellipse.inverse.numpy(), np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)


def test_after_the_longest_episode_the_inverse_is_still_exact() -> None:
    draws = np.random.default_rng(0)
    walk = np.abs(draws.normal(size=(27_000, 8)).cumsum(0)) * 0.01 + 0.1
    ellipse = Ellipse(8)
    ellipse.clear(0.1)
    for phi in walk:
        ellipse.add(phi)
    phi = draws.normal(size=8)
    matrix = 0.1 * np.eye(8) + walk.T @ walk
    assert ellipse.add(phi) == pytest.approx(phi @ np.linalg.solve(matrix, phi), rel=1e-6)


def test_the_first_state_of_an_episode_pays_nothing_and_counts() -> None:
    bonus = seeing([EAST, EAST, NORTH, EAST])
    # λ is 0.1 of the mean of ‖φ‖², which is 1.
    assert pays(bonus, [0, 1, 2, 3]) == pytest.approx([0, 1 / 1.1, 10, 1 / 2.1])


def test_the_next_episode_begins_anew() -> None:
    bonus = seeing([EAST, EAST, NORTH] * 2)
    assert pays(bonus, [0, 1, 2, 0, 1, 2]) == pytest.approx([0, 1 / 1.1, 10] * 2)


def test_the_bonus_does_not_depend_on_the_size_of_the_features() -> None:
    draws = np.random.default_rng(0)
    seen = [np.abs(draws.normal(size=2)) for _ in range(20)]
    steps = [*range(10), *range(10)]
    found = [pays(seeing([size * phi for phi in seen]), steps) for size in (1.0, 1e-3, 1e3)]
    assert found[1] == pytest.approx(found[0])
    assert found[2] == pytest.approx(found[0])


def test_lambda_follows_the_mean_square_of_the_last_thousand_states() -> None:
    bonus = seeing([EAST] * 3 + [2 * EAST] * 10_000)
    pays(bonus, [0, 1, 2])
    assert bonus.scalars()["ridge_share"] == pytest.approx(0.1)
    pays(bonus, [3])
    assert bonus.scalars()["ridge_share"] == pytest.approx(0.1 / 1.75)  # λ of this episode, by the mean of 1, 1, 1, 4
    pays(bonus, [*range(4, 9_999), 0])
    assert bonus.state()["ridge"] == pytest.approx(0.4, rel=1e-3)


def test_features_that_vanish_pay_nothing_and_no_fault() -> None:
    bonus = seeing([0 * EAST] * 3)
    assert pays(bonus, [0, 1, 2]) == [0.0, 0.0, 0.0]


def test_on_real_play_it_pays_what_the_matrix_of_the_episode_says() -> None:
    bonus, length = made("e3b"), 20
    features = np.array([bonus._features.embed(step.state) for step in PLAYED[:length]], np.float64)
    matrix = np.eye(128) * 0.1 * (features[0] @ features[0])
    for phi, step in zip(features, PLAYED[:length], strict=True):
        expected = phi @ np.linalg.inv(matrix) @ phi if step.episode_step else 0.0
        assert bonus.observe(step) == pytest.approx(expected, rel=1e-6)
        matrix += np.outer(phi, phi)


def test_what_it_declares() -> None:
    assert (E3b.scope, E3b.pays_for) == ("episodic", "state")
    assert options_of(BonusConfig("e3b")) == E3bOptions(1e-4, 128)
    with pytest.raises(ConfigError, match=r"bonus.options.features must be >= 1, got 0"):
        options_of(BonusConfig("e3b", {"features": 0}))


class _Shown:
    """Features that are given beforehand, one after the other."""

    def __init__(self, features: Iterable[Any]) -> None:
        self._features = iter(features)

    def embed(self, _: Any) -> Any:
        return next(self._features).astype(np.float32)

    def scalars(self) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}


def seeing(features: Iterable[Any]) -> Any:
    """Return a bonus whose states have these features."""
    bonus = made("e3b")
    bonus._features, bonus._ellipse = _Shown(features), Ellipse(2)
    return bonus


def pays(bonus: Any, episode_steps: Iterable[int]) -> list[float]:
    steps: list[Transition] = [replace(PLAYED[0], episode_step=step) for step in episode_steps]
    return [bonus.observe(step) for step in steps]
