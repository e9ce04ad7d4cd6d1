"""Whether a judgement is what the package expects of its own submission, and the time limit that submissions give. Pure.

Used by judging.py and by the command line when a package is verified. Source: the problem package format, "Example submissions",
"Problem timing" and "Timelimit inference".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.judge.outcomes import CaseResult, Judgement
from sandbox_native.judge.problems.globs import matches
from sandbox_native.judge.values import Expectation, Problem, ProblemLimits, Requirement
from sandbox_native.judge.verdicts import Verdict

_SCORE_TOLERANCE: Final = 1e-6
_SHOWN: Final = 3


def needs_all_cases(expectation: Expectation | None) -> bool:
    """Whether the expectation says something of single cases, so that all of them have to be judged to check it."""
    return expectation is not None and any(
        requirement.permitted is not None or requirement.required is not None or requirement.message
        for requirement in expectation.requirements
    )


def unmet(expectation: Expectation | None, judgement: Judgement, problem: Problem) -> tuple[str, ...]:
    """What is expected and was not found, one line each; empty when all is as expected, or nothing is."""
    if expectation is None:
        return ()
    lines: list[str] = []
    if expectation.verdicts is not None and judgement.verdict not in expectation.verdicts:
        asked = " or ".join(sorted(expectation.verdicts))
        lines.append(f"{expectation.origin}: the verdict should be {asked}, and is {judgement.verdict}")
    if expectation.partial and not judgement.partial and judgement.max_score is not None:
        lines.append(f"{expectation.origin}: the score should be less than {judgement.max_score:g}, and is {judgement.score}")
    if expectation.score is not None and not _within(judgement.score, (expectation.score, expectation.score)):
        lines.append(f"@EXPECTED_SCORE@: the score should be {expectation.score:g}, and is {judgement.score}")
    if judgement.verdict in (Verdict.CE, Verdict.JE) and needs_all_cases(expectation):
        lines.append(f"{expectation.origin}: it was not judged: {judgement.verdict} {judgement.message}".rstrip())
    else:
        for requirement in expectation.requirements:
            lines.extend(_unmet(requirement, judgement, problem))
    return tuple(lines)


def _unmet(requirement: Requirement, judgement: Judgement, problem: Problem) -> Iterable[str]:
    results = [result for result in judgement.cases if matches(requirement.cases, result.case)]
    known = [(result.case, _of_four(result.verdict)) for result in results]
    if requirement.permitted is not None:
        others = [f"{case} {verdict}" for case, verdict in known if verdict not in requirement.permitted]
        if others:
            more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
            asked = ", ".join(sorted(requirement.permitted))
            yield f"{requirement.origin}: permitted are {asked}, and there are {', '.join(others[:_SHOWN])}{more}"
    if requirement.required is not None and not any(verdict in requirement.required for _, verdict in known):
        yield f"{requirement.origin}: no case has {' or '.join(sorted(requirement.required))}"
    if requirement.message and not any(requirement.message in result.message for result in results):
        yield f"{requirement.origin}: no message of the validator has {requirement.message[:80]!r} in it"
    if requirement.score is not None:
        for name, score in _scores(requirement, judgement, problem):
            if not _within(score, requirement.score):
                least, most = requirement.score
                yield f"{requirement.origin}: the score of {name} should be from {least:g} to {most:g}, and is {score}"


def _scores(requirement: Requirement, judgement: Judgement, problem: Problem) -> Iterable[tuple[str, float | None]]:
    if not requirement.cases:
        yield "the submission", judgement.score
        return
    for group in judgement.groups:
        if group.group and matches(requirement.cases, group.group) and group.group.count("/") == requirement.cases.count("/"):
            yield group.group, group.score


def _within(score: float | None, bounds: tuple[float, float]) -> bool:
    return score is not None and bounds[0] - _SCORE_TOLERANCE <= score <= bounds[1] + _SCORE_TOLERANCE


def _of_four(verdict: Verdict) -> Verdict:
    """The format's own verdict for one of ours: what is neither accepted, wrong nor too slow has crashed."""
    return verdict if verdict in (Verdict.AC, Verdict.WA, Verdict.TLE, Verdict.JE) else Verdict.RTE


def bounding_seconds(expectation: Expectation | None, results: Iterable[CaseResult]) -> Mapping[str, float]:
    """The slowest CPU time by bound, "lower" and "upper", over the cases for which the expectation gives that bound."""
    bounds: dict[str, float] = {}
    ready = list(results)
    for requirement in expectation.requirements if expectation else ():
        times = [result.cpu_seconds for result in ready if matches(requirement.cases, result.case)]
        if requirement.bounds_time is not None and times:
            bounds[requirement.bounds_time] = max(bounds.get(requirement.bounds_time, 0.0), *times)
    return bounds


def time_limit(limits: ProblemLimits, slowest_accepted: float | None) -> float:
    """The CPU limit in seconds: what the package states, else the slowest accepted submission's time times the multiplier, up to
    the next multiple of the resolution, at least one.

    PolicyError when the package states none and has no accepted submission.
    """
    if limits.cpu_seconds is not None:
        return limits.cpu_seconds
    if slowest_accepted is None:
        raise PolicyError(
            "the problem states no time limit, and no accepted submission gives one",
            field="cpu_seconds",
            value=None,
            remedy="give one (Options.cpu_seconds, .timelimit in a package), or judge by `with_time_limit(problem)`",
        )
    steps = math.ceil(slowest_accepted * limits.time_multiplier / limits.time_resolution_seconds)
    return max(1, steps) * limits.time_resolution_seconds
