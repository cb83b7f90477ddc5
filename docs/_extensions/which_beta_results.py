"""Results of *Which β?*: directives, which say how many runs there are while some are missing.

`which-beta-answers` writes the questions with their answers, `which-beta-progress` how far the studies are,
`which-beta-deep-sea` the score over k of every bonus on Deep Sea, `which-beta-curves` that of each bonus in all worlds,
`which-beta-scores` the three scores of every method, and `which-beta-constants` the k that were chosen. All are of the
published results and the bundles beside them.
"""

from collections.abc import Callable
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from offpiste.analysis.names import label
from offpiste.report.beta_figures import beta_figure, three_scores_figure
from offpiste.report.panels import Drawing
from offpiste.report.svg import for_page
from scripts import which_beta
from scripts import which_beta_results as found


class Made(SphinxDirective):
    """Something that is made from the runs."""

    def note(self) -> None:
        """Have the page rebuilt when the results change."""
        for folder in (which_beta.PUBLISHED, *which_beta.bundles()):
            self.env.note_dependency(str(folder / "manifest.json"))

    def written(self, text: str) -> list[nodes.Node]:
        """Return Markdown as nodes."""
        container = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), source="results"), self.content_offset, container)
        return [container]


def written(made: Callable[[Any], str]) -> type[Made]:
    """Return a directive that writes Markdown."""

    class Written(Made):
        def run(self) -> list[nodes.Node]:
            self.note()
            return self.written(made(found.collected()))

    return Written


class DeepSea(Made):
    """The score over k of every bonus on Deep Sea."""

    def run(self) -> list[nodes.Node]:
        """Return a panel for each bonus."""
        self.note()
        return [panels(beta_figure("beta_deep_sea", "Deep Sea", found.deep_sea(found.collected())))]


class Curves(Made):
    """The score over k of each bonus in every world."""

    def run(self) -> list[nodes.Node]:
        """Return a fold for each bonus that was tried in another world than Deep Sea."""
        self.note()
        made: list[nodes.Node] = []
        runs = found.collected()
        for method in found.CURVES:
            curves = found.curves(runs, method)
            if any(curve.values for curve in curves[1:]):
                shown = for_page(beta_figure(f"beta_{method}", label(method), curves))
                fold = (
                    f'<details open><summary>{label(method)}</summary><div class="forest small">{shown}</div></details>'
                )
                made.append(nodes.raw("", fold, format="html"))
        return made or self.written("No bonus was tried with seven β in another world than Deep Sea yet.")


class Scores(Made):
    """The three scores of every method."""

    def run(self) -> list[nodes.Node]:
        """Return a panel for each world once there is a second score of any method."""
        self.note()
        worlds = found.three(found.collected())
        if not any(len(scores) > 1 for world in worlds[1:] for scores in world.scores.values()):
            return self.written("No second score of a method is there yet, in any world but Deep Sea.")
        return [panels(three_scores_figure(worlds), "forest")]


def panels(drawing: Drawing, style: str = "forest small") -> nodes.raw:
    """Return a drawing in the page's own colours, side by side where there is room."""
    return nodes.raw("", f'<div class="{style}">{for_page(drawing)}</div>', format="html")


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directives known to Sphinx."""
    for name, made in (("answers", found.answers), ("progress", found.progress), ("constants", found.constants)):
        app.add_directive(f"which-beta-{name}", written(made))
    app.add_directive("which-beta-deep-sea", DeepSea)
    app.add_directive("which-beta-curves", Curves)
    app.add_directive("which-beta-scores", Scores)
    return {"parallel_read_safe": True}
