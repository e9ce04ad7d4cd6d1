"""What the default validator of the problem package format takes for a number, and which numbers it takes for equal. Pure.

Source: Kattis/problemtools, support/default_validator/default_validator.cc. There a token is a number when all of it is one for
sscanf's `%lf` and it is finite: decimal or hexadecimal, with or without sign, point and exponent; "1e400", "inf" and "nan" are
words, but an exponent may lack its digits, as glibc reads it ("1e+" is 1, "0x." 0). A token that is no number in the answer is
compared as text, whatever the tolerances are.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

_DECIMAL: Final = re.compile(rb"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]*)?")
_HEXADECIMAL: Final = re.compile(rb"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+))([pP][+-]?[0-9]*)?")

_NO_DIGITS: Final = re.compile(rb"[+-]?0[xX]\.")


def number(token: bytes) -> float | None:
    """None for what is no number."""
    try:
        if (found := _DECIMAL.fullmatch(token)) is not None:
            value = float(_whole(found))
        elif (found := _HEXADECIMAL.fullmatch(token)) is not None:
            value = float.fromhex(_whole(found))
        else:
            return 0.0 if _NO_DIGITS.fullmatch(token) else None
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _whole(found: re.Match[bytes]) -> str:
    """Without an exponent that has no digits."""
    digits, exponent = found[1], found[2] or b""
    return (digits + (exponent if exponent[-1:].isdigit() else b"")).decode("ascii")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """-1: not given. Numbers are equal when either holds; as soon as one of them is given, numbers are compared as such."""

    absolute: float = -1.0
    relative: float = -1.0

    @property
    def used(self) -> bool:
        return self.absolute >= 0 or self.relative >= 0

    def allows(self, expected: float, got: float) -> bool:
        difference = abs(expected - got)
        return difference <= self.absolute or difference <= self.relative * abs(expected)
