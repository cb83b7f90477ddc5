"""Records for other tools: CSV files, TensorBoard's event files, and runs of Weights & Biases."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from pyarrow import csv

from offpiste.analysis.results import Results
from offpiste.analysis.runs import Run
from offpiste.store.tags import tagged

_CURVES = ("episodes", "iterations", "scalars")
_TABLES = (*_CURVES, "cells")


def to_csv(results: Results, out: Path) -> Iterator[str]:
    """Write one CSV file per table, with game, method, variant and seed of each row's run; yield what was written."""
    out.mkdir(parents=True, exist_ok=True)
    for table in _TABLES:
        if results.runs_with(table):
            about = "SELECT run, game, method, variant, seed FROM runs"
            rows = results.query(f"FROM ({about}) JOIN {table} USING (run) ORDER BY run")
            csv.write_csv(rows, out / f"{table}.csv")
            yield f"{out / table}.csv: {len(rows):,} rows"


def to_tensorboard(results: Results, out: Path) -> Iterator[str]:
    """Write the curves of each run as event files in a folder of its name; yield what was written."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for run in results.runs:
        writer = EventFileWriter(str(out / run.name))
        for frame, values in points(results, run):
            shown = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
            writer.add_event(Event(wall_time=time.time(), step=frame, summary=Summary(value=shown)))
        writer.close()
        yield str(out / run.name)


def to_wandb(results: Results, out: Path) -> Iterator[str]:
    """Log each run to Weights & Biases; yield what was written.

    Offline by default, for nodes often have no internet: `wandb sync` uploads the folders from one that has.
    """
    import wandb

    out.mkdir(parents=True, exist_ok=True)
    for run in results.runs:
        logged = wandb.init(
            project="offpiste",
            name=run.name,
            group=f"{run.game}/{run.arm}",
            config=run.settings,
            dir=str(out),
            mode="online" if os.environ.get("WANDB_MODE") == "online" else "offline",
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True),
        )
        logged.define_metric("*", step_metric="frames")
        for frame, values in points(results, run):
            logged.log({**values, "frames": frame})
        folder = Path(logged.dir).parent
        logged.finish()
        yield str(folder)


def points(results: Results, run: Run) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the frames at which a run recorded something, in order, with the numbers by tag."""
    by_frame: dict[int, dict[str, float]] = {}
    skip = run.settings["world.frame_skip"]
    name = run.name.replace("'", "''")
    for table in _CURVES:
        if run.name in results.runs_with(table):
            for row in results.query(f"FROM {table} WHERE run = '{name}'").to_pylist():
                by_frame.setdefault(row["end_step"] * skip, {}).update(tagged(table, row))
    yield from sorted(by_frame.items())


TARGETS = {"csv": to_csv, "tensorboard": to_tensorboard, "wandb": to_wandb}
"""By name, the functions that write results for another tool into a folder."""
