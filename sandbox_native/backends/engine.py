"""One launcher and its slots. Host process.

An engine is made for a plan and thrown away as a whole: when its launcher is gone the backend makes another. Slots
are used in turn, longest idle first, so that the kernel tears down one box while the next runs in another slot.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections import deque
from typing import Final

from sandbox_native._native import ffi, lib
from sandbox_native.backends.base import Stats, Upkeep
from sandbox_native.backends.native import raise_failure
from sandbox_native.backends.patience import patiently
from sandbox_native.backends.slots import CLOSE_MS, Slot, close_descriptors, close_ending
from sandbox_native.cgroup import Group
from sandbox_native.errors import REMEDIES, SetupError

_TIMEOUT_MS: Final = 30_000  # an emulated machine needs 40 times what a real one does
_IMPORT_TIMEOUT_MS: Final = 300_000  # of a warm interpreter
_FEWEST_SLOTS: Final = 2
_GONE: Final = (errno.EPIPE, errno.ECONNRESET)
_LEAST_SECONDS: Final = 0.25  # that a slot must still have, so that the request finds it there
_PRUNE_SECONDS: Final = 1.0  # after which a slot has ended that was to end by itself
_MOST_IDLE: Final = 64
_STOCK: Final = 4  # so many boxes outlast a burst: the next ones are made after it
_HOLD_US: Final = 1_500  # for each box of the stock, a run's time on most machines; a slot finds out what is too long

_USUAL: Final = Upkeep()


class Engine:
    """Safe in threads. Whoever finds `alive` false throws it away with `close`."""

    def __init__(self, launcher: str, group: Group | None, plan: bytes, keep: Upkeep = _USUAL, bare: bool = False) -> None:
        """`bare`: without pid namespaces, so that slots and launcher end what a killed init leaves."""
        self._keep, self._staying, self.bare = keep, 0, bare
        self._hits = self._misses = 0
        self._asking = threading.RLock()  # template and launcher answer one question at a time, and are not closed meanwhile
        self._pool = threading.RLock()  # a signal handler may close what its own thread is just using
        self._idle: deque[Slot] = (
            deque()
        )  # of those that stay, the longest idle first, so that each has time to make its next box
        self._more: deque[Slot] = deque()  # the others, which end when they are idle for long: the newest last
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
            if self._keep.warm is None:
                code = lib.sn_launcher_plan(self._launcher, fd, control, _TIMEOUT_MS, why)
            else:
                launcher = self._launcher
                code = patiently(
                    lambda: int(lib.sn_launcher_plan(launcher, fd, control, _IMPORT_TIMEOUT_MS, why)), launcher.control
                )
            if code < 0:
                raise_failure(why)
        finally:
            os.close(fd)
        self._template.control = control[0]

    @property
    def swap_limited(self) -> bool:
        """Whether the memory limit of the groups counts swap too."""
        with self._pool:
            return bool(self._idle) and getattr(self._idle[0].group, "swap_limited", False)

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
        """A run failed before it began, because of its slot alone: in another one it can be tried again. One that does not answer
        in time may yet begin."""
        return error.stage == "lost" and error.item == "slot" and error.errno in _GONE and self.alive

    # ---- slots ----

    def prepare(self) -> None:
        """Opens the slots that are to be there before anybody asks. What a slot cannot do is found out here."""
        slots = []
        try:
            for _ in range(max(1, self._keep.prepared)):
                slots.append(self.new())
        finally:
            for slot in slots:
                self.put(slot)

    def take(self) -> Slot:
        """A slot that nobody uses; a new one where there is none."""
        while True:
            with self._pool:
                if self._idle and self._count >= _FEWEST_SLOTS:
                    slot = self._idle.popleft()
                elif self._more:
                    slot = self._more.pop()
                else:
                    break
            if slot.alive and (slot.stays or time.monotonic() < slot.since + self._keep.idle_seconds - _LEAST_SECONDS):
                return slot
            self.drop(slot)
            if not self.alive:  # not the slot alone: whoever asks makes another engine
                raise SetupError("lost", errno.EPIPE, "launcher", REMEDIES["lost"])
        return self.new()

    def new(self) -> Slot:
        """A slot that was not there before."""
        with self._pool:
            self._count += 1
        slot = None
        try:
            slot = self._open_slot()
            slot.counted = True
        except BaseException:
            if slot is None or not slot.counted:
                self._one_less(slot is not None and slot.stays)
            raise
        return slot

    def put(self, slot: Slot) -> None:
        slot.since = now = time.monotonic()
        slot.lent = False
        dropped = []
        with self._pool:
            if self._closed or slot.process.control < 0:
                dropped.append(slot)
            elif slot.stays:
                self._idle.append(slot)
            else:
                self._more.append(slot)
            expired = now - self._keep.idle_seconds - _PRUNE_SECONDS
            while self._more and (len(self._more) > _MOST_IDLE or self._more[0].since < expired):
                dropped.append(self._more.popleft())
        for one in dropped:
            self.drop(one)

    def tally(self, parked: bool) -> None:
        """Of a run that is over: whether its box was waiting for it."""
        with self._pool:
            self._hits += parked
            self._misses += not parked

    @property
    def has_idle(self) -> bool:
        return bool(self._idle or self._more)

    def stats(self) -> Stats:
        with self._pool:
            return Stats(hits=self._hits, misses=self._misses, boxes=self._count, idle=len(self._idle) + len(self._more))

    def drop(self, slot: Slot) -> None:
        """Of a slot that failed, or that is one too many."""
        counted, slot.counted = slot.counted, False
        try:
            slot.close()
        finally:
            if counted:
                self._one_less(slot.stays)

    def _one_less(self, stayed: bool) -> None:
        with self._pool:
            self._count -= 1
            self._staying -= stayed
            last = self._closed and self._count == 0
        if last:
            self._end()

    def _open_slot(self) -> Slot:
        group, stays = self._group.new_slot() if self._group is not None else None, False
        try:
            gauges = group.gauges if group is not None else []
            process, why = ffi.new("struct sn_process *"), ffi.new("struct sn_failure *")
            process.pidfd = process.control = -1
            kinds = ffi.new("uint32_t[]", [kind for kind, _ in gauges])
            fds = ffi.new("int32_t[]", [fd for _, fd in gauges])
            stays = self._one_that_stays()
            idle = 0 if stays else max(1, round(self._keep.idle_seconds))
            hold = self._keep.prepared * _HOLD_US if stays and self._keep.prepared >= _STOCK else 0
            with self._asking:
                if lib.sn_slot_open(self._template, kinds, fds, len(gauges), idle, hold, process, _TIMEOUT_MS, why) < 0:
                    raise_failure(why)
        except BaseException:
            if stays:
                with self._pool:
                    self._staying -= 1
            if group is not None:
                group.remove()
            raise
        return Slot(self, process, group, stays)

    def _one_that_stays(self) -> bool:
        with self._pool:
            stays = self._staying < max(_FEWEST_SLOTS, self._keep.prepared)
            self._staying += stays
        return stays

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
        """Ends every process and removes every group, when the last slot that is in use has come back. Harmless when repeated.
        SetupError when something of a run without a pid namespace does not end."""
        with self._pool:
            self._closed = True
            idle, self._idle, self._more = [*self._idle, *self._more], deque(), deque()
            last = self._count == 0
        for slot in idle:
            self.drop(slot)
        if last:
            self._end()

    def _end(self) -> None:
        asked = self._template, self._launcher
        with self._pool:  # who waits for an answer is told at once that none comes
            for process in asked:
                lib.sn_process_hang_up(process)
        with self._asking, self._pool:  # a number that is somebody else's by now must not be asked
            for process in asked:
                close_descriptors(process, "control")
        lib.sn_process_close(self._template, CLOSE_MS, lib.SN_KILL_LATE)
        if self.bare:
            close_ending(self._launcher, "launcher")
        else:
            lib.sn_process_close(self._launcher, CLOSE_MS, lib.SN_KILL_LATE)
        group, self._group = self._group, None
        if group is not None:
            group.remove()

    def abandon(self) -> None:
        """In a forked child of the host: everything is the parent's, and locks may be held by threads that are not here."""
        self._asking, self._pool, self._closed = threading.RLock(), threading.RLock(), True
        idle, self._idle, self._more = [*self._idle, *self._more], deque(), deque()
        for slot in idle:
            slot.abandon()
        close_descriptors(self._template)
        close_descriptors(self._launcher)
        group, self._group = self._group, None
        if group is not None:
            group.abandon()
