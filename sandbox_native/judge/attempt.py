"""One run of a submission on one input: its limits, and what its Result means. Host process.

Called by casework.py and interactive.py. The true cause comes first: a limit of time that was passed before anything else
happened is what counts, a run-time that says it was refused memory has not crashed for another reason if it can have been, and
what was written before the end is kept.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sandbox_native.judge.language import Language
from sandbox_native.judge.program import Program
from sandbox_native.judge.values import Case, ProblemLimits, ProgramSource, SourceFile
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.limits import UNLIMITED_STACK_BYTES, Limits, Overflow
from sandbox_native.result import Result, Status

HEAD_BYTES: Final = 4096  # of output and errors in a CaseResult
LARGEST_CAPTURE: Final = 64 << 20  # what Limits.stdout_bytes can be
_LEAST_MEMORY: Final = 1 << 20
_MUCH: Final = 0.5  # of the memory that it may have; what it was refused may have been the rest
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
        file_bytes=memory,  # all that it may write to is memory
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
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What the program finds in its working directory beside the files of a case: `beside`."""

    @classmethod
    def of(
        cls,
        program: Program,
        limits: ProblemLimits,
        cpu_seconds: float,
        rerun_near: float = 0.0,
        files: Mapping[str, bytes] | None = None,
    ) -> Terms:
        stated = problem_limits(limits, cpu_seconds)
        run = program.limits(stated)
        allowed = run.cpu_seconds if run.cpu_seconds is not None else cpu_seconds
        return cls(
            program=program,
            cpu_seconds=allowed,
            limits=replace(run, cpu_seconds=allowed * (1 + rerun_near), stack_bytes=UNLIMITED_STACK_BYTES),
            problem=stated,
            output_bytes=limits.output_bytes,
            files=files or {},
        )

    def placed(self, case: Case) -> dict[str, bytes] | None:
        """For the working directory: what goes with the program, and the case's own files, which count where both have a name.
        OSError: one cannot be read."""
        if not self.files and not case.files:
            return None
        return {**self.files, **{file.name: _content(file) for file in case.files}}

    def argv(self, case: Case) -> tuple[str, ...]:
        return self.program.argv(self.problem, case.arguments)

    def end(self, result: Result, *, overflowed: bool = False) -> End:
        """`overflowed`: it wrote more than it may, and somebody else than the box counted it. The limit is of stdout and stderr
        together; each alone ends the run, both together are added up when it is over."""
        if result.usage.cpu_seconds > self.cpu_seconds:
            return End(verdict=Verdict.TLE, limit="cpu")
        if overflowed or result.stdout_total + result.stderr_total > self.output_bytes:
            return End(verdict=Verdict.OLE, limit="output")
        known = _LIMITS.get(result.status)
        if known is not None:
            return End(verdict=known[0], limit=known[1])
        if result.ok:
            return End(verdict=None)
        if result.status is Status.CANCELLED:
            return End(verdict=Verdict.JE, message="the run was ended from outside")
        if self._may_lack_memory(result) and self.program.lacked_memory(result):
            return End(verdict=Verdict.MLE, limit="memory")
        used_up = result.usage.peak_processes >= self.limits.processes
        return End(verdict=Verdict.RTE, limit="processes" if used_up else None)

    def _may_lack_memory(self, result: Result) -> bool:
        """Whether to believe words that any program can write: it had much of its memory, or what refuses is no limit of ours
        but of its run-time, which has not touched what it refuses, or of its address space."""
        own = self.program.language.bounds_memory or self.limits.address_space_bytes is not None
        return own or result.usage.peak_memory_bytes >= _MUCH * self.limits.memory_bytes


@functools.cache
def signal_name(number: int | None) -> str | None:
    """SIGSEGV; SIG40 for one that has no name."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def beside(source: ProgramSource, language: Language) -> dict[str, bytes]:
    """The files of a submission of several (those that the problem includes among them) that are no sources of its language:
    data, which the format has in the working directory. Sources stay where the program is. OSError: one cannot be read."""
    if len(source.files) == 1:
        return {}
    return {file.name: _content(file) for file in source.files if not language.is_source(file.name)}


def _content(file: SourceFile) -> bytes:
    return file.content if isinstance(file.content, bytes) else file.content.read_bytes()
