"""The epoll descriptor of a run that has been closed, kept for the event loop that may still watch it. Host process; box.py's."""

from __future__ import annotations

import errno
import os
import select
from typing import Final

_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC})


class Watched:
    """Its number must not go to somebody else while a loop has it registered. Every step is harmless when repeated."""

    __slots__ = ("_ready", "fd")

    def __init__(self) -> None:
        self.fd = self._ready = -1

    def stand_in(self) -> None:
        """For a run that had been closed before anybody could watch it: readable for good."""
        if self.fd < 0:
            self.fd = os.eventfd(1, os.EFD_CLOEXEC)

    def wake(self) -> None:
        """Makes it readable for good: another thread may have seen the end, and the loop is to come and see it too."""
        if self.fd < 0 or self._ready >= 0:
            return
        try:
            self._ready = os.eventfd(1, os.EFD_CLOEXEC)
            with select.epoll.fromfd(os.dup(self.fd)) as epoll:  # closes what it is given
                epoll.register(self._ready, select.EPOLLIN)
        except OSError as error:
            if error.errno not in _SCARCE:  # then it is valid only, which is what matters most
                raise

    def close(self) -> None:
        closing = self.fd, self._ready
        self.fd = self._ready = -1  # first: while one is being closed, its number may already be somebody else's
        for fd in closing:
            if fd >= 0:
                os.close(fd)
