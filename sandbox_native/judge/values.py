"""What is graded, as values: problems with their cases and groups, programs, submissions, what is expected of them.

Made by problems/ (or by hand, for cases in memory), read by everything else of the judge. All are frozen, keyword-only and
picklable, and have `to_dict()` for `json.dumps`. How groups are graded is in gradings.py, what grading gives back in outcomes.py;
both can be imported from here.

A file of a package stays a `Path` and is opened when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from sandbox_native.judge.as_json import Value
from sandbox_native.judge.gradings import (
    FlagGrading,
    Grading,
    OnReject,
    PointsGrading,
    ProgramGrading,
    ScoreMode,
    VerdictMode,
)
from sandbox_native.judge.outcomes import (
    CaseResult,
    CompileFailure,
    CompileResult,
    Difference,
    GroupResult,
    Judgement,
    Noise,
)
from sandbox_native.judge.verdicts import Verdict

__all__ = [
    "Case",
    "CaseResult",
    "Checker",
    "CheckerKind",
    "CompileFailure",
    "CompileResult",
    "Difference",
    "Expectation",
    "FlagGrading",
    "Grading",
    "Group",
    "GroupResult",
    "Judgement",
    "Noise",
    "OnReject",
    "PointsGrading",
    "Problem",
    "ProblemLimits",
    "ProgramGrading",
    "ProgramSource",
    "Requirement",
    "ScoreMode",
    "Source",
    "SourceFile",
    "Submission",
    "ValidationCase",
    "ValidationKind",
    "VerdictMode",
]

Source: TypeAlias = Path | bytes
"""The content of a file: where it lies on the host, or the bytes themselves."""

_MIB: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile(Value):
    """One file of a program; `name` is relative and has no `..` in it."""

    name: str
    content: Source
    executable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramSource(Value):
    """A program as its files: a submission, a validator or a grader.

    `language` is a language's code where the package states it (None: found by the files' names), `entry_point` likewise.
    """

    name: str
    files: tuple[SourceFile, ...]
    language: str | None = None
    entry_point: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement(Value):
    """What is asked of a submission's results on some of the cases.

    `cases` is a pattern for names of cases or groups, relative to data/ (`secret/*-easy`; empty: all cases). Every case that it
    matches must have a verdict in `permitted`, at least one a verdict in `required`; None asks nothing. The format knows
    four verdicts, AC, WA, TLE and RTE; a case that ended otherwise (MLE, OLE, FS) counts as RTE.
    `score`: bounds, inclusive, of the score of the group of that name (of the submission for an empty pattern).
    `message`: must be in at least one of the validator's messages. `bounds_time`: "lower" or "upper" where the submission has
    a say in the time limit.
    """

    cases: str = ""
    permitted: frozenset[Verdict] | None = None
    required: frozenset[Verdict] | None = None
    score: tuple[float, float] | None = None
    message: str = ""
    bounds_time: str | None = None
    origin: str = ""
    """What states it, for messages: `submissions/accepted`, `submissions.yaml: accepted/*.py`, `@EXPECTED_RESULTS@`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation(Value):
    """What a package says of one of its submissions. All requirements must hold.

    `verdicts`: what the verdict of the whole must be one of (DOMjudge's tag, the legacy directories); None asks nothing.
    `partial`: whether the score must be below the maximum (`submissions/partially_accepted`).
    """

    verdicts: frozenset[Verdict] | None = None
    requirements: tuple[Requirement, ...] = ()
    score: float | None = None
    partial: bool | None = None
    origin: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission(ProgramSource):
    """A program to be graded; `name` is its path under submissions/ when it comes with a package."""

    expected: Expectation | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Case(Value):
    """One test case. `name` is unique in its problem: the path under data/ without `.in` (`secret/group1/03`).

    `answer` is None only where nothing is compared. `arguments` are the submission's own, `checker_flags` go to the checker
    after `Checker.flags`, `files` into the submission's working directory.
    """

    name: str
    input: Source = b""
    answer: Source | None = b""
    arguments: tuple[str, ...] = ()
    checker_flags: tuple[str, ...] = ()
    input_validator_flags: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    files: tuple[SourceFile, ...] = ()
    hint: str = ""
    description: str = ""

    @property
    def sample(self) -> bool:
        """Whether it is one of the samples, which everybody may see."""
        return self.name.startswith("sample/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Group(Value):
    """A group of cases and groups, in the order in which they are judged. The root has the name "" (it is data/)."""

    name: str = ""
    items: tuple[Case | Group, ...] = ()
    on_reject: OnReject = OnReject.BREAK
    grading: Grading = field(default_factory=FlagGrading)

    def cases(self) -> Iterator[Case]:
        """All cases below, in order."""
        for item in self.items:
            if isinstance(item, Case):
                yield item
            else:
                yield from item.cases()

    def groups(self) -> Iterator[Group]:
        """This group and all below, parents first."""
        yield self
        for item in self.items:
            if isinstance(item, Group):
                yield from item.groups()


class ValidationKind(StrEnum):
    """What the package's own validators must make of a `ValidationCase`."""

    INVALID_INPUT = "invalid_input"
    """At least one input validator refuses its input."""
    INVALID_OUTPUT = "invalid_output"
    """The input is valid, and the checker does not accept the output."""
    VALID_OUTPUT = "valid_output"
    """The input is valid, and the checker accepts the output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationCase(Value):
    """Data that no submission is judged on: it tests the validators. `output` is there unless the input is to be invalid."""

    kind: ValidationKind
    case: Case
    output: Source = b""


class CheckerKind(StrEnum):
    """How outputs are compared with answers."""

    DEFAULT = "default"
    """The problem package format's default validator; flags: case_sensitive, space_change_sensitive, float_…tolerance ε."""
    EXACT = "exact"
    """Byte for byte."""
    TOKENS = "tokens"
    """Token for token, with case; white space between tokens does not matter."""
    LINES = "lines"
    """Line for line; white space at the end of lines and empty lines at the end do not matter."""
    UNORDERED_LINES = "unordered_lines"
    """As LINES, in any order."""
    PROGRAM = "program"
    """An output validator: exit code 42 or 43."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checker(Value):
    """What compares; `program` is there for PROGRAM only. A case's own `checker_flags` follow `flags`."""

    kind: CheckerKind = CheckerKind.DEFAULT
    flags: tuple[str, ...] = ()
    program: ProgramSource | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemLimits(Value):
    """Limits of a problem. `cpu_seconds` is None where the package leaves it to the machine that judges.

    `output_bytes`: of stdout and stderr together. `wall_seconds` None: `wall_limit`. The defaults are those that the problem
    package format calls typical.
    `time_multiplier`: the limit is at least the slowest accepted submission's time times this; one that is inferred is the next
    multiple of `time_resolution_seconds` from there. `time_safety_margin`: a submission that is to be too slow takes at least
    the limit times this. 1 where the package asks for no distance.
    """

    cpu_seconds: float | None = None
    wall_seconds: float | None = None
    memory_bytes: int = 2048 * _MIB
    output_bytes: int = 8 * _MIB
    code_bytes: int = 128 << 10
    compilation_seconds: float = 60.0
    compilation_memory_bytes: int = 2048 * _MIB
    validation_seconds: float = 60.0
    validation_memory_bytes: int = 2048 * _MIB
    validation_output_bytes: int = 8 * _MIB
    passes: int = 2
    time_multiplier: float = 2.0
    time_safety_margin: float = 1.5
    time_resolution_seconds: float = 1.0

    def wall_limit(self, cpu_seconds: float) -> float:
        """The wall limit that goes with a CPU limit: what is stated, else max(2 x CPU limit, CPU limit + 1 s)."""
        return self.wall_seconds if self.wall_seconds is not None else max(2 * cpu_seconds, cpu_seconds + 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem(Value):
    """A problem: its cases, how they are checked and graded, its limits, its own submissions.

    `format` is the version of the package format ("legacy", "legacy-icpc", "2025-09"), "folder" or "memory"; `root` the
    package's directory. `languages` None: all. `include`: files that go with every submission, by language code ("default": all).
    `notes`: what a reader of the package should know, one line each (things that were ignored).
    """

    name: str
    data: Group
    title: str = ""
    format: str = "memory"
    root: Path | None = None
    limits: ProblemLimits = field(default_factory=ProblemLimits)
    checker: Checker = field(default_factory=Checker)
    scoring: bool = False
    interactive: bool = False
    multi_pass: bool = False
    minimise: bool = False
    validator_scores: bool = False
    grader: ProgramSource | None = None
    input_validators: tuple[ProgramSource, ...] = ()
    validation: tuple[ValidationCase, ...] = ()
    languages: frozenset[str] | None = None
    include: Mapping[str, tuple[SourceFile, ...]] = field(default_factory=dict)
    submissions: tuple[Submission, ...] = ()
    notes: tuple[str, ...] = ()

    def cases(self) -> tuple[Case, ...]:
        """All cases in the order in which they are judged."""
        return tuple(self.data.cases())
