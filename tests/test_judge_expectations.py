"""Judgements are compared with what packages expect, and time limits come from submissions."""

from __future__ import annotations

from typing import Any

import pytest
from problem_packages import PROBLEMS

from sandbox_native.errors import PolicyError
from sandbox_native.judge.expectations import bounding_seconds, needs_all_cases, time_limit, unmet
from sandbox_native.judge.problems import read_package
from sandbox_native.judge.values import (
    CaseResult,
    Expectation,
    Group,
    GroupResult,
    Judgement,
    Problem,
    ProblemLimits,
    Requirement,
)
from sandbox_native.judge.verdicts import Verdict

AC, WA, TLE, RTE = Verdict.AC, Verdict.WA, Verdict.TLE, Verdict.RTE
PROBLEM = Problem(name="p", data=Group())


def judgement(verdict: Verdict = AC, cases: dict[str, Verdict] | None = None, **fields: Any) -> Judgement:
    results = tuple(CaseResult(case=name, verdict=verdict, message="off by one") for name, verdict in (cases or {}).items())
    return Judgement(submission="s", problem="p", verdict=verdict, cases=results, **fields)


def lines(expectation: Expectation | None, made: Judgement) -> tuple[str, ...]:
    return unmet(expectation, made, PROBLEM)


def asking(**fields: Any) -> Expectation:
    return Expectation(requirements=(Requirement(**fields),), origin="submissions/x")


def test_nothing_is_asked_without_an_expectation() -> None:
    assert lines(None, judgement(WA)) == () and not needs_all_cases(None)


def test_the_verdict_must_be_one_of_those_expected() -> None:
    expectation = Expectation(verdicts=frozenset({WA, TLE}), origin="submissions/mixed")
    assert lines(expectation, judgement(TLE)) == ()
    assert lines(expectation, judgement(AC)) == ("submissions/mixed: the verdict should be TLE or WA, and is AC",)
    assert not needs_all_cases(expectation)


def test_partial_means_less_than_the_maximum() -> None:
    expectation = Expectation(verdicts=frozenset({AC}), partial=True, origin="p")
    assert lines(expectation, judgement(score=30.0, max_score=100.0)) == ()
    assert lines(expectation, judgement(score=100.0, max_score=None)) == ()
    assert "less than 100" in lines(expectation, judgement(score=100.0, max_score=100.0))[0]


def test_a_tagged_score_must_be_met() -> None:
    assert lines(Expectation(score=42.5), judgement(score=42.5)) == ()
    assert "42.5" in lines(Expectation(score=42.5), judgement(score=42.0))[0]
    assert "42.5" in lines(Expectation(score=42.5), judgement())[0]


def test_every_case_must_be_permitted_and_one_required() -> None:
    expectation = asking(permitted=frozenset({AC, TLE}), required=frozenset({TLE}), origin="rule")
    assert needs_all_cases(expectation)
    assert lines(expectation, judgement(TLE, {"secret/1": AC, "secret/2": TLE})) == ()
    assert lines(expectation, judgement(AC, {"secret/1": AC})) == ("rule: no case has TLE",)
    wrong = lines(expectation, judgement(TLE, {f"secret/{n}": WA for n in range(5)} | {"secret/9": TLE}))
    assert wrong == ("rule: permitted are AC, TLE, and there are secret/0 WA, secret/1 WA, secret/2 WA and 2 more",)


def test_a_crash_of_any_kind_is_a_run_time_error_to_the_format() -> None:
    expectation = asking(permitted=frozenset({AC, RTE}), required=frozenset({RTE}))
    for verdict in (RTE, Verdict.MLE, Verdict.OLE, Verdict.FS):
        assert lines(expectation, judgement(verdict, {"secret/1": verdict})) == ()
    assert lines(expectation, judgement(Verdict.JE, {"secret/1": Verdict.JE}))


def test_a_requirement_can_be_for_some_of_the_cases() -> None:
    expectation = asking(cases="secret/*-hard", permitted=frozenset({TLE}))
    assert lines(expectation, judgement(TLE, {"secret/1-easy": AC, "secret/2-hard": TLE})) == ()
    assert lines(expectation, judgement(TLE, {"secret/1-easy": AC, "secret/2-hard": AC}))
    expectation = asking(cases="secret/group1", permitted=frozenset({AC}))
    assert lines(expectation, judgement(WA, {"secret/group1/1": AC, "secret/group10/1": WA})) == ()


def test_a_message_must_be_in_one_of_the_validators() -> None:
    assert lines(asking(message="off by"), judgement(WA, {"secret/1": WA})) == ()
    assert lines(asking(message="missing"), judgement(WA, {"secret/1": WA})) and needs_all_cases(asking(message="x"))


def test_scores_of_the_submission_and_of_groups_must_be_in_their_bounds() -> None:
    graded = (GroupResult(group="secret", verdict=AC, score=40.0), GroupResult(group="secret/a", verdict=AC, score=10.0))
    made = judgement(score=40.0, groups=graded)
    assert lines(asking(score=(40.0, 40.0)), made) == () and lines(asking(score=(0.0, 39.0)), made)
    assert lines(asking(cases="secret/a", score=(10.0, 10.0)), made) == ()
    assert "secret/a" in lines(asking(cases="secret/*", score=(11.0, 12.0)), made)[0]
    inner = judgement(groups=(*graded, GroupResult(group="secret/a/b", verdict=AC, score=1.0)))
    assert lines(asking(cases="secret/*", score=(10.0, 10.0)), inner) == ()


def test_what_did_not_compile_meets_no_requirement_for_cases() -> None:
    assert "CE" in lines(asking(permitted=frozenset({AC, WA, TLE, RTE})), judgement(Verdict.CE))[0]
    assert lines(Expectation(verdicts=frozenset({Verdict.CE})), judgement(Verdict.CE)) == ()


def test_the_points_example_says_what_its_submissions_do() -> None:
    problem = read_package(PROBLEMS / "points")
    stepwise = next(submission for submission in problem.submissions if submission.name == "partial/stepwise.py")
    verdicts = {case.name: TLE if "group3" in case.name else AC for case in problem.cases()}
    graded = tuple(
        GroupResult(group=name, verdict=AC, score=score)
        for name, score in (("secret/group1", 20.0), ("secret/group2", 30.0), ("secret/group3", 0.0))
    )
    assert unmet(stepwise.expected, judgement(AC, verdicts, score=50.0, groups=graded), problem) == ()
    verdicts["secret/group1/1"] = WA
    assert len(unmet(stepwise.expected, judgement(AC, verdicts, score=30.0, groups=graded), problem)) == 2


def test_the_time_limit_is_the_slowest_accepted_times_the_multiplier_up_to_the_resolution() -> None:
    limits = ProblemLimits(time_multiplier=2.0)
    assert time_limit(limits, 0.01) == 1.0 and time_limit(limits, 0.51) == 2.0 and time_limit(limits, 0.0) == 1.0
    assert time_limit(ProblemLimits(time_multiplier=5.0, time_resolution_seconds=0.25), 0.11) == 0.75
    assert time_limit(ProblemLimits(cpu_seconds=3.5), 100.0) == 3.5
    with pytest.raises(PolicyError, match="no time limit"):
        time_limit(limits, None)


def test_bounding_times_are_those_of_the_cases_asked_for() -> None:
    results = [CaseResult(case=name, verdict=AC, cpu_seconds=seconds) for name, seconds in (("secret/a", 0.2), ("secret/b", 0.7))]
    lower, upper = Requirement(cases="secret/a", bounds_time="lower"), Requirement(bounds_time="upper")
    assert bounding_seconds(Expectation(requirements=(lower, upper, Requirement())), results) == {"lower": 0.2, "upper": 0.7}
    assert bounding_seconds(None, results) == {} == bounding_seconds(Expectation(requirements=(lower,)), [])
