"""RewardFunction: scores of programs for training loops. Public; Linux.

The work is functions/'s; here is the shape that such loops want: batches, in order, from threads, event loops and forked workers.
"""

from __future__ import annotations

import ast
import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from sandbox_native import arguments
from sandbox_native.errors import PolicyError, SandboxError
from sandbox_native.judge.checkers import comparison
from sandbox_native.judge.functions.api import DEFAULT_LIMITS, FunctionJudge, without_floods
from sandbox_native.judge.functions.boxes import Boxes, Role
from sandbox_native.judge.functions.grading import Stop, Stopped, UnderWay, graded
from sandbox_native.judge.functions.script import ScriptRuns
from sandbox_native.judge.functions.values import FunctionJudgement, FunctionTask
from sandbox_native.judge.values import CheckerKind
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.limits import Limits
from sandbox_native.policy import Policy

Text: TypeAlias = str | bytes
Tests: TypeAlias = Sequence[str] | Sequence[tuple[Text, Text]]
"""Snippets of Python, or (stdin, expected stdout)."""
_Checked: TypeAlias = tuple[str | tuple[bytes, bytes], ...]
"""Of one kind."""
_Start: TypeAlias = Callable[[], UnderWay[FunctionJudgement]]


class RewardFunction:
    """Scores programs: the share of the tests that each passes, 0.0 to 1.0. Safe in threads, forked workers (daemonic ones too),
    and picklable; a context manager.

    One for all tasks, never one for each: it keeps two or three interpreters with their boxes, and `score` takes tests for each
    program.

    - `tests`: of programs that bring none: snippets of Python as of FunctionTask, each judged from a box that the program
      cannot reach; or pairs (stdin, expected stdout), for which the program runs as a script. PolicyError for what is neither,
      and for a snippet that does not compile (where `python` is the caller's own).
    - `limits`: of a program, for all its snippets together, or for each pair (default: 5 s of CPU time, 10 s of wall time,
      512 MiB of memory, 32 processes, 4 MiB of output).
    - `setup`, `names`, `module`: of snippets; see FunctionTask. `checker`: of pairs (default: white space at the end of lines
      and empty lines at the end do not matter).
    - `extract`: makes the program of what is scored, such as `extract_program`; None: it is the program.
    - `on_judge_error`: the score of a program that could not be judged, since something of ours failed or a test is
      broken; None: that raises, once all others are done.
    - `python`, `imports`, `policy`, `concurrency`: as of FunctionJudge.

    Equal input gives equal scores: seed of hashes, time zone and locale are fixed, `random` is seeded for snippets (a script
    that draws from it seeds it itself), no run sees an earlier one. What a program does costs its own limits and nothing
    else. Snippets that eval or unpickle answers can be made to pass; see FunctionTask. The interpreters start at the first use.
    """

    def __init__(
        self,
        tests: Tests = (),
        *,
        limits: Limits | None = None,
        setup: str = "",
        names: Iterable[str] = (),
        module: str | None = None,
        checker: CheckerKind = CheckerKind.LINES,
        extract: Callable[[str], str] | None = None,
        on_judge_error: float | None = None,
        python: str | os.PathLike[str] | None = None,
        imports: Iterable[str] = (),
        policy: Policy | None = None,
        concurrency: int | None = None,
    ) -> None:
        self._tests = _checked("tests", tests)
        if python is None:
            _compile(self._tests)
        self._limits = without_floods(arguments.checked("limits", limits, Limits, DEFAULT_LIMITS))
        self._given = {"setup": setup, "names": tuple(names), "module": module}
        self._compare = comparison(checker)
        self._checker, self._extract, self._on_judge_error = checker, extract, on_judge_error
        self._python, self._imports, self._policy, self._concurrency = python, tuple(imports), policy, concurrency
        self._places = 2 * arguments.places(None) if concurrency is None else arguments.places(concurrency)
        self._renew()

    def _renew(self) -> None:
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._judge: FunctionJudge | None = None
        self._scripts: Boxes | None = None

    # ---- scoring ----

    def score(self, programs: Iterable[str], tests: Sequence[Tests] | None = None) -> list[float]:
        """The scores in the order of the programs. `tests`: those of each program, instead of the function's own.

        PolicyError for what makes no sense; what else failed on our side as `on_judge_error` says."""
        return [self._value(outcome) for outcome in self._outcomes(programs, tests, None)]

    async def score_async(self, programs: Iterable[str], tests: Sequence[Tests] | None = None) -> list[float]:
        """As `score`, in an event loop, with one thread for the batch. Cancelling it ends what runs, and returns when all of it
        is gone."""
        return [self._value(outcome) for outcome in await self._outcomes_async(programs, tests)]

    def diagnose(self, programs: Iterable[str], tests: Sequence[Tests] | None = None) -> list[FunctionJudgement]:
        """As `score`, with all that is known of each program; JE for what could not be judged."""
        return [_told(outcome) for outcome in self._outcomes(programs, tests, None)]

    async def diagnose_async(self, programs: Iterable[str], tests: Sequence[Tests] | None = None) -> list[FunctionJudgement]:
        """As `diagnose`, in an event loop; see `score_async`."""
        return [_told(outcome) for outcome in await self._outcomes_async(programs, tests)]

    def __call__(self, programs: Iterable[str], tests: Sequence[Tests] | None = None) -> list[float]:
        """As `score`."""
        return self.score(programs, tests)

    def _value(self, outcome: FunctionJudgement | SandboxError) -> float:
        if isinstance(outcome, FunctionJudgement) and all(test.verdict is not Verdict.JE for test in outcome.tests):
            return outcome.score
        if self._on_judge_error is not None:
            return self._on_judge_error
        if isinstance(outcome, SandboxError):
            raise outcome
        broken = next(test.message for test in outcome.tests if test.verdict is Verdict.JE)
        raise PolicyError(f"a test cannot be judged: {broken}", remedy="mend the test, or give on_judge_error= a score")

    def _outcomes(
        self, programs: Iterable[str], tests: Sequence[Tests] | None, stop: Stop | None
    ) -> list[FunctionJudgement | SandboxError]:
        texts = _listed("programs", programs, "give a list of programs")
        given = None if tests is None else _listed("tests", tests, "give a list of tests for each program")
        chosen = [self._tests] * len(texts) if given is None else [_checked(f"tests[{at}]", of) for at, of in enumerate(given)]
        if len(chosen) != len(texts):
            remedy = "give tests for each program, or none at all"
            raise PolicyError(f"{len(chosen)} for {len(texts)} programs", field="tests", value=len(chosen), remedy=remedy)
        starts = [self._start_of(text, of) for text, of in zip(texts, chosen, strict=True)]
        found = dict(graded(starts, self._places, stop))
        return [found[number] for number in range(len(starts))]

    async def _outcomes_async(
        self, programs: Iterable[str], tests: Sequence[Tests] | None
    ) -> list[FunctionJudgement | SandboxError]:
        stop = Stop()
        try:
            work = asyncio.get_running_loop().run_in_executor(None, self._outcomes, programs, tests, stop)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                stop.ask()
                await asyncio.wait([work])
                if work.done() and not work.cancelled():
                    work.exception()  # Stopped, which is as asked
                raise
        finally:
            stop.close()

    # ---- one program ----

    def _start_of(self, text: object, tests: _Checked) -> _Start:
        if not isinstance(text, str):
            raise PolicyError(f"not a str but {type(text).__name__}", field="programs", value=text, remedy="give source text")
        code = self._extract(text) if self._extract is not None else text
        if all(isinstance(test, str) for test in tests):
            snippets = [test for test in tests if isinstance(test, str)]
            task = FunctionTask.of(code, snippets, **self._given)  # type: ignore[arg-type]
            judge = self._function_judge()
            return lambda: judge.start(task, self._limits)
        pairs = [test for test in tests if not isinstance(test, str)]
        boxes = self._script_boxes()
        data = code.encode("utf-8", "surrogatepass")
        return lambda: ScriptRuns(data, pairs, self._limits, boxes, self._compare)

    def _function_judge(self) -> FunctionJudge:
        with self._own_lock():
            if self._judge is None:
                self._judge = FunctionJudge(
                    self._limits,
                    python=self._python,
                    imports=self._imports,
                    policy=self._policy,
                    concurrency=self._places,
                )
            return self._judge

    def _script_boxes(self) -> Boxes:
        with self._own_lock():
            if self._scripts is None:
                self._scripts = Boxes(
                    Role.SCRIPT,
                    python=self._python,
                    imports=self._imports,
                    policy=Policy.strict(deterministic=True) if self._policy is None else self._policy,
                    prepared=self._places,
                    budget=None,
                )
            return self._scripts

    def _own_lock(self) -> threading.Lock:
        if os.getpid() != self._pid:  # forked: who held it is not here, and the interpreters make their launchers anew
            self._lock, self._pid = threading.Lock(), os.getpid()
        return self._lock

    # ---- its end ----

    def close(self) -> None:
        """Ends what runs, and the interpreters. Harmless when repeated; a later `score` starts anew."""
        with self._own_lock():
            judge, scripts, self._judge, self._scripts = self._judge, self._scripts, None, None
        for kept in (judge, scripts):
            if kept is not None:
                kept.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _OF_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compare = comparison(self._checker)
        self._renew()


_OF_PROCESS: Final = frozenset({"_lock", "_pid", "_judge", "_scripts", "_compare"})


def _told(outcome: FunctionJudgement | SandboxError) -> FunctionJudgement:
    if isinstance(outcome, FunctionJudgement):
        return outcome
    return FunctionJudgement(verdict=Verdict.JE, tests=(), message=str(outcome))


def _listed(field: str, values: object, remedy: str) -> list[Any]:
    # A lone string would be taken letter by letter.
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise PolicyError(f"not a list but {type(values).__name__}", field=field, value=values, remedy=remedy)
    return list(values)


def _checked(field: str, tests: object) -> _Checked:
    given = _listed(field, tests, "give a list of snippets, or of pairs (stdin, expected)")
    if all(isinstance(test, str) for test in given):
        return tuple(given)
    return tuple(_pair(f"{field}[{at}]", test) for at, test in enumerate(given))


def _pair(field: str, test: object) -> tuple[bytes, bytes]:
    if not isinstance(test, tuple | list) or len(test) != 2 or not all(isinstance(side, str | bytes) for side in test):
        remedy = "give snippets of Python, or pairs (stdin, expected), and not both"
        raise PolicyError("neither", field=field, value=test, remedy=remedy)
    given, expected = (side.encode() if isinstance(side, str) else bytes(side) for side in test)
    return given, expected


def _compile(tests: _Checked) -> None:
    for at, test in enumerate(tests):
        if isinstance(test, str):
            try:
                ast.parse(test)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                reason = f"does not compile: {error or type(error).__name__}"
                raise PolicyError(reason, field=f"tests[{at}]", value=test, remedy="correct it there") from None


__all__ = ["RewardFunction", "Stopped", "Tests"]
