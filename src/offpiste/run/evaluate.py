"""Play a trained agent without learning, as the evaluation phase of a run does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from offpiste.agent.rainbow import Rainbow
from offpiste.config import RunConfig
from offpiste.errors import StoreError
from offpiste.run.parts import new_agent
from offpiste.run.process import prepare
from offpiste.seeding import stream
from offpiste.store import arrays, layout
from offpiste.store.checkpoints import newest_object
from offpiste.store.run_folder import read_config
from offpiste.store.storage import Folder
from offpiste.worlds.base import World
from offpiste.worlds.play import Policy, episode
from offpiste.worlds.registry import open_world


@dataclass(frozen=True)
class Played:
    """The return and length of one episode."""

    game_return: float
    steps: int


def evaluate(
    folder: Folder, episodes: int, seed: int, iteration: int | None = None, device: str = "cpu"
) -> Iterator[Played]:
    """Play episodes with the newest weights of a run, or with those kept after an iteration."""
    config = read_config(folder)
    config = replace(config, machine=replace(config.machine, device=device))
    prepare(config.machine)
    world = open_world(config.game, config.world, stream(seed, "evaluation game"), config.seed)
    policy = evaluation_policy(config, load_agent(folder, config, world, iteration), seed)
    for _ in range(episodes):
        total, steps = 0.0, 0
        for transition in episode(world, policy):
            total, steps = total + transition.reward, steps + 1
        yield Played(total, steps)


def evaluation_policy(config: RunConfig, agent: Rainbow, seed: int) -> Policy:
    """Return the policy of an agent in evaluation: ε-greedy, with noise where the configuration says so."""
    exploration, actions = config.exploration, stream(seed, "evaluation actions")
    noise = stream(seed, "evaluation noise") if exploration.evaluation_noise else None
    return lambda state: agent.act(state, exploration.epsilon_evaluation, actions, noise)


def load_agent(folder: Folder, config: RunConfig, world: World, iteration: int | None) -> Rainbow:
    """Return the agent with the newest weights of a run, or with those kept after an iteration."""
    agent = new_agent(config, world)
    if iteration is None:
        agent.load_weights(arrays.unpack(newest_object(folder, layout.AGENT)), layout.ONLINE)
        return agent
    try:
        weights = newest_object(folder, layout.milestone(iteration, "weights"))
    except KeyError:
        raise StoreError(
            f"{folder.location} keeps no weights of iteration {iteration}; they are kept after iterations "
            f"{', '.join(map(str, layout.MILESTONES))}, with the first checkpoint that follows"
        ) from None
    agent.load_weights(arrays.unpack(weights))
    return agent
