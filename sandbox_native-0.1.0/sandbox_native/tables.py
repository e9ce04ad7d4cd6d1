"""Tables for people: by rich on a terminal where it is installed, plain text otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO


def printable(text: str) -> str:
    """For a terminal: what guests name may hold anything, a terminal's own commands and the ends of lines too."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    """Columns as wide as they need; the last one is never padded. Each cell is one line, without control characters."""
    if stream.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:  # an extra
            pass
        else:
            table = Table(*headers, box=None, header_style="bold", pad_edge=False)
            for row in rows:
                table.add_row(*(Text(printable(cell), style=_STYLES.get(cell, "")) for cell in row))
            Console(file=stream).print(table)
            return
    for line in plain_table(headers, rows):
        print(line, file=stream)


_STYLES = {"yes": "green", "no": "bold red"}


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of the table, without trailing blanks."""
    rows = [[printable(cell) for cell in row] for row in rows]
    everything = [headers, *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(len(headers))]
    widths[-1] = 0
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in everything]
