"""Runs in an event loop: no thread for each, one descriptor for each, on any loop that has `add_reader`. Every system.

Used by aio_start.py. A `Driver` serves one box whenever its descriptor is readable and wakes those who wait for something of it:
for output, for room in stdin, for the end. A Result that is more than a moment's work (much output, files to bring back) is made
in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from sandbox_native.errors import SetupError
from sandbox_native.process import Process
from sandbox_native.result import Result
from sandbox_native.stdin import Data
from sandbox_native.streams import Reader

_CHUNK: Final = 1 << 16  # bytes at once: a callback is to be short
_LOOK_SECONDS: Final = 1.0  # the host's own deadline is looked at as often


class Driver:
    """Serves a Process from a loop, from its making to the end of the run. All in the loop's thread."""

    def __init__(self, process: Process) -> None:
        self._process, self._loop = process, asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        self._lost: BaseException | None = None
        self._finishing = False
        self._fd = process.fileno()
        self._loop.add_reader(self._fd, self.serve)
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def serve(self) -> None:
        """What is ready now; whoever waits looks again."""
        try:
            if self._process.serve(light=True):
                self.forget()
            elif self._process.left:
                self._finish()
        except BaseException as error:
            self._lost = error  # whoever waits is to have it: nothing is served any more
            self.forget()
            raise
        finally:
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _finish(self) -> None:
        """The outcome is more than a moment's work, which is not the loop's."""
        self.forget()
        try:
            made = self._loop.run_in_executor(None, self._process.serve)
        except RuntimeError:  # no thread can be started
            self._process.serve()
            return
        self._finishing = True
        made.add_done_callback(self._finished)

    def _finished(self, made: asyncio.Future[bool]) -> None:
        self._finishing = False
        self._lost = None if made.cancelled() else made.exception()
        self._wake()

    async def quiet(self) -> None:
        """Until no thread has the Process, which would be waited for in the loop."""
        while self._finishing:
            await self.progress()

    async def progress(self) -> None:
        """Until something was served; at once when nothing will be any more."""
        if self._fd < 0 and not self._finishing:
            if self._lost is not None and not self._process.over:
                raise SetupError("stdio", 0, "event loop", "serving the run failed") from self._lost
            return
        future = self._loop.create_future()
        self._waiting.append(future)
        await future

    def _look(self) -> None:
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
        self.serve()

    def forget(self) -> None:
        """The loop watches the run no more. Harmless when repeated."""
        if self._fd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            self._timer.cancel()
            self._fd = -1


class AsyncReader:
    """One of the guest's outputs. `async for` gives what has come, in chunks of at most 64 KiB; not lines.

    A stream that a task reads waits at its bound for its reader; once that task waits for the end of the run, what comes past
    the bound is counted and thrown away.
    """

    def __init__(self, reader: Reader, driver: Driver) -> None:
        self._reader, self._driver = reader, driver
        self._task: asyncio.Task[object] | None = None  # that read last

    async def read(self, size: int = _CHUNK) -> bytes:
        """What is there, at most `size` bytes, waiting for the first; b"" at the end of the stream."""
        self._task = asyncio.current_task()
        await self._driver.quiet()
        while (data := self._reader.read_nowait(size)) is None:
            await self._driver.progress()
            await self._driver.quiet()
        return data

    def give_up(self) -> None:
        """The running task reads no more, if it did."""
        if self._task is not None and self._task is asyncio.current_task():
            self._task = None
            self._reader.stop()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data


class AsyncWriter:
    """The guest's stdin."""

    def __init__(self, process: Process, driver: Driver) -> None:
        assert process.stdin is not None
        self._writer, self._driver = process.stdin, driver

    async def write(self, data: Data) -> None:
        """Until the guest has taken all of it. BrokenPipeError when it has closed its stdin or is gone; ValueError after
        `close`."""
        rest = memoryview(data).cast("B")
        await self._driver.quiet()
        while rest := rest[self._writer.write_nowait(rest) :]:
            await self._driver.progress()
            await self._driver.quiet()

    def close(self) -> None:
        """The guest reads the end of the stream. Harmless when repeated."""
        self._writer.close()


class AsyncProcess:
    """A run that goes on while other tasks do. An async context manager; of one loop, and of its thread.

    `stdin` is an AsyncWriter, or None where `spawn_async` was given a stdin. What a reader took is not in the Result.
    """

    def __init__(self, process: Process) -> None:
        self._process, self._driver = process, Driver(process)
        self.stdin = None if process.stdin is None else AsyncWriter(process, self._driver)
        self.stdout = AsyncReader(process.stdout, self._driver)
        self.stderr = AsyncReader(process.stderr, self._driver)

    async def wait(self) -> Result:
        """The Result, when the run is over; errors as of `Process.wait`. Cancelling it leaves the run alone."""
        await self._driver.quiet()
        self.stdout.give_up()
        self.stderr.give_up()
        while not self._process.over:
            await self._driver.progress()
        return self._process.wait()

    async def begun(self) -> None:
        """Until a guest has taken the job, or the run is over."""
        while not (self._process.began or self._process.over):
            await self._driver.progress()

    @property
    def came_to_nothing(self) -> bool:
        """As of `Process`."""
        return self._process.came_to_nothing

    def kill(self) -> None:
        """Ends the guest's whole tree; the Result's status is `cancelled`."""
        self._process.kill()

    async def close(self) -> None:
        """Ends what still runs and gives everything back. Harmless when repeated."""
        cancelled = False
        self._process.kill()
        while not self._process.over:
            try:
                await self._driver.progress()
            except asyncio.CancelledError:  # it is ending already: the caller is told as soon as it has
                cancelled = True
            except SetupError:  # nobody serves it: the close below does, and waits
                break
        self.close_now()
        if cancelled:
            raise asyncio.CancelledError

    def close_now(self) -> None:
        """As `close`, of a task that can await nothing any more, because its loop has gone: waits for the end itself."""
        self._driver.forget()
        self._process.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is GeneratorExit:
            self.close_now()
        else:
            await self.close()
