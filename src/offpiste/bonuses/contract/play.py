"""The transitions and batches that a bonus is checked on: real play, the same at every call."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from offpiste.bonuses.base import Context, Sample, no_replay
from offpiste.config import AgentConfig, WorldConfig
from offpiste.parsing import from_dict
from offpiste.seeding import stream
from offpiste.types import Batch, Transition, Weights
from offpiste.worlds.base import MAX_ACTIONS
from offpiste.worlds.play import episode, random_policy
from offpiste.worlds.registry import open_world, settings

WARM_UP_GAMES = (
    "montezuma_revenge",
    "freeway",
    "gravitar",
    "private_eye",
    "solaris",
    "pitfall",
    "asterix",
    "space_invaders",
    "hero",
    "beam_rider",
)
NEW_GAME, OTHER_NEW_GAME = "seaquest", "venture"
"""The games of the frames that are new after the warm-up."""
ROOMS = "four_rooms"
"""A world with one small frame a state and four actions, whose frames recur within an episode."""
ROOMS_ACTIONS = 4
ROOMS_EPISODE_STEPS = 24
SEED = 0
OTHER_SEED = 1
_AGENT = AgentConfig()  # once, since its ranges are checked each time


@dataclass(frozen=True)
class Lengths:
    """How long a bonus is observed."""

    steps_per_game: int
    """Steps of random play in each of the ten games."""
    episode_steps: int
    saved_after: int
    """When the bonus is saved; by then an episode was truncated and another terminated."""
    compared: int
    """How long it is compared with others; by then both have happened once more."""
    repeats: int
    """How often the new frame is repeated."""
    rooms_saved_after: int
    """When the bonus is saved in Four Rooms: in the middle of an episode, of which frames recur."""
    rooms_steps: int
    turn_steps: int
    """How many steps of `turns` are taken."""

    @property
    def first(self) -> int:
        """How many of the repeats count as the first, and how many there are in each of the episodes that follow."""
        return self.repeats // 15

    @property
    def last(self) -> int:
        """How many of the repeats count as the last."""
        return self.repeats // 3 + 1

    @property
    def all_steps(self) -> int:
        """How many steps the bonus observes on Atari."""
        return len(WARM_UP_GAMES) * self.steps_per_game + len(visits(self))


FULL = Lengths(
    steps_per_game=200,
    episode_steps=100,
    saved_after=220,
    compared=410,
    repeats=300,
    rooms_saved_after=638,
    rooms_steps=700,
    turn_steps=600,
)
QUICK = Lengths(
    steps_per_game=12,
    episode_steps=6,
    saved_after=44,
    compared=62,
    repeats=60,
    rooms_saved_after=326,
    rooms_steps=366,
    turn_steps=396,
)


@cache
def warm_up(lengths: Lengths = FULL, steps: int | None = None) -> tuple[Transition, ...]:
    """Return random play in ten games, or its first `steps` steps, the same at every call."""
    played = (
        transition
        for game in WARM_UP_GAMES
        for transition in islice(random_play(game, lengths.episode_steps), lengths.steps_per_game)
    )
    return tuple(islice(played, steps))


@cache
def new_transition(game: str) -> Transition:
    """Return a step from the middle of an episode in a game that is not in the warm-up."""
    return next(islice(random_play(game, FULL.episode_steps), FULL.episode_steps // 2, None))


@cache
def visits(lengths: Lengths = FULL) -> tuple[Transition, ...]:
    """Return a new frame many times and another new one once, then the first again in two more episodes.

    The first of the three episodes is truncated, the second terminated.
    """
    new, other_new = new_transition(NEW_GAME), new_transition(OTHER_NEW_GAME)
    truncated, terminated = replace(other_new, truncated=True), replace(other_new, terminated=True)
    later = [new] * lengths.first
    episodes = ([new] * lengths.repeats + [other_new, truncated], [*later, terminated], later)
    return tuple(
        replace(transition, episode_step=step) for episode in episodes for step, transition in enumerate(episode)
    )


@cache
def rooms(lengths: Lengths = FULL) -> tuple[Transition, ...]:
    """Return random play in Four Rooms."""
    return tuple(islice(random_play(ROOMS, ROOMS_EPISODE_STEPS), lengths.rooms_steps))


@cache
def random_steps(game: str) -> tuple[Transition, ...]:
    """Return random play in one game, for warm-ups."""
    return tuple(islice(random_play(game), QUICK.compared))


def context_of(game: str, generator: np.random.Generator, sample: Sample = no_replay) -> Context:
    """Return what a bonus is built from on a game; on Atari, for the full set of actions."""
    world = _world_config(game)
    actions, size = ROOMS_ACTIONS if game == ROOMS else MAX_ACTIONS, world.frame_size
    return Context(game, actions, world.stack_frames, (size, size), generator, sample=sample)


def _world_config(game: str) -> WorldConfig:
    return from_dict(WorldConfig, settings(game).get("world", {}))


def random_play(game: str, episode_steps: int = FULL.episode_steps) -> Iterator[Transition]:
    """Play at random in short episodes, cut off as truncated and terminated in turn."""
    world = open_world(game, _world_config(game), stream(SEED, f"check {game}"), SEED)
    policy = random_policy(world, stream(SEED, f"check actions of {game}"))
    for terminated in cycle((False, True)):
        for transition in islice(episode(world, policy), episode_steps):
            cut = transition.episode_step == episode_steps - 1 and not transition.over
            yield replace(transition, terminated=terminated, truncated=not terminated) if cut else transition


def batch_draws() -> np.random.Generator:
    """Return the generator that samples all batches of a check."""
    return stream(SEED, "check batches")


def batch_of(shown: Sequence[Transition], draws: np.random.Generator) -> Batch | None:
    """Return a batch sampled from the steps so far, as in a run, or None where none is due."""
    if len(shown) < _AGENT.batch_size + _AGENT.return_steps or len(shown) % _AGENT.update_period_steps:
        return None
    return sampled(shown, _AGENT.batch_size, draws)


def sampled(
    shown: Sequence[Transition], batch_size: int, draws: np.random.Generator, weights: Weights | None = None
) -> Batch | None:
    """Return a batch sampled from the steps so far, as from the replay, or None where there are too few."""
    count = len(shown) - _AGENT.return_steps
    if count <= 0:
        return None
    if weights is None:
        return batch_at(shown, draws.integers(count, size=batch_size))
    cumulative = np.cumsum(weights(np.arange(count)))
    found = np.searchsorted(cumulative, draws.random(batch_size) * cumulative[-1], side="right")
    return batch_at(shown, np.minimum(found, count - 1))


def batch_at(shown: Sequence[Transition], indices: NDArray[np.int64]) -> Batch:
    """Return the batch of the n steps from each of these on, as the replay has them."""
    batch_size = len(indices)
    runs = [shown[index : index + _AGENT.return_steps] for index in indices]
    rewards = np.array([[step.reward for step in steps] for steps in runs], np.float32).clip(-1.0, 1.0)
    ends = np.array([[step.over for step in steps] for steps in runs])
    inside = np.cumsum(ends, axis=1) - ends == 0  # true up to and including the first end
    stack, *frame_shape = shown[0].state.shape
    frames = np.empty((batch_size, stack + _AGENT.return_steps, *frame_shape), np.uint8)
    for row, steps in zip(frames, runs, strict=True):
        row[:stack] = steps[0].state
        for ahead, step in enumerate(steps):
            row[stack + ahead] = step.next_state[-1]
    return Batch(
        indices=indices,
        numbers=indices,
        priorities=np.ones(batch_size),
        frames=frames,
        actions=np.array([[step.action for step in steps] for steps in runs]),
        extrinsic=np.where(inside, rewards, np.float32(0.0)),
        intrinsic=np.zeros_like(rewards),
        steps=inside.sum(axis=1),
        terminal=np.asarray(ends.any(axis=1)),
    )
