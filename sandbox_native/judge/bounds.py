"""How far a package's own submissions are from its time limit: what must be fast enough is to leave room for slower machines, and
what must be too slow is to be clearly so. Pure, but for the runs that it asks for.

Called by judging.py for submissions that an expectation gives a say in the limit. Source: the problem package format, "Problem
timing" and "Timelimit inference": T_ac x ac_to_time_limit <= time limit, time limit x time_limit_to_tle <= T_tle, each T being
the slowest time over the cases that the requirement is for. The legacy format calls the two time_multiplier and
time_safety_margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.problems.globs import matches
from sandbox_native.judge.values import Case, Expectation, Problem, Requirement
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.units import format_seconds

Longer: TypeAlias = Callable[[Case], CaseResult]
"""Judges a case with the time limit times `ProblemLimits.time_safety_margin`."""

_ROUNDING: Final = 1e-9


def missed_bounds(
    expectation: Expectation, results: Iterable[CaseResult], problem: Problem, limit_seconds: float, longer: Longer
) -> Iterator[str]:
    """A line for each bound of the time limit that the submission misses. `results`: of the cases that were judged with
    `limit_seconds`, which is what its language gives it."""
    known = {result.case: result for result in results}
    for requirement in expectation.requirements:
        if requirement.bounds_time == "lower":
            yield from _above(requirement, known.values(), limit_seconds, problem.limits.time_multiplier)
        elif requirement.bounds_time == "upper":
            cases = [case for case in problem.cases() if matches(requirement.cases, case.name)]
            yield from _below(requirement, cases, known, limit_seconds, problem.limits.time_safety_margin, longer)


def _above(requirement: Requirement, results: Iterable[CaseResult], limit: float, multiplier: float) -> Iterator[str]:
    """Of what must not be too slow. One that is has been told of by its verdict."""
    here = [result for result in results if matches(requirement.cases, result.case)]
    if not here or any(result.verdict is Verdict.TLE for result in here):
        return
    slowest = max(here, key=lambda result: result.cpu_seconds)
    if slowest.cpu_seconds * multiplier > limit * (1 + _ROUNDING):
        yield (
            f"{requirement.origin}: lower bound of the time limit: it takes {format_seconds(slowest.cpu_seconds)} "
            f"({slowest.case}), and may take {format_seconds(limit / multiplier)} ({format_seconds(limit)} / {multiplier:g})"
        )


def _below(
    requirement: Requirement,
    cases: Iterable[Case],
    known: dict[str, CaseResult],
    limit: float,
    margin: float,
    longer: Longer,
) -> Iterator[str]:
    """Of what must be too slow. Only a case that was, or that was not judged, can be slow enough; runs were cut off at the limit,
    so those are repeated until one is. No case at all has been told of by its verdict."""
    slow = [known[case.name] for case in cases if case.name in known and known[case.name].verdict is Verdict.TLE]
    least = limit * margin
    if not slow or any(_seconds(result) >= least for result in slow):
        return
    times = {result.case: result.cpu_seconds for result in slow}
    candidates = [case for case in cases if case.name in times or case.name not in known]
    most, where = 0.0, ""
    for case in sorted(candidates, key=lambda case: -times.get(case.name, 0.0)):
        result = longer(case)
        if result.verdict is Verdict.JE:
            yield f"{requirement.origin}: {case.name}: its time cannot be measured: {result.message}"
            return
        if result.verdict is Verdict.TLE:
            return
        if result.cpu_seconds > most or not where:
            most, where = result.cpu_seconds, case.name
    yield (
        f"{requirement.origin}: upper bound of the time limit: it takes {format_seconds(most)} at most ({where}), "
        f"and should take {format_seconds(least)} ({format_seconds(limit)} x {margin:g})"
    )


def _seconds(result: CaseResult) -> float:
    """At least what the case takes. One that waits for good, or ran into the wall clock's limit, has used little CPU time."""
    if result.limit == "deadlock":
        return float("inf")
    return result.wall_seconds if result.limit == "wall" else result.cpu_seconds
