"""What the sections of a report are made from, computed once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from offpiste.analysis import caveats, comparisons, fairness
from offpiste.analysis.evidence import Evidence
from offpiste.analysis.paper import PAPER
from offpiste.analysis.scores import Cell
from offpiste.analysis.scores import cells as profile_cells
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.analysis.visits import Visits, visits_by_run
from offpiste.report import comparison_tables
from offpiste.report.profile import profile_table
from offpiste.report.tables import Table, published_table
from offpiste.worlds.games import GAMES


@dataclass(frozen=True, eq=False)
class Material:
    """Runs, with all that is computed of them."""

    evidence: Evidence
    report_command: str
    pages: frozenset[str] = frozenset()
    """Names of the runs that have a page of their own."""
    about: str = ""
    """The method that the page begins with; "" for none."""

    @cached_property
    def compared(self) -> list[comparisons.Contrast]:
        """Each method beside ε-greedy on sets of games."""
        return comparisons.against_baseline(self.evidence)

    @cached_property
    def by_world(self) -> list[comparisons.Contrast]:
        """Likewise on each small world."""
        return comparisons.against_baseline_by_game(self.evidence, SMALL_WORLDS) if self.has_small_worlds else []

    @cached_property
    def cells(self) -> list[Cell]:
        """Every method in every small world."""
        return profile_cells(self.evidence, SMALL_WORLDS, self.by_world) if self.has_small_worlds else []

    @cached_property
    def aggregates(self) -> list[comparisons.Aggregate]:
        """Scores over games."""
        return comparisons.aggregates(self.evidence)

    @cached_property
    def correlations(self) -> list[comparisons.Correlation]:
        """Rankings beside that on Montezuma's Revenge."""
        return comparisons.correlations(self.evidence)

    @cached_property
    def tuned(self) -> list[fairness.Tuning]:
        """How each method came by its constants."""
        return fairness.tunings(self.evidence)

    @cached_property
    def tried(self) -> list[fairness.Variant]:
        """The settings that were tried."""
        return fairness.variants(self.evidence)

    @cached_property
    def seams(self) -> list[caveats.Seams]:
        """Where runs were continued."""
        return caveats.seams(self.evidence)

    @cached_property
    def notes(self) -> list[caveats.Note]:
        """What is missing or weak; asked for last, since to look at records is to find those that cannot be read."""
        return caveats.notes(self.evidence)

    @cached_property
    def visits(self) -> dict[str, Visits]:
        """Where the runs went that are drawn, by name."""
        return visits_by_run(self.evidence.records, [run.name for run in self.evidence.runs])

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that are written whether they are shown or not."""
        return [
            comparison_tables.findings_table(self.evidence),
            comparison_tables.parts_table(self.evidence),
            comparison_tables.contrast_table(self.compared),
            comparison_tables.contrast_by_game_table(self.by_world),
            comparison_tables.aggregate_table(self.aggregates),
            comparison_tables.correlation_table(self.correlations),
            profile_table(self.cells),
            published_table(self.evidence),
        ]

    @property
    def has_small_worlds(self) -> bool:
        """Whether the benchmark of the small worlds judges any run."""
        return SMALL_WORLDS in self.evidence.benchmarks

    @property
    def is_about_paper(self) -> bool:
        """Whether the paper's findings are judged, or published curves of its games shown."""
        published = self.evidence.records.published
        return PAPER in self.evidence.benchmarks or any(found.game in GAMES for found in published)

    @property
    def of_games(self) -> Sequence[tuple[Evidence, str]]:
        """Each game with what is taken together on it, part by part."""
        evidence = self.evidence
        return [(group, game) for game in evidence.games for group in evidence.groups if group.shows(game)]
