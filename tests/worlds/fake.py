"""An emulator that plays a script and logs what it was asked to do, and draws that are written down."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from ale_py import Action, ALEInterface, ALEState
from numpy.typing import NDArray

from offpiste.config import WorldConfig
from offpiste.seeding import stream
from offpiste.worlds.atari import AtariGame


class FakeEmulator:
    """Stands in for ALEInterface; frames are counted from 1 after each reset."""

    def __init__(
        self,
        brightness: Callable[[int], int] = lambda _: 0,
        reward: int = 0,
        last_frame: int | None = None,
        dimensions: tuple[int, int] = (84, 84),
    ) -> None:
        self.brightness, self.reward, self.last_frame, self.dimensions = (
            brightness,
            reward,
            last_frame,
            dimensions,
        )
        self.frame = 0
        self.resets = 0
        self.acted: list[int] = []

    def getMinimalActionSet(self) -> list[Action]:  # noqa: N802 (ALE's names)
        return [Action(value) for value in range(18)]

    def getScreenDims(self) -> tuple[int, int]:  # noqa: N802
        return self.dimensions

    def getScreenGrayscale(self, screen: NDArray[np.uint8]) -> None:  # noqa: N802
        screen[:] = self.brightness(self.frame)

    def cloneState(self, *, include_rng: bool) -> ALEState:  # noqa: N802
        return ALEState()

    def reset_game(self) -> None:
        self.frame = 0
        self.resets += 1

    def act(self, action: int) -> int:
        assert not self.game_over(), "the game is over"
        self.frame += 1
        self.acted.append(action)
        return self.reward

    def game_over(self) -> bool:
        return self.last_frame is not None and self.frame >= self.last_frame


class WrittenDraws:
    """Stands in for a generator whose uniform draws are known beforehand."""

    def __init__(self, *draws: float) -> None:
        self.draws = list(draws)

    def random(self) -> float:
        return self.draws.pop(0)


def fake_game(emulator: FakeEmulator, draws: WrittenDraws | None = None, **settings: Any) -> AtariGame:
    """Return a game over a fake emulator, not yet reset."""
    generator = cast(np.random.Generator, draws) if draws else stream(0, "world")
    return AtariGame("montezuma_revenge", WorldConfig(**settings), generator, cast(ALEInterface, emulator))
