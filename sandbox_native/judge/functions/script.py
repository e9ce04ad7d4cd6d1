"""A program as a script, run once for each (stdin, expected) pair, one after the other. As Pair; started by rewards.py."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

from sandbox_native.judge.checkers import Comparison
from sandbox_native.judge.functions.boxes import Boxes
from sandbox_native.judge.functions.pair import BY_STATUS, OUTPUT
from sandbox_native.judge.functions.values import FunctionJudgement, TestOutcome
from sandbox_native.judge.opinions import quoted
from sandbox_native.judge.outcomes import Difference
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.limits import Limits
from sandbox_native.process import Process
from sandbox_native.result import Result, Status

_SHOWN: Final = 80  # bytes of what was expected, and of what came


class ScriptRuns:
    def __init__(
        self, code: bytes, pairs: Sequence[tuple[bytes, bytes]], limits: Limits, boxes: Boxes, compare: Comparison
    ) -> None:
        """Starts the first; `pairs` has one at least."""
        self._code, self._pairs, self._limits, self._boxes, self._compare = code, pairs, limits, boxes, compare
        self._outcomes: list[TestOutcome] = []
        self._results: list[Result] = []
        self._process = self._start()

    def _start(self) -> Process:
        return self._boxes.spawn_script(self._code, self._pairs[len(self._outcomes)][0], self._limits)

    def descriptors(self) -> list[int]:
        return [self._process.fileno()]

    def poll(self) -> FunctionJudgement | None:
        result = self._process.poll()
        if result is None:
            return None
        self._outcomes.append(self._outcome(result, self._pairs[len(self._outcomes)][1]))
        self._results.append(result)
        if len(self._outcomes) == len(self._pairs):
            return self._judgement()
        self._process.close()
        self._process = self._start()
        return None

    def _outcome(self, result: Result, expected: bytes) -> TestOutcome:
        seconds = result.usage.wall_seconds
        if result.status in BY_STATUS:
            return TestOutcome(verdict=BY_STATUS[result.status], message=result.hint or result.status.value, seconds=seconds)
        if result.status is not Status.OK:
            lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
            how = f"signal {result.signal}" if result.signal else f"exit code {result.exit_code}"
            return TestOutcome(verdict=Verdict.RTE, message=": ".join([how, *lines[-1:]]), seconds=seconds)
        found = self._compare(io.BytesIO(result.stdout), io.BytesIO(expected))
        if found is None:
            return TestOutcome(verdict=Verdict.AC, seconds=seconds)
        return TestOutcome(verdict=Verdict.WA, message=_shown(found), seconds=seconds)

    def _judgement(self) -> FunctionJudgement:
        outcomes, results = tuple(self._outcomes), self._results
        first = next((at for at, outcome in enumerate(outcomes) if not outcome.passed), None)
        told = results[first or 0]
        return FunctionJudgement(
            verdict=Verdict.AC if first is None else outcomes[first].verdict,
            tests=outcomes,
            message="" if first is None else outcomes[first].message,
            status=told.status.value,
            cpu_seconds=sum(result.usage.cpu_seconds for result in results),
            wall_seconds=sum(result.usage.wall_seconds for result in results),
            peak_memory_bytes=max(result.usage.peak_memory_bytes for result in results),
            killed_processes=sum(result.killed_processes for result in results),
            output=told.stderr[:OUTPUT],
            output_bytes=told.stderr_total,
        )

    def close(self) -> None:
        self._process.close()


def _shown(found: Difference) -> str:
    where = f"line {found.line}, column {found.column}"
    expected, got = ("nothing" if side is None else quoted(side[:_SHOWN]) for side in (found.expected, found.got))
    return f"{where}: expected {expected}, got {got}"
