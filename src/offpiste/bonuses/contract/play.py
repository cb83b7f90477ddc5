"""The transitions and batches that a bonus is checked on: real play, the same at every call."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import cycle, islice

import numpy as np

from offpiste.config import AgentConfig, WorldConfig
from offpiste.seeding import stream
from offpiste.types import Batch, Transition
from offpiste.worlds.play import episode, random_policy
from offpiste.worlds.registry import open_world

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
WARM_UP_STEPS = 2_000
EPISODE_STEPS = 100
SAVED_AFTER_STEPS = 220
"""When the bonus is saved; by then an episode was truncated and another terminated."""
COMPARED_STEPS = 410
"""How long it is compared with others; by then both have happened once more."""
REPEATS = 300
"""How often the new frame is repeated."""
REPEATS_LATER = 20
"""How often it is repeated in each of the two episodes that follow."""
SEED = 0
OTHER_SEED = 1


@cache
def warm_up(steps: int = WARM_UP_STEPS) -> tuple[Transition, ...]:
    """Return the first `steps` steps of random play in ten games, the same at every call."""
    of_each = WARM_UP_STEPS // len(WARM_UP_GAMES)
    played = (transition for game in WARM_UP_GAMES for transition in islice(random_play(game), of_each))
    return tuple(islice(played, steps))


@cache
def new_transition(game: str) -> Transition:
    """Return a step from the middle of an episode in a game that is not in the warm-up."""
    return next(islice(random_play(game), EPISODE_STEPS // 2, None))


@cache
def visits() -> tuple[Transition, ...]:
    """Return a new frame many times and another new one once, then the first again in two more episodes.

    The first of the three episodes is truncated, the second terminated.
    """
    new, other_new = new_transition(NEW_GAME), new_transition(OTHER_NEW_GAME)
    truncated, terminated = replace(other_new, truncated=True), replace(other_new, terminated=True)
    later = [new] * REPEATS_LATER
    episodes = ([new] * REPEATS + [other_new, truncated], [*later, terminated], later)
    return tuple(
        replace(transition, episode_step=step) for episode in episodes for step, transition in enumerate(episode)
    )


def random_play(game: str) -> Iterator[Transition]:
    """Play at random in short episodes, cut off as truncated and terminated in turn."""
    world = open_world(game, WorldConfig(), stream(SEED, f"check {game}"), SEED)
    policy = random_policy(world, stream(SEED, f"check actions of {game}"))
    for terminated in cycle((False, True)):
        for transition in islice(episode(world, policy), EPISODE_STEPS):
            cut = transition.episode_step == EPISODE_STEPS - 1 and not transition.over
            yield replace(transition, terminated=terminated, truncated=not terminated) if cut else transition


def batch_draws() -> np.random.Generator:
    """Return the generator that samples all batches of a check."""
    return stream(SEED, "check batches")


def batch_of(shown: Sequence[Transition], draws: np.random.Generator) -> Batch | None:
    """Return a batch sampled from the steps so far, as in a run, or None where none is due."""
    agent = AgentConfig()
    choices = len(shown) - agent.return_steps
    if choices < agent.batch_size or len(shown) % agent.update_period_steps:
        return None
    indices = draws.integers(choices, size=agent.batch_size)
    runs = [shown[index : index + agent.return_steps] for index in indices]
    rewards = np.array([[step.reward for step in steps] for steps in runs], np.float32).clip(-1.0, 1.0)
    ends = np.array([[step.over for step in steps] for steps in runs])
    inside = np.cumsum(ends, axis=1) - ends == 0  # true up to and including the first end
    stack, *frame_shape = shown[0].state.shape
    frames = np.empty((agent.batch_size, stack + agent.return_steps, *frame_shape), np.uint8)
    for row, steps in zip(frames, runs, strict=True):
        row[:stack] = steps[0].state
        for ahead, step in enumerate(steps):
            row[stack + ahead] = step.next_state[-1]
    return Batch(
        indices=indices,
        numbers=indices,
        priorities=np.ones(agent.batch_size),
        frames=frames,
        actions=np.array([[step.action for step in steps] for steps in runs]),
        extrinsic=np.where(inside, rewards, np.float32(0.0)),
        intrinsic=np.zeros_like(rewards),
        steps=inside.sum(axis=1),
        terminal=np.asarray(ends.any(axis=1)),
    )
