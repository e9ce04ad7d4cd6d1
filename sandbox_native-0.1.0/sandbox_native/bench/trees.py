"""From the deadline to an empty tree: one sleeper, and 200 processes that ignore what can be ignored."""

from __future__ import annotations

import time
from dataclasses import replace

from sandbox_native import Limits, Sandbox, Status
from sandbox_native.bench.contenders import Contenders
from sandbox_native.bench.measure import Row, rows

TREE = 200
_WALL_SECONDS = 1.0  # long enough to start the tree
_SCRIPT = 'trap "" TERM HUP INT; i=1; while [ $i -lt "$1" ]; do sleep 60 & i=$((i + 1)); done; exec sleep 60'


def overshoot(sandbox: Sandbox, processes: int) -> float:
    """Seconds by which a run of a tree outlasts its wall limit, its launch included; then nothing of it is left."""
    limits = replace(Limits(), wall_seconds=_WALL_SECONDS, processes=TREE + 56)
    start = time.perf_counter()
    result = sandbox.run(["/bin/sh", "-c", _SCRIPT, "sh", str(processes)], limits=limits)
    taken = time.perf_counter() - start
    if result.status is not Status.WALL_LIMIT:
        raise RuntimeError(f"a tree of {processes} ended as {result.status}: {result.stderr[-500:]!r}")
    if result.killed_processes < processes:
        raise RuntimeError(f"only {result.killed_processes} of {processes} processes started in {_WALL_SECONDS} s")
    return taken - _WALL_SECONDS


def measure_trees(boxes: Contenders, *, repeats: int) -> list[Row]:
    """One process and many, in turn."""
    names = {"1 process": 1, f"{TREE} processes": TREE}
    late: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        for name, count in names.items():
            late[name].append(overshoot(boxes.strict, count))
    return rows("deadline to an empty tree", late, base="1 process")
