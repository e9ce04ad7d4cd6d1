"""Which cases are judged, and what they amount to: one after the other, several at once, and for whole example packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problem_packages import PROBLEMS

from sandbox_native.judge.grading import Grade, Grader
from sandbox_native.judge.problems import problem_of_cases, read_package
from sandbox_native.judge.values import (
    Case,
    CaseResult,
    FlagGrading,
    Group,
    OnReject,
    PointsGrading,
    Problem,
    ProgramGrading,
    ScoreMode,
    VerdictMode,
)
from sandbox_native.judge.verdicts import Verdict

AC, WA, TLE, JE = Verdict.AC, Verdict.WA, Verdict.TLE, Verdict.JE
Verdicts = Mapping[str, Verdict]


def judged(problem: Problem, verdicts: Verdicts, ahead: int = 1, **options: Any) -> tuple[list[str], Grade]:
    """Names of the cases that were judged, in order, and the grade; `ahead` are judged at once, the last of them ends first."""
    grader = Grader(problem, **options)
    results: dict[str, CaseResult] = {}
    order: list[str] = []
    under_way: list[Case] = []
    for case in grader.cases(results):
        order.append(case.name)
        under_way.append(case)
        if len(under_way) == ahead:
            done = under_way.pop()
            results[done.name] = CaseResult(case=done.name, verdict=verdicts.get(done.name, AC))
    for done in under_way:
        results[done.name] = CaseResult(case=done.name, verdict=verdicts.get(done.name, AC))
    return order, grader.grade(results)


def cases(prefix: str, count: int) -> tuple[Case, ...]:
    return tuple(Case(name=f"{prefix}{number}") for number in range(1, count + 1))


def plain(count: int, on_reject: OnReject = OnReject.BREAK) -> Problem:
    return Problem(name="p", data=Group(items=cases("", count), on_reject=on_reject))


def scores(grade: Grade) -> dict[str, float | None]:
    return {group.group: group.score for group in grade.groups}


def test_judging_stops_at_the_first_case_that_is_not_accepted() -> None:
    order, grade = judged(plain(5), {"3": WA})
    assert order == ["1", "2", "3"] and grade.verdict is WA and grade.skipped == ("4", "5")
    assert [result.case for result in grade.cases] == order and grade.score is None


def test_judging_goes_on_where_the_group_says_so() -> None:
    order, grade = judged(plain(5, OnReject.CONTINUE), {"2": WA, "4": TLE})
    assert len(order) == 5 and grade.verdict is TLE and grade.skipped == ()


def test_everything_is_judged_to_verify_and_the_grade_is_the_same() -> None:
    order, grade = judged(plain(5), {"2": WA, "4": TLE}, run_all=True)
    assert len(order) == 5 and grade.verdict is WA and len(grade.cases) == 5


def test_results_that_came_too_early_do_not_count() -> None:
    order, grade = judged(plain(9), {"3": WA, "4": TLE}, ahead=4)
    assert len(order) < 9
    assert grade.verdict is WA and [result.case for result in grade.cases] == ["1", "2", "3"]


def test_a_rejection_further_on_ends_the_asking_ahead() -> None:
    grader, results = Grader(plain(9)), dict[str, CaseResult]()
    asked = grader.cases(results)
    names = [next(asked).name for _ in range(4)]
    results["3"] = CaseResult(case="3", verdict=WA)
    assert names == ["1", "2", "3", "4"] and next(asked, None) is None


def test_a_case_without_its_result_is_a_judge_error() -> None:
    grade = Grader(plain(2)).grade({"1": CaseResult(case="1", verdict=AC)})
    assert grade.verdict is JE and "2 was not judged" in grade.message


def test_cases_that_have_a_result_are_not_asked_for_again() -> None:
    results = {"1": CaseResult(case="1", verdict=AC), "3": CaseResult(case="3", verdict=AC)}
    assert [case.name for case in Grader(plain(4, OnReject.CONTINUE)).cases(results)] == ["2", "4"]


def nested(**inner: Any) -> Problem:
    first = Group(name="secret/a", items=cases("secret/a/", 2), **inner)
    second = Group(name="secret/b", items=cases("secret/b/", 2))
    return Problem(name="p", data=Group(items=(Group(name="secret", items=(first, second)),)))


def test_a_rejected_group_ends_its_parent() -> None:
    order, grade = judged(nested(), {"secret/a/1": WA})
    assert order == ["secret/a/1"] and grade.verdict is WA
    assert [group.group for group in grade.groups] == ["", "secret", "secret/a"]


def test_a_group_whose_grader_accepts_does_not_end_its_parent() -> None:
    order, grade = judged(nested(grading=FlagGrading(verdict_mode=VerdictMode.ALWAYS_ACCEPT)), {"secret/a/1": WA})
    assert order == ["secret/a/1", "secret/b/1", "secret/b/2"] and grade.verdict is AC


def test_a_rejection_before_a_group_ends_the_asking_ahead_in_it() -> None:
    grader, results = Grader(nested()), dict[str, CaseResult]()
    asked = grader.cases(results)
    assert [next(asked).name for _ in range(3)] == ["secret/a/1", "secret/a/2", "secret/b/1"]
    results |= {"secret/a/1": CaseResult(case="secret/a/1", verdict=AC), "secret/a/2": CaseResult(case="secret/a/2", verdict=WA)}
    assert next(asked, None) is None


def sampled(ignore: bool) -> Problem:
    groups = (Group(name="sample", items=cases("sample/", 1)), Group(name="secret", items=cases("secret/", 1)))
    return Problem(name="p", data=Group(items=groups, grading=FlagGrading(ignore_sample=ignore)))


def test_samples_count_unless_the_grader_ignores_them() -> None:
    assert judged(sampled(False), {"sample/1": WA})[0] == ["sample/1"]
    order, grade = judged(sampled(True), {"sample/1": WA})
    assert order == ["sample/1", "secret/1"] and grade.verdict is AC
    assert judged(sampled(True), {"secret/1": WA})[1].verdict is WA


def test_the_scoring_example_gives_points_by_group() -> None:
    problem = read_package(PROBLEMS / "scoring")
    for verdicts, score, verdict in (
        ({}, 100, AC),
        ({"secret/group2/1": WA}, 30, AC),
        ({"secret/group1/2": TLE}, 70, AC),
        ({"sample/1": WA}, 100, AC),
        ({"secret/group1/1": WA, "secret/group2/3": WA}, 0, WA),
    ):
        grade = judged(problem, verdicts)[1]
        assert (grade.score, grade.verdict, grade.max_score) == (score, verdict, 100.0), verdicts
    assert judged(problem, {"secret/group2/1": WA})[1].skipped == ("secret/group2/2", "secret/group2/3")


def test_the_points_example_gives_points_by_group() -> None:
    problem = read_package(PROBLEMS / "points")
    for verdicts, score, verdict in (
        ({}, 100, AC),
        ({"secret/group3/1": TLE}, 50, AC),
        ({"secret/group2/1": WA, "secret/group2/3": WA, "secret/group3/2": WA}, 30, AC),
        ({"secret/group1/4": WA}, 30, AC),
        ({"secret/group1/1": WA, "secret/group2/1": WA, "secret/group2/2": WA, "secret/group2/3": WA}, 0, WA),
    ):
        grade = judged(problem, verdicts)[1]
        assert (pytest.approx(grade.score), grade.verdict, grade.max_score) == (score, verdict, 100.0), verdicts


def test_a_group_is_not_run_when_one_that_it_depends_on_failed() -> None:
    problem = read_package(PROBLEMS / "points")
    order, grade = judged(problem, {"secret/group1/2": WA})
    assert not any(name.startswith("secret/group3") for name in order)
    ran = {group.group: group.ran for group in grade.groups}
    assert ran["secret/group3"] is False and ran["secret/group2"] is True and scores(grade)["secret/group3"] == 0.0
    order, grade = judged(problem, {"sample/1": WA})
    assert [name for name in order if "group" in name] == ["secret/group2/1", "secret/group2/2", "secret/group2/3"]
    assert pytest.approx(grade.score) == 30.0


def medals(flags: tuple[str, ...], data: bytes) -> bytes:
    assert flags == ("medals",)
    lines = [line.split() for line in data.splitlines()]
    if len(lines) == 2:
        return b"AC %f\n" % sum(float(score) for _, score in lines)
    return b"AC %d\n" % sum(code == b"AC" for code, _ in lines)


def test_a_grader_that_is_asked_whether_to_go_on_is_asked_once() -> None:
    calls: list[bytes] = []

    def run(flags: tuple[str, ...], data: bytes) -> bytes:
        calls.append(data)
        return b"AC 0\n"

    order, grade = judged(nested(grading=ProgramGrading(), on_reject=OnReject.CONTINUE), {"secret/a/1": WA}, run_grader=run)
    assert len(order) == 4 and grade.verdict is AC and calls == [b"WA 0.0\nAC 0.0\n"]


def test_a_grader_of_the_package_grades_its_groups_once() -> None:
    problem = read_package(PROBLEMS / "grader")
    calls: list[bytes] = []

    def run(flags: tuple[str, ...], data: bytes) -> bytes:
        calls.append(data)
        return medals(flags, data)

    grade = judged(problem, {"secret/2": WA}, run_grader=run)[1]
    assert (grade.verdict, grade.score, grade.max_score) == (AC, 2.0, 3.0)
    assert calls == [b"AC 1.0\nWA 0.0\nAC 1.0\n", b"AC 0.0\nAC 2.0\n"]


@pytest.mark.parametrize(("said", "words"), [(b"nonsense", "should write"), ("it crashed", "it crashed"), (b"AC 99", "outside")])
def test_a_grader_that_fails_is_a_judge_error_with_its_reason(said: bytes | str, words: str) -> None:
    problem = read_package(PROBLEMS / "grader")
    run: Callable[[tuple[str, ...], bytes], bytes | str] = lambda flags, data: said  # noqa: E731
    grade = judged(problem, {}, run_grader=run)[1]
    assert grade.verdict is JE and words in grade.message


def test_without_a_way_to_run_graders_the_verdict_is_a_judge_error() -> None:
    grade = judged(read_package(PROBLEMS / "grader"), {})[1]
    assert grade.verdict is JE and "cannot be run" in grade.message


def test_the_share_of_cases_is_the_score_in_memory() -> None:
    problem = problem_of_cases([("", "")] * 4, scoring=True)
    order, grade = judged(problem, {"1": WA, "3": TLE})
    assert len(order) == 4 and (grade.score, grade.max_score, grade.verdict) == (0.5, 1.0, TLE)
    assert judged(problem, {})[1].score == 1.0


def test_the_best_score_is_known_where_it_can_be() -> None:
    inner = Group(name="secret", items=cases("secret/", 3), grading=FlagGrading(accept_score=5.0))

    def most(**fields: Any) -> float | None:
        problem = Problem(name="p", data=Group(items=(inner,)), **{"scoring": True, **fields})
        return Grader(problem).max_score(problem.data)

    assert most() == 15.0 and most(scoring=False) is None and most(validator_scores=True) is None and most(minimise=True) is None
    assert Grader(plain(1)).max_score(Group(grading=ProgramGrading())) is None
    points = Problem(name="p", data=Group(grading=PointsGrading()), scoring=True)
    assert Grader(points).max_score(points.data) is None


groups = st.recursive(
    st.builds(lambda count: ["case"] * count, st.integers(1, 3)),
    lambda inner: st.lists(st.one_of(inner, st.just("case")), min_size=1, max_size=3),
    max_leaves=6,
)


def built(shape: Any, draw: Callable[[Any], Any], name: str = "") -> Group:
    made = []
    for number, item in enumerate(shape):
        inner = f"{name}/{number}".lstrip("/")
        made.append(Case(name=inner) if item == "case" else built(item, draw, inner))
    grading = FlagGrading(
        verdict_mode=draw(st.sampled_from(VerdictMode)),
        score_mode=draw(st.sampled_from([mode for mode in ScoreMode if mode is not ScoreMode.PASS_FAIL])),
        accept_if_any_accepted=draw(st.booleans()),
    )
    return Group(name=name, items=tuple(made), on_reject=draw(st.sampled_from(OnReject)), grading=grading)


@given(st.data())
def test_judging_several_at_once_gives_the_same_grade(data: st.DataObject) -> None:
    problem = Problem(name="p", data=built(data.draw(groups), data.draw), scoring=True)
    verdicts = {case.name: data.draw(st.sampled_from([AC, AC, WA, TLE])) for case in problem.cases()}
    alone, grade = judged(problem, verdicts)
    for ahead in (2, 3, 100):
        order, other = judged(problem, verdicts, ahead)
        assert other == grade and set(alone) <= set(order)
    assert [result.case for result in grade.cases] == alone and JE is not grade.verdict


@pytest.mark.parametrize("run_all", [False, True])
def test_a_group_that_is_not_run_passes_for_none_that_depends_on_it(run_all: bool) -> None:
    def group(number: int, *needs: str) -> Group:
        grading = PointsGrading(max_score=10.0, require_pass=needs)
        return Group(name=f"secret/g{number}", items=cases(f"secret/g{number}/", 1), grading=grading)

    items = (group(1), group(2, "secret/g1"), group(3, "secret/g2"))
    secret = PointsGrading(score_mode=ScoreMode.SUM, max_score=30.0)
    problem = Problem(name="p", data=Group(items=items, on_reject=OnReject.CONTINUE, grading=secret), scoring=True)
    order, grade = judged(problem, {"secret/g1/1": WA}, run_all=run_all)
    assert scores(grade) == {"": 0.0, "secret/g1": 0.0, "secret/g2": 0.0, "secret/g3": 0.0}
    assert [group.ran for group in grade.groups] == [True, True, False, False] and grade.verdict is not AC
    assert order == ["secret/g1/1", *(["secret/g2/1", "secret/g3/1"] if run_all else [])]
    assert judged(problem, {"secret/g2/1": WA})[1].score == 10.0
    assert judged(problem, {})[1].score == 30.0
