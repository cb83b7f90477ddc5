"""Play a trained agent without learning, as the evaluation phase does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from offpiste.agent.rainbow import Rainbow
from offpiste.config import RunConfig
from offpiste.errors import StoreError
from offpiste.run.loop import new_agent
from offpiste.run.process import prepare
from offpiste.seeding import stream
from offpiste.store import arrays
from offpiste.store.checkpoints import newest_object
from offpiste.store.run_folder import KEPT_ITERATIONS, read_config
from offpiste.store.storage import Folder
from offpiste.worlds.registry import open_world


@dataclass(frozen=True)
class Played:
    """One episode."""

    game_return: float
    steps: int


def evaluate(
    folder: Folder, episodes: int, seed: int, iteration: int | None = None, device: str = "cpu"
) -> Iterator[Played]:
    """Play episodes with the newest weights of a run, or with those kept after an iteration."""
    config = read_config(folder)
    config = replace(config, machine=replace(config.machine, device=device))
    prepare(config.machine)
    game = open_world(config.game, config.world, stream(seed, "evaluation game"))
    agent = load_agent(folder, config, game.action_count, iteration)
    generator = stream(seed, "evaluation actions")
    noise = stream(seed, "evaluation noise") if config.exploration.evaluation_noise else None
    for _ in range(episodes):
        state, _ = game.reset()
        total, steps, over = 0.0, 0, False
        while not over:
            action = agent.act(state, config.exploration.epsilon_evaluation, generator, noise)
            state, reward, terminated, truncated, _ = game.step(action)
            total, steps, over = total + reward, steps + 1, terminated or truncated
        yield Played(total, steps)


def load_agent(folder: Folder, config: RunConfig, action_count: int, iteration: int | None) -> Rainbow:
    """Return the agent with the newest weights of a run, or with those kept after an iteration."""
    agent = new_agent(config, action_count)
    if iteration is None:
        agent.load_weights(arrays.unpack(newest_object(folder, "agent")), "online/")
        return agent
    try:
        weights = newest_object(folder, f"kept/{iteration:06d}-weights")
    except KeyError:
        raise StoreError(
            f"{folder.location} keeps no weights of iteration {iteration}; they are kept after iterations "
            f"{', '.join(map(str, KEPT_ITERATIONS))}, with the first checkpoint that follows"
        ) from None
    agent.load_weights(arrays.unpack(weights))
    return agent
