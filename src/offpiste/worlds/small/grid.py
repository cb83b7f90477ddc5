"""What the small worlds share: an MDP as a table of outcomes, drawn as cells, played as a gymnasium environment.

A world defines its start states, the outcomes of an action in a state, and how a state is drawn. Steps are sampled from
the same outcomes from which random and best return are computed, so the two cannot differ. Visual distractors, such as
noise on a screen (`looks`), are not part of the MDP's state.
"""

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.config import WorldConfig
from offpiste.errors import ConfigError
from offpiste.seeding import generator_state, restore_generator
from offpiste.worlds.games import Location, Returns
from offpiste.worlds.small.turn import Turn, unturned

State = tuple[int, ...]
Cells = NDArray[np.uint8]
"""Kinds of cells, [rows, columns]."""

EMPTY, WALL, PLAYER, GOAL, KEY, DOOR, BALL, COIN = range(8)
_SHADES = np.array([0, 64, 255, 160, 192, 96, 224, 128], np.uint8)
"""The grey of each kind in a frame; in eight shades all differ, except the player and the ball."""
_COLOURS = np.array(
    [
        (18, 22, 34),
        (98, 108, 128),
        (255, 255, 255),
        (255, 190, 0),
        (80, 200, 255),
        (190, 90, 60),
        (255, 120, 120),
        (150, 120, 40),
    ],
    np.uint8,
)
_MIN_CELL_PIXELS = 2
_RENDERED_CELL_PIXELS = 12
LOCATION = Location(x=0, y=1, room=2)
"""The first bytes of RAM are column and row, times 8, and the rest of the state."""
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


class Outcome(NamedTuple):
    """One outcome of an action: its probability, the next state and the reward."""

    probability: float
    state: State
    reward: float = 0.0


class SmallWorld(gymnasium.Env[NDArray[np.uint8], np.int64], ABC):
    """A world defined by a table of outcomes; a state is drawn as one frame."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 (gymnasium's own form)
    render_mode = "rgb_array"
    actions: ClassVar[tuple[str, ...]] = tuple(MOVES)
    """Names of the actions, for people."""
    shape: ClassVar[tuple[int, int]]
    """Rows and columns of cells."""
    limit: ClassVar[int]
    """Agent steps after which an episode is truncated."""
    goal_return: ClassVar[float] = 0.0
    """As in `Game`."""

    def __init__(self, config: WorldConfig, generator: np.random.Generator, turn: Turn | None = None) -> None:
        """Draw all randomness from the generator; the MDP does not depend on the turn."""
        name, min_size = type(self).__name__, _MIN_CELL_PIXELS * max(self.shape)
        timing = (config.frame_skip, config.stack_frames, config.sticky_action_probability)
        if timing != (1, 1, 0.0):
            raise ConfigError(
                f"in {name}, world.frame_skip and world.stack_frames must be 1 and world.sticky_action_probability 0, "
                f"got {', '.join(map(str, timing))}"
            )
        if config.frame_size < min_size:
            raise ConfigError(f"in {name}, world.frame_size must be >= {min_size}, got {config.frame_size}")
        self.config = config
        self.np_random = generator
        self._turn = turn or unturned(self.action_count)
        self.action_space = gymnasium.spaces.Discrete(self.action_count)
        self.observation_space = gymnasium.spaces.Box(0, 255, self.state_shape, np.uint8)
        self._scale = config.frame_size // max(self.shape)
        self._state: State = self.starts()[0].state
        self._steps = 0
        self._looks = np.zeros(0, np.uint8)
        self._observation = np.zeros(self.state_shape, np.uint8)

    @abstractmethod
    def starts(self) -> list[Outcome]:
        """Return the start states, with their probabilities."""

    @abstractmethod
    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Return the outcomes of an action in a state."""

    @abstractmethod
    def cells(self, state: State) -> Cells:
        """Return the cells that show a state."""

    def position(self, state: State) -> tuple[int, int, int]:
        """Return row and column of a state, each below 32, and the rest of it as a number below 256."""
        row, column, *rest = state
        return row, column, rest[0] if rest else 0

    def is_terminal(self, state: State) -> bool:  # noqa: ARG002 (most worlds have no such state)
        """Return whether a state is terminal."""
        return False

    def first_looks(self) -> NDArray[np.uint8]:
        """Return the visual distractor at the start of an episode."""
        return self._looks

    def next_looks(self, action: int) -> NDArray[np.uint8]:  # noqa: ARG002 (few worlds change it)
        """Return the visual distractor after a step."""
        return self._looks

    def decorate(self, frame: NDArray[np.uint8], looks: NDArray[np.uint8]) -> None:
        """Draw the visual distractor into a frame that shows the state."""

    @property
    def state(self) -> State:
        """The state of the MDP."""
        return self._state

    @property
    def action_count(self) -> int:
        """Number of actions."""
        return len(self.actions)

    @property
    def action_names(self) -> list[str]:
        """Names of the agent's actions, for people."""
        return [self.actions[action] for action in self._turn.actions]

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """[stack, height, width] of a state."""
        return self.config.state_shape

    @property
    def observation(self) -> NDArray[np.uint8]:
        """The current state, as `reset` or `step` last returned it."""
        return self._observation

    @property
    def ram(self) -> NDArray[np.uint8]:
        """128 bytes; the first three are column and row, times 8, and the rest of the state."""
        memory = np.zeros(128, np.uint8)
        row, column, rest = self.position(self._state)
        memory[LOCATION.x], memory[LOCATION.y], memory[LOCATION.room] = 8 * column, 8 * row, rest
        memory.setflags(write=False)
        return memory

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed, options=options)
        self._state, self._steps = self._draw(self.starts()).state, 0
        self._looks = self.first_looks()
        self._show()
        return self._observation, {}

    def step(self, action: int | np.integer[Any]) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Take one step."""
        taken = self._turn.actions[int(action)]
        outcome = self._draw(self.outcomes(self._state, taken))
        self._state = outcome.state
        self._steps += 1
        self._looks = self.next_looks(taken)
        self._show()
        terminated = self.is_terminal(self._state)
        return self._observation, outcome.reward, terminated, not terminated and self._steps >= self.limit, {}

    def render(self) -> Any:
        """Return an image for people, [height, width, 3], without the turn and the visual distractor."""
        image = _COLOURS[self.cells(self._state)]
        image = image.repeat(_RENDERED_CELL_PIXELS, 0).repeat(_RENDERED_CELL_PIXELS, 1)
        image[::_RENDERED_CELL_PIXELS] = image[:, ::_RENDERED_CELL_PIXELS] = 0
        return image

    def snapshot(self) -> bytes:
        """Return the complete state of the world, its generator included."""
        about = {"state": list(self._state), "steps": self._steps, "generator": generator_state(self.np_random)}
        return arrays.pack(about | {"observation": self._observation, "looks": self._looks})

    def restore(self, snapshot: bytes) -> None:
        """Restore from `snapshot()`."""
        about = arrays.unpack(snapshot)
        self._state, self._steps = tuple(about["state"]), about["steps"]
        self._observation = about["observation"].copy()
        self._observation.setflags(write=False)
        restore_generator(self.np_random, about["generator"])
        self._looks = about["looks"]

    def _draw(self, outcomes: list[Outcome]) -> Outcome:
        if len(outcomes) == 1:
            return outcomes[0]
        borders = np.cumsum([outcome.probability for outcome in outcomes])
        return outcomes[int(np.searchsorted(borders, self.np_random.random() * borders[-1], side="right"))]

    def _show(self) -> None:
        frame = np.zeros(self.state_shape[1:], np.uint8)
        rows, columns = (self._scale * length for length in self.shape)
        shades = _SHADES[self.cells(self._state)]
        frame[:rows, :columns] = shades.repeat(self._scale, 0).repeat(self._scale, 1)
        self.decorate(frame, self._looks)
        observation = np.ascontiguousarray(self._turn.frame(frame))[None]
        observation.setflags(write=False)
        self._observation = observation


def moved(cell: tuple[int, int], action: int, open_cells: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the cell that one of the four moves leads to: the next one, or the same if that is not open."""
    down, right = list(MOVES.values())[action]
    row, column = cell[0] + down, cell[1] + right
    inside = 0 <= row < open_cells.shape[0] and 0 <= column < open_cells.shape[1]
    return (row, column) if inside and open_cells[row, column] else cell


@lru_cache(maxsize=32)
def mean_returns(kind: type[SmallWorld], config: WorldConfig) -> Returns:
    """Return the mean returns of the uniformly random and of the best policy.

    Both are exact, by finite-horizon dynamic programming over all reachable states.
    """
    world = kind(config, np.random.default_rng(0))
    table = _outcomes_everywhere(world)
    found = []
    for backup in (_mean, max):
        values: dict[State, float] = {}
        for _ in range(world.limit):
            values = {state: backup(action_values(actions, values)) for state, actions in table.items()}
        found.append(math.fsum(start.probability * values[start.state] for start in world.starts()))
    return Returns(*found)


def best_actions(world: SmallWorld) -> list[dict[State, int]]:
    """Return the best action in every state, by the number of steps left; index 0 is empty."""
    table, values = _outcomes_everywhere(world), dict[State, float]()
    actions: list[dict[State, int]] = [{}]
    for _ in range(world.limit):
        q_values = {state: action_values(outcomes, values) for state, outcomes in table.items()}
        actions.append({state: int(np.argmax(q)) for state, q in q_values.items()})
        values = {state: max(q) for state, q in q_values.items()}
    return actions


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def action_values(actions: list[list[Outcome]], later: dict[State, float]) -> list[float]:
    """Return Q of each action, given the values of the next states; a terminal state is worth 0."""
    return [sum(one.probability * (one.reward + later.get(one.state, 0.0)) for one in found) for found in actions]


def _outcomes_everywhere(world: SmallWorld) -> dict[State, list[list[Outcome]]]:
    """Return the outcomes of each action, for every reachable state that is not terminal."""
    table: dict[State, list[list[Outcome]]] = {}
    waiting = [start.state for start in world.starts()]
    while waiting:
        state = waiting.pop()
        if state not in table and not world.is_terminal(state):
            table[state] = [world.outcomes(state, action) for action in range(world.action_count)]
            waiting += [outcome.state for outcomes in table[state] for outcome in outcomes]
    return table
