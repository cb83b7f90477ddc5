"""The sections that show what runs did: scores at a glance, curves, maps, final scores, and methods beside ε-greedy."""

from collections.abc import Iterator

import numpy as np

from offpiste.analysis.evidence import Evidence
from offpiste.analysis.names import frames_text, label, title
from offpiste.analysis.scores import mean_interval_of
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.analysis.visits import lays_out_rooms
from offpiste.report import comparison_tables, figures, maps, overviews, profile, tables
from offpiste.report.look import file_name, looks
from offpiste.report.material import Material
from offpiste.report.panels import Dots, Drawing, Line, Mark, bar, number, rows
from offpiste.report.run_pages import page_name
from offpiste.report.section import Custom, Figure, Files, Fold, Heading, Part, Section, Shown, Words
from offpiste.report.sentences import part_of
from offpiste.worlds.games import GAMES
from offpiste.worlds.scores import reference_scores

_JITTER = (-0.18, 0.08, -0.06, 0.18, 0.0)
"""How far the dots of seeds stand from the middle of their row, one after the other."""


def glance(material: Material) -> Iterator[Section]:
    """Yield the profile of the small worlds, and what happened in how many runs."""
    cells = material.cells
    if not cells:
        return
    top = reference_scores(SMALL_WORLDS.tuned).player
    legend = (
        f"Mean score over seeds, where random play is 0 and {top} is 1, with its 95% interval; a score is the mean "
        "return "
        "of the evaluation after a run’s last step. ▲ beats ε-greedy after correction for the methods on that world. "
        "Suites are not averaged together: hard worlds were chosen against ε-greedy, easy ones for it. Below the line, "
        "the oracles: bonuses that count true states, which distinguish a poor bonus from a learner’s limit."
    )
    happened = (
        "A dot for each seed: found the goal in training, learned to reach it (an evaluation at least half way from "
        "random "
        f"play to {top}), and kept it (the last evaluation)."
    )
    yield Section(
        "profile",
        "Scores at a glance",
        [
            Custom("panels", profile.panels(cells, SMALL_WORLDS)),
            Words([legend], small=True),
            Files([profile.profile_table(cells)]),
            Heading("Found, learned, kept"),
            Custom("outcome_key", None),
            Custom("panels", profile.outcomes(cells, SMALL_WORLDS)),
            Words([happened], small=True),
        ],
    )


def games(material: Material) -> Iterator[Section]:
    """Yield curves, scores and numbers of each game."""
    parts: list[Part] = [
        Custom("jumps", [(file_name(game, group.part), _called(group, game)) for group, game in material.of_games])
    ]
    for group, game in material.of_games:
        parts += _game(material, group, game)
    yield Section("games", "Game by game", parts)


def _called(group: Evidence, game: str) -> str:
    part, _ = part_of(group)
    return f"{title(game)}: {part}" if part else title(game)


def _game(material: Material, group: Evidence, game: str) -> Iterator[Part]:
    part, made_by = part_of(group)
    more = [made_by] if part else []
    more += ["not a game of the paper"] if material.is_about_paper and game not in GAMES else []
    numbers = tables.game_table(group, game)
    yield Heading(_called(group, game), numbers.name, ", ".join(more))
    if figures.has_curves(group, game):
        drawing = figures.game_figure(group, game)
        yield Figure(drawing, heading=False, size="rows" if len(drawing.panels) == 1 else "curves")
    else:
        yield Words(["No curve to draw: one iteration is one point."], small=True)
    if scores := scores_figure(group, game):
        yield Figure(scores, heading=False, size="rows")
    if found := figures.cells_figure(group, game):
        size = "rows" if len(found.panels) == 1 else "curves"
        yield Fold("Cells found over frames", [Figure(found, heading=False, size=size)])
    if numbers.rows:
        yield Fold("In numbers", [Shown(numbers)], opened=len(material.of_games) <= 3)


def scores_figure(evidence: Evidence, game: str) -> Drawing | None:
    """Return the final scores on a game: a row for each method, a dot for each seed, mean and 95% interval."""
    methods = [method for method in evidence.methods if evidence.finals(game, method).size]
    if sum(evidence.finals(game, method).size for method in methods) < 2:
        return None  # the numbers say it
    drawn, scale = looks(evidence.methods), reference_scores(game)
    counted = [each for each in evidence.summaries.values() if each.run.game == game and evidence.counts(each)]
    values = [evidence.score(each) for each in counted]
    x = figures.returns_axis([np.array(values)], scale)
    marks: list[Mark] = []
    for row, method in enumerate(methods):
        own = sorted((each for each in counted if each.run.arm == method), key=lambda each: each.run.seed)
        scores = np.array([evidence.score(each) for each in own])
        ys = [-row + _JITTER[index % len(_JITTER)] for index in range(len(own))]
        said = [f"seed {each.run.seed}: {number(score)}" for each, score in zip(own, scores, strict=True)]
        mean, interval = float(scores.mean()), mean_interval_of(evidence, game, method)
        if interval is not None:
            said_of = f"{label(method)}: mean {number(mean)}, 95% interval {tables.shown(interval)}"
            marks.append(bar(row, interval, drawn[method].colour, said_of))
        marks.append(Dots(scores, ys, drawn[method].colour, said, radius=3.0, opacity=0.75))
        stroke = np.array([mean, mean]), np.array([-row - 0.38, -row + 0.38])
        marks.append(Line(*stroke, drawn[method].colour, width=2.4))
    what = "Evaluation after the last step" if evidence.measures.get(game) == "evaluation" else "Final score"
    caption = (
        f"{what}, at {frames_text(evidence.horizons[game])} frames: a dot for each seed, a bar at the mean of each "
        "method"
        f"{' with its 95% interval' if 'best' in scale.player else ''}."
    )
    panel = rows("", [label(method) for method in methods], marks, x, width=420.0)
    return Drawing(f"{file_name(game, evidence.part)}_scores", f"{title(game)}: scores", caption, (panel,), 1)


def visits(material: Material) -> Iterator[Section]:
    """Yield maps of where each method went on each game."""
    parts: list[Part] = []
    for group, game in material.of_games:
        drawing = maps.game_maps(group, game, material.visits)
        if drawing is not None:
            size = "large" if lays_out_rooms(game) else "maps"
            parts += [Heading(_called(group, game), drawing.name), Figure(drawing, heading=False, size=size)]
    if parts:
        yield Section("visits", "Where agents went", parts)


def scores(material: Material) -> Iterator[Section]:
    """Yield the table of scores, and published ones."""
    evidence = material.evidence
    parts: list[Part] = [Shown(tables.score_table(evidence)), Files([tables.runs_table(evidence)], "One row per run:")]
    published = tables.published_table(evidence)
    if material.is_about_paper:
        parts += [Heading("Published scores"), Shown(published, wide=("why", "source"))]
    imports = tables.imports_table(evidence)
    parts.append(Fold("Where the published curves come from", [Shown(imports)]) if imports.rows else Files([imports]))
    if material.pages:
        parts.append(Custom("run_links", _run_links(material)))
    yield Section("scores", "Scores", parts)


def _run_links(material: Material) -> list[tuple[str, str, list[tuple[int, str]]]]:
    """Return game, method and links of the runs that have pages, by seed."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for run in material.evidence.runs:
        if run.name in material.pages:
            found.setdefault((title(run.game), label(run.method)), []).append((run.seed, page_name(run)))
    return [(game, method, sorted(links)) for (game, method), links in found.items()]


def comparison(material: Material) -> Iterator[Section]:
    """Yield each method beside ε-greedy."""
    evidence, compared, by_world = material.evidence, material.compared, material.by_world
    parts: list[Part] = []
    if compared:
        parts += [Figure(overviews.improvement_figure(evidence, compared), size="rows")]
        parts.append(Shown(comparison_tables.contrast_table(compared)))
    if by_world:
        drawn = overviews.improvement_by_world_figure(evidence, by_world)
        parts.append(Figure(drawn, size="rows") if drawn else Words(["No method differs from ε-greedy in any world."]))
        parts.append(Fold("World by world, in numbers", [Shown(comparison_tables.contrast_by_game_table(by_world))]))
    if parts:
        yield Section("comparisons", "Beside ε-greedy", parts)
