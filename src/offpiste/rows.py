"""The rows of a run's records: six tables, each a dataclass whose fields are the columns.

`episodes`, `iterations`, `cells` and `scalars` are reproducible to the bit, except the scalar `steps_per_second`. What
depends on the machine is in `timing` (wall clock and rates) and `attempts` (each process that worked on the run).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True)
class EpisodeRow:
    """One episode, training or evaluation."""

    iteration: int
    """Counted from 1."""
    phase: str
    """train or evaluation; with two heads evaluation_extrinsic, too: as many steps again, by the values of the
    extrinsic head alone."""
    episode: int
    """Counted from 1 within its phase, over the whole run."""
    end_step: int
    """Agent steps of training when it ended."""
    steps: int
    """Its length in agent steps."""
    game_return: float
    """Sum of the game's own rewards, unclipped."""
    clipped_return: float
    """Sum of rewards clipped to [-1, 1]."""
    ended: str
    """terminated by the game, or truncated at the time limit."""
    first_reward_step: int | None
    """Step within the episode, counted from 0, of the first reward > 0."""
    rooms_visited: int | None
    """Rooms visited in this episode, where the RAM has the room."""
    rooms_new: int | None
    """Of these, rooms not visited before in this run."""
    cells_visited: int | None
    """Cells (coarse positions, or coarse frames where the position is not known) visited in this episode."""
    cells_new: int | None
    """Of these, cells not visited before in this run."""
    intrinsic_sum: float | None
    """Sum of the unscaled intrinsic reward."""
    intrinsic_max: float | None
    """Max unscaled intrinsic reward."""
    clipped_share: float | None
    """Share of steps on which the sum of extrinsic and intrinsic reward was clipped."""


@dataclass(frozen=True)
class IterationRow:
    """One iteration of training, or the evaluation after it."""

    iteration: int
    """Counted from 1."""
    phase: str
    """train or evaluation, or evaluation_extrinsic, as of episodes."""
    complete: bool
    """False for the last row if the run ended, or was stopped, within an iteration."""
    end_step: int
    """Agent steps of training at its end."""
    end_frame: int
    """The same in emulator frames, at the nominal frames per step."""
    steps: int
    """Agent steps within it."""
    episodes: int
    """Episodes that ended within it."""
    return_mean: float | None
    """Mean unclipped return of these episodes: the curve of the paper."""
    return_min: float | None
    """Min return."""
    return_max: float | None
    """Max return."""
    epsilon: float | None
    """ε at its end."""
    updates: int
    """Gradient steps within it."""
    loss_mean: float | None
    """Mean loss, before importance weights."""
    max_q_mean: float | None
    """Mean of the target network's max Q-value, n steps after the sampled states."""
    target_mass_low: float | None
    """Mean target probability on the lowest atom, -10 by default."""
    target_mass_high: float | None
    """Mean target probability on the highest atom, +10 by default."""
    rooms_total: int | None
    """Rooms visited so far in the run."""
    cells_total: int | None
    """Cells visited so far in the run."""
    intrinsic_mean: float | None
    """Mean unscaled intrinsic reward."""
    intrinsic_q05: float | None
    """5% quantile of the unscaled intrinsic reward."""
    intrinsic_q50: float | None
    """Median of the unscaled intrinsic reward."""
    intrinsic_q95: float | None
    """95% quantile of the unscaled intrinsic reward."""
    intrinsic_max: float | None
    """Max unscaled intrinsic reward."""
    clipped_share: float | None
    """Share of steps on which the sum of extrinsic and intrinsic reward was clipped."""


@dataclass(frozen=True)
class ScalarRow:
    """One scalar over a window of training, 2,500 agent steps by default, and wider in a bundle of long runs; no row
    where the window has no value.
    """

    end_step: int
    """Agent steps of training at the end of the window."""
    name: str
    """What it is, as listed below."""
    value: float
    """The number."""


@dataclass(frozen=True)
class CellRow:
    """One cell that was visited in training."""

    room: int | None
    """Its room plus 256 times the level, where the RAM has the room."""
    x: int | None
    """Its min x in units of the RAM, a multiple of 8; empty where the RAM has no x."""
    y: int | None
    """Its min y, likewise."""
    cell: int
    """Its number, as `cells_total` counts cells."""
    first_step: int
    """Agent steps of training when it was first visited."""
    visits: int
    """Agent steps that ended in it, and episodes that started in it."""


@dataclass(frozen=True)
class TimingRow:
    """The speed of one iteration; not reproducible, hence a table of its own."""

    iteration: int
    """Counted from 1."""
    attempt: str
    """The attempt that finished it."""
    finished_at: str
    """UTC, ISO 8601."""
    seconds: float
    """Wall clock of this attempt within the iteration."""
    steps: int
    """Agent steps of this attempt within the iteration."""
    steps_per_second: float
    """Their ratio."""


@dataclass(frozen=True)
class AttemptRow:
    """One process that worked on the run."""

    attempt: str
    """Number and random suffix."""
    started_at: str
    """UTC, ISO 8601."""
    start_step: int
    """Agent step from which it resumed the run."""
    host: str
    """Name of the machine."""
    hardware: str
    """Processor and, if used, GPU."""
    threads: int
    """Threads of the network."""
    versions: str
    """Versions of Python and of the libraries that the numbers depend on."""
    note: str
    """Anything unusual, for example that an older checkpoint had to be restored."""


TABLES: dict[str, type[Any]] = {
    "episodes": EpisodeRow,
    "iterations": IterationRow,
    "scalars": ScalarRow,
    "cells": CellRow,
    "timing": TimingRow,
    "attempts": AttemptRow,
}
REPRODUCIBLE = ("episodes", "iterations")
"""Tables that the digest of a run covers."""
LOGGED = ("episodes", "iterations", "scalars", "timing")
"""Tables that a run appends rows to; an attempt is an object of its own instead, and all cells are another."""
MAX_COUNT = 2**53
"""Limit of any integer in a table that is read, so that sums cannot overflow."""
UNKNOWN = -1
"""An empty value in the arrays of `cells`."""
SCALAR_STEPS, MIN_SCALAR_STEPS = 2_500, 250
"""Agent steps of training per window of `scalars`: a tenth of an iteration within these bounds."""

_EPISODE_CURVES = {"game_return": "episodic_return", "steps": "episodic_length", "rooms_visited": "rooms_visited"}
_SCALAR_CURVES = {
    "loss": "losses/loss",
    "max_q": "losses/max_q",
    "target_mass_low": "losses/target_mass_low",
    "target_mass_high": "losses/target_mass_high",
    "return": "charts/return",
    "episodes": "charts/episodes",
    "epsilon": "charts/epsilon",
    "steps_per_second": "charts/SPS",
    "clipped_share": "bonus/clipped_share",
    "cells": "coverage/cells",
    "rooms": "coverage/rooms",
}
"""Tags under which TensorBoard and Weights & Biases show columns and scalars, as other libraries do; what a bonus
logs is called bonus/… already."""


def window_steps(iteration_steps: int) -> int:
    """Return the agent steps of a window of `scalars`."""
    return min(SCALAR_STEPS, max(MIN_SCALAR_STEPS, iteration_steps // 10))


def utc_now() -> str:
    """Return the current time as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def tagged(table: str, row: Mapping[str, Any]) -> dict[str, float]:
    """Return the curves' numbers in a row of `episodes`, `iterations` or `scalars`, by tag, as in losses/loss.

    Intrinsic rewards are shown as their log10, since they fall by several decades in a run; 0 is left out.
    """
    if table == "scalars":
        return _scalar_curve(row["name"], row["value"])
    group = "charts" if row["phase"] == "train" else "eval"
    if table == "episodes":
        return {f"{group}/{tag}": row[name] for name, tag in _EPISODE_CURVES.items() if row[name] is not None}
    if not row["complete"] or row["return_mean"] is None:  # an iteration in which the run ended, or was stopped
        return {}
    return {f"{group}/iteration_return": row["return_mean"]}


def _scalar_curve(name: str, value: float) -> dict[str, float]:
    if name.startswith("intrinsic/"):
        tag = f"bonus/log10_{name.replace('/', '_')}"
        return {tag: math.log10(value)} if value > 0 else {}
    return {_SCALAR_CURVES.get(name, name if "/" in name else f"scalars/{name}"): value}
