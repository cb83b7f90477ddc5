"""How a bonus ranks steps beside true visit counts, along random episodes that no agent changes.

In Four Rooms a state is its frame, so that visits can be counted, over the run and within the episode. A bonus that
follows counts has a rank correlation near 1 with 1/√visits, this one included. It may pay for the state or for the next
one: where its class does not say, that which correlates more counts. A bonus that merely falls with time correlates
over the run, and not among steps that are near in time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpiste.bonuses.base import PaysFor
from offpiste.bonuses.contract.play import ROOMS, ROOMS_EPISODE_STEPS, SEED, random_play
from offpiste.bonuses.contract.rollout import roll_out
from offpiste.bonuses.contract.specimen import Specimen, as_in_a_run
from offpiste.bonuses.registry import find, options_of, seeded_globals
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.types import Transition

STEPS = 3_000
BLOCK_STEPS = 500
_STATES: tuple[PaysFor, ...] = ("state", "next_state")


@dataclass(frozen=True)
class Correlations:
    """Rank correlations of intrinsic rewards with 1/√visits; NaN where all rewards are equal."""

    pays_for: PaysFor
    """The state whose visits were counted."""
    lifelong: float
    """With visits in the run."""
    near_in_time: float
    """The same among 500 steps in a row, as a mean."""
    episodic: float
    """With visits in the episode."""


def true_counts(config: BonusConfig, steps: int = STEPS) -> Correlations:
    """Return how far what a bonus pays in random play follows true visits. Takes up to a minute."""
    kind, options = find(config.name), options_of(config)
    played = tuple(islice(random_play(ROOMS, ROOMS_EPISODE_STEPS), steps))
    with as_in_a_run(), seeded_globals(SEED):
        rollout = roll_out(Specimen(kind, options, SEED, ROOMS), played)
    if rollout.ended:
        raise ConfigError(f"{config.name} cannot be held beside counts: {rollout.error}; run offpiste check-bonus")
    declared = getattr(kind, "pays_for", None)
    found = [compared(rollout.paid, played, state) for state in ((declared,) if declared in _STATES else _STATES)]
    return max(found, key=lambda each: np.nan_to_num(max(each.lifelong, each.episodic), nan=-1.0))


def compared(paid: Sequence[float], played: Sequence[Transition], pays_for: PaysFor) -> Correlations:
    """Return the correlations of rewards with the visits of one of the two states of each step."""
    visits = np.array(list(_visits(played, pays_for)))  # [steps, 2]
    rarity, rewards = visits**-0.5, np.array(paid)
    blocks = [slice(start, start + BLOCK_STEPS) for start in range(0, len(paid) - BLOCK_STEPS + 1, BLOCK_STEPS)]
    near = [rank_correlation(rewards[block], rarity[block, 0]) for block in blocks]
    return Correlations(
        pays_for,
        lifelong=rank_correlation(rewards, rarity[:, 0]),
        near_in_time=float(np.mean(near)) if near else float("nan"),
        episodic=rank_correlation(rewards, rarity[:, 1]),
    )


def _visits(played: Sequence[Transition], pays_for: PaysFor) -> Iterator[tuple[int, int]]:
    """Yield the visits of a state in the run and in the episode; one that nothing led to is not visited by a reset."""
    run: Counter[bytes] = Counter()
    episode: Counter[bytes] = Counter()
    for step in played:
        if step.episode_step == 0:
            episode.clear()
        seen = (step.frame if pays_for == "state" else step.next_state[-1]).tobytes()
        for counts in (run, episode):
            counts[seen] += 1
        yield run[seen], episode[seen]


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float:
    """Return Spearman's rank correlation, NaN where one side is constant."""
    first, second = (ranks - ranks.mean() for ranks in map(_ranks, (np.asarray(one), np.asarray(other))))
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms > 0.0 else float("nan")


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return ranks from 1, equal values sharing the mean of theirs."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return shared[index]
