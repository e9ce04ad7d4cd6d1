"""A stream of bytes as the items that a checker compares: tokens, and where it asks for them the runs of white space between.

Read by compare.py, in blocks: what a block's items are is one call of C code, and memory stays the same whatever is read. An item
longer than `LONGEST` comes in pieces of exactly that size, each but the last marked with a byte that cannot be in it, so
that equal items have equal pieces and no piece is taken for a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

BLOCK: Final = 64 << 10
LONGEST: Final = 1 << 20
SPACE: Final = b" \t\n\v\f\r"  # isspace of the C locale, and what bytes.split() takes for white space
_CLASS: Final = rb" \t\n\v\f\r"
_TOKEN: Final = re.compile(rb"[^" + _CLASS + rb"]+")
_RUN: Final = re.compile(rb"[" + _CLASS + rb"]+|[^" + _CLASS + rb"]+")


class Stream(Protocol):
    """A file opened for reading, io.BytesIO, or the output of a guest that still runs."""

    def read(self, size: int, /) -> bytes:
        """At most that many bytes, waiting for the first; b"" at the end."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is in a stream; both count from 1, `column` in bytes."""

    line: int
    column: int


def place_after(start: Place, data: bytes, end: int) -> Place:
    newlines = data.count(b"\n", 0, end)
    if not newlines:
        return Place(start.line, start.column + end)
    return Place(start.line + newlines, end - data.rfind(b"\n", 0, end))


class Items:
    """`items` are those of the last block that `more` read, in order. `finished` when there are no others."""

    def __init__(self, stream: Stream, *, spaces: bool = False, trim: bool = False) -> None:
        """`spaces`: runs of white space are items too; `trim`: without those at the end of lines and of the stream."""
        self._read: Callable[[int], bytes] = stream.read
        self._spaces, self._trim = spaces, trim
        self._pattern = _RUN if spaces else _TOKEN
        self._rest = b""  # of the stream, from the start of an item whose end was not read yet
        self._text = b""  # what `items` were made of
        self._start = Place(1, 1)  # of `_text`
        self.items: list[bytes] = []
        self.finished = False

    def more(self) -> None:
        """Reads on until there are items, or the stream has ended."""
        self._pass()
        while not self.items and not self.finished:
            self._pass()
            data = self._read(BLOCK)
            text = self._rest + data
            if data:
                self._take_some(text)
            else:
                self.finished = True
                self._take(text, b"")

    def _pass(self) -> None:
        """The last block is behind us."""
        self._start = place_after(self._start, self._text, len(self._text))
        self._text, self.items = b"", []

    def place(self, at: int) -> Place:
        """Of `items[at]`, or of where the next one would begin."""
        before = 0
        for item in self._pattern.finditer(self._text):
            before += max(1, -(-len(item.group()) // LONGEST))
            if at < before:
                return place_after(self._start, self._text, item.start())
        return place_after(self._start, self._text, len(self._text))

    def _take_some(self, text: bytes) -> None:
        """All but the last item, which may go on in the next block."""
        if text[-1:] not in SPACE:
            end = len(text) - len(text.rsplit(None, 1)[-1])
        else:
            end = len(text.rstrip(SPACE)) if self._spaces else len(text)
        if end or len(text) <= LONGEST:
            self._take(text[:end], text[end:])
        else:  # one item, and no end of it in sight
            self._take(text[:LONGEST], text[LONGEST:])
            self.items = [_marked(text[:LONGEST])]

    def _take(self, text: bytes, rest: bytes) -> None:
        self._text, self._rest = text, rest
        self.items = self._pattern.findall(text) if self._spaces else text.split()
        if len(text) > LONGEST:
            self.items = [piece for item in self.items for piece in _pieces(item)]
        if self._trim:
            self.items = [item if item == b"\n" or b"\n" not in item else _trimmed(item) for item in self.items]
            if self.finished and self.items and self.items[-1][:1] in SPACE:
                self.items.pop()


def _pieces(item: bytes) -> Iterator[bytes]:
    while len(item) > LONGEST:
        yield _marked(item[:LONGEST])
        item = item[LONGEST:]
    yield item


def _trimmed(space: bytes) -> bytes:
    """White space without what stands before a newline."""
    return b"\n" * space.count(b"\n") + space[space.rfind(b"\n") + 1 :]


def _marked(piece: bytes) -> bytes:
    return piece + (b"." if piece[:1] in SPACE else b" ")
