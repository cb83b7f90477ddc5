"""Features by inverse dynamics: pairs one step apart, held beside the same written out in float64."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from offpiste.bonuses.contract.play import ROOMS, ROOMS_ACTIONS, context_of
from offpiste.bonuses.inverse_dynamics import InverseDynamics
from offpiste.seeding import stream
from offpiste.types import Batch
from tests.bonuses.played import PLAYED, batch
from tests.sameness import assert_same

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # as in a run


def made(features: int = 8, learning_rate: float = 1e-3) -> InverseDynamics:
    return InverseDynamics(features, learning_rate, context_of(ROOMS, stream(0, "bonus")))


def weights(of: InverseDynamics) -> dict[str, Tensor]:
    return {
        key.removeprefix("inverse/"): torch.from_numpy(value).double()
        for key, value in of.state().items()
        if key.startswith("inverse/")
    }


def plain_features(w: dict[str, Tensor], states: Tensor) -> Tensor:
    """Return φ by plain convolutions of 22 × 22 frames, padded as TensorFlow's SAME."""
    x = states.double() / 255
    for layer, (kernel, stride) in enumerate(((8, 4), (4, 2), (3, 1))):
        short = (math.ceil(x.shape[-1] / stride) - 1) * stride + kernel - x.shape[-1]
        x = functional.pad(x, (short // 2, short - short // 2) * 2)
        name = f"embedding.convolutions.{layer}.convolution"
        x = functional.leaky_relu(functional.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], stride=stride), 0.2)
    x = x.permute(0, 2, 3, 1).flatten(1)
    return (x @ w["embedding.linears.0.weight"].T + w["embedding.linears.0.bias"]).clamp(min=0)


def plain_loss(w: dict[str, Tensor], sampled: Batch, rows: list[int]) -> float:
    """Return the mean cross-entropy of the first actions of some rows."""
    now, later = (plain_features(w, torch.from_numpy(sampled.frames[rows][:, index : index + 1])) for index in (0, 1))
    hidden = (torch.cat([now, later], 1) @ w["hidden.weight"].T + w["hidden.bias"]).clamp(min=0)
    logits = hidden @ w["head.weight"].T + w["head.bias"]
    return float(functional.cross_entropy(logits, torch.from_numpy(sampled.actions[rows, 0])))


def test_features_are_those_of_the_same_network_written_out() -> None:
    learner = made()
    state = PLAYED[5].state
    expected = plain_features(weights(learner), torch.from_numpy(state[None].copy()))[0].numpy()
    np.testing.assert_allclose(learner.embed(state), expected, rtol=1e-5, atol=1e-6)
    assert (expected >= 0).all()
    assert expected.any()


def test_pairs_are_one_step_apart_and_leave_out_what_was_not_stored() -> None:
    learner, sampled = made(), batch(32)
    ended = np.zeros(32, np.bool_)
    ended[[3, 17]] = True
    sampled = replace(sampled, terminal=sampled.terminal | ended, steps=np.where(ended, 1, sampled.steps))
    rows = [row for row in range(32) if not (sampled.terminal[row] and sampled.steps[row] == 1)]
    assert {3, 17}.isdisjoint(rows)
    expected = plain_loss(weights(learner), sampled, rows)
    others = plain_loss(weights(learner), sampled, [*range(32)])
    learner.learn(sampled)
    assert learner.scalars()["inverse_loss"] == pytest.approx(expected, rel=1e-5)
    assert abs(expected - others) > 1e-4


def test_with_practice_the_actions_of_a_batch_are_predicted() -> None:
    learner, sampled = made(), batch(16)
    for _ in range(150):
        learner.learn(sampled)
    assert learner.scalars()["inverse_loss"] < 0.1 < math.log(ROOMS_ACTIONS)


def test_features_learn_and_not_the_inverse_model_alone() -> None:
    learner = made()
    before = weights(learner)
    learner.learn(batch(16))
    after = weights(learner)
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_a_batch_of_ends_alone_changes_nothing() -> None:
    learner, sampled = made(), batch(4)
    before = learner.state()
    learner.learn(replace(sampled, terminal=np.ones(4, np.bool_), steps=np.ones(4, np.int64)))
    assert_same(learner.state(), before)
    assert learner.scalars() == {}
