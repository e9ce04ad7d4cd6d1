"""The directory that is committed to: its lock, and where a commit is staged. Host process, host's credentials.

Staged is beside the directory, so that nothing of it is ever seen there: as `.sandbox-native-commit-INODE` in the directory
above. Where that is on another mount or not the caller's to write, it is inside, as `.sandbox-native-commit`; a guest may not
commit such a name, and does not see it either, since whatever is found there is dealt with before a run begins.

The lock is flock(2) on the directory itself: one commit at a time, and nobody takes a commit that is under way for one that was
interrupted. It ends with its process, or with an explicit unlock even where a forked child still holds a copy.
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

from sandbox_native.commit.removal import remove_tree
from sandbox_native.descent import DIRECTORY

RESERVED: Final = ".sandbox-native-"
"""Names that begin so are ours, in every directory: no guest's is committed."""

NAME: Final = f"{RESERVED}commit"
JOURNAL: Final = "journal"
NEW: Final = "new"
OLD: Final = "old"
_GET_GENERATION: Final = 0x80087601  # FS_IOC_GETVERSION
_NOT_OURS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class Staging:
    """An open staging directory, with what is staged in `new` and what is moved aside in `old`."""

    fd: int
    above: int
    name: str
    new: int
    old: int

    def remove(self) -> None:
        """The journal first: without it the rest is only waste, whoever finds it."""
        try:
            os.unlink(JOURNAL, dir_fd=self.fd)
        except FileNotFoundError:
            pass
        remove_tree(self.above, self.name)

    def close(self) -> None:
        for fd in (self.new, self.old, self.fd, self.above):
            os.close(fd)


@contextmanager
def locked(root: int) -> Iterator[int]:
    """The directory, opened anew and locked."""
    fd = os.open(".", DIRECTORY, dir_fd=root)
    _HELD.add(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            yield fd
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        _HELD.discard(fd)
        os.close(fd)


def identity(root: int) -> list[int]:
    """What tells this directory from a later one with its inode number."""
    generation = array.array("l", [0])
    try:
        fcntl.ioctl(root, _GET_GENERATION, generation)
    except OSError:  # a file system that has none
        pass
    return [os.fstat(root).st_ino, generation[0]]


def spots(root: int) -> tuple[str, str]:
    """Where a staging directory may be, seen from the directory."""
    return f"../{NAME}-{os.fstat(root).st_ino}", NAME


def found(root: int) -> list[str]:
    """Those that there are: what a commit left, or has under way."""
    return [path for path in spots(root) if _is_ours(root, path)]


def _is_ours(root: int, path: str) -> bool:
    """In a directory that others may write to, they may have made one: it is no business of ours."""
    try:
        status = os.stat(path, dir_fd=root, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def make(root: int) -> Staging:
    """An empty staging directory; what an earlier commit left is gone by now."""
    beside, inside = spots(root)
    if same_mount(root):
        try:
            os.mkdir(beside, 0o700, dir_fd=root)
            return reopen(root, beside)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
    os.mkdir(inside, 0o700, dir_fd=root)
    return reopen(root, inside)


def reopen(root: int, path: str) -> Staging:
    above, _, name = path.rpartition("/")
    fds: list[int] = []
    try:
        fds.append(os.open(above or ".", DIRECTORY, dir_fd=root))
        fds.append(os.open(name, DIRECTORY, dir_fd=fds[0]))
        for part in (NEW, OLD):
            try:
                os.mkdir(part, 0o700, dir_fd=fds[1])
            except FileExistsError:
                pass
            fds.append(os.open(part, DIRECTORY, dir_fd=fds[1]))
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    return Staging(fd=fds[1], above=fds[0], name=name, new=fds[2], old=fds[3])


def same_mount(root: int) -> bool:
    """Whether a rename from the directory above into this one is possible."""
    try:
        above = os.open("..", DIRECTORY, dir_fd=root)
    except OSError:
        return False
    try:
        return _mount(above) == _mount(root) and not os.path.samestat(os.fstat(above), os.fstat(root))
    finally:
        os.close(above)


def _mount(fd: int) -> str:
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
        return next((line for line in file if line.startswith("mnt_id:")), "")


# In a forked child the lock is the parent's, and would be held by both.
_HELD: Final[set[int]] = set()


def _after_fork() -> None:
    for fd in _HELD:
        os.close(fd)
    _HELD.clear()


os.register_at_fork(after_in_child=_after_fork)
