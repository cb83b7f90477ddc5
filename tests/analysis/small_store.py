"""Run folders made from numbers, as a run would leave them, and scores made up for findings."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from offpiste.config import AgentConfig, RunConfig, ScheduleConfig
from offpiste.rows import AttemptRow, EpisodeRow, IterationRow
from offpiste.store import identity
from offpiste.store.documents import signed
from offpiste.store.identity import read_run
from offpiste.store.records import to_parquet
from offpiste.store.storage import Folder

SCHEDULE = ScheduleConfig(iteration_steps=100)
AGENT = AgentConfig(min_history_steps=20)
"""Which learns within an iteration."""
ITERATION_FRAMES = 400
THREE = (1.0, 2.0, 3.0)
"""Returns of a run of three iterations, as `config_of` makes it."""


def config_of(game: str = "freeway", method_name: str = "epsilon_greedy", seed: int = 0, **settings: Any) -> RunConfig:
    """Return the configuration of a run of short iterations."""
    return dataclasses.replace(
        RunConfig(
            game=game, method=method_name, seed=seed, frames=ITERATION_FRAMES * 3, schedule=SCHEDULE, agent=AGENT
        ),
        **settings,
    )


def write_run(
    store: Folder,
    config: RunConfig,
    returns: Sequence[float | None],
    state: str | None = "finished",
    bonus_source: str | None = None,
    evaluations: Sequence[float | None] = (),
) -> str:
    """Write the folder of a run with one episode per iteration and return its name; state None writes no status."""
    folder = store.below(config.run_id)
    write_about(folder, config, bonus_source)
    rows = [*iteration_rows(returns), *iteration_rows(evaluations, phase="evaluation")]
    folder.put("iterations.parquet", to_parquet("iterations", map(dataclasses.asdict, rows)))
    folder.put("episodes.parquet", to_parquet("episodes", map(dataclasses.asdict, episode_rows(returns))))
    folder.put("attempts.parquet", to_parquet("attempts", [dataclasses.asdict(attempt_row())]))
    if state is not None:
        write_status(folder, config, state)
    return config.run_id


def write_about(folder: Folder, config: RunConfig, bonus_source: str | None = None) -> None:
    """Write run.json."""
    folder.put("run.json", json.dumps(signed(identity.about(config, bonus_source))).encode())


def write_status(folder: Folder, config: RunConfig, state: str, **more: Any) -> None:
    """Write status.json."""
    stored = read_run(folder)
    assert stored is not None
    content = {"state": state, "target_frames": config.frames, **stored.identity} | more
    folder.put("status.json", json.dumps(signed(content)).encode())


def iteration_rows(
    returns: Sequence[float | None], *, complete: bool = True, phase: str = "train"
) -> list[IterationRow]:
    """Return one row per return, each of 100 steps."""
    nothing = {field.name: None for field in dataclasses.fields(IterationRow)}
    rows = []
    for number, value in enumerate(returns, start=1):
        given = {
            "iteration": number,
            "phase": phase,
            "complete": complete,
            "end_step": 100 * number,
            "end_frame": ITERATION_FRAMES * number,
            "steps": 100,
            "episodes": 1,
            "return_mean": value,
            "updates": 0,
            "rooms_total": number,
            "cells_total": 10 * number,
        }
        rows.append(IterationRow(**(nothing | given)))  # type: ignore[arg-type]
    return rows


def episode_rows(returns: Sequence[float | None]) -> list[EpisodeRow]:
    """Return one episode per return, with its first reward on its 31st step if there is one."""
    return [
        EpisodeRow(
            iteration=number,
            phase="train",
            episode=number,
            end_step=100 * number,
            steps=100,
            game_return=value or 0.0,
            clipped_return=0.0,
            ended="terminated",
            first_reward_step=30 if value else None,
            rooms_visited=None,
            rooms_new=None,
            cells_visited=1,
            cells_new=1,
            intrinsic_sum=None,
            intrinsic_max=None,
            clipped_share=None,
        )
        for number, value in enumerate(returns, start=1)
    ]


def attempt_row(attempt: str = "000001-abcdef") -> AttemptRow:
    """Return a process that worked on a run."""
    return AttemptRow(attempt, "2024-05-06T07:08:09+00:00", 0, "host", "processor", 1, "versions", "")
