"""judge_function and FunctionJudge: programs judged by tests that call their functions. Public; Linux."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Final, Self

from sandbox_native import arguments
from sandbox_native.budget import Budget
from sandbox_native.errors import PolicyError, SandboxError
from sandbox_native.judge.functions.boxes import Boxes, Role
from sandbox_native.judge.functions.grading import Stop, graded
from sandbox_native.judge.functions.pair import Pair, Single
from sandbox_native.judge.functions.values import FunctionJudgement, FunctionTask
from sandbox_native.limits import Limits, Overflow
from sandbox_native.policy import Policy

DEFAULT_LIMITS: Final = Limits(
    wall_seconds=10, cpu_seconds=5, memory_bytes=512 << 20, processes=32, stderr_bytes=1 << 20, on_overflow=Overflow.KILL
)
"""Of a program: all its tests together."""


def without_floods(limits: Limits) -> Limits:
    """A flood ends the run: how long it would take to read and throw it away depends on what else the host does."""
    return limits if limits.on_overflow is Overflow.KILL else replace(limits, on_overflow=Overflow.KILL)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How programs are run; what FunctionJudge takes, as a value. `judge_function` keeps a judge for each."""

    python: str | None = None
    imports: tuple[str, ...] = ()
    policy: Policy | None = None
    same_process: bool = False


class FunctionJudge:
    """Judges programs by tests that call their functions, each pair in two boxes of its own. Safe in threads; a context manager.

    - `limits`: of a program, for all its tests together (`DEFAULT_LIMITS`). Its examiner has a little more time. What a program
      prints past its bound ends it, whatever `on_overflow` says.
    - `concurrency`: how many gradings run at once in a call (default: two for each core).
    - `python`, `imports`: the interpreter (default: the caller's own), and modules that programs and tests find imported;
      see WarmPython. Both interpreters have those of the standard library that such programs use most.
    - `policy`: of the program's box and the examiner's, with a fixed seed of hashes, time zone and locale unless
      it says otherwise.
    - `same_process`: program and tests in one process of one box: faster, and gameable, which each judgement says.

    Making one starts the interpreters; errors of a WarmPython. After a fork the child's copy makes its own at the first use.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        python: str | os.PathLike[str] | None = None,
        imports: Iterable[str] = (),
        policy: Policy | None = None,
        concurrency: int | None = None,
        same_process: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self._limits = arguments.checked("limits", limits, Limits, DEFAULT_LIMITS)
        self._places = arguments.places(concurrency) if concurrency is not None else 2 * arguments.places(None)
        shown = Policy.strict(deterministic=True) if policy is None else arguments.checked_policy(policy)
        self._roles = [Role.TOGETHER] if same_process else [Role.EXAMINER, Role.PROGRAM]
        self._boxes: list[Boxes] = []
        named = tuple(imports)
        try:
            for role in self._roles:
                made = Boxes(role, python=python, imports=named, policy=shown, prepared=self._places, budget=budget)
                self._boxes.append(made)
        except BaseException:
            self.close()
            raise

    @property
    def limits(self) -> Limits:
        return self._limits

    def judge(
        self,
        code: str,
        tests: str | Sequence[str],
        *,
        setup: str = "",
        names: Iterable[str] = (),
        module: str | None = None,
        limits: Limits | None = None,
    ) -> FunctionJudgement:
        """As `judge_function`."""
        task = FunctionTask.of(code, tests, setup=setup, names=names, module=module)
        for _, outcome in self.stream([task], limits=limits):
            if isinstance(outcome, SandboxError):
                raise outcome
            return outcome
        raise AssertionError("a grading has an outcome")

    def judge_many(self, tasks: Iterable[FunctionTask], *, limits: Limits | None = None) -> list[FunctionJudgement]:
        """Judgements in the order of the tasks. What failed on our side is raised when all others are done."""
        found = dict(self.stream(tasks, limits=limits))
        outcomes = [found[number] for number in sorted(found)]
        judgements = [outcome for outcome in outcomes if isinstance(outcome, FunctionJudgement)]
        for outcome in outcomes:
            if isinstance(outcome, SandboxError):
                raise outcome
        return judgements

    def stream(
        self, tasks: Iterable[FunctionTask], *, limits: Limits | None = None, stop: Stop | None = None
    ) -> Iterator[tuple[int, FunctionJudgement | SandboxError]]:
        """(number of the task, judgement) as they end; a SandboxError where something of ours failed. Tasks are taken as there is
        room for them."""
        given = arguments.checked("limits", limits, Limits, self._limits)
        return graded((partial(self.start, task, given) for task in tasks), self._places, stop)

    def start(self, task: FunctionTask, limits: Limits) -> Pair | Single:
        """A grading of its own, which the caller polls and closes; see grading.py."""
        if not self._boxes:
            raise PolicyError("this FunctionJudge is closed", remedy="make a new one")
        limits = without_floods(limits)
        if len(self._boxes) == 1:
            return Single(task, limits, self._boxes[0])
        return Pair(task, limits, *self._boxes)

    def close(self) -> None:
        """Ends what runs, and the interpreters. Harmless when repeated."""
        boxes, self._boxes = self._boxes, []
        for one in boxes:
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def judge_function(
    code: str,
    tests: str | Sequence[str],
    *,
    setup: str = "",
    names: Iterable[str] = (),
    module: str | None = None,
    limits: Limits | None = None,
    python: str | os.PathLike[str] | None = None,
    imports: Iterable[str] = (),
    policy: Policy | None = None,
    same_process: bool = False,
) -> FunctionJudgement:
    """Judges a program by tests that call its functions; see FunctionTask for `code`, `tests`, `setup`, `names` and `module`.

    The tests run in an examiner's box, the program in another. What a test calls is a stand-in, which sends the arguments over
    and gives what comes back. Only plain values cross: None, bool, int, float, complex, str, bytes, list, tuple, dict,
    set and frozenset, 100 deep and 8 MiB at most; instances of classes derived from them cross as the plain value. What a call
    changes in lists, dicts and sets that it was given is changed in the test's own when it returns, and the same object comes
    back as the same: `assert solve(a) == sorted(a)` passes a program that empties `a`, as it would in one process, so compare
    with what the program was not given. An exception crosses as its class, by name, and its text; StopIteration and kin as
    RuntimeError. A class of exceptions that the test has by a name of the program's catches what the program raised, and
    nothing of the test's own. What the program raises and nothing in the test sees (in a thread or task, or as the end of
    an iteration) fails the test. A plain global of the program has the value of the moment at which the test began, and as
    an attribute of the module that of the moment at which it is read.

    Not supported, and a failure that says so: answers that are not plain, such as generators and instances of the program's
    classes (WA), and arguments that are not, such as functions of the test (JE), and of the program, or are too large because of
    what the program gave (WA).

    The interpreters are kept for the next call with the same `python`, `imports`, `policy` and `same_process`, up to 4 pairs.
    From any thread. Errors as of FunctionJudge.
    """
    setting = Setting(
        python=None if python is None else os.fspath(python), imports=tuple(imports), policy=policy, same_process=same_process
    )
    return _KEPT.judge(setting).judge(code, tests, setup=setup, names=names, module=module, limits=limits)


def close_cached() -> None:
    """Closes what `judge_function` keeps; a later call starts anew."""
    _KEPT.close()


class _Judges:
    """By setting, last used last."""

    _MOST: Final = 4

    def __init__(self) -> None:
        self._kept: dict[Setting, FunctionJudge] = {}
        self.forget_users()

    def forget_users(self) -> None:
        """In a forked child of the host: who holds the lock is not here."""
        self._lock = threading.RLock()

    def judge(self, setting: Setting) -> FunctionJudge:
        with self._lock:
            judge = self._kept.pop(setting, None) or FunctionJudge(
                python=setting.python, imports=setting.imports, policy=setting.policy, same_process=setting.same_process
            )
            self._kept[setting] = judge
            if len(self._kept) > self._MOST:
                del self._kept[next(iter(self._kept))]  # closes itself when nobody judges with it any more
        return judge

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, {}
        for judge in kept.values():
            judge.close()


_KEPT: Final = _Judges()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_KEPT.forget_users)
