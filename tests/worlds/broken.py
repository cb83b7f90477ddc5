"""Environments that break the contract of a world, each in its own way, and a few that keep it."""

import random
import time
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from offpiste.seeding import generator_state, restore_generator

SIDE = 6
_PIXELS = 4
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Good(gymnasium.Env[Any, Any]):
    """A field on which the player slips; the far corner pays and ends the episode. It is observed as an image."""

    observation_space: Any = gymnasium.spaces.Box(0, 255, (SIDE * _PIXELS, SIDE * _PIXELS, 3), np.uint8)
    action_space: Any = gymnasium.spaces.Discrete(4)
    metadata: dict[str, Any] = {}  # noqa: RUF012
    limit = 40

    def __init__(self) -> None:
        self.at, self.steps, self.episodes = (0, 0), 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.at, self.steps, self.episodes = self.start(), 0, self.episodes + 1
        return self.observe(), {}

    def start(self) -> tuple[int, int]:
        row, column = self.np_random.integers(SIDE - 1, size=2)
        return int(row), int(column)

    def step(self, action: Any) -> Any:
        if self.draw() < 0.2:
            action = int(4 * self.draw())
        down, right = MOVES[int(action)]
        self.at = min(max(self.at[0] + down, 0), SIDE - 1), min(max(self.at[1] + right, 0), SIDE - 1)
        self.steps += 1
        ended = self.at == (SIDE - 1, SIDE - 1)
        return self.observe(), self.reward(ended=ended), ended, self.steps >= self.limit, {}

    def draw(self) -> float:
        return float(self.np_random.random())

    def reward(self, *, ended: bool) -> Any:
        return float(ended)

    def observe(self) -> Any:
        return self.drawn()

    def drawn(self) -> NDArray[np.uint8]:
        cells = np.zeros((SIDE, SIDE, 3), np.uint8)
        cells[-1, -1] = (0, 255, 0)
        cells[self.at] = (255, 255, 255)
        return cells.repeat(_PIXELS, 0).repeat(_PIXELS, 1)


class GoodDrawn(Good):
    """The same, observed as two numbers and drawn; actions begin at 1."""

    observation_space: Any = gymnasium.spaces.Box(0, SIDE - 1, (2,), np.int64)
    action_space: Any = gymnasium.spaces.Discrete(4, start=1)
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def observe(self) -> Any:
        return np.array(self.at)

    def step(self, action: Any) -> Any:
        assert 1 <= action <= 4
        return super().step(action - 1)

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return self.drawn()


class GoodPositions(Good):
    """The same, whose player can be located, and whose returns are declared."""

    returns: ClassVar[Any] = (0.2, 1.0)

    def position(self) -> Any:
        return self.at


class GoodSnapshots(GoodPositions):
    """The same with a state of its own, which counts episodes too: each begins further to the right."""

    def start(self) -> tuple[int, int]:
        return 0, self.episodes % SIDE

    def snapshot(self) -> bytes:
        words = generator_state(self.np_random)["state"]
        numbers = (*self.at, self.steps, self.episodes)
        return b"".join(number.to_bytes(16, "little") for number in (*numbers, words["state"], words["inc"]))

    def restore(self, snapshot: bytes) -> None:
        *numbers, state, inc = (int.from_bytes(snapshot[at : at + 16], "little") for at in range(0, len(snapshot), 16))
        row, column, self.steps, self.episodes = numbers
        self.at = (row, column)
        whole = generator_state(self.np_random) | {"state": {"state": state, "inc": inc}}
        restore_generator(self.np_random, whole)


class CannotBeMade(Good):
    def __init__(self) -> None:
        raise OSError("there is no file of levels")


class HasNoDiscreteActions(Good):
    action_space: Any = gymnasium.spaces.Box(-1.0, 1.0, (2,))


class HasNoActions(Good):
    action_space: Any = None


class IsNoEnvironment:
    pass


class DeclaresLessThanRandomPlay(Good):
    returns: ClassVar[Any] = (1.0, 0.0)


class DrawsNothing(Good):
    observation_space: Any = gymnasium.spaces.Discrete(SIDE * SIDE)

    def observe(self) -> Any:
        return self.at[0] * SIDE + self.at[1]

    def render(self) -> Any:
        return None


class ObservesFloats(Good):
    observation_space: Any = gymnasium.spaces.Box(0.0, 1.0, (3, SIDE * _PIXELS, SIDE * _PIXELS))

    def observe(self) -> Any:
        return np.moveaxis(self.drawn(), 2, 0) / np.float32(255)


class Raises(Good):
    def reward(self, *, ended: bool) -> Any:
        return 1 // (self.steps - 7) if self.steps > 6 else 0.0


class PaysNothing(Good):
    def reward(self, *, ended: bool) -> Any:
        return None


class PaysNaN(Good):
    def reward(self, *, ended: bool) -> Any:
        return np.nan if ended else 0.0


class ShowsNothing(Good):
    def observe(self) -> Any:
        return np.zeros_like(self.drawn())


class HidesThePlayer(Good):
    """A clock runs in its frames, whatever is done."""

    def step(self, action: Any) -> Any:
        observation, _, _, truncated, info = super().step(action)
        return observation, 0.0, False, truncated, info

    def drawn(self) -> NDArray[np.uint8]:
        cells = np.zeros((SIDE, SIDE, 3), np.uint8)
        cells[divmod(self.steps % SIDE**2, SIDE)] = (255, 255, 255)
        return cells.repeat(_PIXELS, 0).repeat(_PIXELS, 1)


class NeverEnds(Good):
    limit = 10**9

    def step(self, action: Any) -> Any:
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, False, truncated, info


class DrawsUnseeded(Good):
    def draw(self) -> float:
        return float(np.random.default_rng().random())


class DrawsWhenRendered(GoodDrawn):
    def render(self) -> Any:
        self.np_random.random()
        return super().render()


class SharesItsState(Good):
    """The place of the player is an attribute of the class."""

    shared: ClassVar[dict[str, tuple[int, int]]] = {}

    @property
    def at(self) -> tuple[int, int]:
        return self.shared["at"]

    @at.setter
    def at(self, at: tuple[int, int]) -> None:
        self.shared["at"] = at


class RemembersEpisodes(GoodPositions):
    def start(self) -> tuple[int, int]:
        return 0, self.episodes % SIDE


class ForgetsItsGenerator(GoodSnapshots):
    def restore(self, snapshot: bytes) -> None:
        generator = generator_state(self.np_random)
        super().restore(snapshot)
        restore_generator(self.np_random, generator)


class SavesNoBytes(GoodSnapshots):
    def snapshot(self) -> Any:
        return {"at": self.at}


class ChangesWhenSaved(GoodSnapshots):
    def snapshot(self) -> bytes:
        saved = super().snapshot()
        self.np_random.random()
        return saved


class StartsByTheHashOfText(Good):
    def start(self) -> tuple[int, int]:
        return hash(f"episode {self.np_random.integers(5)}") % SIDE, 0


class DrawsFromNumpy(Good):
    def draw(self) -> float:
        return float(np.random.rand())  # noqa: NPY002


class DrawsFromPython(Good):
    def draw(self) -> float:
        return random.random()  # noqa: S311


class LocatesOutside(GoodPositions):
    def position(self) -> Any:
        return self.at[0] * 100, self.at[1]


class LocatesByOneNumber(GoodPositions):
    def position(self) -> Any:
        return self.at[0] * SIDE + self.at[1]


class LocatesNowhere(GoodPositions):
    def position(self) -> Any:
        return 0, 0


class LocatesNobody(GoodPositions):
    def position(self) -> Any:
        raise LookupError("there is no player")


class LocatesByEpisode(GoodPositions):
    def position(self) -> Any:
        return (*self.at, self.episodes % 8)


class IsSlow(Good):
    def observe(self) -> Any:
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
        return super().observe()
