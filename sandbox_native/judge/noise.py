"""What else went on while a run was measured: a quota that stopped it, a hypervisor that gave its core to others. Host process;
called by reruns.py around every run.

Sources: cpu.stat of our own control group and of those above it, which the boxes' groups lie beneath (`throttled_usec` in
version 2, `throttled_time` in nanoseconds in version 1); "steal" in /proc/stat, proc(5).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from sandbox_native.cgroup.values import candidates, parse_counter, parse_memberships, parse_mounts
from sandbox_native.judge.outcomes import CaseResult

_STEAL: Final = 8  # its place in a line of /proc/stat
_CORES_BYTES: Final = 256 << 10  # of /proc/stat, whose first lines are the cores'
_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_V1, _V2 = ("cpu.cfs_quota_us", "throttled_time", 1e9), ("cpu.max", "throttled_usec", 1e6)


class Watch:
    """From the start of a run to its end. The calling thread is on the cores that the run is on."""

    def __init__(self) -> None:
        self._cores = os.sched_getaffinity(0)
        self._before = self._after = self._now()

    def end(self) -> None:
        self._after = self._now()

    def noted(self, result: CaseResult) -> CaseResult:
        """With what disturbed the run in its `noise`."""
        if result.noise is None:
            return result
        throttled, stolen = map(_since, self._before, self._after)
        core = result.noise.core  # of a pinned Sandbox
        if core is None and len(self._cores) == 1:
            core = next(iter(self._cores))
        return replace(result, noise=replace(result.noise, throttled_seconds=throttled, steal_seconds=stolen, core=core))

    def _now(self) -> tuple[float | None, float | None]:
        return throttled_seconds(), steal_seconds(self._cores)


def watched(once: Callable[[], CaseResult]) -> CaseResult:
    watch = Watch()
    result = once()
    watch.end()
    return watch.noted(result)


def _since(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else max(0.0, after - before)


def throttled_seconds() -> float | None:
    """How long quotas have stopped this process's groups so far; None where that cannot be seen."""
    places = quotas()
    try:
        return None if places is None else sum(parse_counter(path.read_bytes(), name) / unit for path, name, unit in places)
    except OSError:  # a group that is gone
        return None


@functools.cache
def quotas() -> tuple[tuple[Path, bytes, float], ...] | None:
    """cpu.stat of the groups that have a quota now, with the name and the unit of the figure. None: no group can be seen."""
    try:
        memberships = parse_memberships(Path("/proc/self/cgroup").read_text())
        mounts = parse_mounts(Path("/proc/self/mountinfo").read_text())
    except OSError:
        return None
    points = {mount.point for mount in mounts}
    for controller, (quota, name, unit) in (("cpu", _V1), ("", _V2)):
        for directory in candidates(memberships, mounts, controller):
            if Path(directory, "cpu.stat").exists():
                limited = (place for place in _upwards(Path(directory), points) if has_quota(place / quota))
                return tuple((place / "cpu.stat", name.encode(), unit) for place in limited)
    return None


def _upwards(directory: Path, points: Collection[str]) -> Iterator[Path]:
    """The group and those above it, as far as the mount shows them."""
    for place in (directory, *directory.parents):
        yield place
        if str(place) in points:
            return


def has_quota(path: Path) -> bool:
    """Of a cpu.max or cpu.cfs_quota_us; the root of version 2 has none."""
    try:
        return path.read_text().split()[0] not in ("max", "-1")
    except OSError:
        return False


def steal_seconds(cores: Collection[int]) -> float | None:
    """What a hypervisor has kept from these cores so far; None where that cannot be seen. A machine that has lost nothing since
    it was started is taken for one that loses nothing: on large ones the kernel takes milliseconds to tell."""
    if not _can_be_stolen():
        return 0.0
    try:
        with open("/proc/stat", "rb", buffering=0) as file:
            return parse_steal(file.read(_CORES_BYTES), cores)
    except OSError:
        return None


@functools.cache
def _can_be_stolen() -> bool:
    try:
        return parse_steal(Path("/proc/stat").read_bytes(), range(os.cpu_count() or 1)) > 0
    except OSError:
        return True


def parse_steal(stat: bytes, cores: Collection[int]) -> float:
    """Seconds, from /proc/stat."""
    ticks = 0
    for line in stat.partition(b"\nintr")[0].splitlines():
        fields = line.split()
        if fields[0][3:].isdigit() and int(fields[0][3:]) in cores and len(fields) > _STEAL:
            ticks += int(fields[_STEAL])
    return ticks / _TICKS
