"""The directory on disk in which a run's changes are kept, with `Policy.changes="disk"`. Host process, host's credentials.

It lies beside the directory that the guest works on, as `.sandbox-native-upper-INODE-…`: on the same disk, and in no place
that the guest sees. Its lock says that somebody still wants it: one that a killed host left is removed by the next run of
that kind.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from typing import Final

from sandbox_native.commit.place import RESERVED, require
from sandbox_native.commit.removal import remove_tree
from sandbox_native.descent import DIRECTORY

_NAME: Final = f"{RESERVED}upper"


@dataclass(slots=True)
class Upper:
    """`fd` is the directory, `path` where it is on the host."""

    fd: int
    path: str
    device: int
    inode: int
    above: int

    def close(self, *, remove: bool) -> None:
        """`remove`: nobody wants what is in it any more. Harmless when repeated."""
        if self.fd < 0:
            return
        if remove:
            remove_tree(self.above, os.path.basename(self.path))
        os.close(self.fd)
        os.close(self.above)
        self.fd = self.above = -1


def make(root: int, path: str, owner: tuple[int, int]) -> Upper:
    """Beside the directory `root`, which is at `path`; it becomes the `owner`'s. PolicyError where there is no room for it."""
    above = _beside(root, path)
    try:
        sweep(root, above)
        while (made := _make(root, path, above, owner)) is None:
            pass
        return made
    except BaseException:
        os.close(above)
        raise


def _make(root: int, path: str, above: int, owner: tuple[int, int]) -> Upper | None:
    """None when a sweep came before the lock."""
    name = f"{_prefix(root)}{os.urandom(8).hex()}"
    os.mkdir(name, 0o700, dir_fd=above)
    fd = os.open(name, DIRECTORY, dir_fd=above)
    try:
        if not _lock(fd) or (status := os.fstat(fd)).st_nlink == 0:
            remove_tree(above, name)
            os.close(fd)
            return None
        if (status.st_uid, status.st_gid) != owner:
            os.chown(fd, *owner)
        return Upper(fd, os.path.join(os.path.dirname(path), name), status.st_dev, status.st_ino, above)
    except BaseException:
        remove_tree(above, name)
        os.close(fd)
        raise


def _lock(fd: int) -> bool:
    """Without waiting: who sees the directory may hold a lock for as long as it likes."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _beside(root: int, path: str) -> int:
    remedy = f"changes are kept beside {path}: give a directory beneath one of your own, on the same mount"
    return require(root, path, field="Policy.changes", value="disk", remedy=remedy)


def _prefix(root: int) -> str:
    return f"{_NAME}-{os.fstat(root).st_ino}-"


def sweep(root: int, above: int) -> None:
    """Removes those of the directory `root` whose host is no more; `above` is the directory above it."""
    for name in os.listdir(above):
        if not name.startswith(_prefix(root)):
            continue
        try:
            fd = os.open(name, DIRECTORY, dir_fd=above)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(above, name)
        except BlockingIOError:
            continue
        finally:
            os.close(fd)
