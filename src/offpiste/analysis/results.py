"""What stores and bundles hold: runs, the tables of their records, and what they show."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from offpiste.analysis.reference import Published
from offpiste.analysis.runs import LoadWarning, Run
from offpiste.analysis.tables import Tables

if TYPE_CHECKING:
    from offpiste.analysis.comparisons import Contrast
    from offpiste.analysis.evidence import Evidence
    from offpiste.analysis.findings import Verdict


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """What `offpiste.load` returns. Tables are Arrow's; rows of a run carry its name in the column `run`."""

    runs: tuple[Run, ...]
    """Every run that could be read."""
    published: tuple[Published, ...]
    """Curves that were imported, as those of Dopamine."""
    stores: Mapping[str, str]
    """By location, in the order of precedence: store or bundle."""
    tables: Tables

    def __repr__(self) -> str:
        """Say what there is and what can be asked."""
        done = sum(run.complete for run in self.runs)
        games, methods = ({getattr(run, name) for run in self.runs} for name in ("game", "method"))
        warned = f", {len(self.warnings)} warnings" if self.warnings else ""
        return (
            f"<Results of {', '.join(self.stores)}: {len(self.runs)} runs ({done} complete), {len(games)} games, "
            f"{len(methods)} methods{warned}; see .runs, .iterations(), .episodes(), .scalars(), .cells(), "
            ".coverage(), .comparisons(), .verdicts(), .query(sql)>"
        )

    @property
    def warnings(self) -> list[LoadWarning]:
        """What could not be read, or counts twice; more may come with each table that is opened."""
        return self.tables.warnings

    def query(self, sql: str) -> pa.Table:
        """Return the answer to a query in SQL over `runs` and the tables of their records."""
        return self.tables.query(sql)

    def columns(self, sql: str) -> list[list[Any]]:
        """Return the columns of an answer as lists."""
        return [column.to_pylist() for column in self.query(sql).columns]

    def iterations(self) -> pa.Table:
        """Return the iterations of all runs."""
        return self.query("FROM iterations")

    def episodes(self) -> pa.Table:
        """Return the episodes of all runs."""
        return self.query("FROM episodes")

    def scalars(self) -> pa.Table:
        """Return loss, Q, intrinsic reward and whatever else was logged, a row for each name and window of steps."""
        return self.query("FROM scalars")

    def cells(self) -> pa.Table:
        """Return the cells that were visited in training, with first step and visits."""
        return self.query("FROM cells")

    def coverage(self) -> pa.Table:
        """Return the rooms and cells that each run had found at the end of each iteration of training."""
        return self.query(
            "SELECT run, game, method, variant, seed, end_frame, rooms_total, cells_total FROM iterations JOIN runs "
            "USING (run) WHERE phase = 'train' ORDER BY game, method, variant, seed, end_frame"
        )

    def evidence(self, *, allow_mixed: bool = False, frames: int | None = None) -> "Evidence":
        """Return curves, scores and verdicts of the runs, compared at a frame: by default the end of the longest."""
        from offpiste.analysis.evidence import gather

        return gather(self, next(iter(self.stores), ""), allow_mixed=allow_mixed, frames=frames)

    def verdicts(self) -> "list[Verdict]":
        """Return the verdict on each finding of the benchmarks that the runs belong to."""
        return [verdict for found in self.evidence().verdicts.values() for verdict in found]

    def comparisons(self) -> "list[Contrast]":
        """Return each method beside ε-greedy, on sets of games and on single ones, corrected within its family."""
        from offpiste.analysis.comparisons import every_comparison

        return every_comparison(self.evidence())

    def runs_with(self, table: str) -> set[str]:
        """Return the names of the runs that have this table."""
        return self.tables.runs_with(table)

    def files(self, table: str) -> dict[str, Path]:
        """Return a Parquet file of this table for each run of a store that has it, by name of the run."""
        return self.tables.files(table)
