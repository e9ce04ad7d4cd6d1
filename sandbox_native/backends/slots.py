"""A slot of an engine: the process that stamps out boxes one after the other, and what its engine keeps of it. Host process."""

from __future__ import annotations

import errno
import os
import select
from typing import TYPE_CHECKING, Any, Final

from sandbox_native._native import lib
from sandbox_native.cgroup import SlotGroup
from sandbox_native.errors import SetupError
from sandbox_native.limits import Limits
from sandbox_native.verdict import ReportData

if TYPE_CHECKING:
    from sandbox_native.backends.engine import Engine

CLOSE_MS: Final = 3_000
TREE_MS: Final = 30_000  # for those who end what a run without a pid namespace left
_MOST_KEPT: Final = 1 << 20  # bytes of a memory limit that earlier runs may have used up


class Slot:
    """A process that stamps out boxes, and the control group of what runs in them."""

    __slots__ = ("_cpu_ns", "_oom_kills", "_pid", "counted", "engine", "group", "lent", "process", "since", "stays")

    def __init__(self, engine: Engine, process: Any, group: SlotGroup | None, stays: bool) -> None:
        self.engine = engine
        self.process = process  # struct sn_process *
        self.group = group
        self._oom_kills = self._cpu_ns = 0  # before the run
        self._pid = os.getpid()
        self.counted = False  # by its engine, which waits at its end for those that are
        self.stays = stays  # also when nobody uses it for long
        self.since = 0.0  # when it was put back
        self.lent = False  # a box has it, and gives it back

    def prepare(self, limits: Limits) -> None:
        if self.group is not None:
            self.group.prepare(limits.memory_bytes, limits.processes, limits.cpus)
            self._oom_kills, self._cpu_ns = self.group.oom_kills(), self.group.cpu_ns()

    def own_peak(self, report: ReportData) -> ReportData:
        """The report with the peak of this run, and not of an earlier one in the same group."""
        if self.group is None:
            return report
        peak = self.group.peak(report.group_peak_bytes)
        return report if peak == report.group_peak_bytes else report._replace(group_peak_bytes=peak)

    def lost_to_oom(self) -> bool:
        """Init ended without a report: whether the kernel ended it for want of memory in the group."""
        return self.group is not None and self.group.oom_kills() > self._oom_kills

    def cpu_ns(self) -> int:
        """Of a run that init did not report."""
        return self.group.cpu_ns() - self._cpu_ns if self.group is not None else 0

    @property
    def burdened(self) -> bool:
        """Whether the next run here would pay for what this one left on a tmpfs of the host. A private one that is just being
        torn down looks the same, so this is for runs that could write elsewhere."""
        return self.group is not None and self.group.kept_bytes() > _MOST_KEPT

    @property
    def alive(self) -> bool:
        """Whether its process is there; it may have ended for want of work, or been killed."""
        if self.process.pidfd < 0 or self.process.control < 0:
            return False
        watched = select.poll()
        watched.register(self.process.pidfd, select.POLLIN)
        return not watched.poll(0)

    def end(self) -> None:
        """Waits for a slot whose init may have been killed: it ends when it has ended what that left. It is of no use any more.

        SetupError when that takes too long: the slot goes on with it.
        """
        close_ending(self.process, "slot")

    def close(self) -> None:
        lib.sn_process_close(self.process, CLOSE_MS, lib.SN_KILL_NEVER if self.engine.bare else lib.SN_KILL_LATE)
        if self.group is not None:
            self.group.remove()
        self._pid = 0

    def abandon(self) -> None:
        self._pid = 0
        close_descriptors(self.process)
        if self.group is not None:
            self.group.close()

    def __del__(self) -> None:
        """Of one that a Ctrl-C kept from being given back."""
        if self._pid == os.getpid() and not self.lent:
            self.engine.drop(self)


def close_ending(process: Any, name: str) -> None:
    """Of a process that ends others, which nobody would end after it. SetupError when it has not done so in TREE_MS."""
    pid = process.pid
    if lib.sn_process_close(process, TREE_MS, lib.SN_KILL_NEVER) < 0:
        hint = f"it is still ending processes of a run, and goes on: look at process {pid} and its children for what keeps them"
        raise SetupError("lost", errno.ETIMEDOUT, name, hint)


def close_descriptors(process: Any, *names: str) -> None:
    """Of a struct sn_process: those fields, or all, as in a forked child of the host, where it is the parent's."""
    for name in names or ("control", "pidfd"):
        fd = getattr(process, name)
        if fd >= 0:
            setattr(process, name, -1)
            os.close(fd)
