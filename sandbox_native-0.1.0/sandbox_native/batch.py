"""Sandbox.map: many jobs, a bounded number at once, their outcomes as they come or in the order of the jobs. Every system."""

from __future__ import annotations

import os
import queue
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
    window, supervisor, pid = _Window(ordered), supervise(), os.getpid()
    source = iter(tasks)
    try:
        try:
            while window.fill(source, _AHEAD * concurrency, supervisor):
                if os.getpid() != pid:
                    raise RuntimeError("this iterator belongs to the process that made it")
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
        if os.getpid() == pid:
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
    """The jobs that were taken from the input and whose outcome was not given yet. A Ctrl-C between two steps may lose an
    outcome, but nobody waits for a job that was not handed over."""

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._futures: dict[Future[Result], None] = {}
        self._ended: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
        self._more = True

    @property
    def size(self) -> int:
        return len(self._futures)

    def fill(self, source: Iterator[Task | SandboxError], most: int, supervisor: Supervisor) -> bool:
        """Takes jobs from the input until `most` are under way; whether any is."""
        while self._more and self.size < most:
            task = next(source, None)
            if task is None:
                self._more = False
            elif isinstance(task, SandboxError):
                self.add(_failed(task))
            else:
                supervisor.submit(task)
                self.add(task.future)
        return self.size > 0

    def add(self, future: Future[Result]) -> None:
        self._futures[future] = None
        future.add_done_callback(self._ended.put)

    def take(self) -> Outcome | None:
        """Waits for the next one; None for a job that never began."""
        future = next(iter(self._futures)) if self._ordered else self._ended.get()
        try:
            outcome: Outcome | None = future.result()
        except CancelledError:
            outcome = None
        except SandboxError as error:
            outcome = error
        self._futures.pop(future, None)  # only now: a Ctrl-C while it was waited for must not lose it
        return outcome
