"""`offpiste eval`: evaluate a trained agent."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from offpiste.cli.output import warn
from offpiste.errors import ConfigError
from offpiste.store.storage import Folder


@dataclass(frozen=True)
class Arguments:
    """Play episodes with a run's newest weights, without training, and print their returns."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder or s3:// URL of the run."""
    episodes: int = 10
    """How many episodes to play."""
    seed: int = 0
    """Seed of sticky and random actions."""
    iteration: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Use the weights saved after this iteration instead of the newest."""
    device: str = "cpu"
    """cpu, cuda or cuda:N; may differ from where the run was trained."""
    trust_world: tyro.conf.FlagCreatePairsOff[bool] = False
    """Import the world that the run names even if it is not one of ours. Its module may run any code."""


def main(arguments: Arguments) -> int:
    """Play the episodes and print their returns."""
    from offpiste.run.evaluate import evaluate

    if arguments.episodes < 1:
        raise ConfigError(f"--episodes must be > 0, got {arguments.episodes}")
    returns = []
    folder = Folder(arguments.run)
    plays = evaluate(
        folder,
        arguments.episodes,
        arguments.seed,
        arguments.iteration,
        arguments.device,
        warn,
        trust_world=arguments.trust_world,
    )
    for number, played in enumerate(plays, 1):
        returns.append(played.game_return)
        print(f"episode {number}: return {played.game_return:g} in {played.steps:,} steps", flush=True)
    if returns:
        print(f"mean return {sum(returns) / len(returns):g} over {len(returns)} episodes")
    return 0
