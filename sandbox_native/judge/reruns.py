"""A time close to the limit is measured again, and each run with what disturbed it. Used by casework.py, interactive.py and
multipass.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sandbox_native.judge.noise import watched
from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.verdicts import Verdict

_RERUNS: Final = 2


def measured(once: Callable[[], CaseResult], limit_seconds: float, near: float) -> CaseResult:
    """The result of `once`, or of the run with the least CPU time of up to three where the first one's is within the share `near`
    of the limit. `noise.runs` has the times of all."""
    return best_of(watched(once), once, limit_seconds, near)


def best_of(first: CaseResult, once: Callable[[], CaseResult], limit_seconds: float, near: float) -> CaseResult:
    """As `measured`, of a case that has had its first run."""
    best = first
    runs = [first.cpu_seconds]
    while len(runs) <= _RERUNS and _is_close(best, limit_seconds, near):
        again = watched(once)
        runs.append(again.cpu_seconds)
        best = _better(best, again)
    if len(runs) == 1 or best.noise is None:
        return best
    return replace(best, noise=replace(best.noise, runs=tuple(runs)))


def _is_close(result: CaseResult, limit_seconds: float, near: float) -> bool:
    """Only for what the clock decides: another run of a wrong answer would be another chance."""
    by_clock = result.verdict is Verdict.AC or (result.verdict is Verdict.TLE and result.limit == "cpu")
    return near > 0 and by_clock and abs(result.cpu_seconds - limit_seconds) <= near * limit_seconds


def _better(best: CaseResult, again: CaseResult) -> CaseResult:
    """The least time counts. What was accepted stays so: another run was for its time alone; and one that the wall clock cut off
    has not measured any."""
    cut_off = again.verdict is Verdict.TLE and again.limit != "cpu"
    if cut_off or again.cpu_seconds >= best.cpu_seconds or (best.verdict is Verdict.AC and again.verdict is not Verdict.AC):
        return best
    return again
