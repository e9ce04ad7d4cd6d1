"""Comparison of an output with an answer, item by item. Pure; called by checkers/__init__.py.

Both are read a block at a time, and lists of items are compared whole: Python looks at single items only where blocks differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from sandbox_native.judge.checkers.floats import Tolerance, number
from sandbox_native.judge.checkers.items import BLOCK, SPACE, Items, Place, Stream, place_after
from sandbox_native.judge.outcomes import Difference

_SHOWN: Final = 100  # bytes of either side in a Difference


Rule: TypeAlias = Callable[[bytes, bytes], str]
"""(expected, got) -> why an item of the output is not what the answer has; "" when it is."""


def same_text(expected: bytes, got: bytes) -> str:
    return "" if expected == got else _words(expected, got)


def same_letters(expected: bytes, got: bytes) -> str:
    """ASCII letters of either case are the same, as for strcasecmp in the C locale."""
    return "" if expected == got or expected.lower() == got.lower() else _words(expected, got)


def same_numbers(tolerance: Tolerance, text: Rule) -> Rule:
    def rule(expected: bytes, got: bytes) -> str:
        if expected == got:
            return ""
        wanted = number(expected)
        if wanted is None:
            return text(expected, got)
        given = number(got)
        if given is None:
            return "not a number"
        if tolerance.allows(wanted, given):
            return ""
        return f"the numbers are {abs(wanted - given):.3g} apart"

    return rule


def _words(expected: bytes, got: bytes) -> str:
    spaces = expected[:1] in SPACE, got[:1] in SPACE
    if spaces == (False, False):
        return "another word"
    return "other white space" if all(spaces) else "white space missing" if spaces[0] else "white space that is not expected"


def compare_items(output: Items, answer: Items, rule: Rule) -> Difference | None:
    at = against = 0
    while True:
        if at == len(output.items):
            output.more()
            at = 0
        if against == len(answer.items):
            answer.more()
            against = 0
        count = min(len(output.items) - at, len(answer.items) - against)
        if not count:
            return _end(output, answer, at, against)
        got, expected = output.items[at : at + count], answer.items[against : against + count]
        if got != expected:
            for index in range(count):
                reason = rule(expected[index], got[index])
                if reason:
                    return difference(output.place(at + index), expected[index], got[index], reason)
        at, against = at + count, against + count


def _end(output: Items, answer: Items, at: int, against: int) -> Difference | None:
    """Of at least one of them."""
    if at < len(output.items):
        return difference(output.place(at), None, output.items[at], "more than expected")
    if against < len(answer.items):
        return difference(output.place(at), answer.items[against], None, "the output ends too early")
    return None


def difference(place: Place, expected: bytes | None, got: bytes | None, reason: str) -> Difference:
    return Difference(line=place.line, column=place.column, expected=_head(expected), got=_head(got), reason=reason)


def _head(side: bytes | None) -> bytes | None:
    return None if side is None else side[:_SHOWN]


def compare_bytes(output: Stream, answer: Stream) -> Difference | None:
    start = Place(1, 1)
    got = expected = b""
    while True:
        got, expected = got or output.read(BLOCK), expected or answer.read(BLOCK)
        count = min(len(got), len(expected))
        if got[:count] != expected[:count]:
            at = _first_other(got, expected, count)
            return difference(place_after(start, got, at), expected[at:], got[at:], "another byte")
        start = place_after(start, got, count)
        got, expected = got[count:], expected[count:]
        if not count:
            if got:
                return difference(start, None, got, "more than expected")
            return difference(start, expected, None, "the output ends too early") if expected else None


def _first_other(got: bytes, expected: bytes, count: int) -> int:
    low, high = 0, count  # the first `low` bytes are equal, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        if got[low:middle] == expected[low:middle]:
            low = middle
        else:
            high = middle
    return low
