"""One entry of a directory, held by a descriptor: what it is and what is done to it are then about the same one, whatever
happens to its name meanwhile. Host process, host's credentials.

chmod(2) and utimensat(2) with a name follow links where Python lets them; by /proc/self/fd they do not.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sandbox_native.descent import DIRECTORY, Descent

_HOLD: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def held(name: str, directory: int) -> Iterator[int]:
    """A link is held itself, and nothing is opened for reading."""
    fd = os.open(name, _HOLD, dir_fd=directory)
    try:
        yield fd
    finally:
        os.close(fd)


def path(fd: int) -> str:
    """By which a call that takes names reaches what is held."""
    return f"/proc/self/fd/{fd}"


def open_up(name: str, directory: int) -> int:
    """Gives the owner of a directory of ours all rights in it; the mode to give back, or -1 where nothing was changed."""
    with held(name, directory) as fd:
        status = os.fstat(fd)
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISDIR(status.st_mode) or mode & stat.S_IRWXU == stat.S_IRWXU or status.st_uid != os.geteuid():
            return -1
        os.chmod(path(fd), mode | stat.S_IRWXU)
        return mode


def leave(place: Descent, mode: int) -> None:
    """Up; the directory that it comes from gets the mode (-1: keeps its own)."""
    if mode < 0:
        place.up()
        return
    fd = -1
    try:
        fd = os.dup(place.fd)
        place.up()
        os.fchmod(fd, mode)
    finally:
        if fd >= 0:
            os.close(fd)


def open_above(root: int, names: Sequence[str]) -> int:
    """The directory of the last of `names`, each opened beneath the one before it. OSError where one is a link."""
    fds: list[int] = []
    try:
        fds.append(os.open(".", DIRECTORY, dir_fd=root))
        for name in names[:-1]:
            fds.append(os.open(name, _HOLD | os.O_DIRECTORY, dir_fd=fds[0]))
            os.close(fds.pop(0))
        return fds[0]
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise


class Readable:
    """A file that the guest made unreadable for its owner, who is the host's user, readable for a while."""

    __slots__ = ("_directory", "_fd", "_name", "_status")

    def __init__(self, name: str, directory: int, status: os.stat_result) -> None:
        self._name, self._directory, self._status, self._fd = name, directory, status, -1

    def __enter__(self) -> None:
        mode = self._status.st_mode
        if mode & stat.S_IRUSR or not stat.S_ISREG(mode) or os.geteuid() == 0:
            return
        self._fd = os.open(self._name, _HOLD, dir_fd=self._directory)
        if not os.path.samestat(os.fstat(self._fd), self._status):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), self._name)
        os.chmod(path(self._fd), stat.S_IMODE(mode) | stat.S_IRUSR)

    def __exit__(self, *error: object) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.chmod(path(fd), stat.S_IMODE(self._status.st_mode))
            os.close(fd)
