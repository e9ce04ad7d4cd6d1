"""The lock of a directory that is committed to: one commit at a time, and nobody takes one that is under way for one that was
interrupted. Host process, host's credentials.

It is flock(2) on a file among what is remembered of the directory (state.py), where no guest can open it. The file goes with
the lock, which ends with its process, or with an explicit unlock even where a forked child still holds a copy.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sandbox_native import state
from sandbox_native.errors import SetupError
from sandbox_native.state import Kept

NAME: Final = "lock"
PATIENCE: Final = 60.0
"""Seconds that a lock is waited for."""

_PAUSE: Final = 0.005
_MODE: Final = 0o200
_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def held(root: int) -> Iterator[Kept]:
    """The lock of the directory `root`; what is remembered of it. SetupError when somebody else keeps it."""
    kept, fd = _take(root)
    try:
        yield kept
    finally:
        kept.forget(NAME)
        fcntl.flock(fd, fcntl.LOCK_UN)
        _HELD.discard(fd)
        os.close(fd)
        kept.close()


def _take(root: int) -> tuple[Kept, int]:
    end = time.monotonic() + PATIENCE
    while True:
        kept = state.enter(root)
        fd = -1
        try:
            fd = os.open(kept.file(NAME), _OPEN, _MODE, dir_fd=kept.fd)
            _HELD.add(fd)
            while not _lock(fd):
                if time.monotonic() > end:
                    raise SetupError("commit", errno.EWOULDBLOCK, kept.path(NAME), _kept(fd))
                time.sleep(_PAUSE)
            if os.fstat(fd).st_nlink:
                return kept, fd
        except BaseException:
            _close(kept, fd)
            raise
        _close(kept, fd)


def _close(kept: Kept, fd: int) -> None:
    if fd >= 0:
        _HELD.discard(fd)
        os.close(fd)
    kept.close()


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _kept(fd: int) -> str:
    pids = _holders(os.fstat(fd).st_ino)
    who = f"process {', '.join(pids)} has" if pids else "a process has"
    return f"{who} held the lock for more than {PATIENCE:.0f} s: let its commit end, or end it, and try again"


def _holders(inode: int) -> list[str]:
    """`/proc/locks`: number, kind, how, what, pid, device:inode, range."""
    with open("/proc/locks", encoding="ascii") as locks:
        lines = [line.split() for line in locks]
    return [line[4] for line in lines if len(line) > 5 and line[1] == "FLOCK" and line[5].endswith(f":{inode}")]


# In a forked child the lock is the parent's, and would be held by both.
_HELD: Final[set[int]] = set()


def _after_fork() -> None:
    for fd in _HELD:
        os.close(fd)
    _HELD.clear()


os.register_at_fork(after_in_child=_after_fork)
