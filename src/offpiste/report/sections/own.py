"""What a report about one method begins with: its verdict, its tuning, and itself beside those that matter to it."""

from collections.abc import Iterator

from offpiste.analysis.names import label, title
from offpiste.analysis.own import Own, about
from offpiste.analysis.pairs import compare
from offpiste.report import maps
from offpiste.report.beta_figures import tuning_figure
from offpiste.report.figures import mean_marks, returns_axis
from offpiste.report.look import looks
from offpiste.report.material import Material
from offpiste.report.panels import Axis, Dots, Drawing, Mark, Panel, bar, frames_axis, number, rows, upright
from offpiste.report.section import Figure, Heading, Part, Section, Words
from offpiste.report.tables import shown
from offpiste.worlds.scores import reference_scores


def lead(material: Material) -> list[str]:
    """Return the sentence on the method that the page is about."""
    found = about(material.evidence, material.about, material.by_world) if material.about else None
    return [found.sentence] if found else []


def own(material: Material) -> Iterator[Section]:
    """Yield everything about the method that the page is about."""
    found = about(material.evidence, material.about, material.by_world) if material.about else None
    if found is None:
        return
    beside = [f"{label(name)} ({role})" for name, role in found.roles.items()]
    said = f"Beside it stand {', '.join(beside)}." if beside else "Nothing stands beside it."
    parts: list[Part] = [Words([said], small=True)]
    parts += [Heading("Curves"), Figure(curves_figure(material, found), heading=False, size="large")]
    if found.roles:
        parts += [Heading("Seed by seed"), Figure(differences_figure(material, found), heading=False, size="rows")]
    if found.tried:
        tuned = tuning_figure(looks(material.evidence.methods)[found.method], found)
        parts += [
            Heading("How β was chosen"),
            Figure(tuned, heading=False, size="whole"),
        ]
    parts += [Figure(drawing, size="maps") for drawing in maps_figures(material, found)]
    yield Section("own", label(found.method), parts)


def curves_figure(material: Material, found: Own) -> Drawing:
    """Return its training returns with bands, beside the others, a panel for each world."""
    evidence = material.evidence
    names = [found.method, *found.roles]
    drawn = looks(evidence.methods)
    panels = []
    for game in found.games:
        curves = {name: evidence.curves[game, name] for name in names if (game, name) in evidence.curves}
        if not curves:
            continue
        y = returns_axis([each.values for each in curves.values()], reference_scores(game))
        last = max(float(each.frames[-1]) for each in curves.values() if each.frames.size)
        marks = [mark for name in reversed(curves) for mark in mean_marks(curves[name], drawn[name])]
        panels.append(Panel(title(game), tuple(marks), frames_axis(last), y, width=280.0, height=190.0))
    caption = "Training return over frames: means over seeds with 95% bootstrap bands, which only describe."
    return Drawing(
        "own_curves", f"{label(found.method)}: curves", caption, tuple(panels), 4, tuple(drawn[n] for n in names)
    )


def differences_figure(material: Material, found: Own) -> Drawing:
    """Return its score minus that of each other, seed by seed, a panel for each world."""
    drawn = looks(material.evidence.methods)
    by_game: dict[str, list[Mark]] = {game: [] for game in found.games}
    for row, other in enumerate(found.roles):
        for pairing in compare(material.evidence, found.method, other):
            if pairing.game not in by_game:
                continue
            marks, comparison = by_game[pairing.game], pairing.comparison
            interval, colour = comparison.difference_interval, drawn[other].colour
            if interval is not None:
                said = f"median {number(comparison.difference)}, exact 95% interval {shown(interval)}"
                marks.append(bar(row, interval, colour, said))
            ys = [-row + 0.14 * ((index % 3) - 1) for index in range(comparison.pairs)]
            seeds = [
                f"seed {seed}: {number(each)}" for seed, each in zip(pairing.seeds, comparison.differences, strict=True)
            ]
            marks.append(Dots(comparison.differences, ys, colour, seeds, radius=3.0))
    panels = []
    names = [label(other) for other in found.roles]
    x = Axis(-1.1, 1.1, ((-1.0, "−1"), (0.0, "0"), (1.0, "1")))
    for game, marks in by_game.items():
        panels.append(rows(title(game), names, [upright(0.0, len(names)), *marks], x, width=320.0))
    caption = (
        f"Score of {label(found.method)} minus that of each other, where random play is 0 and the best policy 1: a "
        "dot for "
        "each pair of equal seeds, a bar for the exact 95% interval of the median. To the right: yours is ahead."
    )
    return Drawing("own_differences", f"{label(found.method)}: seed by seed", caption, tuple(panels), 3)


def maps_figures(material: Material, found: Own) -> Iterator[Drawing]:
    """Yield where it went, beside the others, world by world."""
    for game in found.games:
        drawing = maps.game_maps(material.evidence, game, material.visits)
        if drawing is not None:
            names = [found.method, *found.roles]
            kept = sorted(
                (each for each in drawing.panels if each.method in names), key=lambda each: names.index(each.method)
            )
            yield Drawing(f"own_{drawing.name}", drawing.title, drawing.caption, tuple(kept), len(kept))
