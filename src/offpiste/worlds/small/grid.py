"""What the small worlds share: rules as a table of outcomes, drawn as cells, played as a gymnasium environment.

A world says where an episode may start, what may come of an action in a state, and how a state looks. Playing draws
from the same outcomes that the best and the random return are computed from, so neither can differ from the game.
Looks that do not matter, such as noise on a screen, are no part of the state.
"""

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from offpiste.config import WorldConfig
from offpiste.errors import ConfigError
from offpiste.seeding import generator_state, restore_generator
from offpiste.store import arrays
from offpiste.worlds.games import Location, Returns
from offpiste.worlds.small.turn import Turn, unturned

State = tuple[int, ...]
Cells = NDArray[np.uint8]
"""Kinds of cells, [rows, columns]."""

EMPTY, WALL, PLAYER, GOAL, KEY, DOOR, BALL = range(7)
_SHADES = np.array([0, 64, 255, 160, 192, 96, 224], np.uint8)
"""The grey of each kind in a frame; no two fall into the same of eight shades but the player and the ball."""
_COLOURS = np.array(
    [(18, 22, 34), (98, 108, 128), (255, 255, 255), (255, 190, 0), (80, 200, 255), (190, 90, 60), (255, 120, 120)],
    np.uint8,
)
_MIN_CELL_PIXELS = 2
_RENDERED_CELL_PIXELS = 12
LOCATION = Location(x=0, y=1, room=2)
"""The first bytes of memory hold column and row, times 8, and what else matters."""
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


class Outcome(NamedTuple):
    """What may come of an action: with this probability, this state and this reward."""

    probability: float
    state: State
    reward: float = 0.0


class SmallWorld(gymnasium.Env[NDArray[np.uint8], np.int64], ABC):
    """A world that is a table of outcomes; one frame a state."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 (gymnasium's own form)
    render_mode = "rgb_array"
    actions: ClassVar[tuple[str, ...]] = tuple(MOVES)
    """What a person calls them."""
    shape: ClassVar[tuple[int, int]]
    """Rows and columns of cells."""
    limit: ClassVar[int]
    """Agent steps after which an episode is cut."""

    def __init__(self, config: WorldConfig, generator: np.random.Generator, turn: Turn | None = None) -> None:
        """Everything random in the world is drawn from the generator; its rules know nothing of the turn."""
        name, least = type(self).__name__, _MIN_CELL_PIXELS * max(self.shape)
        if (config.frame_skip, config.stack_frames, config.sticky_action_probability) != (1, 1, 0.0):
            raise ConfigError(
                f"in {name}, world.frame_skip and world.stack_frames are 1 and world.sticky_action_probability is 0"
            )
        if config.frame_size < least:
            raise ConfigError(f"{name} needs a world.frame_size of at least {least}, got {config.frame_size}")
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
        """Return the states in which an episode may start."""

    @abstractmethod
    def outcomes(self, state: State, action: int) -> list[Outcome]:
        """Return what may come of an action."""

    @abstractmethod
    def cells(self, state: State) -> Cells:
        """Return the kinds of cells that show a state."""

    def place(self, state: State) -> tuple[int, int, int]:
        """Return row, column and what else matters of a state, each below 32, the last below 256."""
        row, column, *rest = state
        return row, column, rest[0] if rest else 0

    def is_terminal(self, state: State) -> bool:  # noqa: ARG002 (most worlds have no such state)
        """Tell whether an episode ends in a state, before its limit."""
        return False

    def first_looks(self) -> NDArray[np.uint8]:
        """Draw what an episode looks like beside its state."""
        return self._looks

    def next_looks(self, action: int) -> NDArray[np.uint8]:  # noqa: ARG002 (few worlds look otherwise after a step)
        """Draw what that is after a step."""
        return self._looks

    def decorate(self, frame: NDArray[np.uint8], looks: NDArray[np.uint8]) -> None:
        """Draw the looks into a frame that shows the state."""

    @property
    def state(self) -> State:
        """The state that the rules speak of."""
        return self._state

    @property
    def action_count(self) -> int:
        """How many actions the agent can choose from."""
        return len(self.actions)

    @property
    def action_names(self) -> list[str]:
        """What a person calls them."""
        return [self.actions[action] for action in self._turn.actions]

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """Frames stacked in a state, their height and their width."""
        return self.config.state_shape

    @property
    def observation(self) -> NDArray[np.uint8]:
        """The current state, as `reset` or `step` last returned it."""
        return self._observation

    @property
    def ram(self) -> NDArray[np.uint8]:
        """128 bytes; the first three hold column and row, times 8, and what else matters."""
        memory = np.zeros(128, np.uint8)
        row, column, rest = self.place(self._state)
        memory[LOCATION.x], memory[LOCATION.y], memory[LOCATION.room] = 8 * column, 8 * row, rest
        memory.setflags(write=False)
        return memory

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self._state, self._steps = self._draw(self.starts()).state, 0
        self._looks = self.first_looks()
        self._show()
        return self._observation, {}

    def step(self, action: int | np.integer[Any]) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Play one step."""
        taken = self._turn.actions[int(action)]
        outcome = self._draw(self.outcomes(self._state, taken))
        self._state = outcome.state
        self._steps += 1
        self._looks = self.next_looks(taken)
        self._show()
        terminated = self.is_terminal(self._state)
        return self._observation, outcome.reward, terminated, not terminated and self._steps >= self.limit, {}

    def render(self) -> Any:
        """Return a picture for people, [height, width, 3]; neither the turn nor looks that do not matter are in it."""
        picture = _COLOURS[self.cells(self._state)]
        picture = picture.repeat(_RENDERED_CELL_PIXELS, 0).repeat(_RENDERED_CELL_PIXELS, 1)
        picture[::_RENDERED_CELL_PIXELS] = picture[:, ::_RENDERED_CELL_PIXELS] = 0
        return picture

    def snapshot(self) -> bytes:
        """Return all that the future of this world depends on."""
        about = {"state": list(self._state), "steps": self._steps, "generator": generator_state(self.np_random)}
        return arrays.pack(about | {"observation": self._observation, "looks": self._looks})

    def restore(self, snapshot: bytes) -> None:
        """Continue exactly where `snapshot` was taken."""
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
    """Return where one of the four moves leads from a cell: to the next, or nowhere where that is not open."""
    down, right = list(MOVES.values())[action]
    row, column = cell[0] + down, cell[1] + right
    inside = 0 <= row < open_cells.shape[0] and 0 <= column < open_cells.shape[1]
    return (row, column) if inside and open_cells[row, column] else cell


@lru_cache(maxsize=32)
def mean_returns(kind: type[SmallWorld], config: WorldConfig) -> Returns:
    """Return what uniformly random actions earn in an episode, and what the best policy does.

    Both are exact: expected values by the steps that are left, over all states that can be reached.
    """
    world = kind(config, np.random.default_rng(0))
    table = _outcomes_everywhere(world)
    found = []
    for judge in (_mean, max):
        values: dict[State, float] = {}
        for _ in range(world.limit):
            values = {state: judge(action_values(actions, values)) for state, actions in table.items()}
        found.append(math.fsum(start.probability * values[start.state] for start in world.starts()))
    return Returns(*found)


def best_actions(world: SmallWorld) -> list[dict[State, int]]:
    """Return the best action in every state, by the steps that are left; at 0 nothing is."""
    table, values = _outcomes_everywhere(world), dict[State, float]()
    actions: list[dict[State, int]] = [{}]
    for _ in range(world.limit):
        judged = {state: action_values(outcomes, values) for state, outcomes in table.items()}
        actions.append({state: int(np.argmax(found)) for state, found in judged.items()})
        values = {state: max(found) for state, found in judged.items()}
    return actions


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def action_values(actions: list[list[Outcome]], later: dict[State, float]) -> list[float]:
    """Return the value of each action, where states are worth this much afterwards; a terminal one nothing."""
    return [sum(one.probability * (one.reward + later.get(one.state, 0.0)) for one in found) for found in actions]


def _outcomes_everywhere(world: SmallWorld) -> dict[State, list[list[Outcome]]]:
    """Return what may come of each action, for every state that can be reached and is not terminal."""
    table: dict[State, list[list[Outcome]]] = {}
    waiting = [start.state for start in world.starts()]
    while waiting:
        state = waiting.pop()
        if state not in table and not world.is_terminal(state):
            table[state] = [world.outcomes(state, action) for action in range(world.action_count)]
            waiting += [outcome.state for outcomes in table[state] for outcome in outcomes]
    return table
