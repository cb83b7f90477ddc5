"""What is missing or weak: each point with a name, so that nothing is left out in silence."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from offpiste.analysis.evidence import Evidence
from offpiste.analysis.names import frames_text, label, ordered_games, title
from offpiste.analysis.runs import Run
from offpiste.analysis.stats import min_seeds
from offpiste.worlds.scores import reference_scores

PAPER_SEEDS = 5
CLIPPED = "clipped bonus"
MAX_CLIPPED_SHARE = 0.1
"""Of a run's steps, those on which the bonus has the sum with the reward clipped. With more, its largest tenth is one
number to the agent. (3% at most in our runs in the small worlds, but 43% for CTS in Noisy TV.)"""

SATURATED = "values beyond the support"
MAX_TOP_MASS = 0.05
"""Of the second head's targets, the probability on its highest atom, in any window: what lies there looks alike."""


@dataclass(frozen=True)
class Note:
    """One weak point."""

    kind: str
    where: str
    message: str


@dataclass(frozen=True)
class Attempt:
    """One process that worked on a run."""

    start_step: int
    hardware: str
    threads: int
    versions: str


@dataclass(frozen=True)
class Seams:
    """Where a run was continued."""

    run: Run
    attempts: int
    seams: int
    changes: tuple[str, ...]
    """At seams after which the machine or the versions were others."""


def notes(evidence: Evidence) -> list[Note]:
    """Return all weak points, what could not be read first."""
    found = [Note("mixed protocols", "all", message) for message in evidence.mixed]
    found += [*_apart(evidence), *_departures(evidence), *_readings(evidence)]
    for group in evidence.groups:
        for look in (_thinned, _unfinished, _scoreless, _seeds, _games, _clipped, _saturated):
            found += look(group)
    # Asked for last: to look at records is to find those that cannot be read.
    unread = [Note(warning.kind, warning.where, warning.message) for warning in evidence.records.warnings]
    return list(dict.fromkeys([*unread, *found]))


def seams(evidence: Evidence) -> list[Seams]:
    """Return the runs that were continued by another process, those that went on elsewhere first."""
    attempts = _attempts(evidence)
    found = []
    for run in evidence.records.runs:
        mine = attempts.get(run.name, [])
        continued = [(before, now) for before, now in pairwise(mine) if now.start_step > 0]
        changes = [f"at step {now.start_step:,}: {what}" for before, now in continued if (what := _change(before, now))]
        if continued:
            found.append(Seams(run, len(mine), len(continued), tuple(changes)))
    return sorted(found, key=lambda each: (-len(each.changes), -each.seams, each.run.name))


def _attempts(evidence: Evidence) -> dict[str, list[Attempt]]:
    found: dict[str, list[Attempt]] = defaultdict(list)
    question = "SELECT run, start_step, hardware, threads, versions FROM attempts ORDER BY run, attempt"
    for run, *values in zip(*evidence.records.columns(question), strict=True):
        found[run].append(Attempt(values[0] or 0, values[1] or "", values[2] or 0, values[3] or ""))
    return found


def _change(before: Attempt, now: Attempt) -> str:
    names = [name for name in ("hardware", "threads", "versions") if getattr(before, name) != getattr(now, name)]
    return ", ".join(f"{name} {getattr(before, name)} → {getattr(now, name)}" for name in names)


def _apart(evidence: Evidence) -> Iterator[Note]:
    for group in evidence.apart:
        games = ", ".join(map(title, ordered_games(run.game for run in group.runs)))
        message = "not every run on these games was made alike, so it is shown by itself and compared with nothing"
        yield Note("shown by itself", f"{label(group.runs[0].method)} on {games}", message)


def _thinned(evidence: Evidence) -> Iterator[Note]:
    for curves in (*evidence.curves.values(), *evidence.cells.values()):
        for name, left in curves.thinned.items():
            there, all_of_them = left.windows
            message = f"{there:,} of {all_of_them:,} windows of scalars are there, so its return is drawn by iterations"
            lost = round(left.returned[1] - left.returned[0], 6)
            if lost:
                message += f"; {lost:,g} of {left.returned[1]:,g} points came in episodes that are not there"
            yield Note("records that are missing", name, message)


def _departures(evidence: Evidence) -> Iterator[Note]:
    departures = evidence.departures()
    if departures:
        message = "; ".join(f"{key} is {here}, in the paper {there}" for key, (here, there) in departures.items())
        yield Note("not the paper’s protocol", "the paper’s games", message)


def _readings(evidence: Evidence) -> Iterator[Note]:
    if any(run.method == "icm" for run in evidence.runs):
        yield Note(
            "our reading", "icm", "the paper does not give its ICM in full, and it is not public; ours is a reading"
        )


def _unfinished(evidence: Evidence) -> Iterator[Note]:
    for run in (run for run in evidence.records.runs if run.name in evidence.summaries):
        reached = evidence.summaries[run.name].reached
        if not run.complete:
            message = f"{run.state}, at {run.frames:,} of {run.target_frames:,} frames"  # it may lack one step
            horizon = frames_text(evidence.horizons.get(run.game, run.frames))
            rest = f"counted at {horizon} frames, where runs are compared" if reached else "not in the scores"
            yield Note("unfinished run", run.name, f"{message}; {rest}")
        elif not reached and not run.variant:
            ends, horizon = frames_text(run.target_frames), frames_text(evidence.horizons[run.game])
            message = f"ends at {ends} frames, and runs are compared at {horizon}; not in the scores"
            yield Note("shorter run", run.name, message)


def _scoreless(evidence: Evidence) -> Iterator[Note]:
    for found in evidence.summaries.values():
        if found.reached and not evidence.counts(found):
            message = "one of its last ten iterations has no return that is a number"
            if evidence.measures.get(found.run.game) == "evaluation":
                message = "its last iteration has no evaluation (schedule.evaluation_steps)"
            yield Note("no score", found.run.name, f"{message}; not in the scores")


def _seeds(evidence: Evidence) -> Iterator[Note]:
    for (game, method), begun in Counter((run.game, run.method) for run in evidence.together).items():
        scores = evidence.finals(game, method)
        where = f"{game}/{method}"
        if scores.size == 0:
            yield Note("no seed that counts", where, f"{begun} begun, none with a score yet")
        elif scores.size == 1:
            yield Note("one seed", where, "one run says nothing about chance: no interval, no test")
        elif scores.size < PAPER_SEEDS:
            message = f"{scores.size} seeds; no test on one game shows anything with fewer than {min_seeds()}"
            yield Note("few seeds", where, message)
        if scores.size > 1 and (scores == scores[0]).all() and evidence.measures[game] == "final":  # else 0 is common
            message = f"all {scores.size} seeds end at exactly {scores[0]:g}: is that the game, or are they one run?"
            yield Note("equal scores", where, message)


def _games(evidence: Evidence) -> Iterator[Note]:
    for game in evidence.games:
        if not reference_scores(game).known:
            message = "no reference scores are known: in no aggregate and no finding, differences in points"
            yield Note("no reference scores", game, message)
    begun, together = ({run.game for run in runs} for runs in (evidence.runs, evidence.together))
    for game in (game for each in evidence.benchmarks for game in each.games) if begun else ():
        lacking = [method for method in evidence.methods if not evidence.finals(game, method).size]
        if game not in begun:
            yield Note("missing game", game, "no run")
        elif lacking and game in together:
            yield Note("missing methods", game, f"no seed that counts of {', '.join(lacking)}")


def _clipped(evidence: Evidence) -> Iterator[Note]:
    """Yield the methods whose bonus is often clipped: beyond the steps that a reward of 1 alone takes to the limit."""
    clipped = dict(
        zip(
            *evidence.records.columns(
                "SELECT run, (sum(clipped_share * steps) - greatest(sum(clipped_return), 0)) / nullif(sum(steps), 0) "
                "FROM episodes WHERE phase = 'train' AND clipped_share IS NOT NULL GROUP BY run"
            ),
            strict=True,
        )
    )
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in evidence.runs:
        if (share := clipped.get(run.name)) is not None:
            shares[run.game, run.method].append(share)
    for (game, method), found in shares.items():
        high = [share for share in found if share > MAX_CLIPPED_SHARE]
        if high:
            message = (
                f"clipped with the reward on up to {max(high):.0%} of the steps, over {MAX_CLIPPED_SHARE:.0%} in "
                f"{len(high)} of {len(found)} runs; what is clipped looks alike to the agent: lower bonus.scale"
            )
            yield Note(CLIPPED, f"{game}/{method}", message)


def _saturated(evidence: Evidence) -> Iterator[Note]:
    """Yield the methods whose second head would have values beyond its highest atom."""
    two = {run.name: f"{run.game}/{run.method}" for run in evidence.runs if run.settings.get("bonus.heads") == 2}
    if not two:
        return  # without a look at the scalars, which takes long
    question = "SELECT run, max(value) FROM scalars WHERE name = 'intrinsic/target_mass_high' GROUP BY run"
    masses: dict[str, list[float]] = defaultdict(list)
    for run, mass in zip(*evidence.records.columns(question), strict=True):
        if run in two:
            masses[two[run]].append(mass)
    for where, found in masses.items():
        high = [mass for mass in found if mass > MAX_TOP_MASS]
        if high:
            message = (
                f"up to {max(high):.0%} of the intrinsic target's probability lies on the highest atom, over "
                f"{MAX_TOP_MASS:.0%} in {len(high)} of {len(found)} runs; values there look alike to the agent: raise "
                "bonus.value_high"
            )
            yield Note(SATURATED, where, message)
