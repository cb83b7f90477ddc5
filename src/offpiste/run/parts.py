"""The parts of a run, untrained, as its configuration says: agent, replay, bonus."""

import numpy as np

from offpiste.agent.rainbow import Rainbow
from offpiste.agent.replay import Replay
from offpiste.bonuses.base import Bonus, Context
from offpiste.bonuses.registry import build
from offpiste.config import RunConfig
from offpiste.seeding import stream
from offpiste.types import Batch, Weights
from offpiste.worlds.base import World


def new_agent(config: RunConfig, world: World) -> Rainbow:
    """Return the untrained agent of a run."""
    noise_scale = config.exploration.noise_scale if config.exploration.noisy else None
    weights, device = stream(config.seed, "weights"), config.machine.device
    return Rainbow(config.agent, world.state_shape, world.action_count, weights, device, noise_scale, config.bonus)


def new_replay(config: RunConfig, generator: np.random.Generator) -> Replay:
    """Return the empty replay of a run."""
    return Replay(
        config.agent,
        config.world.state_shape,
        generator,
        bootstrap_at_limit=config.world.bootstrap_at_limit,
        beyond_ends=not config.bonus.ends_with_episode,
    )


def build_bonus(
    config: RunConfig, world: World, generator: np.random.Generator, replay: Replay | None = None
) -> Bonus | None:
    """Return the untrained bonus of a run, which may sample from the replay, or None where it has none."""
    stack, height, width = world.state_shape

    def sample(batch_size: int, weights: Weights | None = None) -> Batch | None:
        if replay is None:
            return None
        if weights is None:
            return replay.sample_uniformly(batch_size, generator)
        return replay.sample_weighted(batch_size, generator, weights)

    context = Context(
        config.game,
        world.action_count,
        stack,
        (height, width),
        generator,
        config.machine.device,
        discount=config.agent.discount,
        return_steps=config.agent.return_steps,
        min_history_steps=config.agent.min_history_steps,
        run_steps=config.frames // config.world.frame_skip,
        sample=sample,
    )
    return build(config.bonus, context)
