"""The fields of the API, where people look for them: in help, and in docs/api.md as text."""

from dataclasses import dataclass

import pytest

import offpiste
from offpiste.field_docs import field_docs, show_fields
from scripts import api


@show_fields
@dataclass(frozen=True)
class Point:
    """A point."""

    x: int
    """Its column,
    from the left."""
    y: int = 0


def test_a_field_is_known_by_the_docstring_below_it() -> None:
    assert field_docs(Point) == {"x": "Its column,\nfrom the left."}


def test_a_dataclass_shows_its_fields_in_its_own_docstring() -> None:
    assert Point.__doc__ == "A point.\n\nFields:\n\n- x: Its column, from the left.\n- y: "


@pytest.mark.parametrize("kind", [offpiste.Batch, offpiste.Transition, offpiste.Context])
def test_help_says_what_each_field_is(kind: type) -> None:
    for name, doc in field_docs(kind).items():
        assert f"- {name}: {doc.split()[0]}" in str(kind.__doc__)
    assert set(field_docs(kind)) == set(kind.__annotations__)


def test_the_page_of_the_api_says_what_the_code_says() -> None:
    text = api.PAGE.read_text(encoding="utf-8")
    assert api.renewed(text) == text
    assert "| `terminal` | `NDArray[bool]` | [batch]: whether the game ended" in text
    assert api.renewed(text.replace("[batch]: whether", "[batch]: when")) == text


def test_every_public_name_is_on_the_page() -> None:
    text = api.PAGE.read_text(encoding="utf-8")
    for name in set(offpiste.__all__) - {"__version__", "RunConfig"}:
        assert f"<!-- api offpiste.{name}" in text
