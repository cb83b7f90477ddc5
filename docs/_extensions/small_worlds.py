"""Results of the small worlds: directives, and the report on them as pages of the site.

`small-worlds-answers` writes the findings as questions and answers, `small-worlds-scores` the table of methods and
worlds, `small-worlds-forest` a figure of the report, `small-worlds-caption` what the maps of visits show, and
`small-worlds-constants` what the tuning chose. The site has the bundle of the results in results/small_worlds, so that
a report can be made beside it by its address, and the report on it in results/report.
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

from offpiste.analysis.results import load
from offpiste.report.page import build
from scripts import hero
from scripts.small_worlds import RESULTS, answers, constants, finished, scores

FOREST = "results/report/figures/improvement_by_world.png"
"""In the site."""
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
        container = nodes.container(classes=["scroll"])
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
    """The report's figure of every method beside ε-greedy, world by world."""

    def run(self) -> list[nodes.Node]:
        """Return the picture; `publish` puts it where this says."""
        alt = "How often each method does better than ε-greedy, world by world, with 95% intervals"
        return [nodes.raw("", f'<p><img class="forest" src="{FOREST}" alt="{alt}"></p>', format="html")]


class Caption(Written):
    """What the picture of visits shows."""

    def lines(self) -> Iterable[str]:
        """Return the caption that README has too."""
        return [f"*{hero.caption(hero.read(load(RESULTS)))}*"]


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
        logging.getLogger("fontTools").setLevel(logging.WARNING)  # it logs every font of every figure
        with chdir(app.outdir):  # so that the report's own command names no folder of this machine
            build(f"results/{RESULTS.name}", "results/report", heading="Results")
        if not (Path(app.outdir) / FOREST).exists():
            raise FileNotFoundError(f"the report has no figure {FOREST}, which docs/results.md shows")


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directives known to Sphinx, and put the results beside the pages."""
    app.add_directive("small-worlds-answers", Answers)
    app.add_directive("small-worlds-scores", Scores)
    app.add_directive("small-worlds-caption", Caption)
    app.add_directive("small-worlds-forest", Forest)
    app.add_directive("small-worlds-constants", Constants)
    app.connect("build-finished", publish)
    return {"parallel_read_safe": True}
