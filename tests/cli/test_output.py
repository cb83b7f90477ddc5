"""What commands print of a store cannot command a terminal."""

from collections.abc import Callable

import pytest

from offpiste.cli.output import say, warn


@pytest.mark.parametrize(("write", "begin"), [(say, ""), (warn, "offpiste: ")])
def test_control_characters_are_printed_by_their_codes(
    write: Callable[[str], None], begin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("clear \x1b[2J, title \x9d0;x\x07, back \r, reorder \u202e, half \ud800; kept: β\ttab\nline")
    output = capsys.readouterr()
    shown = "clear \\x1b[2J, title \\x9d0;x\\x07, back \\r, reorder \\u202e, half \\ud800; kept: β\ttab\nline\n"
    assert (output.out, output.err) == ((f"{begin}{shown}", "") if write is say else ("", f"{begin}{shown}"))
