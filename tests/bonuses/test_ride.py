"""RIDE against cases worked by hand from ‖φ(s') - φ(s)‖ / √N(s')."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from offpiste.bonuses.base import Context, Product
from offpiste.bonuses.registry import options_of
from offpiste.bonuses.ride import Ride, RideOptions
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from tests.bonuses.played import PLAYED, batch, made
from tests.bonuses.test_noveld import SIDE, A, B, C, walk

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # as in a run


def bonus_of(features: Mapping[int, Sequence[float]]) -> Any:
    """Return a bonus on frames of one shade, which has these features by shade."""
    options = RideOptions(learning_rate=1e-3, features=8, exact_frames=True)
    bonus: Any = Ride(options, Context("four_rooms", 4, 1, (SIDE, SIDE), stream(0, "bonus")))

    def shown(states: NDArray[np.uint8]) -> NDArray[np.float32]:
        return np.array([features[int(state[-1, 0, 0])] for state in states], np.float32)

    bonus._features.embed_all = shown
    return bonus


SHADES = {10: (0.0, 0.0), 90: (3.0, 4.0), 170: (3.0, 0.0)}


def test_the_distance_of_the_features_is_paid_over_the_root_of_visits() -> None:
    bonus = bonus_of(SHADES)
    # To B: 5, first visit. To C: 4. Back to B: 4, second. To A, where the episode began: 5, second. To B: 5, third.
    expected = [5.0, 4.0, 4 / math.sqrt(2), 5 / math.sqrt(2), 5 / math.sqrt(3)]
    assert [bonus.observe(step) for step in walk([A, B, C, B, A, B])] == pytest.approx(expected)


def test_a_step_without_impact_pays_nothing_and_counts() -> None:
    bonus = bonus_of(SHADES)
    assert [bonus.observe(step) for step in walk([A, A, B])] == pytest.approx([0.0, 5.0])
    bonus = bonus_of(SHADES)
    assert [bonus.observe(step) for step in walk([B, A, A, B, A])][-1] == pytest.approx(5 / math.sqrt(3))


@pytest.mark.parametrize("truncated", [False, True])
def test_visits_are_forgotten_after_every_end(truncated: bool) -> None:
    bonus = bonus_of(SHADES)
    found = [[bonus.observe(step) for step in walk([A, B, A, B], truncated)] for _ in range(2)]
    assert found[0] == found[1] == pytest.approx([5.0, 5 / math.sqrt(2), 5 / math.sqrt(2)])


def test_both_factors_are_named() -> None:
    bonus = bonus_of(SHADES)
    first, second = (bonus.observe(step) for step in walk([A, B, A]))
    assert isinstance(first, Product)
    assert first.factors == {"impact": 5.0, "episodic": 1.0}
    assert second.factors == {"impact": 5.0, "episodic": 2**-0.5}


def test_on_real_play_it_pays_the_distance_of_features_by_one_set_of_weights() -> None:
    bonus = made("ride")
    for _ in range(3):
        bonus.learn(batch(16))
    for step in PLAYED[:10]:
        before, after = (bonus._features.embed(state) for state in (step.state, step.next_state))
        assert bonus.observe(step).factors["impact"] == pytest.approx(np.linalg.norm(after - before), rel=1e-4)


def test_the_features_learn_to_predict_actions_and_a_hundred_times_as_much_to_be_predicted() -> None:
    bonus, sampled = made("ride"), batch(16)
    network = bonus._features._network
    rows = sampled.has_following
    now, later = (torch.from_numpy(states[rows].copy()) for states in (sampled.states, sampled.following))
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}

    def features(states: torch.Tensor) -> torch.Tensor:
        return torch.relu(network.embedding(states.float() / 255))

    phi, led_to = features(now), features(later)
    actions = torch.from_numpy(sampled.actions[rows, 0])
    logits = network.head(torch.relu(network.hidden(torch.cat([phi, led_to], 1))))
    inverse = torch.nn.functional.cross_entropy(logits, actions)
    chosen = torch.nn.functional.one_hot(actions, 4).float()
    model = network.forward_model
    predicted = model.head(torch.relu(model.hidden(torch.cat([phi, chosen], 1))))
    forward = (predicted - led_to).square().sum(1).sqrt().mean()
    expected = torch.autograd.grad(0.1 * inverse + 10 * forward, list(network.parameters()))
    bonus.learn(sampled)
    assert bonus.scalars() == {
        "inverse_loss": pytest.approx(inverse.item(), rel=1e-4),
        "forward_loss": pytest.approx(forward.item(), rel=1e-4),
    }
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, 10 * gradient, rtol=1e-3, atol=1e-4)
    assert all(not torch.equal(parameter, before[name]) for name, parameter in network.named_parameters())


def test_small_worlds_count_the_exact_frame() -> None:
    bonus, step = made("ride"), PLAYED[0]
    nearly = step.state.copy()
    nearly[-1, 0, 0] ^= 1
    found = [bonus.observe(replace(step, next_state=nearly, episode_step=number)) for number in range(2)]
    assert [paid.factors["episodic"] for paid in found] == [1.0, 2**-0.5]


def test_what_it_declares() -> None:
    assert Ride.scope == "episodic"
    assert options_of(BonusConfig("ride")) == RideOptions(1e-4, 128, False)
    with pytest.raises(ConfigError, match=r"bonus.options.features must be >= 1, got 0"):
        options_of(BonusConfig("ride", {"features": 0}))
