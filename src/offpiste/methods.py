"""The ways of exploring, one row each: how actions are chosen, which bonus is added, and the tuned constants.

A bonus of this package is a module in `bonuses/` and a row below; all lists of methods and bonuses come from here.
"""

import re
from dataclasses import asdict, dataclass, field, replace

from offpiste.config import BonusConfig, ExplorationConfig, RunConfig
from offpiste.errors import ConfigError, did_you_mean
from offpiste.parsing import from_dict
from offpiste.worlds import registry as worlds


@dataclass(frozen=True)
class Method:
    """One row of the comparison, with all that differs from one method to another but colours."""

    label: str
    """What people call it."""
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    constants: dict[str, BonusConfig] = field(default_factory=lambda: {"atari": BonusConfig()})
    """The bonus with its tuned constants, by the worlds that they were tuned for (`Game.constants`); those for Atari
    games serve where there are no others."""
    source: str = "not tuned"
    """Where the constants come from."""
    bonus_class: str | None = None
    """Where a bonus of this package is, module:Class; imported only when asked for."""
    checkpoint_mb: float = 0.0
    """What its bonus takes in a checkpoint, in megabytes, at most."""
    paper_settings: int | None = None
    """How many settings the paper's authors tried for it, with five seeds each on Montezuma's Revenge; None where it is
    not one of the paper's six methods."""

    @property
    def bonus(self) -> BonusConfig:
        """The bonus with its constants for Atari games."""
        return self.constants["atari"]

    def bonus_on(self, game: str) -> BonusConfig:
        """Return the bonus with its constants for a game."""
        return self.constants.get(worlds.find(game).constants, self.bonus)


METHODS = {
    "epsilon_greedy": Method("ε-greedy", source="the paper", paper_settings=0),
    "noisy_nets": Method(
        "NoisyNets",
        ExplorationConfig(epsilon_start=0.0, epsilon_final=0.0, noisy=True),
        source="the paper",
        paper_settings=0,
    ),
    "cts": Method(
        "CTS",
        constants={"atari": BonusConfig(name="cts", scale=0.0005)},
        source="the paper",
        bonus_class="offpiste.bonuses.cts:Cts",
        checkpoint_mb=10.0,
        paper_settings=8,
    ),
    "pixelcnn": Method(
        "PixelCNN",
        constants={"atari": BonusConfig(name="pixelcnn", options={"decay": 1.0}, scale=0.1)},
        source="the paper",
        bonus_class="offpiste.bonuses.pixelcnn:PixelCnn",
        checkpoint_mb=0.3,
        paper_settings=25,
    ),
    "icm": Method(
        "ICM",
        constants={"atari": BonusConfig(name="icm", options={"forward_weight": 0.005}, scale=0.005)},
        source="the paper",
        bonus_class="offpiste.bonuses.icm:Icm",
        checkpoint_mb=4.1,
        paper_settings=54,
    ),
    "rnd": Method(
        "RND",
        constants={"atari": BonusConfig(name="rnd", options={"learning_rate": 2e-4}, scale=1e-4, clip_sum=False)},
        source="the paper",
        bonus_class="offpiste.bonuses.rnd:Rnd",
        checkpoint_mb=71.1,
        paper_settings=45,
    ),
    "rnd_released": Method(
        "RND (released)",
        constants={
            "atari": BonusConfig(name="rnd_released", options={"learning_rate": 1e-4}, scale=5e-5, clip_sum=False)
        },
        source="the released code",
        bonus_class="offpiste.bonuses.rnd:RndReleased",
        checkpoint_mb=71.1,
    ),
    "simhash": Method(
        "SimHash",
        constants={"atari": BonusConfig(name="simhash", scale=0.04)},
        bonus_class="offpiste.bonuses.simhash:SimHash",
        checkpoint_mb=10.0,  # 0.6 after 40,000 steps of random play in Private Eye, growing by their root
    ),
    "oracle": Method(
        "Oracle",
        constants={"atari": BonusConfig(name="oracle", scale=0.01)},
        bonus_class="offpiste.bonuses.oracle:Oracle",
        checkpoint_mb=3.0,  # 16 bytes for each of the 640 cells of 256 rooms
    ),
    "oracle_episodic": Method(
        "Oracle (episodic)",
        constants={"atari": BonusConfig(name="oracle_episodic", scale=0.01)},
        bonus_class="offpiste.bonuses.oracle:OracleEpisodic",
        checkpoint_mb=0.5,  # 16 bytes for each of the 27,000 steps of the longest episode
    ),
    "oracle_product": Method(
        "Oracle (product)",
        constants={"atari": BonusConfig(name="oracle_product", scale=0.01)},
        bonus_class="offpiste.bonuses.oracle:OracleProduct",
        checkpoint_mb=3.5,
    ),
}
"""Every method by its name, in the order in which lists, tables and figures show them: the paper's first."""

PAPER_METHODS = tuple(name for name, row in METHODS.items() if row.paper_settings is not None)


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
    explored_by = METHODS.get(method.partition("+")[0], Method(name))
    tuned = {row.bonus.name: row.constants for row in METHODS.values()}
    return name, Method(name, explored_by.exploration, tuned.get(bonus, {"atari": BonusConfig(name=bonus)}))


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
    base = RunConfig(game=game, method=name, bonus=chosen.bonus_on(game))
    run = from_dict(RunConfig, worlds.settings(game), base=base)
    default = asdict(ExplorationConfig())
    own = {key: value for key, value in asdict(chosen.exploration).items() if value != default[key]}
    return replace(run, exploration=replace(run.exploration, **own))
