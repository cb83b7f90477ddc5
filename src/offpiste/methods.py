"""The ways of exploring, each a pair of how actions are chosen and which bonus is added, with the tuned constants."""

import re
from dataclasses import asdict, dataclass, field, replace

from offpiste.config import BonusConfig, ExplorationConfig, RunConfig
from offpiste.errors import ConfigError, did_you_mean
from offpiste.parsing import from_dict
from offpiste.worlds.registry import settings


@dataclass(frozen=True)
class Method:
    """One row of the comparison."""

    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    bonus: BonusConfig = field(default_factory=BonusConfig)
    source: str = "the paper"
    """Where the constants come from."""


METHODS = {
    "epsilon_greedy": Method(),
    "noisy_nets": Method(ExplorationConfig(epsilon_start=0.0, epsilon_final=0.0, noisy=True)),
    "cts": Method(bonus=BonusConfig(name="cts", scale=0.0005)),
    "pixelcnn": Method(bonus=BonusConfig(name="pixelcnn", options={"decay": 1.0}, scale=0.1)),
    "icm": Method(bonus=BonusConfig(name="icm", options={"forward_weight": 0.005}, scale=0.005)),
    "rnd": Method(bonus=BonusConfig(name="rnd", options={"learning_rate": 2e-4}, scale=1e-4, clip_sum=False)),
    "rnd_released": Method(
        bonus=BonusConfig(name="rnd_released", options={"learning_rate": 1e-4}, scale=5e-5, clip_sum=False),
        source="the released code",
    ),
}


def find(name: str) -> Method:
    """Return the method of this name."""
    if name not in METHODS:
        raise ConfigError(
            f"no method named {name!r}{did_you_mean(name, METHODS)} "
            "(`offpiste methods` lists them; a name of your own goes with a bonus)"
        )
    return METHODS[name]


def choose(method: str | None = None, bonus: str | None = None) -> tuple[str, Method]:
    """Return the name and the settings of what a method, a bonus or both ask for.

    A bonus alone is added to ε-greedy actions and gives the method its name, a known method's bonus that method. Added
    to a known method it makes `method+bonus`, where a class called as one of ours goes by `module.Class`. With a method
    of another name, it is added to ε-greedy actions, or to those of the known method before a plus. Constants go with
    the bonus: the table's, else a scale of 1.
    """
    if bonus is None:
        name = method or RunConfig().method
        return name, find(name)
    own = short_name(bonus)
    taken = own in METHODS and METHODS[own].bonus.name != bonus
    if taken:
        own = bonus.replace(":", ".")  # or it would be called as one of ours added to the same method
    if method is None:
        method = RunConfig().method if taken or bonus == "none" else own
    known = METHODS.get(method)
    if known is not None and known.bonus.name == bonus:
        return method, known
    name = method if known is None else f"{method}+{own}"
    if not re.fullmatch(r"\w[\w.+-]*", name, re.ASCII):
        raise ConfigError(f"{name!r} cannot name a run: with --method, give a name of letters, digits and _ . + -")
    explored_by = METHODS.get(method.partition("+")[0], Method())
    tuned = {row.bonus.name: row.bonus for row in METHODS.values()}
    return name, Method(explored_by.exploration, tuned.get(bonus, BonusConfig(name=bonus)), source="not tuned")


def short_name(bonus: str) -> str:
    """Return the name of a bonus, or that of its class in snake_case where it is given as module:Class."""
    module, _, kind = bonus.rpartition(":")
    if not module or not kind:
        return bonus
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()


def base_run(game: str, method: str | None = None, bonus: str | None = None) -> RunConfig:
    """Return the run of a method or a bonus or both on a game, before anything else is set by hand.

    A world may have defaults of its own; what the method itself says of exploration stands before them.
    """
    name, chosen = choose(method, bonus)
    run = from_dict(RunConfig, settings(game), base=RunConfig(game=game, method=name, bonus=chosen.bonus))
    default = asdict(ExplorationConfig())
    own = {key: value for key, value in asdict(chosen.exploration).items() if value != default[key]}
    return replace(run, exploration=replace(run.exploration, **own))
