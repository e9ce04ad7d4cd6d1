"""From report to verdict: every rule, and what must not be taken for a limit."""

from __future__ import annotations

import errno
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from sandbox_native import verdict
from sandbox_native.errors import STAGES, ExecError, SetupError
from sandbox_native.limits import Limits, Overflow
from sandbox_native.result import Status
from sandbox_native.verdict import EndedBy, Kind, ReportData, Verdict, failure, judge

MIB = 1 << 20
SECOND = 10**9
WIRE = (Path(__file__).parent.parent / "csrc" / "common" / "run.h").read_text()
STAGE = {name: number for number, name in STAGES.items()}
X86_64, I386 = 0xC000003E, 0x40000003
NAMES = {(X86_64, 101): "ptrace", (I386, 26): "ptrace"}
SECCOMP, LISTENER = 4096, 524288
LIMITS = Limits(cpu_seconds=1, memory_bytes=128 * MIB)
KILL = Limits(cpu_seconds=1, memory_bytes=128 * MIB, on_overflow=Overflow.KILL)


def name_of(arch: int, number: int) -> str | None:
    return NAMES.get((arch, number))


def ended(by: EndedBy = EndedBy.EXIT, **fields: Any) -> ReportData:
    return ReportData(kind=Kind.ENDED, ended_by=by, **fields)


def exited(code: int, **fields: Any) -> ReportData:
    return ended(wait_status=code << 8, **fields)


def killed_by(number: int, core: bool = False, **fields: Any) -> ReportData:
    return ended(wait_status=number | (0x80 if core else 0), **fields)


def failed(stage: str, code: int, item: str = "") -> ReportData:
    return ReportData(kind=Kind.FAILED, failure_stage=STAGE[stage], failure_error=code, failure_item=item)


def verdict_of(report: ReportData, limits: Limits = LIMITS, **options: Any) -> Verdict:
    return judge(report, limits, name_of, **options)


def status_of(report: ReportData, limits: Limits = LIMITS, **options: Any) -> Status:
    found = verdict_of(report, limits, **options)
    if found.status in (Status.OK, Status.NONZERO_EXIT):
        assert found.exit_code is not None
        assert found.signal is None
    elif found.status is Status.SIGNALED:
        assert found.exit_code is None
        assert found.signal is not None
    else:
        assert (found.exit_code, found.signal) == (None, None)
    return found.status


def hint_of(report: ReportData, limits: Limits = LIMITS, **options: Any) -> str:
    hint = verdict_of(report, limits, **options).hint
    assert hint is not None
    assert "\n" not in hint
    return hint


class TestWire:
    """What is written down here a second time is what the header says."""

    def test_report_fields(self) -> None:
        body = re.search(r"struct sn_report \{(.*?)\n\};", re.sub(r"/\*.*?\*/", "", WIRE, flags=re.DOTALL), re.DOTALL)
        assert body is not None
        declared = set(re.findall(r"(\w+)(?=[,;])", body[1])) - {"version", "reserved", "failure"}
        ours = set(ReportData._fields)
        assert ours - declared == {"failure_stage", "failure_error", "failure_item"}
        assert declared <= ours

    @pytest.mark.parametrize(("ours", "prefix"), [(Kind, "SN_REPORT_"), (EndedBy, "SN_BY_")])
    def test_enums(self, ours: type[Kind] | type[EndedBy], prefix: str) -> None:
        declared = {name: int(number) for name, number in re.findall(rf"{prefix}(\w+) = (\d+)", WIRE)}
        assert {member.name: member.value for member in ours} == declared

    def test_held_bits(self) -> None:
        held = {name: int(number) for name, number in re.findall(r"SN_HELD_(\w+) = (\d+)", WIRE)}
        assert (held["SECCOMP"], held["LISTENER"]) == (verdict._HELD_SECCOMP, verdict._HELD_LISTENER)
        assert (held["SECCOMP"], held["LISTENER"]) == (SECCOMP, LISTENER)


class TestByItself:
    def test_zero_is_ok(self) -> None:
        assert verdict_of(exited(0)) == Verdict(Status.OK, 0, None, None)

    def test_exit_codes_come_back_as_they_are(self) -> None:
        for code in range(1, 256):
            assert verdict_of(exited(code)) == Verdict(Status.NONZERO_EXIT, code, None, None)

    @pytest.mark.parametrize("core", [False, True])
    def test_signals_come_back_as_they_are(self, core: bool) -> None:
        for number in range(1, 65):
            found = verdict_of(killed_by(number, core))
            assert (found.status, found.exit_code, found.signal) == (Status.SIGNALED, None, number)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGXCPU, signal.SIGSYS])
    def test_no_signal_is_a_limit_by_itself(self, number: int) -> None:
        near: dict[str, Any] = {"maxrss_bytes": 128 * MIB, "sampled_bytes": 128 * MIB, "group_peak_bytes": 128 * MIB}
        assert status_of(killed_by(number, **near, cpu_ns=SECOND)) is Status.SIGNALED

    def test_wall_time_is_inits_to_judge(self) -> None:
        assert status_of(exited(0, wall_ns=11 * SECOND)) is Status.OK


class TestMemory:
    def test_what_init_saw(self) -> None:
        report = ended(EndedBy.MEMORY, wait_status=9)
        assert status_of(report) is Status.MEMORY_LIMIT
        assert hint_of(report) == "raise Limits.memory_bytes (now 128 MiB)"

    @pytest.mark.parametrize("status", [9, 0, 1 << 8, 137 << 8, 11])
    def test_a_kill_by_the_kernel_counts_however_the_main_process_ended(self, status: int) -> None:
        assert status_of(ended(wait_status=status, oom_kills=1)) is Status.MEMORY_LIMIT

    @pytest.mark.parametrize("by", [EndedBy.WALL, EndedBy.CPU, EndedBy.CANCEL, EndedBy.OUTPUT, EndedBy.FILTER])
    def test_it_does_not_outdo_what_init_ended_the_tree_for(self, by: EndedBy) -> None:
        assert status_of(ended(by, oom_kills=1)) is not Status.MEMORY_LIMIT

    def test_it_comes_before_cpu_time_and_output(self) -> None:
        assert status_of(exited(1, oom_kills=1, cpu_ns=9 * SECOND), KILL, overflowed="stdout") is Status.MEMORY_LIMIT

    def test_exec_without_memory(self) -> None:
        report = failed("exec", errno.ENOMEM, "/bin/x")
        assert status_of(report) is Status.MEMORY_LIMIT
        assert failure(report) is None
        assert hint_of(report) == "the program does not fit: raise Limits.memory_bytes (now 128 MiB)"
        limits = Limits(memory_bytes=128 * MIB, address_space_bytes=2 * MIB)
        assert hint_of(report, limits).endswith(" or Limits.address_space_bytes (now 2 MiB)")

    def test_a_failure_record_counts_only_in_a_report_of_failure(self) -> None:
        assert status_of(exited(0, failure_stage=STAGE["exec"], failure_error=errno.ENOMEM)) is Status.OK

    def test_a_refused_allocation_is_the_real_exit_with_a_hint(self) -> None:
        for report in (exited(1, maxrss_bytes=120 * MIB), exited(3, sampled_bytes=120 * MIB)):
            found = verdict_of(report)
            assert (found.status, found.exit_code) == (Status.NONZERO_EXIT, report.wait_status >> 8)
            assert found.hint is not None
            assert "allocation refused near the limit" in found.hint
            assert "peak 120 MiB, raise Limits.memory_bytes (now 128 MiB)" in found.hint

    @pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS])
    def test_so_it_is_with_a_crash(self, number: int) -> None:
        assert "near the limit" in hint_of(killed_by(number, maxrss_bytes=127 * MIB))

    def test_far_from_the_limit_or_at_success_there_is_no_hint(self) -> None:
        assert verdict_of(exited(1, maxrss_bytes=100 * MIB)).hint is None
        assert verdict_of(exited(1, group_peak_bytes=128 * MIB)).hint is None
        assert verdict_of(exited(0, maxrss_bytes=127 * MIB)).hint is None
        assert verdict_of(killed_by(signal.SIGKILL, maxrss_bytes=127 * MIB)).hint is None


class TestCpu:
    def test_what_init_saw(self) -> None:
        report = ended(EndedBy.CPU, wait_status=9, cpu_ns=1_004_000_000)
        assert status_of(report) is Status.CPU_LIMIT
        assert hint_of(report) == "raise Limits.cpu_seconds (now 1 s); the tree used 1 s"

    @pytest.mark.parametrize("status", [0, 3 << 8, int(signal.SIGXCPU)])
    def test_above_the_limit_at_an_exit_too(self, status: int) -> None:
        assert status_of(ended(wait_status=status, cpu_ns=SECOND + 1)) is Status.CPU_LIMIT

    def test_the_limit_itself_is_allowed(self) -> None:
        assert status_of(exited(0, cpu_ns=SECOND)) is Status.OK

    def test_without_a_group_the_reaped_processes_count(self) -> None:
        assert status_of(exited(0, rusage_user_ns=SECOND, rusage_system_ns=1)) is Status.CPU_LIMIT
        assert status_of(exited(0, rusage_user_ns=SECOND, rusage_system_ns=0)) is Status.OK

    def test_with_a_group_they_do_not(self) -> None:
        assert status_of(exited(0, cpu_ns=SECOND, rusage_user_ns=5 * SECOND)) is Status.OK

    def test_inits_word_stands_without_a_limit_too(self) -> None:
        assert hint_of(ended(EndedBy.CPU), Limits()).startswith("raise Limits.cpu_seconds (now none)")

    def test_without_a_limit_any_amount_is_fine(self) -> None:
        assert status_of(exited(0, cpu_ns=99 * SECOND), Limits()) is Status.OK


class TestWall:
    def test_what_init_saw(self) -> None:
        report = ended(EndedBy.WALL, wait_status=9, wall_ns=10 * SECOND, cpu_ns=9 * SECOND)
        assert status_of(report) is Status.WALL_LIMIT
        assert hint_of(report) == "raise Limits.wall_seconds (now 10 s)"

    def test_a_program_that_waited_is_told_so(self) -> None:
        report = ended(EndedBy.WALL, wait_status=9, wall_ns=10 * SECOND, rusage_user_ns=12_000_000)
        assert hint_of(report) == "raise Limits.wall_seconds (now 10 s); it used 12 ms of CPU, so it was waiting"

    def test_cpu_time_above_its_limit_does_not_change_it(self) -> None:
        assert status_of(ended(EndedBy.WALL, cpu_ns=9 * SECOND)) is Status.WALL_LIMIT


class TestOutput:
    def test_what_init_was_told(self) -> None:
        report = ended(EndedBy.OUTPUT, wait_status=9)
        assert status_of(report, KILL, overflowed="stderr") is Status.OUTPUT_LIMIT
        hint = hint_of(report, KILL, overflowed="stderr")
        assert hint == "raise Limits.stderr_bytes (now 4 MiB), or use Overflow.TRUNCATE"

    def test_both_streams_are_named_when_it_is_not_known_which(self) -> None:
        hint = hint_of(ended(EndedBy.OUTPUT), KILL)
        assert "Limits.stdout_bytes (now 4 MiB) or Limits.stderr_bytes (now 4 MiB)" in hint

    def test_a_guest_that_ended_first_gets_the_same_verdict(self) -> None:
        assert status_of(exited(0), KILL, overflowed="stdout") is Status.OUTPUT_LIMIT
        assert status_of(exited(0), KILL) is Status.OK

    def test_truncated_output_is_no_limit(self) -> None:
        assert status_of(exited(0), LIMITS, overflowed="stdout") is Status.OK


class TestFilter:
    def test_the_call_is_named(self) -> None:
        report = ended(EndedBy.FILTER, wait_status=31, forbidden_arch=X86_64, forbidden_nr=101)
        assert status_of(report) is Status.FORBIDDEN_SYSCALL
        assert hint_of(report) == "forbidden system call 101 (ptrace) of x86_64"

    @pytest.mark.parametrize(
        ("arch", "number", "words"),
        [
            (I386, 26, "26 (ptrace) of i386"),
            (X86_64, 999, "999 (unknown) of x86_64"),
            (X86_64, 0x40000000 + 5, "5 (unknown) of x32"),
            (0xC00000B7, 1, "1 (unknown) of aarch64"),
            (I386, 0x40000001, f"{0x40000001} (unknown) of i386"),
            (0x12345, 1, "1 (unknown) of architecture 0x12345"),
        ],
    )
    def test_so_are_foreign_ones(self, arch: int, number: int, words: str) -> None:
        report = ended(EndedBy.FILTER, wait_status=31, forbidden_arch=arch, forbidden_nr=number)
        assert hint_of(report) == f"forbidden system call {words}"

    def test_a_sigsys_of_its_own_is_a_signal(self) -> None:
        report = killed_by(31, core=True, held=SECCOMP | LISTENER)
        assert status_of(report) is Status.SIGNALED
        assert "to itself" in hint_of(report)

    def test_where_the_kernel_does_not_tell_the_hint_says_so(self) -> None:
        report = killed_by(31, core=True, held=SECCOMP)
        assert status_of(report) is Status.SIGNALED
        assert "does not tell which" in hint_of(report)
        assert "to itself" in hint_of(killed_by(31, held=0))


class TestOtherEnds:
    def test_cancelled(self) -> None:
        assert verdict_of(ended(EndedBy.CANCEL, wait_status=9)) == Verdict(Status.CANCELLED)

    @pytest.mark.parametrize("by", [0, 8, 99])
    def test_an_end_that_we_do_not_know_is_no_verdict(self, by: int) -> None:
        with pytest.raises(ValueError, match="no such end"):
            verdict_of(ReportData(kind=Kind.ENDED, ended_by=by))

    @pytest.mark.parametrize("report", [ReportData(kind=Kind.STARTED), failed("mount", errno.ENOMEM), failed("exec", 2)])
    def test_what_is_not_an_end_is_not_judged(self, report: ReportData) -> None:
        with pytest.raises(ValueError, match="not the end of a run"):
            verdict_of(report)


class TestFailure:
    def test_a_run_that_ended_is_none(self) -> None:
        assert failure(exited(1)) is None

    def test_a_failed_step_is_a_setup_error(self) -> None:
        error = failure(failed("mount", errno.EACCES, "/data"))
        assert type(error) is SetupError
        assert (error.stage, error.errno, error.item) == ("mount", errno.EACCES, "/data")

    def test_a_program_that_cannot_start_is_an_exec_error(self) -> None:
        error = failure(failed("exec", errno.ENOENT, "/bin/x"))
        assert type(error) is ExecError
        assert (error.errno, error.item) == (errno.ENOENT, "/bin/x")

    def test_no_memory_elsewhere_is_our_failure(self) -> None:
        assert failure(failed("clone", errno.ENOMEM)) is not None
