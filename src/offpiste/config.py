"""The configuration of one run: frozen dataclasses, TOML in and out, and two fingerprints.

The fields fall into three kinds. `world`, `agent` and `schedule` are the *protocol*, the same for every method;
`exploration` and `bonus` are the *method*; `machine` and `frames` say where and how far to run and change nothing
about the experiment. Seeds may be averaged only where protocol and method fingerprints both agree.
"""

import dataclasses
import hashlib
import json
import math
import re
import tomllib
import types
import typing
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

import tomli_w

from offpiste.errors import ConfigError, did_you_mean

RESULTS_VERSION = 3
"""Raised by every change that alters the numbers of a run; a run is not resumed across it unasked."""

PROTOCOL_TABLES = ("world", "agent", "schedule")
"""The tables of settings that every method shares."""

T = TypeVar("T")


@dataclass(frozen=True)
class WorldConfig:
    """The protocol under which a game is played (Machado et al., 2018)."""

    frame_skip: int = 4
    """Emulator frames per agent step."""
    sticky_action_probability: float = 0.25
    """Chance, on each emulator frame, that the console sees the action of the frame before."""
    episode_frames: int = 108_000
    """Emulator frames after which an episode is cut."""
    stack_frames: int = 4
    """Pictures that make up one state."""


@dataclass(frozen=True)
class AgentConfig:
    """Rainbow in Dopamine's form: n-step returns, prioritised replay, C51."""

    discount: float = 0.99
    """Discount per agent step."""
    return_steps: int = 3
    """Rewards summed before bootstrapping (n)."""
    value_atoms: int = 51
    """Points of the value distribution."""
    value_limit: float = 10.0
    """The distribution reaches from minus to plus this value."""
    batch_size: int = 32
    """Transitions per update."""
    replay_capacity: int = 1_000_000
    """Transitions kept, padding included."""
    min_history_steps: int = 20_000
    """Transitions added before learning starts."""
    update_period_steps: int = 4
    """Agent steps between updates."""
    target_update_steps: int = 8_000
    """Agent steps between copies of the online network to the target network."""
    learning_rate: float = 6.25e-5
    """Adam step size."""
    adam_epsilon: float = 1.5e-4
    """Added to the root in Adam's denominator."""
    convolution_channels: tuple[int, int, int] = (32, 64, 64)
    """Output channels of the three convolutions."""
    hidden_units: int = 512
    """Width of the fully connected layer."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16 computes in bfloat16 and keeps float32 master weights; faster only with AMX, AVX512-BF16 or a GPU."""


@dataclass(frozen=True)
class ScheduleConfig:
    """How training is cut into iterations."""

    iteration_steps: int = 250_000
    """An iteration ends with the first episode that ends at or after this many agent steps."""
    evaluation_steps: int = 0
    """Agent steps of evaluation after each iteration, in whole episodes; 0 leaves it out, as the paper's curves do."""


@dataclass(frozen=True)
class ExplorationConfig:
    """How actions are chosen."""

    epsilon_start: float = 1.0
    """Chance of a random action during the warm-up."""
    epsilon_final: float = 0.01
    """Chance of a random action once the decay is over."""
    epsilon_decay_steps: int = 250_000
    """Agent steps from the first to the final value, counted from the end of the warm-up."""
    epsilon_evaluation: float = 0.001
    """Chance of a random action during evaluation."""
    noisy: bool = False
    """Whether the fully connected layers are noisy (Fortunato et al., 2018)."""
    noise_scale: float = 0.5
    """σ0: the noise of a weight starts at this over the root of the layer's inputs."""
    evaluation_noise: bool = True
    """Whether the noise stays on during evaluation, as in the released code."""


@dataclass(frozen=True)
class BonusConfig:
    """Which intrinsic reward is added, and how it is mixed with the game's own."""

    name: str = "none"
    """Name of a bonus (`offpiste methods` lists them), module:Class of one of yours, or none; --bonus for short."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of that bonus, checked by the bonus itself; on the command line --bonus.options.OPTION VALUE."""
    scale: float = 1.0
    """Factor of the bonus (β)."""
    clip_sum: bool = True
    """Whether the sum of clipped reward and scaled bonus is clipped to [-1, 1]."""


@dataclass(frozen=True)
class MachineConfig:
    """Where and how safely to run. Changes the last bits of the numbers at most, never the experiment."""

    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    threads: int = 1
    """Processor threads for the network."""
    checkpoint_minutes: float = 10.0
    """Time between checkpoints, varied a little from run to run so that many runs do not write at once."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides one run."""

    game: str = "montezuma_revenge"
    """Any game that ale-py ships, in snake_case; `offpiste games` lists the twelve of the paper."""
    method: str = "epsilon_greedy"
    """The way of exploring, by name."""
    variant: str = ""
    """What sets this run apart from its method's own constants, as in beta=0.0001,lr=0.0002; part of its folder."""
    seed: int = 0
    """Everything random in the run derives from it."""
    frames: int = 200_000_000
    """Emulator frames after which to stop, not counting those by which iterations run on to end an episode. Ask for
    more later and the run goes on."""
    world: WorldConfig = field(default_factory=WorldConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    bonus: BonusConfig = field(default_factory=BonusConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)

    def __post_init__(self) -> None:
        _check_ranges(self)

    @property
    def run_id(self) -> str:
        """A readable name, also the folder of the run below the output folder."""
        variant = f"/{self.variant}" if self.variant else ""
        return f"{self.game}/{self.method}{variant}/seed-{self.seed}"


def protocol_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings that every method shares; the game is left out, so that games can be compared."""
    settings = to_dict(config)
    shared = {table: settings[table] for table in PROTOCOL_TABLES}
    return {**shared, "results_version": RESULTS_VERSION}


def method_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings that make up the way of exploring; an option of 1.0 is one of 1, however it was typed."""
    settings = to_dict(config)
    options = json.loads(json.dumps(settings["bonus"]["options"]), parse_float=_whole_if_so)
    return {"exploration": settings["exploration"], "bonus": settings["bonus"] | {"options": options}}


def _whole_if_so(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def fingerprint(settings: dict[str, Any]) -> str:
    """Return twelve hexadecimal digits that differ when any setting does."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def identity(config: RunConfig) -> dict[str, Any]:
    """Return, as flat dotted keys, every setting that makes this run this run and no other."""
    settings = to_dict(config)
    del settings["machine"], settings["frames"]
    return flatten(settings)


def to_dict(config: Any) -> dict[str, Any]:
    """Return a configuration as plain JSON and TOML values."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def from_dict(kind: type[T], settings: dict[str, Any], where: str = "", base: T | None = None) -> T:
    """Build a configuration from plain values over the defaults, or over `base`; refuse keys that it does not have."""
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{where}{key}"
        if key not in hints:
            raise ConfigError(f"no setting named {name!r}{did_you_mean(key, hints, where)}")
        if dataclasses.is_dataclass(hints[key]):
            if not isinstance(value, dict):
                raise ConfigError(f"{name} is a table of settings, not {value!r}")
            inner = getattr(base, key) if base is not None else None
            values[key] = from_dict(typing.cast(type[Any], hints[key]), value, f"{name}.", inner)
        else:
            values[key] = _checked(hints[key], value, name)
    if base is not None:
        return typing.cast(T, dataclasses.replace(typing.cast(Any, base), **values))
    needed = [
        item for item in dataclasses.fields(typing.cast(Any, kind)) if item.name not in values and _required(item)
    ]
    if needed:
        raise ConfigError(f"{', '.join(where + item.name for item in needed)} must be set")
    return kind(**values)


def read_toml(path: str | Path, base: RunConfig | None = None) -> RunConfig:
    """Read the configuration of a run from a TOML file."""
    return from_dict(RunConfig, read_settings(path), base=base)


def read_settings(path: str | Path) -> dict[str, Any]:
    """Return what a TOML file says, unchecked."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def to_toml(config: RunConfig) -> str:
    """Return the configuration as TOML that `read_toml` reads back."""
    return tomli_w.dumps(to_dict(config))


def parse_count(text: str) -> int:
    """Read 200M, 20k, 1.5M or 20_000 as a whole number."""
    factors = {"k": 10**3, "m": 10**6, "g": 10**9}
    number, factor = (text[:-1], factors[text[-1].lower()]) if text[-1:].lower() in factors else (text, 1)
    try:
        value = Decimal(number) * factor  # exact, where a float rounds above 2**53
    except ArithmeticError:
        raise ConfigError(f"{text!r} is not a count; write it as 20000, 20k or 200M") from None
    if not value.is_finite() or not 0 <= value < 10**18 or value % 1:
        raise ConfigError(f"{text!r} is not a whole number from 0 to 10**18")
    return int(value)


def parse_value(text: str, kind: Any = Any) -> Any:
    """Read a value as TOML has it or as a count such as 20k; what is not of its kind then is text, if that is."""
    value = _parse_toml(text.lower() if text in ("True", "False") else text)
    with suppress(ConfigError):
        if kind is not Any:
            _checked(kind, value, text)
        return value
    with suppress(ConfigError):
        return _checked(kind, text, text)
    return value  # to be refused with the name of its setting


def _parse_toml(text: str) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
        json.dumps(value)
    except (tomllib.TOMLDecodeError, TypeError):  # a date is TOML too, but no option
        with suppress(ConfigError):
            return parse_count(text)
        return text
    return value


def _checked(hint: Any, value: Any, name: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is Literal:
        if value not in typing.get_args(hint):
            raise ConfigError(f"{name} is one of {', '.join(map(repr, typing.get_args(hint)))}, not {value!r}")
        return value
    if origin in (typing.Union, types.UnionType):
        return _checked_union(hint, value, name)
    if origin is tuple and typing.get_args(hint)[1:] == (...,):
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{name} is a list of values, not {value!r}")
        return tuple(_checked(typing.get_args(hint)[0], item, name) for item in value)
    if origin is tuple:
        if not isinstance(value, list | tuple) or len(value) != len(typing.get_args(hint)):
            raise ConfigError(f"{name} takes {len(typing.get_args(hint))} values, not {value!r}")
        return tuple(_checked(kind, item, name) for kind, item in zip(typing.get_args(hint), value, strict=True))
    expected = origin or hint
    if expected is int and isinstance(value, str):
        try:
            return parse_count(value)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None
    if expected is float and type(value) is int:
        return float(value)
    if not isinstance(value, expected) or (expected is not bool and isinstance(value, bool)):
        kind = expected.__name__ if isinstance(expected, type) else str(expected)
        raise ConfigError(f"{name} is of kind {kind}, not {value!r}")
    return value


def _checked_union(hint: Any, value: Any, name: str) -> Any:
    kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]  # TOML has no word for None
    for kind in kinds:
        with suppress(ConfigError):
            return _checked(kind, value, name)
    told = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise ConfigError(f"{name} is of kind {told}, not {value!r}")


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def check_above_zero(name: str, value: float) -> None:
    """Refuse a setting that is 0, below it or not finite."""
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} is above 0 and finite, not {value}")


def _check_ranges(config: RunConfig) -> None:
    world, agent, machine = config.world, config.agent, config.machine
    probabilities = {
        "world.sticky_action_probability": world.sticky_action_probability,
        "agent.discount": agent.discount,
        "exploration.epsilon_start": config.exploration.epsilon_start,
        "exploration.epsilon_final": config.exploration.epsilon_final,
        "exploration.epsilon_evaluation": config.exploration.epsilon_evaluation,
    }
    for name, value in probabilities.items():
        if not 0.0 <= value <= 1.0:
            raise ConfigError(f"{name} lies between 0 and 1, not at {value}")
    positive = {
        "world.frame_skip": world.frame_skip,
        "world.episode_frames": world.episode_frames,
        "world.stack_frames": world.stack_frames,
        "agent.return_steps": agent.return_steps,
        "agent.value_limit": agent.value_limit,
        "agent.batch_size": agent.batch_size,
        "agent.update_period_steps": agent.update_period_steps,
        "agent.target_update_steps": agent.target_update_steps,
        "agent.learning_rate": agent.learning_rate,
        "agent.hidden_units": agent.hidden_units,
        "schedule.iteration_steps": config.schedule.iteration_steps,
        "exploration.epsilon_decay_steps": config.exploration.epsilon_decay_steps,
        "machine.threads": machine.threads,
        "machine.checkpoint_minutes": machine.checkpoint_minutes,
    }
    for name, value in positive.items():
        check_above_zero(name, value)
    if min(agent.convolution_channels) <= 0:
        raise ConfigError(f"agent.convolution_channels are above 0, not {agent.convolution_channels}")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", machine.device):
        raise ConfigError(f"machine.device is cpu, cuda or cuda:N, not {machine.device!r}")
    not_negative = {
        "seed": config.seed,
        "frames": config.frames,
        "agent.adam_epsilon": agent.adam_epsilon,
        "exploration.noise_scale": config.exploration.noise_scale,
        "schedule.evaluation_steps": config.schedule.evaluation_steps,
    }
    for name, value in not_negative.items():
        if not 0 <= value < math.inf:
            raise ConfigError(f"{name} is 0 or above, not {value}")
    if not re.fullmatch(r"(?!seed-)[\w=+-][\w=+,.-]*|", config.variant, re.ASCII):
        raise ConfigError(
            f"variant is letters, digits and =,._+- and does not begin with seed-; not {config.variant!r}"
        )
    if not math.isfinite(config.bonus.scale):
        raise ConfigError(f"bonus.scale is a finite number, not {config.bonus.scale}")
    if agent.value_atoms < 2:
        raise ConfigError(f"agent.value_atoms is 2 or above, not {agent.value_atoms}")
    unsampled = agent.return_steps + world.stack_frames
    if agent.replay_capacity <= max(agent.batch_size, unsampled):
        most = max(agent.batch_size, unsampled)
        raise ConfigError(f"agent.replay_capacity is above {most}, not {agent.replay_capacity}")
    if not agent.min_history_steps > unsampled:
        raise ConfigError(f"agent.min_history_steps is above {unsampled}, not {agent.min_history_steps}")


def flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return tables within tables as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        is_table = isinstance(value, dict) and value  # an empty one is listed as it is, not left out
        flat |= flatten(value, f"{prefix}{key}.") if is_table else {f"{prefix}{key}": value}
    return flat
