"""The time limit of a package that states none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from graded import bash, problem

from sandbox_native import PolicyError
from sandbox_native.judge import Judge, judge
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.timing import inferred_limit, with_time_limit
from sandbox_native.judge.values import Expectation, Problem, Requirement, Submission
from sandbox_native.judge.verdicts import Verdict

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

LOWER = Expectation(requirements=(Requirement(bounds_time="lower"),))
RIGHT = replace(bash("read a b; echo $((a + b))"), expected=LOWER)


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(store=Store(tmp_path / "store"))


def unlimited(*submissions: Submission) -> Problem:
    of = problem({"1": (b"1 2", b"3")}, time_multiplier=3.0, time_resolution_seconds=0.5)
    return replace(of, submissions=submissions, limits=replace(of.limits, cpu_seconds=None))


def test_it_is_the_slowest_accepted_one_s_times_the_multiplier_up_to_the_resolution(options: Options) -> None:
    busy = replace(RIGHT, files=bash("for ((n = 0; n < 200000; n++)); do :; done; read a b; echo $((a + b))").files)
    short, long = (inferred_limit(unlimited(*sources), options) for sources in ((RIGHT,), (RIGHT, busy)))
    assert short == 0.5 < long and long % 0.5 == 0


def test_others_have_no_say(options: Options) -> None:
    for expected in (None, Expectation(requirements=(Requirement(bounds_time="upper"),))):
        with pytest.raises(PolicyError, match="no accepted submission"):
            inferred_limit(unlimited(replace(bash("sleep 1000"), expected=expected)), options)


def test_one_that_is_not_judged_gives_none(options: Options) -> None:
    with pytest.raises(PolicyError, match="no time limit can be taken from it: CE"):
        inferred_limit(unlimited(RIGHT, replace(bash("if"), expected=LOWER)), options)


def test_nobody_infers_a_limit_unasked(options: Options) -> None:
    """It takes as long as all accepted submissions do, and is that of one machine at one time."""
    problem = unlimited(RIGHT)
    with pytest.raises(PolicyError, match=r"no time limit.*with_time_limit"):
        judge(RIGHT, problem, options)
    with Judge(1, options) as many:
        (judged,) = many.many([(RIGHT, problem)])
    assert judged.judgement.verdict is Verdict.JE and "with_time_limit" in judged.judgement.message


def test_a_problem_with_its_inferred_limit_is_judged_as_any_other(options: Options) -> None:
    limited = with_time_limit(unlimited(RIGHT), options)
    assert limited.limits.cpu_seconds == 0.5 and with_time_limit(limited, options) is limited
    with Judge(1, options) as many:
        (judged,) = many.many([(RIGHT, limited)])
    assert judged.judgement.verdict is Verdict.AC and judged.judgement.cpu_limit_seconds == 0.5


def test_a_language_that_is_given_more_time_does_not_raise_the_limit(options: Options) -> None:
    busy = replace(RIGHT, files=bash("for ((n = 0; n < 300000; n++)); do :; done; read a b; echo $((a + b))").files)
    long = inferred_limit(unlimited(busy), options)
    generous = options.languages.from_toml("[bash]\ntime_factor = 100", base=options.languages)
    assert inferred_limit(unlimited(busy), replace(options, languages=generous)) == 0.5 < long
