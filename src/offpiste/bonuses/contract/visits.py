"""Whether a bonus falls as a frame is visited again, and comes back in the next episode as far as its scope says."""

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from offpiste.bonuses.base import MAX_INTRINSIC, Scope
from offpiste.bonuses.contract.play import FULL, Lengths
from offpiste.bonuses.contract.report import Check, Findings

_BACK = 0.5
"""The share of its fall that an episodic bonus regains in the next episode, and a lifelong one does not."""


def judge_visits(paid: NDArray[np.float64], lengths: Lengths, scope: str, findings: Findings) -> None:
    """Judge what a bonus paid along `visits(lengths)`."""
    repeats, another = paid[: lengths.repeats], paid[lengths.repeats]
    first, last = repeats[: lengths.first].mean(), repeats[-lengths.last :].mean()
    message = (
        f"a new frame paid {_figure(first)} on average over visits 1 to {lengths.first}, {_figure(last)} over "
        f"{lengths.repeats - lengths.last + 1} to {lengths.repeats}, and then another new one {_figure(another)}"
    )
    if not (np.abs(paid) <= MAX_INTRINSIC).all():
        for check in (Check.VISITS, Check.SCOPE):
            findings.skip(check, "some of its bonuses are not finite")
    elif last < min(first, another):
        findings.accept(Check.VISITS, message)
        _judge_scope(paid, lengths, scope, findings)
    elif lengths != FULL:
        for check in (Check.VISITS, Check.SCOPE):
            findings.skip(check, f"{message}; a slow bonus needs more visits than a quick check has")
    else:
        findings.fail(
            Check.VISITS,
            f"{message}; declare `measures_visits = False` in the class if its bonus is not meant to fall with visits",
        )
        findings.skip(Check.SCOPE, "it does not fall as a frame is visited again")


def _judge_scope(paid: NDArray[np.float64], lengths: Lengths, scope: str, findings: Findings) -> None:
    """Compare how far a bonus that has fallen comes back in the next episodes with the scope declared."""
    if scope not in get_args(Scope):
        findings.fail(Check.SCOPE, f"scope must be one of {', '.join(get_args(Scope))}, got {scope!r}")
        return
    repeats, after_truncation = paid[: lengths.repeats], paid[lengths.repeats + 2 :]
    first, last = repeats[: lengths.first].mean(), repeats[-lengths.last :].mean()
    again = [after_truncation[: lengths.first].mean(), paid[-lengths.first :].mean()]
    shares = [(value - last) / (first - last) for value in again]
    kept, advice = {
        "lifelong": (max(shares) < _BACK, 'declare `scope = "episodic"` or `"both"` in the class if that is meant'),
        "episodic": (min(shares) > _BACK, "clear the counts of the episode where transition.over is true"),
        "both": (0.0 < min(shares) <= max(shares) < 1.0, "clear one of its parts where transition.over is true"),
    }[scope]
    message = (
        f"{scope}; a frame whose bonus had fallen from {_figure(first)} to {_figure(last)} paid {_figure(again[0])} on "
        f"average over visits 1 to {lengths.first} after truncation, and {_figure(again[1])} after termination"
    )
    if kept:
        findings.accept(Check.SCOPE, message)
    else:
        findings.fail(Check.SCOPE, f"{message}; {advice}")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000.0 else f"{value:.4g}"
