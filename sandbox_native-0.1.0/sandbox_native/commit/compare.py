"""Whether a file that an overlay copied up differs from the host's own. Host process; called by tree.py."""

from __future__ import annotations

import os
import stat
from typing import Final

from sandbox_native.commit import marks

_PART: Final = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def same_content(name: str, above: int, below: int) -> bool:
    """Two regular files of that name: bytes, mode and the guest's attributes. One that the host may not read differs."""
    fd = os.open(name, _READ, dir_fd=above)
    try:
        try:
            other = os.open(name, _READ, dir_fd=below)
        except OSError:
            return False
        try:
            return _same(fd, other)
        finally:
            os.close(other)
    finally:
        os.close(fd)


def _same(fd: int, other: int) -> bool:
    after, before = os.fstat(fd), os.fstat(other)
    if after.st_size != before.st_size or stat.S_IMODE(after.st_mode) != stat.S_IMODE(before.st_mode):
        return False
    if not same_attributes(fd, other):
        return False
    left = after.st_size
    while left > 0:
        part = os.read(fd, _PART)
        if not part or part != os.read(other, _PART):
            return False
        left -= len(part)
    return True


def same_attributes(fd: int, other: int) -> bool:
    return marks.attributes(fd) == marks.attributes(other)
