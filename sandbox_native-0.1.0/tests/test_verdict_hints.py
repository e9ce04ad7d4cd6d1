"""What a verdict adds: its hint, and what the run cost."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from sandbox_native.limits import Limits
from sandbox_native.result import PEAK_OF_PROCESS, PEAK_OF_TREE
from sandbox_native.verdict import EndedBy, Kind, ReportData, cut_hint, judge, usage

MIB = 1 << 20
SECOND = 10**9


def ended(status: int, **fields: Any) -> ReportData:
    return ReportData(kind=Kind.ENDED, ended_by=EndedBy.EXIT, wait_status=status, **fields)


def exited(code: int, **fields: Any) -> ReportData:
    return ended(code << 8, **fields)


def hint_of(report: ReportData, limits: Limits | None = None) -> str | None:
    return judge(report, limits or Limits(), lambda arch, number: None).hint


def words_of(report: ReportData, limits: Limits | None = None) -> str:
    hint = hint_of(report, limits)
    assert hint is not None
    assert "\n" not in hint
    return hint


class TestHints:
    def test_output_that_was_cut(self) -> None:
        cut = {"stdout": 30 * MIB, "stderr": 5 * MIB}
        out, err = (
            "stdout was cut at 4 MiB of 30 MiB: raise Limits.stdout_bytes",
            "stderr was cut at 4 MiB of 5 MiB: raise Limits.stderr_bytes",
        )
        assert cut_hint(cut, Limits()) == f"{out}; {err}"
        assert cut_hint({}, Limits()) is None

    def test_a_file_past_its_bound(self) -> None:
        assert "Limits.file_bytes (now 64 MiB)" in words_of(ended(signal.SIGXFSZ))

    def test_a_stack_that_is_limited(self) -> None:
        assert "Limits.stack_bytes (now 8 MiB)" in words_of(ended(signal.SIGSEGV), Limits(stack_bytes=8 * MIB))
        assert hint_of(ended(signal.SIGSEGV)) is None
        assert hint_of(ended(signal.SIGTERM), Limits(stack_bytes=8 * MIB)) is None

    @pytest.mark.parametrize("status", [1 << 8, 2 << 8, 127 << 8, 6, 11, 5, 4])
    def test_address_space_that_a_run_time_could_not_reserve(self, status: int) -> None:
        limits = Limits(address_space_bytes=512 * MIB)
        assert "raise Limits.address_space_bytes (now 512 MiB)" in words_of(ended(status), limits)
        assert hint_of(ended(status)) is None

    @pytest.mark.parametrize("status", [3 << 8, 9, 15])
    def test_other_ends_do_not_look_like_that(self, status: int) -> None:
        assert hint_of(ended(status), Limits(address_space_bytes=512 * MIB)) is None

    def test_all_processes_used_up(self) -> None:
        limits = Limits(processes=8)
        assert "Limits.processes (now 8)" in words_of(exited(1, peak_processes=8), limits)
        assert hint_of(exited(1, peak_processes=7), limits) is None
        assert hint_of(exited(1, peak_processes=1), Limits(processes=1)) is None


class TestUsage:
    def test_times_are_the_groups_where_there_is_one(self) -> None:
        cost = usage(exited(0, wall_ns=3 * SECOND, cpu_ns=2 * SECOND, user_ns=SECOND, system_ns=SECOND // 2, rusage_user_ns=7))
        assert (cost.wall_seconds, cost.cpu_seconds, cost.user_seconds, cost.system_seconds) == (3.0, 2.0, 1.0, 0.5)

    def test_a_group_with_one_kind_of_time_keeps_it(self) -> None:
        for fields in ({"user_ns": SECOND}, {"system_ns": SECOND}):
            cost = usage(exited(0, cpu_ns=SECOND, rusage_user_ns=7, rusage_system_ns=7, **fields))
            assert cost.user_seconds + cost.system_seconds == 1.0

    def test_without_a_group_they_are_those_of_the_reaped(self) -> None:
        cost = usage(exited(0, rusage_user_ns=SECOND, rusage_system_ns=SECOND // 4))
        assert (cost.cpu_seconds, cost.user_seconds, cost.system_seconds) == (1.25, 1.0, 0.25)

    def test_a_group_without_a_split_borrows_it(self) -> None:
        cost = usage(exited(0, cpu_ns=1_000_000, rusage_user_ns=400_000, rusage_system_ns=500_000))
        assert (cost.cpu_seconds, cost.user_seconds, cost.system_seconds) == (0.001, 0.0004, 0.0005)

    def test_one_process_is_its_high_water_mark(self) -> None:
        cost = usage(exited(0, maxrss_bytes=3 * MIB, sampled_bytes=9 * MIB, group_peak_bytes=50 * MIB, peak_processes=1))
        assert (cost.peak_memory_bytes, cost.peak_memory_source) == (3 * MIB, PEAK_OF_PROCESS)

    @pytest.mark.parametrize(
        ("maxrss", "sampled", "peak", "source"), [(3, 9, 9, PEAK_OF_TREE), (9, 3, 9, PEAK_OF_PROCESS), (9, 0, 9, PEAK_OF_PROCESS)]
    )
    def test_several_are_the_larger_figure_and_its_source(self, maxrss: int, sampled: int, peak: int, source: str) -> None:
        cost = usage(exited(0, maxrss_bytes=maxrss, sampled_bytes=sampled, peak_processes=3))
        assert (cost.peak_memory_bytes, cost.peak_memory_source) == (peak, source)

    def test_the_groups_own_peak_is_apart_and_none_when_unknown(self) -> None:
        assert usage(exited(0, group_peak_bytes=50 * MIB)).peak_memory_upper_bytes == 50 * MIB
        assert usage(exited(0)).peak_memory_upper_bytes is None

    def test_counts_are_passed_on(self) -> None:
        cost = usage(exited(0, peak_processes=5, voluntary_switches=6, involuntary_switches=7))
        assert (cost.peak_processes, cost.voluntary_switches, cost.involuntary_switches) == (5, 6, 7)
