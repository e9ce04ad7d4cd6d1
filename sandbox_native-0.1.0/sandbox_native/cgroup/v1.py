"""cgroup v1: a base in each of the memory, pids, cpuacct and cpu hierarchies, and in each a group for every slot.

The slot's own process enters them once, by writing "0" to the descriptors that it is given, and what it clones is in
them from the first instruction. So slot and init are in the guest's group here: pids.max is two more than the guest
may have, and the memory of these two (below 1 MB) counts too.

Page cache that a run caused stays charged to its group. It is reclaimed when a later run comes near its limit, so it
ends nobody, but the peak of memory.max_usage_in_bytes begins at what is still there: it is an upper bound.
"""

from __future__ import annotations

import errno
import os

from sandbox_native.cgroup import files
from sandbox_native.cgroup.group import Group, SlotGroup, no_cpu_controller, quota
from sandbox_native.cgroup.values import Gauge

__all__ = ["GroupV1", "SlotV1"]

_OWN_PROCESSES = 2  # slot and init
_LIMIT, _LIMIT_WITH_SWAP = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
_SOCKETS = "memory.kmem.tcp.limit_in_bytes"  # despite its name of UDP too
_SOCKET_SHARE = 4  # a quarter of the memory limit on top of it
_SHRINK_SECONDS = 0.2
_GUEST = "guest"  # below the slot's group in the cpu hierarchy: a quota that init is not under


class SlotV1(SlotGroup):
    """A group in each hierarchy, with descriptors open. The peak begins at the memory in use at the reset."""

    def __init__(self, directories: tuple[str, ...], controllers: dict[str, str]) -> None:
        super().__init__(directories)
        self._controllers = controllers
        self._event = -1
        try:
            self._fill()
        except OSError:
            self.close()
            raise

    def _path(self, name: str) -> str:
        return os.path.join(self._controllers[name.split(".")[0]], name)

    def _fill(self) -> None:
        for directory in self._directories:
            self._open(Gauge.PROCS, os.path.join(directory, "cgroup.procs"), os.O_WRONLY)
        self._cpu_fd = self._open(Gauge.CPU_NS, self._path("cpuacct.usage"))
        self._open(Gauge.CPU_USER_NS, self._path("cpuacct.usage_user"))
        self._open(Gauge.CPU_SYS_NS, self._path("cpuacct.usage_sys"))
        self._open(Gauge.MEMORY_STAT, self._path("memory.stat"))
        self._oom_fd = self._open(Gauge.OOM_CONTROL, self._path("memory.oom_control"))
        if "cpu" in self._controllers:
            group = os.path.join(self._controllers["cpu"], _GUEST)
            os.mkdir(group, 0o755)
            self._open(Gauge.CPU_GROUP, os.path.join(group, "cgroup.procs"), os.O_WRONLY)
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._gauges.append((int(Gauge.OOM_EVENT), self._event))
        files.write(os.path.join(self._controllers["memory"], "cgroup.event_control"), f"{self._event} {self._oom_fd}")
        self._open(Gauge.PIDS, self._path("pids.current"))
        self._open(Gauge.PEAK, self._path("memory.max_usage_in_bytes"), os.O_RDWR)
        self.swap_limited = os.path.exists(self._path(_LIMIT_WITH_SWAP))
        # What waits in a socket of lo is not in the group's memory here, and is counted only once there is a limit for it.
        self._counts_sockets = os.path.exists(self._path(_SOCKETS))
        if not self.swap_limited:  # the next best: no swapping while there is memory to reclaim
            files.write(self._path("memory.swappiness"), "0")

    def cpu_ns(self) -> int:
        return int(os.pread(self._cpu_fd, 32, 0))

    def _limit_memory(self, limit: int | None) -> None:
        """memory alone may never be above memory and swap together, so the order depends on the direction."""
        value = "-1" if limit is None else str(limit)
        if self._counts_sockets:
            self._write_limit(self._path(_SOCKETS), value if limit is None else str(limit // _SOCKET_SHARE))
        names = [_LIMIT, _LIMIT_WITH_SWAP] if self.swap_limited else [_LIMIT]
        before = self._set.get("memory")
        if limit is None or (before is not None and limit > before):
            names.reverse()
        try:
            self._write_limits(names, value)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # After a failure half way the direction is not known: the other order is the right one.
            self._write_limits(names[::-1], value)

    def _write_limits(self, names: list[str], value: str) -> None:
        for name in names:
            self._write_limit(self._path(name), value)

    def _write_limit(self, path: str, value: str) -> None:
        """EBUSY: more than the new limit is in use. The memory of a box that has just ended goes within moments."""
        for _ in files.pauses(_SHRINK_SECONDS):
            try:
                return files.write(path, value)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
        files.write(path, value)

    def _limit_processes(self, limit: int | None) -> None:
        files.write(self._path("pids.max"), "max" if limit is None else str(limit + _OWN_PROCESSES))

    def _limit_cpus(self, cpus: float | None) -> None:
        if "cpu" not in self._controllers:
            if cpus is None:
                return
            raise no_cpu_controller()
        share, period = quota(cpus)
        group = os.path.join(self._controllers["cpu"], _GUEST)
        files.write(os.path.join(group, "cpu.cfs_period_us"), str(period))
        files.write(os.path.join(group, "cpu.cfs_quota_us"), "-1" if share is None else str(share))


class GroupV1(Group):
    def _equip(self) -> None:
        pass

    @property
    def entrance(self) -> str:
        return ""

    def _open_slot(self, name: str, directories: tuple[str, ...]) -> SlotV1:
        controllers = self._hierarchy.directories
        return SlotV1(directories, {controller: os.path.join(self.base(controller), name) for controller in controllers})
