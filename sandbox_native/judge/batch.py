"""One call of `Judge.many`: submissions are taken from the input as there is room, judged, and given as they are done or in
order. Host process; called by workers.py.

Nothing is locked while the caller has the word. What was taken from the input and not given yet is in `_futures` until the very
moment it is given, so that a Ctrl-C, which Python raises between any two steps, neither loses a judgement nor gives it twice.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from sandbox_native.errors import PolicyError, SandboxError
from sandbox_native.judge.handed_in import SourceError, source_at
from sandbox_native.judge.judging import refused
from sandbox_native.judge.lending import Borrower, Worker, Workers
from sandbox_native.judge.outcomes import CaseResult, Judgement
from sandbox_native.judge.problems import load_problem
from sandbox_native.judge.values import Problem, ProgramSource
from sandbox_native.judge.verdicts import Verdict

Path: TypeAlias = str | os.PathLike[str]
T = TypeVar("T", bound=ProgramSource | Problem)
Work: TypeAlias = tuple[ProgramSource | Path, Problem | Path]
"""(submission, problem), each a value or a path as of `judge`."""

_AHEAD: Final = 2  # submissions for each worker that are taken from the input and not given yet
_AHEAD_ORDERED: Final = 32  # the same, where all may wait for the first


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """`number`: of the submission in the input, from 0."""

    number: int
    judgement: Judgement


OnCase: TypeAlias = Callable[[int, CaseResult], object]


class Batch:
    """One use."""

    def __init__(self, workers: Workers, works: Iterator[Work], *, ordered: bool, on_case: OnCase | None) -> None:
        self._workers, self._works, self._ordered, self._on_case = workers, works, ordered, on_case
        self._most = (_AHEAD_ORDERED if ordered else _AHEAD) * workers.count
        self._futures: dict[int, Future[Judged]] = {}  # by the number of the submission
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._taken = 0
        self._more = True
        self._borrower = Borrower()
        self._threads: set[int] = set()
        self._pid = os.getpid()
        self._reading = threading.Lock()
        self._problems: dict[str, Future[Problem]] = {}  # by the path

    def outcomes(self) -> Generator[Judged, None, None]:
        """See `Judge.many`."""
        pool = ThreadPoolExecutor(self._workers.count, "sandbox-native-judge", initializer=self._begin)
        try:
            while self._fill(pool):
                number = self._next()
                judged = self._judged(number)
                del self._futures[number]
                yield judged
        except KeyboardInterrupt:
            self._stop(pool)
            for number in sorted(self._futures):
                if _is_done(self._futures[number]):
                    judged = self._judged(number)
                    del self._futures[number]
                    yield judged
            raise
        finally:
            self._stop(pool)

    def _fill(self, pool: ThreadPoolExecutor) -> bool:
        """Takes from the input until there is no room or an outcome, which need not wait for a slow input; whether anything is
        under way."""
        while self._more and len(self._futures) < self._most:
            for work in self._works:
                self._submit(pool, *checked(self._taken, work))
                break
            else:
                self._more = False
            if self._has_outcome:
                break
        return bool(self._futures)

    def _submit(self, pool: ThreadPoolExecutor, source: ProgramSource | Path, problem: Problem | Path) -> None:
        number, self._taken = self._taken, self._taken + 1
        future = self._futures[number] = pool.submit(self._work, number, Given(source), Given(problem))
        if not self._ordered:
            future.add_done_callback(lambda _: self._ended.put(number))

    @property
    def _has_outcome(self) -> bool:
        return next(iter(self._futures.values())).done() if self._ordered and self._futures else not self._ended.empty()

    def _next(self) -> int:
        """Waits for it."""
        return next(iter(self._futures)) if self._ordered else self._ended.get()

    def _judged(self, number: int) -> Judged:
        try:
            return self._futures[number].result()
        except CancelledError:
            self._workers.check()
            raise

    def _stop(self, pool: ThreadPoolExecutor) -> None:
        """Ends what runs. Goes on where a second Ctrl-C broke it off."""
        if os.getpid() != self._pid:  # a fork's copy: its threads are the parent's
            return
        self._workers.send_away(self._borrower)
        pool.shutdown(wait=threading.get_ident() not in self._threads, cancel_futures=True)
        self._workers.forget(self._borrower)

    # ---- in the threads ----

    def _begin(self) -> None:
        self._threads.add(threading.get_ident())

    def _work(self, number: int, source: Given[ProgramSource], problem: Given[Problem]) -> Judged:
        with self._workers.lent(self._borrower) as worker:
            if worker is None:
                raise CancelledError
            judgement = self._judgement(worker, number, source, problem)
            if worker.interrupted:
                raise CancelledError  # its run may have been ended from outside
        return Judged(number=number, judgement=judgement)

    def _judgement(self, worker: Worker, number: int, source: Given[ProgramSource], problem: Given[Problem]) -> Judgement:
        on_case, failed = self._on_case, False

        def told(result: CaseResult) -> None:
            nonlocal failed
            if on_case is not None and not worker.interrupted:
                failed = True
                on_case(number, result)
                failed = False

        try:
            program = source.value or source_at(source.path)
            return worker.judge(program, problem.value or self._read(problem.path), None if on_case is None else told)
        except (SandboxError, OSError) as error:
            if failed:  # the caller's own
                raise
            if isinstance(error, SourceError):
                return refused(source.name, problem.name, error)
            return Judgement(submission=source.name, problem=problem.name, verdict=Verdict.JE, message=str(error))

    def _read(self, path: str) -> Problem:
        """One value for each path, or one error; who reads another one does not wait."""
        with self._reading:
            known = self._problems.get(path)
            reading = self._problems.setdefault(path, Future())
        if known is None:
            try:
                reading.set_result(load_problem(path))
            except BaseException as error:
                reading.set_exception(error)
                raise
        return reading.result()


class Given(Generic[T]):
    """A value, or where it is to be read: a relative path means what it meant when it was given."""

    def __init__(self, given: T | Path) -> None:
        self.value, self.path, self.name = None, "", ""
        if isinstance(given, str | os.PathLike):
            self.name = os.fspath(given)
            self.path = self.name and os.path.join(os.getcwd(), self.name)
        else:
            self.value, self.name = given, given.name


def checked(number: int, work: object) -> Work:
    """An item of the input. PolicyError: it is none."""
    if isinstance(work, tuple) and len(work) == 2:
        source, problem = work
        if isinstance(source, ProgramSource | str | os.PathLike) and isinstance(problem, Problem | str | os.PathLike):
            return source, problem
    remedy = "give (submission, problem), each a value or a path"
    raise PolicyError("no submission and problem", field=f"works[{number}]", value=repr(work)[:200], remedy=remedy)


def _is_done(future: Future[Judged]) -> bool:
    """Whether it was judged to its end."""
    return future.done() and not future.cancelled() and future.exception() is None
