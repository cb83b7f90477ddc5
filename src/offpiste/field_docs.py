"""The docstrings below the fields of a dataclass, which Python itself forgets: for help and the documentation."""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from typing import TypeVar

Kind = TypeVar("Kind", bound=type)


def field_docs(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a dataclass and its parents; empty if there is no source."""
    docs: dict[str, str] = {}
    for parent in reversed(kind.__mro__[:-1]):
        try:
            source = inspect.getsource(parent)
        except (OSError, TypeError):
            continue
        body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(source)).body[0]).body
        for field, below in itertools.pairwise(body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[name] = inspect.cleandoc(text)
    return docs


def show_fields(kind: Kind) -> Kind:
    """Return a dataclass whose own docstring lists its fields, so that `help` shows them."""
    docs = field_docs(kind)
    lines = [f"- {field.name}: {' '.join(docs.get(field.name, '').split())}" for field in dataclasses.fields(kind)]
    kind.__doc__ = "\n".join([inspect.getdoc(kind) or "", "", "Fields:", "", *lines])
    return kind
