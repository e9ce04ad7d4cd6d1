"""The workers of a Judge, and how batches borrow them. Host process; made by workers.py, used by batch.py.

A worker is a set of Sandboxes of its own, bound to one core: what its launchers start stays there, so programs that are timed do
not wander and do not wait for one another. It is lent for one submission, so batches at the same time share the workers, and
nobody who stops in the middle of a batch keeps one.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.judging import Judging, Watcher
from sandbox_native.judge.outcomes import Judgement
from sandbox_native.judge.setup import Options, Setup
from sandbox_native.judge.values import Problem, ProgramSource

_KEPT_PROBLEMS: Final = 8


class Worker:
    """What a thread judges with; used by one at a time, interrupted by any."""

    def __init__(self, options: Options, core: int | None) -> None:
        self.core, self._options = core, options
        self.interrupted = False
        self._boxes = Boxes()
        self._setups: OrderedDict[int, Setup] = OrderedDict()  # by the identity of the problem, which they keep alive

    def judge(self, source: ProgramSource, problem: Problem, on_case: Watcher | None) -> Judgement:
        """In the thread that borrowed it. Says nothing of the submission when the worker is `interrupted` afterwards."""
        if self.core is not None:
            os.sched_setaffinity(0, {self.core})  # this thread, and what it starts
        setup = self._setups.get(id(problem))
        if setup is None:
            setup = self._setups[id(problem)] = Setup(problem, self._options, self._boxes)
            if len(self._setups) > _KEPT_PROBLEMS:
                self._setups.popitem(last=False)[1].close()
        self._setups.move_to_end(id(problem))
        return Judging(setup, source, self._options, self._boxes).judgement(on_case)

    def stop(self) -> Boxes:
        """Lets nothing begin until `renew`. What it runs ends when these are closed, by whoever has the time."""
        self.interrupted = True
        return self._boxes

    def take_setups(self) -> list[Setup]:
        """The problems, and what was made for them, to be closed; of a worker that nobody judges with."""
        setups, self._setups = self._setups, OrderedDict()
        return [*setups.values()]

    def renew(self) -> None:
        """After `stop`, when what was interrupted has come back."""
        self._boxes, self.interrupted = Boxes(), False


class Borrower:
    """A batch, for what is lent to it."""

    sent_away = False


class Workers:
    """Those of a Judge, lent to one job at a time. Safe in threads: nothing is closed under the lock."""

    def __init__(self, workers: Iterable[Worker]) -> None:
        self._changed = threading.Condition()  # a batch may be forgotten while this thread has it: it can be taken twice
        self._all = (*workers,)
        self._free = deque(self._all)
        self._lent: dict[Worker, Borrower] = {}
        self._borrowers: set[Borrower] = set()  # that have got something, and may want more
        self.count = len(self._all)
        self.closed = False

    def check(self) -> None:
        """PolicyError: the Judge is closed."""
        if self.closed:
            raise PolicyError("this Judge is closed", remedy="make a new one")

    @contextmanager
    def lent(self, borrower: Borrower) -> Iterator[Worker | None]:
        """Waits for a worker; None when the borrower was sent away, or the Judge is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._free or self.closed or borrower.sent_away)
            if self.closed or borrower.sent_away:
                worker = None
            else:
                worker = self._free.popleft()
                self._lent[worker] = borrower
                self._borrowers.add(borrower)
        try:
            yield worker
        finally:
            if worker is not None:
                self._take_back(worker)

    def _take_back(self, worker: Worker) -> None:
        with self._changed:
            del self._lent[worker]
            setups = worker.take_setups() if worker.interrupted else []
            if not self.closed:
                if worker.interrupted:
                    worker.renew()
                self._free.append(worker)
                self._changed.notify()
        _close_all(setups)

    def send_away(self, borrower: Borrower) -> None:
        """Interrupts what the borrower has, and lends it nothing any more."""
        with self._changed:
            borrower.sent_away = True
            stopped = [worker.stop() for worker, having in self._lent.items() if having is borrower]
            self._changed.notify_all()
        _close_all(stopped)

    def forget(self, borrower: Borrower) -> None:
        """When it has given everything back: what the problems' own programs need goes, unless somebody else may be at them; the
        Sandboxes stay."""
        with self._changed:
            self._borrowers.discard(borrower)
            setups = [] if self._borrowers else [setup for worker in self._free for setup in worker.take_setups()]
        _close_all(setups)

    def close(self) -> None:
        """Harmless when repeated."""
        with self._changed:
            self.closed = True
            self._free.clear()
            stopped = [worker.stop() for worker in self._all]
            setups = [setup for worker in self._all if worker not in self._lent for setup in worker.take_setups()]
            self._changed.notify_all()
        _close_all([*stopped, *setups])


def _close_all(things: Iterable[Boxes | Setup]) -> None:
    """All of them, whatever becomes of one; an error of one is raised in the end."""
    with ExitStack() as stack:
        for thing in things:
            stack.callback(thing.close)
