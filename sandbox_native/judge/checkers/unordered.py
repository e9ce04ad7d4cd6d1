"""Lines in any order. Pure; called by checkers/__init__.py.

White space at the end of a line and empty lines at the end do not matter. Lines are counted by a keyed hash, so that memory is
bounded: up to `COUNTED` different lines the first line that is not expected is found; of more, sums of the hashes say whether
both have the same lines equally often (an addition modulo 2**128; the key is drawn for each comparison, so nobody can prepare
two sets with one sum).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Final

from sandbox_native.judge.checkers.compare import difference
from sandbox_native.judge.checkers.items import BLOCK, SPACE, Place, Stream
from sandbox_native.judge.outcomes import Difference

COUNTED: Final = 200_000
_SHOWN: Final = 100
_KEPT: Final = 1 << 20  # bytes of lines whose text is kept, for the words of a difference
_MODULUS: Final = 1 << 128


class _Counts:
    def __init__(self) -> None:
        self.of: dict[int, int] = {}
        self.text: dict[int, bytes] = {}
        self.sum = self.lines = self._kept = 0
        self.exact = True

    def add(self, key: int, head: bytes) -> None:
        self.sum = (self.sum + key) % _MODULUS
        self.lines += 1
        if not self.exact:
            return
        if key not in self.of and len(self.of) == COUNTED:
            self.exact = False
            self.of, self.text = {}, {}
            return
        self.of[key] = self.of.get(key, 0) + 1
        if self._kept < _KEPT:
            self.text[key] = head
            self._kept += len(head)

    def take(self, key: int) -> bool:
        """Whether there was one left."""
        left = self.of.get(key, 0)
        if left:
            self.of[key] = left - 1
        return left > 0


def compare_unordered(output: Stream, answer: Stream) -> Difference | None:
    secret, wanted = os.urandom(32), _Counts()
    for key, head, _ in _lines(answer, secret):
        wanted.add(key, head)
    total = number = 0
    for key, head, number in _lines(output, secret):
        if wanted.exact and not wanted.take(key):
            return difference(Place(number, 1), None, head, "no such line is expected, or not as often")
        total = (total + key) % _MODULUS
    if total == wanted.sum and number == wanted.lines:
        return None
    if not wanted.exact:
        return difference(Place(number + 1, 1), None, None, f"other lines than the {wanted.lines} that are expected")
    missing = next(key for key, left in wanted.of.items() if left)
    return difference(Place(number + 1, 1), wanted.text.get(missing, b""), None, "a line is missing")


def _lines(stream: Stream, secret: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Hash, head and number of each line; empty ones at the end are left out."""
    number = empty = 0
    nothing = _Line(secret).key()
    for key, head in _all_lines(stream, secret):
        number += 1
        if key == nothing:
            empty += 1
            continue
        for before in reversed(range(empty)):
            yield nothing, b"", number - 1 - before
        empty = 0
        yield key, head, number


def _all_lines(stream: Stream, secret: bytes) -> Iterator[tuple[int, bytes]]:
    open_line = _Line(secret)
    while data := stream.read(BLOCK):
        first, *others = data.split(b"\n")
        open_line.add(first)
        if not others:
            continue
        yield open_line.key(), open_line.head
        for line in others[:-1]:
            text = line.rstrip(SPACE)
            yield int.from_bytes(hashlib.blake2b(text, digest_size=16, key=secret).digest(), "little"), text[:_SHOWN]
        open_line = _Line(secret)
        open_line.add(others[-1])
    yield open_line.key(), open_line.head


class _Line:
    """One line as it is read; white space counts only when something follows it."""

    def __init__(self, secret: bytes) -> None:
        self._read = hashlib.blake2b(digest_size=16, key=secret)
        self._text = self._read.copy()
        self._read_head = self.head = b""

    def add(self, part: bytes) -> None:
        text = part.rstrip(SPACE)
        for piece, ends_in_text in ((text, True), (part[len(text) :], False)):
            self._read.update(piece)
            self._read_head = (self._read_head + piece)[:_SHOWN]
            if piece and ends_in_text:
                self._text, self.head = self._read.copy(), self._read_head

    def key(self) -> int:
        return int.from_bytes(self._text.digest(), "little")
