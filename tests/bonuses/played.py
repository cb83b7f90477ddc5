"""Bonuses as their methods have them in small worlds, made and given random play of Four Rooms with batches of it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from offpiste.bonuses.contract.play import QUICK, ROOMS, batch_of, context_of, rooms, sampled
from offpiste.bonuses.registry import build
from offpiste.methods import METHODS
from offpiste.seeding import stream
from offpiste.types import Transition

PLAYED = rooms(QUICK)
"""Episodes of 24 steps at most, truncated and terminated in turn."""
MID_EPISODE = 100
"""A number of steps after which an episode has begun and is not over."""


def made(name: str, seed: int = 0) -> Any:
    """Return the bonus of a method, before its first step; the agent learns from the 40th on."""
    context = replace(context_of(ROOMS, stream(seed, "bonus")), min_history_steps=40)
    return build(METHODS[name].bonus_on(ROOMS), context)


def paid(bonus: Any, first: int, last: int, steps: Sequence[Transition] = PLAYED) -> list[float]:
    """Return what a bonus pays for these steps, with a batch before each fourth where it learns."""
    found = []
    for number in range(first, last):
        if hasattr(bonus, "learn") and (batch := batch_of(steps[:number], stream(number, "batches"))) is not None:
            bonus.learn(batch)
        found.append(float(bonus.observe(steps[number])))
    return found


def batch(size: int, until: int = 200) -> Any:
    """Return a batch of the first steps."""
    return sampled(PLAYED[:until], size, np.random.default_rng(0))
