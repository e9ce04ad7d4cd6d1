"""The time limit of a package that states none: that of its own submissions which must not exceed it. Host process.

Called by the judge's command. Source: the problem package format, "Problem timing"; the arithmetic is expectations.py's.
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
_REMEDY: Final = "give one: --cpu 2s"


def inferred_limit(problem: Problem, options: Options, workers: int | None = None) -> float:
    """CPU seconds. All cases of these submissions are judged, without a limit to speak of.

    PolicyError: there is no such submission, or one of them is not judged or takes more than two minutes.
    """
    bounding = [source for source in problem.submissions if _bounds(source)]
    slowest: float | None = None
    with Judge(workers, replace(options, cpu_seconds=_LONGEST_SECONDS, run_all=True)) as judge:
        for judged in judge.many((source, problem) for source in bounding):
            _check(judged.judgement)
            seconds = bounding_seconds(bounding[judged.number].expected, judged.judgement.cases).get("lower")
            slowest = max(slowest or 0.0, seconds) if seconds is not None else slowest
    if slowest is None:
        reason = "the problem states no time limit, and has no accepted submission that gives one"
        raise PolicyError(reason, field="PACKAGE", value=problem.name, remedy=_REMEDY)
    return time_limit(problem.limits, slowest)


def _bounds(source: Submission) -> bool:
    return source.expected is not None and any(one.bounds_time == "lower" for one in source.expected.requirements)


def _check(judgement: Judgement) -> None:
    verdicts = {judgement.verdict, *(case.verdict for case in judgement.cases)}
    if verdicts & {Verdict.TLE, Verdict.CE, Verdict.JE}:
        reason = f"no time limit can be taken from it: {judgement.verdict} {judgement.message}".rstrip()
        raise PolicyError(reason, field="submission", value=judgement.submission, remedy=_REMEDY)
