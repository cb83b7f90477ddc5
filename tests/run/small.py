"""A run that is real but small: a real game, a small network, a replay that soon wraps around."""

from dataclasses import replace
from typing import Any

from offpiste.config import AgentConfig, ExplorationConfig, MachineConfig, RunConfig, ScheduleConfig, WorldConfig

AGENT = AgentConfig(
    replay_capacity=300,
    min_history_steps=60,
    target_update_steps=40,
    convolution_channels=(4, 4, 4),
    hidden_units=16,
)


def small_run(**settings: Any) -> RunConfig:
    """Return a run of a few hundred steps; settings replace fields of the configuration."""
    config = RunConfig(
        game="montezuma_revenge",
        frames=1_600,
        world=WorldConfig(episode_frames=800),
        agent=AGENT,
        schedule=ScheduleConfig(iteration_steps=150),
        exploration=ExplorationConfig(epsilon_decay_steps=100),
        machine=MachineConfig(checkpoint_minutes=0.01),
    )
    return replace(config, **settings)
