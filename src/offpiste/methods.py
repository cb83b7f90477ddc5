"""The exploration methods, one row each: how actions are chosen, which bonus is added, and its constants.

A built-in bonus is a module in `bonuses/` and a row below; all lists of methods and bonuses come from here.
"""

import re
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

from offpiste.config import BonusConfig, ExplorationConfig, RunConfig
from offpiste.errors import ConfigError, did_you_mean
from offpiste.parsing import from_dict
from offpiste.worlds import registry as worlds

SMALL_WORLDS = "small_worlds"
"""Key of the constants that studies/small_worlds_tuning.toml chose on Deep Sea, or that follow a rule."""
BY_RULE = "a rule"
"""Source of constants that nobody tuned: those of the method's paper, and β by calibration (docs/fidelity.md)."""


@dataclass(frozen=True)
class Method:
    """One method of the comparison, with all that differs between methods except colours."""

    label: str
    """Its name in reports."""
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    constants: dict[str, BonusConfig] = field(default_factory=lambda: {"atari": BonusConfig()})
    """The bonus with its tuned constants, by the worlds that they were tuned for (`Game.constants`); "atari" is the
    default."""
    source: str = "not tuned"
    """Where the constants come from."""
    bonus_class: str | None = None
    """module:Class of a built-in bonus, imported on first use."""
    checkpoint_mb: dict[str, float] = field(default_factory=dict)
    """Maximum size of its bonus in a checkpoint, in MB, by worlds as the constants."""
    paper_settings: int | None = None
    """How many settings the paper's authors tuned over, with five seeds each on Montezuma's Revenge; None if it is not
    one of the paper's six methods."""

    @property
    def bonus(self) -> BonusConfig:
        """The bonus with its constants for Atari games."""
        return self.constants["atari"]

    def bonus_on(self, game: str) -> BonusConfig:
        """Return the bonus with its constants for a game."""
        return self.constants.get(worlds.find(game).constants, self.bonus)


RANDOM_PLAY = "random play"
"""What the analysis calls a run that never learns, whatever its method; no method can have a space in its name."""

_AS_BURDA_RAN_IT: dict[str, Any] = {
    "clip_sum": False,
    "normalise": "return_std",
    "pays_for": "next_state",
    "heads": 2,
    "ends_with_episode": False,
}
"""How Burda et al. (2019) mix: docs/fidelity.md, RND in full."""

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
        constants={
            "atari": BonusConfig(name="cts", scale=0.0005),
            SMALL_WORLDS: BonusConfig(name="cts", scale=0.082),
        },
        source="the paper",
        bonus_class="offpiste.bonuses.cts:Cts",
        checkpoint_mb={"atari": 10.0, SMALL_WORLDS: 1.5},
        paper_settings=8,
    ),
    "pixelcnn": Method(
        "PixelCNN",
        constants={
            "atari": BonusConfig(name="pixelcnn", options={"decay": 1.0}, scale=0.1),
            SMALL_WORLDS: BonusConfig(name="pixelcnn", options={"decay": 1.0, "learning_rate": 3.2e-4}, scale=0.39),
        },
        source="the paper",
        bonus_class="offpiste.bonuses.pixelcnn:PixelCnn",
        checkpoint_mb={"atari": 0.3, SMALL_WORLDS: 0.2},
        paper_settings=25,
    ),
    "icm": Method(
        "ICM",
        constants={
            "atari": BonusConfig(name="icm", options={"forward_weight": 0.005}, scale=0.005),
            SMALL_WORLDS: BonusConfig(
                name="icm", options={"forward_weight": 0.005, "learning_rate": 1e-3}, scale=0.0079
            ),
        },
        source="the paper",
        bonus_class="offpiste.bonuses.icm:Icm",
        checkpoint_mb={"atari": 4.1, SMALL_WORLDS: 2.0},
        paper_settings=54,
    ),
    "rnd": Method(
        "RND",
        constants={
            "atari": BonusConfig(name="rnd", options={"learning_rate": 2e-4}, scale=1e-4, clip_sum=False),
            SMALL_WORLDS: BonusConfig(
                name="rnd", options={"learning_rate": 2e-3, "features": 128}, scale=0.0038, clip_sum=False
            ),
        },
        source="the paper",
        bonus_class="offpiste.bonuses.rnd:Rnd",
        checkpoint_mb={"atari": 71.1, SMALL_WORLDS: 3.7},
        paper_settings=45,
    ),
    "rnd_released": Method(
        "RND (released)",
        constants={
            "atari": BonusConfig(name="rnd_released", options={"learning_rate": 1e-4}, scale=5e-5, clip_sum=False),
            SMALL_WORLDS: BonusConfig(
                name="rnd_released", options={"learning_rate": 1e-4, "features": 128}, scale=0.0015, clip_sum=False
            ),
        },
        source="the released code",
        bonus_class="offpiste.bonuses.rnd:RndReleased",
        checkpoint_mb={"atari": 71.1, SMALL_WORLDS: 3.7},
    ),
    "ez_greedy": Method("εz-greedy", ExplorationConfig(max_repeat_steps=10_000)),
    "simhash": Method(
        "SimHash",
        constants={
            "atari": BonusConfig(name="simhash", scale=0.04),
            SMALL_WORLDS: BonusConfig(name="simhash", scale=0.03),
        },
        bonus_class="offpiste.bonuses.simhash:SimHash",
        # on Atari 0.6 after 40,000 steps of random play in Private Eye, growing with their root
        checkpoint_mb={"atari": 10.0, SMALL_WORLDS: 5.0},
    ),
    "oracle": Method(
        "Oracle",
        constants={
            "atari": BonusConfig(name="oracle", scale=0.01),
            SMALL_WORLDS: BonusConfig(name="oracle", scale=0.09),
        },
        bonus_class="offpiste.bonuses.oracle:Oracle",
        # on Atari 16 bytes for each of the 640 cells of 256 rooms
        checkpoint_mb={"atari": 3.0, SMALL_WORLDS: 0.1},
    ),
    "oracle_episodic": Method(
        "Oracle (episodic)",
        constants={
            "atari": BonusConfig(name="oracle_episodic", scale=0.01),
            SMALL_WORLDS: BonusConfig(name="oracle_episodic", scale=0.03),
        },
        bonus_class="offpiste.bonuses.oracle:OracleEpisodic",
        # on Atari 16 bytes for each of the 27,000 steps of the longest episode
        checkpoint_mb={"atari": 0.5, SMALL_WORLDS: 0.1},
    ),
    "oracle_product": Method(
        "Oracle (product)",
        constants={
            "atari": BonusConfig(name="oracle_product", scale=0.01),
            SMALL_WORLDS: BonusConfig(name="oracle_product", scale=0.09),
        },
        bonus_class="offpiste.bonuses.oracle:OracleProduct",
        checkpoint_mb={"atari": 3.5, SMALL_WORLDS: 0.1},
    ),
    "oracle_left": Method(
        "Oracle (cell left)",
        constants={"atari": BonusConfig(name="oracle_left", scale=0.01)},
        bonus_class="offpiste.bonuses.oracle:OracleLeft",
        checkpoint_mb={"atari": 3.0, SMALL_WORLDS: 0.1},
    ),
    "e3b": Method(
        "E3B",
        constants={
            "atari": BonusConfig(name="e3b", scale=0.078, normalise="std"),
            SMALL_WORLDS: BonusConfig(name="e3b", options={"learning_rate": 1e-3}, scale=0.034, normalise="std"),
        },
        source=BY_RULE,
        bonus_class="offpiste.bonuses.e3b:E3b",
        checkpoint_mb={"atari": 13.5, SMALL_WORLDS: 3.0},
    ),
    "noveld": Method(
        "NovelD",
        constants={
            "atari": BonusConfig(name="noveld", scale=0.0056),
            SMALL_WORLDS: BonusConfig(
                name="noveld", options={"learning_rate": 1e-3, "features": 128, "exact_frames": True}, scale=0.04
            ),
        },
        source=BY_RULE,
        bonus_class="offpiste.bonuses.noveld:NovelD",
        # on Atari 16 bytes for each of the 27,000 steps of the longest episode
        checkpoint_mb={"atari": 71.6, SMALL_WORLDS: 3.7},
    ),
    "ngu": Method(
        "NGU",
        constants={
            "atari": BonusConfig(name="ngu", scale=0.03, normalise="std"),
            SMALL_WORLDS: BonusConfig(name="ngu", options={"learning_rate": 1.6e-3}, scale=0.025, normalise="std"),
        },
        source=BY_RULE,
        bonus_class="offpiste.bonuses.ngu:Ngu",
        # on Atari 3.5 of it for the 27,000 states of the longest episode
        checkpoint_mb={"atari": 26.5, SMALL_WORLDS: 5.5},
    ),
    "rnd_full": Method(
        "RND (full)",
        constants={
            "atari": BonusConfig(name="rnd_full", scale=0.95, **_AS_BURDA_RAN_IT),
            SMALL_WORLDS: BonusConfig(
                name="rnd_full", options={"learning_rate": 1e-3, "features": 128}, scale=4.1, **_AS_BURDA_RAN_IT
            ),
        },
        source=BY_RULE,
        bonus_class="offpiste.bonuses.rnd_full:RndFull",
        checkpoint_mb={"atari": 33.4, SMALL_WORLDS: 3.7},
    ),
    "drnd": Method(
        "DRND",
        constants={
            "atari": BonusConfig(name="drnd", scale=0.95, **_AS_BURDA_RAN_IT),
            SMALL_WORLDS: BonusConfig(
                name="drnd", options={"learning_rate": 1e-3, "features": 128}, scale=0.31, **_AS_BURDA_RAN_IT
            ),
        },
        source=BY_RULE,
        bonus_class="offpiste.bonuses.drnd:Drnd",
        checkpoint_mb={"atari": 60.3, SMALL_WORLDS: 7.0},
    ),
    "disagreement": Method(
        "Disagreement",
        constants={
            "atari": BonusConfig(name="disagreement", scale=0.03, normalise="return_std"),
            SMALL_WORLDS: BonusConfig(
                name="disagreement",
                options={"learning_rate": 1e-3, "features": 128},
                scale=0.52,
                normalise="return_std",
            ),
        },
        source=BY_RULE,
        bonus_class="offpiste.bonuses.disagreement:Disagreement",
        checkpoint_mb={"atari": 67.0, SMALL_WORLDS: 7.0},
    ),
    "ride": Method(
        "RIDE",
        constants={
            "atari": BonusConfig(name="ride", scale=0.1),
            SMALL_WORLDS: BonusConfig(name="ride", options={"learning_rate": 1e-3, "exact_frames": True}, scale=20.0),
        },
        source=BY_RULE,
        bonus_class="offpiste.bonuses.ride:Ride",
        # on Atari 16 bytes for each of the 27,000 steps of the longest episode
        checkpoint_mb={"atari": 15.0, SMALL_WORLDS: 3.7},
    ),
    "e3b_rnd": Method(
        "E3B × RND",
        constants={
            "atari": BonusConfig(name="e3b_rnd", scale=0.03, normalise="std"),
            SMALL_WORLDS: BonusConfig(
                name="e3b_rnd",
                options={"learning_rate": 1e-3, "distilled_features": 128},
                scale=0.09,
                normalise="std",
            ),
        },
        source=BY_RULE,
        bonus_class="offpiste.bonuses.e3b_rnd:E3bRnd",
        checkpoint_mb={"atari": 85.0, SMALL_WORLDS: 6.7},
    ),
    "cfn": Method(
        "CFN",
        constants={
            "atari": BonusConfig(name="cfn", scale=0.01),
            SMALL_WORLDS: BonusConfig(name="cfn", options={"learning_rate": 1e-3, "batch_size": 64}, scale=0.12),
        },
        source=BY_RULE,
        bonus_class="offpiste.bonuses.cfn:Cfn",
        # on Atari 6 of it for the million entries that the replay holds
        checkpoint_mb={"atari": 11.0, SMALL_WORLDS: 1.5},
    ),
}
"""Every method by name, in the order of all lists, tables and figures: the paper's first."""

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
    """Return the name and the row of a method, a bonus, or both.

    - A method alone is that row.
    - A bonus alone is that of its row, or a new method named after the bonus with ε-greedy actions.
    - A known method and another bonus are `method+bonus`; a class whose name is a built-in bonus's is `module.Class`.
    - An unknown method and a bonus are a new method of that name, with ε-greedy actions, or those of the known method
      before a plus.

    Constants are those of the bonus in the table, else a scale of 1.
    """
    if bonus is None:
        name = method or RunConfig().method
        return name, find(name)
    own = short_name(bonus)
    taken = own in METHODS and METHODS[own].bonus.name != bonus
    if taken:
        own = bonus.replace(":", ".")  # or its name would be that of the built-in bonus
    if method is None:
        method = RunConfig().method if taken or bonus == "none" else own
    known = METHODS.get(method)
    if known is not None and known.bonus.name == bonus:
        return method, known
    name = method if known is None else f"{method}+{own}"
    if not re.fullmatch(r"\w[\w.+-]*", name, re.ASCII):
        raise ConfigError(
            f"the name of a method must be letters, digits and _ . + -, got {name!r}; give one with --method"
        )
    explored_by = METHODS.get(method.partition("+")[0], Method(name))
    tuned = {row.bonus.name: row.constants for row in METHODS.values()}
    return name, Method(name, explored_by.exploration, tuned.get(bonus, {"atari": BonusConfig(name=bonus)}))


def short_name(bonus: str) -> str:
    """Return the name of a bonus, or its class in snake_case if it is given as module:Class."""
    module, _, kind = bonus.rpartition(":")
    if not module or not kind:
        return bonus
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()


@lru_cache(maxsize=1024)  # a report asks for it three times a run
def base_run(game: str, method: str | None = None, bonus: str | None = None) -> RunConfig:
    """Return the default run of a method, a bonus, or both on a game.

    The game's own settings override the paper's protocol; the method's exploration overrides both.
    """
    name, chosen = choose(method, bonus)
    base = RunConfig(game=game, method=name, bonus=chosen.bonus_on(game))
    run = from_dict(RunConfig, worlds.settings(game), base=base)
    default = asdict(ExplorationConfig())
    own = {key: value for key, value in asdict(chosen.exploration).items() if value != default[key]}
    return replace(run, exploration=replace(run.exploration, **own))
