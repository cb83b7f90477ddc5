"""The suite of small worlds: one row each, with shared settings.

The paper's schedules scaled down to runs of minutes, the same for every method; `deep_sea.py` has the reasons. What
differs from Deep Sea: returns bootstrap at the step limit, or cells reached shortly before it would have no value;
γ is 0.97, since with 0.99 a goal that can be reached again and again is worth more than the largest atom; and steps are
cheap, whose cost is the number of operations: two pixels per cell, one convolution, and a batch of 64 every fourth step
instead of 32 at each.
"""

from typing import Any, cast

import gymnasium
import numpy as np

from offpiste.config import WorldConfig
from offpiste.parsing import from_dict
from offpiste.seeding import stream
from offpiste.worlds.games import Game, Returns
from offpiste.worlds.small import deep_sea
from offpiste.worlds.small.falling import Catch, Rain
from offpiste.worlds.small.four_rooms import BlankTv, FourRooms, FourRoomsEnds, NoisyTv, NoisyTvPassive
from offpiste.worlds.small.grid import LOCATION, SmallWorld, mean_returns
from offpiste.worlds.small.key_door import KeyDoor
from offpiste.worlds.small.museum import Museum
from offpiste.worlds.small.turn import turn_of
from offpiste.worlds.small.wallpaper import Wallpaper

EVALUATION_EPISODES = 50
"""Episodes of evaluation after each iteration."""
_DEEP_SEA_ROWS = 12
KINDS: dict[str, type[SmallWorld]] = {}
"""By name, from the rows below; all but Deep Sea."""
_AGENT = {"discount": 0.97, "convolution_channels": [16], "update_period_steps": 4, "batch_size": 64}


def _settings(limit: int, frame_size: int, steps: int) -> dict[str, Any]:
    """Return the settings of a world with episodes of `limit` and runs of `steps` steps."""
    return {
        "frames": steps,
        "world": {
            "frame_skip": 1,
            "stack_frames": 1,
            "sticky_action_probability": 0.0,
            "frame_size": frame_size,
            "bootstrap_at_limit": True,
        },
        "agent": deep_sea.SETTINGS["agent"] | _AGENT,
        "schedule": {"iteration_steps": 2_500, "evaluation_steps": EVALUATION_EPISODES * limit},
        "exploration": deep_sea.SETTINGS["exploration"],
    }


def open_small_world(game: str, config: WorldConfig, generator: np.random.Generator, seed: int) -> SmallWorld:
    """Return a world as the runs of a seed see it."""
    kind = KINDS[game]
    return kind(config, generator, turn_of(seed, len(kind.actions)))


def mean_returns_of(game: str) -> Returns:
    """Return the mean returns of random play and of the best policy."""
    row = next(row for row in ROWS if row.name == game)
    if game not in KINDS:
        return deep_sea.mean_returns(_DEEP_SEA_ROWS)
    return mean_returns(KINDS[game], from_dict(WorldConfig, row.settings["world"]))


def _row(kind: type[SmallWorld], name: str, suite: str, steps: int, title: str = "") -> Game:
    KINDS[name] = kind
    return Game(
        name,
        suite=suite,
        title=title,
        goal_return=kind.goal_return,
        location=LOCATION,
        opener=open_small_world,
        settings=_settings(kind.limit, 2 * max(kind.shape), steps),
        constants="small_worlds",
        computed_scores=mean_returns_of,
    )


ROWS = (
    Game(
        f"deep_sea_{_DEEP_SEA_ROWS}",
        suite="small_tuned",
        location=deep_sea.LOCATION,
        opener=deep_sea.open_turned,
        settings=_settings(_DEEP_SEA_ROWS + 1, 2 * (_DEEP_SEA_ROWS + 1), 5_000),
        constants="small_worlds",
        computed_scores=mean_returns_of,
    ),
    _row(FourRooms, "four_rooms", "small_hard", 10_000),
    _row(KeyDoor, "key_door", "small_hard", 15_000, "Key and Door"),
    _row(NoisyTv, "noisy_tv", "small_hard", 10_000, "Noisy TV"),
    _row(Wallpaper, "wallpaper", "small_hard", 7_500),
    _row(Catch, "catch", "small_easy", 5_000),
    _row(Rain, "rain", "small_easy", 5_000),
    _row(Museum, "museum", "small_easy", 5_000),
    # Not in the suite, but each shows one effect.
    _row(FourRoomsEnds, "four_rooms_ends", "", 10_000, "Four Rooms (ends)"),
    _row(NoisyTvPassive, "noisy_tv_passive", "", 10_000, "Noisy TV (passive)"),
    _row(BlankTv, "blank_tv", "", 10_000, "Blank TV"),
)


def register() -> None:
    """Register the worlds with gymnasium, as in offpiste/KeyDoor-v0."""
    for row in ROWS:
        name = "".join(word.capitalize() for word in row.name.split("_"))
        gymnasium.register(f"offpiste/{name}-v0", "offpiste.worlds.small.suite:make", kwargs={"game": row.name})


def make(game: str, seed: int = 0, render_mode: str = "rgb_array") -> gymnasium.Env[Any, Any]:  # noqa: ARG001
    """Return a world as a gymnasium environment, as the runs of a seed see it; `reset(seed=…)` seeds its draws."""
    row = next(row for row in ROWS if row.name == game)
    config = from_dict(WorldConfig, row.settings["world"])
    return cast("gymnasium.Env[Any, Any]", row.opener(game, config, stream(seed, "game"), seed))
