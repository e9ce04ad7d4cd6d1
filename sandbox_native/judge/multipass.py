"""One case of a multi-pass problem: the submission runs again and again on what the validator makes of its last output. Host
process.

Called by judging.py through setup.py. Source: the problem package format 2025-09, "Multi-pass validation": a validator that
says 42 and leaves nextpass.in wants another pass with that as input; everything else in its feedback directory stays from pass
to pass, and its own arguments are the same each time. nextpass.in with another exit code, or more passes than the package
states, are judge errors. Limits hold for each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sandbox_native.judge.attempt import End, Terms
from sandbox_native.judge.casework import case_result
from sandbox_native.judge.opinions import ACCEPTED, Opinion
from sandbox_native.judge.reruns import measured
from sandbox_native.judge.validators import NEXT_PASS, Validator
from sandbox_native.judge.values import Case, CaseResult, Source
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.result import Result
from sandbox_native.sandbox import Sandbox


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One pass that is over. `feedback`: the validator's directory, empty where it was not asked. `captured`: whether its output
    came by here."""

    result: Result
    end: End
    opinion: Opinion
    feedback: Mapping[str, bytes] = field(default_factory=dict)
    captured: bool = True

    @property
    def accepted(self) -> bool:
        return self.end.verdict is None and self.opinion.verdict is Verdict.AC


Run: TypeAlias = Callable[[Case, Source, Mapping[str, bytes]], Pass]
"""(case, input of the pass, feedback so far) -> the pass."""


class PlainPass:
    """A `Run` of a problem that is not interactive."""

    def __init__(self, sandbox: Sandbox, terms: Terms, validator: Validator) -> None:
        self._sandbox, self._terms, self._validator = sandbox, terms, validator

    def __call__(self, case: Case, given: Source, feedback: Mapping[str, bytes]) -> Pass:
        result = self._sandbox.run(
            self._terms.argv(case),
            stdin=given,
            limits=self._terms.limits,
            env=self._terms.program.env,
            files=self._terms.placed(case),
        )
        end = self._terms.end(result)
        if end.verdict is not None:
            return Pass(result=result, end=end, opinion=ACCEPTED)
        validation = self._validator.validate(case, result.stdout, case.input, feedback)
        return Pass(result=result, end=end, opinion=validation.opinion, feedback=validation.feedback)


class Passes:
    """Judges cases of one submission. Safe in threads."""

    def __init__(self, run: Run, terms: Terms, most: int, *, rerun_near: float = 0.0) -> None:
        """`most`: passes that a case may have."""
        self._run, self._terms, self._most, self._near = run, terms, most, rerun_near

    def judge(self, case: Case) -> CaseResult:
        """Errors of ours are raised: `SandboxError`, OSError. Times and memory are those of the pass that took most."""
        return measured(lambda: self._all(case), self._terms.cpu_seconds, self._near)

    def _all(self, case: Case) -> CaseResult:
        given: Source = case.input
        feedback: Mapping[str, bytes] = {}
        passes: list[Pass] = []
        while True:
            passes.append(self._run(case, given, feedback))
            wanted = passes[-1].feedback.get(NEXT_PASS)
            fault = self._fault(passes, wanted is not None)
            if fault or wanted is None or not passes[-1].accepted:
                return _summary(case, passes, fault)
            given = wanted
            feedback = {name: data for name, data in passes[-1].feedback.items() if name != NEXT_PASS}

    def _fault(self, passes: list[Pass], wanted: bool) -> str:
        """What the validator did wrong."""
        if not wanted or passes[-1].end.verdict is not None:
            return ""
        if passes[-1].opinion.verdict is Verdict.WA:
            return f"the output validator rejected pass {len(passes)} and left {NEXT_PASS}"
        if passes[-1].accepted and len(passes) == self._most:
            return f"the output validator wants more than {self._most} passes"
        return ""


def _summary(case: Case, passes: list[Pass], fault: str) -> CaseResult:
    last = passes[-1]
    found = replace(last.opinion, verdict=Verdict.JE, message=fault) if fault else last.opinion
    summary = case_result(case, last.result, last.end, found, passes=len(passes), captured=last.captured)
    usages = [one.result.usage for one in passes]
    most = max(usages, key=lambda usage: usage.peak_memory_bytes)
    if summary.noise is not None and len({usage.core for usage in usages}) > 1:
        summary = replace(summary, noise=replace(summary.noise, core=None))
    return replace(
        summary,
        cpu_seconds=max(usage.cpu_seconds for usage in usages),
        wall_seconds=max(usage.wall_seconds for usage in usages),
        peak_memory_bytes=most.peak_memory_bytes,
        peak_memory_source=most.peak_memory_source,
        killed_processes=sum(one.result.killed_processes for one in passes),
    )
