"""The directive `small-worlds-constants`: what the tuning of the small worlds chose, as a table."""

from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from scripts.small_worlds import RESULTS, constants


class Constants(SphinxDirective):
    """Writes the table."""

    def run(self) -> list[nodes.Node]:
        """Return the table, and have the page rebuilt when the results change."""
        self.env.note_dependency(str(RESULTS / "manifest.json"))
        container = nodes.container()
        self.state.nested_parse(
            StringList(list(constants(RESULTS)), source=str(RESULTS)), self.content_offset, container
        )
        return [container]


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directive known to Sphinx."""
    app.add_directive("small-worlds-constants", Constants)
    return {"parallel_read_safe": True}
