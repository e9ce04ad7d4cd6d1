"""One thread that runs many jobs: starts them as there is room, serves all of them in one native loop, and tells of each end.
Every system.

Under `Sandbox.map` (batch.py) and SandboxExecutor (executor.py). The thread is its own, so that guests are served while the
caller is busy with a result; it ends with `close`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final

from sandbox_native.backends.base import Backend, Box, Crowd, Job
from sandbox_native.budget import Budget, Claim
from sandbox_native.errors import SandboxError, SetupError
from sandbox_native.result import Result
from sandbox_native.stdin import NOTHING, open_source

_ROUND_MS: Final = 1000


class Task:
    """One job on its way. `future` gets its Result, or the error of ours that kept it from having one."""

    __slots__ = ("box", "claim", "future", "granted", "job")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.future: Future[Result] = Future()
        self.box: Box | None = None
        self.claim: Claim | None = None
        self.granted = False


class Supervisor:
    """`submit` and `end_all` from any thread."""

    def __init__(self, backend: Backend, places: int, budget: Budget | None) -> None:
        self._backend, self._budget = backend, budget
        self._crowd: Crowd = backend.crowd(places)
        self._lock = threading.Lock()
        self._waiting: deque[Task] = deque()
        self._running: dict[int, Task] = {}
        self._in_hand: list[Task] = []  # what the thread is just starting or ending
        self._closed = self._ending = self._gone = False
        self._thread = threading.Thread(target=self._serve, name="sandbox-native-batch", daemon=True)
        self._thread.start()

    def submit(self, task: Task) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot submit after the shutdown")
            self._waiting.append(task)
            self._crowd.wake()

    def end_all(self) -> None:
        """Ends what runs (each is `cancelled`) and cancels what waits."""
        with self._lock:
            if not self._gone:
                self._ending = True
                self._crowd.wake()

    def close(self) -> None:
        """Ends what runs, cancels what waits, and waits for the thread. Harmless when repeated."""
        self.shut_down(wait=True, cancel=True)

    def shut_down(self, *, wait: bool, cancel: bool) -> None:
        """Takes nothing more; see `SandboxExecutor.shutdown`."""
        with self._lock:
            self._closed = True
            self._ending = self._ending or cancel
            if not self._gone:
                self._crowd.wake()
        if wait and self._thread is not threading.current_thread():
            self._thread.join()

    # ---- the thread ----

    def _serve(self) -> None:
        try:
            while True:
                self._crowd.calm()  # before anything is looked at that a wake may tell of
                if self._closed and not self._running and not self._waiting:
                    return
                if self._ending:
                    self._end()
                self._start_some()
                for place in self._crowd.wait(_ROUND_MS):
                    self._finish(place)
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Nobody waits for ever for a thread that is gone."""
        with self._lock:
            self._closed = self._gone = True
            self._crowd.close()
            left, self._waiting = [*self._in_hand, *self._running.values(), *self._waiting], deque()
        for task in left:
            self._settle(task, SetupError("lost", 0, "batch", "the thread that ran the batch has ended: run what is left again"))

    def _end(self) -> None:
        self._ending = False
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for task in waiting:
            if task.claim is not None:
                task.claim.release()
            task.future.cancel()
            task.future.set_running_or_notify_cancel()
        for task in self._running.values():
            assert task.box is not None
            task.box.end()

    def _start_some(self) -> None:
        """In the order of asking: the first that has to wait for the budget holds up those behind it."""
        while self._crowd.has_room:
            with self._lock:
                if not self._waiting:
                    return
                task = self._waiting[0]
            if not task.future.cancelled() and not self._admitted(task):
                return
            with self._lock:
                if not self._waiting or self._waiting[0] is not task:  # cancelled by `_end`
                    continue
                self._waiting.popleft()
            if task.future.set_running_or_notify_cancel():
                self._start(task)
            elif task.claim is not None:
                task.claim.release()

    def _admitted(self, task: Task) -> bool:
        """Whether it can go on: with what it claims, or to its own refusal."""
        if self._budget is None or task.granted:
            return True
        if task.claim is None:

            def granted() -> None:
                task.granted = True
                self._wake()

            try:
                task.claim = self._budget.ask(task.job.limits, granted)
            except SandboxError:  # more than there is: `_start` finds out again
                return True
        return task.granted

    def _wake(self) -> None:
        with self._lock:
            if not self._gone:
                self._crowd.wake()

    def _start(self, task: Task) -> None:
        self._in_hand = [task]
        try:
            box = task.box = self._begun(task)
            if box.fileno() >= 0:
                self._running[self._crowd.add(box)] = task
                self._in_hand = []
                return
        except Exception as error:  # of this job alone, whatever it is: the thread has others
            self._fail(task, error)
            return
        self._conclude(task)  # whoever closed the backend was here before, and has made its result

    def _begun(self, task: Task) -> Box:
        job = task.job
        if self._budget is not None and task.claim is None:
            self._budget.check(job.limits)
        if job.stdin is NOTHING and job.given_stdin is not None:
            job.stdin = open_source(job.given_stdin)
        box = self._backend.start(job)
        box.turns.take()  # whoever closes the backend meanwhile ends the run, and waits for this thread to see it
        return box

    def _finish(self, place: int) -> None:
        task = self._running.pop(place)
        self._in_hand = [task]
        self._crowd.remove(place)
        self._conclude(task)

    def _conclude(self, task: Task) -> None:
        """Of a run that is over."""
        assert task.box is not None
        try:
            task.box.pump(0)
            result = task.box.result()
        except Exception as error:  # as above
            self._fail(task, error)
        else:
            self._settle(task, result)

    def _fail(self, task: Task, error: Exception) -> None:
        """Once more where that was in vain and need not be."""
        try:
            again = isinstance(error, SandboxError) and self._another_try(task, error)
            if again:
                self._close(task)
        except Exception as another:  # as above
            again, error = False, another
        if again:
            self._start(task)
        else:
            self._settle(task, error)

    def _another_try(self, task: Task, error: SandboxError) -> bool:
        if task.box is not None and task.box.came_to_nothing:
            return task.job.another_box()
        return task.job.renewed_after(error)

    def _close(self, task: Task) -> None:
        box, task.box = task.box, None
        if box is not None:
            try:
                box.close()
            finally:
                box.turns.leave()

    def _settle(self, task: Task, outcome: Result | Exception) -> None:
        steps: list[Callable[[], None]] = [partial(self._close, task), task.job.stdin.close]
        if task.claim is not None:
            steps.append(task.claim.release)
        for step in steps:
            try:
                step()
            except Exception as error:  # as above
                outcome = error
        self._in_hand = []
        if task.future.done():  # cancelled before it began
            return
        if isinstance(outcome, Result):
            task.future.set_result(outcome)
        else:
            task.future.set_exception(outcome if isinstance(outcome, SandboxError) else _of_this_job(outcome))


def _of_this_job(error: Exception) -> SetupError:
    """What none of ours foresaw, told as the job's own failure."""
    code = error.errno if isinstance(error, OSError) and error.errno else 0
    words = f"{error}; the other jobs go on: this is a fault of ours, please report it"
    told = SetupError("job", code, type(error).__name__, words)
    told.__cause__ = error
    return told
