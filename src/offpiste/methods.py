"""The ways of exploring, each a pair of how actions are chosen and which bonus is added, with the tuned constants."""

from dataclasses import dataclass, field

from offpiste.config import BonusConfig, ExplorationConfig
from offpiste.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Method:
    """One row of the comparison."""

    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    bonus: BonusConfig = field(default_factory=BonusConfig)


METHODS = {
    "epsilon_greedy": Method(),
    "noisy_nets": Method(ExplorationConfig(epsilon_start=0.0, epsilon_final=0.0, noisy=True)),
    "cts": Method(bonus=BonusConfig(name="cts", scale=0.0005)),
    "pixelcnn": Method(bonus=BonusConfig(name="pixelcnn", options={"decay": 1.0}, scale=0.1)),
    "icm": Method(bonus=BonusConfig(name="icm", options={"forward_weight": 0.005}, scale=0.005)),
    "rnd": Method(bonus=BonusConfig(name="rnd", options={"learning_rate": 2e-4}, scale=1e-4, clip_sum=False)),
    "rnd_released": Method(
        bonus=BonusConfig(name="rnd_released", options={"learning_rate": 1e-4}, scale=5e-5, clip_sum=False)
    ),
}


def find(name: str) -> Method:
    """Return the method of this name."""
    if name not in METHODS:
        raise ConfigError(f"no method named {name!r}{did_you_mean(name, METHODS)}")
    return METHODS[name]
