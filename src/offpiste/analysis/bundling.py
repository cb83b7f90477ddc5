"""A bundle of the finished runs of stores and bundles: iterations and attempts whole, the rest thinned.

What findings, curves and scores are made from is exact in it: all iterations, the windows of scalars joined as a curve
joins them, and the step of the first reward. Names of machines are left out, for a bundle is there to be published.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from offpiste.analysis.curves import WINDOWS, join, joined_windows
from offpiste.analysis.results import load
from offpiste.analysis.runs import VERSION, LoadWarning, Run, version_text
from offpiste.analysis.sources import check_fingerprints
from offpiste.errors import ConfigError, Damaged, StoreError
from offpiste.parsing import to_dict
from offpiste.rows import REPRODUCIBLE
from offpiste.store import layout, parquet, records
from offpiste.store.bundle import RUNS, TABLES, Bundle, ListedRun, Manifest, RunRow, open_bundle, schema, write_bundle
from offpiste.store.identity import read_run
from offpiste.store.storage import Folder
from offpiste.worlds.registry import SUITE_VERSION

EPISODES_KEPT = 50
"""Of each run and phase, evenly spaced; the one with the first reward is kept besides."""
_NEEDED = ("iterations", "episodes")

Rows = NDArray[np.int64]
"""Positions of rows in a table, ascending."""


@dataclass(frozen=True)
class Bundled:
    """What was written, the runs that were not, and what is wrong with the stores."""

    manifest: Manifest
    left_out: list[LoadWarning]
    warnings: list[LoadWarning]


@dataclass(frozen=True)
class _Part:
    """What a bundle takes from one store or bundle: its finished runs, and their rows in the schema of a bundle."""

    listed: list[ListedRun]
    tables: dict[str, pa.Table]
    left_out: list[LoadWarning]
    warnings: list[LoadWarning]


def bundle_stores(
    stores: Sequence[str | Path | Folder],
    out: str | Path,
    without: Collection[ListedRun] = (),
    *,
    scalars: bool = True,
) -> Bundled:
    """Write the finished runs of stores and bundles as one bundle; of two runs with one name the first is kept.

    `without` has the runs of other bundles, which are not to be in this one, too. Scalars are half of a bundle.
    """
    elsewhere = set(map(_about, without))
    folders = [store if isinstance(store, Folder) else Folder(store) for store in stores]
    parts = [_read_part(folder) for folder in folders]
    left_out = [each for part in parts for each in part.left_out]
    listed: dict[str, ListedRun] = {}
    tables = {table: [schema(table).empty_table()] for table in (RUNS, *TABLES)}
    for part in parts:
        new = {run.name: run for run in part.listed if run.name not in listed and _about(run) not in elsewhere}
        listed |= new
        for table, rows in part.tables.items():
            tables[table].append(rows.filter(pc.is_in(rows.column("run"), pa.array(new, pa.string()))))
    if not listed and any(part.listed for part in parts):
        raise StoreError("all finished runs are in other bundles; nothing was written")
    if not listed:
        why = f"; {left_out[0].where}: {left_out[0].message}" if left_out else ""
        locations = ", ".join(folder.location for folder in folders)
        raise StoreError(f"there is no run below {locations} to make a bundle of; nothing was written{why}")
    if not scalars:
        tables["scalars"] = [schema("scalars").empty_table()]
    whole = {table: pa.concat_tables(rows) for table, rows in tables.items()}
    by_name = {table: rows.take(pc.sort_indices(rows.column("run"))) for table, rows in whole.items()}  # a stable sort
    manifest = write_bundle(Path(out), [listed[name] for name in sorted(listed)], by_name, SUITE_VERSION)
    return Bundled(manifest, left_out, [each for part in parts for each in part.warnings])


def _about(run: ListedRun) -> tuple[str, int, str, str]:
    """Return what a run is; its digest says what came of it, and depends on the machine."""
    return run.name, run.frames, run.protocol_fingerprint, run.method_fingerprint


def _read_part(folder: Folder) -> _Part:
    bundle = open_bundle(folder)
    return _of_store(folder) if bundle is None else _of_bundle(bundle)


def _of_bundle(bundle: Bundle) -> _Part:
    results = load(bundle.folder)
    complete = {run.name for run in results.runs if not _why_not(run)}
    left_out = [LoadWarning("left out", run.name, why) for run in results.runs if (why := _why_not(run))]
    left_out += [warning for warning in results.warnings if warning.where not in complete]
    warnings = [warning for warning in results.warnings if warning.where in complete]
    listed = [run for run in bundle.manifest.runs if run.name in complete]
    return _Part(listed, {table: bundle.rows(table) for table in bundle.tables}, left_out, warnings)


def _of_store(folder: Folder) -> _Part:
    results = load(folder)
    files = {table: results.files(table) for table in TABLES}
    listed: list[ListedRun] = []
    left_out: list[LoadWarning] = []
    tables = {table: [schema(table).empty_table()] for table in (RUNS, *TABLES)}
    for run in results.runs:
        try:
            row = _describe(run, folder)
            rows = {table: _read(table, files[table].get(run.name)) for table in TABLES}
        except (ValueError, OSError, ConfigError, Damaged, pa.ArrowException) as error:
            left_out.append(LoadWarning("left out", run.name, str(error)))
            continue
        listed.append(ListedRun(run.name, run.target_frames, run.protocol, run.method_fingerprint, digest(rows)))
        tables[RUNS].append(pa.Table.from_pylist([asdict(row)], schema(RUNS)))
        for table, found in rows.items():
            kept = THINNED[table](found) if table in THINNED else found
            names = pa.array([run.name] * len(kept), pa.string())
            tables[table].append(kept.add_column(0, schema(table).field("run"), names))
    whole = {table: pa.concat_tables(rows) for table, rows in tables.items()}
    return _Part(listed, whole, left_out, results.warnings)


def evenly(count: int, kept: int) -> Rows:
    """Return which of so many to keep, evenly spaced: all where they are few enough, and always the last."""
    numbers = np.arange(count, dtype=np.int64)
    return np.flatnonzero((numbers + 1) * kept // max(count, 1) > numbers * kept // max(count, 1))


def thin_episodes(rows: pa.Table) -> pa.Table:
    """Return of each phase some episodes, evenly spaced, those that beat all before, and that of the first reward."""
    phases = np.array(rows.column("phase").to_pylist())
    end_step, steps, first = (
        rows.column(name).to_numpy().astype(np.float64) for name in ("end_step", "steps", "first_reward_step")
    )
    rewarded = end_step - steps + first  # NaN where there was none
    returns = rows.column("game_return").to_numpy().astype(np.float64)
    kept = np.zeros(len(rows), bool)
    for phase in set(phases):
        (numbers,) = np.nonzero(phases == phase)
        kept[numbers[evenly(len(numbers), EPISODES_KEPT)]] = True
        kept[numbers[np.diff(np.fmax.accumulate(returns[numbers]), prepend=0.0) > 0]] = True
        kept[numbers[rewarded[numbers] == np.nanmin(rewarded[numbers], initial=np.inf)]] = True
    return rows.filter(kept)


def thin_scalars(rows: pa.Table) -> pa.Table:
    """Return the windows of a run joined into so few that a bundle may have them, and how many each stands for."""
    windows = np.unique(rows.column("end_step").to_numpy())
    together = joined_windows(len(windows))
    if together == 1:
        return rows
    each = pa.table([windows, pa.repeat(WINDOWS, len(windows)), pa.repeat(1.0, len(windows))], schema=rows.schema)
    rows = pa.concat_tables([rows, each])
    number = np.searchsorted(windows, rows.column("end_step").to_numpy()) // together
    return join(rows, windows[np.minimum((number + 1) * together, len(windows)) - 1])


def thin_cells(rows: pa.Table) -> pa.Table:
    """Return the cells with a position or a room, of which a map can be drawn."""
    known = [~np.isnan(rows.column(name).to_numpy().astype(np.float64)) for name in ("room", "x")]
    return rows.filter(np.logical_or(*known))


THINNED: Mapping[str, Callable[[pa.Table], pa.Table]] = {
    "episodes": thin_episodes,
    "scalars": thin_scalars,
    "cells": thin_cells,
}


def digest(rows: Mapping[str, pa.Table]) -> str:
    """Return one hash of all columns of the reproducible tables of a run."""
    found: dict[str, str] = {}
    for table in REPRODUCIBLE:
        found |= records.column_digests(table, rows[table])
    return records.one_digest(found)


def _describe(run: Run, store: Folder) -> RunRow:
    """Return what a bundle says of a run; ValueError where the run cannot be in one."""
    if why := _why_not(run):
        raise ValueError(why)
    folder = store if run.name == "." else store.below(run.name)
    stored = read_run(folder)
    if stored is None:
        raise ValueError(f"its {layout.RUN} is gone")
    config = to_dict(check_fingerprints(stored))
    del config["machine"]
    return RunRow(run.name, json.dumps(config), run.bonus_source, stored.offpiste)


def _why_not(run: Run) -> str:
    """Return why a run cannot be in a bundle; empty if it can."""
    if run.version != VERSION:
        return f"it is of {version_text(run.version)}, and a bundle made here of {version_text(VERSION)}"
    if run.complete:
        return ""
    return f"it is at {run.frames:,} of {run.target_frames:,} frames, and only finished runs are bundled"


def _read(table: str, file: Path | None) -> pa.Table:
    """Return all rows of a table of one run; ValueError where one that is needed cannot be read."""
    wanted = records.schema(table)
    if file is None and table in _NEEDED:
        raise ValueError(f"its {table} cannot be read")
    rows = wanted.empty_table() if file is None else pq.ParquetFile(file).read(use_threads=False)
    rows = parquet.conform(rows, wanted)
    if table == "attempts":
        nobody = pa.array([""] * len(rows), pa.string())
        rows = rows.set_column(rows.schema.get_field_index("host"), wanted.field("host"), nobody)
    return rows
