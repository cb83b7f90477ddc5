"""Any gymnasium environment as a world: `gymnasium:ID`, or module:World for a class or a function of one's own.

A frame is the observation where that is an image, else what `render()` draws, in grey at `world.frame_size`. A snapshot
is the seed of the episode and the actions since; restoring resets to that seed and replays them. So an environment
needs no help to be resumed exactly, as long as nothing but the seed and the actions decides its course, which `offpiste
check-world` finds out. An environment may have more, all optional:

- `position()` returns row and column of the player, 0 to 31, and maybe a phase, 0 to 7: for oracles and maps;
- `snapshot()` and `restore(snapshot)`, in bytes, are faster than a replay where episodes are long;
- `returns`, an attribute, declares the mean return of random play and of the best policy.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import cv2
import gymnasium
import numpy as np
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.config import WorldConfig
from offpiste.errors import CheckpointError, ConfigError, kind_of
from offpiste.seeding import generator_state, restore_generator
from offpiste.worlds.families import GYMNASIUM, LOCATION, Family, family_of
from offpiste.worlds.games import Game, Returns
from offpiste.worlds.loading import import_module, load_object

MAX_POSITION, MAX_PHASE = 31, 7
_MIN_IMAGE_PIXELS = 16
"""Of a side; a smaller array of bytes is not taken for an image."""
_MAX_ACTIONS = 1_024
_RENDER_FPS = 10


@dataclass(frozen=True)
class Opened:
    """An environment, and how a world plays it."""

    environment: gymnasium.Env[Any, Any]
    max_steps: int | None
    """After which it is to be truncated."""
    family: Family | None


def described(row: Game, environment: str) -> Game:
    """Return the row of an environment with what its code says: whether it has positions, and its returns."""
    opened = make(environment)
    unwrapped = opened.environment.unwrapped
    has_position = callable(getattr(unwrapped, "position", None)) or (
        opened.family is not None and opened.family.position is not None
    )
    returns = row.returns or _declared_returns(environment, getattr(unwrapped, "returns", None))
    opened.environment.close()
    return replace(row, location=row.location or (LOCATION if has_position else None), returns=returns)


def make(name: str) -> Opened:
    """Make the environment of a name, which imports its code."""
    module, _, rest = name.partition(":")
    return _registered(rest) if module == GYMNASIUM else _own(name)


class _Hint:
    """Says with whatever the code of an environment raises how to find out what is wrong with it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            error.add_note(f"`offpiste check-world {self._name}` says what an environment must do")


class GymWorld(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """An environment as a world; states are read-only uint8 stacks [stack, height, width], newest frame last."""

    render_mode = "rgb_array"

    def __init__(self, name: str, opened: Opened, config: WorldConfig, generator: np.random.Generator) -> None:
        """Draw the seeds of episodes and sticky actions from the generator."""
        self.name = name
        self.config = config
        self.np_random = generator
        self._environment, self._family = opened.environment, opened.family
        self._hint = _Hint(name)
        self._own = opened.environment.unwrapped
        space = getattr(opened.environment, "action_space", None)
        if not isinstance(space, gymnasium.spaces.Discrete) or space.n > _MAX_ACTIONS:
            raise ConfigError(
                f"the actions of {name} must be a Discrete of <= {_MAX_ACTIONS:,}, got {space}; wrap the environment "
                "in one that offers some of its actions"
            )
        self._first_action, self.action_count = int(space.start), int(space.n)
        self.action_space = gymnasium.spaces.Discrete(self.action_count)
        self.observation_space = gymnasium.spaces.Box(0, 255, self.state_shape, np.uint8)
        self.max_steps = min(config.episode_frames, opened.max_steps or config.episode_frames)
        """Of the environment, after which an episode is truncated; its own limit may be lower."""
        self._observations = getattr(opened.environment, "observation_space", None)
        self._shows_image = _is_image(self._observations)
        self._position = self._position_of()
        self.can_snapshot = all(callable(getattr(self._own, name, None)) for name in ("snapshot", "restore"))
        """Whether the environment offers its own state."""
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": self._frames_per_second()}
        self._stack = np.zeros(self.state_shape, np.uint8)
        self._seed: int | None = None  # of the episode; None until the first reset
        self._actions: list[int] = []  # of this episode, one for each frame
        self._held_action = 0

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """[stack, height, width] of a state."""
        return self.config.state_shape

    @property
    def action_names(self) -> list[str]:
        """Names of the actions, for people."""
        known: tuple[str, ...] = () if self._family is None else self._family.actions
        return [*known] if len(known) == self.action_count else [str(action) for action in range(self.action_count)]

    @property
    def observation(self) -> NDArray[np.uint8]:
        """The current state, as `reset` or `step` last returned it."""
        return self._stack

    @property
    def ram(self) -> NDArray[np.uint8]:
        """128 bytes; the first three are column and row, times 8, and the phase, or 0 where there are no positions."""
        memory = np.zeros(128, np.uint8)
        if self._position is not None and self._seed is not None:
            with self._hint:
                row, column, phase = self._position()
            memory[LOCATION.x], memory[LOCATION.y], memory[LOCATION.level] = 8 * column, 8 * row, phase
        memory.setflags(write=False)
        return memory

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode, whose seed is drawn; a seed given here seeds these draws."""
        super().reset(seed=seed, options=options)
        self._stack = np.zeros_like(self._stack)
        self._push_frame(self._begin(int(self.np_random.integers(2**31))))
        return self._stack, {}

    def step(self, action: int | np.integer[Any]) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Take one agent step; the reward is unclipped."""
        total, terminated, truncated = 0.0, False, False
        observation: Any = None
        for _ in range(self.config.frame_skip):
            if self.np_random.random() >= self.config.sticky_action_probability:
                self._held_action = int(action)
            observation, reward, terminated, truncated = self._act(self._held_action)
            total += reward
            truncated = truncated or len(self._actions) >= self.max_steps
            if terminated or truncated:
                break
        self._push_frame(observation)
        return self._stack, total, terminated, truncated and not terminated, {}

    def render(self) -> Any:
        """Return what the environment draws in colour, [height, width, 3]; the newest frame where it draws nothing."""
        drawn = self._drawn() if self._environment.render_mode == self.render_mode else None
        if not isinstance(drawn, np.ndarray) or drawn.ndim != 3 or drawn.shape[2] != 3:
            drawn = np.repeat(self._stack[-1][:, :, None], 3, axis=2)
        return drawn

    def snapshot(self) -> bytes:
        """Return the complete state of the world, its generator included."""
        saved = {
            "game": self.name,
            "seed": self._seed,
            "actions": np.array(self._actions, np.int16),
            "held_action": self._held_action,
            "stack": self._stack,
            "generator": generator_state(self.np_random),
        }
        if self.can_snapshot and self._seed is not None:
            own = self._own.snapshot()  # type: ignore[attr-defined]
            if not isinstance(own, bytes):
                raise ConfigError(
                    f"snapshot() of {self.name} must return bytes, got {kind_of(own)}; leave out snapshot() and "
                    "restore() to be restored by a replay of the episode"
                )
            saved["own"] = np.frombuffer(own, np.uint8)
        return arrays.pack(saved)

    def restore(self, snapshot: bytes) -> None:
        """Restore from `snapshot()`, of this process or another."""
        state = arrays.unpack(snapshot)
        if state["game"] != self.name:
            raise ConfigError(f"the snapshot must be of {self.name}, got one of {state['game']}; open that world")
        self._seed, self._actions = None, []
        if state["seed"] is not None:
            self._replay(state)
        self._stack = state["stack"].copy()
        self._stack.setflags(write=False)
        self._held_action = state["held_action"]
        restore_generator(self.np_random, state["generator"])

    def _replay(self, state: Mapping[str, Any]) -> None:
        """Bring the environment to where it was saved, and hold its frame against the one that was saved."""
        observation, actions = self._begin(state["seed"]), state["actions"].tolist()
        frame: NDArray[np.uint8] | None = None
        if self.can_snapshot:
            self._own.restore(state["own"].tobytes())  # type: ignore[attr-defined]
            self._actions = actions
            frame = None if self._shows_image else self._frame(None)
        else:
            for action in actions:
                observation, *_ = self._act(action)
            frame = self._frame(observation)
        if frame is not None and not np.array_equal(frame, state["stack"][-1]):
            raise CheckpointError(
                f"{self.name} plays the saved episode differently from when it was saved; install the version with "
                f"which the run was trained, and see what `offpiste check-world {self.name}` says"
            )

    def _begin(self, seed: int) -> Any:
        self._seed, self._actions, self._held_action = seed, [], 0
        with self._hint:
            observation, _ = self._environment.reset(seed=seed)
        return observation

    def _act(self, action: int) -> tuple[Any, float, bool, bool]:
        self._actions.append(action)
        with self._hint:
            observation, reward, terminated, truncated, _ = self._environment.step(self._first_action + action)
            return observation, float(reward), bool(terminated), bool(truncated)

    def _push_frame(self, observation: Any) -> None:
        stack = np.empty_like(self._stack)
        stack[:-1] = self._stack[1:]
        stack[-1] = self._frame(observation)
        stack.setflags(write=False)
        self._stack = stack

    def _frame(self, observation: Any) -> NDArray[np.uint8]:
        """Return the frame, in grey at its size."""
        if self._family is not None and self._family.frame is not None:
            image: Any = self._family.frame(self._own, observation)
        else:
            image = observation if self._shows_image else self._drawn()
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim not in (2, 3):
            seen = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else kind_of(image)
            origin = (
                "" if self._shows_image else f" from render(), for its observations are {self._observations!s:.100}"
            )
            raise ConfigError(
                f"the frame of {self.name} must be an array uint8 [height, width] or [height, width, 3], got {seen}"
                f"{origin}; let it have observations like that, or a render mode rgb_array in which render() draws them"
            )
        if image.ndim == 3:
            image = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) if image.shape[2] == 3 else image[:, :, 0]
        size = self.config.frame_size
        return np.asarray(cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA), np.uint8)

    def _drawn(self) -> Any:
        try:
            with self._hint:
                return self._environment.render()
        except NotImplementedError:  # as gymnasium.Env has it
            return None

    def _position_of(self) -> Callable[[], tuple[int, int, int]] | None:
        own = getattr(self._own, "position", None)
        if self._family is not None and self._family.position is not None:
            locate = self._family.position
            return lambda: locate(self._own)
        return (lambda: as_position(own(), self.name)) if callable(own) else None

    def _frames_per_second(self) -> int:
        rate = (self._environment.metadata or {}).get("render_fps") or _RENDER_FPS
        return max(int(rate), self.config.frame_skip)


def as_position(found: Any, name: str) -> tuple[int, int, int]:
    """Return what a `position()` returned as row, column and phase; `ConfigError` for anything else."""
    try:
        row, column, phase = (*map(int, found), 0)[:3]
        known = len(found) in (2, 3) and min(row, column, phase) >= 0 and max(row, column) <= MAX_POSITION
    except (TypeError, ValueError):
        known = False
    if not known or phase > MAX_PHASE:
        raise ConfigError(
            f"position() of {name} must return row and column, 0 to {MAX_POSITION}, and maybe a phase, 0 to "
            f"{MAX_PHASE}, got {found!r:.100}; divide coordinates that are larger"
        )
    return row, column, phase


def _registered(environment: str) -> Opened:
    """Make an environment that is registered with gymnasium, without the wrappers that check and that end episodes."""
    family = family_of(environment)
    module, separator, own_id = environment.partition(":")
    wanted = f"the world {GYMNASIUM}:{environment!s}"
    try:
        if separator and not own_id.startswith(":"):
            import_module(module, wanted)
            environment = own_id
        elif family is not None:
            import_module(family.module, wanted)
    except ConfigError as error:
        if family is None:
            raise
        raise ConfigError(f"{error}; install {family.install}") from error
    try:
        spec = gymnasium.spec(environment)
        made = gymnasium.make(
            environment, render_mode=_render_mode(spec), max_episode_steps=-1, disable_env_checker=True
        )
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigError(f"cannot open {wanted}: {error}") from error
    except gymnasium.error.Error as error:
        raise ConfigError(
            f"cannot open {wanted}: {error} If another package registers it, install that, and name it too, as in "
            f"{GYMNASIUM}:package:{environment}"
        ) from error
    except Exception as error:  # of the environment's own code
        raise ConfigError(f"cannot open {wanted}: {type(error).__name__}: {error}") from error
    return Opened(made, spec.max_episode_steps, family)


def _render_mode(spec: Any) -> str | None:
    creator = (
        gymnasium.envs.registration.load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else None
    )
    creator = creator or spec.entry_point
    modes = (getattr(creator, "metadata", None) or {}).get("render_modes", ())
    return "rgb_array" if "rgb_array" in modes or not inspect.isclass(creator) else None


def _own(name: str) -> Opened:
    """Make an environment of the user's own."""
    kind = load_object(name, "the world")
    if not callable(kind):
        raise ConfigError(f"{name} must be a class or a function that makes an environment, got {kind_of(kind)}")
    try:
        takes = inspect.signature(kind).parameters
        made = kind(render_mode="rgb_array") if "render_mode" in takes else kind()
    except Exception as error:
        raise ConfigError(
            f"{name} cannot be made: {type(error).__name__}: {error}; it is called without arguments, but "
            "for render_mode where it takes that; where it needs others, name a function that returns it made"
        ) from error
    if not isinstance(made, gymnasium.Env):
        raise ConfigError(f"{name} must make a gymnasium.Env, got {kind_of(made)}; let the class inherit from it")
    limit = None if made.spec is None else made.spec.max_episode_steps  # of an environment of gymnasium's in a wrapper
    return Opened(made, limit, None)


def _is_image(space: Any) -> bool:
    """Return whether observations are images, rather than codes or features."""
    if not isinstance(space, gymnasium.spaces.Box) or space.dtype != np.uint8:
        return False
    height, width, *channels = (*space.shape, 0, 0)[: max(2, len(space.shape))]
    return min(height, width) >= _MIN_IMAGE_PIXELS and channels in ([], [1], [3])


def _declared_returns(name: str, declared: Any) -> Returns | None:
    if declared is None:
        return None
    try:
        returns = Returns(*map(float, declared))
    except (TypeError, ValueError):
        returns = Returns(np.inf, -np.inf)
    if not -np.inf < returns.random < returns.best < np.inf:
        raise ConfigError(
            f"`returns` of {name} must be the mean return of random play and a higher one of the best policy, got "
            f"{declared!r:.100}"
        )
    return returns
