"""SandboxExecutor: a Sandbox behind the interface of concurrent.futures, for tools that drive an Executor. Public; every
system."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

from sandbox_native.result import Result

if TYPE_CHECKING:
    from sandbox_native.sandbox import Sandbox


class SandboxExecutor(Executor):
    """`submit(argv, **options)` gives a Future of the Result; `map(argvs)` gives Results in order. Options are those of
    `Sandbox.run`.

    One thread serves all runs. `max_workers`: how many run at once, one for each core by default. A Future that is cancelled
    before its run began never runs. Made in a forked child or a daemonic worker it works like any other; an executor that was
    made before a fork is its parent's.
    """

    def __init__(self, sandbox: Sandbox, max_workers: int | None = None) -> None:
        self._sandbox = sandbox
        self._supervisor = sandbox._supervisor(max_workers)

    def submit(self, fn: Callable[..., Any] | Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """`fn` is the job: an argv, a Job, or a mapping with `argv`. RuntimeError after `shutdown`; PolicyError for a job that
        makes no sense."""
        task = self._sandbox._task({"argv": fn, **kwargs} if kwargs else fn)
        future: Future[Result] = task.future
        self._supervisor.submit(task)
        return future

    def map(self, fn: Any, /, *iterables: Any, timeout: float | None = None, chunksize: int = 1) -> Iterator[Any]:
        """The Results of many jobs, `fn`, in their order, all submitted at once (`Sandbox.map` takes them as there is room).
        TimeoutError when one is not there `timeout` seconds after the call; what has not begun is cancelled then."""
        if iterables:
            raise TypeError("map takes jobs alone: a box runs programs and calls no function")
        until = None if timeout is None else time.monotonic() + timeout
        futures = [self.submit(job) for job in fn]

        def results() -> Iterator[Result]:
            try:
                for future in futures:
                    yield future.result(None if until is None else max(0, until - time.monotonic()))
            finally:
                for future in futures:
                    future.cancel()

        return results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing more is taken. With `wait` it returns when all runs have ended; `cancel_futures` ends those that run and
        cancels the others."""
        self._supervisor.shut_down(wait=wait, cancel=cancel_futures)

    def __del__(self) -> None:
        """Of one that was forgotten: what was submitted goes on, and the thread ends with it."""
        if hasattr(self, "_supervisor"):
            self._supervisor.shut_down(wait=False, cancel=False)
