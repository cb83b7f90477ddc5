"""One Atari game under the paper's protocol, as a gymnasium environment that is saved and restored exactly.

The protocol is Dopamine's (Machado et al., 2018): sticky actions, frame skip 4, pixelwise maximum of the last two
screens in grey, area-averaged to 84×84, stacks of four, no end at the loss of a life. Departures: sticky actions are
drawn here and not by the emulator, whose saved state lacks the action it would repeat; and the last frame of an
episode, which no agent learns from, is the final screen.

A snapshot holds the emulator's state before the episode and the action of each frame since; restoring replays them. The
state alone does not do: in ale-py 0.12.1 it lacks what the video chip has drawn of a frame, and whether it was finished
(`myPartialFrameFlag`), so Q*bert and Tetris take another course in a fresh emulator. A reset sets all of this anew.
"""

from typing import Any

import cv2
import gymnasium
import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode, roms
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.config import WorldConfig
from offpiste.errors import CheckpointError, ConfigError, did_you_mean
from offpiste.seeding import generator_state, restore_generator

_NOOP = 0


class AtariGame(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """One game; states are read-only uint8 stacks [stack, height, width], newest frame last."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012 (gymnasium's own form)
    render_mode = "rgb_array"

    def __init__(
        self,
        name: str,
        config: WorldConfig,
        generator: np.random.Generator,
        emulator: ALEInterface | None = None,
    ) -> None:
        """Start the game; `generator` draws sticky actions and the emulator's seed."""
        self.name = name
        self.config = config
        self.np_random = generator
        self._emulator = emulator or start_emulator(name, int(generator.integers(2**31)))
        every = config.action_set == "full"
        self._actions = self._emulator.getLegalActionSet() if every else self._emulator.getMinimalActionSet()
        self.action_space = gymnasium.spaces.Discrete(len(self._actions))
        self.observation_space = gymnasium.spaces.Box(0, 255, self.state_shape, np.uint8)
        height, width = self._emulator.getScreenDims()
        self._screens = np.zeros((2, height, width), np.uint8)
        self._stack = np.zeros(self.state_shape, np.uint8)
        self._held_action = _NOOP
        self._episode_steps = 0
        self._before_episode: ALEState | None = None  # None until the first reset
        self._frame_actions = bytearray()  # of this episode, one for each frame

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """[stack, height, width] of a state."""
        return self.config.state_shape

    @property
    def action_count(self) -> int:
        """Number of actions."""
        return len(self._actions)

    @property
    def action_names(self) -> list[str]:
        """Names of the actions, for people."""
        return [action.name for action in self._actions]

    @property
    def observation(self) -> NDArray[np.uint8]:
        """The current state, as `reset` or `step` last returned it."""
        return self._stack

    @property
    def ram(self) -> NDArray[np.uint8]:
        """The console's 128 bytes of RAM."""
        ram: NDArray[np.uint8] = self._emulator.getRAM()
        ram.setflags(write=False)
        return ram

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode; a seed restarts the emulator and its randomness."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._emulator = start_emulator(self.name, int(self.np_random.integers(2**31)))
        self._before_episode = self._emulator.cloneState(include_rng=True)
        self._emulator.reset_game()
        self._frame_actions.clear()
        self._held_action = _NOOP
        self._episode_steps = 0
        self._read_one_screen()
        self._stack = np.zeros_like(self._stack)
        self._push_frame()
        return self._stack, {}

    def step(self, action: int | np.integer[Any]) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Take one agent step; the reward is unclipped."""
        wanted = self._actions[action].value
        skip = self.config.frame_skip
        reward = 0.0
        game_over = False
        for frame in range(skip):
            if self.np_random.random() >= self.config.sticky_action_probability:
                self._held_action = wanted
            self._frame_actions.append(self._held_action)
            reward += self._emulator.act(self._held_action)
            game_over = self._emulator.game_over()
            if game_over:
                self._read_one_screen()
                break
            if frame >= skip - 2:
                self._emulator.getScreenGrayscale(self._screens[frame - (skip - 2)])
        self._push_frame()
        self._episode_steps += 1
        truncated = not game_over and self._episode_steps * skip >= self.config.episode_frames
        return self._stack, reward, game_over, truncated, {}

    def render(self) -> Any:
        """Return the screen in colour, [height, width, 3]."""
        return self._emulator.getScreenRGB()

    def snapshot(self) -> bytes:
        """Return the complete state of the game, its generator included."""
        if self._before_episode is None:
            progress = {"emulator": _serialised(self._emulator.cloneState(include_rng=True))}
        else:
            progress = {
                "before_episode": _serialised(self._before_episode),
                "frame_actions": np.frombuffer(bytes(self._frame_actions), np.uint8),
                "ram": self.ram,
            }
        return arrays.pack(
            progress
            | {
                "game": self.name,
                "stack": self._stack,
                "held_action": self._held_action,
                "episode_steps": self._episode_steps,
                "generator": generator_state(self.np_random),
            }
        )

    def restore(self, snapshot: bytes) -> None:
        """Restore from `snapshot()`, of this process or another, by replaying the episode."""
        state = arrays.unpack(snapshot)
        if state["game"] != self.name:
            raise ConfigError(f"the snapshot must be of {self.name}, got one of {state['game']}; open that game")
        if "before_episode" in state:
            self._replay(state["before_episode"].tobytes(), state["frame_actions"].tobytes())
            if not np.array_equal(self.ram, state["ram"]):
                raise CheckpointError(
                    f"this emulator plays the saved episode of {self.name} differently from the one that saved it; "
                    "install the version of ale-py with which the run was trained"
                )
        else:  # before the first reset, as after opening
            self._emulator.restoreState(ALEState(state["emulator"].tobytes()))
            self._before_episode = None
        self._stack = state["stack"].copy()
        self._stack.setflags(write=False)
        self._held_action = state["held_action"]
        self._episode_steps = state["episode_steps"]
        restore_generator(self.np_random, state["generator"])

    def _replay(self, before_episode: bytes, frame_actions: bytes) -> None:
        self._before_episode = ALEState(before_episode)
        self._emulator.restoreState(self._before_episode)
        self._emulator.reset_game()
        for action in frame_actions:
            self._emulator.act(action)
        self._frame_actions = bytearray(frame_actions)

    def _read_one_screen(self) -> None:
        self._screens[0] = 0  # stays zero when frame_skip is 1: each frame is then one screen
        self._emulator.getScreenGrayscale(self._screens[1])

    def _push_frame(self) -> None:
        pooled = np.maximum(self._screens[0], self._screens[1])
        stack = np.empty_like(self._stack)
        stack[:-1] = self._stack[1:]
        stack[-1] = cv2.resize(pooled, self.state_shape[:0:-1], interpolation=cv2.INTER_AREA)
        stack.setflags(write=False)
        self._stack = stack


def start_emulator(game: str, seed: int) -> ALEInterface:
    """Return an emulator with the game loaded, without its own sticky actions and frame limit."""
    if game not in known_games():
        raise ConfigError(f"no game named {game!r}{did_you_mean(game, known_games())}")
    ALEInterface.setLoggerMode(LoggerMode.Error)
    emulator = ALEInterface()
    emulator.setInt("random_seed", seed)
    emulator.setFloat("repeat_action_probability", 0.0)
    emulator.setInt("max_num_frames_per_episode", 0)
    path = roms.get_rom_path(game)
    if path is None:
        raise ConfigError(f"ale-py has no ROM of {game}; reinstall ale-py")
    if ALEInterface.isSupportedROM(path) is None:  # `loadROM` would end the process
        raise ConfigError(f"ALE cannot play {game}, which is for more than one player; choose another game")
    emulator.loadROM(path)
    return emulator


def known_games() -> list[str]:
    """Return every game that ale-py ships."""
    return sorted(roms.get_all_rom_ids())


def _serialised(state: ALEState) -> NDArray[np.uint8]:
    return np.frombuffer(state.serialize(), np.uint8)
