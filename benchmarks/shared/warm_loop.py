"""A training loop that learns already, for programs that time its steps."""

from offpiste.bonuses.base import Bonus
from offpiste.config import ExplorationConfig, RunConfig
from offpiste.run.loop import Loop

GREEDY = ExplorationConfig(epsilon_final=0.0, epsilon_decay_steps=1)
"""Every action is chosen by the network."""


def warm_loop(config: RunConfig, steps: int, bonus: Bonus | None = None) -> Loop:
    """Return a loop that has filled its replay and then taken so many steps that learn."""
    loop = Loop(config, bonus=bonus)
    training = loop.steps()
    while loop.tracker.training_steps <= config.agent.min_history_steps + steps:
        next(training)
    return loop
