import pytest

from offpiste import methods
from offpiste.bonuses.registry import find
from offpiste.config import from_dict
from offpiste.errors import ConfigError


def test_the_six_methods_of_the_paper_have_its_constants() -> None:
    scales = {name: method.bonus.scale for name, method in methods.METHODS.items() if method.bonus.name != "none"}
    assert scales == {"cts": 5e-4, "pixelcnn": 0.1, "icm": 5e-3, "rnd": 1e-4, "rnd_released": 5e-5}
    assert set(methods.METHODS) - set(scales) == {"epsilon_greedy", "noisy_nets"}
    assert methods.find("pixelcnn").bonus.options == {"decay": 1.0}
    assert methods.find("icm").bonus.options == {"forward_weight": 0.005}
    assert methods.find("rnd").bonus.options == {"learning_rate": 2e-4}


def test_only_rnd_leaves_the_sum_unclipped() -> None:
    unclipped = {name for name, method in methods.METHODS.items() if not method.bonus.clip_sum}
    assert unclipped == {"rnd", "rnd_released"}


@pytest.mark.parametrize("name", [name for name, method in methods.METHODS.items() if method.bonus.name != "none"])
def test_the_options_of_a_method_are_those_of_its_bonus(name: str) -> None:
    bonus = methods.find(name).bonus
    from_dict(find(bonus.name).Options, bonus.options)


def test_bonuses_are_added_to_plain_epsilon_greedy() -> None:
    for name, method in methods.METHODS.items():
        assert name == "noisy_nets" or method.exploration == methods.find("epsilon_greedy").exploration


def test_an_unknown_method_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"no method named 'rdn'; did you mean 'rnd'\?"):
        methods.find("rdn")
