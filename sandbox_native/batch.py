"""Sandbox.map: many jobs, a bounded number at once, their outcomes as they come or in the order of the jobs. Every system.

Called by sandbox.py, and by clibatch.py, which wants to know whose outcome it is.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
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
                future = window.wait()
                outcome = _outcome(future)
                given = None if outcome is None else give(window.places[future].spec, outcome)
                del window.places[future]  # no call up to the yield: a Ctrl-C loses no outcome, and gives none twice
                if given is None or outcome is None:
                    continue
                yield given
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
    """What is done, and what was just ended; not what never began. In the order of the jobs: who was told of which end, an
    interrupted wait may have forgotten."""
    for future, place in list(window.places.items()):
        with place.over:
            outcome = _outcome(future)
        given = None if outcome is None else give(place.spec, outcome)
        del window.places[future]
        if given is not None:
            yield given


def _outcome(future: Future[Result]) -> Outcome | None:
    """Of one that is over; None for a job that never began."""
    try:
        return future.result()
    except CancelledError:
        return None
    except SandboxError as error:
        return error


@dataclass(frozen=True, slots=True)
class _Place(Generic[_Spec]):
    """Of one job. `over` is free when its Future is done, of which nothing is asked before that: a Ctrl-C may come while we have
    the Future's lock and no way to give it back, and until then the other thread needs it."""

    spec: _Spec
    over: threading.Lock = field(default_factory=threading.Lock)


class _Window(Generic[_Spec]):
    """The jobs that were taken from the input and whose outcome was not given yet. Nobody waits for a job that a Ctrl-C kept from
    being handed over."""

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self.places: dict[Future[Result], _Place[_Spec]] = {}
        self._ended: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
        self._more = True

    def fill(self, source: Iterator[_Spec], most: int, task_of: Callable[[_Spec], Task], supervisor: Supervisor) -> bool:
        """Takes jobs from the input until `most` are under way or an outcome is there, which need not wait for a slow input;
        whether any is under way."""
        while self._more and len(self.places) < most:
            for spec in source:
                self._begin(spec, task_of, supervisor)
                break
            else:
                self._more = False
            if self._has_outcome:
                break
        return len(self.places) > 0

    def _begin(self, spec: _Spec, task_of: Callable[[_Spec], Task], supervisor: Supervisor) -> None:
        try:
            task = task_of(spec)
        except SandboxError as error:
            future = _failed(error)
            self.places[future] = self._place(spec, future)
        else:
            place = self._place(spec, task.future)
            supervisor.submit(task)
            self.places[task.future] = place

    def _place(self, spec: _Spec, future: Future[Result]) -> _Place[_Spec]:
        """Before anybody else has to do with the Future."""
        place = _Place(spec)
        over = place.over
        over.acquire()
        future.add_done_callback(lambda _: over.release())
        if not self._ordered:
            future.add_done_callback(self._ended.put)
        return place

    @property
    def _first(self) -> Future[Result]:
        return next(iter(self.places))

    @property
    def _has_outcome(self) -> bool:
        return not self.places[self._first].over.locked() if self._ordered and self.places else not self._ended.empty()

    def wait(self) -> Future[Result]:
        """The next one that is over, which stays here."""
        if not self._ordered:
            return self._ended.get()
        with self.places[self._first].over:
            return self._first
