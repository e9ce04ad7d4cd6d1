"""Open files with a lock that must end with this process. Linux, host process; used by claims.py and commit/lock.py.

A lock of flock(2) belongs to the open file, and a forked child shares that: as long as such a child lived, a host that was killed
would seem to be at work. So a child closes them first of all, whatever the host was just doing with them, and no fork comes
between the opening of one and its being known here.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from typing import Final


class OwnFile:
    """`fd` is -1 before `open`, after `close`, and in a forked child. One that is forgotten closes itself: a Ctrl-C keeps no
    lock."""

    __slots__ = ("__weakref__", "_fds")

    def __init__(self) -> None:
        self._fds: list[int] = []

    @property
    def fd(self) -> int:
        return self._fds[0] if self._fds else -1

    def open(self, name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        with _KNOWN.no_fork:
            _KNOWN.files.add(self)
            self._fds.append(os.open(name, flags, mode, dir_fd=dir_fd))

    def lock(self) -> bool:
        """False: somebody else has it."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        """Also where somebody forked past Python and holds a copy."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Harmless when repeated."""
        with _KNOWN.no_fork:
            while self._fds:
                os.close(self._fds.pop())

    def __del__(self) -> None:
        if getattr(self, "_fds", None):
            self.close()


class _Known:
    """All that are open."""

    def __init__(self) -> None:
        self.files = weakref.WeakSet[OwnFile]()
        self.no_fork = threading.RLock()  # a signal handler may fork too

    def before_fork(self) -> None:
        self.no_fork.acquire()

    def after_fork(self) -> None:
        self.no_fork.release()

    def forget(self) -> None:
        """In a forked child of the host."""
        self.no_fork = threading.RLock()
        for file in list(self.files):
            file.close()
        self.files.clear()


_KNOWN: Final = _Known()

os.register_at_fork(before=_KNOWN.before_fork, after_in_parent=_KNOWN.after_fork, after_in_child=_KNOWN.forget)
