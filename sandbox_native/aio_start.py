"""How runs begin in an event loop, and begin again. Every system.

Used by sandbox.py (`run_async`, `spawn_async`). A `Starter` starts one box in a turn of the loop, so that many starts at once do
not hold other tasks up; what takes longer than that (a new slot) is done in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from sandbox_native.aio import AsyncProcess
from sandbox_native.backends.base import Backend, Job
from sandbox_native.budget import Budget, Claim
from sandbox_native.errors import SandboxError
from sandbox_native.limits import Limits
from sandbox_native.process import Process
from sandbox_native.result import Result


class Starter:
    """Starts the boxes of one Sandbox in one loop, in the order of asking and at most one in a turn of the loop. Where none
    stands ready, one is made in a thread first, of which there is one for all."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: deque[asyncio.Future[None]] = deque()
        self._busy = False
        self._thread: ThreadPoolExecutor | None = None

    async def turn(self) -> None:
        """Until it is this caller's turn: it is to start its box at once, before it waits for anything else."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.append(future)
        if not self._busy:
            self._busy = True
            loop.call_soon(self._next, loop)
        await future

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._queue and self._queue[0].cancelled():
            self._queue.popleft()
        if not self._queue:
            self._busy = False
        elif self._backend.has_idle:
            self._admit(loop)
        else:
            self._thread = self._thread or ThreadPoolExecutor(1, "sandbox-native-slots")
            try:
                made = loop.run_in_executor(self._thread, self._backend.open_slot)
            except RuntimeError:  # no thread can be started: the start itself makes what it needs
                self._admit(loop)
                return
            made.add_done_callback(lambda done: self._made(loop, done))

    def _made(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        done.exception()  # what went wrong, the start itself finds out again
        self._admit(loop)

    def _admit(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._queue:
            future = self._queue.popleft()
            if not future.cancelled():
                future.set_result(None)
                break
        loop.call_soon(self._next, loop)


async def whole(job: Job, begin: Callable[[], Awaitable[AsyncProcess]]) -> Result:
    """Runs a job to its end: once more where that was in vain and need not be."""
    while True:
        process = await begin()
        try:
            async with process:
                return await process.wait()
        except SandboxError as error:
            if not (job.another_box() if process.came_to_nothing else job.renewed_after(error)):
                raise


async def begun(job: Job, begin: Callable[[], Awaitable[AsyncProcess]]) -> AsyncProcess:
    """Starts a job: a run that a guest has taken, or that failed as it would in another box."""
    while True:
        process = await begin()
        try:
            await process.begun()
        except BaseException as error:
            await process.__aexit__(type(error), error, error.__traceback__)
            raise
        if not process.came_to_nothing or not job.another_box():
            return process
        await process.close()


async def claimed(budget: Budget, limits: Limits) -> Claim:
    """Waits until a budget has room for a run."""
    loop = asyncio.get_running_loop()
    room = asyncio.Event()

    def granted() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(room.set)

    claim = budget.ask(limits, granted)
    with claim.kept():
        await room.wait()
    return claim


async def start(starter: Starter, claim: Claim | None, spawn: Callable[[], Process]) -> AsyncProcess:
    """A Process of the running loop. `spawn` takes the claim over."""
    with claim.kept() if claim is not None else nullcontext():
        await starter.turn()
        return AsyncProcess(spawn())
