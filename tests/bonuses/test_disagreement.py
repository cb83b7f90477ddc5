"""Disagreement against variances worked by hand and against its models written out."""

from typing import Any

import numpy as np
import pytest
import torch

from offpiste.bonuses.contract.play import ROOMS, ROOMS_ACTIONS, context_of
from offpiste.bonuses.disagreement import Disagreement, DisagreementOptions, disagreement
from offpiste.bonuses.inverse_dynamics import Pairs
from offpiste.bonuses.registry import options_of
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from tests.bonuses.played import PLAYED, batch, made
from tests.sameness import assert_same

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # as in a run


def small(**options: Any) -> Any:
    given = DisagreementOptions(**{"learning_rate": 1e-3, "features": 8, **options})
    return Disagreement(given, context_of(ROOMS, stream(0, "bonus")))


def predictions(bonus: Any, features: Any, action: int) -> Any:
    """Return what each model predicts, [models, features], by its weights written out in float64."""
    state, found = bonus.state(), []
    for model in range(len(bonus._models)):
        (w1, b1), (w2, b2) = (
            [state[f"forward/{model}.{layer}.{kind}"].astype(np.float64) for kind in ("weight", "bias")]
            for layer in ("hidden", "head")
        )
        inputs = np.concatenate([features, np.eye(ROOMS_ACTIONS)[action]])
        found.append(w2 @ np.maximum(w1 @ inputs + b1, 0) + b2)
    return np.array(found)


def test_the_variance_over_the_models_is_averaged_over_the_features() -> None:
    # Of 1 and 3 it is 1, of 0 and 4 it is 4, of 5 and 5 it is 0: a mean of 5/3.
    assert disagreement(torch.tensor([[1.0, 0.0, 5.0], [3.0, 4.0, 5.0]])) == pytest.approx(5 / 3)
    # Of 0, 0 and 3 the mean is 1 and the variance (1 + 1 + 4) / 3: over all models, not one fewer.
    assert disagreement(torch.tensor([[0.0], [0.0], [3.0]])) == pytest.approx(2)


def test_models_that_agree_are_paid_nothing_however_wrong_they_are() -> None:
    bonus = small()
    with torch.no_grad():
        for model in list(bonus._models)[1:]:
            model.load_state_dict(bonus._models[0].state_dict())
    assert bonus.observe(PLAYED[3]) == pytest.approx(0, abs=1e-12)


def test_on_real_play_it_pays_the_variance_of_the_models_written_out() -> None:
    bonus = made("disagreement")
    for _ in range(3):
        bonus.learn(batch(16))
    for step in PLAYED[:8]:
        features = bonus._features.embed(step.state).astype(np.float64)
        expected = predictions(bonus, features, step.action).var(0).mean()
        assert bonus.observe(step) == pytest.approx(expected, rel=1e-4)


def test_models_begin_with_other_weights_and_learn_from_the_same_pairs() -> None:
    bonus, sampled = small(models=3), batch(6)
    before = bonus.state()
    first = [before[f"forward/{model}.hidden.weight"] for model in range(3)]
    assert not np.allclose(first[0], first[1])
    assert not np.allclose(first[1], first[2])
    rows = np.flatnonzero(sampled.has_following)
    now, later = (
        np.array([bonus._features.embed(state) for state in states[rows]], np.float64)
        for states in (sampled.states, sampled.following)
    )
    errors = [
        (predictions(bonus, state, int(sampled.actions[row, 0])) - led_to) ** 2
        for row, state, led_to in zip(rows, now, later, strict=True)
    ]
    bonus.learn(sampled)
    assert bonus.scalars()["forward_loss"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_the_forward_loss_does_not_train_the_features() -> None:
    features = torch.ones(2, 8, requires_grad=True)
    bonus = small()
    loss = bonus._forward_loss(Pairs(features.detach(), features.detach() * 2, torch.tensor([0, 1])))
    loss.backward()
    pairs = bonus._features.learn(batch(8))
    assert not pairs.now.requires_grad
    assert not pairs.later.requires_grad


def test_with_practice_the_models_agree_and_on_other_states_they_do_not() -> None:
    bonus, sampled, seen = small(random_features=True, learning_rate=5e-3), batch(32, until=8), PLAYED[:5]
    other = [step for step in PLAYED if all((step.frame != known.frame).any() for known in PLAYED[:12])][:5]
    before = [np.mean([bonus.observe(step) for step in steps]) for steps in (seen, other)]
    for _ in range(300):
        bonus.learn(sampled)
    after = [np.mean([bonus.observe(step) for step in steps]) for steps in (seen, other)]
    assert after[0] < 0.1 * before[0]
    assert after[1] > 3 * after[0]


def test_random_features_stay_as_they_were_drawn() -> None:
    bonus, learned = small(random_features=True), small()
    for each in (bonus, learned):
        each.learn(batch(8))
    first = small().state()
    embedding = [name for name in first if name.startswith("inverse/")]
    assert_same({name: bonus.state()[name] for name in embedding}, {name: first[name] for name in embedding})
    assert all(not np.array_equal(learned.state()[name], first[name]) for name in embedding)
    assert "inverse_loss" not in bonus.scalars()


def test_what_it_declares() -> None:
    assert (Disagreement.pays_for, Disagreement.measures_visits) == ("state", False)
    assert options_of(BonusConfig("disagreement")) == DisagreementOptions(1e-4, 512, 5, False)
    with pytest.raises(ConfigError, match=r"bonus.options.models must be >= 2, got 1"):
        options_of(BonusConfig("disagreement", {"models": 1}))
