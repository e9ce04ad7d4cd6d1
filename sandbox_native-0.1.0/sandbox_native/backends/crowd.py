"""Many boxes of one thread, in one native loop (csrc/host/batch.c). Host process; sandbox_native/supervisor.py's."""

from __future__ import annotations

import errno
import os
import select
from typing import Any

from sandbox_native._native import ffi, lib
from sandbox_native.backends.box import LinuxBox
from sandbox_native.errors import SetupError


class LinuxCrowd:
    """`wake` is for other threads; everything else is for the one that waits."""

    def __init__(self, places: int) -> None:
        self._boxes: list[LinuxBox | None] = [None] * places
        self._raw: Any = ffi.new("struct sn_box *[]", places)
        self._done: Any = ffi.new("uint32_t[]", places)
        self._epoll = select.epoll()
        self._waker = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        lib.sn_batch_wake_by(self._epoll.fileno(), self._waker)

    @property
    def has_room(self) -> bool:
        return None in self._boxes

    def add(self, box: LinuxBox) -> int:
        """A box that has been started; the place that `wait` tells."""
        place = self._boxes.index(None)
        error = lib.sn_batch_add(self._epoll.fileno(), box.raw, place)
        if error < 0:
            raise SetupError("channel", -error, "batch")
        self._boxes[place], self._raw[place] = box, box.raw
        return place

    def remove(self, place: int) -> None:
        box = self._boxes[place]
        assert box is not None
        lib.sn_batch_remove(self._epoll.fileno(), box.raw)
        self._boxes[place], self._raw[place] = None, ffi.NULL

    def wait(self, timeout_ms: int) -> list[int]:
        """Serves all boxes until some are over (their places), somebody calls `wake`, or the time is."""
        count = lib.sn_batch_wait(self._epoll.fileno(), self._raw, len(self._boxes), self._done, timeout_ms)
        if count < 0 and count != -errno.EINTR:
            raise SetupError("channel", -count, "batch")
        return list(self._done[0:count]) if count > 0 else []

    def wake(self) -> None:
        os.eventfd_write(self._waker, 1)

    def calm(self) -> None:
        """The wakes so far have been heard."""
        try:
            os.eventfd_read(self._waker)
        except BlockingIOError:
            pass

    def close(self) -> None:
        self._epoll.close()
        os.close(self._waker)
