"""Freeway in the small: what a bonus costs on a real game, stated before the first run.

The game, the network and the budget are not the paper's (studies/atari_small.toml), so nothing here is about its
protocol. ε-greedy must learn at all, or there is nothing to slow: the *gate*, on seeds of its own. Then each bonus is
held beside it by the area under the training curve, seed by seed, on the scale from random play to a human. Six pairs
show a claim only where all six agree, p = 1/64; each claim is corrected for the two bonuses (Holm). Anything else is
inconclusive.
"""

from collections.abc import Collection, Mapping

import numpy as np

from offpiste.analysis.findings import BASELINE, MARGIN
from offpiste.analysis.runs import Run
from offpiste.analysis.seed_tests import above, holm
from offpiste.analysis.summary import Summary
from offpiste.worlds.scores import reference_scores

GAME = "freeway"
BONUSES = ("cts", "rnd")
SEEDS = tuple(range(6))
PILOT_SEEDS = (100, 101)
GATE = 0.15
"""The normalised area that ε-greedy must have on every pilot seed."""

Areas = Mapping[str, Mapping[int, float]]
"""By method and seed, normalised areas."""


def areas_of(summaries: Collection[Summary]) -> dict[str, dict[int, float]]:
    """Return the normalised areas of the finished runs on Freeway."""
    scale = reference_scores(GAME)
    found: dict[str, dict[int, float]] = {}
    for each in summaries:
        if _counts(each.run) and np.isfinite(each.area):
            found.setdefault(each.run.method, {})[each.run.seed] = (each.area - scale.random) / scale.span
    return found


def missing(areas: Areas) -> list[tuple[str, int]]:
    """Return method and seed of the runs that are missing."""
    wanted = [(BASELINE, seed) for seed in PILOT_SEEDS]
    wanted += [(method, seed) for method in (BASELINE, *BONUSES) for seed in SEEDS]
    return [(method, seed) for method, seed in wanted if seed not in areas.get(method, {})]


def passes_gate(areas: Areas) -> bool:
    """Return whether ε-greedy learns enough for a bonus to slow it."""
    return all(areas.get(BASELINE, {}).get(seed, 0.0) >= GATE for seed in PILOT_SEEDS)


def judge(areas: Areas) -> dict[str, dict[str, bool]]:
    """Return by bonus whether it is shown to slow learning, and to cost little; nothing while a run is missing.

    Both may hold. Neither says anything where ε-greedy does not pass the gate.
    """
    if missing(areas) or not passes_gate(areas):
        return {}
    gained = {
        bonus: np.array([areas[bonus][seed] - areas[BASELINE][seed] for seed in SEEDS], np.float64) for bonus in BONUSES
    }
    slows = holm({bonus: above(-differences, 0.0) for bonus, differences in gained.items()})
    cheap = holm({bonus: above(differences, -MARGIN) for bonus, differences in gained.items()})
    return {bonus: {"slows learning": slows[bonus], "costs little": cheap[bonus]} for bonus in BONUSES}


def _counts(run: Run) -> bool:
    return run.game == GAME and run.complete
