"""What other tasks of an event loop notice of ours: measured against bare subprocesses in the same loop, best of some rounds."""

from __future__ import annotations

import asyncio
import gc
import resource
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boxes
import pytest
from running import sh

from sandbox_native import Sandbox

pytestmark = pytest.mark.needs("userns")
STARTS = 500
TICK_SECONDS = 0.002
Work = Callable[[], Awaitable[object]]


async def bare() -> None:
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    process = await asyncio.create_subprocess_exec("/bin/true", stdin=nothing, stdout=pipe, stderr=pipe)
    await process.communicate()


async def lateness(work: Work) -> float:
    """Of the latest tick of another task."""
    latest = 0.0

    async def tick() -> None:
        nonlocal latest
        while True:
            due = time.perf_counter() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            latest = max(latest, time.perf_counter() - due)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    await work()
    ticking.cancel()
    return latest


@pytest.mark.slow
def test_many_starts_hold_a_ticking_task_up_no_more_than_bare_subprocesses_do() -> None:
    async def main() -> None:
        with Sandbox() as box:
            await box.run_async(["/bin/true"])
            rounds = []
            for _ in range(2):
                theirs = await lateness(lambda: asyncio.gather(*(bare() for _ in range(STARTS))))
                ours = await lateness(lambda: asyncio.gather(*(box.run_async(["/bin/true"]) for _ in range(STARTS))))
                rounds.append((ours, theirs))
            assert min(ours for ours, _ in rounds) <= 1.5 * min(theirs for _, theirs in rounds), rounds

    def work() -> None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        asyncio.run(main())

    boxes.in_a_host(work)


@contextmanager
def longest_callback(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """In thread CPU time: what the machine does besides is not ours, nor is the collector's work."""
    found = [0.0]
    run = asyncio.Handle._run

    def timed(self: Any) -> None:
        began = time.thread_time()
        run(self)
        found[0] = max(found[0], time.thread_time() - began)

    gc.disable()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.Handle, "_run", timed)
            yield found
    finally:
        gc.enable()


def cost_of_a_bare_start() -> float:
    began = time.thread_time()
    with subprocess.Popen(["/bin/true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE):
        return time.thread_time() - began


def test_no_callback_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a run brings back: many starts, the output of the default bound, files of 40 MiB."""
    fill = sh("head -c 20M /dev/zero > a; head -c 20M /dev/zero > b")

    async def main() -> float:
        with Sandbox() as box:
            await box.run_async(["/bin/true"])
            with longest_callback(monkeypatch) as longest:
                await asyncio.gather(*(box.run_async(["/bin/true"]) for _ in range(30)))
                result = await box.run_async(["/usr/bin/head", "-c", "4000000", "/dev/zero"])
                assert len(result.stdout) == 4_000_000
                result = await box.run_async(fill, collect=["*"])
                assert sum(map(len, result.files.values())) == 40 << 20
                async with await box.spawn_async(["/usr/bin/head", "-c", "4000000", "/dev/zero"]) as process:
                    assert sum([len(chunk) async for chunk in process.stdout]) == 4_000_000
            return longest[0]

    bound = max(0.005, 3 * min(cost_of_a_bare_start() for _ in range(10)))
    assert min(asyncio.run(main()) for _ in range(3)) < bound
