"""The directive `fields`: the table of a dataclass's fields, made from its code, so that it cannot fall behind.

    ```{fields} offpiste.store.records.EpisodeRow
    ```

With `:values: type` (the default) the second column is the field's type, with `:values: default` its default, or "see
below" where that is a table of its own.
"""

import dataclasses
import importlib
import typing
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

_HEADINGS = {"type": ("field", "type", "meaning"), "default": ("setting", "default", "meaning")}


class Fields(SphinxDirective):
    """Writes the table."""

    required_arguments = 1
    option_spec: typing.ClassVar = {"values": lambda text: directives.choice(text, tuple(_HEADINGS))}

    def run(self) -> list[nodes.Node]:
        """Return the table as nodes, and have the page rebuilt when the code changes."""
        module_name, _, class_name = self.arguments[0].rpartition(".")
        module = importlib.import_module(module_name)
        self.env.note_dependency(str(module.__file__))
        lines = table(getattr(module, class_name), self.options.get("values", "type"))
        parent = nodes.container()
        self.state.nested_parse(StringList(list(lines), source=str(module.__file__)), 0, parent)
        return parent.children


def table(kind: type[Any], values: str = "type") -> Iterator[str]:
    """Yield the lines of a Markdown table of a dataclass's fields."""
    told = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
    hints = typing.get_type_hints(kind)
    yield f"| {' | '.join(_HEADINGS[values])} |"
    yield "|---|---|---|"
    for field in dataclasses.fields(kind):
        meaning = " ".join(told.get((kind.__name__, field.name), [])).strip()
        second = _type(hints[field.name]) if values == "type" else _default(field)
        yield f"| `{field.name}` | {second} | {meaning} |".replace("  ", " ")


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directive known to Sphinx."""
    app.add_directive("fields", Fields)
    return {"parallel_read_safe": True}


def _type(hint: Any) -> str:
    parts = typing.get_args(hint) or (hint,)
    names = [part.__name__ for part in parts if part is not type(None)]
    return " or ".join(names) + (", may be empty" if type(None) in parts else "")


def _default(field: "dataclasses.Field[Any]") -> str:
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if default is dataclasses.MISSING:
        return "must be set"
    if dataclasses.is_dataclass(default):
        return "see below"
    if type(default) is int:
        return f"`{default:_}`"
    return f"`{list(default)}`" if isinstance(default, tuple) else f"`{default!r}`"
