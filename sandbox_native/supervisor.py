"""One thread that runs many jobs: starts them as there is room, serves all of them in one native loop, and tells of each end. Every system.

Under `Sandbox.map` (batch.py) and SandboxExecutor (executor.py). The thread is its own, so that guests are served while the caller is busy
with a result; it ends with `close`.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from sandbox_native.backends.base import Backend, Box, Crowd, Job
from sandbox_native.budget import Budget, Claim
from sandbox_native.errors import ExecError, SandboxError, SetupError
from sandbox_native.result import Result
from sandbox_native.stdin import NOTHING, Input, open_source

_ROUND_MS: Final = 1000


class Task:
    """One job on its way. `future` gets its Result, or the error of ours that kept it from having one."""

    __slots__ = ("box", "claim", "future", "granted", "job", "renew", "stdin")

    def __init__(self, job: Job, stdin: Input, renew: Callable[[], None]) -> None:
        """`renew` looks for the job's program anew, once, when it was replaced between the host's look at it and the box's."""
        self.job, self.stdin = job, stdin
        self.renew: Callable[[], None] | None = renew
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
            while not (self._closed and not self._running and not self._waiting):
                self._crowd.calm()
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
            left, self._waiting = [*self._running.values(), *self._waiting], deque()
        for task in left:
            self._settle(task, SetupError("lost", 0, "batch", "the thread that ran the batch has ended"))

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
            if not self._admitted(task):
                return
            with self._lock:
                if not self._waiting or self._waiting[0] is not task:
                    continue
                self._waiting.popleft()
            if task.future.set_running_or_notify_cancel():
                self._start(task)
            elif task.claim is not None:
                task.claim.release()

    def _admitted(self, task: Task) -> bool:
        if self._budget is None:
            return True
        if task.claim is None:

            def granted() -> None:
                task.granted = True
                self._crowd.wake()

            try:
                task.claim = self._budget.ask(task.job.limits, granted)
            except SandboxError as error:
                task.future.set_exception(error)
                with self._lock:
                    self._waiting.popleft()
                return False
        return task.granted

    def _start(self, task: Task) -> None:
        try:
            if task.job.stdin is NOTHING:
                task.job.stdin = open_source(task.stdin)
            task.box = self._backend.start(task.job)
            self._running[self._crowd.add(task.box)] = task
        except SandboxError as error:  # of this job alone
            self._settle(task, error)

    def _finish(self, place: int) -> None:
        task = self._running.pop(place)
        self._crowd.remove(place)
        assert task.box is not None
        try:
            task.box.pump(0)
            result: Result | SandboxError = task.box.result()
        except SandboxError as error:
            result = error
        if self._stale(task, result):
            task.box.close()
            self._start(task)
        else:
            self._settle(task, result)

    @staticmethod
    def _stale(task: Task, outcome: Result | SandboxError) -> bool:
        if not isinstance(outcome, ExecError) or outcome.errno != errno.ESTALE or task.job.stdin.fd >= 0 or task.renew is None:
            return False
        renew, task.renew = task.renew, None
        renew()
        return True

    def _settle(self, task: Task, outcome: Result | SandboxError) -> None:
        try:
            if task.box is not None:
                task.box.close()
        except SandboxError as error:
            outcome = error
        task.job.stdin.close()
        if task.claim is not None:
            task.claim.release()
        if isinstance(outcome, Result):
            task.future.set_result(outcome)
        else:
            task.future.set_exception(outcome)
