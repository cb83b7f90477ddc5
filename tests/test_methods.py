from dataclasses import replace

import pytest

from offpiste import methods
from offpiste.bonuses.registry import find
from offpiste.bonuses.simhash import SimHashOptions
from offpiste.errors import ConfigError
from offpiste.parsing import from_dict


def test_the_six_methods_of_the_paper_have_its_constants() -> None:
    assert methods.PAPER_METHODS == ("epsilon_greedy", "noisy_nets", "cts", "pixelcnn", "icm", "rnd")
    assert list(methods.METHODS)[:6] == list(methods.PAPER_METHODS)
    paid = {name: methods.find(name).bonus for name in methods.PAPER_METHODS if methods.find(name).bonus.name != "none"}
    scales = {name: bonus.scale for name, bonus in paid.items()}
    assert scales == {"cts": 5e-4, "pixelcnn": 0.1, "icm": 5e-3, "rnd": 1e-4}
    assert {name for name, bonus in paid.items() if not bonus.clip_sum} == {"rnd"}
    assert methods.find("pixelcnn").bonus.options == {"decay": 1.0}
    assert methods.find("icm").bonus.options == {"forward_weight": 0.005}
    assert methods.find("rnd").bonus.options == {"learning_rate": 2e-4}


def test_counts_stand_after_the_methods_of_the_paper_and_are_none_of_them() -> None:
    counts = {name: methods.find(name) for name in list(methods.METHODS)[8:13]}
    assert {name: row.label for name, row in counts.items()} == {
        "simhash": "SimHash",
        "oracle": "Oracle",
        "oracle_episodic": "Oracle (episodic)",
        "oracle_product": "Oracle (product)",
        "oracle_left": "Oracle (cell left)",
    }
    assert {(row.source, row.paper_settings) for row in counts.values()} == {("not tuned", None)}
    assert counts["simhash"].bonus.scale == 2.56 / SimHashOptions().bits  # Tang et al., 2017


def test_rnd_as_released_has_the_constants_of_its_code() -> None:
    released = methods.find("rnd_released").bonus
    assert (released.scale, released.clip_sum, released.options) == (5e-5, False, {"learning_rate": 1e-4})


@pytest.mark.parametrize("name", [name for name, method in methods.METHODS.items() if method.bonus.name != "none"])
def test_the_options_of_a_method_are_those_of_its_bonus(name: str) -> None:
    bonus = methods.find(name).bonus
    from_dict(find(bonus.name).Options, bonus.options)


def test_bonuses_are_added_to_plain_epsilon_greedy() -> None:
    for name, method in methods.METHODS.items():
        of_actions = name in ("noisy_nets", "ez_greedy")
        assert of_actions or method.exploration == methods.find("epsilon_greedy").exploration


def test_random_actions_that_last_are_those_of_their_paper_and_the_rest_is_epsilon_greedy() -> None:
    for game in ("freeway", "four_rooms"):
        plain, lasting = (methods.base_run(game, name) for name in ("epsilon_greedy", "ez_greedy"))
        assert (lasting.exploration.max_repeat_steps, lasting.exploration.repeat_exponent) == (10_000, 2.0)
        assert replace(lasting, method="epsilon_greedy", exploration=plain.exploration) == plain
        assert replace(lasting.exploration, max_repeat_steps=1) == plain.exploration


@pytest.mark.parametrize(
    ("method", "bonus", "name", "noisy", "scale"),
    [
        (None, None, "epsilon_greedy", False, 1.0),
        ("noisy_nets", None, "noisy_nets", True, 1.0),
        (None, "none", "epsilon_greedy", False, 1.0),
        (None, "my_module:MyBonus", "my_bonus", False, 1.0),
        (None, "installed", "installed", False, 1.0),
        (None, "cts", "cts", False, 5e-4),
        (None, "my_module:Cts", "epsilon_greedy+my_module.Cts", False, 1.0),
        (None, "oracle", "oracle", False, 0.01),
        (None, "my_module:NoisyNets", "epsilon_greedy+my_module.NoisyNets", False, 1.0),
        ("epsilon_greedy", "cts", "epsilon_greedy+cts", False, 5e-4),
        ("cts", "cts", "cts", False, 5e-4),
        ("noisy_nets", "none", "noisy_nets", True, 1.0),
        ("noisy_nets", "my_module:MyBonus", "noisy_nets+my_bonus", True, 1.0),
        ("noisy_nets", "cts", "noisy_nets+cts", True, 5e-4),
        ("noisy_nets", "my_module:Cts", "noisy_nets+my_module.Cts", True, 1.0),
        ("cts", "my_module:MyBonus", "cts+my_bonus", False, 1.0),
        ("mine", "my_module:MyBonus", "mine", False, 1.0),
        ("mine", "cts", "mine", False, 5e-4),
        ("noisy_nets+my_bonus", "my_module:MyBonus", "noisy_nets+my_bonus", True, 1.0),
    ],
)
def test_a_method_and_a_bonus_together_have_one_name(
    method: str | None, bonus: str | None, name: str, noisy: bool, scale: float
) -> None:
    found, chosen = methods.choose(method, bonus)
    assert (found, chosen.exploration.noisy, chosen.bonus.scale) == (name, noisy, scale)
    assert chosen.bonus.name == (bonus or "none")
    assert name not in methods.METHODS or chosen == methods.METHODS[name]
    run = methods.base_run("deep_sea_5", method, bonus)
    assert (run.run_id, run.bonus) == (f"deep_sea_5/{name}/seed-0", chosen.bonus)
    assert run.world.frame_skip == 1
    assert (run.exploration.noisy, run.exploration.epsilon_final) == (noisy, 0.0 if noisy else 0.1)


@pytest.mark.parametrize(
    ("bonus", "name"),
    [
        ("rnd", "rnd"),
        ("MyInstalled", "MyInstalled"),
        ("module:Count", "count"),
        ("package.module:MyBonus", "my_bonus"),
        ("module:PixelCNNBonus", "pixel_cnn_bonus"),
        ("module:RND", "rnd"),
        ("module:SimHash64", "sim_hash64"),
    ],
)
def test_a_class_is_called_by_its_name_in_snake_case(bonus: str, name: str) -> None:
    assert methods.short_name(bonus) == name


@pytest.mark.parametrize("name", ["a/b", "..", "", "a b", "-a"])
def test_a_name_that_no_folder_should_have_is_refused(name: str) -> None:
    if name:
        with pytest.raises(ConfigError, match=r"the name of a method must be letters, digits and _ \. \+ -, got"):
            methods.choose(name, "rnd")
    with pytest.raises(ConfigError, match="the name of a method must be"):
        methods.choose(None, name)


def test_an_unknown_method_is_refused_with_a_suggestion() -> None:
    with pytest.raises(
        ConfigError, match=r"no method named 'rdn'; did you mean 'rnd'\? \(`offpiste methods` lists them"
    ):
        methods.find("rdn")
