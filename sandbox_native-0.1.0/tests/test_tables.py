"""Tables: what anybody named comes to a terminal as one line without commands."""

from __future__ import annotations

import pytest

from sandbox_native.tables import plain_table, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/plain/ü 漢", "/plain/ü 漢"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nb\r\t", "a\\nb\\r\\t"),
        ("\x7f\x9b2J", "\\x7f\\x9b2J"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_commands_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert plain_table(("name",), [(text,)]) == ["name", shown]
