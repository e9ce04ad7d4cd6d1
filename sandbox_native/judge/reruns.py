"""A time close to the limit is measured again, and so is a run that the wall clock ended while others had its core; each run with
what disturbed it. Used by casework.py, interactive.py and multipass.py.

A run was kept from its core when the time in which it did not compute is what others took: so many times was it interrupted that
each need not have been long, or a quota or a hypervisor kept the core. One that sleeps or waits gives its core back by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sandbox_native.judge.noise import watched
from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.verdicts import Verdict

_RERUNS: Final = 2
_LONGEST_TURN_SECONDS: Final = 0.05  # of others on a core, all together, before it is one's own turn again


def measured(once: Callable[[], CaseResult], limit_seconds: float, near: float) -> CaseResult:
    """The result of `once`, or of the run with the least CPU time of up to three where the first one's is within the share `near`
    of the limit, or the first that ended of up to three where it was too long by the wall clock on a busy machine. `noise.runs`
    has the times of all."""
    return best_of(watched(once), once, limit_seconds, near)


def best_of(first: CaseResult, once: Callable[[], CaseResult], limit_seconds: float, near: float) -> CaseResult:
    """As `measured`, of a case that has had its first run."""
    best = first
    runs = [first.cpu_seconds]
    while len(runs) <= _RERUNS and near > 0 and (_is_close(best, limit_seconds, near) or _was_kept_waiting(best)):
        again = watched(once)
        runs.append(again.cpu_seconds)
        best = _better(best, again)
    if best.noise is not None and len(runs) > 1:
        best = replace(best, noise=replace(best.noise, runs=tuple(runs)))
    return _explained(best) if _was_kept_waiting(best) else best


def _is_close(result: CaseResult, limit_seconds: float, near: float) -> bool:
    """Only for what the clock decides: another run of a wrong answer would be another chance."""
    by_clock = result.verdict is Verdict.AC or (result.verdict is Verdict.TLE and result.limit == "cpu")
    return by_clock and abs(result.cpu_seconds - limit_seconds) <= near * limit_seconds


def _was_kept_waiting(result: CaseResult) -> bool:
    """Whether the wall clock ended what would have computed."""
    noise = result.noise
    if not _is_cut_off(result) or result.limit != "wall" or noise is None:
        return False
    idle = result.wall_seconds - result.cpu_seconds
    kept = (noise.throttled_seconds or 0.0) + (noise.steal_seconds or 0.0)
    return kept > idle / 2 or idle <= _LONGEST_TURN_SECONDS * noise.involuntary_switches


def _explained(result: CaseResult) -> CaseResult:
    assert result.noise is not None
    times = f"{result.cpu_seconds:.2f} s of CPU time in {result.wall_seconds:.2f} s"
    words = f"the machine was too busy: it had {times}, and was interrupted {result.noise.involuntary_switches} times"
    return replace(result, message=f"{result.message}; {words}" if result.message else words)


def _is_cut_off(result: CaseResult) -> bool:
    return result.verdict is Verdict.TLE and result.limit != "cpu"


def _better(best: CaseResult, again: CaseResult) -> CaseResult:
    """The least time counts. What was accepted stays so: another run was for its time alone; and one that the wall clock cut off
    has not measured any; whatever ends at all says more than one that was kept from its core."""
    if _was_kept_waiting(best):
        return best if _was_kept_waiting(again) else again
    if _is_cut_off(again) or again.cpu_seconds >= best.cpu_seconds:
        return best
    return best if best.verdict is Verdict.AC and again.verdict is not Verdict.AC else again
