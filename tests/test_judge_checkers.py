"""The built-in checkers: what they take for equal, where they see the first difference, and how much of both they hold."""

from __future__ import annotations

import io
import random
import time
import tracemalloc
from collections.abc import Sequence

import pytest

from sandbox_native import PolicyError
from sandbox_native.judge.checkers import comparison
from sandbox_native.judge.checkers.items import LONGEST
from sandbox_native.judge.outcomes import Difference
from sandbox_native.judge.values import CheckerKind

DEFAULT, EXACT, TOKENS = CheckerKind.DEFAULT, CheckerKind.EXACT, CheckerKind.TOKENS
LINES, UNORDERED = CheckerKind.LINES, CheckerKind.UNORDERED_LINES
SIZE = 32 << 10


class Shreds(io.BytesIO):
    """Gives what it has a few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(random.randint(1, 7))


def compared(kind: CheckerKind, flags: Sequence[str], output: bytes, answer: bytes) -> Difference | None:
    """The same in one piece and in shreds."""
    compare = comparison(kind, flags)
    whole = compare(io.BytesIO(output), io.BytesIO(answer))
    shreds = compare(Shreds(output), Shreds(answer))
    assert (whole is None) == (shreds is None)
    if whole is not None and shreds is not None:
        assert (whole.line, whole.column) == (shreds.line, shreds.column)
    return whole


@pytest.mark.parametrize(
    ("kind", "flags", "output", "answer"),
    [
        (EXACT, "", b"a b\n", b"a b\n"),
        (EXACT, "", b"", b""),
        (TOKENS, "", b"  a\tb\n\n c", b"a b c\n"),
        (TOKENS, "", b"", b" \n"),
        (LINES, "", b"a  b \t\r\nc\n\n\n", b"a  b\nc"),
        (LINES, "", b"  a\n\nb", b"  a \n\nb\n"),
        (UNORDERED, "", b"b \na\n\n", b"a\nb\n"),
        (UNORDERED, "", b"a\n\na\nb", b"\nb\na\na\n"),
        (DEFAULT, "", b"YES no\n", b"yes\nNO"),
        (DEFAULT, "case_sensitive", b"Yes\n\n", b"Yes"),
        (DEFAULT, "space_change_sensitive", b"a  B\n", b"A  b\n"),
        (DEFAULT, "float_tolerance 1e-6", b"1.0000005 x", b"1 X"),
        (DEFAULT, "float_tolerance 1e-6", b"1e3", b"1000.0001"),
        (DEFAULT, "float_absolute_tolerance 0.5", b"-.5", b"0"),
        (DEFAULT, "float_relative_tolerance 0.1", b"110", b"100"),
        (DEFAULT, "float_relative_tolerance 0", b"100.0", b"1e2"),
        (DEFAULT, "float_relative_tolerance 0", b"-0", b"0"),
        (DEFAULT, "float_tolerance 1e-3", b"0x10 0x1p-1", b"16 0.5"),
        (DEFAULT, "float_tolerance 0", b"1e 1E+ 0x1p- 0x. .5e", b"1 1 1 0 .5"),
        (DEFAULT, "float_tolerance 1e-3", b"NaN INF 1e400", b"nan inf 1E400"),
        (DEFAULT, "float_tolerance 1e-3", b"1_0 1.2.3", b"1_0 1.2.3"),
        (DEFAULT, "float_absolute_tolerance 0.1 float_relative_tolerance 0", b"5.05", b"5"),
    ],
)
def test_equal(kind: CheckerKind, flags: str, output: bytes, answer: bytes) -> None:
    assert compared(kind, flags.split(), output, answer) is None


@pytest.mark.parametrize(
    ("kind", "flags", "output", "answer", "line", "column", "expected", "got"),
    [
        (EXACT, "", b"ab\ncx\n", b"ab\ncd\n", 2, 2, b"d\n", b"x\n"),
        (EXACT, "", b"ab\n", b"ab", 1, 3, None, b"\n"),
        (EXACT, "", b"ab", b"ab\n", 1, 3, b"\n", None),
        (TOKENS, "", b"Yes", b"yes", 1, 1, b"yes", b"Yes"),
        (TOKENS, "", b"a\n b  d\n", b"a b c", 2, 5, b"c", b"d"),
        (TOKENS, "", b"a b", b"a b c", 1, 4, b"c", None),
        (TOKENS, "", b"a b\nc d", b"a b c", 2, 3, None, b"d"),
        (TOKENS, "", b"ab", b"a b", 1, 1, b"a", b"ab"),
        (TOKENS, "", b"", b"a", 1, 1, b"a", None),
        (LINES, "", b"a b\n", b"a  b\n", 1, 2, b"  ", b" "),
        (LINES, "", b"a\n\nb\n", b"a\nb\n", 1, 2, b"\n", b"\n\n"),
        (LINES, "", b" a\n", b"a\n", 1, 1, b"a", b" "),
        (UNORDERED, "", b"a\nx\nb", b"b\na\nc", 2, 1, None, b"x"),
        (UNORDERED, "", b"a\na\n", b"a\nb\n", 2, 1, None, b"a"),
        (UNORDERED, "", b"a\n", b"a\nb\n", 2, 1, b"b", None),
        (UNORDERED, "", b"a b\n", b"a  b\n", 1, 1, None, b"a b"),
        (DEFAULT, "", b"5.0", b"5", 1, 1, b"5", b"5.0"),
        (DEFAULT, "case_sensitive", b"YES", b"yes", 1, 1, b"yes", b"YES"),
        (DEFAULT, "space_change_sensitive", b"a b", b"a b\n", 1, 4, b"\n", None),
        (DEFAULT, "space_change_sensitive", b"a b\n\n", b"a b\n", 1, 4, b"\n", b"\n\n"),
        (DEFAULT, "space_change_sensitive", b"a\tb", b"a b", 1, 2, b" ", b"\t"),
        (DEFAULT, "float_tolerance 1e-6", b"1.00001", b"1", 1, 1, b"1", b"1.00001"),
        (DEFAULT, "float_tolerance 1e-6", b"one", b"1", 1, 1, b"1", b"one"),
        (DEFAULT, "float_tolerance 1e-6", b"nan", b"1", 1, 1, b"1", b"nan"),
        (DEFAULT, "float_tolerance 1e-6", b"1e999", b"1", 1, 1, b"1", b"1e999"),
        (DEFAULT, "float_tolerance 1e-6", b"1_0", b"10", 1, 1, b"10", b"1_0"),
        (DEFAULT, "float_tolerance 1e-6", b"10x", b"10", 1, 1, b"10", b"10x"),
        (DEFAULT, "float_tolerance 1e-6", b"1ex", b"1", 1, 1, b"1", b"1ex"),
        (DEFAULT, "float_tolerance 1e-6", b"0x.p1", b"0", 1, 1, b"0", b"0x.p1"),
        (DEFAULT, "float_tolerance 1e-3", b"1.0", b"1_0", 1, 1, b"1_0", b"1.0"),
        (DEFAULT, "float_relative_tolerance 0.1", b"0.001", b"0", 1, 1, b"0", b"0.001"),
        (DEFAULT, "float_absolute_tolerance 0.1", b"1000.2", b"1000", 1, 1, b"1000", b"1000.2"),
    ],
)
def test_first_difference(
    kind: CheckerKind, flags: str, output: bytes, answer: bytes, line: int, column: int, expected: bytes | None, got: bytes | None
) -> None:
    found = compared(kind, flags.split(), output, answer)
    assert found is not None and found.reason
    assert (found.line, found.column) == (line, column)
    if kind is not EXACT or (expected or b"") + (got or b"") != b"d\nx\n":
        assert (found.expected, found.got) == (expected, got)


@pytest.mark.parametrize(
    "flags", ["float_tolerance", "float_tolerance x", "float_tolerance inf", "no_such_flag", "case_sensitive 1"]
)
def test_a_flag_that_makes_no_sense_is_refused(flags: str) -> None:
    with pytest.raises(PolicyError, match=flags.split()[-1] if "tol" not in flags.split()[-1] else "not a number"):
        comparison(DEFAULT, flags.split())


def test_flags_are_for_the_default_checker_alone() -> None:
    with pytest.raises(PolicyError, match="case_sensitive"):
        comparison(TOKENS, ["case_sensitive"])


class Generated:
    """`unit` for ever up to a size, then `end`, in blocks that are no multiple of it."""

    def __init__(self, unit: bytes, size: int, end: bytes = b"", step: int = 40_000) -> None:
        self._data = unit * (step // len(unit) + 2)
        self._unit, self._left, self._at, self._end, self._step = len(unit), size, 0, end, step

    def read(self, size: int, /) -> bytes:
        count = min(size, self._left, self._step)
        if not count:
            end, self._end = self._end, b""
            return end
        start = self._at % self._unit
        self._at, self._left = self._at + count, self._left - count
        return self._data[start : start + count]


@pytest.mark.parametrize("kind", [EXACT, TOKENS, LINES, UNORDERED, DEFAULT])
@pytest.mark.parametrize("unit", [b"12 345\n", b"x", b" "], ids=["words", "one token", "blanks"])
def test_memory_does_not_grow_with_the_output(kind: CheckerKind, unit: bytes) -> None:
    def peak(size: int) -> int:
        tracemalloc.start()
        try:
            compare = comparison(kind)
            assert compare(Generated(unit, size, step=40_000), Generated(unit, size, step=50_000)) is None
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    size = (LONGEST >> 3) if b"\n" in unit else 3 * LONGEST  # a line costs time, and a long token is what would cost memory
    assert peak(4 * size) < 1.5 * peak(size)


@pytest.mark.parametrize("kind", [EXACT, TOKENS, LINES, UNORDERED, DEFAULT])
@pytest.mark.parametrize("size", [LONGEST - 1, LONGEST, LONGEST + 1, 2 * LONGEST, 2 * LONGEST + 5])
def test_a_long_token_is_one_however_it_is_read(kind: CheckerKind, size: int) -> None:
    def compare(output_end: bytes, answer_end: bytes) -> Difference | None:
        return comparison(kind)(Generated(b"x", size, output_end), Generated(b"x", size, answer_end, step=30_011))

    assert compare(b" end\n", b" end\n") is None
    assert compare(b" end\n", b"end\n") is not None
    assert compare(b"y end\n", b" end\n") is not None
    assert compare(b" end\n", b"y end\n") is not None


SHAPES = {
    "blanks after a line": b"a\n" + b" " * SIZE + b"b",
    "blanks before a line": b" " * SIZE + b"\n",
    "newlines": b"\n" * SIZE,
    "blanks and newlines": b" \n\t" * (SIZE // 3),
    "digits": b"1" * SIZE,
    "exponents": b"1e" * (SIZE // 2),
    "points": b"." * SIZE,
}


@pytest.mark.parametrize("kind", [EXACT, TOKENS, LINES, UNORDERED, DEFAULT])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_output_takes_much_longer_than_another_of_its_length(kind: CheckerKind, shape: str) -> None:
    flags = ("float_tolerance", "1e-6") if kind is DEFAULT else ()
    assert best(kind, flags, SHAPES[shape]) < 100 * best(kind, flags, b"12 34\n" * (SIZE // 6))


def best(kind: CheckerKind, flags: Sequence[str], output: bytes) -> float:
    """CPU seconds of a comparison with itself and with nothing, the least of three."""
    found = float("inf")
    for _ in range(3):
        began = time.thread_time()
        for answer in (output, b""):
            comparison(kind, flags)(io.BytesIO(output), io.BytesIO(answer))
        found = min(found, time.thread_time() - began)
    return found


def test_unordered_lines_beyond_the_counted_ones_are_compared_by_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_native.judge.checkers.unordered.COUNTED", 100)
    lines = [b"%d" % number for number in range(1000)]
    shuffled = random.sample(lines, len(lines))
    assert compared(UNORDERED, (), b"\n".join(shuffled), b"\n".join(lines)) is None
    assert compared(UNORDERED, (), b"\n".join([*shuffled[1:], b"x"]), b"\n".join(lines)) is not None
    assert compared(UNORDERED, (), b"\n".join(shuffled[1:]), b"\n".join(lines)) is not None
    assert compared(UNORDERED, (), b"\n".join([*shuffled[1:], shuffled[1]]), b"\n".join(lines)) is not None
