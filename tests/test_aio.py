"""Runs in an event loop: no thread each, one descriptor each, and a cancelled await leaves nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import boxes
import pytest
import uvloop
from running import nap, sh, sleepers

from sandbox_native import ExecError, Limits, PolicyError, Process, Sandbox, Status
from sandbox_native.aio import AsyncProcess
from sandbox_native.backends.base import Job
from sandbox_native.backends.box import LinuxBox
from sandbox_native.backends.engine import Engine
from sandbox_native.backends.linux import LinuxBackend
from sandbox_native.backends.slots import Slot

pytestmark = pytest.mark.needs("userns")
Loop = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(prepared=2) as box:
        yield box


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Loop:
    return asyncio.run if request.param == "asyncio" else uvloop.run


@pytest.fixture(scope="module", autouse=True)
def loop_of_its_own() -> None:
    """uvloop keeps a pipe from its first loop on."""

    async def nothing() -> None:
        pass

    uvloop.run(nothing())


def test_a_run_gives_its_result(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        result = await box.run_async(["/bin/cat"], stdin=b"some words")
        assert (result.status, result.stdout) == (Status.OK, b"some words")
        assert (await box.run_async(sh("exit 3"))).exit_code == 3

    run(main())


def test_many_at_once_use_no_thread_and_one_descriptor_each_for_the_loop(box: Sandbox, run: Loop) -> None:
    threads = []

    async def one(number: int) -> str:
        result = await box.run_async(sh(f"echo {number}"))
        threads.append(threading.active_count())
        return result.text

    async def main() -> None:
        assert await asyncio.gather(*map(one, range(60))) == [f"{number}\n" for number in range(60)]

    before = threading.active_count()
    run(main())
    assert max(threads) <= before + 1, "one makes new boxes ready"


def test_chunks_come_as_they_are_written(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        async with await box.spawn_async(["/bin/cat"]) as process:
            assert process.stdin is not None
            got = b""
            chunks = aiter(process.stdout)
            for word in (b"one", b"two", b"three"):
                await process.stdin.write(word)
                got += await anext(chunks)
            process.stdin.close()
            assert got == b"onetwothree" and [chunk async for chunk in chunks] == []
            assert (await process.wait()).ok

    run(main())


def test_more_than_any_pipe_holds_goes_in_and_out(box: Sandbox, run: Loop) -> None:
    data = os.urandom(1 << 20) * 5

    async def main() -> None:
        async with await box.spawn_async(["/bin/cat"], limits=Limits(stdout_bytes=4096)) as process:
            writer = process.stdin
            assert writer is not None

            async def write() -> None:
                await writer.write(data)
                writer.close()

            writing = asyncio.create_task(write())
            assert b"".join([chunk async for chunk in process.stdout]) == data
            await writing
            result = await process.wait()
            assert result.ok and result.stdout_total == len(data)

    run(main())


def test_a_task_that_read_once_and_waits_does_not_hold_the_guest(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        loud = sh("echo up; head -c 3000000 /dev/zero")
        async with await box.spawn_async(loud, limits=Limits(wall_seconds=60, stdout_bytes=4096)) as process:
            assert (await process.stdout.read()).startswith(b"up")
            result = await process.wait()
            assert result.ok and result.stdout_total == 3000003

    run(main())


def test_a_guest_that_closes_its_stdin_is_a_broken_pipe(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        async with await box.spawn_async(["/bin/true"]) as process:
            assert process.stdin is not None
            with pytest.raises(BrokenPipeError):
                while True:
                    await process.stdin.write(bytes(1 << 16))

    run(main())


def test_a_cancelled_run_is_dead_when_the_await_returns(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        task = asyncio.create_task(box.run_async(sh(f"sleep {nap(307)} & sleep {nap(307)}")))
        while len(sleepers(307)) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sleepers(307) == []

    run(main())


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("begin", ["run_async", "spawn_async", "close"])
def test_one_whose_loop_is_closed_is_dead_when_it_is_forgotten(
    box: Sandbox, make: Callable[[], asyncio.AbstractEventLoop], begin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pending() -> None:
        if begin == "spawn_async":
            monkeypatch.setattr(AsyncProcess, "begun", AsyncProcess.wait)  # which takes longer
        if begin != "close":
            await getattr(box, begin)(["/bin/sleep", nap(309)])
        else:
            process = await box.spawn_async(["/bin/sleep", nap(309)])
            monkeypatch.setattr(Process, "kill", lambda _: closing.set())
            await process.close()

    async def until_it_waits() -> None:
        while not (closing.is_set() if begin == "close" else sleepers(309)):
            await asyncio.sleep(0.01)

    ignored: list[object] = []
    closing = threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    loop = make()
    loop.set_exception_handler(lambda *_: None)  # of a task that is destroyed
    task = loop.create_task(pending())
    loop.run_until_complete(until_it_waits())
    loop.close()
    del task
    gc.collect()
    assert sleepers(309) == [] and ignored == []


def test_a_sandbox_that_is_closed_while_a_run_begins_cancels_it(box: Sandbox, run: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(backend: LinuxBackend, job: Job) -> LinuxBox:
        box = start(backend, job)
        box.settle()  # as whoever closes the Sandbox does
        return box

    async def main() -> None:
        assert (await box.run_async(["/bin/sleep", "60"])).status is Status.CANCELLED

    start = LinuxBackend.start
    monkeypatch.setattr(LinuxBackend, "start", started)
    run(main())


def test_cancelled_at_any_moment_it_leaves_nothing(box: Sandbox, run: Loop) -> None:
    """The moments are spread over three times what a whole run takes."""

    async def main() -> None:
        started = time.monotonic()
        assert (await box.run_async(["/bin/true"])).ok
        whole = time.monotonic() - started
        for step in range(40):
            task = asyncio.create_task(box.run_async(["/bin/sleep", nap(308)]))
            await asyncio.sleep(whole * 3 * step / 40)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert sleepers(308) == []

    run(main())


def test_one_that_waits_for_its_turn_can_be_cancelled(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        tasks = [asyncio.create_task(box.run_async(["/bin/echo", str(number)])) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended[::2])
        assert all(not isinstance(one, BaseException) and one.ok for one in ended[1::2])

    run(main())


def test_a_timeout_of_the_loop_ends_the_run(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await box.run_async(["/bin/sleep", nap(309)], limits=Limits(wall_seconds=300))
        assert sleepers(309) == []

    run(main())


def test_leaving_the_process_early_ends_it(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        async with await box.spawn_async(sh(f"echo up; sleep {nap(310)}")) as process:
            assert await process.stdout.read() == b"up\n"
        assert sleepers(310) == []
        assert (await process.wait()).status is Status.CANCELLED

    run(main())


def test_errors_come_out_of_the_await(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        with pytest.raises(ExecError):
            await box.run_async(["/no/such/program"])
        with pytest.raises(PolicyError):
            await box.run_async(["/bin/true"], cwd="not absolute")
        with pytest.raises(ExecError):
            await box.run_async(["./here"], files={"here": b"#!/no/such/interpreter\n"})

    run(main())


def test_limits_hold_though_the_loop_is_busy(box: Sandbox, run: Loop) -> None:
    async def main() -> None:
        task = asyncio.create_task(box.run_async(["/bin/sleep", nap(312)], limits=Limits(wall_seconds=1)))
        while not sleepers(312) and not task.done():
            await asyncio.sleep(0.005)
        assert not task.done()
        boxes.until(lambda: not sleepers(312), boxes.PATIENCE, "the guest's end, though the loop serves nobody")
        assert (await task).status is Status.WALL_LIMIT

    run(main())


def test_starts_do_not_hold_other_tasks_up(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the loop starts one box at most, and what a new slot takes is never waited for in its thread."""
    started, most, opened = 0, 0, set[int]()

    def start(self: LinuxBackend, job: Job) -> LinuxBox:
        nonlocal started
        started += 1
        return start_one(self, job)

    def open_slot(self: Engine) -> Slot:
        opened.add(threading.get_ident())
        return open_one(self)

    class Counted(asyncio.SelectorEventLoop):
        def _run_once(self) -> None:
            nonlocal started, most
            started = 0
            super()._run_once()  # type: ignore[misc]
            most = max(most, started)

    async def main() -> None:
        await asyncio.gather(*(box.run_async(["/bin/true"]) for _ in range(100)))

    start_one, open_one = LinuxBackend.start, Engine._open_slot
    monkeypatch.setattr(LinuxBackend, "start", start)
    monkeypatch.setattr(Engine, "_open_slot", open_slot)
    with asyncio.Runner(loop_factory=Counted) as runner:
        runner.run(main())
    assert most == 1
    assert opened and threading.get_ident() not in opened


def test_a_sandbox_is_an_async_context(run: Loop) -> None:
    async def main() -> None:
        async with Sandbox() as box:
            assert (await box.run_async(["/bin/true"])).ok
        with pytest.raises(PolicyError, match="closed"):
            await box.run_async(["/bin/true"])

    run(main())
