"""The settings of one run, as frozen dataclasses, and its two fingerprints.

The fields fall into three kinds. `world`, `agent` and `schedule` are the *protocol*, the same for every method;
`exploration` and `bonus` are the *method*; `machine` and `frames` say where and how far to run and change nothing
about the experiment. Seeds may be averaged only where protocol and method fingerprints both agree.

Ranges stand beside the fields. Their upper ends are far above any use: they keep a file from somebody else from asking
for more than a machine has. The largest network and the largest empty replay take a few gigabytes each.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from offpiste.errors import ConfigError
from offpiste.parsing import Length, Pattern, Range, check, field_types, to_dict

RESULTS_VERSION = 3
"""Raised by every change that alters the numbers of a run; a run is not resumed across it unasked."""

PROTOCOL_TABLES = ("world", "agent", "schedule")
"""The tables of settings that every method shares."""

ADDED_LATER = "added later"
"""Marks a setting that is younger than published runs, as in `Annotated[float, Range(min=0), ADDED_LATER]`. It enters
fingerprints only where it is not at its default, so runs from before keep their fingerprints. The default is what those
runs did, and never changes."""

Probability = Annotated[float, Range(min=0, max=1)]
Count = Annotated[int, Range(min=1, max=10**12)]
"""Frames or steps, at least one."""
CountOrZero = Annotated[int, Range(min=0, max=10**12)]
Seed = Annotated[int, Range(min=0, max=2**63 - 1)]
Channels = Annotated[int, Range(min=1, max=512)]


@dataclass(frozen=True)
class WorldConfig:
    """The protocol under which a game is played (Machado et al., 2018)."""

    frame_skip: Annotated[int, Range(min=1, max=60)] = 4  # at most a second of play
    """Emulator frames per agent step."""
    sticky_action_probability: Probability = 0.25
    """Chance, on each emulator frame, that the console sees the action of the frame before."""
    episode_frames: Count = 108_000
    """Emulator frames after which an episode is cut."""
    stack_frames: Annotated[int, Range(min=1, max=32)] = 4
    """Frames that make up one state."""
    frame_size: Annotated[int, Range(min=8, max=512), ADDED_LATER] = 84
    """Height and width of a frame, in pixels."""
    bootstrap_at_limit: Annotated[bool, ADDED_LATER] = False
    """Whether returns bootstrap from the state in which an episode was cut, instead of taking it for game over."""

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """Frames stacked in a state, their height and their width."""
        return (self.stack_frames, self.frame_size, self.frame_size)


@dataclass(frozen=True)
class AgentConfig:
    """Rainbow in Dopamine's form: n-step returns, prioritised replay, C51."""

    discount: Probability = 0.99
    """Discount per agent step."""
    return_steps: Annotated[int, Range(min=1, max=100)] = 3
    """Rewards summed before bootstrapping (n)."""
    value_atoms: Annotated[int, Range(min=2, max=1_024)] = 51
    """Points of the value distribution."""
    value_limit: Annotated[float, Range(above=0, max=10**9)] = 10.0
    """The distribution reaches from minus to plus this value."""
    batch_size: Annotated[int, Range(min=1, max=4_096)] = 32
    """Transitions per update."""
    replay_capacity: Annotated[int, Range(min=1, max=10**8)] = 1_000_000
    """Transitions kept, padding included."""
    min_history_steps: Count = 20_000
    """Transitions added before learning starts."""
    update_period_steps: Count = 4
    """Agent steps between updates."""
    target_update_steps: Count = 8_000
    """Agent steps between copies of the online network to the target network."""
    learning_rate: Annotated[float, Range(above=0)] = 6.25e-5
    """Adam step size."""
    adam_epsilon: Annotated[float, Range(min=0)] = 1.5e-4
    """Added to the root in Adam's denominator."""
    convolution_channels: Annotated[tuple[Channels, ...], Length(min=1, max=3)] = (32, 64, 64)
    """Output channels of the convolutions: 8 × 8 with stride 4, 4 × 4 with 2, 3 × 3 with 1; or of the first of them."""
    hidden_units: Annotated[int, Range(min=1, max=8_192)] = 512
    """Width of the fully connected layer."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16 computes in bfloat16 and keeps float32 master weights; faster only with AMX, AVX512-BF16 or a GPU."""


@dataclass(frozen=True)
class ScheduleConfig:
    """How training is cut into iterations."""

    iteration_steps: Count = 250_000
    """An iteration ends with the first episode that ends at or after this many agent steps."""
    evaluation_steps: CountOrZero = 0
    """Agent steps of evaluation after each iteration, in whole episodes; 0 leaves it out, as the paper's curves do."""


@dataclass(frozen=True)
class ExplorationConfig:
    """How actions are chosen."""

    epsilon_start: Probability = 1.0
    """Chance of a random action during the warm-up."""
    epsilon_final: Probability = 0.01
    """Chance of a random action once the decay is over."""
    epsilon_decay_steps: Count = 250_000
    """Agent steps from the first to the final value, counted from the end of the warm-up."""
    epsilon_evaluation: Probability = 0.001
    """Chance of a random action during evaluation."""
    noisy: bool = False
    """Whether the fully connected layers are noisy (Fortunato et al., 2018)."""
    noise_scale: Annotated[float, Range(min=0)] = 0.5
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
    scale: Annotated[float, Range()] = 1.0
    """Factor of the bonus (β)."""
    clip_sum: bool = True
    """Whether the sum of clipped reward and scaled bonus is clipped to [-1, 1]."""


@dataclass(frozen=True)
class MachineConfig:
    """Where and how safely to run. Changes the last bits of the numbers at most, never the experiment."""

    device: Annotated[str, Pattern(r"cpu|cuda(:\d+)?", "cpu, cuda or cuda:N")] = "cpu"
    """cpu, cuda or cuda:N."""
    threads: Annotated[int, Range(min=1, max=1_024)] = 1
    """Processor threads for the network."""
    checkpoint_minutes: Annotated[float, Range(above=0, max=10**6)] = 10.0
    """Time between checkpoints, varied a little from run to run so that many runs do not write at once."""


_VARIANT = Pattern(
    r"(?!seed-)[\w=+-][\w=+,.-]*|", "letters, digits and =,._+- with no dot, comma or seed- at the start"
)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides one run."""

    game: str = "montezuma_revenge"
    """Any game that ale-py ships, in snake_case; `offpiste games` lists the twelve of the paper."""
    method: str = "epsilon_greedy"
    """The way of exploring, by name."""
    variant: Annotated[str, _VARIANT] = ""
    """What sets this run apart from its method's own constants, as in beta=0.0001,lr=0.0002; part of its folder."""
    seed: Seed = 0
    """Everything random in the run derives from it."""
    frames: CountOrZero = 200_000_000
    """Emulator frames after which to stop, not counting those by which iterations run on to end an episode. Ask for
    more later and the run goes on."""
    world: WorldConfig = field(default_factory=WorldConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    bonus: BonusConfig = field(default_factory=BonusConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)

    def __post_init__(self) -> None:
        check(self)
        _check_replay(self.world, self.agent)

    @property
    def run_id(self) -> str:
        """A readable name, also the folder of the run below the output folder."""
        variant = f"/{self.variant}" if self.variant else ""
        return f"{self.game}/{self.method}{variant}/seed-{self.seed}"


def _check_replay(world: WorldConfig, agent: AgentConfig) -> None:
    """Refuse a replay from which no batch could be drawn."""
    unsampled = agent.return_steps + world.stack_frames
    held = {"agent.batch_size": agent.batch_size, "agent.return_steps + world.stack_frames": unsampled}
    what, least = max(held.items(), key=lambda item: item[1])
    if agent.replay_capacity <= least:
        raise ConfigError(f"agent.replay_capacity must be > {least} ({what}), got {agent.replay_capacity}")
    if agent.min_history_steps <= unsampled:
        raise ConfigError(
            f"agent.min_history_steps must be > {unsampled} (agent.return_steps + world.stack_frames), "
            f"got {agent.min_history_steps}"
        )


def protocol_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings that every method shares; the game is left out, so that games can be compared."""
    settings = _fingerprinted(config)
    shared = {table: settings[table] for table in PROTOCOL_TABLES if table in settings}
    return {**shared, "results_version": RESULTS_VERSION}


def method_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings that make up the way of exploring; an option of 1.0 is one of 1, however it was typed."""
    settings = _fingerprinted(config)
    options = json.loads(json.dumps(settings["bonus"]["options"]), parse_float=_whole_if_so)
    return {"exploration": settings["exploration"], "bonus": settings["bonus"] | {"options": options}}


def _whole_if_so(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _fingerprinted(settings: Any) -> dict[str, Any]:
    """Return settings as plain values, without those that were added later and are at their defaults."""
    hints, defaults = field_types(type(settings)), vars(type(settings)())
    kept = {
        key: _fingerprinted(value) if dataclasses.is_dataclass(value) else value
        for key, value in vars(settings).items()
        if value != defaults[key] or ADDED_LATER not in getattr(hints[key], "__metadata__", ())
    }
    plain: dict[str, Any] = json.loads(json.dumps(kept))
    return plain


def fingerprint(settings: dict[str, Any]) -> str:
    """Return twelve hexadecimal digits that differ when any setting does."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def identity(config: RunConfig) -> dict[str, Any]:
    """Return, as flat dotted keys, every setting that makes this run this run and no other."""
    settings = to_dict(config)
    del settings["machine"], settings["frames"]
    return flatten(settings)


def later_defaults() -> dict[str, Any]:
    """Return, as flat dotted keys, what a run.json means that is older than the settings that were added later."""
    default = RunConfig()
    old = flatten(_fingerprinted(default))
    return {key: value for key, value in identity(default).items() if key not in old}


def flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return tables within tables as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        is_table = isinstance(value, dict) and value  # an empty one is listed as it is, not left out
        flat |= flatten(value, f"{prefix}{key}.") if is_table else {f"{prefix}{key}": value}
    return flat
