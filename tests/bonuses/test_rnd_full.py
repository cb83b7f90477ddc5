"""RND in full against cases worked by hand from the mean of (f̂ - f)², and an unpadded network written plainly."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from offpiste import arrays
from offpiste.bonuses.base import Context, Transition, warm_up_steps
from offpiste.bonuses.registry import options_of
from offpiste.bonuses.rnd import feature_network
from offpiste.bonuses.rnd_full import RndFull, RndFullOptions, is_padded
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.methods import METHODS, base_run
from offpiste.run.loop import Loop
from offpiste.seeding import stream
from tests.sameness import assert_same

FRAME = (40, 38)
WARM_UP = 5


def context(frame_shape: tuple[int, int] = FRAME, min_history_steps: int = 20_000) -> Context:
    return Context("montezuma_revenge", 18, 4, frame_shape, stream(0, "bonus"), min_history_steps=min_history_steps)


def made(warm_up: int = WARM_UP, learning_rate: float = 1e-4, features: int = 16) -> Any:
    return RndFull(RndFullOptions(learning_rate, features, warm_up), context())


def frame(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, FRAME, dtype=np.uint8)


def shown(newest: NDArray[np.uint8]) -> Transition:
    stack = np.stack([newest // 2, newest // 3, newest // 4, newest])
    return Transition(stack, 0, 0.0, stack // 2, False, False, 0, np.zeros(128, np.uint8))


def test_the_mean_of_the_squared_errors_is_paid_and_not_their_sum() -> None:
    bonus = made(features=4)
    for seed in range(WARM_UP):
        bonus.observe(shown(frame(seed)))
    state = bonus.state()
    for name, outputs in (("target", [1.0, 0.0, -1.0, 2.0]), ("predictor", [4.0, 0.0, -2.0, 0.0])):
        last = f"{name}/linears.{0 if name == 'target' else 2}"
        state[f"{last}.weight"] = np.zeros_like(state[f"{last}.weight"])
        state[f"{last}.bias"] = np.array(outputs, np.float32)
    bonus.load_state(state)
    assert bonus.observe(shown(frame(9))) == pytest.approx((9 + 0 + 1 + 4) / 4)
    assert bonus.scalars() == {"predictor_loss": pytest.approx(3.5)}


def test_the_reward_is_that_of_a_network_written_plainly_without_padding() -> None:
    bonus = made()
    frames = [frame(seed) for seed in range(WARM_UP + 2)]
    for each in frames[:-1]:
        bonus.observe(shown(each))
    before = bonus.state()
    stack = np.stack(frames).astype(np.float64)
    x = torch.from_numpy(((frames[-1] - stack.mean(0)) / stack.std(0)).clip(-5.0, 5.0))
    expected = (plainly(before, "predictor/", x) - plainly(before, "target/", x)).square().mean().item()
    assert bonus.observe(shown(frames[-1])) == pytest.approx(expected, rel=1e-4)


def plainly(state: dict[str, Any], prefix: str, x: Tensor) -> Tensor:
    w = {name.removeprefix(prefix): torch.from_numpy(array).double() for name, array in state.items() if prefix in name}
    x = x[None, None]
    for layer, stride in enumerate((4, 2, 1)):
        x = functional.conv2d(x, w[f"convolutions.{layer}.weight"], w[f"convolutions.{layer}.bias"], stride)
        x = torch.where(x > 0.0, x, 0.2 * x)
    x = x[0].permute(1, 2, 0).reshape(-1)
    count = len({name.split(".")[1] for name in w if name.startswith("linears")})
    for layer in range(count):
        x = w[f"linears.{layer}.weight"] @ x + w[f"linears.{layer}.bias"]
        x = x.clamp(min=0.0) if layer < count - 1 else x
    return x


def test_a_batch_is_scored_by_the_mean_as_it_would_be_paid() -> None:
    bonus = made(warm_up=0)
    for seed in range(4):
        bonus.observe(shown(frame(seed)))
    frames = np.stack([[frame(10 * row + step) for step in range(6)] for row in range(2)])  # stacks of 4, n is 2
    scored, before = bonus.score(SimpleNamespace(frames=frames, stack=4)), bonus.state()
    bonus._pixels.observe = lambda _: None  # scored by statistics before the frame
    for row, step in ((0, 0), (0, 1), (1, 1)):
        bonus._distillation.load_state(before)
        assert scored[row, step] == pytest.approx(bonus.observe(shown(frames[row, 3 + step])), rel=1e-4)


def test_random_play_sets_the_statistics_alone() -> None:
    bonus = made()
    fresh = bonus.state()
    assert [bonus.observe(shown(frame(seed))) for seed in range(WARM_UP)] == WARM_UP * [0.0]
    assert bonus.scalars() == {}
    state = bonus.state()
    np.testing.assert_allclose(state["mean"], np.mean([frame(seed) for seed in range(WARM_UP)], axis=0), rtol=1e-12)
    networks = [name for name in state if name.startswith(("predictor/", "target/", "optimizer/"))]
    assert_same({name: state[name] for name in networks}, {name: fresh[name] for name in networks})
    assert bonus.observe(shown(frame(WARM_UP))) > 0.0
    assert not np.array_equal(bonus.state()["predictor/linears.2.bias"], fresh["predictor/linears.2.bias"])


def test_a_bonus_saved_in_its_warm_up_pays_from_the_same_step_on() -> None:
    bonus, other = made(), made()
    for seed in range(3):
        bonus.observe(shown(frame(seed)))
    other.load_state(arrays.unpack(arrays.pack(bonus.state())))
    assert other.observe(shown(frame(3))) == other.observe(shown(frame(4))) == 0.0
    assert other.observe(shown(frame(5))) > 0.0


def test_the_warm_up_ends_when_the_agent_begins_to_learn_at_the_latest() -> None:
    options = RndFullOptions(features=4)
    assert warm_up_steps(RndFull(options, context())) == 6_400  # 50 rollouts of 128 steps
    assert warm_up_steps(RndFull(options, context(min_history_steps=200))) == 200
    assert warm_up_steps(RndFull(replace(options, warm_up_steps=0), context())) == 0


def test_the_networks_have_the_known_numbers_of_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offpiste.bonuses.rnd.initialise", lambda *_: None)  # seconds, for a count
    convolutions = 32 * 64 + 32 + 64 * 32 * 16 + 64 + 64 * 64 * 9 + 64
    first, further = 7 * 7 * 64 * 512 + 512, 512 * 512 + 512
    for hidden_layers in (0, 2):
        network = feature_network(context((84, 84)), 512, hidden_layers, padded=False)
        count = sum(parameter.numel() for parameter in network.parameters())
        assert count == convolutions + first + hidden_layers * further


@pytest.mark.parametrize("shape", [(36, 36), (84, 84), (36, 90)])
def test_frames_that_leave_a_pixel_are_not_padded(shape: tuple[int, int]) -> None:
    assert not is_padded(context(shape))
    network = feature_network(context(shape), 4, 0, padded=False)
    assert network(torch.zeros(1, 1, *shape)).shape == (1, 4)


@pytest.mark.parametrize("shape", [(35, 84), (84, 35), (20, 20)])
def test_smaller_frames_are_padded(shape: tuple[int, int]) -> None:
    assert is_padded(context(shape))
    bonus = RndFull(RndFullOptions(1e-4, 4, 0), context(shape))
    step = Transition(np.ones((4, *shape), np.uint8), 0, 0.0, np.ones((4, *shape), np.uint8), False, False, 0, RAM)
    assert bonus.observe(step) == 0.0


RAM = np.zeros(128, np.uint8)


def test_the_row_mixes_as_its_authors_do() -> None:
    for game in ("montezuma_revenge", "four_rooms"):
        bonus = base_run(game, "rnd_full").bonus
        assert (bonus.heads, bonus.ends_with_episode, bonus.clip_sum) == (2, False, False)
        assert (bonus.normalise, bonus.discount, bonus.pays_for) == ("return_std", 0.99, "next_state")
    assert options_of(METHODS["rnd_full"].bonus) == RndFullOptions(1e-4, 512, 6_400)
    with pytest.raises(ConfigError, match=r"bonus\.options\.warm_up_steps must be >= 0, got -1"):
        options_of(BonusConfig("rnd_full", {"warm_up_steps": -1}))


def test_in_a_run_it_sees_the_frame_that_a_step_led_to_and_is_paid_after_its_warm_up() -> None:
    run = base_run("four_rooms", "rnd_full")
    loop = Loop(replace(run, agent=replace(run.agent, min_history_steps=10)))
    entered = [loop.world.observation[-1].copy() for _ in islice(loop.steps(), 20)]
    assert loop.bonus is not None
    assert not loop.tracker.episodes["train"]  # so that all entries of the replay are steps
    paid = loop.replay.intrinsic[:20]
    assert not paid[:10].any()
    assert (paid[10:] > 0.0).all()
    np.testing.assert_allclose(loop.bonus.state()["mean"], np.mean(entered, axis=0), rtol=1e-9)
