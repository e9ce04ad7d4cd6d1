"""What is wrong with the flags of a default validator or a default grader. Pure; used while reading packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sandbox_native.judge.problems.fields import float_of

_PLAIN: Final = ("case_sensitive", "space_change_sensitive")
_TOLERANCES: Final = ("float_tolerance", "float_relative_tolerance", "float_absolute_tolerance")
GRADER_FLAGS: Final = (
    *("worst_error", "no_errors", "first_error", "always_accept"),
    *("sum", "avg", "min", "max"),
    *("ignore_sample", "accept_if_any_accepted"),
)
"""What the default grader of the legacy format understands (no_errors is an old name of worst_error)."""


def wrong_validator_flags(flags: Sequence[str], *, repeated: bool = True) -> str:
    """Why the default validator cannot have these flags; empty when it can.

    `repeated` allows a tolerance to be given again, the last one counting (legacy); 2025-09 refuses that.
    """
    seen: list[str] = []
    rest = list(flags)
    while rest:
        flag = rest.pop(0)
        if flag in _PLAIN:
            continue
        if flag not in _TOLERANCES:
            return f"the default validator has no flag {flag[:40]!r}, only {', '.join((*_PLAIN, *_TOLERANCES))}"
        tolerance = float_of(rest.pop(0)) if rest else None
        if tolerance is None or tolerance < 0:
            return f"{flag} needs a number behind it, 0 or more"
        if not repeated and (flag in seen or (seen and "float_tolerance" in (flag, *seen))):
            return f"{flag} contradicts a tolerance that was given before"
        seen.append(flag)
    return ""


def wrong_grader_flags(flags: Sequence[str]) -> str:
    """Why the default grader cannot have these flags; empty when it can."""
    for flag in flags:
        if flag not in GRADER_FLAGS:
            return f"the default grader has no flag {flag[:40]!r}, only {', '.join(GRADER_FLAGS)}"
    return ""
