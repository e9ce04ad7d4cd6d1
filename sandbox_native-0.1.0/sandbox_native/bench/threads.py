"""Many threads of one host: runs a second through one Sandbox, next to bare with as many threads.

Nothing is prepared but the two boxes that every Sandbox has: whatever runs in a second was also made in it.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sandbox_native import Limits, Policy, Sandbox
from sandbox_native.bench.boxes import boxed
from sandbox_native.bench.contenders import bare
from sandbox_native.bench.measure import BARE, Action, Row, rows

COUNTS = (1, 2, 4, 8, 16, 32)
_TRUE = ("/bin/true",)


def scenario(count: int) -> str:
    """How the table calls it."""
    return f"/bin/true from {count} thread{'' if count == 1 else 's'}"


def rate(action: Action, threads: int, seconds: float) -> float:
    """Runs a second of ``threads`` threads that repeat the action until the time is over."""
    start = time.perf_counter()
    end = start + seconds

    def repeat() -> int:
        done = 0
        while time.perf_counter() < end:
            action()
            done += 1
        return done

    with ThreadPoolExecutor(threads) as pool:
        total = sum(future.result() for future in [pool.submit(repeat) for _ in range(threads)])
    return total / (time.perf_counter() - start)


def measure_threads(*, seconds: float, repeats: int) -> list[Row]:
    """/bin/true, ``repeats`` slices of ``seconds`` for each contender and count, in turn."""
    taken: list[Row] = []
    limits = Limits(wall_seconds=60)
    for count in COUNTS:
        with Sandbox(Policy.strict(), limits) as strict, Sandbox(Policy.light(), limits) as light:
            actions: dict[str, Action] = {
                BARE: partial(bare, _TRUE),
                "strict fresh": partial(boxed, strict, _TRUE),
                "light fresh": partial(boxed, light, _TRUE),
            }
            for action in actions.values():
                rate(action, count, seconds / 4)  # opens the slots
            rates: dict[str, list[float]] = {name: [] for name in actions}
            for _ in range(repeats):
                for name, action in actions.items():
                    rates[name].append(rate(action, count, seconds))
        taken += rows(scenario(count), rates, unit="runs/s")
    return taken
