"""One launcher and its slots. Host process.

An engine is made for a plan and thrown away as a whole: when its launcher is gone the backend makes another. Slots
are used in turn, longest idle first, so that the kernel tears down one box while the next runs in another slot.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from typing import Any, Final

from sandbox_native._native import ffi, lib
from sandbox_native.backends.native import raise_failure
from sandbox_native.cgroup import Group, SlotGroup
from sandbox_native.errors import SetupError
from sandbox_native.limits import Limits
from sandbox_native.verdict import ReportData

_TIMEOUT_MS: Final = 30_000  # an emulated machine needs 40 times what a real one does
_CLOSE_MS: Final = 3_000
_FEWEST_SLOTS: Final = 2
_MOST_IDLE: Final = 64
_MOST_KEPT: Final = 1 << 20  # bytes of a memory limit that earlier runs may have used up


class Slot:
    """A process that stamps out boxes, and the control group of what runs in them."""

    __slots__ = ("_cpu_ns", "_oom_kills", "_pid", "counted", "engine", "group", "process")

    def __init__(self, engine: Engine, process: Any, group: SlotGroup | None) -> None:
        self.engine = engine
        self.process = process  # struct sn_process *
        self.group = group
        self._oom_kills = self._cpu_ns = 0  # before the run
        self._pid = os.getpid()
        self.counted = False  # by its engine, which waits at its end for those that are

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

    def close(self) -> None:
        lib.sn_process_close(self.process, _CLOSE_MS, 0)
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
        if self._pid == os.getpid():
            self.engine.drop(self)


def close_descriptors(process: Any) -> None:
    """In a forked child of the host: of a struct sn_process that is the parent's."""
    for name in ("control", "pidfd"):
        fd = getattr(process, name)
        if fd >= 0:
            setattr(process, name, -1)
            os.close(fd)


class Engine:
    """Safe in threads. Whoever finds `alive` false throws it away with `close`."""

    def __init__(self, launcher: str, group: Group | None, plan: bytes) -> None:
        self._asking = threading.Lock()  # template and launcher answer one question at a time
        self._pool = threading.RLock()  # a signal handler may close what its own thread is just using
        self._idle: deque[Slot] = deque()
        self._count = 0
        self._closed = False
        self._group = group
        self._launcher = ffi.new("struct sn_process *")
        self._template = ffi.new("struct sn_process *")  # the launcher looks after it: there is only its socket
        for process in (self._launcher, self._template):
            process.pidfd = process.control = -1
        why = ffi.new("struct sn_failure *")
        try:
            if lib.sn_launcher_start(os.fsencode(launcher), self._launcher, why) < 0:
                raise_failure(why)
            self._send(plan)
        except BaseException:
            self.close()
            raise

    def _send(self, plan: bytes) -> None:
        why, control = ffi.new("struct sn_failure *"), ffi.new("int32_t *", -1)
        fd = os.memfd_create("sandbox-native-plan", os.MFD_CLOEXEC)
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(plan)
            if lib.sn_launcher_plan(self._launcher, fd, control, _TIMEOUT_MS, why) < 0:
                raise_failure(why)
        finally:
            os.close(fd)
        self._template.control = control[0]

    @property
    def alive(self) -> bool:
        """False once the launcher or the template has ended; for when something went wrong."""
        watched = select.poll()
        for fd, event in ((self._launcher.pidfd, select.POLLIN), (self._template.control, select.POLLRDHUP)):
            if fd < 0:
                return False
            watched.register(fd, event)
        return not watched.poll(0)

    def slot_was_dead(self, error: SetupError) -> bool:
        """A run failed before it began, because of its slot alone: in another one it can be tried again."""
        return error.stage == "lost" and error.item == "slot" and self.alive

    # ---- slots ----

    def take(self) -> Slot:
        """A slot that nobody uses; a new one where there is none."""
        with self._pool:
            if self._idle and self._count >= _FEWEST_SLOTS:
                return self._idle.popleft()
            self._count += 1
        slot = None
        try:
            slot = self._open_slot()
            slot.counted = True
        except BaseException:
            if slot is None or not slot.counted:
                self._one_less()
            raise
        return slot

    def put(self, slot: Slot) -> None:
        with self._pool:
            keep = len(self._idle) < _MOST_IDLE and not self._closed
            if keep:
                self._idle.append(slot)
        if not keep:
            self.drop(slot)

    def drop(self, slot: Slot) -> None:
        """Of a slot that failed, or that is one too many."""
        counted, slot.counted = slot.counted, False
        try:
            slot.close()
        finally:
            if counted:
                self._one_less()

    def _one_less(self) -> None:
        with self._pool:
            self._count -= 1
            last = self._closed and self._count == 0
        if last:
            self._end()

    def _open_slot(self) -> Slot:
        group = self._group.new_slot() if self._group is not None else None
        try:
            gauges = group.gauges if group is not None else []
            process, why = ffi.new("struct sn_process *"), ffi.new("struct sn_failure *")
            process.pidfd = process.control = -1
            kinds = ffi.new("uint32_t[]", [kind for kind, _ in gauges])
            fds = ffi.new("int32_t[]", [fd for _, fd in gauges])
            with self._asking:
                if lib.sn_slot_open(self._template.control, kinds, fds, len(gauges), process, _TIMEOUT_MS, why) < 0:
                    raise_failure(why)
        except BaseException:
            if group is not None:
                group.remove()
            raise
        return Slot(self, process, group)

    def bind(self, path: str, flags: int, device: int, inode: int) -> int:
        """A detached mount of a host directory, for one run; the caller closes it."""
        why = ffi.new("struct sn_failure *")
        with self._asking:
            mount = lib.sn_launcher_bind(self._launcher, os.fsencode(path), flags, device, inode, _TIMEOUT_MS, why)
        if mount < 0:
            raise_failure(why)
        return int(mount)

    def explain(self, socket: int, memory: int) -> int:
        """A supervisor of one run's refused calls: its pidfd, which the caller closes. `memory` is of a struct sn_denials."""
        why = ffi.new("struct sn_failure *")
        with self._asking:
            supervisor = lib.sn_launcher_explain(self._launcher, socket, memory, _TIMEOUT_MS, why)
        if supervisor < 0:
            raise_failure(why)
        return int(supervisor)

    # ---- the end ----

    def close(self) -> None:
        """Ends every process and removes every group, when the last slot that is in use has come back. Harmless when repeated."""
        with self._pool:
            self._closed = True
            idle, self._idle = self._idle, deque()
            last = self._count == 0
        for slot in idle:
            self.drop(slot)
        if last:
            self._end()

    def _end(self) -> None:
        lib.sn_process_close(self._template, _CLOSE_MS, 0)
        lib.sn_process_close(self._launcher, _CLOSE_MS, 0)
        group, self._group = self._group, None
        if group is not None:
            group.remove()

    def abandon(self) -> None:
        """In a forked child of the host: everything is the parent's, and locks may be held by threads that are not here."""
        self._asking, self._pool, self._closed = threading.Lock(), threading.RLock(), True
        idle, self._idle = self._idle, deque()
        for slot in idle:
            slot.abandon()
        close_descriptors(self._template)
        close_descriptors(self._launcher)
        group, self._group = self._group, None
        if group is not None:
            group.abandon()
