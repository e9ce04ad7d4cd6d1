"""Copies a guest's file to another file system: bytes, holes, attributes, owner, mode and times. For staging.py."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import Final

from sandbox_native.commit import marks
from sandbox_native.commit.handles import held, path

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PART: Final = 64 << 20
# copy_file_range between these two: not on this kernel, not between these file systems.
_OTHERWISE: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF})
_NO_LINK: Final = frozenset({errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENAMETOOLONG})
_NO_ATTRIBUTES: Final = frozenset({errno.ENOTSUP, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.E2BIG, errno.ERANGE})


def copy_file(name: str, source: int, new: str, into: int, owner: tuple[int, int], durable: bool) -> bool:
    """The file `name` of a directory as `new` in another, on disk on return if `durable`. False: not all attributes were kept."""
    fd = os.open(name, _READ, dir_fd=source)
    try:
        made = os.open(new, _MAKE, 0o600, dir_fd=into)
        try:
            status = os.fstat(fd)
            _copy_data(fd, made, status)
            kept = set_attributes(made, marks.attributes(fd))
            give(made, owner)
            os.fchmod(made, stat.S_IMODE(status.st_mode) & 0o1777)
            os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
            if durable:
                os.fsync(made)
            return kept
        finally:
            os.close(made)
    finally:
        os.close(fd)


def adopt(name: str, source: int, new: str, into: int, owner: tuple[int, int], durable: bool) -> bool:
    """The guest's file itself, where the two directories are on one file system: it gets a second name. False where it gets none.

    Nobody writes to it any more, and the guest's own name for it is thrown away after the commit.
    """
    try:
        os.link(name, new, src_dir_fd=source, dst_dir_fd=into, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return False
    fd = os.open(new, _READ, dir_fd=into)
    try:
        marks.remove_marks(fd)
        give(fd, owner)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    return True


def copy_link(text: str, status: os.stat_result, new: str, into: int, owner: tuple[int, int]) -> None:
    os.symlink(text, new, dir_fd=into)
    with held(new, into) as fd:
        made = os.fstat(fd)
        if not stat.S_ISLNK(made.st_mode):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), new)
        if (made.st_uid, made.st_gid) != owner:
            os.chown(path(fd), *owner)
        os.utime(path(fd), ns=(status.st_atime_ns, status.st_mtime_ns))


def give(fd: int, owner: tuple[int, int]) -> None:
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != owner:
        os.chown(fd, *owner)


def set_attributes(fd: int, wanted: Mapping[str, bytes]) -> bool:
    """Makes the guest's attributes of a file or directory these. False when its file system does not take all of them."""
    kept = True
    for name in marks.attributes(fd).keys() - wanted.keys():
        os.removexattr(fd, name)
    for name, value in wanted.items():
        try:
            os.setxattr(fd, name, value)
        except OSError as error:
            if error.errno not in _NO_ATTRIBUTES:
                raise
            kept = False
    return kept


def _copy_data(fd: int, made: int, status: os.stat_result) -> None:
    if status.st_blocks * 512 >= status.st_size:
        _copy_range(fd, made, 0, status.st_size)
        return
    os.truncate(made, status.st_size)
    at = 0
    while at < status.st_size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end
                return
            raise
        at = min(os.lseek(fd, start, os.SEEK_HOLE), status.st_size)
        _copy_range(fd, made, start, at - start)


def _copy_range(fd: int, made: int, at: int, size: int) -> None:
    """By the kernel: sharing blocks where the file system can, else without a way through this process."""
    end = at + size
    shared = True
    os.lseek(made, at, os.SEEK_SET)
    while at < end:
        part = min(end - at, _PART)
        if shared:
            try:
                done = os.copy_file_range(fd, made, part, at, at)
            except OSError as error:
                if error.errno not in _OTHERWISE:
                    raise
                done = 0
            shared = done > 0
            if shared:
                at += done
                os.lseek(made, at, os.SEEK_SET)
                continue
        done = os.sendfile(made, fd, at, part)
        if done == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        at += done
