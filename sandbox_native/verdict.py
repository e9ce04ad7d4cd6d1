"""From init's report to a verdict: what ended the run, and what it cost. Pure.

Called by the backend once for each run, with a copy of `struct sn_report` (csrc/common/wire.h). The rules keep to what
init and the kernel saw: a SIGKILL is not taken for a memory limit because it looks like one, nor a SIGSYS for our
filter's.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from sandbox_native.errors import STAGES, SetupError, setup_error
from sandbox_native.limits import Limits, Overflow
from sandbox_native.result import PEAK_OF_PROCESS, PEAK_OF_TREE, Status, Usage
from sandbox_native.units import format_bytes, format_seconds

_SECOND: Final = 1e9  # ns
_EXEC: Final = next(number for number, name in STAGES.items() if name == "exec")
_HELD_SECCOMP: Final = 4096
_HELD_LISTENER: Final = 524288


class Kind(IntEnum):
    """enum sn_report_kind"""

    STARTED = 1
    FAILED = 2
    ENDED = 3
    CHANGES = 4


class EndedBy(IntEnum):
    """enum sn_ended_by"""

    EXIT = 1
    WALL = 2
    CPU = 3
    MEMORY = 4
    CANCEL = 5
    OUTPUT = 6
    FILTER = 7


class ReportData(NamedTuple):
    """`struct sn_report` by its own names and in its order, its failure record flattened to `failure_…`."""

    kind: int
    ended_by: int = 0
    wait_status: int = 0
    wall_ns: int = 0
    cpu_ns: int = 0
    user_ns: int = 0
    system_ns: int = 0
    rusage_user_ns: int = 0
    rusage_system_ns: int = 0
    maxrss_bytes: int = 0
    sampled_bytes: int = 0
    group_peak_bytes: int = 0
    oom_kills: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    rlimits_kept: int = 0
    killed: int = 0
    peak_processes: int = 0
    held: int = 0
    forbidden_arch: int = 0
    forbidden_nr: int = 0
    failure_stage: int = 0
    failure_error: int = 0
    failure_item: str = ""

    @property
    def total_cpu_ns(self) -> int:
        """CPU time of the tree: the control group's figure, else that of the processes that init reaped."""
        return self.cpu_ns or self.rusage_user_ns + self.rusage_system_ns


class Verdict(NamedTuple):
    """`exit_code` only with ok and nonzero_exit, `signal` only with signaled: a limit's own SIGKILL is not the guest's."""

    status: Status
    exit_code: int | None = None
    signal: int | None = None
    hint: str | None = None


CallName = Callable[[int, int], str | None]
"""`(audit architecture, number) -> name of the system call`, None when it is not known."""


def failure(report: ReportData) -> SetupError | None:
    """The error to raise when we failed and the guest did not run; None when the report is one for `judge`."""
    if report.kind != Kind.FAILED or _does_not_fit(report):
        return None
    return setup_error(report.failure_stage, report.failure_error, report.failure_item)


def judge(report: ReportData, limits: Limits, call_name: CallName, *, overflowed: str | None = None) -> Verdict:
    """How the run ended.

    `overflowed` names the first stream ("stdout" or "stderr") whose total passed its bound, None when none did.

    What init ended the tree for is the status. Where the main process ended by itself, the limits are looked at once
    more, so that the verdict does not depend on who was faster: an OOM kill in the group, more CPU time than allowed
    and, with `Overflow.KILL`, too much output count at a clean exit too.

    :raises ValueError: the report is not the end of a run: `failure` says what it is.
    """
    if _does_not_fit(report):
        return Verdict(Status.MEMORY_LIMIT, hint=_exec_hint(limits))
    if report.kind != Kind.ENDED:
        raise ValueError(f"a report of kind {report.kind} is not the end of a run")
    match report.ended_by:
        case EndedBy.EXIT:
            return _by_itself(report, limits, overflowed)
        case EndedBy.MEMORY:
            return Verdict(Status.MEMORY_LIMIT, hint=_memory_hint(limits))
        case EndedBy.WALL:
            return Verdict(Status.WALL_LIMIT, hint=_wall_hint(report, limits))
        case EndedBy.CPU:
            return Verdict(Status.CPU_LIMIT, hint=_cpu_hint(report, limits))
        case EndedBy.OUTPUT:
            return Verdict(Status.OUTPUT_LIMIT, hint=_output_hint(limits, overflowed))
        case EndedBy.CANCEL:
            return Verdict(Status.CANCELLED)
        case EndedBy.FILTER:
            return Verdict(Status.FORBIDDEN_SYSCALL, hint=_call_hint(report, call_name))
    raise ValueError(f"no such end of a run: {report.ended_by}")


def usage(report: ReportData, core: int | None = None) -> Usage:
    """What the run cost; its units are seconds and bytes. `core`: the one that it was pinned to."""
    user, system = report.user_ns, report.system_ns
    if not user and not system:  # no group, or one whose split is too coarse for a short run
        user, system = report.rusage_user_ns, report.rusage_system_ns
    tree = report.peak_processes > 1 and report.sampled_bytes > report.maxrss_bytes
    return Usage(
        wall_seconds=report.wall_ns / _SECOND,
        cpu_seconds=report.total_cpu_ns / _SECOND,
        user_seconds=user / _SECOND,
        system_seconds=system / _SECOND,
        peak_memory_bytes=report.sampled_bytes if tree else report.maxrss_bytes,
        peak_memory_source=PEAK_OF_TREE if tree else PEAK_OF_PROCESS,
        peak_memory_upper_bytes=report.group_peak_bytes or None,
        peak_processes=report.peak_processes,
        voluntary_switches=report.voluntary_switches,
        involuntary_switches=report.involuntary_switches,
        core=core,
    )


def _does_not_fit(report: ReportData) -> bool:
    return report.kind == Kind.FAILED and report.failure_stage == _EXEC and report.failure_error == errno.ENOMEM


def _by_itself(report: ReportData, limits: Limits, overflowed: str | None) -> Verdict:
    if report.oom_kills:
        return Verdict(Status.MEMORY_LIMIT, hint=_memory_hint(limits))
    if limits.cpu_seconds is not None and report.total_cpu_ns > round(limits.cpu_seconds * _SECOND):
        return Verdict(Status.CPU_LIMIT, hint=_cpu_hint(report, limits))
    if overflowed is not None and limits.on_overflow is Overflow.KILL:
        return Verdict(Status.OUTPUT_LIMIT, hint=_output_hint(limits, overflowed))
    # The layout of a wait status is the same on all of Linux; os.WTERMSIG and kin are not there on every system.
    number = report.wait_status & 0x7F
    if number:
        return Verdict(Status.SIGNALED, signal=number, hint=_signal_hint(report, limits, number))
    code = report.wait_status >> 8 & 0xFF
    if code == 0:
        return Verdict(Status.OK, exit_code=0)
    return Verdict(Status.NONZERO_EXIT, exit_code=code, hint=_refusal_hint(report, limits, code in _REFUSED_CODES))


# The hints: one line each.

# Linux's numbers; the signal module lacks some on other systems.
_SIGILL, _SIGTRAP, _SIGABRT, _SIGBUS, _SIGSEGV, _SIGXFSZ, _SIGSYS = 4, 5, 6, 7, 11, 25, 31

# What a run-time does when it cannot reserve memory: Python and the JVM exit with 1, Go with 2, the dynamic loader
# with 127; node and C++ abort or trap.
_REFUSED_CODES: Final = frozenset({1, 2, 127})
_REFUSED_SIGNALS: Final = frozenset({_SIGILL, _SIGTRAP, _SIGABRT, _SIGBUS, _SIGSEGV})

_WAITING_SHARE: Final = 0.1  # of the wall time; a program that used less CPU was waiting
_NEAR_SHARE: Final = 0.9  # of the memory limit
_X32_BIT: Final = 0x40000000
_X86_64: Final = 0xC000003E
_ARCHITECTURES: Final = {_X86_64: "x86_64", 0x40000003: "i386", 0xC00000B7: "aarch64", 0x40000028: "arm"}


def _memory_hint(limits: Limits) -> str:
    return f"raise Limits.memory_bytes (now {format_bytes(limits.memory_bytes)})"


def _exec_hint(limits: Limits) -> str:
    space = limits.address_space_bytes
    other = "" if space is None else f" or Limits.address_space_bytes (now {format_bytes(space)})"
    return f"the program does not fit: {_memory_hint(limits)}{other}"


def _wall_hint(report: ReportData, limits: Limits) -> str:
    raise_it = f"raise Limits.wall_seconds (now {format_seconds(limits.wall_seconds)})"
    cpu = report.total_cpu_ns
    if cpu < report.wall_ns * _WAITING_SHARE:
        return f"{raise_it}; it used {format_seconds(cpu / _SECOND)} of CPU, so it was waiting"
    return raise_it


def _cpu_hint(report: ReportData, limits: Limits) -> str:
    now = "none" if limits.cpu_seconds is None else format_seconds(limits.cpu_seconds)
    return f"raise Limits.cpu_seconds (now {now}); the tree used {format_seconds(report.total_cpu_ns / _SECOND)}"


def _output_hint(limits: Limits, overflowed: str | None) -> str:
    bounds = {"stdout": limits.stdout_bytes, "stderr": limits.stderr_bytes}
    streams = bounds if overflowed is None else (overflowed,)
    which = " or ".join(f"Limits.{stream}_bytes (now {format_bytes(bounds[stream])})" for stream in streams)
    return f"raise {which}, or use Overflow.TRUNCATE"


def cut_hint(cut: Mapping[str, int], limits: Limits) -> str | None:
    """`cut`: stream ("stdout", "stderr") -> bytes that the guest wrote to it, of those that were not kept whole."""
    bounds = {"stdout": limits.stdout_bytes, "stderr": limits.stderr_bytes}
    parts = (
        f"{stream} was cut at {format_bytes(bounds[stream])} of {format_bytes(total)}: raise Limits.{stream}_bytes"
        for stream, total in cut.items()
    )
    return "; ".join(parts) or None


def _call_hint(report: ReportData, call_name: CallName) -> str:
    number, arch = report.forbidden_nr, report.forbidden_arch
    name = call_name(arch, number)
    of = _ARCHITECTURES.get(arch, f"architecture {arch:#x}")
    if arch == _X86_64 and number & _X32_BIT:
        number, of = number ^ _X32_BIT, "x32"
    return f"forbidden system call {number} ({name or 'unknown'}) of {of}"


def _signal_hint(report: ReportData, limits: Limits, number: int) -> str | None:
    if number == _SIGSYS:
        if report.held & _HELD_SECCOMP and not report.held & _HELD_LISTENER:
            return "a forbidden system call, or a SIGSYS that the program sent itself: this kernel does not tell which"
        return "the program sent SIGSYS to itself: no filter of ours ended it"
    if number == _SIGXFSZ:
        return f"a file grew past its bound: raise Limits.file_bytes (now {format_bytes(limits.file_bytes)})"
    if number == _SIGSEGV and limits.stack_bytes is not None:
        return f"perhaps a stack overflow: raise Limits.stack_bytes (now {format_bytes(limits.stack_bytes)})"
    return _refusal_hint(report, limits, True) if number in _REFUSED_SIGNALS else None


def _refusal_hint(report: ReportData, limits: Limits, looks_refused: bool) -> str | None:
    """What a program that failed by itself may have been refused; none of it leaves more trace than this."""
    peak = max(report.maxrss_bytes, report.sampled_bytes)
    if peak >= limits.memory_bytes * _NEAR_SHARE:
        return f"perhaps an allocation refused near the limit: peak {format_bytes(peak)}, {_memory_hint(limits)}"
    if report.peak_processes >= limits.processes > 1:
        return f"it had all the processes and threads that it may: raise Limits.processes (now {limits.processes})"
    if looks_refused and limits.address_space_bytes is not None:
        now = format_bytes(limits.address_space_bytes)
        return (
            f"perhaps address space that was refused: raise Limits.address_space_bytes (now {now}) or leave it out; "
            "run-times reserve far more than they use"
        )
    return None
