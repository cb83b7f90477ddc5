"""The runs of stores, where they are compared and by what, with curves, scores and verdicts.

Runs with a variant are tuning: they show how constants were chosen and count for nothing else. Of *Which β?* those that
score what was chosen (`offpiste.analysis.which_beta`) are in no comparison either. The twelve games of the
paper are one comparison under one protocol; any other game stands alone, for nothing puts its scores on their scale.
Which findings are judged follows from the games: those of each benchmark that any run belongs to.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from offpiste.analysis import stats
from offpiste.analysis.curves import Curves, cell_curves, return_curves
from offpiste.analysis.findings import Benchmark, Scores, Verdict, judge
from offpiste.analysis.names import ordered_games, ordered_methods
from offpiste.analysis.paper import PAPER
from offpiste.analysis.records import Records
from offpiste.analysis.reference import Published
from offpiste.analysis.runs import VERSION, Run, arms_by_protocol, differences, version_text
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.analysis.statements import scores_of
from offpiste.analysis.summary import Summary, common_end, scores_by_game, summarise
from offpiste.analysis.which_beta import FAMILIES, FIRST_CHOOSING_SEED
from offpiste.config import PROTOCOL_TABLES, RunConfig, fingerprint, method_settings
from offpiste.errors import RunMismatch
from offpiste.methods import base_run
from offpiste.parsing import to_dict
from offpiste.worlds.games import GAMES
from offpiste.worlds.scores import reference_scores

BENCHMARKS = (PAPER, SMALL_WORLDS)
"""Those whose findings are judged."""
PAPER_FRAMES = 200_000_000


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that a report, or a script, says about runs is computed from this."""

    store: str
    records: Records
    runs: tuple[Run, ...]
    """Those that test a method with its own constants, those in `apart` among them."""
    tuning: tuple[Run, ...]
    chosen: tuple[Run, ...]
    """Those of *Which β?* that score, in a small world, a constant that other seeds chose there."""
    horizons: dict[str, int]
    """By game, the frame at which runs are compared."""
    summaries: dict[str, Summary]
    """By name of the run, each up to its game's frame; of tuning runs up to the end of the longest beside them."""
    benchmarks: tuple[Benchmark, ...]
    """Those that the runs belong to; there may be none."""
    measures: dict[str, str]
    """By game, which number of a run (`Summary`) is its score."""
    ties: dict[str, float]
    """By game, the difference up to which scores are equal, in points."""
    scores: Scores
    """By the measure of each game."""
    scores_by: Mapping[str, Scores]
    """By each measure of a finding, the scores of all these runs."""
    mixed: tuple[str, ...]
    """What differs between runs that were nevertheless taken together."""
    apart: "tuple[Evidence, ...]" = ()
    """Of runs that were not made alike, each arm under each protocol by itself, judged by no benchmark."""
    part: int = 0
    """The number of such a part, from 1; 0 for what is taken together."""

    @property
    def together(self) -> list[Run]:
        """The runs that test and are taken together here."""
        return [run for run in self.runs if run.name in self.summaries]

    @property
    def methods(self) -> list[str]:
        """The methods with runs that are taken together here, in their order."""
        return ordered_methods(run.method for run in self.together)

    @cached_property
    def verdicts(self) -> dict[str, tuple[Verdict, ...]]:
        """The verdicts on the findings of each benchmark, by its name."""
        return {each.name: tuple(judge(each, self.scores_by)) for each in self.benchmarks}

    @cached_property
    def curves(self) -> dict[tuple[str, str], Curves]:
        """Training returns by game and method, of the runs that are taken together here."""
        return return_curves(self.together_records)

    @cached_property
    def cells(self) -> dict[tuple[str, str], Curves]:
        """Cells found, likewise."""
        return cell_curves(self.together_records)

    @property
    def together_records(self) -> Records:
        """The records of the runs that are taken together here."""
        names = {run.name for run in self.together}
        return replace(self.records, runs=tuple(run for run in self.records.runs if run.name in names))

    @property
    def areas(self) -> Scores:
        """The areas under the training curves of the runs, as `scores` are."""
        return self.scores_by["area"]

    @property
    def games(self) -> list[str]:
        """The games with runs or published curves, in their order."""
        published = (found.game for found in self.records.published)
        return ordered_games([*(run.game for run in self.runs), *published])

    @property
    def groups(self) -> "tuple[Evidence, ...]":
        """What is taken together, and each part that is not."""
        return (self, *self.apart)

    def shows(self, game: str) -> bool:
        """Whether there is anything on a game: runs that are taken together here, or published curves and no run."""
        begun = {run.game for run in self.runs}
        return game in {run.game for run in self.together} or (not self.part and game not in begun)

    def published(self, game: str) -> list[Published]:
        """Return the published curves of a game; series that are not of our agent are left to the tables."""
        return [found for found in self.records.published if found.game == game and found.method is not None]

    def finals(self, game: str, method: str) -> stats.Array:
        """Return the scores of a method's runs on a game, in points."""
        return scores_of(self.scores, game, method)

    def normalised(self, game: str, method: str) -> stats.Array:
        """Return them on the scale from random play, 0, to a human or the best policy, 1."""
        return _normalised(self.scores, game, method)

    def normalised_areas(self, game: str, method: str) -> stats.Array:
        """Return the areas under the training curves of these runs on the same scale."""
        return _normalised(self.areas, game, method)

    def score(self, found: Summary) -> float:
        """Return the number of a run that is its score."""
        return float(getattr(found, self.measures.get(found.run.game, "final")))

    def counts(self, found: Summary) -> bool:
        """Whether a run has come far enough, with a score that is a number."""
        return found.reached and math.isfinite(self.score(found))

    def benchmark(self, game: str) -> Benchmark | None:
        """Return the benchmark by which runs on a game are judged, if there is one."""
        known = (each for each in self.benchmarks if game in each.games)
        return next((each for each in known if each.measure == self.measures.get(game)), None)

    def is_published(self, game: str, method: str) -> bool:
        """Return whether all runs of a method on a game are those of a published method: by name and by constants.

        On the games of a benchmark these are the methods of its published study, elsewhere those of the paper's.
        """
        if method not in (self.benchmark(game) or PAPER).published:
            return False
        constants = fingerprint(method_settings(base_run(game, method)))
        return all(run.method_fingerprint == constants for run in self.runs if (run.game, run.method) == (game, method))

    def is_judged(self, benchmark: Benchmark) -> bool:
        """Return whether there is a verdict on any of a benchmark's findings."""
        return any(each.verdict != "not enough evidence" for each in self.verdicts[benchmark.name])

    def departures(self) -> dict[str, tuple[Any, Any]]:
        """Return where the runs on the paper's games depart from its protocol: setting -> here, in the paper."""
        runs = [run for run in self.runs if run.game in GAMES]
        found: dict[str, tuple[Any, Any]] = {}
        for table, settings in _PROTOCOL.items():
            for key, value in settings.items():
                here = {repr(run.settings.get(f"{table}.{key}")) for run in runs}
                if here - {repr(value)}:
                    found[f"{table}.{key}"] = (" or ".join(sorted(here)), value)
        ends = {group.horizons[run.game] for group in self.groups for run in group.together if run.game in GAMES}
        if ends - {PAPER_FRAMES}:
            found["frames"] = (" or ".join(f"{end:,}" for end in sorted(ends)), f"{PAPER_FRAMES:,}")
        return found

    def why_not_comparable(self) -> str:
        """Return why published scores of our agent and protocol cannot be compared with ours; empty if they can."""
        if not any(run.game in GAMES for run in self.runs):
            return "there is no run of ours to compare with"
        if self.mixed or self.apart:
            return "our runs mix protocols"
        departures = self.departures()
        if not departures:
            return ""
        last = ", ".join(f"{key} is {here}" for key, (here, _) in reversed(list(departures.items())[-2:]))
        return f"our runs depart from that protocol: {last}{' and more' * (len(departures) > 2)}"


_PROTOCOL = {table: to_dict(RunConfig())[table] for table in PROTOCOL_TABLES}


def benchmark_on(game: str) -> Benchmark | None:
    """Return the benchmark that a game belongs to, whatever the runs on it were for."""
    return next((benchmark for benchmark in BENCHMARKS if game in benchmark.games), None)


def gather(records: Records, store: str, *, allow_mixed: bool = False, frames: int | None = None) -> Evidence:
    """Take the runs of a store together, up to a frame or the end of the longest complete ones of each comparison."""
    ordered = _ordered(records.runs)
    if len(versions := sorted({run.version for run in ordered})) > 1:
        raise RunMismatch(
            f"runs of {' and of '.join(map(version_text, versions))} cannot be compared, not even with --allow-mixed; "
            "load them from stores and bundles of their own"
        )
    runs = tuple(run for run in ordered if not run.variant)
    tuning, chosen = _apart([run for run in ordered if run.variant])
    comparisons, tried = _comparisons(runs), _comparisons((*tuning, *chosen))
    mixed = tuple(message for group in (*comparisons, *tried) if (message := differences(group)))
    if mixed and not allow_mixed:
        raise RunMismatch(f"{mixed[0]}. Put them in stores of their own, or compare them knowingly with --allow-mixed")
    ends = [frames or common_end(group) for group in comparisons]
    horizons = {run.game: end for group, end in zip(comparisons, ends, strict=True) for run in group}
    wanted = {run.name: horizons[run.game] for run in runs}
    wanted |= {run.name: frames or common_end(group) for group in tried for run in group}
    summaries: dict[str, Summary] = {}
    for end in sorted(set(wanted.values())):
        summaries |= {found.run.name: found for found in summarise(records, end) if wanted[found.run.name] == end}
    by_game = _benchmarks(runs)
    benchmarks = tuple(each for each in BENCHMARKS if each in by_game.values())
    judged_by = {game: each or PAPER for game, each in (_benchmarks(tuning) | by_game).items()}
    measures = {game: each.measure for game, each in judged_by.items()}
    counted = [summaries[run.name] for run in runs]
    scores = {measure: scores_by_game(counted, measure) for measure in ("final", "area", "evaluation")}
    return Evidence(
        store=store,
        records=records,
        runs=runs,
        tuning=tuning,
        chosen=chosen,
        horizons=horizons,
        summaries=summaries,
        benchmarks=benchmarks,
        measures=measures,
        ties={game: each.tie_on(game) for game, each in judged_by.items()},
        scores={game: arms for game, measure in measures.items() if (arms := scores[measure].get(game))},
        scores_by=scores,
        mixed=mixed,
    )


def gather_apart(records: Records, store: str, *, frames: int | None = None) -> Evidence:
    """Take the runs of a store together where they were made alike, and of the others each arm by itself.

    Of several versions that of offpiste itself is taken together, or the newest where that is not among them.
    """
    ordered = _ordered(records.runs)
    runs = tuple(run for run in ordered if not run.variant)
    versions = {run.version for run in ordered}
    main = VERSION if VERSION in versions else max(versions, default=VERSION)
    unlike = [group for group in _comparisons([run for run in runs if run.version == main]) if differences(group)]
    unlike += _comparisons([run for run in runs if run.version != main])
    aside = {run.name for group in unlike for run in group}
    kept = (run for run in records.runs if run.name not in aside and run.version == main)
    alike = replace(records, runs=tuple(kept))
    apart = []
    for part, own in enumerate((own for group in unlike for own in arms_by_protocol(group)), start=1):
        found = gather(replace(records, runs=tuple(own)), store, frames=frames)
        apart.append(replace(found, benchmarks=(), part=part))
    return replace(gather(alike, store, frames=frames), records=records, runs=runs, apart=tuple(apart))


def _apart(variants: Sequence[Run]) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """Return runs that tune, and those that score what others of their setting, on seeds that choose, had chosen."""
    tried = {_setting(run) for run in variants if run.seed >= FIRST_CHOOSING_SEED}
    scores = {
        run.name
        for run in variants
        if run.game in FAMILIES and run.seed < FIRST_CHOOSING_SEED and _setting(run) in tried
    }
    return tuple(run for run in variants if run.name not in scores), tuple(
        run for run in variants if run.name in scores
    )


def _setting(run: Run) -> tuple[str, str, str]:
    return run.game, run.protocol, run.method_fingerprint


def _benchmarks(runs: Iterable[Run]) -> dict[str, Benchmark | None]:
    """Return by game the benchmark by which runs are judged, if there is one."""
    of_game: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        of_game[run.game].append(run)
    return {game: _benchmark_of(found) for game, found in of_game.items()}


def _benchmark_of(runs: Sequence[Run]) -> Benchmark | None:
    """Return the benchmark that runs on one game belong to; None where they have no number that it is judged by."""
    for benchmark in BENCHMARKS:
        for run in runs:
            evaluated = benchmark.measure != "evaluation" or run.settings["schedule.evaluation_steps"] > 0
            if run.game in benchmark.games and evaluated:
                return benchmark
    return None


def _normalised(scores: Scores, game: str, method: str) -> stats.Array:
    scale = reference_scores(game)
    return (scores_of(scores, game, method) - scale.random) / scale.span


def _ordered(runs: Sequence[Run]) -> list[Run]:
    games, methods = ordered_games(run.game for run in runs), ordered_methods(run.method for run in runs)
    return sorted(runs, key=lambda run: (games.index(run.game), methods.index(run.method), run.variant, run.seed))


def _comparisons(runs: Sequence[Run]) -> list[list[Run]]:
    """Return the runs that are compared with one another: those on the paper's games, and those on each other game."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups["" if run.game in GAMES else run.game].append(run)
    return list(groups.values())
