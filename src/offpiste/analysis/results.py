"""What stores and bundles show: their runs and records, read from one or several at once, and the verdicts on them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import isfinite, nan
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from offpiste.analysis.comparisons import Contrast, every_comparison
from offpiste.analysis.curves import Curves, evaluation_curves
from offpiste.analysis.evidence import Evidence, gather, gather_apart
from offpiste.analysis.findings import Verdict
from offpiste.analysis.pairs import Pairing, compare
from offpiste.analysis.records import Records, Tables
from offpiste.analysis.reference import Published
from offpiste.analysis.runs import LoadWarning, Run, other_versions
from offpiste.analysis.sources import OpenedStore, read_bundle, read_store
from offpiste.config import counted_steps
from offpiste.errors import OffpisteError, StoreError
from offpiste.store.bundle import open_bundle
from offpiste.store.storage import Folder
from offpiste.worlds.scores import reference_scores

_NUMBERS = ("score", "area", "normalised_score", "normalised_area")
_SCORES = pa.schema([("run", pa.string()), *((name, pa.float64()) for name in _NUMBERS), ("counts", pa.bool_())])
"""The columns of `scores`; `counts` says whether the run has come far enough to be compared."""


@dataclass(frozen=True, eq=False, repr=False)
class Results(Records):
    """What `offpiste.load` returns. Tables are Arrow's; rows of a run carry its name in the column `run`."""

    def __repr__(self) -> str:
        """Say what there is and what can be asked."""
        done = sum(run.complete for run in self.runs)
        games, methods = ({getattr(run, name) for run in self.runs} for name in ("game", "method"))
        warned = f", {len(self.warnings)} warnings" if self.warnings else ""
        return (
            f"<Results of {', '.join(self.stores)}: {len(self.runs)} runs ({done} complete), {len(games)} games, "
            f"{len(methods)} methods{warned}; see .runs, .iterations(), .episodes(), .scalars(), .cells(), "
            ".coverage(), .scores(), .curves(game), .compare(a, b), .comparisons(), .verdicts(), .query(sql)>"
        )

    def evidence(self, *, allow_mixed: bool = False, frames: int | None = None) -> Evidence:
        """Return curves, scores and verdicts of the runs, compared at a frame: by default the end of the longest."""
        return gather(self, next(iter(self.stores), ""), allow_mixed=allow_mixed, frames=frames)

    def scores(self) -> pa.Table:
        """Return the numbers of each run: score and area under the training curve, in points and normalised.

        In SQL this is the table `scores`. Normalised, random play is 0, and a human or the best policy 1.
        """
        evidence = gather_apart(self, next(iter(self.stores), ""))
        rows = []
        for group in evidence.groups:
            for found in group.summaries.values():
                scale = reference_scores(found.run.game)
                points = [group.score(found), found.area]
                shares = [(value - scale.random) / scale.span if scale.known else nan for value in points]
                numbers = [value if isfinite(value) else None for value in (*points, *shares)]
                about = {"run": found.run.name, "counts": group.counts(found)}
                rows.append(about | dict(zip(_NUMBERS, numbers, strict=True)))
        return pa.Table.from_pylist(rows, _SCORES)

    def verdicts(self) -> list[Verdict]:
        """Return the verdict on each finding of the benchmarks that the runs belong to."""
        return [verdict for found in self.evidence().verdicts.values() for verdict in found]

    def compare(self, first: str, second: str) -> list[Pairing]:
        """Return one method beside another on each game on which both have scores: differences seed by seed."""
        return compare(self.evidence(), first, second)

    def curves(
        self, game: str, methods: Iterable[str] = (), phase: Literal["train", "evaluation"] = "train"
    ) -> dict[str, Curves]:
        """Return mean returns over frames on a game, by method: of all of them, or of these.

        Each has `frames`, `values` of every run, their `mean` and, to draw as a band, the ends of its `interval()`.
        """
        evidence = self.evidence()
        found = evidence.curves if phase == "train" else evaluation_curves(evidence.together_records)
        wanted = set(methods)
        for method in sorted(wanted):
            if (game, method) not in found:
                known = ", ".join(name for each, name in found if each == game) or "none"
                raise OffpisteError(f"no curve of {method!r} on {game!r}; there are {known}")
        return {
            method: curves
            for (each, method), curves in found.items()
            if each == game and (not wanted or method in wanted)
        }

    def comparisons(self) -> list[Contrast]:
        """Return each method beside ε-greedy, on sets of games and on single ones, corrected within its family."""
        return every_comparison(self.evidence())


def load(store: str | Path | Folder, *beside: str | Path | Folder) -> Results:
    """Read all runs below a folder or URL, finished or not, and what was imported into it; or those of a bundle.

    Other stores and bundles may be read beside it: the names of their runs begin with their location. The column
    `store` has the location of every run. Where several hold the same run, that of the first of them is kept.
    """
    roots = [each if isinstance(each, Folder) else Folder(each) for each in (store, *beside)]
    opened = [_open(roots[0], lambda name: name), *(_open(root, _located(root)) for root in roots[1:])]
    _refuse_overlap([root for root, each in zip(roots, opened, strict=True) if not each.bundle])
    for names in ([each.location for each in opened], [run.name for each in opened for run in each.runs]):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise StoreError(f"{twice[0]} would be read twice; name each store and each bundle once")
    published: list[Published] = []
    for found in (found for each in opened for found in each.published):
        published += [found] * (found not in published)  # the same file, imported into two stores
    sources = {name: source for each in opened for name, source in each.sources.items()}
    runs = [run for each in opened for run in each.runs]
    tables = Tables(runs, sources, [each.bundle for each in opened if each.bundle])
    tables.warnings += [warning for each in opened for warning in (*each.warnings, *other_versions(each.runs))]
    locations = {each.location: "bundle" if each.bundle else "store" for each in opened}
    runs = _without_duplicates(_with_progress(runs, tables), list(locations), tables.warnings)
    tables.keep(runs)
    results = Results(tuple(runs), tuple(published), locations, tables)
    tables.offer("scores", _SCORES, results.scores)
    return results


def _with_progress(runs: Sequence[Run], tables: Tables) -> list[Run]:
    """Return the runs with the frames that their iterations count for, and warn of what is not there or no number."""
    progress = {
        row["run"]: row
        for row in tables.query(
            "SELECT run, count(*) FILTER (WHERE complete AND phase = 'train') AS trained, "
            "count(*) FILTER (WHERE complete AND phase = 'evaluation') AS evaluated, "
            "count(*) FILTER (WHERE complete AND phase = 'evaluation_extrinsic') AS by_extrinsic, "
            "coalesce(max(steps) FILTER (WHERE NOT complete AND phase = 'train'), 0) AS partial_steps, "
            "count(*) FILTER (WHERE phase = 'train' AND (isnan(return_mean) OR isinf(return_mean))) AS not_finite "
            "FROM iterations GROUP BY run"
        ).to_pylist()
    }
    found = []
    for run in runs:
        row = progress.get(
            run.name, {"trained": 0, "evaluated": 0, "by_extrinsic": 0, "partial_steps": 0, "not_finite": 0}
        )
        size, skip = run.settings["schedule.iteration_steps"], run.settings["world.frame_skip"]
        last = "by_extrinsic" if run.settings.get("bonus.heads") == 2 else "evaluated"
        over = min(row["trained"], row[last]) if run.settings["schedule.evaluation_steps"] else row["trained"]
        steps = size if row["trained"] > over else row["partial_steps"]  # all of an iteration that is being evaluated
        found.append(replace(run, frames=skip * counted_steps(over, steps, size)))
        if not row["trained"] and not row["partial_steps"]:
            tables.warnings.append(LoadWarning("no records", run.name, "not one iteration is recorded yet"))
        if wrong := row["not_finite"]:
            message = f"the return of {wrong} iteration{'s' * (wrong > 1)} is not a finite number"
            tables.warnings.append(LoadWarning("not a number", run.name, message))
    return found


def _without_duplicates(runs: Sequence[Run], stores: Sequence[str], warnings: list[LoadWarning]) -> list[Run]:
    """Return the runs without copies of one another, which would count one seed twice.

    Of copies in several stores that of the first store is kept, so that a stranger's runs never displace one's own; of
    copies in one store, the longest.
    """
    kept: dict[tuple[Any, ...], Run] = {}
    for run in sorted(runs, key=lambda run: (stores.index(run.store), -run.frames, run.name)):
        key = (run.game, run.method_fingerprint, run.bonus_source, run.protocol, run.seed, run.arm)
        if key in kept:
            where = "" if kept[key].store == run.store else f" in {kept[key].store}"
            message = f"the same run as {kept[key].name}{where}; left out, or its seed would count twice"
            warnings.append(LoadWarning("duplicate run", run.name, message))
        else:
            kept[key] = run
    return sorted(kept.values(), key=lambda run: (stores.index(run.store), run.name))


def _open(root: Folder, named: Callable[[str], str]) -> OpenedStore:
    bundle = open_bundle(root)
    opened = read_store(root, named) if bundle is None else read_bundle(bundle, named)
    if not opened.runs and not opened.published and not opened.warnings:
        raise StoreError(f"there is no run below {root.location}; is it the folder that runs were written to?")
    return opened


def _refuse_overlap(stores: Sequence[Folder]) -> None:
    """Refuse a store on a disk that lies in another: its runs are read with that one."""
    paths = {store.location: store.local_path.resolve() for store in stores if store.local_path is not None}
    for (outer, path), (inner, below) in permutations(paths.items(), 2):
        if below.is_relative_to(path):
            raise StoreError(f"{inner} lies in {outer} and would be read twice; leave one of them out")


def _located(root: Folder) -> Callable[[str], str]:
    """Return how the runs of a store are named that is read beside another."""
    return lambda name: root.location if name == "." else root.below(name).location
