"""A result says what disturbed the run: throttling, steal, and the core that it was bound to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_native.judge import Boxes, Options, Store, judge, noise, problem_of_cases
from sandbox_native.judge.outcomes import CaseResult, Noise
from sandbox_native.judge.values import ProblemLimits, SourceFile, Submission
from sandbox_native.judge.verdicts import Verdict

STAT = b"cpu  9 9 9 9 9 9 9 900 0 0\ncpu0 1 1 1 1 1 1 1 250 0 0\ncpu1 1 1 1 1 1 1 1 650 0 0\ncpu11 1 1\nintr 5\n"


def result() -> CaseResult:
    return CaseResult(case="1", verdict=Verdict.AC, noise=Noise(voluntary_switches=7))


def test_steal_is_that_of_the_cores_asked_for() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    assert noise.parse_steal(STAT, {0}) == 250 / ticks and noise.parse_steal(STAT, {0, 1}) == 900 / ticks
    assert noise.parse_steal(STAT, {1, 11}) == 650 / ticks == noise.parse_steal(b"cpu1 0 0 0 0 0 0 0 650\ncpu2 1", {1, 2})


def test_what_was_throttled_and_stolen_during_the_run_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("nr_throttled 4\nthrottled_time 3000000000\n")
    (tmp_path / "new").write_text("nr_throttled 9\nthrottled_usec 500000\n")
    places = ((tmp_path / "old", b"throttled_time", 1e9), (tmp_path / "new", b"throttled_usec", 1e6))
    monkeypatch.setattr(noise, "quotas", lambda: places)
    assert noise.throttled_seconds() == 3.5

    def once() -> CaseResult:
        (tmp_path / "old").write_text("throttled_time 3250000000\n")
        return result()

    watched = noise.watched(once).noise
    assert watched is not None and watched.throttled_seconds == 0.25 and watched.voluntary_switches == 7
    assert watched.steal_seconds is not None and watched.steal_seconds >= 0
    (tmp_path / "old").unlink()
    assert noise.throttled_seconds() is None


def test_a_quota_is_told_from_none(tmp_path: Path) -> None:
    path = tmp_path / "quota"
    for text, expected in (("max 100000\n", False), ("-1\n", False), ("50000 100000\n", True), ("50000\n", True)):
        path.write_text(text)
        assert noise.has_quota(path) is expected
    assert not noise.has_quota(tmp_path / "absent")


def test_the_core_is_told_where_there_is_but_one() -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    try:
        os.sched_setaffinity(0, {core})
        bound = noise.watched(result).noise
    finally:
        os.sched_setaffinity(0, before)
    free = noise.watched(result).noise
    assert bound is not None and bound.core == core
    assert free is not None and free.core == (core if len(before) == 1 else None)


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_the_core_of_pinned_boxes_is_the_one_that_the_program_sees(tmp_path: Path) -> None:
    told = b"#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status"
    source = Submission(name="told", files=(SourceFile(name="told", content=told, executable=True),))
    options = Options(store=Store(tmp_path / "store"))
    problem = problem_of_cases([("", "")], limits=ProblemLimits(cpu_seconds=5.0))
    with Boxes(pinned=True) as pinned, Boxes() as free:
        bound, loose = (judge(source, problem, options, boxes=boxes).cases[0] for boxes in (pinned, free))
    assert bound.noise is not None and bound.output.split()[1:] == [str(bound.noise.core).encode()]
    assert loose.noise is not None and (loose.noise.core is None) == (len(os.sched_getaffinity(0)) > 1)
