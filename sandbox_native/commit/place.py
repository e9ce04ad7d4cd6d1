"""Where a commit is staged: beside the directory that is committed to. Host process, host's credentials.

`.sandbox-native-commit-…` lies in the directory above, is the caller's own and nobody else's, and on the mount of the
directory, so that what is staged can be renamed into it. Which one it is, and what is to be done with it, is said elsewhere
(state.py): whatever else has a name of ours has no effect. Where there is no such place nothing is committed (`require`, before
a run).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sandbox_native import notes, state
from sandbox_native.commit import lock
from sandbox_native.commit.removal import remove_tree
from sandbox_native.descent import DIRECTORY
from sandbox_native.errors import PolicyError, SetupError
from sandbox_native.hostmounts import mount_id
from sandbox_native.state import Kept

RESERVED: Final = ".sandbox-native-"
"""Names that begin so are ours, in every directory: no guest's is committed."""

NAME: Final = f"{RESERVED}commit"
NEW: Final = "new"
OLD: Final = "old"
_RECORD: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_A_PART: Final = (errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENOENT)
_ROOM: Final = "commits are staged there: let the caller write to the directory, which must be on the same mount and have room"


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that is committed to, opened anew and locked; what is remembered of it, and the directory above."""

    root: int
    above: int
    kept: Kept

    def remove_left(self) -> bool:
        """Staging directories that are remembered; whether there were any."""
        names = self.kept.names(NAME)
        for name in names:
            if remove_tree(self.above, name):
                self.kept.forget(name)
        return bool(names)


@dataclass(frozen=True, slots=True)
class Staging:
    """An open staging directory, with what is staged in `new` and what is moved aside in `old`."""

    fd: int
    name: str
    new: int
    old: int

    @property
    def path(self) -> str:
        """For messages."""
        return os.readlink(f"/proc/self/fd/{self.fd}")

    def close(self) -> None:
        _close([self.new, self.old, self.fd])


def require(root: int, path: str, *, field: str, value: str, remedy: str) -> int:
    """The directory above, where there can be a staging directory for `root`, which is at `path`. Else PolicyError."""
    above = os.open("..", DIRECTORY, dir_fd=root)
    try:
        status = os.fstat(above)
        where = os.path.dirname(path)
        if os.path.samestat(status, os.fstat(root)):
            reason = f"there is no directory above {path}"
        elif status.st_dev != os.fstat(root).st_dev or mount_id(above) != mount_id(root):
            reason = f"the directory above, {where}, is on another file system or mount than {path}"
        elif not os.access(".", os.W_OK | os.X_OK, dir_fd=above, effective_ids=True):
            reason = f"the directory above, {where}, may not be written"
        else:
            return above
        raise PolicyError(reason, field=field, value=value, remedy=remedy)
    except BaseException:
        os.close(above)
        raise


@contextmanager
def locked(root: int) -> Iterator[Place]:
    with lock.held(root) as kept:
        fd = os.open(".", DIRECTORY, dir_fd=root)
        try:
            above = os.open("..", DIRECTORY, dir_fd=fd)
            try:
                yield Place(fd, above, kept)
            finally:
                os.close(above)
        finally:
            os.close(fd)


def found(root: int) -> bool:
    """Whether a commit or a run left something, or a commit is under way."""
    kept = state.look(root)
    if kept is None:
        return False
    try:
        return any(not name.startswith(notes.PREFIX) for name in kept.names())
    finally:
        kept.close()


def make(place: Place) -> Staging:
    """An empty staging directory; what an earlier commit left is gone by now."""
    name = f"{NAME}-{os.urandom(6).hex()}"
    try:
        if mount_id(place.above) != mount_id(place.root):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        with place.kept.naming(name):
            os.close(os.open(place.kept.file(name), _RECORD, 0o600, dir_fd=place.kept.fd))
        os.mkdir(name, 0o700, dir_fd=place.above)
        return _staging(place, name, fresh=True)
    except OSError as error:
        place.remove_left()
        if isinstance(error, SetupError):
            raise
        path = os.path.join(os.readlink(f"/proc/self/fd/{place.above}"), name)
        raise SetupError("commit", error.errno or 0, path, _ROOM) from error


def reopen(place: Place, name: str, identity: list[int]) -> Staging | None:
    """What a commit left. None where that is gone, or another has its name."""
    try:
        staging = _staging(place, name)
    except OSError as error:
        if error.errno not in _NOT_A_PART:
            raise
        return None
    if state.identity(staging.fd) == identity:
        return staging
    staging.close()
    return None


def _staging(place: Place, name: str, *, fresh: bool = False) -> Staging:
    fds: list[int] = []
    try:
        fds.append(_open(place.above, name))
        for part in (NEW, OLD) if fresh else ():
            os.mkdir(part, 0o700, dir_fd=fds[0])
        fds += (os.open(part, DIRECTORY, dir_fd=fds[0]) for part in (NEW, OLD))
        return Staging(fd=fds[0], name=name, new=fds[1], old=fds[2])
    except BaseException:
        _close(fds)
        raise


def _open(above: int, name: str) -> int:
    """A directory of the caller's own, which nobody else can get at."""
    fd = os.open(name, DIRECTORY, dir_fd=above)
    status = os.fstat(fd)
    if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
        return fd
    os.close(fd)
    raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
