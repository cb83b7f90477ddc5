"""Run folders made up from numbers, as runs of the paper's protocol would leave them; for other benchmarks."""

import json
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from offpiste.analysis.curves import MAX_WINDOWS
from offpiste.config import RunConfig
from offpiste.seeding import stream
from offpiste.store import identity
from offpiste.store.documents import signed
from offpiste.store.identity import parse_run
from offpiste.store.records import schema
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES

_SCALARS = ("return", "loss", "max_q", "cells", "intrinsic/mean", "intrinsic/q05", "intrinsic/q95", "intrinsic/max")
Curve = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""Generator and number of iterations -> the return of each iteration."""


def write_run(
    store: Folder,
    config: RunConfig,
    curve: Curve,
    episodes: int,
    *,
    done: float = 1.0,
    evaluation: Curve | None = None,
    first_reward: float = 0.0,
    drawn: bool = False,
) -> None:
    """Write the folder of a run that has done a share of its frames, evaluated if asked to.

    Its first reward comes after a share of the frames that it has done. What only pages draw, scalars and cells, it has
    if asked to, as many as a bundle keeps.
    """
    generator = stream(config.seed, f"synthetic {config.game} {config.method} {config.variant}")
    frames = config.schedule.iteration_steps * config.world.frame_skip
    whole = config.frames // frames
    iterations = max(1, round(done * whole))
    folder = store.below(config.run_id)
    about = identity.about(config) | {"offpiste": "synthetic"}
    status = {"state": "finished" if iterations == whole else "paused", "target_frames": config.frames}
    returns = curve(generator, whole)[:iterations]
    rows = [_iterations(config, returns, generator)]
    if evaluation is not None:
        rows.append(_iterations(config, evaluation(generator, whole)[:iterations], generator, "evaluation"))
    tables = {
        "iterations": pa.concat_tables(rows),
        "episodes": _episodes(config, returns, max(1, round(done * episodes)), generator, first_reward),
        "timing": schema("timing").empty_table(),
        "attempts": _attempts(config, generator),
    }
    if drawn:
        tables |= {"scalars": _scalars(config, returns), "cells": _cells(config)}
    assert folder.local_path is not None
    folder.local_path.mkdir(parents=True, exist_ok=True)
    (folder.local_path / "run.json").write_text(json.dumps(signed(about)))
    (folder.local_path / "status.json").write_text(json.dumps(signed(status | parse_run(about).identity)))
    for name, table in tables.items():
        pq.write_table(table, folder.local_path / f"{name}.parquet", compression="zstd")


def learning_curve(final: float, start: float, noise: float, middle: float = 0.3) -> Curve:
    """Return a curve that rises from one level to another, around a share of the run, with noise."""

    def curve(generator: np.random.Generator, iterations: int) -> NDArray[np.float64]:
        time = np.arange(1, iterations + 1) / iterations
        turn = middle * generator.uniform(0.7, 1.4)
        rise = 1 / (1 + np.exp(-(time - turn) * 14))
        wander = np.cumsum(generator.normal(0, noise / 12, iterations))
        wander -= np.linspace(0, wander[-1], iterations)
        return start + (final - start) * rise + wander + generator.normal(0, noise / 4, iterations)

    return curve


def _iterations(
    config: RunConfig, returns: NDArray[np.float64], generator: np.random.Generator, phase: str = "train"
) -> pa.Table:
    count = len(returns)
    numbers = np.arange(1, count + 1)
    steps = config.schedule.iteration_steps
    located = GAMES[config.game].location if config.game in GAMES else None
    rooms = np.maximum.accumulate(1 + generator.poisson(numbers / count * 8)) if located and located.room else None
    given = {
        "iteration": numbers,
        "phase": np.full(count, phase),
        "complete": np.full(count, True),
        "end_step": numbers * steps,
        "end_frame": numbers * steps * config.world.frame_skip,
        "steps": np.full(count, steps),
        "episodes": np.full(count, 100),
        "return_mean": returns,
        "updates": np.full(count, steps // 4),
        "cells_total": np.maximum.accumulate(generator.poisson(40 * np.sqrt(numbers))),
        "rooms_total": rooms,
    }
    return _table("iterations", given, count)


def _episodes(
    config: RunConfig, returns: NDArray[np.float64], count: int, generator: np.random.Generator, first_reward: float
) -> pa.Table:
    total = config.schedule.iteration_steps * len(returns)
    ends = (np.arange(1, count + 1) * total) // count
    iterations = np.minimum((np.arange(count) * len(returns)) // count, len(returns) - 1)
    steps = np.diff(ends, prepend=0)
    given = {
        "iteration": iterations + 1,
        "phase": np.full(count, "train"),
        "episode": np.arange(1, count + 1),
        "end_step": ends,
        "steps": steps,
        "game_return": returns[iterations] + generator.normal(0, 1, count),
        "clipped_return": generator.poisson(3, count).astype(float),
        "ended": np.full(count, "terminated"),
        "first_reward_step": np.ma.masked_array(
            steps // 3, (generator.random(count) < 0.5) | (ends < first_reward * total)
        ),
        "cells_visited": generator.poisson(30, count),
        "cells_new": generator.poisson(1, count),
        "intrinsic_sum": generator.normal(10, 1, count),
        "intrinsic_max": generator.normal(1, 0.1, count),
        "clipped_share": np.zeros(count),
    }
    return _table("episodes", given, count)


def _scalars(config: RunConfig, returns: NDArray[np.float64]) -> pa.Table:
    generator = stream(config.seed, f"synthetic scalars {config.run_id}")
    ends = np.linspace(0, config.schedule.iteration_steps * len(returns), MAX_WINDOWS + 1)[1:].astype(np.int64)
    shown = returns[np.linspace(0, len(returns) - 1, MAX_WINDOWS).astype(np.int64)]
    values = [shown if name == "return" else generator.exponential(1.0, MAX_WINDOWS) for name in _SCALARS]
    given = {
        "end_step": np.tile(ends, len(_SCALARS)),
        "name": np.repeat(_SCALARS, MAX_WINDOWS),
        "value": np.concatenate(values),
    }
    return _table("scalars", given, MAX_WINDOWS * len(_SCALARS))


def _cells(config: RunConfig) -> pa.Table:
    """Return cells of a few rooms where the game tells them, of one where it only tells places, and otherwise none."""
    located = GAMES[config.game].location if config.game in GAMES else None
    if located is None:
        return schema("cells").empty_table()
    generator = stream(config.seed, f"synthetic cells {config.run_id}")
    rooms = np.arange(1, 6 if located.room else 2)
    room, x, y = (each.ravel() for each in np.meshgrid(rooms, 8 * np.arange(4, 16), 8 * np.arange(4, 16)))
    given = {
        "room": room if located.room else None,
        "x": x,
        "y": y,
        "cell": np.arange(len(room)),
        "first_step": generator.integers(0, 10_000_000, len(room)),
        "visits": generator.geometric(0.001, len(room)),
    }
    return _table("cells", given, len(room))


def _attempts(config: RunConfig, generator: np.random.Generator) -> pa.Table:
    rows = [_attempt(1, 0, "processor A")]
    if generator.random() < 0.1:
        rows.append(
            _attempt(
                2, config.schedule.iteration_steps * 3, "processor B" if generator.random() < 0.5 else "processor A"
            )
        )
    return pa.Table.from_pylist(rows, schema("attempts"))


def _attempt(number: int, start: int, hardware: str) -> dict[str, object]:
    return {
        "attempt": f"{number:06d}-abcdef",
        "started_at": "2024-01-01T00:00:00+00:00",
        "start_step": start,
        "host": "synthetic",
        "hardware": hardware,
        "threads": 1,
        "versions": "synthetic",
        "note": "",
    }


def _table(name: str, given: Mapping[str, object], count: int) -> pa.Table:
    fields = schema(name)
    columns = [
        pa.nulls(count, field.type) if given.get(field.name) is None else pa.array(given[field.name], field.type)
        for field in fields
    ]
    return pa.Table.from_arrays(columns, schema=fields)
