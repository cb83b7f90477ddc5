"""E3B times RND: the product of the two registered bonuses, each shown what it pays for."""

import math
from dataclasses import replace
from typing import Any

import pytest

from offpiste.bonuses.base import Product
from offpiste.bonuses.contract.play import ROOMS, context_of
from offpiste.bonuses.e3b_rnd import E3bRnd, E3bRndOptions
from offpiste.bonuses.registry import options_of
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from tests.bonuses.played import PLAYED, batch, made, paid
from tests.sameness import assert_same

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # as in a run


class Shown:
    """A bonus that pays as told, and notes what it is shown."""

    def __init__(self, *pays: Any) -> None:
        self._pays = iter(pays)
        self.steps: list[Any] = []

    def observe(self, transition: Any) -> Any:
        self.steps.append(transition)
        return next(self._pays)


def small(**options: Any) -> Any:
    given = E3bRndOptions(**{"learning_rate": 1e-3, "features": 8, "distilled_features": 8, **options})
    return E3bRnd(given, context_of(ROOMS, stream(0, "bonus")))


def test_it_pays_the_product_with_the_root_of_what_rnd_pays() -> None:
    bonus = small()
    bonus._parts = {"episodic": Shown(0.5, 0.0, 3.0), "lifelong": Shown(4.0, 9.0, 0.0)}
    products = [bonus.observe(step) for step in PLAYED[:3]]
    assert products == [1.0, 0.0, 0.0]
    assert isinstance(products[0], Product)
    assert [each.factors["episodic"] for each in products] == [0.5, 0.0, 3.0]
    assert [each.factors["lifelong"] for each in products] == [2.0, 3.0, 0.0]


def test_e3b_is_shown_the_step_and_rnd_the_frame_that_it_led_to() -> None:
    bonus, step = small(), PLAYED[4]
    episodic, lifelong = Shown(1.0), Shown(1.0)
    bonus._parts = {"episodic": episodic, "lifelong": lifelong}
    bonus.observe(step)
    assert episodic.steps == [step]
    assert (lifelong.steps[0].frame == step.next_state[-1]).all()


def test_with_noveld_its_rise_is_the_factor_and_not_its_count_of_the_episode() -> None:
    bonus, step = small(lifelong="noveld"), PLAYED[4]
    lifelong = Shown(Product(lifelong=2.5, episodic=0.0))
    bonus._parts = {"episodic": Shown(2.0), "lifelong": lifelong}
    assert bonus.observe(step) == 5.0
    assert lifelong.steps == [step]


@pytest.mark.parametrize("lifelong", ["rnd", "noveld"])
def test_both_learn_as_they_do_alone(lifelong: str) -> None:
    bonus = small(lifelong=lifelong)
    alone = {name: type(part) for name, part in bonus._parts.items()}
    options = {"episodic": BonusConfig("e3b", {"learning_rate": 1e-3, "features": 8})}
    options["lifelong"] = BonusConfig(lifelong, {"learning_rate": 1e-3, "features": 8})
    parts: dict[str, Any] = {
        name: kind(options_of(options[name]), context_of(ROOMS, stream(1, "bonus"))) for name, kind in alone.items()
    }
    for name, part in parts.items():
        part.load_state(bonus._parts[name].state())
    sampled = batch(16)
    for step in PLAYED[:30]:
        bonus.learn(sampled)
        parts["episodic"].learn(sampled)
        if lifelong == "rnd":
            second = math.sqrt(parts["lifelong"].observe(replace(step, state=step.next_state)))
        else:
            second = parts["lifelong"].observe(step).factors["lifelong"]
        assert bonus.observe(step) == parts["episodic"].observe(step) * second
    expected = {f"{name}/{key}": value for name, part in parts.items() for key, value in part.state().items()}
    assert_same(bonus.state(), expected)
    assert bonus.scalars() == parts["episodic"].scalars() | parts["lifelong"].scalars()


def test_the_product_with_noveld_is_restored_too() -> None:
    bonus, other = small(lifelong="noveld"), small(lifelong="noveld")
    paid(bonus, 0, 40)
    other.load_state(bonus.state())
    assert paid(bonus, 40, 60) == paid(other, 40, 60)


def test_the_first_state_of_an_episode_pays_nothing() -> None:
    bonus = made("e3b_rnd")
    for step in PLAYED[:60]:
        product = bonus.observe(step)
        assert (product == 0.0) == (step.episode_step == 0)


def test_what_it_declares() -> None:
    assert E3bRnd.scope == "both"
    assert options_of(BonusConfig("e3b_rnd")) == E3bRndOptions(1e-4, 128, 512, "rnd")
    with pytest.raises(ConfigError, match=r"bonus.options.lifelong must be one of"):
        options_of(BonusConfig("e3b_rnd", {"lifelong": "icm"}))
