import dataclasses
import math
import re
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpiste.config import (
    RESULTS_VERSION,
    AgentConfig,
    BonusConfig,
    MachineConfig,
    RunConfig,
    fingerprint,
    from_dict,
    identity,
    method_settings,
    parse_count,
    parse_value,
    protocol_settings,
    read_toml,
    to_dict,
    to_toml,
)
from offpiste.errors import ConfigError

# Every setting, with a value that is allowed and is not the default.
CHANGED: dict[str, Any] = {
    "game": "pitfall",
    "method": "rnd",
    "variant": "beta=0.1",
    "seed": 1,
    "frames": 1_000,
    "world.frame_skip": 2,
    "world.sticky_action_probability": 0.0,
    "world.episode_frames": 18_000,
    "world.stack_frames": 1,
    "agent.discount": 0.999,
    "agent.return_steps": 1,
    "agent.value_atoms": 21,
    "agent.value_limit": 5.0,
    "agent.batch_size": 64,
    "agent.replay_capacity": 50_000,
    "agent.min_history_steps": 1_000,
    "agent.update_period_steps": 1,
    "agent.target_update_steps": 2_000,
    "agent.learning_rate": 1e-4,
    "agent.adam_epsilon": 1e-8,
    "agent.convolution_channels": [16, 32, 32],
    "agent.hidden_units": 256,
    "agent.precision": "bf16",
    "schedule.iteration_steps": 1_000,
    "schedule.evaluation_steps": 500,
    "exploration.epsilon_start": 0.5,
    "exploration.epsilon_final": 0.1,
    "exploration.epsilon_decay_steps": 10,
    "exploration.epsilon_evaluation": 0.05,
    "exploration.noisy": True,
    "exploration.noise_scale": 0.1,
    "exploration.evaluation_noise": False,
    "bonus.name": "rnd",
    "bonus.options": {"learning_rate": 1e-3},
    "bonus.scale": 0.5,
    "bonus.clip_sum": False,
    "machine.device": "cuda:1",
    "machine.threads": 2,
    "machine.checkpoint_minutes": 1.0,
}


def settings_with(name: str, value: Any) -> dict[str, Any]:
    table, dot, key = name.rpartition(".")
    return {table: {key: value}} if dot else {key: value}


def config_with(name: str, value: Any) -> RunConfig:
    return from_dict(RunConfig, settings_with(name, value))


def field_names(kind: Any, prefix: str = "") -> list[str]:
    names: list[str] = []
    for name, hint in typing.get_type_hints(kind).items():
        names += field_names(hint, f"{name}.") if dataclasses.is_dataclass(hint) else [f"{prefix}{name}"]
    return names


def test_the_table_of_changed_settings_is_complete() -> None:
    assert list(CHANGED) == field_names(RunConfig)


def test_a_setting_without_a_default_must_be_given() -> None:
    @dataclasses.dataclass(frozen=True)
    class Options:
        size: int
        rate: float
        steps: int = 3

    assert from_dict(Options, {"size": 1, "rate": 0.5}) == Options(1, 0.5)
    with pytest.raises(ConfigError, match=r"bonus\.options\.rate must be set"):
        from_dict(Options, {"size": 1}, "bonus.options.")


# TOML


def test_a_toml_file_sets_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('method = "rnd"\nframes = "200M"\n[agent]\nbatch_size = 64\n[bonus.options]\nwidth = 8\n')
    assert read_toml(path) == RunConfig(
        method="rnd", agent=AgentConfig(batch_size=64), bonus=BonusConfig(options={"width": 8})
    )


@pytest.mark.parametrize("name", CHANGED)
def test_each_setting_survives_the_way_to_toml_and_back(tmp_path: Path, name: str) -> None:
    config = config_with(name, CHANGED[name])
    assert config != RunConfig()
    path = tmp_path / "run.toml"
    path.write_text(to_toml(config))
    assert read_toml(path) == config
    assert from_dict(RunConfig, to_dict(config)) == config


@given(
    scale=st.floats(allow_nan=False, allow_infinity=False),
    rate=st.floats(min_value=1e-300, max_value=1e300),
    seed=st.integers(0, 2**63 - 1),
    game=st.text(st.characters(exclude_categories=["Cs"])),
    options=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-5, 5) | st.booleans()),
)
def test_numbers_and_text_survive_toml_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory,
    scale: float,
    rate: float,
    seed: int,
    game: str,
    options: dict[str, Any],
) -> None:
    config = RunConfig(
        seed=seed,
        game=game,
        agent=AgentConfig(learning_rate=rate),
        bonus=BonusConfig(scale=scale, options=options),
    )
    path = tmp_path_factory.mktemp("toml") / "run.toml"
    path.write_text(to_toml(config), encoding="utf-8", newline="")
    back = read_toml(path)
    assert back == config
    assert to_toml(back) == to_toml(config)


def test_a_file_over_a_base_keeps_what_the_base_says(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[agent]\nbatch_size = 64\n")
    base = RunConfig(seed=3, agent=AgentConfig(discount=0.5))
    assert read_toml(path, base) == RunConfig(seed=3, agent=AgentConfig(discount=0.5, batch_size=64))


def test_a_base_is_checked_together_with_what_is_laid_over_it() -> None:
    base = RunConfig(agent=AgentConfig(replay_capacity=100, batch_size=8))
    with pytest.raises(ConfigError, match=r"agent\.replay_capacity"):
        from_dict(RunConfig, {"agent": {"batch_size": 200}}, base=base)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*absent\.toml"):
        read_toml(tmp_path / "absent.toml")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_toml(tmp_path)


@pytest.mark.parametrize("content", [b"seed = ", b"seed = 1\nseed = 2\n", b'method = "\xff"\n'])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"run\.toml is not TOML"):
        read_toml(path)


# Keys and kinds


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sed": 1}, "no setting named 'sed'; did you mean 'seed'?"),
        ({"agnet": {}}, "no setting named 'agnet'; did you mean 'agent'?"),
        ({"world": {"frameskip": 4}}, "no setting named 'world.frameskip'; did you mean 'world.frame_skip'?"),
        (
            {"agent": {"learning_rat": 1}},
            "no setting named 'agent.learning_rat'; did you mean 'agent.learning_rate'?",
        ),
        ({"schedule": {"iteration_step": 1}}, "did you mean 'schedule.iteration_steps'?"),
        ({"exploration": {"epsilon_finale": 1}}, "did you mean 'exploration.epsilon_final'?"),
        ({"bonus": {"scales": 1}}, "no setting named 'bonus.scales'; did you mean 'bonus.scale'?"),
        ({"machine": {"thread": 1}}, "no setting named 'machine.thread'; did you mean 'machine.threads'?"),
        ({"machine": {"zzz": 1}}, "known: checkpoint_minutes, device, threads"),
    ],
)
def test_an_unknown_key_is_refused_with_a_suggestion(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        from_dict(RunConfig, settings)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seed", 1.5, "seed is of kind int, not 1.5"),
        ("seed", True, "seed is of kind int, not True"),
        ("seed", None, "seed is of kind int, not None"),
        ("frames", "many", "frames: 'many' is not a count; write it as 20000, 20k or 200M"),
        ("method", 3, "method is of kind str, not 3"),
        ("world", 3, "world is a table of settings, not 3"),
        ("game", ["pitfall"], "game is of kind str, not ['pitfall']"),
        ("agent.discount", "0.99", "agent.discount is of kind float, not '0.99'"),
        ("agent.discount", False, "agent.discount is of kind float, not False"),
        ("agent.precision", "fp16", "agent.precision is one of 'fp32', 'bf16', not 'fp16'"),
        ("agent.convolution_channels", [32, 64], "agent.convolution_channels takes 3 values, not [32, 64]"),
        ("agent.convolution_channels", 32, "agent.convolution_channels takes 3 values, not 32"),
        ("agent.convolution_channels", [1, 2.5, 3], "agent.convolution_channels is of kind int, not 2.5"),
        ("bonus.clip_sum", 1, "bonus.clip_sum is of kind bool, not 1"),
        ("bonus.options", [], "bonus.options is of kind dict, not []"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_a_sentence(name: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config_with(name, value)
    assert str(refused.value) == message


def test_a_whole_number_stands_for_a_float() -> None:
    scale = config_with("bonus.scale", 2).bonus.scale
    assert (scale, type(scale)) == (2.0, float)


# Counts


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("20000", 20_000),
        ("20_000", 20_000),
        ("20k", 20_000),
        ("20K", 20_000),
        ("1.5M", 1_500_000),
        ("200m", 200_000_000),
        ("204G", 204_000_000_000),
        ("1e6", 1_000_000),
        ("0.001k", 1),
        ("1.1M", 1_100_000),
        ("9007199254740993", 9_007_199_254_740_993),
    ],
)
def test_a_count_is_read_exactly(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    "text",
    ["", "k", "many", "1,000", "20kk", "1.5", "1.2345k", "-1", "-1k", "nan", "inf", "infM", "1e999", "1e30"],
)
def test_what_is_not_a_count_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_count(text)
    assert repr(text) in str(refused.value)


@given(st.integers(0, 10**9 - 1), st.sampled_from([("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9)]))
def test_a_suffix_multiplies(number: int, suffix: tuple[str, int]) -> None:
    assert parse_count(f"{number}{suffix[0]}") == number * suffix[1]


def test_any_whole_number_may_be_written_as_a_count() -> None:
    assert from_dict(RunConfig, {"frames": "200M"}).frames == 200_000_000
    assert from_dict(RunConfig, {"agent": {"replay_capacity": "50k"}}).agent.replay_capacity == 50_000


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("20k", Any, 20_000),
        ("20k", str, "20k"),
        ("'20k'", str, "20k"),
        ("5", str, "5"),
        ("5", str | None, "5"),
        ("5", int | str, 5),
        ("5", float, 5),  # as it stands in files, so that fingerprints agree
        ("5.0", int, 5),
        ("true", bool, True),
        ("False", bool, False),
        ("True", str, "True"),
        ("yes", bool, "yes"),
        ("[1, 2]", tuple[int, int], [1, 2]),
        ("2019", typing.Literal["2019", "2020"], "2019"),
    ],
)
def test_a_value_is_read_by_its_kind(text: str, kind: Any, value: Any) -> None:
    found = parse_value(text, kind)
    assert (found, type(found)) == (value, type(value))


# Ranges

PROBABILITIES = [
    "world.sticky_action_probability",
    "agent.discount",
    "exploration.epsilon_start",
    "exploration.epsilon_final",
    "exploration.epsilon_evaluation",
]
POSITIVE = [
    "world.frame_skip",
    "world.episode_frames",
    "world.stack_frames",
    "agent.return_steps",
    "agent.value_limit",
    "agent.batch_size",
    "agent.update_period_steps",
    "agent.target_update_steps",
    "agent.learning_rate",
    "agent.hidden_units",
    "schedule.iteration_steps",
    "exploration.epsilon_decay_steps",
    "machine.threads",
    "machine.checkpoint_minutes",
]
NOT_NEGATIVE = ["seed", "frames", "agent.adam_epsilon", "schedule.evaluation_steps"]


@pytest.mark.parametrize("name", PROBABILITIES)
@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf])
def test_a_probability_lies_between_zero_and_one(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"^{name} lies between 0 and 1, not at {value}"):
        config_with(name, value)


@pytest.mark.parametrize("name", PROBABILITIES)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_probability_may_be_zero_or_one(name: str, value: float) -> None:
    config_with(name, value)


@pytest.mark.parametrize("name", POSITIVE)
@pytest.mark.parametrize("value", [0, -1])
def test_a_size_is_above_zero(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"^{name} is above 0 and finite, not {value}"):
        config_with(name, value)


@pytest.mark.parametrize("name", NOT_NEGATIVE)
def test_what_may_be_zero_may_not_be_below(name: str) -> None:
    config_with(name, 0)
    with pytest.raises(ConfigError, match=f"^{name} is 0 or above, not -1"):
        config_with(name, -1)


@pytest.mark.parametrize(
    "name",
    [
        "agent.value_limit",
        "agent.learning_rate",
        "agent.adam_epsilon",
        "machine.checkpoint_minutes",
        "bonus.scale",
    ],
)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_is_finite(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"^{name} is .*, not {value}"):
        config_with(name, value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"value_atoms": 1}, "agent.value_atoms is 2 or above, not 1"),
        ({"convolution_channels": [32, 0, 64]}, "agent.convolution_channels are above 0, not (32, 0, 64)"),
        ({"replay_capacity": 32}, "agent.replay_capacity is above 32, not 32"),
        ({"replay_capacity": 7, "batch_size": 1}, "agent.replay_capacity is above 7, not 7"),
        ({"min_history_steps": 7}, "agent.min_history_steps is above 7, not 7"),
    ],
)
def test_an_agent_that_could_not_learn_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        from_dict(RunConfig, {"agent": settings})
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "settings",
    [
        {"value_atoms": 2},
        {"replay_capacity": 33},
        {"replay_capacity": 8, "batch_size": 1},
        {"min_history_steps": 8},
    ],
)
def test_the_smallest_agent_that_can_learn_is_accepted(settings: dict[str, Any]) -> None:
    from_dict(RunConfig, {"agent": settings})


def test_ranges_are_checked_without_a_file_too() -> None:
    with pytest.raises(ConfigError, match="seed is 0 or above"):
        RunConfig(seed=-1)
    with pytest.raises(ConfigError, match=r"machine\.threads is above 0"):
        RunConfig(machine=MachineConfig(threads=0))


# Fingerprints


def test_the_protocol_is_the_one_of_the_paper() -> None:
    assert protocol_settings(RunConfig()) == {
        "results_version": RESULTS_VERSION,
        "world": {
            "frame_skip": 4,
            "sticky_action_probability": 0.25,
            "episode_frames": 108_000,
            "stack_frames": 4,
        },
        "agent": {
            "discount": 0.99,
            "return_steps": 3,
            "value_atoms": 51,
            "value_limit": 10.0,
            "batch_size": 32,
            "replay_capacity": 1_000_000,
            "min_history_steps": 20_000,
            "update_period_steps": 4,
            "target_update_steps": 8_000,
            "learning_rate": 6.25e-5,
            "adam_epsilon": 1.5e-4,
            "convolution_channels": [32, 64, 64],
            "hidden_units": 512,
            "precision": "fp32",
        },
        "schedule": {"iteration_steps": 250_000, "evaluation_steps": 0},
    }


def test_the_default_method_is_epsilon_greedy_without_a_bonus() -> None:
    assert method_settings(RunConfig()) == {
        "exploration": {
            "epsilon_start": 1.0,
            "epsilon_final": 0.01,
            "epsilon_decay_steps": 250_000,
            "epsilon_evaluation": 0.001,
            "noisy": False,
            "noise_scale": 0.5,
            "evaluation_noise": True,
        },
        "bonus": {"name": "none", "options": {}, "scale": 1.0, "clip_sum": True},
    }


def test_a_fingerprint_is_the_start_of_the_sha256_of_sorted_json() -> None:
    # echo -n '{"a":[1,2],"b":0.5}' | sha256sum
    assert fingerprint({"b": 0.5, "a": [1, 2]}) == fingerprint({"a": [1, 2], "b": 0.5}) == "4b8a4d176b97"


@pytest.mark.parametrize("name", CHANGED)
def test_a_setting_changes_the_fingerprint_of_its_own_kind_and_no_other(name: str) -> None:
    default, changed = RunConfig(), config_with(name, CHANGED[name])
    table = name.partition(".")[0]
    is_protocol = table in ("world", "agent", "schedule")
    is_method = table in ("exploration", "bonus")
    assert (fingerprint(protocol_settings(changed)) != fingerprint(protocol_settings(default))) == is_protocol
    assert (fingerprint(method_settings(changed)) != fingerprint(method_settings(default))) == is_method


def test_a_version_with_other_results_has_another_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(protocol_settings(RunConfig()))
    monkeypatch.setattr("offpiste.config.RESULTS_VERSION", RESULTS_VERSION + 1)
    assert fingerprint(protocol_settings(RunConfig())) != before


def test_a_fingerprint_is_the_same_after_toml(tmp_path: Path) -> None:
    config = from_dict(RunConfig, {"bonus": {"scale": 1, "options": {"width": 8}}})
    path = tmp_path / "run.toml"
    path.write_text(to_toml(config))
    assert fingerprint(protocol_settings(read_toml(path))) == fingerprint(protocol_settings(config))
    assert fingerprint(method_settings(read_toml(path))) == fingerprint(method_settings(config))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        ({"sizes": [1, 2.5]}, {"sizes": [1.0, 2.5]}, True),
        (1.5, 1, False),
        (True, 1, False),
        ("1", 1, False),
        ("1.0", "1", False),
    ],
)
def test_an_options_fingerprint_is_that_of_its_value(one: object, other: object, same: bool) -> None:
    prints = {
        fingerprint(method_settings(RunConfig(bonus=BonusConfig(name="rnd", options={"rate": value}))))
        for value in (one, other)
    }
    assert len(prints) == (1 if same else 2)


# Identity


def test_identity_lists_every_setting_but_where_and_how_far_to_run() -> None:
    expected = {name for name in field_names(RunConfig) if not name.startswith("machine.")} - {"frames"}
    assert set(identity(RunConfig())) == expected


@pytest.mark.parametrize("name", CHANGED)
def test_identity_changes_with_every_setting_but_where_and_how_far_to_run(name: str) -> None:
    changed = identity(config_with(name, CHANGED[name])) != identity(RunConfig())
    assert changed == (name != "frames" and not name.startswith("machine."))


def test_identity_names_the_options_of_a_bonus_one_by_one() -> None:
    config = RunConfig(bonus=BonusConfig(options={"width": 8, "inner": {"deep": True, "empty": {}}}))
    found = {key: value for key, value in identity(config).items() if key.startswith("bonus.options")}
    assert found == {
        "bonus.options.width": 8,
        "bonus.options.inner.deep": True,
        "bonus.options.inner.empty": {},
    }


def test_a_run_is_named_by_game_method_and_seed() -> None:
    config = RunConfig(method="rnd", seed=3, game="pitfall")
    assert config.run_id == "pitfall/rnd/seed-3"


@pytest.mark.parametrize("name", ["frames", "machine.threads", "agent.batch_size", "bonus.scale"])
def test_a_run_keeps_its_name_whatever_else_changes(name: str) -> None:
    assert config_with(name, CHANGED[name]).run_id == RunConfig().run_id


@pytest.mark.parametrize("device", ["gpu", "mps", "cuda:", "cuda:x", ""])
def test_a_device_is_the_processor_or_a_gpu_by_number(device: str) -> None:
    with pytest.raises(ConfigError, match=r"^machine.device is cpu, cuda or cuda:N, not "):
        config_with("machine.device", device)


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of kinds that a bonus may have."""

    sizes: tuple[int, ...] = (1,)
    limit: float | None = None
    either: int | str = 0


def test_options_may_be_lists_of_any_length_and_of_one_kind_or_another() -> None:
    found = from_dict(Options, {"sizes": [3, "2k"], "limit": 2, "either": "word"})
    assert found == Options((3, 2_000), 2.0, "word")
    assert from_dict(Options, {}) == Options()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sizes": 3}, "sizes is a list of values, not 3"),
        ({"sizes": [1.5]}, "sizes is of kind int, not 1.5"),
        ({"limit": "x"}, "limit is of kind float, not 'x'"),
        ({"either": 1.5}, "either is of kind int or str, not 1.5"),
    ],
)
def test_options_of_the_wrong_kind_are_refused_in_words(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        from_dict(Options, settings)
