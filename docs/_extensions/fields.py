"""The directive `fields`: the table of a dataclass's fields, made from its code, so that it cannot fall behind.

    ```{fields} offpiste.store.records.EpisodeRow
    ```

With `:values: type` (the default) the second column is the field's type. With `:values: default` it is the default, or
"see below" where that is a table of its own, and the third column is what the field may be.
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

from offpiste.parsing import Pattern, Range

_HEADINGS = {"type": ("field", "type", "meaning"), "default": ("setting", "default", "allowed", "meaning")}


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
    documented = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
    hints = typing.get_type_hints(kind, include_extras=values == "default")
    yield f"| {' | '.join(_HEADINGS[values])} |"
    yield "|---" * len(_HEADINGS[values]) + "|"
    for field in dataclasses.fields(kind):
        meaning = " ".join(documented.get((kind.__name__, field.name), [])).strip()
        hint = hints[field.name]
        cells = [_type(hint)] if values == "type" else [_default(field), _allowed(hint)]
        yield f"| `{field.name}` | {' | '.join(cells)} | {meaning} |".replace("  ", " ")


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directive known to Sphinx."""
    app.add_directive("fields", Fields)
    return {"parallel_read_safe": True}


def _type(hint: Any) -> str:
    parts = typing.get_args(hint) or (hint,)
    names = [part if isinstance(part, str) else part.__name__ for part in parts if part is not type(None)]
    return " or ".join(names) + (", may be empty" if type(None) in parts else "")


def _allowed(hint: Any) -> str:
    """Return what a setting may be, where its type has more to say than Python's own."""
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(f"`{part!r}`" for part in parts)
    if typing.get_origin(hint) is tuple:
        return f"each {_allowed(parts[0])}"
    marks = getattr(hint, "__metadata__", ())
    return ", ".join(str(mark) for mark in marks if isinstance(mark, Range | Pattern)).replace("|", "\\|")


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
