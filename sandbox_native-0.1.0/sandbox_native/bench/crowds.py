"""Many runs at once: a batch (`Sandbox.map`), and 500 concurrent starts in an event loop while a task ticks in it."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from sandbox_native import Limits, Policy, Result, Sandbox
from sandbox_native.bench.contenders import bare
from sandbox_native.bench.measure import BARE, Row, quantile, row, rows

BATCH: Final = "a batch of /bin/true"
TICKS: Final = "lateness of a tick during concurrent starts"
STARTS: Final = "concurrent starts in an event loop"
_TRUE: Final = ("/bin/true",)
_TICK_SECONDS: Final = 0.002
_LIMITS: Final = Limits(wall_seconds=120, processes=16)
_FILES_EACH: Final = 8  # descriptors that a run of ours or asyncio's takes in the host, and some to spare


# ---- a batch


def _batch_bare(count: int, places: int) -> float:
    """As one would write it: as many threads as runs at once."""
    start = time.perf_counter()
    with ThreadPoolExecutor(places) as pool:
        list(pool.map(lambda _: bare(_TRUE), range(count)))
    return count / (time.perf_counter() - start)


def _batch_boxed(sandbox: Sandbox, count: int, places: int) -> float:
    start = time.perf_counter()
    for outcome in sandbox.map((_TRUE for _ in range(count)), concurrency=places, ordered=False):
        if not isinstance(outcome, Result) or not outcome.ok:
            raise RuntimeError(f"{_TRUE[0]}: {outcome}")
    return count / (time.perf_counter() - start)


def measure_batch(*, count: int, repeats: int) -> list[Row]:
    """Runs a second, one run for each core at once and eight."""
    taken: list[Row] = []
    cores = len(os.sched_getaffinity(0))
    with Sandbox(Policy.strict(), _LIMITS) as sandbox:
        for places in sorted({cores, 8}):
            rates: dict[str, list[float]] = {BARE: [], "strict map": []}
            _batch_boxed(sandbox, count // 4, places)
            for _ in range(repeats):
                rates[BARE].append(_batch_bare(count, places))
                rates["strict map"].append(_batch_boxed(sandbox, count, places))
            taken += rows(f"{BATCH}, {places} at once", rates, unit="runs/s")
    return taken


# ---- an event loop


async def start_bare() -> None:
    """One run as asyncio has it."""
    process = await asyncio.create_subprocess_exec(*_TRUE, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{_TRUE[0]} ended with {process.returncode}")


async def _ticking(late: list[float]) -> None:
    while True:
        due = time.perf_counter() + _TICK_SECONDS
        await asyncio.sleep(_TICK_SECONDS)
        late.append(max(0.0, time.perf_counter() - due))


async def load_of(start: Callable[[], Awaitable[object]], count: int) -> tuple[list[float], float]:
    """How late each tick was, and the seconds that all runs took."""
    late: list[float] = []
    ticker = asyncio.create_task(_ticking(late))
    await asyncio.sleep(0)
    began = time.perf_counter()
    await asyncio.gather(*(start() for _ in range(count)))
    seconds = time.perf_counter() - began
    ticker.cancel()
    return late, seconds


def _in_a_loop(count: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Of one load each: the ticks, and runs a second."""

    async def boxed(sandbox: Sandbox) -> tuple[list[float], float]:
        return await load_of(lambda: sandbox.run_async(_TRUE), count)

    with Sandbox(Policy.strict(), _LIMITS) as sandbox:
        sandbox.run(_TRUE)
        plain, plain_seconds = asyncio.run(load_of(start_bare, count))
        ours, seconds = asyncio.run(boxed(sandbox))
    return {BARE: plain, "strict": ours}, {BARE: count / plain_seconds, "strict": count / seconds}


def measure_loop(*, count: int, repeats: int) -> tuple[list[Row], list[str]]:
    """All runs are asked for at once. The ratio is that of the 99th percentiles of lateness: what a task in the loop feels."""
    if not _room_for(count):
        return [], [f"{count} concurrent starts left out: the limit of open files (ulimit -Hn) is too low"]
    late: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    for _ in range(repeats):
        ticks, speed = _in_a_loop(count)
        for name in ticks:
            late.setdefault(name, []).extend(ticks[name])
            rates.setdefault(name, []).append(speed[name])
    told = f"{count} starts at once, a tick every {_TICK_SECONDS * 1000:g} ms, the ratio of lateness is p99 to p99"
    notes = [f"in an event loop: {told}"]
    return [*_ticks(late), *rows(STARTS, rates, unit="runs/s")], notes


def _ticks(late: dict[str, list[float]]) -> Sequence[Row]:
    reference = quantile(late[BARE], 0.99)
    found = []
    for name, values in late.items():
        one = row(TICKS, name, values)
        found.append(replace(one, ratio=one.p99 / reference))
    return found


def _room_for(count: int) -> bool:
    """Lifts the limit of open files as far as is needed and allowed."""
    needed = count * _FILES_EACH + 256
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            return False
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return True
