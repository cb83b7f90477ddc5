"""What commands print: numbers as people write them, and text of a store that cannot command a terminal."""

from collections.abc import Callable

import pytest

from offpiste.cli.output import plain, say, warn


@pytest.mark.parametrize(("write", "begin"), [(say, ""), (warn, "offpiste: ")])
def test_control_characters_are_printed_by_their_codes(
    write: Callable[[str], None], begin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("clear \x1b[2J, title \x9d0;x\x07, back \r, reorder \u202e, half \ud800; kept: β\ttab\nline")
    output = capsys.readouterr()
    shown = "clear \\x1b[2J, title \\x9d0;x\\x07, back \\r, reorder \\u202e, half \\ud800; kept: β\ttab\nline\n"
    assert (output.out, output.err) == ((f"{begin}{shown}", "") if write is say else ("", f"{begin}{shown}"))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (5e-05, "0.00005"),
        (6.25e-05, "0.0000625"),
        (1.0, "1"),
        (0.1, "0.1"),
        (20.0, "20"),
        (1.2e-14, "0." + "0" * 13 + "12"),
    ],
)
def test_a_number_is_shown_exactly_and_without_an_exponent(number: float, text: str) -> None:
    assert plain(number) == text
    assert float(text) == number
