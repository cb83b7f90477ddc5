"""Plain values become dataclasses, or are refused by name with what would do."""

import dataclasses
import math
import re
import typing
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpiste.config import AgentConfig, BonusConfig, RunConfig
from offpiste.errors import ConfigError
from offpiste.parsing import Pattern, Range, check, from_dict, parse_count, parse_value, to_toml
from tests.test_config import config_with, read_toml


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


def test_a_folder_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_toml(tmp_path)


@pytest.mark.parametrize(
    "content", [b"seed = ", b"seed = 1\nseed = 2\n", b'method = "\xff"\n', b"seed = " + 5_000 * b"1"]
)
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"run\.toml is not TOML"):
        read_toml(path)


# Keys and types


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
        ("seed", 1.5, "seed must be an int, got 1.5"),
        ("seed", True, "seed must be an int, got True"),
        ("seed", None, "seed must be an int, got None"),
        ("frames", "many", "frames must be a number, got 'many'; write it as 20000, 20k or 200M"),
        ("method", 3, "method must be a string, got 3"),
        ("world", 3, "world must be a table, got 3"),
        ("game", ["pitfall"], "game must be a string, got ['pitfall']"),
        ("agent.discount", "0.99", "agent.discount must be a float, got '0.99'"),
        ("agent.discount", False, "agent.discount must be a float, got False"),
        ("agent.precision", "fp16", "agent.precision must be one of 'fp32', 'bf16', got 'fp16'"),
        ("agent.convolution_channels", [], "agent.convolution_channels must be a list of 1 to 3 values, got ()"),
        ("agent.convolution_channels", 32, "agent.convolution_channels must be a list, got 32"),
        ("agent.convolution_channels", [1, 2.5, 3], "agent.convolution_channels[1] must be an int, got 2.5"),
        ("bonus.clip_sum", 1, "bonus.clip_sum must be true or false, got 1"),
        ("bonus.options", [], "bonus.options must be a table, got []"),
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


# Options of a bonus


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of kinds that a bonus may have."""

    sizes: tuple[int, ...] = (1,)
    limit: float | None = None
    either: int | str = 0


def test_options_may_be_lists_of_any_length_and_of_one_kind_or_another() -> None:
    found = from_dict(Options, {"sizes": [3, "2k"], "limit": 2, "either": "word"})
    assert found == Options((3, 2_000), 2.0, "word")
    assert from_dict(Options, {}) == from_dict(Options, {"limit": None}) == Options()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": 3}, "sizes must be a list, got 3"),
        ({"sizes": [1.5]}, "sizes[0] must be an int, got 1.5"),
        ({"limit": "x"}, "limit must be a float, got 'x'"),
        ({"either": 1.5}, "either must be an int or a string, got 1.5"),
    ],
)
def test_options_of_the_wrong_kind_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        from_dict(Options, settings)


@dataclasses.dataclass(frozen=True)
class RangedOptions:
    """Options with ranges beside their types."""

    bits: Annotated[int, Range(min=1, max=64)] = 8
    rate: Annotated[float, Range(above=0)] = 0.1
    sizes: list[Annotated[int, Range(min=2)]] = dataclasses.field(default_factory=list)
    limit: Annotated[float, Range(min=-1, max=1)] | None = None
    either: Annotated[int, Range(min=1)] | Literal["all"] = "all"
    word: Annotated[str, Pattern("[a-z]+", "small letters")] = "a"
    marked: Annotated[int, "a mark of somebody else's"] = 0


def test_what_is_in_range_is_taken_with_both_ends() -> None:
    ends: dict[str, Any] = {"bits": "64", "rate": 5e-324, "sizes": [2, 10**30], "limit": -1, "either": 1, "word": "zz"}
    assert from_dict(RangedOptions, ends) == RangedOptions(64, 5e-324, [2, 10**30], -1.0, 1, "zz")
    assert from_dict(RangedOptions, {"bits": 1, "limit": 1}) == RangedOptions(1, limit=1.0)
    assert from_dict(RangedOptions, {"either": "all", "marked": -3}) == RangedOptions(marked=-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bits": 0}, "bonus.options.bits must be >= 1, got 0"),
        ({"bits": 65}, "bonus.options.bits must be <= 64, got 65"),
        ({"bits": "1k"}, "bonus.options.bits must be <= 64, got 1000"),
        ({"bits": 8.0}, "bonus.options.bits must be an int, got 8.0"),
        ({"rate": 0}, "bonus.options.rate must be > 0, got 0.0"),
        ({"rate": math.nan}, "bonus.options.rate must be finite, got nan"),
        ({"rate": math.inf}, "bonus.options.rate must be finite, got inf"),
        ({"sizes": [2, 1]}, "bonus.options.sizes[1] must be >= 2, got 1"),
        ({"limit": 1.5}, "bonus.options.limit must be <= 1, got 1.5"),
        ({"either": 0}, "bonus.options.either must be an int >= 1 or one of 'all', got 0"),
        ({"word": "A"}, "bonus.options.word must be small letters, got 'A'"),
    ],
)
def test_an_option_out_of_its_range_is_refused_with_the_end_that_it_passed(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        from_dict(RangedOptions, settings, "bonus.options.")
    assert str(refused.value) == message
    with pytest.raises(ConfigError, match="must be"):
        check(dataclasses.replace(RangedOptions(), **settings))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Range(), "finite"),
        (Range(min=1), ">= 1"),
        (Range(above=0), "> 0"),
        (Range(min=0, max=1), ">= 0 and <= 1"),
        (Range(min=1, max=100_000), ">= 1 and <= 100_000"),
    ],
)
def test_a_range_is_printed_as_its_ends(found: Range, text: str) -> None:
    assert str(found) == text


@pytest.mark.parametrize("settings", [[], None, 3, "seed"])
def test_settings_that_are_no_table_are_refused(settings: Any) -> None:
    with pytest.raises(ConfigError, match=r"^the settings must be a table, got "):
        from_dict(RunConfig, settings)
