"""Results of the small worlds: directives, and the report on them as pages of the site.

`small-worlds-answers` writes the findings as questions and answers, `small-worlds-scores` the table of methods and
worlds, `small-worlds-forest` the methods beside ε-greedy in a panel for each world that differs, `small-worlds-caption`
what the maps of visits show, `small-worlds-constants` what the tuning chose, and `small-worlds-trial` what a trial
prints. The site has the bundle of the results in results/small_worlds, so that a report can be made beside it by its
address, and the report on it in results/report.
"""

import logging
import shutil
from collections.abc import Iterable
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from offpiste.analysis.comparisons import against_baseline_by_game
from offpiste.analysis.results import load
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.report.overviews import improvement_panels
from offpiste.report.page import build
from offpiste.report.svg import for_page
from scripts import hero
from scripts.small_worlds import DIFFER, RESULTS, answers, constants, finished, scores, trial

HEAT = 5
"""The strongest of the shades of a score."""


class Written(SphinxDirective):
    """Writes Markdown that is made from the results."""

    def lines(self) -> Iterable[str]:
        """Return the Markdown."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Return it as nodes, and have the page rebuilt when the results change."""
        self.env.note_dependency(str(RESULTS / "manifest.json"))
        container = nodes.container()
        self.state.nested_parse(StringList(list(self.lines()), source=str(RESULTS)), self.content_offset, container)
        return [container]


class Answers(Written):
    """The questions and their answers."""

    def lines(self) -> Iterable[str]:
        """Return the list, of which README has the beginning."""
        return answers(RESULTS).splitlines()


class Scores(Written):
    """The table of scores."""

    def lines(self) -> Iterable[str]:
        """Return the table, of which README has the worlds that differ."""
        return scores(RESULTS).splitlines()

    def run(self) -> list[nodes.Node]:
        """Return the table with a class for each score, which the style gives a colour."""
        (container,) = super().run()
        for table in container.findall(nodes.table):
            table["classes"].append("heat")
        for entry in container.findall(nodes.entry):
            with suppress(ValueError):
                score = float(entry.astext().replace("−", "-"))
                entry["classes"].append(f"heat-{round(HEAT * min(1.0, max(0.0, score)))}")
        return [container]


class Forest(SphinxDirective):
    """Every method beside ε-greedy, in the worlds in which methods differ."""

    def run(self) -> list[nodes.Node]:
        """Return a drawing for each world, in the page's own colours, side by side where there is room."""
        self.env.note_dependency(str(RESULTS / "manifest.json"))
        evidence = load(RESULTS).evidence()
        found = [each for each in against_baseline_by_game(evidence, SMALL_WORLDS) if each.games[0] in DIFFER]
        panels = "".join(map(for_page, improvement_panels(evidence, found)))
        return [nodes.raw("", f'<div class="forest">{panels}</div>', format="html")]


class Caption(Written):
    """What the picture of visits shows."""

    def lines(self) -> Iterable[str]:
        """Return the caption that README has too."""
        return [f"*{hero.caption(hero.read(load(RESULTS)))}*"]


class Trial(SphinxDirective):
    """What a trial prints."""

    def run(self) -> list[nodes.Node]:
        """Return it as it stands in a terminal."""
        self.env.note_dependency(str(RESULTS / "manifest.json"))
        text = "\n".join(trial(RESULTS))
        return [nodes.literal_block(text, text, language="text")]


class Constants(Written):
    """The settings that the tuning chose."""

    def lines(self) -> Iterable[str]:
        """Return the table."""
        return constants(RESULTS)


def publish(app: Sphinx, error: Exception | None) -> None:
    """Put the bundle and the report on it into the site, unless they are there and newer than the results."""
    out = Path(app.outdir) / "results"
    page, manifest = out / "report" / "index.html", RESULTS / "manifest.json"
    if error or app.builder.format != "html" or (page.exists() and page.stat().st_mtime > manifest.stat().st_mtime):
        return
    shutil.copytree(RESULTS, out / RESULTS.name, dirs_exist_ok=True)
    if finished(RESULTS):
        with chdir(app.outdir):  # so that the report's own command names no folder of this machine
            build(f"results/{RESULTS.name}", "results/report", heading="Results", run_pages=False)


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directives known to Sphinx, and put the results beside the pages."""
    app.add_directive("small-worlds-answers", Answers)
    app.add_directive("small-worlds-scores", Scores)
    app.add_directive("small-worlds-caption", Caption)
    app.add_directive("small-worlds-forest", Forest)
    app.add_directive("small-worlds-constants", Constants)
    app.add_directive("small-worlds-trial", Trial)
    app.connect("build-finished", publish)
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it logs every font of every figure
    return {"parallel_read_safe": True}
