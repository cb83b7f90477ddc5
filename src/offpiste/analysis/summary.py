"""The numbers of each run: its score, how efficiently it got there, and what it found."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpiste.analysis.records import Records
from offpiste.analysis.runs import Run
from offpiste.analysis.stats import Array
from offpiste.worlds.registry import find
from offpiste.worlds.scores import reference_scores

LEARNED = 0.5
"""The normalised evaluation from which a run counts as having learned what its world asks: half way from random play to
the best policy. In the small worlds most runs end near 0 or near 1, so where between them the line is drawn decides
few; half way, the goal is reached in more episodes than it is missed where an episode has one."""


@dataclass(frozen=True)
class Summary:
    """One run in numbers, up to a given frame."""

    run: Run
    reached: bool
    """Whether it has come so far; if not, its numbers are those of a younger run."""
    final: float
    """Mean training return of the last ten iterations."""
    area: float
    """Mean training return of all iterations."""
    evaluation: float
    """Mean return of the evaluation after the last whole iteration; NaN where that has none."""
    best_evaluation: float
    """The highest of its evaluations."""
    first_reward_frame: float
    """At the end of the step that paid it; infinite where there was none, NaN where episodes are not known."""
    goal_frame: float
    """When training first reached the goal: by the end of that episode if there are smaller rewards, too."""
    rooms: float
    """Found so far; NaN where the game does not count them."""
    cells: float

    @property
    def found(self) -> bool:
        """Whether training has reached the goal."""
        return bool(np.isfinite(self.goal_frame))

    @property
    def learned(self) -> bool:
        """Whether the agent, evaluated, ever did what the world asks."""
        return self._as_asked(self.best_evaluation)

    @property
    def kept(self) -> bool:
        """Whether it still did at the end."""
        return self._as_asked(self.evaluation)

    @property
    def avoided(self) -> bool:
        """Whether the goal was found and yet no evaluation went for it: found too seldom, or shunned for a bonus."""
        return self.found and not self.learned

    def _as_asked(self, evaluation: float) -> bool:
        return bool(evaluation >= reference_scores(self.run.game).score_at(LEARNED))


def final_score(curve: Array) -> float:
    """Return the mean of a curve's last ten iterations, or of all where there are fewer."""
    return float(np.mean(curve[-10:]))


def area(curve: Array) -> float:
    """Return the area under a curve over its length, that is its mean: the paper's sample efficiency."""
    return float(np.mean(curve))


def common_end(runs: Sequence[Run]) -> int:
    """Return the frame at which runs are compared: the end of the longest complete one, or how far any has come."""
    ends = [run.target_frames for run in runs if run.complete]
    return max(ends or [run.frames for run in runs], default=0)


def summarise(records: Records, frames: int | None = None) -> list[Summary]:
    """Return every run in numbers, up to a frame for all of them: by default their common end."""
    if frames is None:
        frames = common_end(records.runs)
    rows: dict[str, list[tuple[int, Any, Any, Any]]] = defaultdict(list)
    for name, *row in zip(*finished_iterations(records), strict=True):
        rows[name].append((row[0], row[1], row[2], row[3]))
    rewarded = first_rewards(records)
    reached = rewarded | _goals(records)
    evaluations: dict[str, dict[int, float]] = defaultdict(dict)
    for name, iteration, value in zip(*_evaluations(records), strict=True):
        evaluations[name][iteration] = np.nan if value is None else value
    known = records.runs_with("episodes")
    summaries = []
    for run in records.runs:
        wanted = max(1, frames // run.iteration_frames)
        within = [row for row in sorted(rows[run.name], key=lambda row: row[0]) if row[0] <= wanted]
        curve = np.array([np.nan if row[1] is None else row[1] for row in within], dtype=np.float64)
        last, rooms, cells = (within[-1][0], within[-1][2], within[-1][3]) if within else (0, None, None)
        evaluated = [value for iteration, value in evaluations[run.name].items() if iteration <= last]
        first, goal = (step.get(run.name, np.inf) * run.settings["world.frame_skip"] for step in (rewarded, reached))
        summaries.append(
            Summary(
                run,
                reached=run.has_reached(frames),
                final=final_score(curve) if curve.size else np.nan,
                area=area(curve) if curve.size else np.nan,
                evaluation=evaluations[run.name].get(last, np.nan),
                best_evaluation=np.fmax.reduce(evaluated, initial=np.nan),
                first_reward_frame=(first if first <= frames else np.inf) if run.name in known else np.nan,
                goal_frame=(goal if goal <= frames else np.inf) if run.name in known else np.nan,
                rooms=np.nan if rooms is None else rooms,
                cells=np.nan if cells is None else cells,
            )
        )
    return summaries


def scores_by_game(summaries: Iterable[Summary], measure: str = "final") -> dict[str, dict[str, dict[Any, float]]]:
    """Return game, arm, run -> the number that is its score, of the runs that have come far enough to have it.

    Runs are known by protocol and seed, so that findings can pair equal ones; a number sets apart any that mix.
    """
    table: dict[str, dict[str, dict[Any, float]]] = defaultdict(lambda: defaultdict(dict))
    for summary in summaries:
        score = getattr(summary, measure)
        if summary.reached and np.isfinite(score):
            arm = table[summary.run.game][summary.run.arm]
            taken = sum(key[:2] == (summary.run.protocol, summary.run.seed) for key in arm)
            arm[summary.run.protocol, summary.run.seed, taken] = float(score)
    return {game: dict(arms) for game, arms in table.items()}


def first_rewards(records: Records) -> dict[str, int]:
    """Return the training step, counted from 1, that paid the first reward of each run that had one."""
    sql = (
        "SELECT run, min(end_step - steps + first_reward_step + 1) FROM episodes "
        "WHERE phase = 'train' AND first_reward_step IS NOT NULL GROUP BY run"
    )
    return dict(zip(*records.columns(sql), strict=True))


def finished_iterations(records: Records) -> list[list[Any]]:
    """Return run, iteration, return, rooms and cells of whole iterations, and of a first one that is not over yet."""
    return records.columns(
        "SELECT run, iteration, return_mean, rooms_total, cells_total FROM iterations "
        "WHERE phase = 'train' AND (complete OR iteration = 1)"
    )


def _goals(records: Records) -> dict[str, float]:
    """Return when training first reached the goal, in steps, of the runs where not every reward is one."""
    goals = {run.game: goal for run in records.runs if (goal := find(run.game).goal_return) > 0}
    ends = {run.name: np.inf for run in records.runs if run.game in goals}
    for game, goal in goals.items():
        sql = (
            "SELECT run, min(end_step) FROM episodes JOIN runs USING (run) "  # noqa: S608 (both are rows of ours)
            f"WHERE game = '{game}' AND phase = 'train' AND game_return > {goal} GROUP BY run"
        )
        ends |= dict(zip(*records.columns(sql), strict=True))
    return ends


def _evaluations(records: Records) -> list[list[Any]]:
    """Return run, iteration and return of whole evaluations."""
    return records.columns("SELECT run, iteration, return_mean FROM iterations WHERE phase = 'evaluation' AND complete")
