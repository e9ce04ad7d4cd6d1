"""Sandbox.map: many jobs, a bounded number at once, their outcomes as they come or in the order of the jobs. Every system."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Final

from sandbox_native.errors import SandboxError
from sandbox_native.result import Result
from sandbox_native.supervisor import Supervisor, Task

_AHEAD: Final = 2  # jobs that are taken from the input for each that can run at once

Outcome = Result | SandboxError


def outcomes(
    supervise: Callable[[], Supervisor],
    tasks: Iterable[Task | SandboxError],
    concurrency: int,
    ordered: bool,
    stop_on: Callable[[Outcome], object] | None,
) -> Iterator[Outcome]:
    """See `Sandbox.map`. `supervise` makes the thread at the first `next`; it ends with the iterator, also when that is closed or
    forgotten before its end."""
    window, supervisor = _Window(ordered), supervise()
    source = iter(tasks)
    try:
        try:
            while window.fill(source, _AHEAD * concurrency, supervisor):
                outcome = window.take()
                if outcome is None:
                    continue
                yield outcome
                if stop_on is not None and stop_on(outcome):
                    break
        except KeyboardInterrupt:
            supervisor.end_all()
            yield from _rest(window)
            raise
        supervisor.end_all()
        yield from _rest(window)
    finally:
        supervisor.close()


def _failed(error: SandboxError) -> Future[Result]:
    """Of a job that makes no sense."""
    future: Future[Result] = Future()
    future.set_exception(error)
    return future


def _rest(window: _Window) -> Iterator[Outcome]:
    """What is done, and what was just ended; not what never began."""
    while window.size:
        outcome = window.take()
        if outcome is not None:
            yield outcome


class _Window:
    """The jobs that were taken from the input and whose outcome was not given yet."""

    def __init__(self, ordered: bool) -> None:
        self._in_order: deque[Future[Result]] | None = deque() if ordered else None
        self._as_they_come: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
        self.size = 0
        self._more = True

    def fill(self, source: Iterator[Task | SandboxError], most: int, supervisor: Supervisor) -> bool:
        """Takes jobs from the input until `most` are under way; whether any is."""
        while self._more and self.size < most:
            task = next(source, None)
            if task is None:
                self._more = False
            elif isinstance(task, SandboxError):
                self.add(_failed(task))
            else:
                self.add(task.future)
                supervisor.submit(task)
        return self.size > 0

    def add(self, future: Future[Result]) -> None:
        self.size += 1
        if self._in_order is None:
            future.add_done_callback(self._as_they_come.put)
        else:
            self._in_order.append(future)

    def take(self) -> Outcome | None:
        """Waits for the next one; None for a job that never began."""
        future = self._as_they_come.get() if self._in_order is None else self._in_order[0]
        try:
            outcome: Outcome | None = future.result()
        except CancelledError:
            outcome = None
        except SandboxError as error:
            outcome = error
        if self._in_order is not None:  # only now: a Ctrl-C while it was waited for must not lose it
            self._in_order.popleft()
        self.size -= 1
        return outcome
