"""Records for other tools: CSV files, TensorBoard's event files, and runs of Weights & Biases."""

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import chdir, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from offpiste.analysis.results import Results
from offpiste.analysis.runs import Run
from offpiste.errors import OffpisteError
from offpiste.rows import tagged
from offpiste.store.outputs import replacing

_CURVES = ("episodes", "iterations", "scalars")
_ORDER = {
    "episodes": "end_step, phase DESC, episode",
    "iterations": "end_step, phase DESC",
    "scalars": "end_step, name",
    "cells": "first_step, room, cell",
}
"""By table, how the rows of a run are ordered; training comes before evaluation at the same step."""


def to_csv(results: Results, out: Path) -> Iterator[str]:
    """Write one CSV file per table, with game, method, variant and seed of each row's run; yield what was written.

    Rows are ordered by run, and within one by step.
    """
    for table, order in _ORDER.items():
        if results.runs_with(table):
            about = "SELECT run, game, method, variant, seed FROM runs"
            rows = results.query(f"FROM ({about}) JOIN {table} USING (run) ORDER BY run, {order}")
            with replacing(out) as new:
                csv.write_csv(rows, new / f"{table}.csv")
            yield f"{out / table}.csv: {len(rows):,} rows"


def to_tensorboard(results: Results, out: Path) -> Iterator[str]:
    """Write the curves of each run as event files in a folder of its name; yield what was written."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    rows = rows_by_run(results)
    for run in results.runs:
        with replacing(out) as new, closing(EventFileWriter(str(new / run.name))) as writer:
            for frame, values in points(rows, run):
                shown = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
                writer.add_event(Event(wall_time=time.time(), step=frame, summary=Summary(value=shown)))
        yield str(out / run.name)


def to_wandb(results: Results, out: Path) -> Iterator[str]:
    """Log each run to Weights & Biases; yield what was written.

    Offline by default, for nodes often have no internet: `wandb sync` uploads the folders from one that has.
    """
    import wandb

    mode: Literal["online", "offline"] = "online" if os.environ.get("WANDB_MODE") == "online" else "offline"
    rows = rows_by_run(results)
    out = out.absolute()
    try:
        for run in results.runs:
            with replacing(out) as new, _nowhere():
                logged = wandb.init(
                    project="offpiste",
                    name=run.name,
                    group=f"{run.game}/{run.arm}",
                    config=run.settings,
                    dir=str(new),
                    mode=mode,
                    settings=wandb.Settings(
                        silent=True,
                        console="off",
                        disable_code=True,
                        disable_git=True,
                        symlink=False,
                        x_disable_meta=True,
                        x_disable_stats=True,
                    ),
                )
                logged.define_metric("*", step_metric="frames")
                for frame, values in points(rows, run):
                    logged.log({**values, "frames": frame})
                folder = Path(logged.dir).parent.relative_to(new)
                logged.finish()
            yield str(out / folder)
    except wandb.Error as error:
        raise OffpisteError(
            f"Weights & Biases refused the export: {error}; check WANDB_API_KEY and WANDB_BASE_URL, or leave "
            "WANDB_MODE unset and upload the folders later by `wandb sync`"
        ) from error
    finally:
        wandb.teardown()


@contextmanager
def _nowhere() -> Iterator[None]:
    """Work in an empty folder: Weights & Biases takes its settings, also who gets the key, from the current one.

    That may be a stranger's store.
    """
    with TemporaryDirectory() as empty, chdir(empty):
        yield


def rows_by_run(results: Results) -> dict[str, dict[str, pa.Table]]:
    """Return the rows of each run, by table and name of the run, from one query a table."""
    found: dict[str, dict[str, pa.Table]] = {}
    for table in _CURVES:
        rows = results.query(f"FROM {table} ORDER BY run, end_step")
        names = pc.run_end_encode(rows["run"].combine_chunks())
        starts = [0, *names.run_ends.to_pylist()]
        slices = (rows.slice(start, end - start) for start, end in pairwise(starts))
        found[table] = dict(zip(names.values.to_pylist(), slices, strict=True))
    return found


def points(rows: Mapping[str, Mapping[str, pa.Table]], run: Run) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the frames at which a run recorded something, in order, with the numbers by tag; from `rows_by_run`.

    The episodes of an evaluation are at one frame, with their mean.
    """
    by_frame: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    skip = run.settings["world.frame_skip"]
    for table, of_runs in rows.items():
        for row in of_runs[run.name].to_pylist() if run.name in of_runs else ():
            for tag, value in tagged(table, row).items():
                by_frame[row["end_step"] * skip][tag].append(value)
    for frame, values in sorted(by_frame.items()):
        yield frame, {tag: fmean(each) for tag, each in values.items()}


TARGETS = {"csv": to_csv, "tensorboard": to_tensorboard, "wandb": to_wandb}
"""By name, the functions that write results for another tool into a folder."""
