"""Deep Sea in pixels: a grid on which only deep exploration finds the treasure, small enough to count every visit.

After Osband et al. (2019) and bsuite: N × N cells; the diver starts at the top left and sinks one row per step, a
column to the left or to the right. A move to the right costs 0.01 / N; only N of them in a row reach the treasure,
worth 1. Which action moves right is drawn once for each cell and N, so that no policy that ignores the frame succeeds:
random play finds the treasure once in 2**N episodes. The frame shows the diver and nothing else. Our departure: an
episode ends one step later, on the floor below the last row; most bonuses pay for the frame in which an action is
taken, and would never see the one at the treasure otherwise.
"""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.config import WorldConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from offpiste.worlds.games import Location, Returns
from offpiste.worlds.small.turn import Turn, turn_of, unturned

NAME = "deep_sea_N"
SIZES = range(2, 28)
"""In larger grids a cell would be under 3 of the frame's 84 pixels wide."""
MOVE_COST = 0.01
TREASURE = 1.0
_WATER, _GOLD, _DIVER = (0, 90, 160), (255, 190, 0), (255, 255, 255)
_CELL_PIXELS = 16
LOCATION = Location(x=0, y=1)
"""The first bytes of RAM are column and row, times 8: cells of coverage are 8 units wide."""
SETTINGS: dict[str, Any] = {
    "world": {"frame_skip": 1, "stack_frames": 1, "sticky_action_probability": 0.0},
    "agent": {
        "replay_capacity": 50_000,
        "min_history_steps": 200,
        "update_period_steps": 1,
        "target_update_steps": 50,
        "learning_rate": 3e-3,
        "adam_epsilon": 1e-6,
        "convolution_channels": [8, 8, 8],
        "hidden_units": 64,
    },
    "schedule": {"iteration_steps": 1_000},
    "exploration": {"epsilon_decay_steps": 3_000, "epsilon_final": 0.1},
}
"""The paper's schedules scaled down to runs of minutes, the same for every method; "true counts" is the oracle.

- One frame per state, which is Markov: with four the agent learns paths instead of cells, and needs far more episodes.
- One update per step, since episodes are few: with one in four, even true counts found the treasure too late.
- Adam's ε: Rainbow's 1.5e-4 damps the gradients of so small a network.
- Step size: the best of 0.0003, 0.001, 0.003 and 0.01 for true counts.
- ε: a bonus pays for what was reached, and only ε makes an agent try an action for the first time. With ε at 0.01 after
  500 steps, true counts found the treasure of 10 rows within 300 episodes on 8 of 12 seeds, and on others never took
  the right action in a cell that they had visited some 40 times; with these settings they found it on 24 of 24.
"""


def open_deep_sea(game: str, config: WorldConfig, generator: np.random.Generator, seed: int) -> "DeepSea":  # noqa: ARG001
    """Return the grid of a name such as deep_sea_14 (N = 14), the same for every seed."""
    return DeepSea(int(game.rpartition("_")[2]), config)


def open_turned(game: str, config: WorldConfig, generator: np.random.Generator, seed: int) -> "DeepSea":  # noqa: ARG001
    """Return the same grid, mirrored and with its actions permuted by the seed of the run."""
    return DeepSea(int(game.rpartition("_")[2]), config, turn_of(seed, DeepSea.action_count))


def mean_returns(size: int) -> Returns:
    """Return the mean returns of random play and of the best policy in an episode of N rows.

    Random play moves right with probability 1/2; the best policy pays for N moves to the right.
    """
    return Returns(2.0**-size * TREASURE - MOVE_COST / 2, TREASURE - MOVE_COST)


class DeepSea(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """The grid as a deterministic world."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 (gymnasium's own form)
    render_mode = "rgb_array"
    action_count = 2
    action_names = ["0", "1"]  # noqa: RUF012 (which one moves right depends on the cell)

    def __init__(self, size: int, config: WorldConfig, turn: Turn | None = None) -> None:
        if config.frame_skip != 1 or config.sticky_action_probability != 0.0:
            raise ConfigError(
                "in Deep Sea, world.frame_skip must be 1 and world.sticky_action_probability 0, "
                f"got {config.frame_skip} and {config.sticky_action_probability}"
            )
        if config.episode_frames <= size:
            raise ConfigError(f"in deep_sea_{size}, world.episode_frames must be > {size}, got {config.episode_frames}")
        self.size = size
        self.config = config
        self._right = stream(size, "deep sea").integers(2, size=(size, size))
        """Which action moves right, by row and column."""
        self._turn = turn or unturned(self.action_count)
        self._frames = self._turn.frame(_frames(size, config.frame_size))
        self.action_space = gymnasium.spaces.Discrete(self.action_count)
        self.observation_space = gymnasium.spaces.Box(0, 255, self.state_shape, np.uint8)
        self._row = self._column = 0
        self._stack = np.zeros(self.state_shape, np.uint8)

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """[stack, height, width] of a state."""
        return self.config.state_shape

    @property
    def observation(self) -> NDArray[np.uint8]:
        """The current state, as `reset` or `step` last returned it."""
        return self._stack

    @property
    def ram(self) -> NDArray[np.uint8]:
        """128 bytes; the first two are column and row, times 8."""
        memory = np.zeros(128, np.uint8)
        memory[LOCATION.x], memory[LOCATION.y] = 8 * self._column, 8 * self._row
        memory.setflags(write=False)
        return memory

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode at the top left."""
        super().reset(seed=seed, options=options)
        self._row = self._column = 0
        self._stack = np.zeros_like(self._stack)
        self._push_frame()
        return self._stack, {}

    def step(self, action: int | np.integer[Any]) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Move down one row, to the left or to the right; a step on the floor ends the episode."""
        reward = 0.0
        if self._row == self.size:
            self._push_frame()
            return self._stack, reward, True, False, {}
        if self._turn.actions[int(action)] == self._right[self._row, self._column]:
            reward -= MOVE_COST / self.size
            if self._column == self._row == self.size - 1:
                reward += TREASURE
            self._column += 1
        else:
            self._column = max(self._column - 1, 0)
        self._row += 1
        self._push_frame()
        return self._stack, reward, False, False, {}

    def render(self) -> Any:
        """Return an image for people, [height, width, 3]: the cells that can be reached, the treasure and the diver."""
        cells = np.zeros((self.size + 1, self.size + 1, 3), np.uint8)
        cells[np.tril_indices(self.size + 1)] = _WATER
        cells[self.size, self.size] = _GOLD
        cells[self._row, self._column] = _DIVER
        image = cells.repeat(_CELL_PIXELS, 0).repeat(_CELL_PIXELS, 1)
        image[::_CELL_PIXELS] = image[:, ::_CELL_PIXELS] = 0
        return image

    def snapshot(self) -> bytes:
        """Return the complete state of the world."""
        return arrays.pack({"size": self.size, "row": self._row, "column": self._column, "stack": self._stack})

    def restore(self, snapshot: bytes) -> None:
        """Restore from `snapshot()`."""
        state = arrays.unpack(snapshot)
        if state["size"] != self.size:
            raise ConfigError(
                f"the snapshot must be of deep_sea_{self.size}, got one of deep_sea_{state['size']}; open that world"
            )
        self._row, self._column = state["row"], state["column"]
        self._stack = state["stack"].copy()
        self._stack.setflags(write=False)

    def _push_frame(self) -> None:
        stack = np.empty_like(self._stack)
        stack[:-1] = self._stack[1:]
        stack[-1] = self._frames[self._row, self._column]
        stack.setflags(write=False)
        self._stack = stack


def _frames(size: int, pixels: int) -> NDArray[np.uint8]:
    """Return the frames [rows + floor, columns, height, width]: the diver's cell is white, all else black."""
    edges = np.arange(size + 2) * pixels // (size + 1)
    frames = np.zeros((size + 1, size + 1, pixels, pixels), np.uint8)
    for row in range(size + 1):
        for column in range(size + 1):
            frames[row, column, edges[row] : edges[row + 1], edges[column] : edges[column + 1]] = 255
    return frames
