"""Twenty thousand runs: memory of host and launcher, descriptors, control groups and mounts stay what they were."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boxes
import pytest
from capabilities import own_groups
from running import launchers

from sandbox_native import Policy, Sandbox
from sandbox_native.bench.tiny import write_tiny

pytestmark = [pytest.mark.slow, pytest.mark.needs("userns")]
RUNS = 20_000
THREADS = 2
PARTS = 5
HOST_KIB = 1024  # what an allocator may hold on to in between
LAUNCHER_KIB = 128
INSIDE = "/mnt/soak"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sandbox]:
    write_tiny(str(tmp_path))
    with Sandbox(Policy.strict(readable=[(str(tmp_path), INSIDE)])) as sandbox:
        yield sandbox


def status_kib(pid: int | str, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def of_launchers(count: Callable[[int], int]) -> int:
    """Of the launcher, its template and its slots together; boxes come and go."""
    total = 0
    for pid in launchers():
        try:
            total += count(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def launcher_kib() -> int:
    """Resident memory."""
    return of_launchers(lambda pid: status_kib(pid, "VmRSS") + status_kib(pid, "VmPTE"))


def groups() -> int:
    """Those of this host, in every hierarchy."""
    parents = {path.parent if path.name == "host" else path for path in own_groups().values()}
    return sum(len(list(parent.glob(f"sandbox-native-{os.getpid()}-*/**/"))) for parent in parents)


def held() -> dict[str, int]:
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "launcher's mounts": of_launchers(lambda pid: len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())),
        "launcher's descriptors": of_launchers(lambda pid: len(os.listdir(f"/proc/{pid}/fd"))),
        "processes": len(launchers()),
        "groups": groups(),
    }


def no_more_than(before: dict[str, int]) -> bool:
    now = held()
    return all(now[what] <= number for what, number in before.items())


def work(box: Sandbox, pool: ThreadPoolExecutor, runs: int) -> None:
    def some(count: int) -> None:
        for _ in range(count):
            assert box.run([f"{INSIDE}/tiny"]).ok

    for done in [pool.submit(some, runs // THREADS) for _ in range(THREADS)]:
        done.result()


def test_twenty_thousand_runs_leave_everything_as_it_was(box: Sandbox) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        work(box, pool, RUNS // 20)
        gc.collect()
        before, host, launcher = held(), status_kib("self", "VmRSS"), launcher_kib()
        for _ in range(PARTS):
            work(box, pool, RUNS // PARTS)
            gc.collect()
            boxes.until(lambda: no_more_than(before), boxes.PATIENCE, "the end of boxes above the number")
            assert status_kib("self", "VmRSS") - host < HOST_KIB
            assert launcher_kib() - launcher < LAUNCHER_KIB
    stats = box.stats()
    assert stats.hits + stats.misses >= RUNS
