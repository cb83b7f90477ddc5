"""Stores as one page: what was run, curves and scores; then findings, what they rest on, and what is wrong with it."""

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from offpiste.analysis import caveats, comparisons, fairness
from offpiste.analysis.evidence import Evidence, gather, gather_apart
from offpiste.analysis.findings import MARGIN
from offpiste.analysis.names import spell_out, title
from offpiste.analysis.paper import PAPER
from offpiste.analysis.results import load
from offpiste.analysis.scores import Cell
from offpiste.analysis.scores import cells as profile_cells
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.commands import shell_line, train_command
from offpiste.report import (
    comparison_tables,
    figures,
    overviews,
    profile,
    quality_tables,
    reproduce,
    settings,
    tables,
)
from offpiste.report.drawing import Drawing, save
from offpiste.report.sentences import count_of, lead_sentences, part_of, scope, what_was_run
from offpiste.store.outputs import replacing
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES
from offpiste.worlds.scores import reference_scores

NOTES_SHOWN = 8
"""Caveats of one kind on the page; the CSV file has all."""
RUNS_SHOWN = 12
"""Runs, or games, that one caveat names on the page."""
ROWS_SHOWN = 30


@dataclass(frozen=True)
class Report:
    """What was written."""

    page: Path
    lead: list[str]
    notes: list[caveats.Note]
    profile: list[Cell]
    """Every method in every small world; empty where there are none."""


def build(
    store: str | Path | Folder,
    out: str | Path,
    *,
    beside: Sequence[str | Path | Folder] = (),
    allow_mixed: bool = False,
    frames: int | None = None,
    heading: str = "Report",
    banner: str = "",
) -> Report:
    """Write the report of a store, and of those beside it, into a folder: index.html, figures/, tables/, commands.txt.

    `frames` compares runs there and not at their end; `banner` stands above everything, for example that the data are
    made up.
    """
    folder = store if isinstance(store, Folder) else Folder(store)
    results = load(folder, *beside)
    if allow_mixed:
        evidence = gather(results, folder.location, allow_mixed=True, frames=frames)
    else:
        evidence = gather_apart(results, folder.location, frames=frames)
    out = Path(out)
    others = [location for location in results.stores if location != folder.location]
    command = ["offpiste", "report", evidence.store, *(["--beside", *others] if others else []), "--out", str(out)]
    command += [*(["--frames", str(frames)] if frames else []), *(["--allow-mixed"] if allow_mixed else [])]
    with replacing(out) as new:
        for each in (new / "figures", new / "tables"):
            each.mkdir()
        about = {"heading": heading, "banner": banner, "report_command": shell_line(command)}
        report = _write(evidence, new, about)
    return replace(report, page=out / report.page.name)


def _write(evidence: Evidence, out: Path, about: Mapping[str, str]) -> Report:
    compared = comparisons.against_baseline(evidence)
    small = SMALL_WORLDS in evidence.benchmarks
    by_world = comparisons.against_baseline_by_game(evidence, SMALL_WORLDS) if small else []
    cells = profile_cells(evidence, SMALL_WORLDS, by_world) if small else []
    aggregates = comparisons.aggregates(evidence)
    correlations = comparisons.correlations(evidence)
    tuned, tried = fairness.tunings(evidence), fairness.variants(evidence)
    seams = caveats.seams(evidence)  # reads the attempts, some of which may not be readable
    notes = caveats.notes(evidence)
    lead = lead_sentences(evidence, compared, by_world)
    made = {
        "findings": comparison_tables.findings_table(evidence),
        "parts": comparison_tables.parts_table(evidence),
        "contrasts": comparison_tables.contrast_table(compared),
        "contrasts_by_world": comparison_tables.contrast_by_game_table(by_world),
        "profile": profile.profile_table(cells),
        "aggregates": comparison_tables.aggregate_table(aggregates),
        "correlations": comparison_tables.correlation_table(correlations),
        "scores": tables.score_table(evidence),
        "published": tables.published_table(evidence),
        "imports": tables.imports_table(evidence),
        "runs": tables.runs_table(evidence),
        "needed": tables.seeds_needed_table(evidence),
        "notes": quality_tables.notes_table(notes),
        "seeds": quality_tables.seeds_table(evidence),
        "unfinished": quality_tables.unfinished_table(evidence),
        "seams": quality_tables.seams_table(seams),
        "tuning": quality_tables.tuning_table(tuned),
        "variants": quality_tables.variants_table(tried),
        "protocol": settings.protocol_table(evidence.records.runs),
        "methods": settings.methods_table(evidence.runs),
    }
    of_games = [
        (group, game, tables.game_table(group, game))
        for game in evidence.games
        for group in (each for each in evidence.groups if each.shows(game))
    ]
    for table in (*made.values(), *(table for _, _, table in of_games)):
        (out / "tables" / f"{table.name}.csv").write_text(tables.to_csv(table), encoding="utf-8")
    every_command = [train_command(run.settings, run.target_frames) for run in evidence.records.runs]
    (out / "commands.txt").write_text("".join(f"{line}\n" for line in every_command), encoding="utf-8")

    def saved(drawing: Drawing) -> dict[str, Any]:
        return {"about": drawing, "svg": Markup(save(drawing, out / "figures"))}  # noqa: S704 (ours, and escaped)

    about_paper = PAPER in evidence.benchmarks or any(found.game in GAMES for found in evidence.records.published)
    paper = [saved(drawing) for drawing in figures.paper_figures(evidence)] if about_paper else []
    across = [*overviews.overview_figures(evidence, compared, aggregates, correlations)]
    across += [overviews.improvement_by_world_figure(evidence, by_world)] if by_world else []
    drawn = {each["about"].name for each in paper}
    games = []
    for group, game, table in of_games:
        shown = [figures.game_figure(group, game)] if figures.has_curves(group, game) else []
        shown += [found] if (found := figures.cells_figure(group, game)) else []
        games.append((game, *part_of(group), table, [saved(drawing) for drawing in shown]))
    page = _template().render(
        about,
        version=version("offpiste"),
        made=f"{datetime.now(UTC):%d %B %Y}",
        evidence=evidence,
        lead=lead,
        what_was_run=what_was_run(evidence),
        scope=scope(evidence),
        tables=made,
        margin=MARGIN,
        profile=profile.panels(cells, SMALL_WORLDS) if cells else [],
        outcomes=profile.outcomes(cells, SMALL_WORLDS) if cells else [],
        small=SMALL_WORLDS,
        about_paper=about_paper,
        on_paper_games=any(run.game in GAMES for run in evidence.runs),
        across=[saved(drawing) for drawing in across],
        paper=paper,
        undrawn=[heading for name, heading in figures.TITLES.items() if name not in drawn],
        games=games,
        note_groups=_grouped(notes),
        notes_shown=NOTES_SHOWN,
        runs_shown=RUNS_SHOWN,
        rows_shown=ROWS_SHOWN,
        elsewhere=sum(bool(each.changes) for each in seams),
        fairness=fairness.statements(evidence, tuned, tried),
        departures=evidence.departures(),
        stores=_stores(evidence),
        loops=reproduce.loops(evidence.runs),
        import_command=reproduce.import_command(evidence.records.published, evidence.store),
    )
    # A line may break after a hyphen, which tears the name of the yardstick apart.
    (out / "index.html").write_text(page.replace("ε-greedy", "ε\N{NON-BREAKING HYPHEN}greedy"), encoding="utf-8")
    return Report(out / "index.html", lead, notes, cells)


def _stores(evidence: Evidence) -> list[tuple[str, str]]:
    """Return the location of each store and bundle that was read, and how many runs of it are in the report."""
    counts = Counter(run.store for run in evidence.records.runs)
    return [(store, f"{kind}, {count_of(counts[store], 'run')}") for store, kind in evidence.records.stores.items()]


def _grouped(notes: Sequence[caveats.Note]) -> dict[str, tuple[int, list[tuple[str, list[str]]]]]:
    """Return by kind how many notes there are, and each message with all the runs or games that it is about."""
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for note in notes:
        groups[note.kind][note.message].append(note.where)
    return {kind: (sum(map(len, group.values())), list(group.items())) for kind, group in groups.items()}


def _policy(style: str) -> str:
    """Return the Content-Security-Policy of the page: this sheet and style attributes, no script and no request.

    Figures are styled by attributes. Browsers from before 2023 know `style-src` alone, and take the sheet by that.
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; style-src-elem 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "shown": tables.shown,
        "title": title,
        "right": tables.is_numeric,
        "more_digits": tables.more_digits,
        "spell_out": spell_out,
        "policy": _policy,
        "rounded": lambda value: f"{value:z.2f}".replace("-", "−"),
        "top": lambda game: reference_scores(game).player or "the best policy",
    }
    environment.tests["spread"] = lambda cell: isinstance(cell, tables.Spread)
    environment.globals["paper_games"] = tuple(GAMES)
    return environment.get_template("page.html")
