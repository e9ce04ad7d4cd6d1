"""Where a commit is staged: beside the directory that is committed to. Host process, host's credentials.

`.sandbox-native-commit-INODE` lies in the directory above, is the caller's own and nobody else's, and on the mount of the
directory, so that what is staged can be renamed into it. A tree that guests see never holds it: whatever has a name of ours in
there is theirs, and has no effect. Where there is no such place nothing is committed (`require`, before a run).
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sandbox_native.commit import lock
from sandbox_native.commit.removal import remove_tree
from sandbox_native.descent import DIRECTORY
from sandbox_native.errors import PolicyError, SetupError
from sandbox_native.hostmounts import mount_id

RESERVED: Final = ".sandbox-native-"
"""Names that begin so are ours, in every directory: no guest's is committed."""

NAME: Final = f"{RESERVED}commit"
JOURNAL: Final = "journal"
NEW: Final = "new"
OLD: Final = "old"
_GET_GENERATION: Final = 0x80087601  # FS_IOC_GETVERSION
_NOT_A_PART: Final = (errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENOENT)
_TAKEN: Final = "commits are staged in a directory of that name, and what has it is not one of the caller's alone: remove it"
_ROOM: Final = "commits are staged there: let the caller write to the directory, which must be on the same mount and have room"


@dataclass(frozen=True, slots=True)
class Staging:
    """An open staging directory, with what is staged in `new` and what is moved aside in `old`."""

    fd: int
    above: int
    name: str
    new: int
    old: int

    @property
    def path(self) -> str:
        """For messages."""
        return lock.place(self.above, self.name)

    def remove(self) -> None:
        """The journal first: without it the rest is only waste, whoever finds it."""
        try:
            os.unlink(JOURNAL, dir_fd=self.fd)
        except (FileNotFoundError, IsADirectoryError):
            pass
        remove_tree(self.above, self.name)

    def close(self) -> None:
        for fd in (self.new, self.old, self.fd, self.above):
            os.close(fd)


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
        elif _is_taken(above, name_for(root)):
            reason = f"{os.path.join(where, name_for(root))} is not a directory of the caller's alone"
            remedy = "remove it"
        else:
            return above
        raise PolicyError(reason, field=field, value=value, remedy=remedy)
    except BaseException:
        os.close(above)
        raise


@contextmanager
def locked(root: int) -> Iterator[int]:
    """The directory, opened anew, with its lock held."""
    fd = os.open(".", DIRECTORY, dir_fd=root)
    try:
        above = os.open("..", DIRECTORY, dir_fd=fd)
        try:
            with lock.held(above, _lock_for(root)):
                yield fd
        finally:
            os.close(above)
    finally:
        os.close(fd)


def identity(root: int) -> list[int]:
    """What tells this directory from a later one with its inode number."""
    generation = array.array("l", [0])
    try:
        fcntl.ioctl(root, _GET_GENERATION, generation)
    except OSError:  # a file system that has none
        pass
    return [os.fstat(root).st_ino, generation[0]]


def name_for(root: int) -> str:
    return f"{NAME}-{os.fstat(root).st_ino}"


def _lock_for(root: int) -> str:
    return f"{RESERVED}lock-{os.fstat(root).st_ino}"


def found(root: int) -> bool:
    """Whether a commit left something, or is under way. In a directory that others may write to, they may have made what has
    the name: it is no business of ours."""
    try:
        above = os.open("..", DIRECTORY, dir_fd=root)
    except OSError:
        return False
    try:
        fd = _open(above, name_for(root))
        if fd is not None:
            os.close(fd)
        return fd is not None or lock.exists(above, _lock_for(root))
    finally:
        os.close(above)


def _open(above: int, name: str) -> int | None:
    """None unless it is a directory of the caller's own, which nobody else can get at."""
    try:
        fd = os.open(name, DIRECTORY, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return None
    status = os.fstat(fd)
    if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
        return fd
    os.close(fd)
    return None


def _is_taken(above: int, name: str) -> bool:
    """By what is not the caller's alone."""
    try:
        os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    fd = _open(above, name)
    if fd is not None:
        os.close(fd)
    return fd is None


def make(root: int) -> Staging:
    """An empty staging directory; what an earlier commit left is gone by now."""
    above, name = os.open("..", DIRECTORY, dir_fd=root), name_for(root)
    path = lock.place(above, name)
    try:
        if mount_id(above) != mount_id(root):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        os.mkdir(name, 0o700, dir_fd=above)
    except OSError as error:
        os.close(above)
        raise SetupError("commit", error.errno or 0, path, _TAKEN if error.errno == errno.EEXIST else _ROOM) from error
    staging = _staging(above, name)
    if staging is None:
        raise SetupError("commit", errno.ESTALE, path, "somebody else changes it: commit again")
    return staging


def reopen(root: int) -> Staging | None:
    """What a commit left. None where there is nothing of ours; what is not as we make it is thrown away."""
    return _staging(os.open("..", DIRECTORY, dir_fd=root), name_for(root))


def _staging(above: int, name: str) -> Staging | None:
    """Takes `above` over."""
    fds = [above]
    try:
        fd = _open(above, name)
        if fd is not None:
            fds.append(fd)
            fds += (_part(fd, part) for part in (NEW, OLD))
            return Staging(fd=fd, above=above, name=name, new=fds[2], old=fds[3])
    except OSError as error:
        _close(fds)
        if error.errno not in _NOT_A_PART:
            raise
        return None
    except BaseException:
        _close(fds)
        raise
    _close(fds)
    return None


def _part(fd: int, name: str) -> int:
    try:
        os.mkdir(name, 0o700, dir_fd=fd)
    except FileExistsError:
        pass
    return os.open(name, DIRECTORY, dir_fd=fd)


def throw_away(root: int) -> bool:
    """Whatever is in the staging directory, if that is the caller's; whether there was one."""
    above = os.open("..", DIRECTORY, dir_fd=root)
    try:
        fd = _open(above, name_for(root))
        if fd is None:
            return False
        os.close(fd)
        remove_tree(above, name_for(root))
        return True
    finally:
        os.close(above)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
