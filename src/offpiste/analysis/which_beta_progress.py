"""What the runs of *Which β?* settle so far: constants whose runs are all there, scores, and answers to findings.

Nothing is chosen, scored or judged while a run that it rests on is missing; what is there is counted instead.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from offpiste.analysis.choice import Point
from offpiste.analysis.small_worlds import EASY, SMALL_WORLDS, TUNED
from offpiste.analysis.which_beta import (
    BLANK,
    CONTROLS,
    EPISODIC,
    FAMILIES,
    FINALISTS,
    PASSIVE,
    STAGE_1_SEEDS,
    STAGE_2_SEEDS,
    WITHOUT_BONUS,
    Kind,
    Runs,
    Table,
    choices,
    finalists,
    is_defined,
    score,
)
from offpiste.analysis.which_beta_findings import (
    ON_APPEARANCE,
    ON_INVERSE_DYNAMICS,
    Answer,
    BetaFinding,
    Edition,
    Hypothesis,
    Scored,
    judge,
)


@dataclass(frozen=True, eq=False)
class Collected:
    """The runs there are, and those that are to be chosen from."""

    tables: Mapping[str, Table]
    """By method."""
    points: Mapping[str, Collection[Point]]
    """The grid of each method."""
    published: Mapping[str, Point]
    """The constants that the first edition chose, which stay."""

    def table(self, method: str) -> Table:
        """Return the runs of a method."""
        return self.tables.get(method, {})

    @cached_property
    def constants(self) -> Mapping[str, Mapping[str, Mapping[Kind, Point]]]:
        """By method and world, the points whose runs settle them."""
        return {method: _settle(self, method) for method in self.points}


@dataclass(frozen=True)
class Count:
    """How many of the runs that something rests on are there."""

    there: int
    wanted: int

    @property
    def complete(self) -> bool:
        """Whether none is missing."""
        return self.there == self.wanted

    def __add__(self, other: "Count") -> "Count":
        """Return both together."""
        return Count(self.there + other.there, self.wanted + other.wanted)

    def __str__(self) -> str:
        """Say it."""
        return f"{self.there:,} of {self.wanted:,} runs are there"


@dataclass(frozen=True)
class Answered:
    """A finding, the answers to its hypotheses, and how many of its runs are there; no answer if one is missing."""

    finding: BetaFinding
    edition: Edition
    runs: Count
    hypotheses: Mapping[str, Hypothesis]
    answers: Mapping[str, Answer]


def choosing(collected: Collected, method: str, world: str) -> Count:
    """Return how many of the runs are there that choose the constant of a method on a world."""
    table, points = collected.table(method).get(world, {}), collected.points[method]
    if world == TUNED:
        return Count(0, 0) if method in WITHOUT_BONUS else _count(table, points, (*STAGE_1_SEEDS, *STAGE_2_SEEDS))
    if world in EASY:
        return _count(table, points, STAGE_1_SEEDS[:1])
    first = _count(table, points, STAGE_1_SEEDS)
    if first.complete:
        return first + _count(table, finalists(table), STAGE_2_SEEDS)
    wanted = FINALISTS * len(STAGE_2_SEEDS)  # of points that are not known yet
    return first + Count(min(wanted, _count(table, points, STAGE_2_SEEDS).there), wanted)


def worlds_of(method: str) -> tuple[str, ...]:
    """Return the worlds in which settings of a method are tried; Noisy TV is held beside one of its other forms."""
    controls = {BLANK: ON_APPEARANCE, PASSIVE: ON_INVERSE_DYNAMICS}
    return (*SMALL_WORLDS.games, *(world for world in CONTROLS if method in controls[world]))


def settled(collected: Collected, method: str, world: str) -> Mapping[Kind, Point]:
    """Return the points with which a method is scored on a world, by how each was chosen, as far as that is certain."""
    return collected.constants.get(method, {}).get(world, {})


def _settle(collected: Collected, method: str) -> dict[str, dict[Kind, Point]]:
    """Return what is settled of a method, by world."""
    table, published = collected.table(method), collected.published.get(method)
    there = {each: choosing(collected, method, each).complete for each in worlds_of(method)}
    judging = [each for each in SMALL_WORLDS.games if each != TUNED or method not in (*EPISODIC, *WITHOUT_BONUS)]
    at_home = published is not None or there[TUNED]
    found: dict[str, dict[Kind, Point]] = {}
    for world in there:
        certain: dict[Kind, bool] = {
            "default": True,
            "transferred": at_home,
            "one for all": all(there[each] for each in judging if FAMILIES[each] != FAMILIES[world]),
            "own": at_home if world == TUNED else there[world],
        }
        points = choices(method, table, world, published)
        found[world] = {kind: point for kind, point in points.items() if point is not None and certain[kind]}
    return found


def scored_on(collected: Collected, seeds: Collection[int]) -> Scored:
    """Return the runs of every method on every world by each way of choosing, where all seeds are there."""
    found: dict[tuple[str, str, Kind], Runs] = {}
    for method in collected.points:
        for world in worlds_of(method):
            if is_defined(method, world):
                for kind, point in settled(collected, method, world).items():
                    if own := score(collected.table(method), world, point, seeds):
                        found[method, world, kind] = own.runs
    return found


def score_keys(methods: Iterable[str], world: str) -> list[tuple[str, str, Kind]]:
    """Return the ways of choosing by which methods are scored in a world."""
    found: list[tuple[str, str, Kind]] = []
    for method in methods:
        if is_defined(method, world) and world in worlds_of(method):
            found += [(method, world, kind) for kind in choices(method, {}, world)]
    return found


def scoring(collected: Collected, keys: Collection[tuple[str, str, Kind]], seeds: Collection[int]) -> Count:
    """Return how many of the runs are there that score methods on worlds; a setting that wins twice is run once."""
    wanted: set[tuple[str, str, Point | Kind, int]] = set()
    there = set()
    for method, world, kind in keys:
        point = settled(collected, method, world).get(kind)
        runs = collected.table(method).get(world, {}).get(point, {}) if point is not None else {}
        wanted |= {(method, world, kind if point is None else point, seed) for seed in seeds}
        there |= {(method, world, point, seed) for seed in seeds if seed in runs}
    return Count(len(there), len(wanted))


def answered(collected: Collected, finding: BetaFinding, edition: Edition) -> Answered:
    """Return the answers to a finding by the seeds that it was planned for, or how many runs there are."""
    asked = _Asked(finding.seeds)
    list(finding.hypotheses(asked, edition, finding.seeds))
    count = scoring(collected, asked.keys_asked, finding.seeds)
    if not count.complete or not count.wanted:
        return Answered(finding, edition, count, {}, {})
    scored = scored_on(collected, finding.seeds)
    hypotheses = {hypothesis.label: hypothesis for hypothesis in finding.hypotheses(scored, edition, finding.seeds)}
    return Answered(finding, edition, count, hypotheses, judge(finding, scored, edition))


class _Asked(Mapping[tuple[str, str, Kind], Runs]):
    """Scores of nothing, which note what a finding asks for."""

    def __init__(self, seeds: Collection[int]) -> None:
        self.keys_asked: set[tuple[str, str, Kind]] = set()
        self._runs = dict.fromkeys(seeds, (0.0, 0.0))

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: tuple[str, str, Kind]) -> Runs:
        self.keys_asked.add(key)
        return self._runs

    def __iter__(self) -> Iterator[tuple[str, str, Kind]]:
        return iter(self.keys_asked)

    def __len__(self) -> int:
        return len(self.keys_asked)


def _count(table: Mapping[Point, Runs], points: Collection[Point], seeds: Collection[int]) -> Count:
    there = sum(seed in table.get(point, {}) for point in points for seed in seeds)
    return Count(there, len(points) * len(seeds))
