"""Bonuses of the two Deep Sea programs: true counts paid late, the paper's bonuses shown a frame early, and a watcher.

A bonus is named by this module, `benchmarks.shared.deep_sea_bonuses:Early`, as one of a user's own is.
"""

from collections import Counter
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

from scipy.stats import spearmanr

from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.registry import build
from offpiste.config import RunConfig
from offpiste.methods import METHODS, base_run

SIZE = 10
GAME = f"deep_sea_{SIZE}"
BLOCK_STEPS = 500
LATE_ORACLE = "late_oracle"
"""True counts paid as the paper's bonuses are: for the frame in which an action is taken."""
EXACT = ("oracle", LATE_ORACLE)
EARLY = {f"early_{method}": method for method in ("cts", "pixelcnn", "rnd")}
"""The same bonuses, shown the frame that an action leads to."""


def run_of(method: str) -> RunConfig:
    """Return the run of a method, of the late oracle, or of a bonus that is shown frames early."""
    if method == LATE_ORACLE:
        return base_run(GAME, bonus=f"{__name__}:LateOracle")
    config = base_run(GAME, EARLY.get(method, method))
    if method not in EARLY:
        return config
    return replace(config, bonus=replace(config.bonus, name=f"{__name__}:Early", options={"of": EARLY[method]}))


class Unsaved:
    """A bonus of a run that is short, and is begun again when it was stopped."""

    def state(self) -> dict[str, Any]:
        """Never asked for."""
        raise NotImplementedError

    def load_state(self, state: dict[str, Any]) -> None:
        """Never asked for."""
        raise NotImplementedError


class Watched(Unsaved):
    """A bonus, and beside each of its payments how often the cell it pays for had been visited."""

    def __init__(self, bonus: Any, name: str) -> None:
        self._bonus = bonus
        self._pays_for_arrival = name.startswith("oracle") or name in EARLY
        self._visits: Counter[bytes] = Counter()
        self._bonuses: list[float] = []
        self._counts: list[int] = []

    def observe(self, transition: Transition) -> float:
        """Ask the bonus and note down the true count: a cell is its frame."""
        cell = (transition.next_state[-1] if self._pays_for_arrival else transition.frame).tobytes()
        self._visits[cell] += 1
        bonus = float(self._bonus.observe(transition))
        self._bonuses.append(bonus)
        self._counts.append(self._visits[cell])
        return bonus

    def median(self, min_visits: int, max_visits: int) -> float:
        """Return what was paid in the median for so many visits."""
        pairs = zip(self._bonuses, self._counts, strict=True)
        return median([bonus for bonus, count in pairs if min_visits <= count <= max_visits] or [float("nan")])

    def correlation(self) -> float:
        """Return the rank correlation of bonus and 1/√count."""
        return self._correlation(slice(None))

    def correlation_at_one_time(self) -> float:
        """Return the same among steps that are near in time: the mean over the full blocks of so many steps."""
        starts = range(0, len(self._counts) - BLOCK_STEPS + 1, BLOCK_STEPS)
        return mean(self._correlation(slice(start, start + BLOCK_STEPS)) for start in starts)

    def _correlation(self, steps: slice) -> float:
        return float(spearmanr(self._bonuses[steps], [count**-0.5 for count in self._counts[steps]]).statistic)


@dataclass(frozen=True)
class NoOptions:
    """There is nothing to choose."""


class LateOracle(Unsaved):
    """Pays 1/√n for the n-th action that is taken in a cell, which is its frame."""

    Options = NoOptions

    def __init__(self, options: NoOptions, context: Context) -> None:  # noqa: ARG002 (the form of every bonus)
        self._visits: Counter[bytes] = Counter()

    def observe(self, transition: Transition) -> float:
        """Count the visit and pay for it."""
        cell = transition.frame.tobytes()
        self._visits[cell] += 1
        return float(self._visits[cell] ** -0.5)


@dataclass(frozen=True)
class EarlyOptions:
    """Which bonus it is."""

    of: str


class Early(Unsaved):
    """One of the paper's bonuses, shown the frame that an action leads to and not the one in which it is taken."""

    Options = EarlyOptions

    def __init__(self, options: EarlyOptions, context: Context) -> None:
        self._bonus: Any = build(METHODS[options.of].bonus, context)

    def observe(self, transition: Transition) -> float:
        """Return what it pays for arriving."""
        return float(self._bonus.observe(replace(transition, state=transition.next_state)))
