"""Play a trained agent without learning, as the evaluation phase of a run does."""

import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from offpiste import arrays
from offpiste.agent.rainbow import Rainbow
from offpiste.config import RunConfig
from offpiste.errors import CheckpointError, ConfigError, StoreError
from offpiste.run.loop import new_agent
from offpiste.run.process import prepare
from offpiste.seeding import stream
from offpiste.store import layout
from offpiste.store.checkpoints import newest_objects, refuse_unfit
from offpiste.store.identity import read_config
from offpiste.store.storage import Folder
from offpiste.worlds.base import World
from offpiste.worlds.play import Policy, episode
from offpiste.worlds.registry import is_ours, open_world


@dataclass(frozen=True)
class PlayedEpisode:
    """The return and length of one episode."""

    game_return: float
    steps: int


def evaluate(
    folder: Folder,
    episodes: int,
    seed: int,
    iteration: int | None = None,
    device: str = "cpu",
    warn: Callable[[str], None] = warnings.warn,
    *,
    trust_world: bool = False,
) -> Iterator[PlayedEpisode]:
    """Play episodes with the newest weights of a run, or with those kept after an iteration.

    `warn` says if the newest checkpoint is broken, so that an older one is used.
    """
    config = read_config(folder)
    refuse_world(config.game, trust_world=trust_world)
    config = replace(config, machine=replace(config.machine, device=device))
    prepare(config.machine)
    world = open_world(config.game, config.world, stream(seed, "evaluation game"), config.seed)
    policy = evaluation_policy(config, load_agent(folder, config, world, iteration, warn), seed)
    for _ in range(episodes):
        total, steps = 0.0, 0
        for transition in episode(world, policy):
            total, steps = total + transition.reward, steps + 1
        yield PlayedEpisode(total, steps)


def refuse_world(game: str, *, trust_world: bool) -> None:
    """Raise `ConfigError` for a world whose code would be imported because a store names it."""
    if not trust_world and not is_ours(game):
        raise ConfigError(
            f"the run names the world {game!r}, whose code is not ours, so it was not imported: it could do anything. "
            "If you know it, give --trust-world"
        )


def evaluation_policy(config: RunConfig, agent: Rainbow, seed: int) -> Policy:
    """Return the policy of an agent in evaluation: ε-greedy, with noise where the configuration says so."""
    exploration, actions = config.exploration, stream(seed, "evaluation actions")
    noise = stream(seed, "evaluation noise") if exploration.evaluation_noise else None
    return lambda state: agent.act(state, exploration.epsilon_evaluation, actions, noise)


def load_agent(
    folder: Folder, config: RunConfig, world: World, iteration: int | None, warn: Callable[[str], None]
) -> Rainbow:
    """Return the agent with the newest weights of a run, or with those kept after an iteration."""
    key = weights_key(iteration)
    return agent_from(folder, config, world, read_kept(folder, [key], iteration, warn)[key], iteration)


def weights_key(iteration: int | None) -> str:
    """Return the key of the newest weights, or of those kept after an iteration."""
    return layout.AGENT if iteration is None else layout.milestone(iteration, "weights")


def read_kept(
    folder: Folder, keys: Collection[str], iteration: int | None, warn: Callable[[str], None]
) -> dict[str, bytes]:
    """Return objects of the newest checkpoint in which all are whole; StoreError if it has none of the iteration."""
    try:
        return newest_objects(folder, keys, warn)
    except KeyError as error:
        if iteration is None:
            raise CheckpointError(
                f"the newest checkpoint in {folder.location} has no {error}; is it of this run?"
            ) from None
        raise StoreError(
            f"{folder.location} keeps no weights of iteration {iteration}; they are kept after iterations "
            f"{', '.join(map(str, layout.MILESTONES))}, with the first checkpoint that follows"
        ) from None


def agent_from(folder: Folder, config: RunConfig, world: World, data: bytes, iteration: int | None) -> Rainbow:
    """Return the agent with these weights."""
    with refuse_unfit(folder):
        weights = arrays.unpack(data)
        agent = new_agent(config, world)
        agent.load_weights(weights, layout.ONLINE if iteration is None else "")
    return agent
