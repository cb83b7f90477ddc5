"""The role `measured`: a figure from results/measured, as in {measured}`peers.dopamine:.1f`."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from scripts.measured import FOLDER, quote


class Measured(SphinxRole):
    """Writes the figure."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the figure as text, and have the page rebuilt when it is measured again."""
        self.env.note_dependency(str(FOLDER / f"{self.text.partition('.')[0]}.json"))
        try:
            return [nodes.Text(quote(self.text))], []
        except ValueError as error:
            return [], [self.inliner.reporter.error(str(error), line=self.lineno)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the role known to Sphinx."""
    app.add_role("measured", Measured())
    return {"parallel_read_safe": True}
