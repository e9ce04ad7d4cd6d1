"""How a group's verdict and score come from those of its items: the default grader, the points of 2025-09, graders as programs.

Pure; used by grading.py, which knows the tree. An item is a pair of verdict and score.

Source: the problem package format, version legacy, "Default grader specification" and "Graders"; version 2025-09, "Result
aggregation". Kattis' problemtools has the same order of errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.values import FlagGrading, Grading, PointsGrading, ProgramGrading, ScoreMode, VerdictMode
from sandbox_native.judge.verdicts import Verdict

_WORST_FIRST: Final = (
    *(Verdict.JE, Verdict.CE, Verdict.FS, Verdict.RTE, Verdict.MLE, Verdict.TLE, Verdict.OLE, Verdict.WA, Verdict.AC),
)
_LONGEST_OUTPUT: Final = 200
_TOLERANCE: Final = 1e-9  # of a sum of floats that should be the maximum


class Item(NamedTuple):
    """What a grader is told of one case or group."""

    verdict: Verdict
    score: float


class Graded(NamedTuple):
    """A group's verdict and score; `fault` says what is wrong when the verdict is JE for want of a sound score."""

    verdict: Verdict
    score: float
    fault: str = ""


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of them: a judge error, then crashes, limits, wrong answers. AC when there are none."""
    return min(verdicts, key=_WORST_FIRST.index, default=Verdict.AC)


def by_flags(grading: FlagGrading, items: Sequence[Item]) -> Graded:
    """The default grader of the legacy format. A judge error in an item is one of the group whatever the flags say."""
    verdicts = [item.verdict for item in items]
    if Verdict.JE in verdicts:
        return Graded(Verdict.JE, 0.0)
    if grading.verdict_mode is VerdictMode.ALWAYS_ACCEPT or (grading.accept_if_any_accepted and Verdict.AC in verdicts):
        verdict = Verdict.AC
    elif grading.verdict_mode is VerdictMode.FIRST_ERROR:
        verdict = next((verdict for verdict in verdicts if verdict is not Verdict.AC), Verdict.AC)
    else:
        verdict = worst(verdicts)
    return Graded(verdict, aggregate(grading.score_mode, [item.score for item in items]))


def aggregate(mode: ScoreMode, scores: Sequence[float]) -> float:
    """One score of several; 0 of none."""
    if not scores:
        return 0.0
    match mode:
        case ScoreMode.MIN:
            return min(scores)
        case ScoreMode.MAX:
            return max(scores)
        case ScoreMode.AVG:
            return math.fsum(scores) / len(scores)
        case _:
            return math.fsum(scores)


def by_points(grading: PointsGrading, items: Sequence[Item]) -> Graded:
    """A group of the 2025-09 format: its verdict is AC when all items are accepted, its score is at most its maximum."""
    verdict = worst([item.verdict for item in items])
    if verdict is Verdict.JE:
        return Graded(verdict, 0.0)
    if grading.score_mode is ScoreMode.PASS_FAIL:
        return Graded(verdict, grading.max_score if verdict is Verdict.AC else 0.0)
    score = aggregate(grading.score_mode, [item.score for item in items])
    if score > grading.max_score:
        if score > grading.max_score * (1 + _TOLERANCE):
            return Graded(Verdict.JE, 0.0, f"a score of {score:g} is above the maximum of {grading.max_score:g}")
        score = grading.max_score
    return Graded(verdict, score)


def in_range(grading: FlagGrading | ProgramGrading, graded: Graded) -> Graded:
    """`graded`, or a judge error when its score is outside of the range that the package states."""
    least, most = grading.score_range
    if graded.verdict is not Verdict.AC or least <= graded.score <= most:
        return graded
    return Graded(Verdict.JE, 0.0, f"a score of {graded.score:g} is outside of the range {least:g} to {most:g}")


def case_item(grading: Grading, result: CaseResult, cases: int, scores: bool, validator_scores: bool) -> Graded:
    """Verdict and score of a case in a group that has that many cases.

    `scores`: the problem has scores at all; `validator_scores`: its validator gives them. A score that the format does not allow
    there is a judge error.
    """
    if not scores or result.verdict is Verdict.JE:
        return Graded(result.verdict, 0.0)
    if isinstance(grading, PointsGrading):
        return _points_of_case(grading, result, cases)
    return _score_of_case(grading, result, validator_scores)


def _score_of_case(grading: FlagGrading | ProgramGrading, result: CaseResult, validator_scores: bool) -> Graded:
    if result.verdict is not Verdict.AC:
        return Graded(result.verdict, grading.reject_score)
    if not validator_scores:
        if result.score is not None:
            return Graded(Verdict.JE, 0.0, "the validator gave a score, and problem.yaml does not say `validation: custom score`")
        return Graded(Verdict.AC, grading.accept_score)
    if result.score is None:
        return Graded(Verdict.JE, 0.0, "problem.yaml says `validation: custom score`, and the validator gave no score")
    return Graded(Verdict.AC, result.score)


def _points_of_case(grading: PointsGrading, result: CaseResult, cases: int) -> Graded:
    given = result.score is not None or result.score_multiplier is not None
    if result.verdict is not Verdict.AC:
        if given and result.verdict is Verdict.WA:
            return Graded(Verdict.JE, 0.0, "the validator gave a score for an output that it rejected")
        return Graded(result.verdict, 0.0)
    if grading.score_mode is ScoreMode.PASS_FAIL:
        if given and grading.max_score:  # samples, whose maximum is 0, may have scores that nobody looks at
            return Graded(Verdict.JE, 0.0, "the validator gave a score in a group that is all or nothing")
        return Graded(Verdict.AC, 0.0)
    if result.score is not None and result.score_multiplier is not None:
        return Graded(Verdict.JE, 0.0, "the validator gave a score and a multiplier")
    most = grading.max_score / cases if grading.score_mode is ScoreMode.SUM else grading.max_score
    if math.isinf(most):
        if result.score is None:
            return Graded(Verdict.JE, 0.0, "the group has no maximal score, and the validator gave no score.txt")
        return Graded(Verdict.AC, result.score) if result.score >= 0 else Graded(Verdict.JE, 0.0, "a score is below 0")
    if result.score_multiplier is not None:
        if not 0 <= result.score_multiplier <= 1:
            return Graded(Verdict.JE, 0.0, f"a multiplier of {result.score_multiplier:g} is not from 0 to 1")
        return Graded(Verdict.AC, most * result.score_multiplier)
    if result.score is None:
        return Graded(Verdict.AC, most)
    if not 0 <= result.score <= most * (1 + _TOLERANCE):
        return Graded(Verdict.JE, 0.0, f"a score of {result.score:g} is not from 0 to the case's maximum of {most:g}")
    return Graded(Verdict.AC, result.score)


def grader_input(items: Sequence[Item]) -> bytes:
    """What a package's own grader reads: a line of code and score for each item. It knows AC, WA, RTE and TLE only."""
    lines = [f"{_code(item.verdict)} {item.score!r}\n" for item in items]
    return "".join(lines).encode()


def _code(verdict: Verdict) -> str:
    return verdict if verdict in (Verdict.AC, Verdict.WA, Verdict.TLE) else Verdict.RTE


def grader_output(output: bytes) -> Graded:
    """What a package's own grader said: code and score, nothing else; anything else is a judge error."""
    words = output[:_LONGEST_OUTPUT].decode("utf-8", "replace").split()
    fault = f"the grader wrote {output[:_LONGEST_OUTPUT]!r}, and should write a code and a score"
    if len(words) != 2 or len(output) > _LONGEST_OUTPUT or words[0] not in _WORST_FIRST:
        return Graded(Verdict.JE, 0.0, fault)
    try:
        score = float(words[1])
    except ValueError:
        return Graded(Verdict.JE, 0.0, fault)
    return Graded(Verdict(words[0]), score) if math.isfinite(score) else Graded(Verdict.JE, 0.0, fault)
