"""A dry run of everything that computes on a GPU, on a pretended one: no tensor is left on the CPU.

Shapes, dtypes and devices are checked, not numbers, speed or memory: those are untested, for there is no GPU here.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from offpiste.agent.mixing import targets
from offpiste.agent.rainbow import Rainbow
from offpiste.bonuses.base import LearningBonus
from offpiste.bonuses.contract.play import batch_draws, batch_of, context_of, warm_up
from offpiste.bonuses.registry import find
from offpiste.config import AgentConfig, BonusConfig, WorldConfig
from offpiste.seeding import stream
from offpiste.types import Batch
from offpiste.worlds.base import MAX_ACTIONS
from tests.fake_gpu import DEVICE, fake_gpu

LEARNED = ("pixelcnn", "icm", "rnd", "rnd_released", "distillation:Distillation")
GAME = "montezuma_revenge"
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor"),
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable"),  # as in a run
]


@pytest.fixture(autouse=True)
def examples_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")


def batch() -> Batch:
    made = batch_of(warm_up(steps=40), batch_draws())
    assert made is not None
    return made


def new_agent(precision: Any, noise_scale: float | None) -> Rainbow:
    config = replace(AgentConfig(), precision=precision)
    return Rainbow(config, WorldConfig().state_shape, MAX_ACTIONS, stream(0, "weights"), DEVICE, noise_scale)


def use(agent: Rainbow) -> None:
    noise = stream(0, "noise")
    for _ in range(2):
        agent.greedy_action(warm_up(steps=40)[0].state, noise)
        agent.learn(batch(), targets(batch(), BonusConfig(), 0.99, 1.0), noise)
    agent.update_target()
    agent.load_state(agent.state())
    agent.load_weights(agent.weights())
    agent.learn(batch(), targets(batch(), BonusConfig(), 0.99, 1.0), noise)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("noise_scale", [None, 0.5])
def test_the_agent_stays_on_its_device(precision: str, noise_scale: float | None) -> None:
    with fake_gpu():
        use(new_agent(precision, noise_scale))


@pytest.mark.parametrize("name", LEARNED)
def test_a_learned_bonus_stays_on_its_device(name: str) -> None:
    kind = find(name)
    context = replace(context_of(GAME, stream(0, "bonus")), device=DEVICE)
    with fake_gpu():
        bonus, other = (kind(kind.Options(), context) for _ in range(2))
        for each in (bonus, other):
            for transition in warm_up(steps=3):
                each.observe(transition)
            if isinstance(each, LearningBonus):
                each.learn(batch())
            other.load_state(bonus.state())


@pytest.mark.parametrize("name", ["_support", "_target.hidden.weight", "_online.head.bias"])
def test_one_tensor_of_the_agent_left_on_the_cpu_is_found(name: str) -> None:
    owner, _, attribute = name.rpartition(".")
    with fake_gpu():
        agent = new_agent("fp32", None)
        holder = agent
        for each in filter(None, owner.split(".")):
            holder = getattr(holder, each)
        left = torch.zeros(getattr(holder, attribute).shape)
        parameters = getattr(holder, "_parameters", None)
        if parameters is None:
            setattr(holder, attribute, left)
        else:
            parameters[attribute] = torch.nn.Parameter(left)
        with pytest.raises(RuntimeError, match=r"two different devices: (cpu, cuda:0|cuda:0, cpu)|found .*cpu"):
            use(agent)


def test_one_layer_of_a_bonus_left_on_the_cpu_is_found() -> None:
    context = replace(context_of(GAME, stream(0, "bonus")), device=DEVICE)
    with fake_gpu():
        bonus = find("rnd")(find("rnd").Options(), context)
        layer = bonus._distillation.target.linears[0]
        layer._parameters["weight"] = torch.nn.Parameter(torch.zeros(layer.weight.shape))
        with pytest.raises(RuntimeError, match="device"):
            bonus.observe(warm_up(steps=1)[0])


def test_states_left_on_the_cpu_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gpu():
        agent = new_agent("fp32", None)
        monkeypatch.setattr(agent, "_device", torch.device("cpu"))
        with pytest.raises(RuntimeError, match="device"):
            use(agent)


def test_a_tensor_on_the_device_does_not_become_an_array() -> None:
    with fake_gpu(), pytest.raises(TypeError, match="cannot become an array"):
        torch.zeros(2, device=DEVICE).numpy()
