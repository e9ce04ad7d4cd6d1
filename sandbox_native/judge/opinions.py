"""What a checker says of an output, and the checks by comparisons that are built in. Pure, but for reading answers.

Made by setup.py and validators.py, used by the modules that judge cases.
"""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass
from typing import IO, Final, Protocol, TypeAlias

from sandbox_native.judge.checkers import Comparison, Stream, comparison
from sandbox_native.judge.values import Case, Checker, Difference
from sandbox_native.judge.verdicts import Verdict

Output: TypeAlias = bytes | IO[bytes]
"""What a run wrote: bytes, or a file that holds it, to be read from its start."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opinion:
    """What a checker says of an output."""

    verdict: Verdict
    message: str = ""
    team_message: str = ""
    difference: Difference | None = None
    score: float | None = None
    score_multiplier: float | None = None
    limit: str | None = None


ACCEPTED: Final = Opinion(verdict=Verdict.AC)


class Check(Protocol):
    """Checks the whole output of a run that ended well. Safe in threads."""

    def __call__(self, case: Case, output: Output, /) -> Opinion: ...


@dataclass(frozen=True, slots=True)
class Compared:
    """The check of a comparison that is built in."""

    checker: Checker

    def of(self, case: Case) -> Comparison:
        return comparison(self.checker.kind, (*self.checker.flags, *case.checker_flags))

    def stream(self, case: Case, output: Stream) -> Opinion:
        """Of an output that is still being written."""
        answer = case.answer if case.answer is not None else b""
        if isinstance(answer, bytes):
            return opinion(self.of(case)(output, io.BytesIO(answer)))
        with open(answer, "rb", buffering=0) as file:
            return opinion(self.of(case)(output, file))

    def __call__(self, case: Case, output: Output, /) -> Opinion:
        if not isinstance(output, bytes):
            output.seek(0)
            return self.stream(case, output)
        answer = case.answer if case.answer is not None else b""
        if isinstance(answer, bytes):
            return ACCEPTED if output == answer else self.stream(case, io.BytesIO(output))
        with open(answer, "rb", buffering=0) as file:
            if file.read(len(output) + 1) == output:  # right for every comparison
                return ACCEPTED
            file.seek(0)
            return opinion(self.of(case)(io.BytesIO(output), file))


def opinion(found: Difference | None) -> Opinion:
    if found is None:
        return ACCEPTED
    return Opinion(verdict=Verdict.WA, message=words(found), difference=found)


def words(difference: Difference) -> str:
    """A difference as a line for judges."""
    parts = [f"line {difference.line}, column {difference.column}: {difference.reason}"]
    if difference.expected is not None:
        parts.append(f"expected {quoted(difference.expected)}")
    if difference.got is not None:
        parts.append(f"got {quoted(difference.got)}")
    return ", ".join(parts)


def quoted(part: bytes) -> str:
    """In quotes: as text where it is one, cut anywhere; else as bytes."""
    try:
        return repr(codecs.getincrementaldecoder("utf-8")().decode(part))
    except UnicodeDecodeError:
        return repr(part)
