"""One case of one submission: run, checked, and run again where its time is close to the limit. Host process.

Made by setup.py; called by judging.py from any number of threads. `case_result` serves the other ways too. What checks is
either a comparison that is built in or a program of the package's own (validators.py); interactive and multi-pass problems have
their own ways (interactive.py, multipass.py).
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sandbox_native.errors import ExecError, SetupError
from sandbox_native.judge.attempt import HEAD_BYTES, LARGEST_CAPTURE, End, Terms, signal_name
from sandbox_native.judge.flowing import Flowed, flow
from sandbox_native.judge.noise import Watch
from sandbox_native.judge.opinions import ACCEPTED, Check, Compared, Opinion
from sandbox_native.judge.reruns import best_of, measured
from sandbox_native.judge.values import Case, CaseResult, Noise, Source
from sandbox_native.options import RunOptions
from sandbox_native.process import Process
from sandbox_native.result import Result
from sandbox_native.sandbox import Sandbox

_SEGV_HINT: Final = "a wild pointer, or an array that is larger than the memory limit; the stack has no limit of its own"
_SMALL_BYTES: Final = 64 << 10  # what a pipe takes at once


def given(source: Source) -> bytes | Path:
    """For `stdin=`: a short file as its bytes, which the guest's pipe takes in one step."""
    if isinstance(source, bytes):
        return source
    with open(source, "rb", buffering=0) as file:
        data = file.read(_SMALL_BYTES + 1)
        return data if len(data) <= _SMALL_BYTES else source


class Casework:
    """Judges cases of one submission: one after the other by a call each, or in steps (ahead.py). Safe in threads."""

    def __init__(self, sandbox: Sandbox, terms: Terms, check: Check, *, rerun_near: float = 0.0) -> None:
        """`rerun_near`: share of the CPU limit; see `judge`."""
        self._sandbox, self._terms, self._check = sandbox, terms, check
        self._near = rerun_near
        self._flows = terms.output_bytes > LARGEST_CAPTURE

    def __call__(self, case: Case) -> CaseResult:
        """Errors of ours are raised: `SandboxError`; OSError when a file of the case cannot be read."""
        return measured(lambda: self._once(case), self._terms.cpu_seconds, self._near)

    @property
    def has_steps(self) -> bool:
        """Whether all that is left when a run is over is a comparison of ours."""
        return not self._flows and isinstance(self._check, Compared)

    def start(self, case: Case) -> Process:
        """The first step of three. Errors as of a call."""
        return self._sandbox.spawn(self._terms.argv(case), **self._options(case))

    def result(self, case: Case, process: Process) -> Result:
        """The second: waits for the end."""
        with process:
            try:
                return process.wait()
            except ExecError:  # what is known of its path may be of before
                pass
            except SetupError:
                if not process.came_to_nothing:
                    raise
        return self._run(case)

    def is_settled(self, case: Case, result: Result) -> bool:
        """Whether the third takes no more than a moment: the run ended well, there is little to compare, and it is not measured
        again."""
        if isinstance(case.answer, Path) and case.answer.stat().st_size > _SMALL_BYTES:
            return False
        far = result.usage.cpu_seconds < self._terms.cpu_seconds * (1 - self._near)
        return far and result.stdout_total <= _SMALL_BYTES and self._terms.end(result).verdict is None

    def rated(self, case: Case, result: Result, watch: Watch) -> CaseResult:
        """The third."""
        first = watch.noted(self._checked(case, result))
        return best_of(first, lambda: self._once(case), self._terms.cpu_seconds, self._near)

    def _once(self, case: Case) -> CaseResult:
        if not self._flows:
            return self._checked(case, self._run(case))
        flowed = flow(self._sandbox, self._terms, case, given(case.input), self._check)
        return case_result(case, flowed.result, flowed.end, flowed.opinion, flowed)

    def _run(self, case: Case) -> Result:
        return self._sandbox.run(self._terms.argv(case), **self._options(case))

    def _options(self, case: Case) -> RunOptions:
        terms = self._terms
        return {"stdin": given(case.input), "limits": terms.limits, "env": terms.program.env, "files": terms.placed(case)}

    def _checked(self, case: Case, result: Result) -> CaseResult:
        end = self._terms.end(result)
        return case_result(case, result, end, ACCEPTED if end.verdict is not None else self._check(case, result.stdout))


def case_result(
    case: Case, result: Result, end: End, found: Opinion, flowed: Flowed | None = None, *, passes: int = 1, captured: bool = True
) -> CaseResult:
    """The value of a run that is over; `found` counts when it ended well. `captured`: whether its output came by here."""
    usage = result.usage
    total, head = (result.stdout_total, result.stdout[:HEAD_BYTES]) if flowed is None else (flowed.total, flowed.head)
    return CaseResult(
        case=case.name,
        verdict=end.verdict or found.verdict,
        cpu_seconds=usage.cpu_seconds,
        wall_seconds=usage.wall_seconds,
        peak_memory_bytes=usage.peak_memory_bytes,
        peak_memory_source=usage.peak_memory_source,
        exit_code=result.exit_code,
        signal=signal_name(result.signal),
        limit=end.limit or found.limit,
        message=found.message or end.message,
        team_message=found.team_message,
        difference=found.difference,
        score=found.score,
        score_multiplier=found.score_multiplier,
        output=head,
        output_bytes=total if captured else None,
        errors=result.stderr[:HEAD_BYTES] if flowed is None else flowed.errors,
        killed_processes=result.killed_processes,
        passes=passes,
        hint=_SEGV_HINT if result.signal == signal.SIGSEGV else result.hint,
        noise=Noise(
            voluntary_switches=usage.voluntary_switches,
            involuntary_switches=usage.involuntary_switches,
            runs=(usage.cpu_seconds,),
            core=usage.core,
        ),
    )


Judged = Callable[[Case], CaseResult]
"""How cases of one submission are judged: a Casework, and its kin."""
