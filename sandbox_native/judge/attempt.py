"""One run of a submission on one input: its limits, and what its Result means. Host process.

Called by casework.py and interactive.py. The true cause comes first: a limit of time that was passed before anything else
happened is what counts, a run-time that says it was refused memory has not crashed for another reason, and what was written
before the end is kept.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sandbox_native.judge.program import Program
from sandbox_native.judge.values import Case, ProblemLimits, SourceFile
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.limits import UNLIMITED_STACK_BYTES, Limits, Overflow
from sandbox_native.result import Result, Status

HEAD_BYTES: Final = 4096  # of output and errors in a CaseResult
LARGEST_CAPTURE: Final = 64 << 20  # what Limits.stdout_bytes can be
_LEAST_MEMORY: Final = 1 << 20
_LIMITS: Final[Mapping[Status, tuple[Verdict, str | None]]] = {
    Status.WALL_LIMIT: (Verdict.TLE, "wall"),
    Status.CPU_LIMIT: (Verdict.TLE, "cpu"),
    Status.MEMORY_LIMIT: (Verdict.MLE, "memory"),
    Status.OUTPUT_LIMIT: (Verdict.OLE, "output"),
    Status.FORBIDDEN_SYSCALL: (Verdict.FS, None),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """How a run ended. `verdict` None: well, so its output is to be checked. `message`: why it is a JE."""

    verdict: Verdict | None
    limit: str | None = None
    message: str = ""


def problem_limits(limits: ProblemLimits, cpu_seconds: float) -> Limits:
    """What the problem lets a submission have, before its language is asked."""
    memory = max(_LEAST_MEMORY, limits.memory_bytes)
    output = min(limits.output_bytes, LARGEST_CAPTURE)
    return Limits(
        cpu_seconds=cpu_seconds,
        wall_seconds=limits.wall_limit(cpu_seconds),
        memory_bytes=memory,
        stack_bytes=memory,
        stdout_bytes=output,
        stderr_bytes=output,
        on_overflow=Overflow.KILL,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How a program is run for one problem.

    `cpu_seconds` is the limit that decides; `limits` end the run, and leave `rerun_near` more CPU time, so that one just above
    the limit is measured and not cut off.
    """

    program: Program
    cpu_seconds: float
    limits: Limits
    problem: Limits
    output_bytes: int

    @classmethod
    def of(cls, program: Program, limits: ProblemLimits, cpu_seconds: float, rerun_near: float = 0.0) -> Terms:
        stated = problem_limits(limits, cpu_seconds)
        run = program.limits(stated)
        allowed = run.cpu_seconds if run.cpu_seconds is not None else cpu_seconds
        return cls(
            program=program,
            cpu_seconds=allowed,
            limits=replace(run, cpu_seconds=allowed * (1 + rerun_near), stack_bytes=UNLIMITED_STACK_BYTES),
            problem=stated,
            output_bytes=limits.output_bytes,
        )

    def argv(self, case: Case) -> tuple[str, ...]:
        return self.program.argv(self.problem, case.arguments)

    def end(self, result: Result, *, overflowed: bool = False) -> End:
        """`overflowed`: it wrote more than it may, and somebody else than the box counted it."""
        if result.usage.cpu_seconds > self.cpu_seconds:
            return End(verdict=Verdict.TLE, limit="cpu")
        if overflowed:
            return End(verdict=Verdict.OLE, limit="output")
        known = _LIMITS.get(result.status)
        if known is not None:
            return End(verdict=known[0], limit=known[1])
        if result.ok:
            return End(verdict=None)
        if result.status is Status.CANCELLED:
            return End(verdict=Verdict.JE, message="the run was ended from outside")
        if self.program.lacked_memory(result):
            return End(verdict=Verdict.MLE, limit="memory")
        used_up = result.usage.peak_processes >= self.limits.processes
        return End(verdict=Verdict.RTE, limit="processes" if used_up else None)


@functools.cache
def signal_name(number: int | None) -> str | None:
    """SIGSEGV; SIG40 for one that has no name."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def placed(files: tuple[SourceFile, ...]) -> dict[str, bytes] | None:
    """A case's files, for the working directory."""
    if not files:
        return None
    return {file.name: file.content if isinstance(file.content, bytes) else file.content.read_bytes() for file in files}
