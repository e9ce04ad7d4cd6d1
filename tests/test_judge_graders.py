"""Groups are graded as the format's default grader and its points say."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sandbox_native.judge.graders import (
    Graded,
    Item,
    aggregate,
    by_flags,
    by_points,
    case_item,
    grader_input,
    grader_output,
    in_range,
    worst,
)
from sandbox_native.judge.values import CaseResult, FlagGrading, PointsGrading, ProgramGrading, ScoreMode, VerdictMode
from sandbox_native.judge.verdicts import Verdict

AC, WA, TLE, RTE, MLE, OLE, JE = (Verdict(name) for name in ("AC", "WA", "TLE", "RTE", "MLE", "OLE", "JE"))
UNBOUNDED = PointsGrading(score_mode=ScoreMode.SUM)


def items(*pairs: tuple[Verdict, float]) -> list[Item]:
    return [Item(*pair) for pair in pairs]


def result(verdict: Verdict = AC, **fields: Any) -> CaseResult:
    return CaseResult(case="secret/1", verdict=verdict, **fields)


def test_the_worst_error_is_in_the_order_of_the_format() -> None:
    order = [JE, RTE, MLE, TLE, OLE, WA, AC]
    for place, verdict in enumerate(order):
        assert worst(list(reversed(order[place:]))) is verdict
    assert worst([]) is AC


FLAGS = [
    (FlagGrading(), RTE),
    (FlagGrading(verdict_mode=VerdictMode.FIRST_ERROR), WA),
    (FlagGrading(verdict_mode=VerdictMode.ALWAYS_ACCEPT), AC),
    (FlagGrading(accept_if_any_accepted=True), AC),
]


def test_flags_say_how_verdicts_are_put_together() -> None:
    for grading, verdict in FLAGS:
        assert by_flags(grading, items((AC, 1), (WA, 0), (RTE, 0))).verdict is verdict, grading


def test_no_flag_accepts_a_judge_error_or_a_group_without_an_accepted_item() -> None:
    for grading in (FlagGrading(verdict_mode=VerdictMode.ALWAYS_ACCEPT), FlagGrading(accept_if_any_accepted=True)):
        assert by_flags(grading, items((AC, 1), (JE, 0))).verdict is JE
    assert by_flags(FlagGrading(accept_if_any_accepted=True), items((WA, 0), (TLE, 0))).verdict is TLE


def test_scores_are_put_together() -> None:
    scores = [0.1, 0.2, 0.3]
    modes = (ScoreMode.SUM, ScoreMode.AVG, ScoreMode.MIN, ScoreMode.MAX)
    assert [aggregate(mode, scores) for mode in modes] == [0.6, pytest.approx(0.2), 0.1, 0.3]
    assert [aggregate(mode, []) for mode in modes] == [0.0] * 4
    assert aggregate(ScoreMode.SUM, [0.1] * 10) == 1.0


POINTS: list[tuple[ScoreMode, list[tuple[Verdict, float]], tuple[Verdict, float]]] = [
    (ScoreMode.PASS_FAIL, [(AC, 0.0), (AC, 0.0)], (AC, 40.0)),
    (ScoreMode.PASS_FAIL, [(AC, 0.0), (TLE, 0.0)], (TLE, 0.0)),
    (ScoreMode.SUM, [(AC, 10.0), (WA, 0.0), (AC, 5.0)], (WA, 15.0)),
    (ScoreMode.MIN, [(AC, 10.0), (AC, 5.0)], (AC, 5.0)),
    (ScoreMode.SUM, [(AC, 40.0 / 3)] * 3, (AC, 40.0)),
    (ScoreMode.SUM, [(AC, 30.0), (AC, 30.0)], (JE, 0.0)),
    (ScoreMode.SUM, [(JE, 0.0), (AC, 30.0)], (JE, 0.0)),
]


def test_points_are_put_together_up_to_the_maximum() -> None:
    for mode, given, graded in POINTS:
        made = by_points(PointsGrading(score_mode=mode, max_score=40.0), items(*given))
        assert (made.verdict, pytest.approx(made.score)) == graded, (mode, given)
        assert made.score <= 40.0
    assert by_points(PointsGrading(score_mode=ScoreMode.SUM, max_score=7.0), items(*[(AC, 7.0 / 25)] * 25)).score == 7.0


Grading = FlagGrading | ProgramGrading | PointsGrading
SCORED: list[tuple[Grading, bool, CaseResult, tuple[Verdict, float]]] = [
    (FlagGrading(accept_score=7, reject_score=1), False, result(), (AC, 7)),
    (FlagGrading(accept_score=7, reject_score=1), False, result(TLE), (TLE, 1)),
    (FlagGrading(), True, result(score=3.5), (AC, 3.5)),
    (FlagGrading(), True, result(), (JE, 0)),
    (FlagGrading(), False, result(score=3.5), (JE, 0)),
    (ProgramGrading(accept_score=2), False, result(), (AC, 2)),
    (PointsGrading(max_score=30), True, result(), (AC, 0)),
    (PointsGrading(max_score=30), True, result(score=1.0), (JE, 0)),
    (PointsGrading(max_score=0), True, result(score=1.0), (AC, 0)),
    (PointsGrading(score_mode=ScoreMode.SUM, max_score=30), True, result(), (AC, 10)),
    (PointsGrading(score_mode=ScoreMode.MIN, max_score=30), True, result(), (AC, 30)),
    (PointsGrading(score_mode=ScoreMode.SUM, max_score=30), True, result(score=4.0), (AC, 4)),
    (PointsGrading(score_mode=ScoreMode.SUM, max_score=30), True, result(score=11.0), (JE, 0)),
    (PointsGrading(score_mode=ScoreMode.SUM, max_score=30), True, result(score=-1.0), (JE, 0)),
    (PointsGrading(score_mode=ScoreMode.SUM, max_score=30), True, result(score_multiplier=0.5), (AC, 5)),
    (PointsGrading(score_mode=ScoreMode.SUM, max_score=30), True, result(score_multiplier=1.5), (JE, 0)),
    (PointsGrading(score_mode=ScoreMode.SUM, max_score=30), True, result(score=1.0, score_multiplier=0.5), (JE, 0)),
    (PointsGrading(score_mode=ScoreMode.SUM, max_score=30), True, result(WA, score=1.0), (JE, 0)),
    (PointsGrading(score_mode=ScoreMode.SUM, max_score=30), True, result(TLE), (TLE, 0)),
    (UNBOUNDED, True, result(score=1e6), (AC, 1e6)),
    (UNBOUNDED, True, result(), (JE, 0)),
    (UNBOUNDED, True, result(score=-1.0), (JE, 0)),
    (UNBOUNDED, True, result(score_multiplier=0.5), (JE, 0)),
    (UNBOUNDED, True, result(JE), (JE, 0)),
]


def test_the_score_of_a_case() -> None:
    for grading, validator, given, graded in SCORED:
        made = case_item(grading, given, 3, True, validator)
        assert (made.verdict, made.score) == graded, (grading, given)
        assert bool(made.fault) is (made.verdict is JE and given.verdict is not JE)


def test_a_problem_without_scores_has_verdicts_only() -> None:
    assert case_item(FlagGrading(), result(WA, score=5.0), 1, False, False) == Graded(WA, 0.0)


def test_a_score_out_of_the_stated_range_is_a_judge_error() -> None:
    grading = FlagGrading(score_range=(0.0, 10.0))
    assert in_range(grading, Graded(AC, 10.0)).verdict is AC
    assert in_range(grading, Graded(AC, 10.5)).verdict is JE and in_range(grading, Graded(AC, -1.0)).fault
    assert in_range(grading, Graded(WA, 99.0)).verdict is WA


def test_a_grader_reads_a_line_for_each_item() -> None:
    given = items((AC, 1.5), (MLE, 0), (Verdict.FS, 0), (TLE, 0), (WA, 0))
    assert grader_input(given) == b"AC 1.5\nRTE 0\nRTE 0\nTLE 0\nWA 0\n"


SAID: list[tuple[bytes, tuple[Verdict, float]]] = [
    (b"AC 12.5\n", (AC, 12.5)),
    (b"WA 0", (WA, 0.0)),
    (b"TLE\t-3\n", (TLE, -3.0)),
    *((bad, (JE, 0.0)) for bad in (b"", b"AC\n", b"AC 1 2\n", b"OK 1\n", b"AC x\n", b"AC nan\n", b"AC inf\n", b"\xff \xff")),
    (b"AC 1" + b" " * 1000, (JE, 0.0)),
]


def test_a_grader_says_a_code_and_a_score_or_nothing_is_believed() -> None:
    for output, graded in SAID:
        made = grader_output(output)
        assert (made.verdict, made.score) == graded and bool(made.fault) is (made.verdict is JE), output
        assert not math.isnan(made.score)
