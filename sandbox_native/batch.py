"""Sandbox.map: many jobs, a bounded number at once, their outcomes as they come or in the order of the jobs. Every system.

Called by sandbox.py, and by clibatch.py, which wants to know whose outcome it is.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Final, Generic, TypeVar

from sandbox_native.errors import SandboxError
from sandbox_native.result import Result
from sandbox_native.supervisor import Supervisor, Task

_AHEAD: Final = 2  # jobs that are taken from the input for each that can run at once

Outcome = Result | SandboxError
_Spec = TypeVar("_Spec")
_Given = TypeVar("_Given")


def alone(_: object, outcome: Outcome) -> Outcome:
    """For `give`."""
    return outcome


def outcomes(
    supervise: Callable[[], Supervisor],
    task_of: Callable[[_Spec], Task],
    jobs: Iterable[_Spec],
    concurrency: int,
    ordered: bool,
    stop_on: Callable[[Outcome], object] | None,
    give: Callable[[_Spec, Outcome], _Given],
) -> Generator[_Given, None, None]:
    """See `Sandbox.map`. `supervise` makes the thread at the first `next`; it ends with the iterator, also when that is closed or
    forgotten before its end. `task_of` raises SandboxError for a job that makes no sense; `give` makes what the caller gets of a
    job and its outcome. A KeyboardInterrupt that is thrown in does what one that comes by itself does."""
    window, supervisor, pid = _Window[_Spec](ordered), supervise(), os.getpid()
    source = iter(jobs)
    try:
        try:
            while window.fill(source, _AHEAD * concurrency, task_of, supervisor):
                if os.getpid() != pid:
                    raise RuntimeError("this iterator belongs to the process that made it")
                spec, outcome = window.take()
                if outcome is None:
                    continue
                yield give(spec, outcome)
                if stop_on is not None and stop_on(outcome):
                    break
        except KeyboardInterrupt:
            supervisor.end_all()
            yield from _rest(window, give)
            raise
        supervisor.end_all()
        yield from _rest(window, give)
    finally:
        if os.getpid() == pid:
            supervisor.close()


def _failed(error: SandboxError) -> Future[Result]:
    """Of a job that makes no sense."""
    future: Future[Result] = Future()
    future.set_exception(error)
    return future


def _rest(window: _Window[_Spec], give: Callable[[_Spec, Outcome], _Given]) -> Iterator[_Given]:
    """What is done, and what was just ended; not what never began."""
    while window.size:
        spec, outcome = window.take()
        if outcome is not None:
            yield give(spec, outcome)


class _Window(Generic[_Spec]):
    """The jobs that were taken from the input and whose outcome was not given yet. A Ctrl-C between two steps may lose an
    outcome, but nobody waits for a job that was not handed over."""

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._futures: dict[Future[Result], _Spec] = {}
        self._ended: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
        self._more = True

    @property
    def size(self) -> int:
        return len(self._futures)

    def fill(self, source: Iterator[_Spec], most: int, task_of: Callable[[_Spec], Task], supervisor: Supervisor) -> bool:
        """Takes jobs from the input until `most` are under way or an outcome is there, which need not wait for a slow input;
        whether any is under way."""
        while self._more and self.size < most:
            for spec in source:
                self._begin(spec, task_of, supervisor)
                break
            else:
                self._more = False
            if self._has_outcome:
                break
        return self.size > 0

    def _begin(self, spec: _Spec, task_of: Callable[[_Spec], Task], supervisor: Supervisor) -> None:
        try:
            task = task_of(spec)
        except SandboxError as error:
            self._add(_failed(error), spec)
        else:
            supervisor.submit(task)
            self._add(task.future, spec)

    def _add(self, future: Future[Result], spec: _Spec) -> None:
        self._futures[future] = spec
        if not self._ordered:
            future.add_done_callback(self._ended.put)

    @property
    def _has_outcome(self) -> bool:
        return next(iter(self._futures)).done() if self._ordered and self._futures else not self._ended.empty()

    def take(self) -> tuple[_Spec, Outcome | None]:
        """Waits for the next one; None for a job that never began."""
        future = next(iter(self._futures)) if self._ordered else self._ended.get()
        try:
            outcome: Outcome | None = future.result()
        except CancelledError:
            outcome = None
        except SandboxError as error:
            outcome = error
        return self._futures.pop(future), outcome  # only now: a Ctrl-C while it was waited for must not lose it
