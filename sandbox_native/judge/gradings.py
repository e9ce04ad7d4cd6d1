"""How groups of cases are graded, as values: what testdata.yaml and test_group.yaml say.

Made by problems/, read by graders.py and grading.py; everybody imports them from values.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from sandbox_native.judge.as_json import Value


class OnReject(StrEnum):
    """What follows in a group when an item of it is not accepted."""

    BREAK = "break"
    CONTINUE = "continue"


class VerdictMode(StrEnum):
    """How the default grader makes a group's verdict of its items' verdicts."""

    WORST_ERROR = "worst_error"
    FIRST_ERROR = "first_error"
    ALWAYS_ACCEPT = "always_accept"


class ScoreMode(StrEnum):
    """How a grader makes a group's score of its items' scores."""

    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    PASS_FAIL = "pass-fail"
    """All or nothing (2025-09 only)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagGrading(Value):
    """The legacy format's default grader with its flags, and testdata.yaml's scores of single cases."""

    verdict_mode: VerdictMode = VerdictMode.WORST_ERROR
    score_mode: ScoreMode = ScoreMode.SUM
    ignore_sample: bool = False
    accept_if_any_accepted: bool = False
    accept_score: float = 1.0
    reject_score: float = 0.0
    score_range: tuple[float, float] = (-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramGrading(Value):
    """A grader of the package's own (`Problem.grader`), run with `flags`."""

    flags: tuple[str, ...] = ()
    accept_score: float = 1.0
    reject_score: float = 0.0
    score_range: tuple[float, float] = (-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class PointsGrading(Value):
    """A group of the 2025-09 format: `max_score` is inf for unbounded; `require_pass` names groups that must be accepted."""

    score_mode: ScoreMode = ScoreMode.PASS_FAIL
    max_score: float = math.inf
    require_pass: tuple[str, ...] = ()


Grading: TypeAlias = FlagGrading | ProgramGrading | PointsGrading
