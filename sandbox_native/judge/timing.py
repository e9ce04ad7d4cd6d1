"""The time limit of a package that states none: that of its own submissions which must not exceed it. Host process.

Called by the judge's command and by users: `judge` and `Judge` never do it by themselves, since it runs all those submissions on
all cases, and its outcome is that of one machine at one time. Whoever wants the same verdicts everywhere keeps it in the package.
Source: the problem package format, "Problem timing"; the arithmetic is expectations.py's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.judge.expectations import bounding_seconds, time_limit
from sandbox_native.judge.outcomes import Judgement
from sandbox_native.judge.setup import Options
from sandbox_native.judge.values import Problem, Submission
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.judge.workers import Judge

_LONGEST_SECONDS: Final = 120.0  # that an accepted submission may take for a case while it is measured
_REMEDY: Final = "give one: --cpu 2s, or Options(cpu_seconds=2)"
_DEFAULT: Final = Options()


def with_time_limit(problem: Problem, options: Options = _DEFAULT, workers: int | None = None) -> Problem:
    """The problem, with its `inferred_limit` if it states none: to be made once, and judged by as often as you like."""
    if problem.limits.cpu_seconds is not None:
        return problem
    return replace(problem, limits=replace(problem.limits, cpu_seconds=inferred_limit(problem, options, workers)))


def inferred_limit(problem: Problem, options: Options = _DEFAULT, workers: int | None = None) -> float:
    """CPU seconds. All cases of these submissions are judged, without a limit to speak of. `options` as of `judge`, `workers` as
    of `Judge`.

    PolicyError: there is no such submission, or one of them is not judged or takes more than two minutes.
    """
    bounding = [source for source in problem.submissions if bounds_from_below(source)]
    slowest: float | None = None
    with Judge(workers, replace(options, cpu_seconds=_LONGEST_SECONDS, run_all=True, parallel=1)) as judge:
        for judged in judge.many((replace(source, expected=None), problem) for source in bounding):
            _check(judged.judgement)
            source = bounding[judged.number]
            seconds = bounding_seconds(source.expected, judged.judgement.cases).get("lower")
            if seconds is not None:
                slowest = max(slowest or 0.0, seconds / options.languages.of(source).time_factor)
    if slowest is None:
        reason = "the problem states no time limit, and has no accepted submission that gives one"
        raise PolicyError(reason, field="PACKAGE", value=problem.name, remedy=_REMEDY)
    return time_limit(problem.limits, slowest)


def bounds_from_below(source: Submission) -> bool:
    """Whether the time limit must leave it time enough."""
    return source.expected is not None and any(one.bounds_time == "lower" for one in source.expected.requirements)


def _check(judgement: Judgement) -> None:
    verdicts = {judgement.verdict, *(case.verdict for case in judgement.cases)}
    if verdicts & {Verdict.TLE, Verdict.CE, Verdict.JE}:
        reason = f"no time limit can be taken from it: {judgement.verdict} {judgement.message}".rstrip()
        raise PolicyError(reason, field="submission", value=judgement.submission, remedy=_REMEDY)
