"""Judge: many submissions over several workers, their judgements as they come. Host process.

A worker is a thread with Sandboxes of its own, bound to one core: what its launchers start stays there, so programs that are
timed do not wander and do not wait for one another. Checking is C code and waiting is without the GIL, so threads are enough,
and they share what was compiled.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeAlias

from sandbox_native.errors import PolicyError, SandboxError
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.judging import Judging, source_at
from sandbox_native.judge.outcomes import CaseResult, Judgement
from sandbox_native.judge.problems import load_problem
from sandbox_native.judge.setup import Options, Setup
from sandbox_native.judge.values import Problem, ProgramSource
from sandbox_native.judge.verdicts import Verdict

Path: TypeAlias = str | os.PathLike[str]
Work: TypeAlias = tuple[ProgramSource | Path, Problem | Path]
"""(submission, problem), each a value or a path as of `judge`."""

_AHEAD: Final = 2  # submissions that are taken from the input for each worker
_MOST_WORKERS: Final = 1024
_KEPT_PROBLEMS: Final = 8
_DEFAULT: Final = Options()


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """`number`: of the submission in the input, from 0."""

    number: int
    judgement: Judgement


OnCase: TypeAlias = Callable[[int, CaseResult], object]


class Judge:
    """A context manager. `workers`: submissions at once (default: one for each core that this process may use); `pinned`: each
    on a core of its own. `options` as of `judge`.

    `UnsupportedError` comes with the first judgement when this machine cannot isolate programs.
    """

    def __init__(self, workers: int | None = None, options: Options = _DEFAULT, *, pinned: bool = True) -> None:
        cores = sorted(os.sched_getaffinity(0))
        count = len(cores) if workers is None else workers
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_WORKERS:
            raise PolicyError("not a number of workers", field="workers", value=workers, remedy=f"give 1 to {_MOST_WORKERS}")
        self._lock = threading.Lock()
        self._closed = False
        self._workers = [_Worker(options, cores[at % len(cores)] if pinned else None) for at in range(count)]

    def many(
        self, works: Iterable[Work], *, ordered: bool = False, on_case: OnCase | None = None
    ) -> Generator[Judged, None, None]:
        """Judges all of them, and gives each judgement when it is there (`ordered`: in the order of the input).

        The input is read as there is room. `on_case` is called with the submission's number and each case's result, in a worker's
        thread. What goes wrong with one submission or problem is its JE. KeyboardInterrupt ends what runs and comes through
        after what is done was given. One call at a time.
        """
        with self._lock:
            if self._closed:
                raise PolicyError("this Judge is closed", remedy="make a new one")
            batch = _Batch(self._workers, on_case)
            given = batch.outcomes(iter(works))
            with contextlib.closing(given):
                yield from _in_order(given) if ordered else given

    def close(self) -> None:
        """Ends what runs. Harmless when repeated."""
        self._closed = True
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _in_order(given: Iterator[Judged]) -> Iterator[Judged]:
    early: dict[int, Judged] = {}
    expected = 0
    try:
        for judged in given:
            early[judged.number] = judged
            while expected in early:
                yield early.pop(expected)
                expected += 1
    finally:
        rest = [early[number] for number in sorted(early)]
    yield from rest


class _Worker:
    """What one thread judges with; used by one thread at a time, closed by any."""

    def __init__(self, options: Options, core: int | None) -> None:
        self.core, self._options = core, options
        self._boxes = Boxes()
        self._setups: OrderedDict[int, Setup] = OrderedDict()  # by the identity of the problem, which they keep alive

    def judge(self, source: ProgramSource, problem: Problem, on_case: Callable[[CaseResult], object] | None) -> Judgement:
        setup = self._setups.get(id(problem))
        if setup is None:
            setup = self._setups[id(problem)] = Setup(problem, self._options, self._boxes)
            if len(self._setups) > _KEPT_PROBLEMS:
                self._setups.popitem(last=False)[1].close()
        self._setups.move_to_end(id(problem))
        return Judging(setup, source, self._options).judgement(on_case)

    def interrupt(self) -> None:
        """Ends what runs, and lets nothing begin until `renew`."""
        self._boxes.close()

    def forget(self) -> None:
        """The problems; of a worker that does nothing."""
        setups, self._setups = self._setups, OrderedDict()
        for setup in setups.values():
            setup.close()

    def renew(self) -> None:
        """After `interrupt`, when its thread has ended."""
        self.forget()
        self._boxes = Boxes()

    def close(self) -> None:
        self.interrupt()
        self.forget()


class _Batch:
    """One call of `many`."""

    def __init__(self, workers: list[_Worker], on_case: OnCase | None) -> None:
        self._workers, self._on_case = workers, on_case
        self._free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._own = threading.local()  # each thread's worker
        self._ended: queue.SimpleQueue[Future[Judged]] = queue.SimpleQueue()
        self._stopped = False
        self._under_way = 0
        self._problems: dict[str, Problem] = {}
        for worker in workers:
            self._free.put(worker)

    def outcomes(self, works: Iterator[Work]) -> Generator[Judged, None, None]:
        pool = ThreadPoolExecutor(len(self._workers), "sandbox-native-judge", initializer=self._begin)
        try:
            yield from self._given(works, pool)
        except KeyboardInterrupt:
            self._stop(pool)
            while not self._ended.empty():
                future = self._ended.get()
                if not future.cancelled() and future.exception() is None:
                    yield future.result()
            raise
        finally:
            self._stop(pool)

    def _given(self, works: Iterator[Work], pool: ThreadPoolExecutor) -> Iterator[Judged]:
        number = 0
        more = True
        while True:
            while more and self._under_way < _AHEAD * len(self._workers):
                work = next(works, None)
                if work is None:
                    more = False
                    break
                pool.submit(self._judged, number, work[0], self._read(work[1])).add_done_callback(self._ended.put)
                number, self._under_way = number + 1, self._under_way + 1
            if not self._under_way:
                return
            judged = self._ended.get().result()
            self._under_way -= 1
            yield judged

    def _read(self, problem: Problem | Path) -> Problem:
        """One value for each path."""
        if isinstance(problem, Problem):
            return problem
        key = os.path.abspath(problem)
        if key not in self._problems:
            self._problems[key] = load_problem(problem)
        return self._problems[key]

    def _stop(self, pool: ThreadPoolExecutor) -> None:
        """Ends what runs; nothing that was ended so becomes a judgement. What every problem's own programs need goes; the
        Sandboxes stay when nothing was running."""
        if self._stopped:
            return
        self._stopped = True
        pool.shutdown(wait=False, cancel_futures=True)
        busy = self._under_way > 0
        if busy:
            for worker in self._workers:
                worker.interrupt()
        pool.shutdown(wait=True)
        for worker in self._workers:
            if busy:
                worker.renew()
            else:
                worker.forget()

    def _begin(self) -> None:
        """In each thread."""
        worker = self._own.worker = self._free.get()
        if worker.core is not None:
            os.sched_setaffinity(0, {worker.core})  # this thread, and what it starts

    def _judged(self, number: int, given: ProgramSource | Path, problem: Problem) -> Judged:
        judgement = self._judge(number, given, problem)
        if self._stopped:
            raise CancelledError  # the run may have been ended from outside
        return Judged(number=number, judgement=judgement)

    def _judge(self, number: int, given: ProgramSource | Path, problem: Problem) -> Judgement:
        worker = self._own.worker

        def told(result: CaseResult) -> None:
            if self._on_case is not None and not self._stopped:
                self._on_case(number, result)

        try:
            source = given if isinstance(given, ProgramSource) else source_at(given)
            judgement: Judgement = worker.judge(source, problem, told)
        except (SandboxError, OSError) as error:
            name = given.name if isinstance(given, ProgramSource) else os.fspath(given)
            return Judgement(submission=name, problem=problem.name, verdict=Verdict.JE, message=str(error))
        return judgement
