"""Values of the judge are frozen, cross processes, and become JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from problem_packages import PROBLEMS

from sandbox_native.judge import values
from sandbox_native.judge.problems import load_problem
from sandbox_native.judge.values import (
    Case,
    CaseResult,
    CompileResult,
    Difference,
    Group,
    Judgement,
    Noise,
    Problem,
    ProblemLimits,
    Submission,
)
from sandbox_native.judge.verdicts import System, Verdict

KINDS: list[Any] = [value for value in vars(values).values() if dataclasses.is_dataclass(value) and isinstance(value, type)]


def judgement(**fields: Any) -> Judgement:
    result = CaseResult(
        case="secret/1",
        verdict=Verdict.WA,
        cpu_seconds=0.2,
        output=b"\xff",
        difference=Difference(line=1, column=2, expected=b"3", got=None),
        noise=Noise(runs=(0.2, 0.3)),
    )
    base: dict[str, Any] = {
        "submission": "a.c",
        "problem": "p",
        "verdict": Verdict.WA,
        "cases": (CaseResult(case="secret/0", verdict=Verdict.AC, cpu_seconds=0.1), result),
        "compilation": CompileResult(),
    }
    return Judgement(**{**base, **fields})


def test_every_value_is_frozen_keyword_only_and_has_to_dict() -> None:
    assert len(KINDS) > 15
    for kind in KINDS:
        assert kind.__dataclass_params__.frozen and kind.__slots__ is not None, kind
        assert all(field.kw_only for field in dataclasses.fields(kind)), kind
        assert callable(kind.to_dict), kind


def test_a_problem_survives_pickling_and_becomes_json() -> None:
    for name in ("different", "scoring", "points", "interactive", "multipass", "validatorcpp", "grader"):
        problem = load_problem(PROBLEMS / name)
        assert pickle.loads(pickle.dumps(problem)) == problem
        shown = json.loads(json.dumps(problem.to_dict(), allow_nan=False))
        assert shown["name"] == name and shown["data"]["items"]


def test_a_judgement_survives_pickling_and_becomes_json() -> None:
    made = judgement()
    assert pickle.loads(pickle.dumps(made)) == made
    shown = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert shown["version"] == 1 and shown["slowest"] == "secret/1" and shown["partial"] is False
    assert shown["cases"][1]["output"] == {"base64": "/w=="} and shown["cases"][1]["difference"]["got"] is None


def test_a_submission_carries_its_bytes() -> None:
    made = Submission(name="a.py", files=(values.SourceFile(name="a.py", content=b"print(1)\n"),))
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.to_dict()["files"][0]["content"] == {"text": "print(1)\n"}


def test_partial_is_accepted_with_less_than_the_maximum() -> None:
    for score, most, verdict, partial in (
        (30.0, 100.0, Verdict.AC, True),
        (100.0, 100.0, Verdict.AC, False),
        (30.0, None, Verdict.AC, False),
        (0.0, 1.0, Verdict.WA, False),
    ):
        made = judgement(verdict=verdict, score=score, max_score=most)
        assert made.partial is partial
        assert (made.spelled(System.CODEFORCES) == "PARTIAL") is partial


def test_the_first_failure_and_the_slowest_case_are_found() -> None:
    made = judgement()
    assert made.first_failure is made.cases[1] and made.slowest is made.cases[1]
    assert judgement(cases=()).slowest is None and judgement(cases=()).first_failure is None


def test_the_wall_limit_follows_the_cpu_limit() -> None:
    for cpu, wall in ((0.2, 1.2), (1.0, 2.0), (5.0, 10.0)):
        assert ProblemLimits().wall_limit(cpu) == pytest.approx(wall)
        assert ProblemLimits(wall_seconds=7.0).wall_limit(cpu) == 7.0


def test_cases_come_in_the_order_of_the_groups() -> None:
    inner = Group(name="secret", items=(Case(name="secret/1"), Group(name="secret/g", items=(Case(name="secret/g/1"),))))
    problem = Problem(name="p", data=Group(items=(Case(name="0"), inner, Case(name="9"))))
    assert [case.name for case in problem.cases()] == ["0", "secret/1", "secret/g/1", "9"]
    assert [group.name for group in problem.data.groups()] == ["", "secret", "secret/g"]
    assert Case(name="sample/1").sample and not Case(name="secret/sample/1").sample


def test_infinities_and_paths_become_json() -> None:
    grading = values.FlagGrading()
    assert grading.to_dict()["score_range"] == [None, None] and math.isinf(grading.score_range[0])
    assert values.SourceFile(name="a", content=Path("/a/\udcff")).to_dict()["content"] == "/a/\\xff"
