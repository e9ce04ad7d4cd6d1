"""Submissions that are too close to the time limit are told of, by the bound that they miss."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from problem_packages import PROBLEMS

from sandbox_native.cli import main
from sandbox_native.judge import judge, load_problem
from sandbox_native.judge.bounds import missed_bounds
from sandbox_native.judge.outcomes import CaseResult, Judgement
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Case, Expectation, Group, Problem, ProblemLimits, Requirement
from sandbox_native.judge.verdicts import Verdict

AC, WA, TLE, JE = Verdict.AC, Verdict.WA, Verdict.TLE, Verdict.JE
FOREVER = "given == 2 && clock() < CLOCKS_PER_SEC / 2"


def result(case: str, verdict: Verdict, seconds: float, limit: str | None = None, wall: float = 0.0) -> CaseResult:
    stated = limit or ("cpu" if verdict is TLE else None)
    return CaseResult(case=case, verdict=verdict, cpu_seconds=seconds, wall_seconds=wall, limit=stated, message="broken")


def missed(
    bound: str, *results: CaseResult, times: Mapping[str, float] | None = None, cases: str = "", others: str = ""
) -> tuple[list[str], list[str]]:
    """The lines for a limit of 1 s, and the cases that were judged again, with one of 1.5 s; `times` is what they take."""
    asked: list[str] = []

    def longer(case: Case) -> CaseResult:
        asked.append(case.name)
        seconds = (times or {})[case.name]
        return result(case.name, JE if seconds < 0 else TLE if seconds > 1.5 else AC, seconds)

    names = [*(one.case for one in results), *others.split()]
    problem = Problem(
        name="p",
        data=Group(items=tuple(Case(name=name) for name in names)),
        limits=ProblemLimits(time_multiplier=2.0, time_safety_margin=1.5),
    )
    expectation = Expectation(requirements=(Requirement(cases=cases, bounds_time=bound, origin="rule"),))
    return list(missed_bounds(expectation, results, problem, 1.0, longer)), asked


def test_what_must_be_fast_leaves_the_limit_room() -> None:
    assert missed("lower", result("a", AC, 0.1), result("b", WA, 0.5)) == ([], [])
    lines, _ = missed("lower", result("a", AC, 0.1), result("b", AC, 0.6))
    assert lines == ["rule: lower bound of the time limit: it takes 600 ms (b), and may take 500 ms (1 s / 2)"]
    assert missed("lower", result("a", AC, 0.1), result("b", AC, 0.6), cases="a") == ([], [])


def test_what_is_too_slow_by_its_verdict_is_not_told_of_again() -> None:
    assert missed("lower", result("a", AC, 0.6), result("b", TLE, 1.1)) == ([], [])
    assert missed("upper", result("a", AC, 0.6), result("b", WA, 0.7)) == ([], [])


def test_what_must_be_slow_is_slow_in_one_case_with_a_longer_limit() -> None:
    slow = (result("a", TLE, 1.1), result("b", AC, 0.5), result("c", TLE, 1.05))
    assert missed("upper", *slow, times={"a": 1.2, "c": 9}) == ([], ["a", "c"])
    lines, asked = missed("upper", *slow, times={"a": 1.2, "c": 1.3})
    assert lines == ["rule: upper bound of the time limit: it takes 1.3 s at most (c), and should take 1.5 s (1 s x 1.5)"]
    assert asked == ["a", "c"]


def test_a_case_that_was_not_judged_may_be_the_slow_one() -> None:
    assert missed("upper", result("a", TLE, 1.1), others="b c", times={"a": 1.2, "b": 2.0}) == ([], ["a", "b"])


def test_only_the_cases_that_are_asked_for_can_be_slow_enough() -> None:
    lines, asked = missed("upper", result("a", TLE, 1.1), result("b", TLE, 1.1), cases="a", times={"a": 1.2, "b": 9})
    assert "(a)" in lines[0] and asked == ["a"]


def test_what_is_known_to_be_slow_enough_is_not_judged_again() -> None:
    for known in (result("a", TLE, 1.6), result("a", TLE, 0.0, "deadlock"), result("a", TLE, 0.0, "wall", wall=2.0)):
        assert missed("upper", known) == ([], [])
    assert missed("upper", result("a", TLE, 0.0, "wall", wall=1.4), times={"a": 9}) == ([], ["a"])


def test_a_time_that_cannot_be_measured_is_told_of() -> None:
    lines, _ = missed("upper", result("a", TLE, 1.1), times={"a": -1})
    assert lines == ["rule: a: its time cannot be measured: broken"]


@pytest.fixture
def judged(tmp_path: Path, needs: Callable[[str], None]) -> Callable[[str, str, str], Judgement]:
    """Of the submission in `directory` of the example that takes its time while `condition` holds."""
    needs("gcc")
    shutil.copytree(PROBLEMS / "timing", tmp_path / "timing")
    root, store = tmp_path / "timing", Store(tmp_path / "store")
    text = (root / "submissions" / "time_limit_exceeded" / "second.c").read_text()

    def judged(directory: str, condition: str, yaml: str = "") -> Judgement:
        (root / "submissions" / directory / "own.c").write_text(text.replace(FOREVER, condition))
        if yaml:
            (root / "problem.yaml").write_text(yaml)
        problem = load_problem(root)
        source = next(one for one in problem.submissions if one.name == f"{directory}/own.c")
        return judge(source, problem, Options(store=store))

    return judged


Judging = Callable[..., Judgement]


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_the_example_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], needs: Callable[[str], None]
) -> None:
    needs("gcc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = Path(shutil.copytree(PROBLEMS / "timing", tmp_path / "timing"))
    assert main(["judge", str(root), "--all"]) == 0
    slow = root / "submissions" / "time_limit_exceeded" / "second.c"
    slow.write_text(slow.read_text().replace("CLOCKS_PER_SEC / 2", "CLOCKS_PER_SEC / 8"))
    assert main(["judge", str(root), "--all"]) == 1
    printed = capsys.readouterr()
    assert "upper bound of the time limit: it takes 1" in printed.out and "1 not as expected" in printed.err


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_package_s_submissions_are_held_to_both_bounds(judged: Judging) -> None:
    """The limit is 100 ms, and the programs count their own CPU time."""
    fast, slow = "clock() < 70 * (CLOCKS_PER_SEC / 1000)", "clock() < 120 * (CLOCKS_PER_SEC / 1000)"
    accepted = judged("accepted", fast)
    assert accepted.verdict is AC and accepted.expected is False
    assert accepted.unmet[0].startswith("submissions/accepted: lower bound of the time limit: ") and len(accepted.unmet) == 1
    exceeded = judged("time_limit_exceeded", slow)
    assert exceeded.verdict is TLE and exceeded.expected is False
    assert exceeded.unmet[0].startswith("submissions/time_limit_exceeded: upper bound of the time limit: ")
    assert judged("time_limit_exceeded", FOREVER).expected is True


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_legacy_package_with_a_limit_of_its_own_is_held_to_what_it_writes(judged: Judging) -> None:
    slow = "given == 2 && clock() < 120 * (CLOCKS_PER_SEC / 1000)"
    assert judged("time_limit_exceeded", slow, "limits: {time_limit: 0.1}").expected is True
    strict = judged("time_limit_exceeded", slow, "limits: {time_limit: 0.1, time_safety_margin: 2}")
    assert strict.unmet[0].endswith("(100 ms x 2)")
    assert judged("accepted", "clock() < 30 * (CLOCKS_PER_SEC / 1000)", "limits: {time_limit: 0.1}").expected is True
    loose = judged("accepted", "clock() < 30 * (CLOCKS_PER_SEC / 1000)", "limits: {time_limit: 0.1, time_multiplier: 5}")
    assert loose.unmet[0].endswith("(100 ms / 5)")
