"""One function-style grading: the examiner's box and the program's, joined by two pipes of the kernel, and what came of it.

The host hears the outcomes from the examiner alone, over a stream of the examiner's own box. What it does not hear of a test is a
failure of that test.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from sandbox_native.judge.functions.boxes import Boxes, examiner_limits
from sandbox_native.judge.functions.values import FunctionJudgement, FunctionTask, TestOutcome
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.limits import Limits
from sandbox_native.pipe_end import PipeEnd
from sandbox_native.process import Process
from sandbox_native.result import Result, Status

ANSWER_BYTES: Final = 8 << 20
"""Of the values of one call, and of one answer."""
OUTPUT: Final = 64 << 10  # of what a program printed, kept in the judgement
_LEAVE_SECONDS: Final = 0.1

_VERDICTS: Final[Mapping[str, Verdict]] = {
    "passed": Verdict.AC,
    "assertion": Verdict.WA,
    "error": Verdict.WA,
    "answer": Verdict.WA,
    "skipped": Verdict.WA,
    "unused": Verdict.WA,
    "raised": Verdict.RTE,
    "forged": Verdict.RTE,
    "lost": Verdict.RTE,
    "not_loaded": Verdict.RTE,
    "argument": Verdict.JE,
    "bad_test": Verdict.JE,
}
BY_STATUS: Final[Mapping[Status, Verdict]] = {
    Status.WALL_LIMIT: Verdict.TLE,
    Status.CPU_LIMIT: Verdict.TLE,
    Status.MEMORY_LIMIT: Verdict.MLE,
    Status.OUTPUT_LIMIT: Verdict.OLE,
    Status.FORBIDDEN_SYSCALL: Verdict.FS,
}
_NOT_COMPILED: Final = ("SyntaxError", "IndentationError", "TabError")


class Pair:
    """A grading under way. Whoever made it polls it when one of its descriptors is readable, and closes it."""

    def __init__(self, task: FunctionTask, limits: Limits, examiners: Boxes, programs: Boxes) -> None:
        """Starts both boxes."""
        self._task = task
        self._ended: list[Result | None] = [None, None]
        self._kill_at = 0.0
        with ExitStack() as stack, _joined() as (questions, answers):
            program = programs.spawn(
                {"program.py": task.code.encode("utf-8", "surrogatepass")},
                most=ANSWER_BYTES,
                limits=limits,
                stdin=PipeEnd(questions[0]),
                stdout=PipeEnd(answers[1]),
            )
            stack.callback(program.close)
            examiner = examiners.spawn(
                {"tests.json": encoded(task)},
                most=ANSWER_BYTES,
                limits=examiner_limits(limits, len(task.tests)),
                stdin=PipeEnd(answers[0]),
                stdout=PipeEnd(questions[1]),
            )
            stack.pop_all()
        self._processes: tuple[Process, Process] = (examiner, program)

    def descriptors(self) -> list[int]:
        """Of the boxes that have not ended."""
        return [process.fileno() for process, result in zip(self._processes, self._ended, strict=True) if result is None]

    def poll(self) -> FunctionJudgement | None:
        """Serves what is ready; the judgement once both boxes have ended. SetupError when something of ours failed."""
        for at, process in enumerate(self._processes):
            if self._ended[at] is None:
                self._ended[at] = process.poll()
        examiner, program = self._ended
        if examiner is None:
            return None
        if program is None:
            self._end_program()
            return None
        return judgement_of(self._task, examiner, program)

    def _end_program(self) -> None:
        """All is said, and a program that reads on sees the end of its questions: it has a moment to leave by itself."""
        now = time.monotonic()
        self._kill_at = self._kill_at or now + _LEAVE_SECONDS
        if now >= self._kill_at:
            self._processes[1].kill()

    def close(self) -> None:
        """Ends what runs. Harmless when repeated."""
        with ExitStack() as stack:
            for process in self._processes:
                stack.callback(process.close)


class Single:
    """As Pair, with program and tests in one box."""

    def __init__(self, task: FunctionTask, limits: Limits, together: Boxes) -> None:
        self._task = task
        files = {"program.py": task.code.encode("utf-8", "surrogatepass"), "tests.json": encoded(task)}
        self._process = together.spawn(files, most=ANSWER_BYTES, limits=limits)

    def descriptors(self) -> list[int]:
        return [self._process.fileno()]

    def poll(self) -> FunctionJudgement | None:
        result = self._process.poll()
        return None if result is None else judgement_of(self._task, result, result, gameable=True)

    def close(self) -> None:
        self._process.close()


@contextmanager
def _joined() -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Two pipes, closed here when the boxes have them: each is to see the end of the other."""
    with ExitStack() as stack:
        pipes = []
        for _ in range(2):
            pipe = os.pipe()
            pipes.append(pipe)
            for end in pipe:
                stack.callback(os.close, end)
        yield pipes[0], pipes[1]


def encoded(task: FunctionTask) -> bytes:
    """What the examiner reads."""
    given = {"tests": task.tests, "setup": task.setup, "names": task.names, "module": task.module, "most": ANSWER_BYTES}
    return json.dumps(given).encode("ascii")


# ---- what came of it ----


def judgement_of(task: FunctionTask, examiner: Result, program: Result, *, gameable: bool = False) -> FunctionJudgement:
    told = _told(examiner.stdout if gameable else examiner.stderr)
    outcomes = tuple(_outcome(told.get(number), examiner, program) for number in range(len(task.tests)))
    first = next((outcome for outcome in outcomes if not outcome.passed), None)
    output = program.stderr
    return FunctionJudgement(
        verdict=Verdict.AC if first is None else first.verdict,
        tests=outcomes,
        gameable=gameable,
        message="" if first is None else first.message,
        status=program.status.value,
        cpu_seconds=program.usage.cpu_seconds,
        wall_seconds=program.usage.wall_seconds,
        peak_memory_bytes=program.usage.peak_memory_bytes,
        killed_processes=program.killed_processes,
        output=output[:OUTPUT],
        output_bytes=program.stderr_total,
    )


def _told(stream: bytes) -> dict[int, dict[str, Any]]:
    """What the examiner said, by test; a line that is cut short says nothing, and so does one that is no outcome: where program
    and tests share a process anybody can write there, and an examiner that was started cold may leave a traceback."""
    found = {}
    for line in stream.splitlines(keepends=True):
        if line.endswith(b"\n"):
            told = _outcome_in(line)
            if told is not None:
                found[told["test"]] = told
    return found


def _outcome_in(line: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match told:
        case {"test": int(), "kind": str(kind), "text": str(), "seconds": int() | float()} if kind in _VERDICTS:
            return dict(told)
    return None


def _outcome(told: dict[str, Any] | None, examiner: Result, program: Result) -> TestOutcome:
    if told is None:
        return _unheard(examiner, program)
    kind, text = told["kind"], told["text"]
    verdict = _VERDICTS[kind]
    if kind == "lost":
        verdict, text = _ending(program)
    elif kind == "not_loaded":
        verdict = Verdict.CE if text.startswith(_NOT_COMPILED) else Verdict.RTE
        text = f"the program could not be loaded: {text}"
    elif kind == "raised":
        text = f"the program raised {text}"
    elif kind == "forged":
        text = f"the program broke the line: {text}"
    return TestOutcome(verdict=verdict, message=text, seconds=told["seconds"])


def _unheard(examiner: Result, program: Result) -> TestOutcome:
    """No word on a test. An examiner that waits for the program tells of its end; one that was ended was busy until then, and the
    program may have been idle for longer than it may live."""
    if examiner is not program and examiner.status in BY_STATUS:
        text = f"no outcome: the test itself was ended ({examiner.status.value}), at work of its own or on what the program gave"
        return TestOutcome(verdict=BY_STATUS[examiner.status], message=text)
    if program.status in BY_STATUS:
        return TestOutcome(verdict=BY_STATUS[program.status], message=f"no outcome: {program.hint or program.status.value}")
    verdict = Verdict.JE if examiner is not program and examiner.status is not Status.OK else Verdict.RTE
    how = f"{examiner.status.value}, exit code {examiner.exit_code}, signal {examiner.signal}"
    return TestOutcome(verdict=verdict, message=f"no outcome: the examiner ended ({how})")


def _ending(program: Result) -> tuple[Verdict, str]:
    """Of a program that was gone when it was asked."""
    status = program.status
    if status in BY_STATUS:
        return BY_STATUS[status], f"the program was ended: {program.hint or status.value}"
    how = f"by signal {program.signal}" if status is Status.SIGNALED else f"with exit code {program.exit_code}"
    if status is Status.CANCELLED:
        how = "its answers"
    return Verdict.RTE, f"the program ended {how} before the tests were over"
