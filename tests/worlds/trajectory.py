"""Random play written down as digests, so that a restored game can be compared with the one it came from."""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from offpiste.config import WorldConfig
from offpiste.seeding import stream
from offpiste.worlds.atari import AtariGame

PAPER = WorldConfig()


def fresh_game(name: str, config: WorldConfig = PAPER) -> AtariGame:
    """Return a game that shares no randomness with any that is compared with it."""
    return AtariGame(name, config, stream(999, "another world"))


def play_on(game: AtariGame, actions: Sequence[int]) -> list[str]:
    """Return, per action, a digest of state, reward, flags and memory; begin anew where an episode ends."""
    digests = []
    for action in actions:
        state, reward, terminated, truncated, _ = game.step(action)
        seen = hashlib.sha256(state.tobytes() + game.ram.tobytes())
        seen.update(repr((float(reward), terminated, truncated)).encode())
        if terminated or truncated:
            seen.update(game.reset()[0].tobytes())
        digests.append(seen.hexdigest())
    return digests


def reference(
    name: str, steps: int, moments: Sequence[int], config: WorldConfig = PAPER
) -> tuple[list[int], list[str], dict[int, bytes]]:
    """Play at random; return the actions, what was seen, and a snapshot taken before each of the moments."""
    game = AtariGame(name, config, stream(0, "world"))
    game.reset()
    actions = [int(action) for action in stream(0, "actions").integers(game.action_count, size=steps)]
    digests: list[str] = []
    snapshots: dict[int, bytes] = {}
    for start, stop in zip([0, *moments], [*moments, steps], strict=True):
        digests += play_on(game, actions[start:stop])
        if stop < steps:
            snapshots[stop] = game.snapshot()
    return actions, digests, snapshots


def random_moments(count: int, steps: int, steps_after: int) -> list[int]:
    """Return so many different moments, sorted, each with so many steps to follow."""
    return sorted(stream(0, "moments").choice(np.arange(1, steps - steps_after), count, replace=False).tolist())


if __name__ == "__main__":  # game, file of the snapshot, actions: prints what the restored game shows
    restored = fresh_game(sys.argv[1])
    restored.restore(Path(sys.argv[2]).read_bytes())
    print("\n".join(play_on(restored, [int(action) for action in sys.argv[3].split(",")])))
