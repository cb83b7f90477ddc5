"""Whether `score` says of steps in the replay what `observe` would pay for them, and changes nothing.

A bonus that has taken six steps between frames of noise in turn, as in `turns.py`, scores a batch that begins with
these and with new ones; then it observes the same steps. As it may count or learn while it observes, the two need only
agree within a factor of two; between known and new frames most bonuses differ by more. In a batch of Four Rooms, a step
must have one score wherever it stands in a row.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offpiste.bonuses.contract.play import ROOMS, SEED, batch_at, rooms
from offpiste.bonuses.contract.rollout import roll_out
from offpiste.bonuses.contract.rollouts import Rollouts
from offpiste.bonuses.contract.saving import state_bytes
from offpiste.bonuses.contract.specimen import Raised, Specimen, arrays_of, copy_of
from offpiste.bonuses.contract.turns import PAIRS, turns
from offpiste.checks import Failed, Skipped
from offpiste.seeding import generator_state
from offpiste.types import Batch, Transition

MAX_FACTOR = 2.0
PLAYED = 32
"""Steps of Four Rooms."""
MIN_PAID = 1e-6
"""What is less counts as that much."""


def scores_as_it_pays(rollouts: Rollouts) -> str:
    """Compare what a bonus scores with what it then pays for the same steps, and look whether scoring changes it."""
    if not callable(getattr(rollouts.kind, "score", None)):
        raise Skipped("it has no method score")
    rollouts.turns.whole()
    try:
        specimen = Specimen(rollouts.kind, rollouts.options, SEED, ROOMS)
        _compare_with_payment(specimen, turns(rollouts.lengths), rollouts.lengths.turn_steps)
        _compare_within_rows(specimen, rooms(rollouts.lengths))
    except Raised as raised:
        raise Failed(f"{raised}; score is called with batches from the replay") from raised
    return ""


def _compare_with_payment(specimen: Specimen, steps: Sequence[Transition], known: int) -> None:
    """Compare its scores of the last six known steps, and of six new ones, with what it then pays for them."""
    roll_out(specimen, steps[:known])
    first = known - PAIRS
    found = _scored(specimen, batch_at(steps, np.arange(first, first + 2 * PAIRS)))
    paid = _paid(specimen, steps[first : first + 2 * PAIRS])
    for row, (score, pays) in enumerate(zip(found[:, 0].tolist(), paid, strict=True)):
        low, high = sorted((max(abs(score), MIN_PAID), max(abs(pays), MIN_PAID)))
        if high > MAX_FACTOR * low:
            kind = "known" if row < PAIRS else "new"
            raise Failed(
                f"it scored a step between {kind} frames as {score:.4g} and then paid {pays:.4g} for it; score must "
                "return what observe would"
            )


def _compare_within_rows(specimen: Specimen, steps: Sequence[Transition]) -> None:
    """Compare its scores of one step as the first and as the second of a row."""
    _paid(specimen, steps[: 4 * PLAYED])  # so that scores differ
    played = batch_at(steps, np.arange(PLAYED))
    by_place = _scored(specimen, played)
    for row in range(PLAYED - 1):
        first_of_row, second = by_place[row + 1, 0], by_place[row, 1]
        if played.steps[row] > 1 and not np.isclose(first_of_row, second, rtol=1e-3, atol=0.0):
            raise Failed(
                f"it scored one step as {first_of_row:.4g} where it is the first of a row and as {second:.4g} where it "
                "is the second; frames of the k-th step begin at batch.frames[:, k]"
            )


def _scored(specimen: Specimen, batch: Batch) -> NDArray[np.float64]:
    """Let it score a batch, and look whether the call changes anything."""
    given, state, generator = copy_of(batch), state_bytes(specimen), generator_state(specimen.generator)
    found = np.asarray(specimen.call("score", given))
    if found.shape != batch.actions.shape or found.dtype.kind not in "fiu":
        raise Failed(
            f"score must return an array of numbers [batch, n], here {batch.actions.shape}, got {found.dtype} "
            f"{found.shape}"
        )
    inside = np.arange(found.shape[1]) < batch.steps[:, None]
    if not np.isfinite(found[inside]).all():
        raise Failed("score must return finite numbers; look for divisions by 0 and roots of numbers below 0")
    if specimen.drew_from or generator_state(specimen.generator) != generator:
        raise Failed("score drew random numbers; a step must get the same score however often it is sampled")
    if state_bytes(specimen) != state:
        raise Failed("score changed what state() returns; learn in observe or in learn instead")
    for name, array in arrays_of(batch).items():
        if not np.array_equal(array, getattr(given, name)):
            raise Failed(f"score changed batch.{name}; work on a copy")
    return found.astype(np.float64)


def _paid(specimen: Specimen, steps: Sequence[Transition]) -> list[float]:
    return [float(specimen.call("observe", copy_of(step))) for step in steps]
