"""The directive `commands`: the help of every command, as the parsers print it, so that the page cannot fall behind."""

import contextlib
import io
import os
import re
import textwrap
from collections.abc import Iterator
from typing import Any
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from offpiste.cli import COMMANDS, main

COLUMNS = 88


class Commands(SphinxDirective):
    """Writes a section for each command."""

    def run(self) -> list[nodes.Node]:
        """Return the sections as nodes."""
        found: list[nodes.Node] = []
        for words in every_command():
            title = f"offpiste {' '.join(words)}"
            section = nodes.section(ids=[nodes.make_id(title)], names=[nodes.fully_normalize_name(title)])
            section += nodes.title("", "", nodes.literal(title, title))
            section += nodes.literal_block(text := help_of(words), text, language="text")
            found.append(section)
        return found


def every_command() -> Iterator[tuple[str, ...]]:
    """Yield every command, those that have subcommands once for each of them."""
    for name in COMMANDS:
        subcommands = re.search(r"^usage: .*{([a-z,]+)}$", help_of((name,)), re.MULTILINE)
        yield from [(name, each) for each in subcommands[1].split(",")] if subcommands else [(name,)]


def help_of(words: tuple[str, ...]) -> str:
    """Return what a command prints when asked for help, without colours."""
    environment = {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}
    out = io.StringIO()
    with mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return "\n".join(textwrap.fill(line, COLUMNS) if len(line) > COLUMNS else line for line in lines).strip()


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directive known to Sphinx."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
