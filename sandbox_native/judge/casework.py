"""One case of one submission: run, checked, and run again where its time is close to the limit. Host process.

Made by setup.py; judging.py calls `judge` from any number of threads. `case_result` serves the other ways too. What checks is
either a comparison that is built in or a program of the package's own (validators.py); interactive and multi-pass problems have
their own ways (interactive.py, multipass.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from sandbox_native.judge.attempt import HEAD_BYTES, LARGEST_CAPTURE, End, Terms, placed, signal_name
from sandbox_native.judge.flowing import Flowed, flow
from sandbox_native.judge.opinions import ACCEPTED, Check, Opinion
from sandbox_native.judge.reruns import measured
from sandbox_native.judge.values import Case, CaseResult, Noise, Source
from sandbox_native.result import Result
from sandbox_native.sandbox import Sandbox

_SMALL_BYTES: Final = 64 << 10  # what a pipe takes at once


def given(source: Source) -> bytes | Path:
    """For `stdin=`: a short file as its bytes, which the guest's pipe takes in one step."""
    if isinstance(source, bytes):
        return source
    with open(source, "rb", buffering=0) as file:
        data = file.read(_SMALL_BYTES + 1)
        return data if len(data) <= _SMALL_BYTES else source


class Casework:
    """Judges cases of one submission. Safe in threads."""

    def __init__(self, sandbox: Sandbox, terms: Terms, check: Check, *, rerun_near: float = 0.0) -> None:
        """`rerun_near`: share of the CPU limit; see `judge`."""
        self._sandbox, self._terms, self._check = sandbox, terms, check
        self._near = rerun_near
        self._env = terms.program.env

    def judge(self, case: Case) -> CaseResult:
        """Errors of ours are raised: `SandboxError`; OSError when a file of the case cannot be read."""
        return measured(lambda: self._once(case), self._terms.cpu_seconds, self._near)

    def _once(self, case: Case) -> CaseResult:
        if self._terms.output_bytes > LARGEST_CAPTURE:
            return self._flowing(case)
        result = self._sandbox.run(
            self._terms.argv(case),
            stdin=given(case.input),
            limits=self._terms.limits,
            env=self._env,
            files=placed(case.files),
        )
        end = self._terms.end(result)
        found = ACCEPTED if end.verdict is not None else self._check(case, result.stdout)
        return case_result(case, result, end, found)

    def _flowing(self, case: Case) -> CaseResult:
        flowed = flow(self._sandbox, self._terms, case, given(case.input), self._check)
        return case_result(case, flowed.result, flowed.end, flowed.opinion, flowed)


def case_result(
    case: Case, result: Result, end: End, found: Opinion, flowed: Flowed | None = None, *, passes: int = 1
) -> CaseResult:
    """The value of a run that is over; `found` counts when it ended well."""
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
        message=found.message,
        team_message=found.team_message,
        difference=found.difference,
        score=found.score,
        score_multiplier=found.score_multiplier,
        output=head,
        output_bytes=total,
        errors=result.stderr[:HEAD_BYTES] if flowed is None else flowed.errors,
        killed_processes=result.killed_processes,
        passes=passes,
        hint=result.hint,
        noise=Noise(
            voluntary_switches=usage.voluntary_switches,
            involuntary_switches=usage.involuntary_switches,
            runs=(usage.cpu_seconds,),
        ),
    )


Judged = Callable[[Case], CaseResult]
"""How cases of one submission are judged: `Casework.judge` and its kin."""
