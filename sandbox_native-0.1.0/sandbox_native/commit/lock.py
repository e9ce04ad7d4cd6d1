"""The lock of a directory that is committed to: one commit at a time, and nobody takes one that is under way for one that was
interrupted. Host process, host's credentials.

It is flock(2) on a file beside the directory that its owner alone may write and nobody may read: whoever sees it on a mount that
is read-only, as guests do, cannot open it. The file goes with the lock, which ends with its process, or with an explicit unlock
even where a forked child still holds a copy.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sandbox_native.errors import SetupError

PATIENCE: Final = 60.0
"""Seconds that a lock is waited for."""

_PAUSE: Final = 0.005
_MODE: Final = 0o200
_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def held(above: int, name: str) -> Iterator[None]:
    """The lock that is the file `name` of a directory. SetupError when somebody else keeps it, or has that name."""
    fd = _take(above, name)
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=above)
        fcntl.flock(fd, fcntl.LOCK_UN)
        _HELD.discard(fd)
        os.close(fd)


def exists(above: int, name: str) -> bool:
    """Whether somebody has the lock, or was killed with it."""
    try:
        return is_ours(os.stat(name, dir_fd=above, follow_symlinks=False))
    except OSError:
        return False


def is_ours(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o577


def _take(above: int, name: str) -> int:
    end = time.monotonic() + PATIENCE
    while True:
        fd = _open(above, name)
        _HELD.add(fd)
        try:
            while not _lock(fd):
                if time.monotonic() > end:
                    raise SetupError("commit", errno.EWOULDBLOCK, place(above, name), _kept(fd))
                time.sleep(_PAUSE)
            if os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            _HELD.discard(fd)
            os.close(fd)
            raise
        _HELD.discard(fd)  # it went with the one before us
        os.close(fd)


def _open(above: int, name: str) -> int:
    try:
        fd = os.open(name, _OPEN, _MODE, dir_fd=above)
    except OSError as error:
        raise SetupError("commit", error.errno or 0, place(above, name), _not_ours(error.errno or 0)) from error
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o777:
        os.fchmod(fd, _MODE)  # our umask took it
        status = os.fstat(fd)
    if is_ours(status):
        return fd
    os.close(fd)
    raise SetupError("commit", errno.EEXIST, place(above, name), _not_ours(errno.EEXIST))


def _not_ours(code: int) -> str:
    if code in (errno.EEXIST, errno.ELOOP, errno.EISDIR, errno.ENXIO):
        return "commits are locked by a file of that name, and what has it is none of the caller's: remove it"
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "commits are locked by a file of that name, which the caller must be able to make: let the caller write there"
    return ""


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


def place(above: int, name: str) -> str:
    """A name as people know it, for messages."""
    return os.path.join(os.readlink(f"/proc/self/fd/{above}"), name)


# In a forked child the lock is the parent's, and would be held by both.
_HELD: Final[set[int]] = set()


def _after_fork() -> None:
    for fd in _HELD:
        os.close(fd)
    _HELD.clear()


os.register_at_fork(after_in_child=_after_fork)
