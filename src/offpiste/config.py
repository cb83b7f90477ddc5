"""The settings of one run, as frozen dataclasses, and its two fingerprints.

`world`, `agent` and `schedule` are the *protocol*, the same for every method; `exploration` and `bonus` are the
*method*; `machine` and `frames` say where and how long to train and do not change the experiment. Seeds may be averaged
only where the fingerprints of protocol and method both agree. The upper ends of ranges are far above any use: they keep
an untrusted file from exhausting memory; the largest network and the largest empty replay take a few GB each.
"""

import dataclasses
import functools
import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from offpiste.errors import ConfigError
from offpiste.parsing import Length, Pattern, Range, check, field_types, to_dict

RESULTS_VERSION = 3
"""Raised by every change that alters the numbers of a run; a run of another version is not resumed by default."""

PROTOCOL_TABLES = ("world", "agent", "schedule")
"""The settings that every method shares."""

ADDED_LATER = "added later"
"""Marks a setting that is newer than published runs, as in `Annotated[float, Range(min=0), ADDED_LATER]`. It enters
fingerprints only if it is not at its default, so older runs keep their fingerprints. The default is what those runs
did, and never changes."""

MAX_NAME_BYTES = 255
"""Of a part of a run's path."""
MAX_WEIGHTS = 2**27
"""Of a fully connected layer: half a gigabyte, 30 times Rainbow's."""

_KERNELS_AND_STRIDES = ((8, 4), (4, 2), (3, 1))
"""Of the value network's convolutions, as in Dopamine; `convolution_channels` says how many of them there are."""

Probability = Annotated[float, Range(min=0, max=1)]
Count = Annotated[int, Range(min=1, max=10**12)]
"""Frames or steps, at least one."""
CountOrZero = Annotated[int, Range(min=0, max=10**12)]
Seed = Annotated[int, Range(min=0, max=2**63 - 1)]
Channels = Annotated[int, Range(min=1, max=512)]
CoarseSide = Annotated[int, Range(min=1, max=256)]


class _Table:
    """A table of settings, which is checked however it is made."""

    _name: ClassVar[str] = ""

    def __init_subclass__(cls, name: str | None = None) -> None:
        cls._name = cls._name if name is None else f"{name}."

    def __post_init__(self) -> None:
        check(self, self._name)


@dataclass(frozen=True)
class WorldConfig(_Table, name="world"):
    """The evaluation protocol of the ALE (Machado et al., 2018)."""

    frame_skip: Annotated[int, Range(min=1, max=60)] = 4  # at most a second of play
    """Emulator frames per agent step."""
    sticky_action_probability: Probability = 0.25
    """Probability, on each emulator frame, that the previous action is repeated."""
    episode_frames: Count = 108_000
    """Emulator frames after which an episode is truncated."""
    stack_frames: Annotated[int, Range(min=1, max=32)] = 4
    """Frames stacked in a state."""
    frame_size: Annotated[int, Range(min=8, max=512), ADDED_LATER] = 84
    """Height and width of a frame, in pixels."""
    bootstrap_at_limit: Annotated[bool, ADDED_LATER] = False
    """Whether returns bootstrap from the last state of a truncated episode, instead of treating it as terminal."""
    action_set: Annotated[Literal["minimal", "full"], ADDED_LATER] = "minimal"
    """The actions of an Atari game: those that do something there, as in Dopamine, or all 18."""
    coarse_frame: Annotated[tuple[CoarseSide, CoarseSide, CoarseSide], ADDED_LATER] = (11, 8, 8)
    """Columns, rows and shades of the coarse frames that are cells where the RAM does not locate the player."""

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """[stack, height, width] of a state."""
        return (self.stack_frames, self.frame_size, self.frame_size)


@dataclass(frozen=True)
class AgentConfig(_Table, name="agent"):
    """Rainbow in Dopamine's form: n-step returns, prioritised replay, C51."""

    discount: Probability = 0.99
    """Discount per agent step."""
    return_steps: Annotated[int, Range(min=1, max=100)] = 3
    """n of the n-step returns."""
    value_atoms: Annotated[int, Range(min=2, max=1_024)] = 51
    """Atoms of the value distribution."""
    value_limit: Annotated[float, Range(above=0, max=10**9)] = 10.0
    """The support of the value distribution is [-limit, limit]."""
    batch_size: Annotated[int, Range(min=1, max=4_096)] = 32
    """Transitions per update."""
    replay_capacity: Annotated[int, Range(min=1, max=10**8)] = 1_000_000
    """Transitions in the replay, padding included."""
    min_history_steps: Count = 20_000
    """Transitions added before learning starts: the warm-up."""
    update_period_steps: Count = 4
    """Agent steps between updates."""
    target_update_steps: Count = 8_000
    """Agent steps between copies of the online network to the target network."""
    learning_rate: Annotated[float, Range(above=0)] = 6.25e-5
    """Adam step size."""
    adam_epsilon: Annotated[float, Range(min=0)] = 1.5e-4
    """ε in Adam's denominator."""
    convolution_channels: Annotated[tuple[Channels, ...], Length(min=1, max=3)] = (32, 64, 64)
    """Output channels of up to three convolutions: 8 × 8 with stride 4, 4 × 4 with 2, 3 × 3 with 1."""
    hidden_units: Annotated[int, Range(min=1, max=8_192)] = 512
    """Width of the fully connected layer."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16 computes in bfloat16 and keeps float32 master weights; faster only with AMX, AVX512-BF16 or a GPU."""


@dataclass(frozen=True)
class ScheduleConfig(_Table, name="schedule"):
    """How training is divided into iterations."""

    iteration_steps: Count = 250_000
    """Training steps per iteration, rounded up to the end of an episode."""
    evaluation_steps: CountOrZero = 0
    """Evaluation steps after each iteration, rounded up to the end of an episode; 0 for none, as in the paper."""


@dataclass(frozen=True)
class ExplorationConfig(_Table, name="exploration"):
    """How actions are chosen."""

    epsilon_start: Probability = 1.0
    """ε during the warm-up."""
    epsilon_final: Probability = 0.01
    """ε after the decay."""
    epsilon_decay_steps: Count = 250_000
    """Agent steps of the linear decay, which starts at the end of the warm-up."""
    epsilon_evaluation: Probability = 0.001
    """ε during evaluation."""
    max_repeat_steps: Annotated[int, Range(min=1, max=1_000_000), ADDED_LATER] = 1
    """Agent steps for which a random action is repeated at most; 1 is ε-greedy."""
    repeat_exponent: Annotated[float, Range(min=0, max=100), ADDED_LATER] = 2.0
    """μ: a random action is repeated for n steps with probability proportional to n**-μ (Dabney et al., 2021)."""
    noisy: bool = False
    """Whether the fully connected layers are noisy (Fortunato et al., 2018)."""
    noise_scale: Annotated[float, Range(min=0)] = 0.5
    """σ0: σ of a noisy weight starts at σ0/√inputs."""
    evaluation_noise: bool = True
    """Whether the noise stays on during evaluation, as in the released code."""


@dataclass(frozen=True)
class BonusConfig(_Table, name="bonus"):
    """The intrinsic reward, and how it is mixed with the extrinsic one."""

    name: str = "none"
    """Name of a bonus (`offpiste methods` lists them), module:Class of your own, or none; --bonus for short."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the bonus, fields of its `Options`; on the command line --bonus.options.OPTION VALUE."""
    scale: Annotated[float, Range()] = 1.0
    """β, the factor of the intrinsic reward."""
    clip_sum: bool = True
    """Whether the sum of clipped extrinsic and scaled intrinsic reward is clipped to [-1, 1]."""
    decay: Annotated[Probability, ADDED_LATER] = 0.0
    """Share of β that is lost in each agent step: β_t = β·(1 - decay)^t."""
    extrinsic_scale: Annotated[float, Range(min=0), ADDED_LATER] = 1.0
    """Factor of the clipped extrinsic reward; 0 is pure exploration."""
    normalise: Annotated[Literal["none", "std", "return_std"], ADDED_LATER] = "none"
    """Divide the intrinsic reward by its running deviation (std), or by that of its discounted sum (return_std)."""
    discount: Annotated[Probability, ADDED_LATER] = 0.99
    """γ_I: of the discounted sum of intrinsic rewards, and of the returns of the second head."""
    pays_for: Annotated[Literal["state", "next_state"], ADDED_LATER] = "state"
    """Which frame is shown to a bonus that looks at one: that in which the action was taken, or the next."""
    when: Annotated[Literal["entry", "sample"], ADDED_LATER] = "entry"
    """When a step's intrinsic reward is computed: on entry into the replay, or by a bonus's `score` at each sample."""
    heads: Annotated[int, Range(min=1, max=2), ADDED_LATER] = 1
    """Value heads; with 2 the intrinsic return has one of its own, and actions have the highest Q_E + β·Q_I."""
    value_low: Annotated[float, Range(min=-(10**9), max=10**9), ADDED_LATER] = 0.0
    """Lowest atom of the second head."""
    value_high: Annotated[float, Range(min=-(10**9), max=10**9), ADDED_LATER] = 50.0
    """Highest atom of the second head."""
    ends_with_episode: Annotated[bool, ADDED_LATER] = True
    """Whether the return of the second head ends with the episode; otherwise it continues in the next one."""
    priorities: Annotated[Literal["default", "loss", "divergence"], ADDED_LATER] = "default"
    """New priorities: √loss, the default with one head, or √KL without the target's entropy, that with two heads."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value_low >= self.value_high:
            raise ConfigError(
                f"bonus.value_high must be > bonus.value_low, got {self.value_high:g} and {self.value_low:g}"
            )
        if self.heads == 2 and self.clip_sum:
            raise ConfigError(
                "bonus.clip_sum must be false with bonus.heads = 2, where each head has rewards of its own and there "
                "is no sum; set bonus.clip_sum = false"
            )
        if self.heads == 1 and not self.ends_with_episode:
            raise ConfigError(
                "bonus.ends_with_episode must be true with bonus.heads = 1, whose only return is that of the game; set "
                "bonus.heads = 2 and bonus.clip_sum = false"
            )
        if self.when == "sample" and self.pays_for == "next_state":
            raise ConfigError(
                "bonus.when must be entry with bonus.pays_for = next_state, since a batch is scored as it lies in the "
                "replay, where states come first; set one of the two to its default"
            )
        if self.when == "sample" and not self.ends_with_episode:
            raise ConfigError(
                "bonus.when must be entry with bonus.ends_with_episode = false, since a batch holds no frames of the "
                "next episode to score; set one of the two to its default"
            )


@dataclass(frozen=True)
class MachineConfig(_Table, name="machine"):
    """Where to train and how often to save; changes the last bits of the numbers at most, never the experiment."""

    device: Annotated[str, Pattern(r"cpu|cuda(:\d+)?", "cpu, cuda or cuda:N")] = "cpu"
    """cpu, cuda or cuda:N."""
    threads: Annotated[int, Range(min=1, max=1_024)] = 1
    """CPU threads of torch."""
    checkpoint_minutes: Annotated[float, Range(above=0, max=10**6)] = 10.0
    """Minutes between checkpoints, varied by 10% between runs so that many runs do not write at once."""


_VARIANT = Pattern(
    r"(?!seed-)[\w=+-][\w=+,.-]*|", "letters, digits and =,._+- with no dot, comma or seed- at the start"
)


@dataclass(frozen=True)
class RunConfig(_Table):
    """All settings of one run."""

    game: str = "montezuma_revenge"
    """A game that ale-py ships, in snake_case, a world of `offpiste games`, gymnasium:ID or module:World."""
    method: str = "epsilon_greedy"
    """Name of the exploration method."""
    variant: Annotated[str, _VARIANT] = ""
    """How this run differs from its method's constants, as in beta=0.0001,lr=0.0002; part of its folder's path."""
    seed: Seed = 0
    """Seeds all randomness of the run."""
    frames: CountOrZero = 200_000_000
    """Emulator frames to train for; iterations may overshoot to finish an episode. Raise it later to resume the run."""
    world: WorldConfig = field(default_factory=WorldConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    bonus: BonusConfig = field(default_factory=BonusConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_network(self.world, self.agent)
        _check_replay(self.world, self.agent)

    @property
    def run_id(self) -> str:
        """A readable name, and the path of the run in the output folder, where gymnasium:a/b-v0 is gymnasium.a.b-v0."""
        variant = f"/{self.variant}" if self.variant else ""
        return f"{re.sub('[:/]', '.', self.game)}/{self.method}{variant}/seed-{self.seed}"


def counted_steps(iterations: int, steps: int, iteration_steps: int) -> int:
    """Return the training steps of this many iterations that are over, evaluation included, and of steps since.

    An iteration counts for `iteration_steps`, however late its last episode ended, and in full only once it is over: a
    run in its last evaluation lacks one step.
    """
    return iterations * iteration_steps + min(steps, iteration_steps - 1)


def check_name(config: RunConfig) -> None:
    """Raise `ConfigError` for a run whose name no disk takes as that of a folder."""
    for key in ("game", "method", "variant"):
        if (length := len(getattr(config, key).encode(errors="replace"))) > MAX_NAME_BYTES:
            raise ConfigError(f"{key} must have <= {MAX_NAME_BYTES} bytes, got {length:,}; it names a folder")


class Convolution(NamedTuple):
    """A convolution of the value network, with SAME padding."""

    inputs: int
    """Channels."""
    outputs: int
    """Channels."""
    kernel: int
    stride: int
    size: tuple[int, int]
    """Height and width of its input."""


def value_network(agent: AgentConfig, state_shape: tuple[int, int, int]) -> tuple[list[Convolution], int]:
    """Return the convolutions of the value network for states [stack, height, width], and how many features follow."""
    inputs, height, width = state_shape
    convolutions = []
    for outputs, (kernel, stride) in zip(agent.convolution_channels, _KERNELS_AND_STRIDES, strict=False):
        convolutions.append(Convolution(inputs, outputs, kernel, stride, (height, width)))
        inputs, height, width = outputs, math.ceil(height / stride), math.ceil(width / stride)
    return convolutions, inputs * height * width


def _check_network(world: WorldConfig, agent: AgentConfig) -> None:
    """Raise `ConfigError` for a network whose fully connected layer would fill the memory."""
    _, features = value_network(agent, world.state_shape)
    weights = features * agent.hidden_units
    if weights > MAX_WEIGHTS:
        raise ConfigError(
            f"the fully connected layer must have <= {MAX_WEIGHTS:,} weights, got {weights:,}; lower world.frame_size, "
            "agent.convolution_channels or agent.hidden_units"
        )


def _check_replay(world: WorldConfig, agent: AgentConfig) -> None:
    """Raise `ConfigError` for a replay from which no batch can be sampled."""
    unsampled = agent.return_steps + world.stack_frames
    held = {"agent.batch_size": agent.batch_size, "agent.return_steps + world.stack_frames": unsampled}
    what, minimum = max(held.items(), key=lambda item: item[1])
    if agent.replay_capacity <= minimum:
        raise ConfigError(f"agent.replay_capacity must be > {minimum} ({what}), got {agent.replay_capacity}")
    if agent.min_history_steps <= unsampled:
        raise ConfigError(
            f"agent.min_history_steps must be > {unsampled} (agent.return_steps + world.stack_frames), "
            f"got {agent.min_history_steps}"
        )


def protocol_settings(config: RunConfig, results_version: int | None = None) -> dict[str, Any]:
    """Return the settings that every method shares, without the game, so that games can be compared.

    They are those of the present results version, unless another is given.
    """
    settings = _fingerprinted(config)
    shared = {table: settings[table] for table in PROTOCOL_TABLES if table in settings}
    return {**shared, "results_version": results_version or RESULTS_VERSION}


def method_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings of the method; an option typed 1.0 equals one typed 1."""
    settings = _fingerprinted(config)
    options = json.loads(json.dumps(settings["bonus"]["options"]), parse_float=_whole_if_so)
    return {"exploration": settings["exploration"], "bonus": settings["bonus"] | {"options": options}}


def _whole_if_so(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _fingerprinted(settings: Any) -> dict[str, Any]:
    """Return settings as plain values, without those marked ADDED_LATER that are at their defaults."""
    hints, defaults = field_types(type(settings)), vars(type(settings)())
    kept = {
        key: _fingerprinted(value) if dataclasses.is_dataclass(value) else value
        for key, value in vars(settings).items()
        if value != defaults[key] or ADDED_LATER not in getattr(hints[key], "__metadata__", ())
    }
    plain: dict[str, Any] = json.loads(json.dumps(kept))
    return plain


def fingerprint(settings: dict[str, Any]) -> str:
    """Return twelve hexadecimal digits of a hash of the settings."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def identity(config: RunConfig) -> dict[str, Any]:
    """Return, by dotted key, every setting that identifies a run: all but `machine` and `frames`."""
    settings = to_dict(config)
    del settings["machine"], settings["frames"]
    return flatten(settings)


def later_defaults() -> dict[str, Any]:
    """Return, by dotted key, the settings that an older run.json lacks, with their values."""
    return _later_defaults(RunConfig)


@functools.cache  # a thousand runs ask for it
def _later_defaults(kind: type[RunConfig]) -> dict[str, Any]:
    default = kind()
    old = flatten(_fingerprinted(default))
    return {key: value for key, value in identity(default).items() if key not in old}


def flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one, by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        is_table = isinstance(value, dict) and value  # an empty table is kept as a value
        flat |= flatten(value, f"{prefix}{key}.") if is_table else {f"{prefix}{key}": value}
    return flat
