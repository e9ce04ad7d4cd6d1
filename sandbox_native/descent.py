"""Down and up a tree of directories with few descriptors, however deep it is. Host process.

Used by snapshots.py, quarantine.py, workspace.py, files.py and commit/ on trees that a guest made, so nothing is opened by
path: each directory is opened beneath the one before, following no link, and the way back is by `..`, which counts only when
it leads to the very directory that the walk came through (device and inode).
"""

from __future__ import annotations

import errno
import os
from types import TracebackType
from typing import Final, Self

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
WAY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""For a walk that knows the names: the directories on its way need not be readable."""
# The last ones: in a tree of usual depth every way up is at hand. At least 2: a directory that may be read but not entered (no
# `..` either) is then always left by a descriptor.
_OPEN: Final = 8


class Descent:
    """Where a walk stands. `root` stays the caller's; a context manager that closes the rest."""

    def __init__(self, root: int, how: int = DIRECTORY) -> None:
        self._how = how
        self._fds = [root]  # of each level; -1 for one that is closed meanwhile
        self._identities = [_identity(root)]
        self._names: list[str] = []

    @property
    def fd(self) -> int:
        """Of the directory where it stands."""
        return self._fds[-1]

    @property
    def root(self) -> int:
        return self._fds[0]

    def path(self, name: str) -> str:
        """Of an entry here, from the root."""
        return "/".join((*self._names, name))

    def down(self, name: str) -> None:
        """Into the directory `name`. OSError when it is none (a link is none) or may not be read: it stays where it is then."""
        fd = os.open(name, self._how, dir_fd=self.fd)
        self._fds.append(fd)
        self._identities.append(_identity(fd))
        self._names.append(name)
        far = len(self._fds) - 1 - _OPEN
        if far > 0 and self._fds[far] >= 0:
            os.close(self._fds[far])
            self._fds[far] = -1

    def up(self) -> None:
        """Back to the directory above. OSError(ESTALE) when somebody moved this one away meanwhile: the walk is at its end."""
        if self._fds[-2] < 0:
            above = os.open("..", self._how, dir_fd=self.fd)
            if _identity(above) != self._identities[-2]:
                os.close(above)
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            self._fds[-2] = above
        os.close(self._fds.pop())
        self._identities.pop()
        self._names.pop()

    def up_by_name(self) -> int:
        """As `up` where that is not possible: by the names from the root, as far as they lead. How deep it stands then."""
        names = self._names[:-1]
        self._close()
        for name in names:
            try:
                self.down(name)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise
                break
        return len(self._names)

    def _close(self) -> None:
        while len(self._fds) > 1:
            fd = self._fds.pop()
            if fd >= 0:
                os.close(fd)
        del self._identities[1:], self._names[:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
