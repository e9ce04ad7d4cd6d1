"""The checkers that are built in: an output against an answer, both as streams, in constant memory. Pure.

`comparison` makes one of a Checker and a case's flags; opinions.py feeds it what a guest wrote. A program as a checker is
validators.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from sandbox_native.errors import PolicyError
from sandbox_native.judge.checkers.compare import Rule, compare_bytes, compare_items, same_letters, same_numbers, same_text
from sandbox_native.judge.checkers.floats import Tolerance, number
from sandbox_native.judge.checkers.items import Items, Stream
from sandbox_native.judge.checkers.unordered import compare_unordered
from sandbox_native.judge.outcomes import Difference
from sandbox_native.judge.values import CheckerKind

__all__ = ["Comparison", "Difference", "Stream", "Tolerance", "comparison"]

Comparison: TypeAlias = Callable[[Stream, Stream], Difference | None]
"""(output, answer) -> the first difference, None when the output is right. Equal bytes are right for each of them."""

_FLAGS: Final = (
    "case_sensitive, space_change_sensitive, float_absolute_tolerance E, float_relative_tolerance E, float_tolerance E"
)


def comparison(kind: CheckerKind, flags: Sequence[str] = ()) -> Comparison:
    """PolicyError for a flag that the checker does not know, and for PROGRAM."""
    if kind is CheckerKind.DEFAULT:
        return _default(flags)
    if flags:
        raise PolicyError(
            "this checker has none",
            field="checker flags",
            value=" ".join(flags),
            remedy="leave them out, or use CheckerKind.DEFAULT",
        )
    plain = _PLAIN.get(kind)
    if plain is None:
        raise PolicyError("is a program", field="Checker.kind", value=kind, remedy="run it: validators.Validator does")
    return plain


def _tokens(output: Stream, answer: Stream) -> Difference | None:
    return compare_items(Items(output), Items(answer), same_text)


def _lines(output: Stream, answer: Stream) -> Difference | None:
    return compare_items(Items(output, spaces=True, trim=True), Items(answer, spaces=True, trim=True), same_text)


_PLAIN: Final = {
    CheckerKind.EXACT: compare_bytes,
    CheckerKind.TOKENS: _tokens,
    CheckerKind.LINES: _lines,
    CheckerKind.UNORDERED_LINES: compare_unordered,
}


def _default(flags: Sequence[str]) -> Comparison:
    """The problem package format's own: tokens whatever their case, white space and number format, unless flags say otherwise."""
    with_case = with_spaces = False
    absolute = relative = -1.0
    words = iter(flags)
    for word in words:
        match word:
            case "case_sensitive":
                with_case = True
            case "space_change_sensitive":
                with_spaces = True
            case "float_absolute_tolerance":
                absolute = _tolerance(word, words)
            case "float_relative_tolerance":
                relative = _tolerance(word, words)
            case "float_tolerance":
                absolute = relative = _tolerance(word, words)
            case _:
                raise PolicyError("no such flag", field="checker flags", value=word, remedy=f"the flags are {_FLAGS}")
    tolerance = Tolerance(absolute, relative)
    rule: Rule = same_text if with_case else same_letters
    if tolerance.used:
        rule = same_numbers(tolerance, rule)

    def compare(output: Stream, answer: Stream) -> Difference | None:
        return compare_items(Items(output, spaces=with_spaces), Items(answer, spaces=with_spaces), rule)

    return compare


def _tolerance(flag: str, words: Iterator[str]) -> float:
    word = next(words, None)
    value = None if word is None else number(word.encode("utf-8", "replace"))
    if value is None:
        raise PolicyError("not a number", field=flag, value=word, remedy="give a tolerance such as 1e-6 after it")
    return value
