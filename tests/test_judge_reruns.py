"""Times close to the limit are measured again; nobody gets a second chance by it."""

from __future__ import annotations

import pytest

from sandbox_native.judge.outcomes import CaseResult, Noise
from sandbox_native.judge.reruns import best_of, measured
from sandbox_native.judge.verdicts import Verdict

AC, WA, TLE, RTE = Verdict.AC, Verdict.WA, Verdict.TLE, Verdict.RTE


@pytest.mark.parametrize(
    ("runs", "counted", "made"),
    [
        ([(AC, 0.5)], (AC, 0.5), 1),
        ([(AC, 0.95), (AC, 0.80)], (AC, 0.80), 2),
        ([(AC, 0.95), (AC, 0.97), (AC, 0.93)], (AC, 0.93), 3),
        ([(TLE, 1.05), (AC, 0.99), (AC, 0.95)], (AC, 0.95), 3),
        ([(TLE, 1.08), (TLE, 1.06), (TLE, 1.07)], (TLE, 1.06), 3),
        ([(TLE, 1.2)], (TLE, 1.2), 1),
        ([(TLE, 1.05), (WA, 0.7)], (WA, 0.7), 2),
        ([(AC, 0.95), (WA, 0.7), (AC, 0.9)], (AC, 0.9), 3),
        ([(WA, 0.95)], (WA, 0.95), 1),
        ([(RTE, 1.0)], (RTE, 1.0), 1),
    ],
)
def test_the_least_time_of_up_to_three_counts(
    runs: list[tuple[Verdict, float]], counted: tuple[Verdict, float], made: int
) -> None:
    left = iter(runs)
    asked: list[float] = []

    def once() -> CaseResult:
        verdict, seconds = next(left)
        asked.append(seconds)
        limit = "cpu" if verdict is TLE else None
        return CaseResult(case="1", verdict=verdict, cpu_seconds=seconds, limit=limit, noise=Noise(runs=(seconds,)))

    result = measured(once, 1.0, 0.1)
    assert (result.verdict, result.cpu_seconds, len(asked)) == (*counted, made)
    assert result.noise is not None and result.noise.runs == tuple(asked)


def test_the_wall_clock_is_not_measured_again() -> None:
    result = CaseResult(case="1", verdict=TLE, cpu_seconds=1.0, limit="wall")
    assert measured(iter([result]).__next__, 1.0, 0.1) is result


def test_a_run_that_the_wall_clock_cut_off_has_measured_nothing() -> None:
    cut_off = CaseResult(case="1", verdict=TLE, cpu_seconds=0.2, limit="wall")
    first = CaseResult(case="1", verdict=AC, cpu_seconds=0.95)
    assert measured(iter([first, cut_off, cut_off]).__next__, 1.0, 0.1) is first


def test_none_are_wanted_where_the_share_is_0() -> None:
    result = CaseResult(case="1", verdict=AC, cpu_seconds=1.0)
    assert measured(iter([result]).__next__, 1.0, 0.0) is result


# ---- a busy machine ----


def cut_off(cpu: float, interrupted: int, **noise: float) -> CaseResult:
    said = Noise(involuntary_switches=interrupted, voluntary_switches=3, **noise)
    return CaseResult(case="1", verdict=TLE, limit="wall", cpu_seconds=cpu, wall_seconds=2.0, noise=said)


BUSY = cut_off(0.7, 250)


@pytest.mark.parametrize(
    "busy", [BUSY, cut_off(0.2, 90), cut_off(0.7, 2, throttled_seconds=1.2), cut_off(0.7, 2, steal_seconds=0.9)]
)
def test_who_was_kept_from_its_core_until_the_wall_limit_runs_again(busy: CaseResult) -> None:
    for verdict in (AC, WA, RTE):
        after = CaseResult(case="1", verdict=verdict, cpu_seconds=0.8, noise=Noise())
        result = best_of(busy, iter([BUSY, after]).__next__, 1.0, 0.1)
        assert result.noise is not None
        assert (result.verdict, result.message, result.noise.runs) == (verdict, "", (busy.cpu_seconds, 0.7, 0.8))


def test_a_machine_that_stays_busy_is_named() -> None:
    result = measured(iter([BUSY] * 3).__next__, 1.0, 0.1)
    assert (result.verdict, result.limit) == (TLE, "wall")
    assert result.message == "the machine was too busy: it had 0.70 s of CPU time in 2.00 s, and was interrupted 250 times"
    once = measured(iter([BUSY]).__next__, 1.0, 0.0)
    assert once.message == result.message


@pytest.mark.parametrize("asleep", [cut_off(0.01, 0), cut_off(0.01, 5), cut_off(0.9, 9), cut_off(0.01, 2, steal_seconds=0.5)])
def test_who_sleeps_is_too_slow_at_once(asleep: CaseResult) -> None:
    assert best_of(asleep, iter([]).__next__, 1.0, 0.1) is asleep


def test_who_sleeps_when_it_runs_again_is_too_slow() -> None:
    result = best_of(BUSY, iter([cut_off(0.01, 5)]).__next__, 1.0, 0.1)
    assert (result.verdict, result.message, result.cpu_seconds) == (TLE, "", 0.01)
