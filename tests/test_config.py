"""The settings of one run: what each may be, and which of them make a run what it is."""

import dataclasses
import math
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from offpiste.config import (
    RESULTS_VERSION,
    AgentConfig,
    BonusConfig,
    MachineConfig,
    RunConfig,
    fingerprint,
    flatten,
    identity,
    method_settings,
    protocol_settings,
)
from offpiste.errors import ConfigError
from offpiste.parsing import Range, field_types, from_dict, read_settings, to_dict, to_toml

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
    "world.frame_size": 42,
    "world.bootstrap_at_limit": True,
    "world.action_set": "full",
    "world.coarse_frame": [16, 16, 8],
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
    "exploration.max_repeat_steps": 10_000,
    "exploration.repeat_exponent": 1.5,
    "exploration.noisy": True,
    "exploration.noise_scale": 0.1,
    "exploration.evaluation_noise": False,
    "bonus.name": "rnd",
    "bonus.options": {"learning_rate": 1e-3},
    "bonus.scale": 0.5,
    "bonus.clip_sum": False,
    "bonus.decay": 1e-6,
    "bonus.extrinsic_scale": 0.0,
    "bonus.normalise": "std",
    "bonus.discount": 0.999,
    "bonus.pays_for": "next_state",
    "bonus.when": "sample",
    "bonus.heads": 2,
    "bonus.value_low": -10.0,
    "bonus.value_high": 10.0,
    "bonus.ends_with_episode": False,
    "bonus.priorities": "loss",
    "machine.device": "cuda:1",
    "machine.threads": 2,
    "machine.checkpoint_minutes": 1.0,
}


NEEDED: dict[str, dict[str, Any]] = {
    "bonus.heads": {"clip_sum": False},
    "bonus.ends_with_episode": {"clip_sum": False, "heads": 2},
}
"""What a changed setting needs beside it, in its own table."""


def settings_with(name: str, value: Any) -> dict[str, Any]:
    table, dot, key = name.rpartition(".")
    return {table: {**NEEDED.get(name, {}), key: value}} if dot else {key: value}


def config_with(name: str, value: Any) -> RunConfig:
    return from_dict(RunConfig, settings_with(name, value))


def read_toml(path: Path, base: RunConfig | None = None) -> RunConfig:
    return from_dict(RunConfig, read_settings(path), base=base)


def field_hints(kind: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, hint in field_types(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from field_hints(hint, f"{name}.")
        else:
            yield f"{prefix}{name}", hint


def field_names(kind: Any) -> list[str]:
    return [name for name, _ in field_hints(kind)]


def test_the_table_of_changed_settings_is_complete() -> None:
    assert list(CHANGED) == field_names(RunConfig)


@pytest.mark.parametrize("name", CHANGED)
def test_each_setting_survives_the_way_to_toml_and_back(tmp_path: Path, name: str) -> None:
    config = config_with(name, CHANGED[name])
    assert config != RunConfig()
    path = tmp_path / "run.toml"
    path.write_text(to_toml(config))
    assert read_toml(path) == config
    assert from_dict(RunConfig, to_dict(config)) == config


# Ranges


def refusal(name: str, value: Any) -> str:
    """Return the message with which a value is refused."""
    with pytest.raises(ConfigError) as refused:
        config_with(name, value)
    return str(refused.value)


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
@pytest.mark.parametrize(
    ("value", "requirement"), [(-0.01, ">= 0"), (1.01, "<= 1"), (math.nan, "finite"), (math.inf, "finite")]
)
def test_a_probability_lies_between_zero_and_one(name: str, value: float, requirement: str) -> None:
    assert refusal(name, value) == f"{name} must be {requirement}, got {value}"


@pytest.mark.parametrize("name", PROBABILITIES)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_probability_may_be_zero_or_one(name: str, value: float) -> None:
    config_with(name, value)


@pytest.mark.parametrize("name", POSITIVE)
@pytest.mark.parametrize("value", [0, -1])
def test_a_size_is_above_zero(name: str, value: int) -> None:
    is_float = isinstance(flatten(to_dict(RunConfig()))[name], float)
    assert refusal(name, value) == (
        f"{name} must be > 0, got {float(value)}" if is_float else f"{name} must be >= 1, got {value}"
    )


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("seed", 2**63 - 1),
        ("frames", 10**12),
        ("world.frame_skip", 60),
        ("world.episode_frames", 10**12),
        ("world.stack_frames", 32),
        ("agent.return_steps", 100),
        ("agent.value_atoms", 1_024),
        ("agent.batch_size", 4_096),
        ("agent.replay_capacity", 10**8),
        ("agent.min_history_steps", 10**12),
        ("agent.update_period_steps", 10**12),
        ("agent.target_update_steps", 10**12),
        ("agent.hidden_units", 8_192),
        ("schedule.iteration_steps", 10**12),
        ("schedule.evaluation_steps", 10**12),
        ("exploration.epsilon_decay_steps", 10**12),
        ("machine.threads", 1_024),
    ],
)
def test_a_whole_number_has_an_upper_end(name: str, largest: int) -> None:
    config_with(name, largest)
    assert refusal(name, largest + 1) == f"{name} must be <= {largest:_}, got {largest + 1}"


def test_no_number_among_the_settings_is_without_a_range() -> None:
    for name, hint in field_hints(RunConfig):
        ranges = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Range)]
        if typing.get_origin(hint) is Annotated and hint.__origin__ is int:
            assert ranges, name
            assert math.isfinite(ranges[0].min), name
            assert math.isfinite(ranges[0].max), name
        else:
            assert hint not in (int, float), name


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("agent.convolution_channels", [32, 0, 64], "agent.convolution_channels[1] must be >= 1, got 0"),
        ("agent.convolution_channels", [32, 64, 513], "agent.convolution_channels[2] must be <= 512, got 513"),
        ("agent.value_limit", 1e10, "agent.value_limit must be <= 1_000_000_000, got 10000000000.0"),
        ("machine.checkpoint_minutes", 1e7, "machine.checkpoint_minutes must be <= 1_000_000, got 10000000.0"),
        ("agent.learning_rate", 10**400, f"agent.learning_rate must be finite, got {10**400}"),
    ],
)
def test_what_no_machine_could_do_is_refused(name: str, value: Any, message: str) -> None:
    assert refusal(name, value) == message


@pytest.mark.parametrize("name", NOT_NEGATIVE)
def test_what_may_be_zero_may_not_be_below(name: str) -> None:
    config_with(name, 0)
    assert refusal(name, -1).startswith(f"{name} must be >= 0, got -1")


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
    assert refusal(name, value) == f"{name} must be finite, got {value}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"value_atoms": 1}, "agent.value_atoms must be >= 2, got 1"),
        ({"replay_capacity": 32}, "agent.replay_capacity must be > 32 (agent.batch_size), got 32"),
        (
            {"replay_capacity": 7, "batch_size": 1},
            "agent.replay_capacity must be > 7 (agent.return_steps + world.stack_frames), got 7",
        ),
        (
            {"min_history_steps": 7},
            "agent.min_history_steps must be > 7 (agent.return_steps + world.stack_frames), got 7",
        ),
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
    with pytest.raises(ConfigError, match=r"^seed must be >= 0, got -1$"):
        RunConfig(seed=-1)
    with pytest.raises(ConfigError, match=r"^machine\.threads must be >= 1, got 0$"):
        RunConfig(machine=MachineConfig(threads=0))
    with pytest.raises(ConfigError, match=r"^agent\.hidden_units must be an int, got 2\.5$"):
        RunConfig(agent=AgentConfig(hidden_units=2.5))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^frames must be 20000, got '20k'$"):
        RunConfig(frames="20k")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^agent must be a table, got 3$"):
        RunConfig(agent=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["gpu", "mps", "cuda:", "cuda:x", ""])
def test_a_device_is_the_processor_or_a_gpu_by_number(device: str) -> None:
    assert refusal("machine.device", device) == f"machine.device must be cpu, cuda or cuda:N, got {device!r}"


@pytest.mark.parametrize("variant", ["a/b", "..", ",b", "seed-1", "a b", "β=1"])
def test_a_variant_is_a_name_for_a_folder(variant: str) -> None:
    assert refusal("variant", variant).startswith("variant must be letters, digits and =,._+- with no ")


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
