"""cgroup v2: a base that hands controllers down, a leaf for the launcher's side, a leaf for each slot's guest.

    <own>/sandbox-native-…/            no processes; memory, pids and cpu handed down
        launcher/                      template, slots, init: they are not the guest's cost
        slot-0/, slot-1/, …            the guest and what it starts, nobody else

Init clones the guest straight into the slot's leaf (CLONE_INTO_CGROUP). The kernel then asks for write permission on
cgroup.procs of the leaf and of the nearest common ancestor, the base: so both belong to the user that init runs as.
That gives it nothing more: no limit's file is its own, and the guest sees no cgroup file system.
memory.oom.group is set on leaves: an OOM ends the whole guest, and init, which is elsewhere, reports it.
"""

from __future__ import annotations

import os

from sandbox_native.cgroup import files
from sandbox_native.cgroup.group import Group, SlotGroup, no_cpu_controller, quota
from sandbox_native.cgroup.values import Gauge

__all__ = ["GroupV2", "SlotV2"]


class SlotV2(SlotGroup):
    """A leaf, with descriptors open.

    The peak: memory.peak (5.19) can be set back since 6.12, for the descriptor that is written to, so the one that
    init reads is the one that we reset. Before 6.12 it is the highest of all runs in this leaf: then :meth:`peak`
    believes a report only when it is higher than every earlier one, which only this run can have caused, and says
    0 (unknown) otherwise. Before 5.19 there is none.
    """

    def __init__(self, directory: str, limits_cpus: bool) -> None:
        super().__init__((directory,))
        self._directory, self._limits_cpus = directory, limits_cpus
        self._resets = False
        self._highest = 0
        try:
            self._fill()
        except OSError:
            self.close()
            raise

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _fill(self) -> None:
        files.write(self._path("memory.oom.group"), "1")
        try:
            files.write(self._path("memory.swap.max"), "0")
            self.swap_limited = True
        except FileNotFoundError:
            pass
        self._open(Gauge.GROUP, self._directory, os.O_RDONLY | os.O_DIRECTORY)
        self._open(Gauge.CPU_STAT, self._path("cpu.stat"))
        self._open(Gauge.MEMORY_STAT, self._path("memory.stat"))
        self._oom_fd = self._open(Gauge.MEMORY_EVENTS, self._path("memory.events"))
        self._open(Gauge.PIDS, self._path("pids.current"))
        self._open_peak()

    def _open_peak(self) -> None:
        path = self._path("memory.peak")
        try:
            fd = self._open(Gauge.PEAK, path, os.O_RDWR)
        except FileNotFoundError:
            return
        except PermissionError:  # before 6.12 its mode is 0444
            self._open(Gauge.PEAK, path)
            return
        try:
            os.write(fd, b"0")
        except OSError:  # root opens it in any mode; EINVAL before 6.12
            return
        self._resets = True

    def _limit_memory(self, limit: int | None) -> None:
        files.write(self._path("memory.max"), "max" if limit is None else str(limit))

    def _limit_processes(self, limit: int | None) -> None:
        files.write(self._path("pids.max"), "max" if limit is None else str(limit))

    def _limit_cpus(self, cpus: float | None) -> None:
        if not self._limits_cpus:
            if cpus is None:
                return
            raise no_cpu_controller()
        share, period = quota(cpus)
        files.write(self._path("cpu.max"), f"{'max' if share is None else share} {period}")

    def peak(self, reported: int) -> int:
        if self._resets:
            return reported
        if reported <= self._highest:
            return 0
        self._highest = reported
        return reported


class GroupV2(Group):
    def _equip(self) -> None:
        (base,) = self._bases.values()
        files.write(os.path.join(base, "cgroup.subtree_control"), " ".join(f"+{name}" for name in self._hierarchy.directories))
        os.mkdir(os.path.dirname(self.entrance), 0o755)
        self._give(base)

    @property
    def entrance(self) -> str:
        return os.path.join(self.base("memory"), "launcher", "cgroup.procs")

    def _give(self, directory: str) -> None:
        if self._box_uid is not None and self._box_uid != os.geteuid():
            os.chown(os.path.join(directory, "cgroup.procs"), self._box_uid, -1)

    def _open_slot(self, name: str, directories: tuple[str, ...]) -> SlotV2:
        (directory,) = directories
        self._give(directory)
        return SlotV2(directory, self._hierarchy.limits_cpus)
