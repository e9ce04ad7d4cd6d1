"""What groups of both versions share: a base for each Sandbox, slots in it, removal. Host process, own credentials.

A base is a directory ``sandbox-native-<pid>-<start time>-<n>`` in each hierarchy, where pid and start time are the
host's; a slot is a group in it that one box at a time uses, with its descriptors open, so that a run costs no more
than the limits that changed. The host holds a shared lock on its bases for as long as it lives (see ``files.lock``).
"""

from __future__ import annotations

import fcntl
import itertools
import os
from abc import ABC, abstractmethod

from sandbox_native.cgroup import files
from sandbox_native.cgroup.discover import make_directory
from sandbox_native.cgroup.values import Gauge, Hierarchy, parse_counter
from sandbox_native.errors import UnsupportedError

__all__ = ["Group", "SlotGroup"]

_PERIOD_US = 100_000
_SMALLEST_QUOTA_US = 1_000  # the kernel refuses less


class SlotGroup(ABC):
    """The group of one slot. Not for two threads at once: a slot serves one run at a time."""

    swap_limited = False
    """Whether the memory limit covers swap too, which takes a kernel that accounts it."""

    def __init__(self, directories: tuple[str, ...]) -> None:
        self._directories = directories
        self._gauges: list[tuple[int, int]] = []
        self._oom_fd = -1
        self._oom_line = b"oom_kill"
        self._set: dict[str, float | int | None] = {}

    @property
    def gauges(self) -> list[tuple[int, int]]:
        """(number of ``enum sn_gauge``, descriptor) for the slot; they stay ours until :meth:`close`."""
        return list(self._gauges)

    @property
    def paths(self) -> tuple[str, ...]:
        return self._directories

    def prepare(self, memory_bytes: int | None, processes: int | None, cpus: float | None) -> None:
        """Sets the limits of the next run (None: no limit). Writes only what changed; the peak is set back by init.

        :raises UnsupportedError: ``cpus`` without a cpu controller.
        :raises SetupError: the kernel refused a limit; item is its file. The next call sets everything again.
        """
        limits = self._set
        try:
            if memory_bytes != limits.get("memory", -1):
                self._limit_memory(memory_bytes)
                limits["memory"] = memory_bytes
            if processes != limits.get("processes", -1):
                self._limit_processes(processes)
                limits["processes"] = processes
            if cpus != limits.get("cpus"):
                self._limit_cpus(cpus)
                limits["cpus"] = cpus
        except OSError as error:
            limits.clear()
            limits["cpus"] = -1.0
            raise files.failure(error, str(error.filename or self._directories[0])) from error

    @abstractmethod
    def _limit_memory(self, limit: int | None) -> None: ...

    @abstractmethod
    def _limit_processes(self, limit: int | None) -> None: ...

    @abstractmethod
    def _limit_cpus(self, cpus: float | None) -> None: ...

    def oom_kills(self) -> int:
        """The group's count since it was made. Not during a run: on v2 reading it takes the event away from init."""
        return parse_counter(os.pread(self._oom_fd, 4096, 0), self._oom_line)

    def cpu_ns(self) -> int:
        """CPU time of the group since it was made, where init is in it and can be lost with the guest; else 0."""
        return 0

    def kept_bytes(self) -> int:
        """What files in memory take that outlived their run: those on a tmpfs of the host. The kernel charges them to this group
        for as long as they exist, and cannot reclaim them."""
        fd = next(fd for gauge, fd in self._gauges if gauge == Gauge.MEMORY_STAT)
        return parse_counter(os.pread(fd, 8192, 0), b"shmem")

    def peak(self, reported: int) -> int:
        """The run's own peak out of the one that the report brought; 0 when the kernel cannot tell."""
        return reported

    def close(self) -> None:
        """Closes the descriptors; harmless when repeated. The group stays: see :meth:`remove`."""
        gauges, self._gauges = self._gauges, []
        self._oom_fd = -1
        for _, fd in gauges:
            os.close(fd)

    def remove(self, seconds: float = 1.0) -> bool:
        """Closes, and removes the group, whose processes are gone or about to be; True when it is gone."""
        self.close()
        gone = [files.remove_tree(directory, seconds) for directory in self._directories]
        return all(gone)

    def _open(self, gauge: Gauge, path: str, flags: int = os.O_RDONLY) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC)
        self._gauges.append((int(gauge), fd))
        return fd


class Group(ABC):
    """The base of one Sandbox: makes slots, and is removed with all of them."""

    def __init__(self, hierarchy: Hierarchy, box_uid: int | None = None) -> None:
        """``box_uid``: whom init runs as, when that is not the caller.

        :raises UnsupportedError: there is no hierarchy.
        :raises SetupError: a directory could not be made.
        """
        if not hierarchy.usable:
            raise UnsupportedError(hierarchy.reason, ("cgroup",), hierarchy.remedy)
        self._hierarchy, self._box_uid = hierarchy, box_uid
        self._locks: list[int] = []
        self._numbers = itertools.count()
        self._bases: dict[str, str] = {}  # our own group's directory -> the base in it
        try:
            for root in hierarchy.roots:
                self._bases[root] = self._make_base(root)
            self._equip()
        except OSError as error:
            self.remove(0)
            raise files.failure(error, str(error.filename or hierarchy.roots[0])) from error

    def _make_base(self, root: str) -> str:
        while True:
            path = make_directory(root)
            try:
                fd = files.lock(path, fcntl.LOCK_SH)
            except FileNotFoundError:  # a sweeper in another pid namespace took it for a dead host's
                continue
            self._locks.append(fd)
            if os.path.exists(path):
                return path

    def paths(self) -> tuple[str, ...]:
        """The base in each hierarchy, for the plan: the launcher removes them and what is in them after the host."""
        return tuple(self._bases.values())

    def base(self, controller: str) -> str:
        return self._bases[self._hierarchy.directories[controller]]

    @abstractmethod
    def _equip(self) -> None:
        """What the bases need besides being there."""

    @property
    @abstractmethod
    def entrance(self) -> str:
        """The cgroup.procs file that the process which forks the slots writes itself to, once; empty on v1, where each
        slot enters its own groups."""

    def new_slot(self) -> SlotGroup:
        """A group for one slot, with its descriptors open and no limits set yet; from any thread.

        :raises SetupError: a directory, file or descriptor could not be had; nothing is left of it then.
        """
        name = f"slot-{next(self._numbers)}"
        made: list[str] = []
        try:
            for base in self._bases.values():
                path = os.path.join(base, name)
                os.mkdir(path, 0o755)
                made.append(path)
            return self._open_slot(name, tuple(made))
        except OSError as error:
            for path in made:
                files.remove_tree(path, 0)
            raise files.failure(error, str(error.filename or name)) from error

    @abstractmethod
    def _open_slot(self, name: str, directories: tuple[str, ...]) -> SlotGroup: ...

    def remove(self, seconds: float = 1.0) -> bool:
        """Removes everything of it; True when all is gone. What is still busy is left to the launcher or a sweep."""
        gone = [files.remove_tree(base, seconds) for base in self._bases.values()]
        self.abandon()
        return all(gone)

    def abandon(self) -> None:
        """Closes what it holds and removes nothing: in a forked child of the host. Harmless when repeated."""
        locks, self._locks = self._locks, []
        for fd in locks:
            os.close(fd)


def quota(cpus: float | None) -> tuple[int | None, int]:
    """Microseconds of CPU time in each period, and the period; None is no limit."""
    return (None if cpus is None else max(_SMALLEST_QUOTA_US, round(cpus * _PERIOD_US))), _PERIOD_US


def no_cpu_controller() -> UnsupportedError:
    return UnsupportedError(
        "limits.cpus cannot be enforced here", ("the cpu controller",), "leave cpus=None, or have cpu delegated to this group"
    )
